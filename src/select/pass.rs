//! The eligible accounts by one pass over all of them: the exact answer to every question, at a
//! cost that grows with the pool.

use crate::index::{Barred, Range, Ranked, Rules, Summary, WIDTH};
use crate::refusal::{Rejection, Tally, Unavailable};
use crate::request::Caller;
use crate::select::eligible::{eligible, judge};
use crate::select::query::{Query, View};
use crate::select::rank::{self, TieMask};
use crate::select::shard::distance;
use crate::select::survey::{Best, Share, Survey, Tied};
use crate::slot::Slot;
use crate::state::AccountState;
use crate::sticky::trail::Trail;
use crate::time::Timestamp;

/// A pass over the accounts for a request.
pub(crate) struct Pass<'a> {
    query: &'a Query<'a>,
    view: &'a View<'a>,
    ties: TieMask,
    best: Ranked,
}

impl<'a> Pass<'a> {
    /// Passes over the accounts.
    pub(crate) fn new(query: &'a Query<'a>, view: &'a View<'a>) -> Self {
        let ties = view.layout.ties;
        let mut pass = Self { query, view, ties, best: Ranked::EMPTY };
        let mut best = Ranked::EMPTY;
        for (slot, state) in pass.eligible() {
            let key = rank::key(state, slot, query, view);
            best.add(&Ranked::of(state, slot.index, key, view.now), Rules { ties, tokens: false });
        }
        pass.best = best;
        pass
    }

    /// The account of a caller among all that are eligible, reserves only if there is no other.
    pub(crate) fn nearest(&self, caller: Caller) -> Option<Slot> {
        let nearest = self.eligible().min_by_key(|(_, state)| {
            (state.fallback_only, distance(caller, state.hash, state.weight.into()))
        });
        nearest.map(|(slot, _)| slot)
    }

    fn eligible(&self) -> impl Iterator<Item = (Slot, &'a AccountState)> + '_ {
        self.view.roster.iter().filter(|&(slot, state)| self.is_eligible(slot, state))
    }

    fn is_eligible(&self, slot: Slot, state: &AccountState) -> bool {
        eligible(state, slot, false, self.query, self.view).is_ok()
    }

    fn tied(&self) -> impl Iterator<Item = (Slot, &'a AccountState)> + '_ {
        self.eligible().filter(|&(slot, state)| self.ties(slot, state))
    }

    /// Whether an eligible account ties with the best.
    fn ties(&self, slot: Slot, state: &AccountState) -> bool {
        self.best.ties_with(rank::key(state, slot, self.query, self.view), self.ties)
    }
}

impl Survey for Pass<'_> {
    fn best(&self) -> Option<Best> {
        let Ranked { place, tied, .. } = self.best;
        (tied > 0).then_some(Best { place, tied })
    }

    fn weight(&self) -> u64 {
        self.best.weight
    }

    fn weight_at(&self, place: u32) -> Option<u64> {
        let (slot, state) = self.view.roster.at(place)?;
        let ties = self.is_eligible(slot, state) && self.ties(slot, state);
        ties.then_some(state.weight.into())
    }

    fn shares(&self, range: Range) -> [Share; WIDTH] {
        let mut shares = [Share::default(); WIDTH];
        for (_, state) in self.tied() {
            if let Some(digit) = range.digit(state.number) {
                shares[digit].tied += 1;
                shares[digit].weight += u64::from(state.weight);
            }
        }
        shares
    }

    fn each_tied(&self, range: Range, mut visit: impl FnMut(Tied)) {
        for (slot, state) in self.tied() {
            if range.digit(state.number).is_some() {
                visit(Tied {
                    number: state.number,
                    place: slot.index,
                    hash: state.hash,
                    weight: state.weight.into(),
                });
            }
        }
    }

    fn whole(&self) -> Range {
        Range::up_to(self.view.roster.last_number())
    }

    fn refuse(&self, bound: Option<(&Trail, Timestamp)>) -> (Unavailable, Option<Slot>) {
        let mut refused = Refused::default();
        for (slot, state) in self.view.roster.iter() {
            if let Some(rejection) = rejection(state, slot, bound, self.query, self.view) {
                refused.add(&rejection, state.number);
            }
        }
        refused.conclude(self.view)
    }
}

/// Why an account cannot serve. For a caller whose trail is `bound`, an account of the trail
/// counts as its own for as long as it stays that.
pub(crate) fn rejection(
    state: &AccountState,
    slot: Slot,
    bound: Option<(&Trail, Timestamp)>,
    query: &Query<'_>,
    view: &View<'_>,
) -> Option<Rejection> {
    let unbound = eligible(state, slot, false, query, view).err()?;
    let until =
        bound.and_then(|(trail, lapses)| trail.stays_until(slot, lapses, &view.config.sticky));
    let own = until.and_then(|_| judge(state, slot, until, query, view).err());
    Some(own.unwrap_or(unbound))
}

/// What the accounts that cannot serve come to.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) barred: Barred,
    pub(crate) tally: Tally,
}

impl Default for Refused {
    fn default() -> Self {
        Self { barred: Barred::EMPTY, tally: Tally::default() }
    }
}

impl Refused {
    /// Adds an account.
    pub(crate) fn add(&mut self, rejection: &Rejection, number: u32) {
        self.tally.add(rejection.reason);
        self.add_all(&Barred::by(rejection, number));
    }

    /// Adds what a set of accounts comes to but for the reasons.
    pub(crate) fn add_all(&mut self, barred: &Barred) {
        self.barred.add(barred, ());
    }

    /// The refusal, and the account that degraded serving would use.
    pub(crate) fn conclude(self, view: &View<'_>) -> (Unavailable, Option<Slot>) {
        let mut refusal = Unavailable::new(view.now);
        refusal.tally = self.tally;
        refusal.retry_at = self.barred.retry_at;
        refusal.release_at = self.barred.release_at.map(|from| from.max(view.now));
        refusal.load_only = self.barred.loaded && refusal.retry_at.is_none();
        let degraded = self.barred.recovers.and_then(|(_, number)| view.roster.numbered(number));
        (refusal, degraded.map(|(slot, _)| slot))
    }
}
