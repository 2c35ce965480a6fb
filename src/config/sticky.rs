//! Bindings and their trails.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, ensure};
use crate::time::{Millis, Timestamp};

/// The longest trail a binding can keep.
pub(crate) const MAX_TRAIL: usize = 8;

/// How conversations stay on the accounts whose prompt caches are warm.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Stickiness {
    /// Whether bindings are used. Default on.
    pub mode: StickyMode,
    /// How long a conversation may be silent before its binding lapses. Default 30 min; 0
    /// switches stickiness off. Longer keeps more entries and returns to colder caches.
    pub time_to_idle: Millis,
    /// How long an account other than the last one stays in the trail after it served. Default
    /// 5 min: the life of a typical prompt cache.
    pub cache_lifetime: Millis,
    /// The most bindings kept. Default 10 000; 0 switches stickiness off. A full table evicts,
    /// it never refuses.
    pub capacity: usize,
    /// How many accounts a binding remembers, 1 to 8. Default 4: a short block leads to an
    /// account that is still warm, and the next block leads back.
    pub trail: usize,
    /// Which account of the trail is tried first. Default [`Order::MostRecent`].
    pub order: Order,
    /// Whether a binding is dropped as soon as none of its trail can serve. Default off.
    pub drop_when_blocked: bool,
    /// Whether a passing block of the first account refuses the request, with its deadline,
    /// instead of serving elsewhere. Default off. A lasting one (gone, disabled, banned, breaker
    /// open) drops the binding and selects normally. The trail is then one account long.
    pub no_fallback: bool,
    /// When a binding is written. Default [`BindAt::Success`].
    pub bind_at: BindAt,
    /// What keeps a binding alive. Default [`Refresh::OnSuccess`].
    pub refresh: Refresh,
    /// Whether a caller's models and selectors share one binding. Default off. Together with
    /// `no_fallback` it is the strict pin: the caller's first account is its shard over all
    /// eligible accounts whatever their rank, reserves aside.
    pub bind_by_caller_only: bool,
    /// How long a request may wait for the first account of its trail. Default 0: never. The
    /// answer is [`Unavailable::wait`](crate::Unavailable::wait).
    pub queue_on_pin: Millis,
    /// How many requests may wait for one account. Default 3.
    pub max_waiters: u32,
    /// The most callers bound to one account. Default none.
    pub binding_limit: Option<BindingLimit>,
}

impl Default for Stickiness {
    fn default() -> Self {
        Self {
            mode: StickyMode::On,
            time_to_idle: Millis::from_mins(30),
            cache_lifetime: Millis::from_mins(5),
            capacity: 10_000,
            trail: 4,
            order: Order::MostRecent,
            drop_when_blocked: false,
            no_fallback: false,
            bind_at: BindAt::Success,
            refresh: Refresh::OnSuccess,
            bind_by_caller_only: false,
            queue_on_pin: Millis::ZERO,
            max_waiters: 3,
            binding_limit: None,
        }
    }
}

impl Stickiness {
    pub(super) fn windsurf() -> Self {
        Self {
            trail: 1,
            drop_when_blocked: true,
            cache_lifetime: Millis::MAX,
            refresh: Refresh::OnLookup,
            ..Self::default()
        }
    }

    /// Whether bindings are looked up at all.
    pub(crate) fn is_on(&self) -> bool {
        self.mode != StickyMode::Off && self.capacity > 0 && !self.time_to_idle.is_zero()
    }

    /// How many accounts a binding remembers. A pin that never falls back remembers one.
    pub(crate) fn trail_len(&self) -> usize {
        if self.no_fallback { 1 } else { self.trail }
    }

    /// When a binding lapses that was last used at `last_used`.
    pub(crate) fn lapses(&self, last_used: Timestamp) -> Timestamp {
        last_used.plus(self.time_to_idle)
    }

    /// Whether an unbound caller's first account is its stable place over the whole pool.
    pub(crate) fn strict_pin(&self) -> bool {
        self.bind_by_caller_only && self.no_fallback
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let trail = (1..=MAX_TRAIL).contains(&self.trail);
        ensure(trail, "sticky.trail", "must be from 1 to 8")?;
        let capacity = u32::try_from(self.capacity).is_ok_and(|capacity| capacity < u32::MAX);
        ensure(capacity, "sticky.capacity", "must be less than 4 294 967 295")
    }
}

/// Whether bindings are used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StickyMode {
    /// Bindings are read and written.
    #[default]
    On,
    /// Bindings are read and refreshed; no new ones are written. Conversations end in peace.
    Drain,
    /// Bindings are neither read nor written; those in the table stay until they idle out.
    Off,
}

/// Which account of a trail is tried first.
///
/// `MostRecent` never leaves a warm account for a colder one; `HomeFirst` returns to the first
/// account of the conversation as soon as it is eligible, which is cheaper where blocks are much
/// shorter than the pause between turns.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// The account that served last.
    #[default]
    MostRecent,
    /// The account that served first.
    HomeFirst,
}

/// When a binding is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BindAt {
    /// When an attempt settles with success: no failed or cancelled attempt ever binds.
    #[default]
    Success,
    /// When an account is selected, if the caller has no binding: parallel first turns stay
    /// together, even if the first of them fails.
    Select,
}

/// What keeps a binding alive.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refresh {
    /// Settled successes.
    #[default]
    OnSuccess,
    /// Look-ups too, whatever becomes of them.
    OnLookup,
}

/// A limit on the callers bound to one account: those whose trail has it first.
///
/// A success that would exceed it does not bind. A conversation whose first account leaves its
/// trail falls back to the next one there, whatever the limit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "a limit and its strength")]
pub struct BindingLimit {
    /// The most callers whose first account it is.
    pub callers: u32,
    /// Whether a full account refuses unbound callers. `false`: it serves them without binding.
    pub refuse: bool,
}
