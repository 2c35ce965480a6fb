//! The pool arm: the best of the eligible accounts, or why there is none.

use crate::config::Shard;
use crate::grant::Path;
use crate::index::{Range, Search, WIDTH};
use crate::refusal::Unavailable;
use crate::select::decision::Choice;
use crate::select::pass::Pass;
use crate::select::query::{Query, View};
use crate::select::shard;
use crate::slot::Slot;
use crate::sticky::trail::Trail;
use crate::time::Timestamp;

/// The eligible accounts in their order, as one who decides asks about them.
pub(crate) trait Survey {
    /// The best account, the first in the order of insertion among equal ones; `None` when none
    /// is eligible.
    fn best(&self) -> Option<Best>;

    /// The weights of the accounts that tie with the best, in thousandths, together.
    fn weight(&self) -> u64;

    /// The weight of the account in a place of the roster, in thousandths, if it ties with the best.
    fn weight_at(&self, place: u32) -> Option<u64>;

    /// The accounts that tie with the best, in the parts of a range of numbers.
    fn shares(&self, range: Range) -> [Share; WIDTH];

    /// Visits the accounts of a range that tie with the best, in the order of insertion. There are
    /// at most [`COMPARED`](shard::COMPARED), or the range is one of the smallest.
    fn each_tied(&self, range: Range, visit: impl FnMut(Tied));

    /// The range of all numbers.
    fn whole(&self) -> Range;

    /// Why none is eligible, and the account that degraded serving would use. `bound` is the
    /// caller's trail with the end of its binding.
    fn refuse(&self, bound: Option<(&Trail, Timestamp)>) -> (Unavailable, Option<Slot>);
}

/// The best account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Best {
    /// Its place in the roster.
    pub(crate) place: u32,
    /// How many accounts tie with it, itself included.
    pub(crate) tied: u32,
}

/// Accounts that tie with the best, together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    pub(crate) tied: u32,
    /// Their weights, in thousandths.
    pub(crate) weight: u64,
}

/// An account that ties with the best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tied {
    pub(crate) number: u32,
    /// Its place in the roster.
    pub(crate) place: u32,
    pub(crate) hash: u64,
    pub(crate) weight: u64,
}

/// Filter, rank, tie, shard: the account for a caller that has none, from the index, or from a
/// pass over all accounts where the index has no answer.
pub(super) fn choose(
    query: &Query<'_>,
    view: &View<'_>,
    bound: Option<(&Trail, Timestamp)>,
) -> Result<Choice, Unavailable> {
    if let Some(index) = view.index {
        let mut search = Search::new(index, query, view);
        if search.run().is_some() {
            return choose_from(&search, query, view, bound);
        }
    }
    choose_from(&Pass::new(query, view), query, view, bound)
}

fn choose_from(
    survey: &impl Survey,
    query: &Query<'_>,
    view: &View<'_>,
    bound: Option<(&Trail, Timestamp)>,
) -> Result<Choice, Unavailable> {
    let Some(Best { place, tied }) = survey.best() else {
        let (refusal, degraded) = survey.refuse(bound);
        let choice = degraded.map(|slot| Choice { slot, path: Path::Degraded, tied: 1 });
        return choice.ok_or(refusal);
    };
    let own = query.caller.filter(|_| tied > 1).and_then(|&caller| match view.config.rank.shard {
        Shard::Modulo => shard::nth(shard::modulo(caller, tied), tied, survey),
        Shard::Rendezvous => shard::nearest(caller, tied, view.roster, survey),
        Shard::Off => None,
    });
    let slot = view.roster.slot_at(own.unwrap_or(place));
    Ok(Choice { slot, path: Path::Rank, tied })
}

/// The account of a strictly pinned caller: its place among all that are eligible, whatever their
/// rank, or the best for a request of nobody. O(accounts).
pub(super) fn pin(query: &Query<'_>, view: &View<'_>) -> Result<Choice, Unavailable> {
    match query.caller.and_then(|&caller| Pass::new(query, view).nearest(caller)) {
        Some(slot) => Ok(Choice { slot, path: Path::Pin, tied: 1 }),
        None => choose(query, view, None),
    }
}
