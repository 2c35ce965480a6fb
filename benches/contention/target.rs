//! What the threads share: a pool, or the bare lock.

use account_pool::{Clock, Config, Lease, Outcome, Pool, Request, Scheduler, Ticket, Timestamp};
use parking_lot::Mutex;

use crate::workload::Workload;
use crate::workload::drive::around;
use crate::workload::pace::PacedClock;
use crate::workload::setup::prepared;

/// Something that selects and settles for several threads.
pub(crate) trait Target: Sync {
    /// What a selection holds until it is settled.
    type Held;

    /// Tells the time, where it is not told with each call.
    fn set_time(&self, now: Timestamp);
    fn select(&self, request: &Request<'_>, now: Timestamp) -> Self::Held;
    fn settle(&self, held: Self::Held, now: Timestamp);
    fn set_config(&self, config: Config, now: Timestamp);
}

/// A lock with a scheduler in it and nothing around it.
pub(crate) fn bare(workload: Workload, accounts: usize) -> impl Target {
    Mutex::new(prepared(workload, accounts).0)
}

impl Target for Mutex<Scheduler> {
    type Held = Ticket;

    fn set_time(&self, _: Timestamp) {}

    fn select(&self, request: &Request<'_>, now: Timestamp) -> Ticket {
        let granted = self.lock().select(request, now);
        granted.unwrap().ticket
    }

    fn settle(&self, ticket: Ticket, now: Timestamp) {
        self.lock().settle(ticket, &Outcome::success(), now);
    }

    fn set_config(&self, config: Config, now: Timestamp) {
        self.lock().set_config(config, now).unwrap();
    }
}

/// The same, with the machine's clock read before the lock is taken.
pub(crate) fn clocked(workload: Workload, accounts: usize) -> impl Target {
    let (scheduler, now) = prepared(workload, accounts);
    Clocked { clock: PacedClock::new(now), lock: Mutex::new(scheduler) }
}

struct Clocked {
    clock: PacedClock,
    lock: Mutex<Scheduler>,
}

impl Target for Clocked {
    type Held = Ticket;

    fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }

    fn select(&self, request: &Request<'_>, _: Timestamp) -> Ticket {
        self.lock.select(request, self.clock.now())
    }

    fn settle(&self, ticket: Ticket, _: Timestamp) {
        Target::settle(&self.lock, ticket, self.clock.now());
    }

    fn set_config(&self, config: Config, _: Timestamp) {
        Target::set_config(&self.lock, config, self.clock.now());
    }
}

/// A pool that reads the machine's clock.
pub(crate) fn pooled(workload: Workload, accounts: usize) -> impl Target {
    let (scheduler, now) = prepared(workload, accounts);
    around(&scheduler, now, PacedClock::new(now))
}

impl Target for Pool<(), PacedClock> {
    type Held = Lease;

    fn set_time(&self, now: Timestamp) {
        self.clock().set(now);
    }

    fn select(&self, request: &Request<'_>, _: Timestamp) -> Lease {
        self.select(request).unwrap()
    }

    fn settle(&self, lease: Lease, _: Timestamp) {
        lease.settle(Outcome::success());
    }

    fn set_config(&self, config: Config, _: Timestamp) {
        self.set_config(config).unwrap();
    }
}
