//! The circuit breaker of one account, and the streaks that quarantine or ban it.

use crate::config::BreakerPolicy;
use crate::refusal::Lift;
use crate::snapshot::saved::{SavedBreaker, SavedStreak};
use crate::time::{Millis, Timestamp};

/// Where a breaker stands. Derived from the time, so that reading changes nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Closed,
    Open { until: Timestamp },
    HalfOpen,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Breaker {
    errors: Streak,
    internal: u32,
    bans: Streak,
    /// Set while open or half-open.
    open_until: Option<Timestamp>,
    /// Openings since the last success.
    episodes: u32,
    /// Changes at each opening; verdicts of leases taken under an earlier one are ignored.
    epoch: u32,
    /// Probes under way, oldest sign of life first.
    probes: Vec<Probe>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    lease: u64,
    seen: Timestamp,
}

/// Events in a row, none too long after the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Streak {
    count: u32,
    last: Option<Timestamp>,
}

impl Streak {
    fn extend(&mut self, window: Millis, now: Timestamp) -> u32 {
        let joins = self.last.is_some_and(|last| !last.is_over(window, now));
        self.count = if joins { self.count.saturating_add(1) } else { 1 };
        self.last = Some(now);
        self.count
    }
}

impl Breaker {
    pub(crate) fn phase(&self, policy: &BreakerPolicy, now: Timestamp) -> Phase {
        match self.open_until {
            None => Phase::Closed,
            Some(until) if now < until => Phase::Open { until },
            Some(_) if policy.half_open_probes.is_none() => Phase::Closed,
            Some(_) => Phase::HalfOpen,
        }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Errors in a row while closed: none after a recovery that ended without probes.
    pub(crate) fn errors(&self) -> u32 {
        if self.open_until.is_some() { 0 } else { self.errors.count }
    }

    /// The leases that probe with their newest signs of life, the oldest first.
    #[cfg(feature = "journal")]
    pub(crate) fn probes(&self) -> impl Iterator<Item = (u64, Timestamp)> {
        self.probes.iter().map(|probe| (probe.lease, probe.seen))
    }

    /// What lets the next request pass. A probe ends at the latest with its lease, which may be
    /// silent for `lease_timeout`.
    pub(crate) fn lift(
        &self,
        policy: &BreakerPolicy,
        lease_timeout: Option<Millis>,
        now: Timestamp,
    ) -> Lift {
        match self.phase(policy, now) {
            Phase::Closed => Lift::Free,
            Phase::Open { until } => Lift::At(until),
            Phase::HalfOpen => {
                let by_lease = lease_timeout.unwrap_or(Millis::MAX);
                self.probe_lift(policy, policy.probe_timeout.min(by_lease), now)
            }
        }
    }

    fn probe_lift(&self, policy: &BreakerPolicy, timeout: Millis, now: Timestamp) -> Lift {
        let allowed = policy.half_open_probes.map_or(usize::MAX, |probes| probes as usize);
        let live = self.probes.iter().filter(|probe| !probe.seen.is_over(timeout, now));
        match live.clone().count().checked_sub(allowed) {
            None => Lift::Free,
            Some(surplus) => live
                .clone()
                .nth(surplus)
                .map_or(Lift::Free, |probe| Lift::At(probe.seen.plus(timeout))),
        }
    }

    /// Notes that `lease` starts; whether it is a probe.
    pub(crate) fn admit(&mut self, lease: u64, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let is_probe = self.phase(policy, now) == Phase::HalfOpen;
        if is_probe {
            self.probes.retain(|probe| !probe.seen.is_over(policy.probe_timeout, now));
            self.probes.push(Probe { lease, seen: now });
        }
        is_probe
    }

    /// A sign of life of a probe.
    pub(crate) fn touch(&mut self, lease: u64, policy: &BreakerPolicy, now: Timestamp) {
        let Some(index) = self.probes.iter().position(|probe| probe.lease == lease) else {
            return;
        };
        if !self.probes[index].seen.is_over(policy.probe_timeout, now) {
            self.probes.remove(index);
            self.probes.push(Probe { lease, seen: now });
        }
    }

    /// Whether the probe of `lease` still holds its place.
    pub(crate) fn holds(&self, lease: u64, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let probe = self.probes.iter().find(|probe| probe.lease == lease);
        probe.is_some_and(|probe| !probe.seen.is_over(policy.probe_timeout, now))
    }

    /// Frees the probe of `lease`; whether it held its place to the end.
    pub(crate) fn release(&mut self, lease: u64, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let held = self.holds(lease, policy, now);
        self.probes.retain(|probe| probe.lease != lease);
        held
    }

    /// Counts an error; whether the breaker should open now.
    pub(crate) fn error(&mut self, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let Some(threshold) = policy.threshold else {
            return false;
        };
        match self.phase(policy, now) {
            Phase::Closed => {
                if self.open_until.take().is_some() {
                    self.errors.count = 0;
                }
                self.errors.extend(policy.window, now) >= threshold
            }
            Phase::Open { .. } => {
                self.errors.extend(policy.window, now);
                false
            }
            Phase::HalfOpen => true,
        }
    }

    /// Opens for one recovery; returns the longer time away that escalation asks for, if any.
    /// `age` is how long the account has been in the pool.
    pub(crate) fn open(
        &mut self,
        policy: &BreakerPolicy,
        age: Millis,
        now: Timestamp,
    ) -> Option<Millis> {
        self.open_until = Some(now.plus(policy.recovery));
        self.episodes = self.episodes.saturating_add(1);
        self.epoch = self.epoch.wrapping_add(1);
        self.probes.clear();
        let escalation = policy.escalation?;
        let due = self.episodes >= escalation.from_episode && age > escalation.grace;
        due.then(|| escalation.base.grown(escalation.factor, self.episodes - 1, escalation.cap))
    }

    /// Counts an internal upstream error; whether the account should be quarantined.
    pub(crate) fn internal(&mut self, policy: &BreakerPolicy) -> bool {
        self.internal = self.internal.saturating_add(1);
        policy.internal_threshold.is_some_and(|threshold| self.internal >= threshold)
    }

    /// Counts a ban signal; whether the account is banned.
    pub(crate) fn ban_signal(&mut self, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let count = self.bans.extend(policy.ban_window, now);
        policy.ban_threshold.is_some_and(|threshold| count >= threshold)
    }

    /// A success: closes, and every streak starts over; whether it was open or half-open. Other
    /// probes go on, and are heard.
    pub(crate) fn success(&mut self) -> bool {
        let was_open = self.open_until.is_some();
        let probes = std::mem::take(&mut self.probes);
        *self = Self { epoch: self.epoch, probes, ..Self::default() };
        was_open
    }

    /// The operator's reset: closes, and errors are forgotten. Episodes and other streaks stay.
    pub(crate) fn reset(&mut self) {
        self.errors = Streak::default();
        self.open_until = None;
    }
}

impl From<&Breaker> for SavedBreaker {
    fn from(breaker: &Breaker) -> Self {
        let streak = |Streak { count, last }: Streak| SavedStreak { count, last };
        Self {
            errors: streak(breaker.errors),
            internal: breaker.internal,
            bans: streak(breaker.bans),
            open_until: breaker.open_until,
            episodes: breaker.episodes,
            epoch: breaker.epoch,
        }
    }
}

impl From<&SavedBreaker> for Breaker {
    fn from(saved: &SavedBreaker) -> Self {
        let streak = |SavedStreak { count, last }: SavedStreak| Streak { count, last };
        Self {
            errors: streak(saved.errors),
            internal: saved.internal,
            bans: streak(saved.bans),
            open_until: saved.open_until,
            episodes: saved.episodes,
            epoch: saved.epoch,
            probes: Vec::new(),
        }
    }
}
