//! From the keys under one order of preference to those under another.

use super::{Layout, RankKey, merit_of, past_soft_limit, recency};
use crate::config::{Config, Term};
use crate::select::query::{Query, View};
use crate::slot::Slot;
use crate::state::AccountState;

/// Makes keys under one order of preference into keys under another. A key says what each term of
/// its order weighs, up to the width at which terms saturate in any order; so an account is asked
/// only for terms that the former order did not look at, or weighed otherwise.
#[derive(Debug)]
pub(crate) struct Translation {
    /// What the former key says.
    moves: Vec<Move>,
    /// The part of the former recency that stays, as a mask: all of it or none.
    recency: u64,
    /// What it does not say, and whether there is something of it.
    weighed: Vec<Term>,
    weighs_soft_limits: bool,
    weighs_recency: bool,
    asks: bool,
}

/// Bits of a merit that go to another place in it.
#[derive(Debug)]
struct Move {
    bits: u128,
    /// By how many places they rotate to the left.
    by: u32,
}

impl Translation {
    /// The translation where nothing but the order of preference has changed.
    pub(crate) fn between(before: &Config, next: &Config) -> Self {
        let (from, to) = (Layout::under(&before.rank), Layout::under(&next.rank));
        let keeps = |&term: &Term| {
            before.rank.terms.contains(&term) && is_weighed_alike(term, before, next)
        };
        let (kept, weighed): (Vec<Term>, Vec<Term>) =
            next.rank.terms.iter().copied().partition(keeps);
        let weighs_soft_limits = before.soft != next.soft;
        let mut it = Self {
            moves: Vec::new(),
            recency: if kept.contains(&Term::Recency) { u64::MAX } else { 0 },
            asks: weighs_soft_limits || !weighed.is_empty(),
            weighs_recency: weighed.contains(&Term::Recency),
            weighs_soft_limits,
            weighed,
        };
        it.carry(from.fallback_only, from.fallback_only, to.fallback_only);
        if !weighs_soft_limits {
            it.carry(from.past_soft_limit, from.past_soft_limit, to.past_soft_limit);
        }
        for term in kept.into_iter().filter(|&term| term != Term::Recency) {
            it.carry(from.bits(term), from.unit(term), to.unit(term));
        }
        it
    }

    /// Moves bits as far as from one unit to another.
    fn carry(&mut self, bits: u128, from: u128, to: u128) {
        let by = (u128::BITS + to.trailing_zeros() - from.trailing_zeros()) % u128::BITS;
        match self.moves.iter_mut().find(|it| it.by == by) {
            Some(it) => it.bits |= bits,
            None => self.moves.push(Move { bits, by }),
        }
    }

    /// The key of the account in a place, from the one that it had for the same query.
    #[inline]
    pub(crate) fn key(
        &self,
        before: RankKey,
        place: u32,
        query: &Query<'_>,
        view: &View<'_>,
    ) -> RankKey {
        let moved = |merit, it: &Move| merit | (before.merit & it.bits).rotate_left(it.by);
        let merit = self.moves.iter().fold(0, moved);
        let mut key = RankKey { merit, recency: before.recency & self.recency };
        if self.asks
            && let Some((slot, state)) = view.roster.at(place)
        {
            key.merit += self.weigh_merit(state, slot, query, view);
            key.recency |= self.weigh_recency(state, view);
        }
        debug_assert_eq!(
            Some(key),
            view.roster.at(place).map(|(slot, state)| super::key(state, slot, query, view)),
            "what the former key says holds"
        );
        key
    }

    /// The part of the merit that the former one does not say.
    fn weigh_merit(
        &self,
        state: &AccountState,
        slot: Slot,
        query: &Query<'_>,
        view: &View<'_>,
    ) -> u128 {
        let soft = if self.weighs_soft_limits { past_soft_limit(state, view) } else { 0 };
        let weigh = |merit, &term: &Term| merit + merit_of(term, state, slot, query, view);
        self.weighed.iter().fold(soft, weigh)
    }

    /// The recency, where the former one does not say it.
    #[inline]
    fn weigh_recency(&self, state: &AccountState, view: &View<'_>) -> u64 {
        if self.weighs_recency { recency(state, view) } else { 0 }
    }
}

/// Whether a term weighs the same under two policies that differ in the order of preference alone.
fn is_weighed_alike(term: Term, one: &Config, other: &Config) -> bool {
    match term {
        Term::InFlight | Term::WeightedInFlight | Term::Headroom => {
            one.rank.ties == other.rank.ties
        }
        Term::Recency => one.rank.recency == other.rank.recency,
        Term::ModelCooldown
        | Term::Tier
        | Term::Trouble
        | Term::Quota
        | Term::BoundCallers
        | Term::QuotaReset => true,
    }
}
