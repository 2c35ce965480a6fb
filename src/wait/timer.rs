//! A sleep to an instant.

#[cfg(not(pool_shuttle))]
pub(super) use self::on_tokio::Timer;

#[cfg(pool_shuttle)]
pub(super) use self::never::Timer;

#[cfg(not(pool_shuttle))]
mod on_tokio {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::time::Sleep;

    use crate::time::Timestamp;

    /// Sleeps on tokio's time, which is taken to run as the pool's clock does.
    #[derive(Debug, Default)]
    pub(crate) struct Timer {
        sleep: Option<Pin<Box<Sleep>>>,
        /// What it sleeps to; `None` when it has to be set.
        at: Option<Timestamp>,
    }

    impl Timer {
        /// Ready at `at`, to be looked at again then.
        pub(crate) fn poll(
            &mut self,
            at: Timestamp,
            now: Timestamp,
            cx: &mut Context<'_>,
        ) -> Poll<()> {
            if at == Timestamp::MAX {
                return Poll::Pending;
            }
            if self.at != Some(at) {
                let sleep = tokio::time::sleep(at.since(now).into());
                match &mut self.sleep {
                    Some(before) => before.as_mut().set(sleep),
                    None => self.sleep = Some(Box::pin(sleep)),
                }
                self.at = Some(at);
            }
            let Some(sleep) = &mut self.sleep else { return Poll::Pending };
            let poll = sleep.as_mut().poll(cx);
            if poll.is_ready() {
                self.at = None;
            }
            poll
        }
    }
}

#[cfg(pool_shuttle)]
mod never {
    use std::task::{Context, Poll};

    use crate::time::Timestamp;

    /// Time stands still where interleavings are explored.
    #[derive(Debug, Default)]
    pub(crate) struct Timer(());

    impl Timer {
        pub(crate) fn poll(&self, _: Timestamp, _: Timestamp, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
}
