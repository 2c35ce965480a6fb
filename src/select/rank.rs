//! The order among eligible accounts: one packed key each, smaller is better.

use crate::config::{Recency, Term, Ties};
use crate::names::Named;
use crate::select::query::{Query, View};
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::Target;
use crate::state::window::FULL_HEADROOM;

/// An account's place in the order. Its comparison is the only order there is, and its equality
/// the only test of a tie: under [`Ties::Health`] on the first part alone.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct RankKey {
    /// All terms before recency.
    pub(crate) merit: u128,
    pub(crate) recency: u64,
}

impl RankKey {
    /// The part on which accounts tie.
    pub(crate) fn tie(self, ties: Ties) -> Self {
        match ties {
            Ties::Exact => self,
            Ties::Health { .. } => Self { recency: 0, ..self },
        }
    }
}

/// The value of one term, with the bits that it may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighed {
    pub(crate) value: u64,
    bits: u32,
}

/// The key of an account for a request.
pub(crate) fn key(state: &AccountState, slot: Slot, query: &Query<'_>, view: &View<'_>) -> RankKey {
    let Precedence { fallback_only, past_soft_limit } = precedence(state, view);
    let mut merit = u128::from(fallback_only) << 1 | u128::from(past_soft_limit);
    let mut recency = 0;
    for &term in &view.config.rank.terms {
        let Weighed { value, bits } = weigh(term, state, slot, query, view);
        if term == Term::Recency {
            recency = value;
        } else {
            merit = merit << bits | u128::from(value.min((1 << bits) - 1));
        }
    }
    RankKey { merit, recency }
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
pub(crate) fn weigh(
    term: Term,
    state: &AccountState,
    slot: Slot,
    query: &Query<'_>,
    view: &View<'_>,
) -> Weighed {
    let now = view.now;
    let (value, bits) = match term {
        Term::ModelCooldown => (u64::from(has_unnamed_cooldown(state, query, view)), 1),
        Term::Tier => (state.tier.into(), 8),
        Term::InFlight => (in_flight_steps(view.in_flight(state, slot), view), 16),
        Term::WeightedInFlight => {
            let steps = in_flight_steps(view.in_flight(state, slot), view);
            (steps * 256_000 / u64::from(state.weight), 20)
        }
        Term::Trouble => (trouble(state, query, view), 6),
        Term::Quota => (quota_steps_missing(state, view), 7),
        Term::Headroom => (FULL_HEADROOM - coarse_headroom(state, view), 33),
        Term::BoundCallers => (view.bound(state, slot).into(), 16),
        Term::QuotaReset => {
            let reset = state.quota.next_reset(now).map(|reset| reset.as_millis() / 1_000);
            (reset.unwrap_or(u64::MAX), 32)
        }
        Term::Recency => match view.config.rank.recency {
            Recency::Turn => (state.load.turn, 64),
            Recency::Millisecond => (state.load.last_used.as_millis(), 64),
        },
    };
    Weighed { value, bits }
}

/// Whether the account has a live cooldown that the request might meet, because it does not say
/// which model or selector it is for.
fn has_unnamed_cooldown(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    let mut live = state.cooldowns.live(view.now);
    live.any(|block| match block.target {
        Target::Account => false,
        Target::Model(_) => query.model == Named::Absent,
        Target::Selector(_) => query.selector == Named::Absent,
    })
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
