//! The order among eligible accounts: one packed key each, smaller is better.
//!
//! What few accounts have and few configurations ask for is looked at out of line, so that the
//! key of an ordinary account stays cheap.

mod translation;

pub(crate) use self::translation::Translation;
use crate::config::{QuotaPolicy, Ranking, Recency, Term, Ties};
use crate::names::Named;
use crate::select::query::{Query, View};
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::Target;
use crate::state::window::{FULL_HEADROOM, Reading};
use crate::time::Timestamp;

/// An account's place in the order. Its comparison is the only order there is, and its equality,
/// as far as a [`TieMask`] lets it look, the only test of a tie. Without padding, since the index
/// holds several per account.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(C, packed(8))]
pub(crate) struct RankKey {
    /// All terms before recency.
    pub(crate) merit: u128,
    pub(crate) recency: u64,
}

impl RankKey {
    /// The same with a part of the merit that was left out.
    pub(crate) fn with(self, merit: u128) -> Self {
        Self { merit: self.merit + merit, ..self }
    }

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

/// The configured order, laid out: what each term adds to the merit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    /// By term: what one more in it adds, recency aside; 0 when the order does not look at it.
    units: [u128; TERMS],
    /// What goes before all terms.
    past_soft_limit: u128,
    fallback_only: u128,
    has_recency: bool,
    pub(crate) ties: TieMask,
}

/// How many terms there are.
const TERMS: usize = 10;

impl Layout {
    /// The layout of a valid order of preference.
    pub(crate) fn under(ranking: &Ranking) -> Self {
        let mut units = [0; TERMS];
        let mut unit = 1;
        for &term in ranking.terms.iter().rev().filter(|&&term| term != Term::Recency) {
            units[term as usize] = unit;
            unit <<= bits(term);
        }
        Self {
            units,
            past_soft_limit: unit,
            fallback_only: unit << 1,
            has_recency: ranking.terms.contains(&Term::Recency),
            ties: TieMask::under(ranking.ties),
        }
    }

    /// What one more in a term adds to the merit; 0 when the order does not look at it.
    #[inline]
    pub(crate) fn unit(&self, term: Term) -> u128 {
        self.units[term as usize]
    }

    /// The bits of the merit that a term takes.
    fn bits(&self, term: Term) -> u128 {
        self.unit(term) * u128::from(most(term))
    }
}

/// The key of an account for a request.
pub(crate) fn key(state: &AccountState, slot: Slot, query: &Query<'_>, view: &View<'_>) -> RankKey {
    let reading = state.windows.read(view.now);
    moving(state, slot, reading, query, view).with(settled(state, slot, query, view))
}

/// The part of the merit that stays when requests start, end or leave their window: each term is in
/// it or in [`moving`].
pub(crate) fn settled(
    state: &AccountState,
    slot: Slot,
    query: &Query<'_>,
    view: &View<'_>,
) -> u128 {
    let part = |term| merit_of(term, state, slot, query, view);
    let reserve = if state.fallback_only { view.layout.fallback_only } else { 0 };
    reserve
        + part(Term::ModelCooldown)
        + part(Term::Tier)
        + part(Term::Trouble)
        + part(Term::Quota)
        + part(Term::BoundCallers)
        + part(Term::QuotaReset)
}

/// The rest of the key of an account whose request windows say `reading`.
#[inline(always)]
pub(crate) fn moving(
    state: &AccountState,
    slot: Slot,
    reading: Reading,
    query: &Query<'_>,
    view: &View<'_>,
) -> RankKey {
    let part = |term| merit_of(term, state, slot, query, view);
    let merit = past_soft_limit(state, view)
        + part(Term::InFlight)
        + part(Term::WeightedInFlight)
        + scaled(Term::Headroom, headroom_missing(reading, view), view);
    RankKey { merit, recency: if view.layout.has_recency { recency(state, view) } else { 0 } }
}

/// What a term adds to the merit.
#[inline(always)]
fn merit_of(
    term: Term,
    state: &AccountState,
    slot: Slot,
    query: &Query<'_>,
    view: &View<'_>,
) -> u128 {
    let counts = view.layout.unit(term) > 0;
    if counts { scaled(term, weigh(term, state, slot, query, view), view) } else { 0 }
}

/// What a term of that value adds to the merit.
#[inline(always)]
fn scaled(term: Term, value: u64, view: &View<'_>) -> u128 {
    u128::from(value.min(most(term))) * view.layout.unit(term)
}

/// Whether a term of trouble would be zero.
pub(crate) fn is_calm(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    trouble(state, query, view) == 0
}

/// The percentage of a quota of which nothing is used.
const FULL_PERCENT: f64 = 100.0;

/// How many bits of the merit a term takes; recency has its own part of the key.
#[inline]
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

/// The largest value that a term's bits hold.
#[inline]
fn most(term: Term) -> u64 {
    (1 << bits(term)) - 1
}

/// One term of an account, smaller is better.
#[inline(always)]
pub(crate) fn weigh(
    term: Term,
    state: &AccountState,
    slot: Slot,
    query: &Query<'_>,
    view: &View<'_>,
) -> u64 {
    match term {
        Term::ModelCooldown => has_unnamed_cooldown(state, query, view).into(),
        Term::Tier => state.tier.into(),
        Term::InFlight => in_flight_steps(state, slot, view),
        Term::Trouble => trouble(state, query, view),
        Term::Quota => quota_steps_missing(state, view),
        Term::Headroom => headroom_missing(state.windows.read(view.now), view),
        Term::Recency => recency(state, view),
        Term::WeightedInFlight => weighted_in_flight(state, slot, view),
        Term::BoundCallers => view.bound(state, slot).into(),
        Term::QuotaReset => quota_reset(state, view.now),
    }
}

#[inline(never)]
fn weighted_in_flight(state: &AccountState, slot: Slot, view: &View<'_>) -> u64 {
    in_flight_steps(state, slot, view) * 256_000 / u64::from(state.weight)
}

#[inline(never)]
fn quota_reset(state: &AccountState, now: Timestamp) -> u64 {
    let reset = state.quota.next_reset(now).map(|reset| reset.as_millis() / 1_000);
    reset.unwrap_or(u64::MAX)
}

#[inline]
fn recency(state: &AccountState, view: &View<'_>) -> u64 {
    match view.config.rank.recency {
        Recency::Turn => state.load.turn,
        Recency::Millisecond => state.load.last_used.as_millis(),
    }
}

/// Whether the account has a live cooldown that the request might meet, because it does not say
/// which model or selector it is for.
#[inline]
fn has_unnamed_cooldown(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    !state.cooldowns.is_empty() && might_meet_any(state, query, view)
}

#[inline(never)]
fn might_meet_any(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
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

fn in_flight_steps(state: &AccountState, slot: Slot, view: &View<'_>) -> u64 {
    let in_flight = view.in_flight(state, slot);
    match view.config.rank.ties {
        Ties::Exact => in_flight.into(),
        Ties::Health { in_flight_slack, .. } => {
            u64::from(in_flight) / (u64::from(in_flight_slack) + 1)
        }
    }
}

/// Trouble in buckets; at least one while a capped throttle is over for us but not for the
/// upstream.
#[inline]
fn trouble(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> u64 {
    let none = state.health.is_spotless() && state.cooldowns.is_empty();
    if none { 0 } else { known_trouble(state, query, view) }
}

#[inline(never)]
fn known_trouble(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> u64 {
    let policy = &view.config.health;
    let buckets = state.health.score(policy, view.now) / u64::from(policy.bucket);
    let past_cap = state.cooldowns.is_past_cap(|target| query.concerns(target), view.now);
    buckets.max(u64::from(past_cap))
}

#[inline]
fn quota_steps_missing(state: &AccountState, view: &View<'_>) -> u64 {
    let policy = &view.config.quota;
    let percent = state.quota.worst(view.now).unwrap_or(policy.unknown_percent);
    if percent >= FULL_PERCENT { 0 } else { steps_missing(percent, policy) }
}

#[inline(never)]
fn steps_missing(percent: f64, policy: &QuotaPolicy) -> u64 {
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
    steps(FULL_PERCENT) - steps(percent)
}

#[inline]
fn headroom_missing(reading: Reading, view: &View<'_>) -> u64 {
    let free = reading.headroom;
    let coarse = match view.config.rank.ties {
        Ties::Exact => free,
        Ties::Health { headroom_steps, .. } => (free * u64::from(headroom_steps)) >> 32,
    };
    FULL_HEADROOM - coarse
}

/// What an account that is past a soft limit has added to its merit.
#[inline]
fn past_soft_limit(state: &AccountState, view: &View<'_>) -> u128 {
    if is_past_soft_limit(state, view) { view.layout.past_soft_limit } else { 0 }
}

/// Whether the account is left to its bound callers while others can serve. Reserves aside, that
/// goes before all terms.
#[inline]
pub(crate) fn is_past_soft_limit(state: &AccountState, view: &View<'_>) -> bool {
    let soft = &view.config.soft;
    soft.rate_used_percent.is_some_and(|percent| uses_rate(state, percent, view.now))
        || soft.quota_left_percent.is_some_and(|percent| lacks_quota(state, percent, view.now))
}

/// Whether so many percent of the tightest request window are in use.
#[inline(never)]
fn uses_rate(state: &AccountState, percent: f64, now: Timestamp) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "the fraction has 33 bits")]
    let free = state.windows.read(now).headroom as f64 / FULL_HEADROOM as f64;
    (1.0 - free) * 100.0 >= percent
}

/// Whether fewer percent of quota are left.
#[inline(never)]
fn lacks_quota(state: &AccountState, percent: f64, now: Timestamp) -> bool {
    state.quota.worst(now).is_some_and(|left| left < percent)
}
