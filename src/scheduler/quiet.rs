//! The passing of time: what ends by it alone, and when the next of that may be.

use super::Scheduler;
use crate::time::Timestamp;

/// The instant before which no lease falls silent and no binding lapses.
///
/// It may be too early, but not too late: as long as the configuration stays, whatever happens to
/// leases and bindings only puts these ends off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    pub(super) until: Timestamp,
}

impl Quiet {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { until: Timestamp::ZERO };
}

impl PartialEq for Quiet {
    /// What is derived from leases and bindings, and when, makes no difference between schedulers.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Scheduler {
    /// Frees silent leases, counts out lapsed bindings, and looks when the next will be due.
    #[cold]
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        if let Some(timeout) = self.config.lease_timeout {
            self.reap_silent(timeout, now);
        }
        self.lapse_bindings(now);
        self.quiet = Quiet { until: self.next_end(now) };
    }

    /// Whether leases that have fallen silent or bindings that have lapsed by `now` still count.
    #[inline]
    pub(super) fn is_behind(&self, now: Timestamp) -> bool {
        let is_behind = self.quiet.until <= now && self.has_overdue(now);
        debug_assert_eq!(is_behind, self.has_overdue(now), "it was not as quiet as foreseen");
        is_behind
    }

    /// The same, by looking.
    fn has_overdue(&self, now: Timestamp) -> bool {
        let timeout = self.config.lease_timeout;
        timeout.is_some_and(|it| self.leases.silent(it, now).next().is_some())
            || self.bindings.overdue(&self.config.sticky, now).next().is_some()
    }

    /// The earliest end of a lease by silence or of a binding, be it one that is there, none of
    /// which has ended, or one that is still to come.
    fn next_end(&self, now: Timestamp) -> Timestamp {
        let policy = &self.config.sticky;
        let silent = self.config.lease_timeout.map(|timeout| {
            let seen = self.leases.longest_silent().unwrap_or(now);
            seen.plus(timeout)
        });
        let next_binding = || policy.is_on().then(|| policy.lapses(now));
        let lapse = self.bindings.next_lapse(policy).or_else(next_binding);
        silent.into_iter().chain(lapse).min().unwrap_or(Timestamp::MAX)
    }
}
