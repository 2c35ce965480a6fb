//! What the threads share: a pool, or the bare lock.

use std::cell::Cell;
use std::hint::black_box;

use account_pool::{
    Clock, Lease, Outcome, Pool, Request, Scheduler, SystemClock, Ticket, Timestamp,
};
use parking_lot::Mutex;

use crate::workload::Workload;
use crate::workload::drive::around;
use crate::workload::setup::prepared;

/// Something that selects and settles for several threads.
pub(crate) trait Target: Sync {
    /// What a selection holds until it is settled.
    type Held;

    fn select(&self, request: &Request<'_>, now: Timestamp) -> Self::Held;
    fn settle(&self, held: Self::Held, now: Timestamp);
}

/// A lock with a scheduler in it and nothing around it.
pub(crate) fn bare(workload: Workload, accounts: usize) -> impl Target {
    Mutex::new(prepared(workload, accounts).0)
}

impl Target for Mutex<Scheduler> {
    type Held = Ticket;

    fn select(&self, request: &Request<'_>, now: Timestamp) -> Ticket {
        let granted = self.lock().select(request, now);
        granted.unwrap().ticket
    }

    fn settle(&self, ticket: Ticket, now: Timestamp) {
        self.lock().settle(ticket, &Outcome::success(), now);
    }
}

/// A pool that reads the machine's clock.
pub(crate) fn pooled(workload: Workload, accounts: usize) -> impl Target {
    let (scheduler, now) = prepared(workload, accounts);
    NOW.set(now);
    around(&scheduler, now, ThreadClock(SystemClock::new()))
}

impl Target for Pool<(), ThreadClock> {
    type Held = Lease;

    fn select(&self, request: &Request<'_>, now: Timestamp) -> Lease {
        NOW.set(now);
        self.select(request).unwrap()
    }

    fn settle(&self, lease: Lease, now: Timestamp) {
        NOW.set(now);
        lease.settle(Outcome::success());
    }
}

thread_local! {
    static NOW: Cell<Timestamp> = const { Cell::new(Timestamp::ZERO) };
}

/// Reads the machine's clock, for what that costs, and answers the thread's own time, which
/// threads need not share.
#[derive(Debug)]
struct ThreadClock(SystemClock);

impl Clock for ThreadClock {
    fn now(&self) -> Timestamp {
        black_box(self.0.now());
        NOW.get()
    }
}
