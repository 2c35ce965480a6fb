//! The pool arm: one pass over the accounts.

use std::cmp::Ordering;

use crate::config::{Shard, Ties};
use crate::grant::Path;
use crate::refusal::{Lift, Rejection, Unavailable};
use crate::select::decision::Choice;
use crate::select::eligible::{eligible, judge};
use crate::select::query::{Query, View};
use crate::select::rank::{self, RankKey};
use crate::select::shard::{self, Distance};
use crate::slot::Slot;
use crate::sticky::trail::Trail;
use crate::time::Timestamp;

/// What one pass over the accounts found.
pub(super) struct Survey {
    best: Option<(RankKey, Slot)>,
    /// How many are equal to the best, by its key.
    tied: u32,
    /// The caller's place among the tied.
    sharded: Option<Slot>,
    /// The caller's place among all that are eligible, reserves only if there is no other.
    pinned: Option<Slot>,
    /// The account that degraded serving would use.
    degraded: Option<Slot>,
    refusal: Unavailable,
}

impl Survey {
    pub(super) fn choose(self) -> Result<Choice, Unavailable> {
        if let Some((_, best)) = self.best {
            let slot = self.sharded.unwrap_or(best);
            return Ok(Choice { slot, path: Path::Rank, tied: self.tied });
        }
        match self.degraded {
            Some(slot) => Ok(Choice { slot, path: Path::Degraded, tied: 1 }),
            None => Err(self.refusal),
        }
    }

    pub(super) fn pin(self) -> Result<Choice, Unavailable> {
        match self.pinned {
            Some(slot) => Ok(Choice { slot, path: Path::Pin, tied: 1 }),
            None => self.choose(),
        }
    }
}

/// Passes once over the accounts: filter, rank, tie, shard.
pub(super) fn survey(
    query: &Query<'_>,
    view: &View<'_>,
    bound: Option<(&Trail, Timestamp)>,
) -> Survey {
    let ranking = &view.config.rank;
    let mut pass = Pass::default();
    let mut refusal = Unavailable::new(view.now);
    let mut loaded = false;
    for (slot, state) in view.roster.iter() {
        match eligible(state, slot, false, query, view) {
            Ok(()) => {
                let place = query.caller.map(|caller| (shard::distance(caller, state), slot));
                pass.candidate(slot, rank::key(state, slot, query, view), ranking.ties, place);
                let reserve = state.fallback_only;
                nearer(&mut pass.nearest, place.map(|(it, slot)| ((reserve, it), slot)));
            }
            Err(unbound) => {
                let until = bound.and_then(|(trail, lapses)| {
                    trail.stays_until(slot, lapses, &view.config.sticky)
                });
                let bound = until.and_then(|_| judge(state, slot, until, query, view).err());
                let rejection = bound.unwrap_or(unbound);
                refusal.tally.add(rejection.reason);
                refusal.retry_at = earliest(refusal.retry_at, rejection.firm.deadline());
                refusal.release_at = earliest(refusal.release_at, rejection.release_at(view.now));
                loaded |= rejection.is_load_only();
                pass.rejected(slot, &rejection);
            }
        }
    }
    refusal.load_only = loaded && refusal.retry_at.is_none();
    let sharded = match (query.caller, ranking.shard) {
        (Some(caller), Shard::Modulo) if pass.tied > 1 => {
            nth_tied(shard::modulo(caller, pass.tied), &pass, query, view)
        }
        (Some(_), Shard::Rendezvous) => pass.nearest_tied.map(|(_, slot)| slot),
        _ => None,
    };
    Survey {
        best: pass.best,
        tied: pass.tied,
        sharded,
        pinned: pass.nearest.map(|(_, slot)| slot),
        degraded: pass.degraded.map(|(_, slot)| slot),
        refusal,
    }
}

/// The running result of a pass.
#[derive(Default)]
struct Pass {
    best: Option<(RankKey, Slot)>,
    tied: u32,
    nearest_tied: Option<(Distance, Slot)>,
    /// Reserves come after all others here too.
    nearest: Option<((bool, Distance), Slot)>,
    degraded: Option<(Timestamp, Slot)>,
}

impl Pass {
    fn candidate(&mut self, slot: Slot, key: RankKey, ties: Ties, place: Option<(Distance, Slot)>) {
        let order = self.best.map(|(best, _)| key.tie(ties).cmp(&best.tie(ties)));
        match order {
            Some(Ordering::Greater) => return,
            Some(Ordering::Equal) => self.tied += 1,
            None | Some(Ordering::Less) => {
                self.tied = 1;
                self.nearest_tied = None;
            }
        }
        nearer(&mut self.nearest_tied, place);
        if self.best.is_none_or(|(best, _)| key < best) {
            self.best = Some((key, slot));
        }
    }

    fn rejected(&mut self, slot: Slot, rejection: &Rejection) {
        if let (Lift::Free, Lift::At(recovers)) = (rejection.firm, rejection.lift)
            && self.degraded.is_none_or(|(earliest, _)| recovers < earliest)
        {
            self.degraded = Some((recovers, slot));
        }
    }
}

/// Keeps the nearer of two places; the earlier one when they are equally near.
fn nearer<D: Copy + Ord>(nearest: &mut Option<(D, Slot)>, place: Option<(D, Slot)>) {
    if let Some((distance, _)) = place
        && nearest.is_none_or(|(so_far, _)| distance < so_far)
    {
        *nearest = place;
    }
}

/// The account at an index among those equal to the best, in the order of insertion.
fn nth_tied(index: u32, pass: &Pass, query: &Query<'_>, view: &View<'_>) -> Option<Slot> {
    let ties = view.config.rank.ties;
    let best = pass.best?.0.tie(ties);
    let tied = view.roster.iter().filter(|&(slot, state)| {
        eligible(state, slot, false, query, view).is_ok()
            && rank::key(state, slot, query, view).tie(ties) == best
    });
    tied.map(|(slot, _)| slot).nth(index as usize)
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
