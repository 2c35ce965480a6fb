//! Cooldowns, the breaker, and how trouble counts.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, FACTOR, ONE_OR_NONE, POSITIVE, ensure};
use crate::time::Millis;

/// How long failures keep an account away.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CooldownPolicy {
    /// The shortest cooldown that an upstream hint makes. Default 1 s.
    pub floor: Millis,
    /// How much longer than announced a cooldown may last, chosen by the hash of the account's id,
    /// so that accounts blocked together do not return together. Default 0.
    pub jitter: Millis,
    /// How long after its end a cooldown still counts as one step of escalation; each further
    /// such span takes back another. Default 10 min.
    pub decay: Millis,
    /// Throttles. Default: 15 s without a hint, doubling, at most 15 min.
    pub throttle: Backoff,
    /// Spent quotas. Default: 30 min without a hint, at most 40 days.
    pub quota: Backoff,
    /// Rejected credentials. Default: 1 min, doubling, at most 1 h; a credential gone for good
    /// is blocked for the whole cap.
    pub auth: Backoff,
    /// Provider overload. Default: 10 s, never escalating, at most 15 min.
    pub overload: Backoff,
}

impl Default for CooldownPolicy {
    fn default() -> Self {
        let minutes = Millis::from_mins;
        Self {
            floor: Millis::from_secs(1),
            jitter: Millis::ZERO,
            decay: minutes(10),
            throttle: Backoff { base: Millis::from_secs(15), factor: 2.0, cap: minutes(15) },
            quota: Backoff { base: minutes(30), factor: 1.0, cap: Millis::from_days(40) },
            auth: Backoff { base: minutes(1), factor: 2.0, cap: minutes(60) },
            overload: Backoff { base: Millis::from_secs(10), factor: 1.0, cap: minutes(15) },
        }
    }
}

impl CooldownPolicy {
    pub(super) fn windsurf() -> Self {
        let uncapped = |base| Backoff { base, factor: 1.0, cap: Millis::MAX };
        Self {
            throttle: uncapped(Millis::from_secs(15)),
            quota: uncapped(Millis::from_mins(30)),
            auth: uncapped(Millis::ZERO),
            overload: uncapped(Millis::from_secs(15)),
            ..Self::default()
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ensure(!self.decay.is_zero(), "cooldown.decay", POSITIVE)?;
        ensure(self.throttle.is_sound(), "cooldown.throttle.factor", FACTOR)?;
        ensure(self.quota.is_sound(), "cooldown.quota.factor", FACTOR)?;
        ensure(self.auth.is_sound(), "cooldown.auth.factor", FACTOR)?;
        ensure(self.overload.is_sound(), "cooldown.overload.factor", FACTOR)
    }
}

/// The length of one kind of cooldown: `base × factor^step`, at most `cap`.
///
/// The step rises by one when a failure without a hint meets an account whose last cooldown of
/// this kind is over, and by nothing while one is running.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "the formula has these three numbers")]
pub struct Backoff {
    /// The first cooldown without a hint. 0: failures without a hint make none.
    pub base: Millis,
    /// Growth per step, at least 1. 1: no escalation.
    pub factor: f64,
    /// The longest cooldown, also for hints.
    pub cap: Millis,
}

impl Backoff {
    fn is_sound(&self) -> bool {
        self.factor >= 1.0 && self.factor.is_finite()
    }
}

/// When repeated errors take an account out, and how it comes back.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BreakerPolicy {
    /// Errors in a row that open the breaker. Default 3; `None`: no breaker.
    pub threshold: Option<u32>,
    /// The longest time between two errors in a row. Default 30 min.
    pub window: Millis,
    /// How long the breaker stays open. Default 15 min.
    pub recovery: Millis,
    /// How it stays open longer when it opens again and again. `None`: it does not.
    pub escalation: Option<Escalation>,
    /// Probes under way at once while half-open. Default 1; `None`: the account comes back at
    /// once and in full.
    pub half_open_probes: Option<u32>,
    /// How long a silent probe holds its place; its late verdict is ignored. Default 2 min;
    /// [`touch`](crate::Scheduler::touch) keeps it.
    pub probe_timeout: Millis,
    /// Internal upstream errors in a row that quarantine the account. Default 2; `None`: never.
    pub internal_threshold: Option<u32>,
    /// Length of the quarantine. Default 2 min.
    pub quarantine: Millis,
    /// Ban signals that ban the account. Default 2; `None`: never.
    pub ban_threshold: Option<u32>,
    /// The longest time between two ban signals that count together. Default 30 min.
    pub ban_window: Millis,
}

/// How a breaker stays open longer when it opens again without a success between:
/// `base × factor^(episode − 1)`, at most `cap`, on top of the plain recovery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "the formula has these numbers")]
pub struct Escalation {
    /// Length at the first episode. Default 15 min.
    pub base: Millis,
    /// Growth per episode, at least 1. Default 1.5.
    pub factor: f64,
    /// The longest. Default 60 min.
    pub cap: Millis,
    /// The first episode that escalates. Default 2.
    pub from_episode: u32,
    /// Accounts younger than this do not escalate. Default 10 min.
    pub grace: Millis,
}

impl Default for Escalation {
    fn default() -> Self {
        Self {
            base: Millis::from_mins(15),
            factor: 1.5,
            cap: Millis::from_mins(60),
            from_episode: 2,
            grace: Millis::from_mins(10),
        }
    }
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            threshold: Some(3),
            window: Millis::from_mins(30),
            recovery: Millis::from_mins(15),
            escalation: Some(Escalation::default()),
            half_open_probes: Some(1),
            probe_timeout: Millis::from_mins(2),
            internal_threshold: Some(2),
            quarantine: Millis::from_mins(2),
            ban_threshold: Some(2),
            ban_window: Millis::from_mins(30),
        }
    }
}

impl BreakerPolicy {
    pub(super) fn windsurf() -> Self {
        Self { half_open_probes: None, ..Self::default() }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let some = |count: Option<u32>| count != Some(0);
        ensure(some(self.threshold), "breaker.threshold", ONE_OR_NONE)?;
        ensure(some(self.half_open_probes), "breaker.half_open_probes", ONE_OR_NONE)?;
        ensure(some(self.internal_threshold), "breaker.internal_threshold", ONE_OR_NONE)?;
        ensure(some(self.ban_threshold), "breaker.ban_threshold", ONE_OR_NONE)?;
        ensure(!self.window.is_zero(), "breaker.window", POSITIVE)?;
        ensure(!self.recovery.is_zero(), "breaker.recovery", POSITIVE)?;
        ensure(!self.probe_timeout.is_zero(), "breaker.probe_timeout", POSITIVE)?;
        ensure(!self.ban_window.is_zero(), "breaker.ban_window", POSITIVE)?;
        let factor = self.escalation.is_none_or(|it| it.factor >= 1.0 && it.factor.is_finite());
        ensure(factor, "breaker.escalation.factor", FACTOR)
    }
}

/// How much recent trouble counts in the order: the sum of the weights of the events within the
/// window, of which an account remembers the newest 240.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HealthPolicy {
    /// How long an event counts. Default 5 min.
    pub window: Millis,
    /// How many points make one step in the order. Default 3.
    pub bucket: u32,
    /// Points of a rejected or dead credential. Default 3.
    pub dead: u32,
    /// Points of an internal, network or time-out error. Default 3.
    pub error: u32,
    /// Points of a throttle or a spent quota. Default 1.
    pub throttle: u32,
    /// Points of provider overload. Default 1.
    pub capacity: u32,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            window: Millis::from_mins(5),
            bucket: 3,
            dead: 3,
            error: 3,
            throttle: 1,
            capacity: 1,
        }
    }
}

impl HealthPolicy {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ensure(!self.window.is_zero(), "health.window", POSITIVE)?;
        ensure(self.bucket > 0, "health.bucket", "must be at least 1")
    }
}
