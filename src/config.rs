//! Every number and switch of the scheduler, with its default, unit and trade-off.

mod check;
mod cooldown;
mod quota;
mod rank;
mod sticky;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::check::ConfigError;
use self::check::{POSITIVE_OR_NONE, ensure};
pub use self::cooldown::{Backoff, BreakerPolicy, CooldownPolicy, Escalation, HealthPolicy};
pub use self::quota::QuotaPolicy;
pub use self::rank::{Ranking, Recency, Shard, SoftLimits, Term, Ties};
pub(crate) use self::sticky::MAX_TRAIL;
pub use self::sticky::{BindAt, BindingLimit, Order, Refresh, Stickiness, StickyMode};
use crate::time::Millis;

/// The scheduler's policy.
///
/// `Config::default()` is what we recommend. Change fields, then hand it to
/// [`Scheduler::new`](crate::Scheduler::new) or
/// [`Scheduler::set_config`](crate::Scheduler::set_config), which check it once; replacing it at
/// run time loses no state. All spans are in milliseconds.
///
/// ```
/// use account_pool::{Config, Millis};
///
/// let mut config = Config::default();
/// config.sticky.time_to_idle = Millis::from_mins(60);
/// config.breaker.threshold = None;
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// Which account a conversation stays on.
    pub sticky: Stickiness,
    /// In which order accounts are preferred, and what counts as a tie.
    pub rank: Ranking,
    /// From where on an account is left to its bound callers.
    pub soft: SoftLimits,
    /// How long failures keep an account away.
    pub cooldown: CooldownPolicy,
    /// When repeated errors take an account out, and how it comes back.
    pub breaker: BreakerPolicy,
    /// How much recent trouble counts in the order.
    pub health: HealthPolicy,
    /// What quota readings mean.
    pub quota: QuotaPolicy,
    /// What to do when no account is eligible. Default [`Degraded::Transient`].
    pub degraded: Degraded,
    /// Whether the last account able to serve its tier is kept in service by the breaker and the
    /// quarantine. Default on: a doubtful account serves more requests than none.
    pub last_usable_exempt: bool,
    /// How long a lease may be silent (neither settled nor touched) before its place is freed.
    /// Default 15 min. Longer: leaked leases block longer; shorter than the longest silent
    /// request: a running one is not counted. `None`: never; call
    /// [`Scheduler::reap`](crate::Scheduler::reap).
    pub lease_timeout: Option<Millis>,
    /// The most requests that wait in a pool at once, with the feature `tokio`; further ones are
    /// refused at once. Default 10 000. Each waiting request holds a copy of itself, about 1 KiB.
    pub max_waiting: usize,
    /// Whether a new account enters at the median recency of the active, used accounts. Default
    /// on; off, it counts as never used and gets the next requests in a row. In a pool of more
    /// than 1 024 accounts it is the median of those among 1 024 that are spread evenly over the
    /// order of insertion.
    pub new_account_baseline: bool,
    /// How far before the median a new account may enter, chosen by the hash of its id, in the
    /// unit of [`Ranking::recency`] (milliseconds or turns). Default 0.
    pub baseline_jitter: u64,
    /// Other names of models: alias to canonical name. Cooldowns, entitlements and bindings use
    /// the canonical one. Both are trimmed. Default none.
    pub aliases: BTreeMap<String, String>,
    /// Models, by any of their names, that do not draw on an account's quota: its account-wide
    /// quota block does not apply to them. Default none.
    pub unmetered: BTreeSet<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sticky: Stickiness::default(),
            rank: Ranking::default(),
            soft: SoftLimits::default(),
            cooldown: CooldownPolicy::default(),
            breaker: BreakerPolicy::default(),
            health: HealthPolicy::default(),
            quota: QuotaPolicy::default(),
            degraded: Degraded::Transient,
            last_usable_exempt: true,
            lease_timeout: Some(Millis::from_mins(15)),
            max_waiting: 10_000,
            new_account_baseline: true,
            baseline_jitter: 0,
            aliases: BTreeMap::new(),
            unmetered: BTreeSet::new(),
        }
    }
}

impl Config {
    /// The policy of a production scheduler whose recorded decisions this crate is tested
    /// against: a trail of one that is dropped when blocked and refreshed on look-up, modulo
    /// sharding, exact ties on millisecond recency, unlimited half-open probes, no reaping.
    #[must_use]
    pub fn windsurf() -> Self {
        Self {
            sticky: Stickiness::windsurf(),
            rank: Ranking::windsurf(),
            cooldown: CooldownPolicy::windsurf(),
            breaker: BreakerPolicy::windsurf(),
            lease_timeout: None,
            ..Self::default()
        }
    }

    /// What changes about every account when `next` replaces this policy. What is listed first is
    /// read anew by each request or outcome that it concerns; the order alone rests on what comes
    /// then, and eligibility on all else.
    pub(crate) fn effect_of(&self, next: &Self) -> Effect {
        let sticky = &self.sticky;
        let mut next = next.clone();
        next.cooldown = self.cooldown.clone();
        next.last_usable_exempt = self.last_usable_exempt;
        next.max_waiting = self.max_waiting;
        next.new_account_baseline = self.new_account_baseline;
        next.baseline_jitter = self.baseline_jitter;
        next.aliases.clone_from(&self.aliases);
        next.rank.shard = self.rank.shard;
        // Whether there is affinity at all decides whom a binding limit keeps away.
        if next.sticky.is_on() == sticky.is_on() {
            next.sticky.mode = sticky.mode;
            next.sticky.capacity = sticky.capacity;
            next.sticky.time_to_idle = sticky.time_to_idle;
        }
        next.sticky.order = sticky.order;
        next.sticky.cache_lifetime = sticky.cache_lifetime;
        next.sticky.trail = sticky.trail;
        next.sticky.drop_when_blocked = sticky.drop_when_blocked;
        next.sticky.no_fallback = sticky.no_fallback;
        next.sticky.bind_at = sticky.bind_at;
        next.sticky.refresh = sticky.refresh;
        next.sticky.bind_by_caller_only = sticky.bind_by_caller_only;
        next.sticky.queue_on_pin = sticky.queue_on_pin;
        next.sticky.max_waiters = sticky.max_waiters;
        if next == *self {
            return Effect::None;
        }
        next.rank = self.rank.clone();
        next.soft = self.soft.clone();
        if next == *self { Effect::Order } else { Effect::All }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the first field found wrong and what it takes.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.sticky.validate()?;
        self.rank.validate()?;
        self.soft.validate()?;
        self.cooldown.validate()?;
        self.breaker.validate()?;
        self.health.validate()?;
        self.quota.validate()?;
        let timeout = self.lease_timeout;
        ensure(
            timeout.is_none_or(|timeout| !timeout.is_zero()),
            "lease_timeout",
            POSITIVE_OR_NONE,
        )?;
        let is_alias = |name: &str| self.aliases.keys().any(|alias| alias.trim() == name);
        let chained = self.aliases.values().any(|name| is_alias(name.trim()));
        ensure(!chained, "aliases", "takes canonical names as values, not other aliases")
    }
}

/// What another policy changes about every account.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// The order of preference in which it stands.
    Order,
    /// Anything.
    All,
}

/// What [`Scheduler::select`](crate::Scheduler::select) does when no account is eligible.
///
/// Trade-off: serving anyway turns some refusals into answers, and some into upstream refusals
/// that lengthen a throttle.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Degraded {
    /// Refuse.
    Off,
    /// Serve the account whose throttle, overload, quarantine or repeated-breaker cooldown ends
    /// first, if nothing else keeps it away; the choice is marked
    /// [`Path::Degraded`](crate::Path::Degraded).
    #[default]
    Transient,
    /// Serve only an account that is away on inferred trouble (breaker, quarantine), never one
    /// that an upstream refusal keeps away.
    Inferred,
}

#[cfg(test)]
mod tests;
