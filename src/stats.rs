//! Counters.

use serde::{Deserialize, Serialize};

use crate::grant::Path;
use crate::refusal::{Reason, Unavailable};
use crate::select::decision::Sighting;
use crate::state::usage::UsageTotals;

/// What a scheduler has done since it was made. Counters only grow.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Selections by path.
    pub selected: PathCounts,
    /// Refusals, waits aside.
    pub refused: u64,
    /// Refusals in which at least one account was kept away for a reason, by reason in the order
    /// of [`Reason::ALL`].
    pub refused_by_reason: Vec<u64>,
    /// Answers that advised to wait.
    pub waits: u64,
    /// Leases that ended with an outcome or a cancellation.
    pub settled: u64,
    /// Leases freed because they were silent too long.
    pub reaped: u64,
    /// Rate slots given back.
    pub refunded: u64,
    /// The bindings.
    pub sticky: StickyCounts,
    /// What all successes used.
    pub usage: UsageTotals,
}

/// Selections by [`Path`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PathCounts {
    /// [`Path::Sticky`].
    pub sticky: u64,
    /// [`Path::Warm`].
    pub warm: u64,
    /// [`Path::Rank`].
    pub rank: u64,
    /// [`Path::Pin`].
    pub pin: u64,
    /// [`Path::Degraded`].
    pub degraded: u64,
    /// [`Path::Acquired`].
    pub acquired: u64,
}

impl PathCounts {
    pub(crate) fn add(&mut self, path: Path) {
        *match path {
            Path::Sticky => &mut self.sticky,
            Path::Warm => &mut self.warm,
            Path::Rank => &mut self.rank,
            Path::Pin => &mut self.pin,
            Path::Degraded => &mut self.degraded,
            Path::Acquired => &mut self.acquired,
        } += 1;
    }

    /// All selections.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sticky + self.warm + self.rank + self.pin + self.degraded + self.acquired
    }
}

/// What became of the bindings. A look-up counts once: as a hit, warm hit, cold move, refusal,
/// wait or miss; one that meets a lapsed binding counts as none of them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StickyCounts {
    /// The first account of the trail served.
    pub hits: u64,
    /// Another account of the trail served.
    pub warm_hits: u64,
    /// None of the trail could serve, and selection went on without it.
    pub cold_moves: u64,
    /// The first account could not serve, and no other may.
    pub refusals: u64,
    /// The first account was worth waiting for.
    pub waits: u64,
    /// There was no binding.
    pub misses: u64,
    /// Bindings written for conversations that were not in the table.
    pub creates: u64,
    /// Bindings that lapsed.
    pub expiries: u64,
    /// Bindings that gave way to others, lapsed ones included.
    pub evictions: u64,
}

impl StickyCounts {
    pub(crate) fn add(&mut self, sighting: Sighting) {
        *match sighting {
            Sighting::Hit => &mut self.hits,
            Sighting::WarmHit => &mut self.warm_hits,
            Sighting::ColdMove => &mut self.cold_moves,
            Sighting::Refused => &mut self.refusals,
            Sighting::Waiting => &mut self.waits,
        } += 1;
    }
}

impl Stats {
    pub(crate) fn new() -> Self {
        Self { refused_by_reason: vec![0; Reason::ALL.len()], ..Self::default() }
    }

    pub(crate) fn refuse(&mut self, refusal: &Unavailable) {
        if refusal.wait.is_some() {
            self.waits += 1;
            return;
        }
        self.refused += 1;
        for (reason, _) in refusal.tally.iter() {
            self.refused_by_reason[reason as usize] += 1;
        }
    }

    /// Refusals in which at least one account was kept away for `reason`.
    #[must_use]
    pub fn refused_for(&self, reason: Reason) -> u64 {
        self.refused_by_reason.get(reason as usize).copied().unwrap_or_default()
    }
}
