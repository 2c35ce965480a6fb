//! What an account carries right now.

use crate::state::rare::Rare;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// Leases held.
    pub(crate) in_flight: u32,
    /// When it was last selected; zero when never.
    pub(crate) last_used: Timestamp,
    /// The selection count at that time; zero when never.
    pub(crate) turn: u64,
    /// Bindings whose first account it is.
    pub(crate) bound: u32,
    waiters: Rare<Vec<Waiter>>,
}

/// A request that waits for the account; counted until its deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waiter {
    sequence: u64,
    deadline: Timestamp,
}

impl Load {
    /// Requests that wait for the account, leaving out `except`.
    pub(crate) fn waiting(&self, except: Option<u64>, now: Timestamp) -> usize {
        let live = self.queue().iter().filter(|waiter| now < waiter.deadline);
        live.filter(|waiter| Some(waiter.sequence) != except).count()
    }

    /// The requests in the queue with their deadlines.
    #[cfg(feature = "journal")]
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (u64, Timestamp)> {
        self.queue().iter().map(|waiter| (waiter.sequence, waiter.deadline))
    }

    fn queue(&self) -> &[Waiter] {
        self.waiters.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn enqueue(&mut self, sequence: u64, deadline: Timestamp, now: Timestamp) {
        let waiters = self.waiters.make();
        waiters.retain(|waiter| now < waiter.deadline);
        waiters.push(Waiter { sequence, deadline });
    }

    /// Takes a waiter out; whether it was there.
    pub(crate) fn dequeue(&mut self, sequence: u64) -> bool {
        let Some(waiters) = self.waiters.get_mut() else {
            return false;
        };
        let before = waiters.len();
        waiters.retain(|waiter| waiter.sequence != sequence);
        waiters.len() < before
    }
}
