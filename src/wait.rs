//! Waiting for an account: the future over the waiting room.

mod timer;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use self::timer::Timer;
use crate::clock::Clock;
use crate::lease::Lease;
use crate::refusal::Unavailable;
use crate::request::Request;
use crate::room::Stand;
use crate::shared::{Handle, State};
use crate::time::{Millis, Timestamp};

/// How long a request may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// From the first poll.
    Span(Millis),
    Deadline(Timestamp),
}

/// The future of [`Pool::acquire`](crate::Pool::acquire) and
/// [`Pool::acquire_by`](crate::Pool::acquire_by). Nothing happens before it is first polled.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire<'r, T: Send + Sync + 'static, C: Clock> {
    pool: Weak<Handle<T, C>>,
    request: Request<'r>,
    patience: Patience,
    /// Its number in the waiting room.
    id: Option<u64>,
    timer: Timer,
    /// When it was last polled.
    seen: Timestamp,
}

/// What a look into the pool came to.
enum Look<T> {
    Served(Lease<T>),
    Waits(Timestamp),
    Refused(Unavailable),
}

impl<'r, T: Send + Sync + 'static, C: Clock> Acquire<'r, T, C> {
    pub(crate) fn new(pool: &Arc<Handle<T, C>>, request: &Request<'r>, patience: Patience) -> Self {
        Self {
            pool: Arc::downgrade(pool),
            request: *request,
            patience,
            id: None,
            timer: Timer::default(),
            seen: Timestamp::ZERO,
        }
    }

    fn look(&mut self, waker: &Waker, state: &mut State<T>, now: Timestamp) -> Look<T> {
        self.seen = now;
        let deadline = match self.patience {
            Patience::Span(span) => now.plus(span),
            Patience::Deadline(deadline) => deadline,
        };
        self.patience = Patience::Deadline(deadline);
        loop {
            let scheduler = &mut state.scheduler;
            let stand = match self.id.take() {
                None => state.room.enter(&self.request, deadline, waker, scheduler, now),
                Some(id) => state.room.look(id, waker, scheduler, now),
            };
            match stand {
                Stand::Refused(refusal) => return Look::Refused(refusal),
                Stand::Waits(id, at) => {
                    self.id = Some(id);
                    return Look::Waits(at);
                }
                Stand::Served(reserved) => match state.member(reserved.ticket.slot) {
                    Some(member) => {
                        return Look::Served(Lease::of(reserved, Arc::clone(member)));
                    }
                    // The account was removed after it was reserved.
                    None => drop(state.scheduler.abandon(reserved.ticket, now)),
                },
            }
        }
    }
}

impl<T: Send + Sync + 'static, C: Clock> Future for Acquire<'_, T, C> {
    type Output = Result<Lease<T>, Unavailable>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let Some(pool) = this.pool.upgrade() else {
                return Poll::Ready(Err(Unavailable::new(this.seen)));
            };
            let look = pool.run_alone(|state, now| this.look(cx.waker(), state, now));
            let at = match look {
                Look::Served(lease) => return Poll::Ready(Ok(lease)),
                Look::Refused(refusal) => return Poll::Ready(Err(refusal)),
                Look::Waits(at) => at,
            };
            drop(pool);
            if this.timer.poll(at, this.seen, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<T: Send + Sync + 'static, C: Clock> Drop for Acquire<'_, T, C> {
    fn drop(&mut self) {
        if let Some(id) = self.id
            && let Some(pool) = self.pool.upgrade()
        {
            pool.run(|state, now| state.room.leave(id, &mut state.scheduler, now));
        }
    }
}

impl<T: Send + Sync + 'static, C: Clock> fmt::Debug for Acquire<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("patience", &self.patience)
            .field("waits", &self.id.is_some())
            .finish_non_exhaustive()
    }
}
