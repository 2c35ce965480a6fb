//! The order among eligible accounts: one packed key each, smaller is better.

use crate::config::{Config, Recency, Term, Ties};
use crate::names::Named;
use crate::select::query::{Query, View};
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::Target;
use crate::state::window::FULL_HEADROOM;

/// An account's place in the order. Its comparison is the only order there is, and its equality,
/// as far as a [`TieMask`] lets it look, the only test of a tie.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct RankKey {
    /// All terms before recency.
    pub(crate) merit: u128,
    pub(crate) recency: u64,
}

impl RankKey {
    /// Whether an account of this key comes before one of the other: by the key, then by the
    /// numbers. The comparison above, spelt out, because the index asks a dozen times a selection.
    pub(crate) fn is_before(self, number: u32, other: Self, other_number: u32) -> bool {
        if self.merit != other.merit {
            return self.merit < other.merit;
        }
        (self.recency, number) < (other.recency, other_number)
    }
}

/// Which part of the recency counts for a tie, as a mask: all of it, or none under
/// [`Ties::Health`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TieMask(u64);

impl TieMask {
    /// The mask for accounts that tie by this rule.
    pub(crate) fn under(ties: Ties) -> Self {
        Self(match ties {
            Ties::Exact => u64::MAX,
            Ties::Health { .. } => 0,
        })
    }

    /// Whether accounts of these keys tie.
    pub(crate) fn equates(self, one: RankKey, other: RankKey) -> bool {
        one.merit == other.merit && one.recency & self.0 == other.recency & self.0
    }

    /// Whether an account of one key is better than one of the other, rather than equally good.
    pub(crate) fn precedes(self, one: RankKey, other: RankKey) -> bool {
        one.merit < other.merit
            || (one.merit == other.merit && one.recency & self.0 < other.recency & self.0)
    }
}

/// The key of an account for a request.
pub(crate) fn key(state: &AccountState, slot: Slot, query: &Query<'_>, view: &View<'_>) -> RankKey {
    let Precedence { fallback_only, past_soft_limit } = precedence(state, view);
    let mut merit = u128::from(fallback_only) << 1 | u128::from(past_soft_limit);
    let mut recency = 0;
    for &term in &view.config.rank.terms {
        let value = weigh(term, state, slot, query, view);
        if term == Term::Recency {
            recency = value;
        } else {
            let bits = bits(term);
            merit = merit << bits | u128::from(value.min((1 << bits) - 1));
        }
    }
    RankKey { merit, recency }
}

/// What one more in a term adds to the merit; 0 when the order does not look at it.
pub(crate) fn unit(term: Term, config: &Config) -> u128 {
    let terms = &config.rank.terms;
    let Some(index) = terms.iter().position(|&other| other == term) else {
        return 0;
    };
    terms[index + 1..].iter().fold(1, |unit, &after| unit << bits(after))
}

/// Whether a term of trouble would be zero.
pub(crate) fn is_calm(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    trouble(state, query, view) == 0
}

/// How many bits of the merit a term takes; recency has its own part of the key.
fn bits(term: Term) -> u32 {
    match term {
        Term::ModelCooldown => 1,
        Term::Trouble => 6,
        Term::Quota => 7,
        Term::Tier => 8,
        Term::InFlight | Term::BoundCallers => 16,
        Term::WeightedInFlight => 20,
        Term::QuotaReset => 32,
        Term::Headroom => 33,
        Term::Recency => 0,
    }
}

/// What goes before all configured terms; an account for which it is not the case is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Precedence {
    pub(crate) fallback_only: bool,
    /// The account is left to its bound callers while others can serve.
    pub(crate) past_soft_limit: bool,
}

/// What goes before all terms of an account.
pub(crate) fn precedence(state: &AccountState, view: &View<'_>) -> Precedence {
    Precedence {
        fallback_only: state.fallback_only,
        past_soft_limit: is_past_soft_limit(state, view),
    }
}

/// One term of an account, smaller is better.
#[inline]
pub(crate) fn weigh(
    term: Term,
    state: &AccountState,
    slot: Slot,
    query: &Query<'_>,
    view: &View<'_>,
) -> u64 {
    let now = view.now;
    match term {
        Term::ModelCooldown => has_unnamed_cooldown(state, query, view).into(),
        Term::Tier => state.tier.into(),
        Term::InFlight => in_flight_steps(view.in_flight(state, slot), view),
        Term::WeightedInFlight => {
            let steps = in_flight_steps(view.in_flight(state, slot), view);
            steps * 256_000 / u64::from(state.weight)
        }
        Term::Trouble => trouble(state, query, view),
        Term::Quota => quota_steps_missing(state, view),
        Term::Headroom => FULL_HEADROOM - coarse_headroom(state, view),
        Term::BoundCallers => view.bound(state, slot).into(),
        Term::QuotaReset => {
            let reset = state.quota.next_reset(now).map(|reset| reset.as_millis() / 1_000);
            reset.unwrap_or(u64::MAX)
        }
        Term::Recency => match view.config.rank.recency {
            Recency::Turn => state.load.turn,
            Recency::Millisecond => state.load.last_used.as_millis(),
        },
    }
}

/// Whether the account has a live cooldown that the request might meet, because it does not say
/// which model or selector it is for.
fn has_unnamed_cooldown(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    state.cooldowns.live(view.now).any(|block| might_meet(block.target, query))
}

/// Whether a request might meet a cooldown on `target`, because it does not say which model or
/// selector it is for.
pub(crate) fn might_meet(target: Target, query: &Query<'_>) -> bool {
    match target {
        Target::Account => false,
        Target::Model(_) => query.model == Named::Absent,
        Target::Selector(_) => query.selector == Named::Absent,
    }
}

fn in_flight_steps(in_flight: u32, view: &View<'_>) -> u64 {
    match view.config.rank.ties {
        Ties::Exact => in_flight.into(),
        Ties::Health { in_flight_slack, .. } => {
            u64::from(in_flight) / (u64::from(in_flight_slack) + 1)
        }
    }
}

/// Trouble in buckets; at least one while a capped throttle is over for us but not for the
/// upstream.
fn trouble(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> u64 {
    let policy = &view.config.health;
    let buckets = state.health.score(policy, view.now) / u64::from(policy.bucket);
    let past_cap = state.cooldowns.is_past_cap(|target| query.concerns(target), view.now);
    buckets.max(u64::from(past_cap))
}

fn quota_steps_missing(state: &AccountState, view: &View<'_>) -> u64 {
    let policy = &view.config.quota;
    let points = f64::from(policy.bucket_points);
    let steps = |percent: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "percentages lie in 0..=100"
        )]
        let steps = (percent / points) as u64;
        steps
    };
    let percent = state.quota.worst(view.now).unwrap_or(policy.unknown_percent);
    steps(100.0) - steps(percent)
}

fn coarse_headroom(state: &AccountState, view: &View<'_>) -> u64 {
    let free = state.windows.headroom(view.now);
    match view.config.rank.ties {
        Ties::Exact => free,
        Ties::Health { headroom_steps, .. } => (free * u64::from(headroom_steps)) >> 32,
    }
}

fn is_past_soft_limit(state: &AccountState, view: &View<'_>) -> bool {
    let soft = &view.config.soft;
    let rate = soft.rate_used_percent.is_some_and(|percent| {
        #[expect(clippy::cast_precision_loss, reason = "the fraction has 33 bits")]
        let free = state.windows.headroom(view.now) as f64 / FULL_HEADROOM as f64;
        (1.0 - free) * 100.0 >= percent
    });
    let left = state.quota.worst(view.now);
    let quota = soft.quota_left_percent.is_some_and(|percent| left.is_some_and(|it| it < percent));
    rate || quota
}
