//! The circuit breaker of one account, and the streaks that quarantine or ban it.

use crate::config::BreakerPolicy;
use crate::refusal::Lift;
use crate::snapshot::saved::{SavedBreaker, SavedStreak};
use crate::state::rare::Rare;
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
    /// Set while open or half-open.
    open_until: Option<Timestamp>,
    /// Changes at each opening; verdicts of leases taken under an earlier one are ignored.
    epoch: u32,
    history: Rare<History>,
}

/// What a breaker remembers of trouble.
#[derive(Clone, Debug, Default, PartialEq)]
struct History {
    errors: Streak,
    internal: u32,
    bans: Streak,
    /// Openings since the last success.
    episodes: u32,
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
    #[inline]
    pub(crate) fn phase(&self, policy: &BreakerPolicy, now: Timestamp) -> Phase {
        match self.open_until {
            None => Phase::Closed,
            Some(until) if now < until => Phase::Open { until },
            Some(_) if policy.half_open_probes.is_none() => Phase::Closed,
            Some(_) => Phase::HalfOpen,
        }
    }

    /// Whether it is closed and no request's start or end changes what it answers.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.open_until.is_none()
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Errors in a row while closed: none after a recovery that ended without probes.
    pub(crate) fn errors(&self) -> u32 {
        let errors = self.history.get().map_or(0, |history| history.errors.count);
        if self.open_until.is_some() { 0 } else { errors }
    }

    /// The leases that probe with their newest signs of life, the oldest first.
    #[cfg(feature = "journal")]
    pub(crate) fn probes(&self) -> impl Iterator<Item = (u64, Timestamp)> {
        self.under_way().iter().map(|probe| (probe.lease, probe.seen))
    }

    /// The probes under way, the oldest sign of life first.
    fn under_way(&self) -> &[Probe] {
        self.history.get().map_or(&[], |history| &history.probes)
    }

    /// What lets the next request pass. A probe ends at the latest with its lease, which may be
    /// silent for `lease_timeout`.
    #[inline]
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

    #[cold]
    fn probe_lift(&self, policy: &BreakerPolicy, timeout: Millis, now: Timestamp) -> Lift {
        let allowed = policy.half_open_probes.map_or(usize::MAX, |probes| probes as usize);
        let live = self.under_way().iter().filter(|probe| !probe.seen.is_over(timeout, now));
        match live.clone().count().checked_sub(allowed) {
            None => Lift::Free,
            Some(surplus) => live
                .clone()
                .nth(surplus)
                .map_or(Lift::Free, |probe| Lift::At(probe.seen.plus(timeout))),
        }
    }

    /// Notes that `lease` starts; whether it is a probe.
    #[inline]
    pub(crate) fn admit(&mut self, lease: u64, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let is_probe = self.phase(policy, now) == Phase::HalfOpen;
        if is_probe {
            let probes = &mut self.history.make().probes;
            probes.retain(|probe| !probe.seen.is_over(policy.probe_timeout, now));
            probes.push(Probe { lease, seen: now });
        }
        is_probe
    }

    /// A sign of life of a probe.
    pub(crate) fn touch(&mut self, lease: u64, policy: &BreakerPolicy, now: Timestamp) {
        let Some(History { probes, .. }) = self.history.get_mut() else {
            return;
        };
        let Some(index) = probes.iter().position(|probe| probe.lease == lease) else {
            return;
        };
        if !probes[index].seen.is_over(policy.probe_timeout, now) {
            probes.remove(index);
            probes.push(Probe { lease, seen: now });
        }
    }

    /// Whether the probe of `lease` still holds its place.
    pub(crate) fn holds(&self, lease: u64, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let probe = self.under_way().iter().find(|probe| probe.lease == lease);
        probe.is_some_and(|probe| !probe.seen.is_over(policy.probe_timeout, now))
    }

    /// Frees the probe of `lease`; whether it held its place to the end.
    pub(crate) fn release(&mut self, lease: u64, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let held = self.holds(lease, policy, now);
        if let Some(history) = self.history.get_mut() {
            history.probes.retain(|probe| probe.lease != lease);
        }
        held
    }

    /// Counts an error; whether the breaker should open now.
    pub(crate) fn error(&mut self, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let Some(threshold) = policy.threshold else {
            return false;
        };
        match self.phase(policy, now) {
            Phase::Closed => {
                let errors = &mut self.history.make().errors;
                if self.open_until.take().is_some() {
                    errors.count = 0;
                }
                errors.extend(policy.window, now) >= threshold
            }
            Phase::Open { .. } => {
                self.history.make().errors.extend(policy.window, now);
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
        self.epoch = self.epoch.wrapping_add(1);
        let History { episodes, probes, .. } = self.history.make();
        *episodes = episodes.saturating_add(1);
        probes.clear();
        let escalation = policy.escalation?;
        let due = *episodes >= escalation.from_episode && age > escalation.grace;
        due.then(|| escalation.base.grown(escalation.factor, *episodes - 1, escalation.cap))
    }

    /// Counts an internal upstream error; whether the account should be quarantined.
    pub(crate) fn internal(&mut self, policy: &BreakerPolicy) -> bool {
        let History { internal, .. } = self.history.make();
        *internal = internal.saturating_add(1);
        policy.internal_threshold.is_some_and(|threshold| *internal >= threshold)
    }

    /// Counts a ban signal; whether the account is banned.
    pub(crate) fn ban_signal(&mut self, policy: &BreakerPolicy, now: Timestamp) -> bool {
        let count = self.history.make().bans.extend(policy.ban_window, now);
        policy.ban_threshold.is_some_and(|threshold| count >= threshold)
    }

    /// A success: closes, and every streak starts over; whether it was open or half-open. Other
    /// probes go on, and are heard.
    #[inline]
    pub(crate) fn success(&mut self) -> bool {
        if let Some(history) = self.history.get_mut() {
            let probes = std::mem::take(&mut history.probes);
            *history = History { probes, ..History::default() };
        }
        self.open_until.take().is_some()
    }

    /// The operator's reset: closes, and errors are forgotten. Episodes and other streaks stay.
    pub(crate) fn reset(&mut self) {
        if let Some(history) = self.history.get_mut() {
            history.errors = Streak::default();
        }
        self.open_until = None;
    }
}

impl From<&Breaker> for SavedBreaker {
    fn from(breaker: &Breaker) -> Self {
        let streak = |Streak { count, last }: Streak| SavedStreak { count, last };
        let history = breaker.history.get().cloned().unwrap_or_default();
        Self {
            errors: streak(history.errors),
            internal: history.internal,
            bans: streak(history.bans),
            open_until: breaker.open_until,
            episodes: history.episodes,
            epoch: breaker.epoch,
        }
    }
}

impl From<&SavedBreaker> for Breaker {
    fn from(saved: &SavedBreaker) -> Self {
        let streak = |SavedStreak { count, last }: SavedStreak| Streak { count, last };
        let history = History {
            errors: streak(saved.errors),
            internal: saved.internal,
            bans: streak(saved.bans),
            episodes: saved.episodes,
            probes: Vec::new(),
        };
        let SavedBreaker { open_until, epoch, .. } = *saved;
        Self { open_until, epoch, history: Rare::new(history) }
    }
}
