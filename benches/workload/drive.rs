//! A workload with a scheduler or a pool to run it on: one `select` and `settle` at a time.

use account_pool::{Clock, Outcome, Pool, Preview, Scheduler, SystemClock, Timestamp, Unavailable};

use super::Workload;
use super::pace::{PacedClock, Ticker};
use super::requests::{Requests, Spelling};
use super::setup::prepared;

/// So many pairs make a pool warm: names are known, logs have their first entries.
const WARM_UP: usize = 200;

/// A workload on a [`Scheduler`], with callers hashed before.
#[derive(Clone, Debug)]
pub(crate) struct OnScheduler {
    pub(crate) scheduler: Scheduler,
    requests: Requests,
    ticker: Ticker,
}

impl OnScheduler {
    /// A warm one.
    pub(crate) fn new(workload: Workload, accounts: usize) -> Self {
        let (scheduler, now) = prepared(workload, accounts);
        let mut it = Self {
            scheduler,
            requests: Requests::new(workload, Spelling::Hashed, accounts),
            ticker: Ticker::of(workload, accounts, now),
        };
        for _ in 0..WARM_UP {
            assert_eq!(it.pair(), workload.is_served(), "{workload:?} on {accounts} accounts");
        }
        it
    }

    /// Selects and settles, or is refused; whether it was served.
    #[inline]
    pub(crate) fn pair(&mut self) -> bool {
        let now = self.ticker.tick();
        let granted = self.scheduler.select(&self.requests.draw(), now);
        // Where it lies: to move it is no part of what is measured.
        if let Ok(grant) = &granted {
            self.scheduler.settle(grant.ticket, &Outcome::success(), now);
        }
        granted.is_ok()
    }

    /// Previews the next request.
    pub(crate) fn preview(&mut self) -> Result<Preview, Unavailable> {
        let now = self.ticker.now();
        self.scheduler.preview(&self.requests.draw(), now)
    }
}

/// A workload through a [`Pool`] that reads a clock of the machine, with callers as text.
#[derive(Debug)]
pub(crate) struct OnPool<R: Clock = SystemClock> {
    pub(crate) pool: Pool<(), PacedClock<R>>,
    requests: Requests,
    ticker: Ticker,
}

impl OnPool {
    /// A warm one.
    pub(crate) fn new(workload: Workload, accounts: usize) -> Self {
        Self::reading(SystemClock::new(), workload, accounts)
    }
}

impl<R: Clock> OnPool<R> {
    /// A warm one that reads this clock.
    pub(crate) fn reading(real: R, workload: Workload, accounts: usize) -> Self {
        let (scheduler, now) = prepared(workload, accounts);
        let mut it = Self {
            pool: around(&scheduler, now, PacedClock::reading(real, now)),
            requests: Requests::new(workload, Spelling::Text, accounts),
            ticker: Ticker::of(workload, accounts, now),
        };
        for _ in 0..WARM_UP {
            assert_eq!(it.pair(), workload.is_served(), "{workload:?} on {accounts} accounts");
        }
        it
    }

    /// Selects and settles, or is refused; whether it was served.
    #[inline]
    pub(crate) fn pair(&mut self) -> bool {
        self.pool.clock().set(self.ticker.tick());
        match self.pool.select(&self.requests.draw()) {
            Ok(lease) => {
                lease.settle(Outcome::success());
                true
            }
            Err(_) => false,
        }
    }
}

/// A pool in the state of a scheduler at `now`.
pub(crate) fn around<C: Clock>(scheduler: &Scheduler, now: Timestamp, clock: C) -> Pool<(), C> {
    let (config, snapshot) = (scheduler.config().clone(), scheduler.snapshot(now));
    let (pool, left_out) = Pool::restore(config, &snapshot, clock, |_| Some(())).unwrap();
    assert!(left_out.is_empty());
    pool
}
