//! The newest quota reading of one account.

use arrayvec::ArrayVec;

use crate::config::QuotaPolicy;
use crate::outcome::{QuotaReading, QuotaWindow};
use crate::time::Timestamp;

/// What a reading says about serving.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Evidence {
    /// Nothing.
    Unknown,
    /// There is quota, or balance to spend.
    Available,
    /// There is none until then.
    Dry { until: Timestamp },
}

/// Out of line, and absent until there is something to store: most accounts of a large pool have
/// no reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Quota(Option<Box<Newest>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Newest {
    windows: ArrayVec<QuotaWindow, { QuotaReading::MAX_WINDOWS }>,
    balance: Option<f64>,
    observed_at: Timestamp,
}

impl Quota {
    /// Stores a reading unless a newer one is there; whether it was stored. A reading from the
    /// future counts as taken now.
    pub(crate) fn store(&mut self, reading: &QuotaReading, now: Timestamp) -> bool {
        let observed_at = reading.observed_at.min(now);
        if observed_at < self.observed_at() {
            return false;
        }
        let windows = reading.windows.iter().take(QuotaReading::MAX_WINDOWS);
        let newest = Newest {
            windows: windows.map(|window| cleaned(*window)).collect(),
            balance: reading.balance.filter(|balance| balance.is_finite()),
            observed_at,
        };
        match &mut self.0 {
            Some(stored) => **stored = newest,
            None => self.0 = (newest != Newest::default()).then(|| Box::new(newest)),
        }
        true
    }

    /// The reading as it was taken.
    pub(crate) fn reading(&self) -> QuotaReading {
        let mut reading = QuotaReading::at(self.observed_at());
        reading.windows = self.windows().to_vec();
        reading.balance = self.0.as_ref().and_then(|newest| newest.balance);
        reading
    }

    pub(crate) fn observed_at(&self) -> Timestamp {
        self.0.as_ref().map_or(Timestamp::ZERO, |newest| newest.observed_at)
    }

    pub(crate) fn windows(&self) -> &[QuotaWindow] {
        self.0.as_ref().map_or(&[], |newest| &newest.windows)
    }

    /// Percent left in the worst window that is known, for ranking.
    #[inline]
    pub(crate) fn worst(&self, now: Timestamp) -> Option<f64> {
        self.0.as_ref()?.worst(now)
    }

    /// Percent left in the worst window that can block.
    pub(crate) fn worst_gate(&self, now: Timestamp) -> Option<f64> {
        let known = self.0.as_ref()?.known(now);
        let gates = known.filter(|(window, _)| window.gates);
        gates.map(|(_, remaining)| remaining).reduce(f64::min)
    }

    /// The soonest reset that lies ahead.
    #[inline]
    pub(crate) fn next_reset(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.as_ref()?.next_reset(now)
    }

    /// What the reading says about serving.
    pub(crate) fn evidence(&self, policy: &QuotaPolicy, now: Timestamp) -> Evidence {
        let (Some(worst), Some(newest)) = (self.worst_gate(now), &self.0) else {
            return Evidence::Unknown;
        };
        let balance = newest.balance.filter(|_| policy.spend_on_demand);
        if worst > policy.dry_percent || balance.is_some_and(|it| it > policy.on_demand_reserve) {
            return Evidence::Available;
        }
        let dry = newest
            .known(now)
            .filter(|(window, remaining)| window.gates && *remaining <= policy.dry_percent);
        let by_age = newest.observed_at.plus(policy.max_age);
        let until = dry.map(|(window, _)| window.reset.unwrap_or(by_age)).max();
        match until {
            Some(until) if now < until => Evidence::Dry { until },
            _ => Evidence::Unknown,
        }
    }
}

impl Newest {
    #[inline(never)]
    fn worst(&self, now: Timestamp) -> Option<f64> {
        self.known(now).map(|(_, remaining)| remaining).reduce(f64::min)
    }

    #[inline(never)]
    fn next_reset(&self, now: Timestamp) -> Option<Timestamp> {
        self.windows.iter().filter_map(|window| window.reset).filter(|&reset| now < reset).min()
    }

    /// The windows whose reading still says something, with their percent left.
    fn known(&self, now: Timestamp) -> impl Iterator<Item = (&QuotaWindow, f64)> {
        let current = self.windows.iter().filter(move |it| it.reset.is_none_or(|end| now < end));
        current.filter_map(|window| window.remaining.map(|remaining| (window, remaining)))
    }
}

fn cleaned(window: QuotaWindow) -> QuotaWindow {
    let remaining = window.remaining.filter(|percent| percent.is_finite());
    QuotaWindow { remaining: remaining.map(|percent| percent.clamp(0.0, 100.0)), ..window }
}
