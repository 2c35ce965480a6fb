//! Time at the pace of a workload.

use std::hint::black_box;

use account_pool::{Clock, ManualClock, SystemClock, Timestamp};

use super::{CONVERSATIONS, Workload};

/// When every workload starts.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000_000);

/// Requests per minute and account that carries load: half of what it is allowed.
pub(crate) const PER_MINUTE: u64 = 30;

const MINUTE_IN_NANOS: u64 = 60_000_000_000;

/// Time that moves by an exact fraction of a millisecond per request.
#[derive(Clone, Debug)]
pub(crate) struct Ticker {
    nanos: u64,
    step: u64,
}

impl Ticker {
    /// The pace at which each of `accounts` gets [`PER_MINUTE`] requests a minute.
    pub(crate) fn new(accounts: usize, start: Timestamp) -> Self {
        let step = MINUTE_IN_NANOS / (PER_MINUTE * accounts as u64);
        Self { nanos: start.as_millis() * 1_000_000, step }
    }

    /// The pace of a workload on so many accounts.
    pub(crate) fn of(workload: Workload, accounts: usize, start: Timestamp) -> Self {
        match workload {
            Workload::NearlyNone => Self::new(1, start),
            Workload::Bound => Self::new(accounts.min(CONVERSATIONS), start),
            Workload::RateFull => Self { step: 0, ..Self::new(accounts, start) },
            _ => Self::new(accounts, start),
        }
    }

    pub(crate) fn tick(&mut self) -> Timestamp {
        self.skip(1)
    }

    /// Goes on by so many requests at once.
    pub(crate) fn skip(&mut self, requests: u64) -> Timestamp {
        self.nanos += self.step * requests;
        self.now()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.nanos / 1_000_000)
    }
}

/// Reads one of the machine's clocks, for what that costs, and answers the workload's time, so
/// that the pool sees the same load however fast the machine is.
#[derive(Clone, Debug)]
pub(crate) struct PacedClock<R = SystemClock> {
    real: R,
    paced: ManualClock,
}

impl PacedClock {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self::reading(SystemClock::new(), now)
    }
}

impl<R> PacedClock<R> {
    pub(crate) fn reading(real: R, now: Timestamp) -> Self {
        Self { real, paced: ManualClock::new(now) }
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.paced.set(now);
    }
}

impl<R: Clock> Clock for PacedClock<R> {
    fn now(&self) -> Timestamp {
        black_box(self.real.now());
        self.paced.now()
    }
}
