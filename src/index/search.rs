//! A request's way through the index.

use arrayvec::ArrayVec;

use super::kind::Felt;
use super::ranked::{Rules, Sleeper};
use super::trie::{Count, Except};
use super::{Group, Index, Leaf, Membership, Ordered, Range, Ranked, Summary, WIDTH};
use crate::config::{Config, Term};
use crate::refusal::{Reason, Unavailable};
use crate::select::pass::{Pass, Refused, rejection};
use crate::select::query::{Query, View};
use crate::select::rank::{RankKey, TieMask};
use crate::select::shard::COMPARED;
use crate::select::survey::{Best, Share, Survey, Tied};
use crate::slot::Slot;
use crate::sticky::trail::Trail;
use crate::time::Timestamp;

/// How many accounts may be looked at apart from the summaries, and how many kinds may hold
/// accounts that tie. A request that needs more passes over all accounts.
const MAX_APART: usize = 32;

/// What the index says about a request.
pub(crate) struct Search<'a> {
    index: &'a Index,
    query: &'a Query<'a>,
    view: &'a View<'a>,
    /// The accounts that the summaries take for eligible and the request rules out.
    ruled_out: Apart,
    /// The best account, and how many tie with it.
    best: Ranked,
    /// The groups with accounts that tie with the best, and whether these are among the sleepers.
    parts: ArrayVec<(u32, bool), MAX_APART>,
}

/// Accounts of a group of which some tie with the best.
struct Part<'a> {
    group: &'a Group,
    sleepers: bool,
    /// The best of them, as the group knows it.
    key: RankKey,
    /// The weights of those that tie with it, together.
    weight: u64,
    /// Those that are ruled out.
    except: Except<'a>,
}

impl Part<'_> {
    /// The weight of an account of the group, if it is one of these and ties with the best.
    fn weight_of(&self, account: &Leaf, ties: TieMask) -> Option<u64> {
        let Except { numbers, at } = self.except;
        if !numbers.is_empty() && numbers.binary_search(&account.number).is_ok() {
            return None;
        }
        let ranked = if self.sleepers {
            let sleeper = self.group.asleep.get(account.number)?;
            (sleeper.counts(at) == Count::All).then_some(&sleeper.ranked)?
        } else {
            self.group.ranked.get_in(account.bottom, account.number)?
        };
        ranked.ties_with(self.key, ties).then_some(ranked.weight)
    }
}

impl Group {
    /// The summary of those that can serve the plain request: of the sleepers, or of the others.
    #[inline]
    fn best(&self, sleepers: bool, except: Except<'_>, rules: Rules) -> Ranked {
        if sleepers {
            self.asleep.without(except, rules).ranked
        } else {
            self.ranked.without(except, rules)
        }
    }
}

/// Accounts that are looked at apart from the summaries.
#[derive(Default)]
struct Apart {
    /// By group and number.
    accounts: ArrayVec<(u32, u32), MAX_APART>,
    /// The numbers alone.
    numbers: ArrayVec<u32, MAX_APART>,
}

impl Apart {
    /// Adds an account; `None` when there is no room.
    fn add(&mut self, account: (u32, u32)) -> Option<()> {
        match self.accounts.binary_search(&account) {
            Ok(_) => Some(()),
            Err(index) => {
                self.accounts.try_insert(index, account).ok()?;
                self.numbers.try_insert(index, account.1).ok()
            }
        }
    }

    /// The numbers of those in a group, in order.
    fn of(&self, group: u32) -> &[u32] {
        if self.accounts.is_empty() {
            return &[];
        }
        let start = self.accounts.partition_point(|&(other, _)| other < group);
        let end = self.accounts.partition_point(|&(other, _)| other <= group);
        &self.numbers[start..end]
    }
}

impl<'a> Search<'a> {
    /// A search that has not begun.
    #[inline]
    pub(crate) fn new(index: &'a Index, query: &'a Query<'a>, view: &'a View<'a>) -> Self {
        let (ruled_out, parts) = (Apart::default(), ArrayVec::new());
        Self { index, query, view, ruled_out, best: Ranked::EMPTY, parts }
    }

    /// Searches the index; `None` where it has no answer.
    #[inline(always)]
    pub(crate) fn run(&mut self) -> Option<()> {
        let vacates = self.view.vacated.is_some() && counts_bindings(self.view.config);
        if self.index.loose > 0 || vacates {
            return None;
        }
        if !self.query.excluded.is_empty() {
            self.rule_out_excluded()?;
        }
        if self.query.cost > 1 && self.index.token_limited > 0 {
            self.rule_out_short()?;
        }
        self.find_best()
    }

    /// Finds the excluded accounts that the summaries take for eligible.
    #[inline(never)]
    fn rule_out_excluded(&mut self) -> Option<()> {
        for id in self.query.excluded {
            if let Some(slot) = self.view.roster.find(id.as_str())
                && let leaf = &self.index.leaves[slot.index as usize]
                && (leaf.base.is_none() || leaf.wakes_at.is_some_and(|at| at <= self.view.now))
                && let Membership::Of(group) = leaf.group
            {
                self.ruled_out.add((group, leaf.number))?;
            }
        }
        Some(())
    }

    /// Finds the accounts that the summaries take for eligible and whose tokens are not enough.
    #[inline(never)]
    fn rule_out_short(&mut self) -> Option<()> {
        let is_short = |summary: &Ranked| summary.tokens < self.query.cost;
        let none = Except { numbers: &[], at: self.view.now };
        for (number, group) in (0..).zip(&self.index.groups) {
            if !self.serves(group) {
                continue;
            }
            let mut fits = Some(());
            let mut rule_out = |account| {
                fits = fits.and_then(|()| self.ruled_out.add((number, account)));
            };
            group.ranked.visit(group.ranked.range(), none, is_short, |number, _, _| {
                rule_out(number);
            });
            let is_short = |sleeper: &Sleeper| is_short(&sleeper.ranked);
            group.asleep.visit(group.asleep.range(), none, is_short, |number, _, _| {
                rule_out(number);
            });
            fits?;
        }
        Some(())
    }

    /// Compares the best of each group that serves the request.
    fn find_best(&mut self) -> Option<()> {
        let (ties, rules, now) = (self.index.ties, self.index.rules(), self.view.now);
        for &Ordered { least, group: number } in &self.index.order {
            if ties.precedes(self.best.key, least) {
                break;
            }
            let group = &self.index.groups[number as usize];
            if self.ruled_out.accounts.is_empty() {
                self.compare((number, false), group, group.ranked.whole())?;
            } else {
                let awake = group.best(false, self.except(number), rules);
                self.compare((number, false), group, &awake)?;
            }
            if group.asleep.whole().first <= now {
                let asleep = group.best(true, self.except(number), rules);
                self.compare((number, true), group, &asleep)?;
            }
        }
        Some(())
    }

    /// Compares the best of a part with the best so far.
    #[inline(always)]
    fn compare(&mut self, part: (u32, bool), group: &Group, whole: &Ranked) -> Option<()> {
        let ties = self.index.ties;
        if whole.tied == 0 {
            return Some(());
        }
        let key = group.kind.key(whole.key, self.query, self.view.layout);
        if ties.precedes(self.best.key, key) || !self.serves(group) {
            return Some(());
        }
        if ties.precedes(key, self.best.key) {
            self.parts.clear();
            (self.best, self.best.key) = (*whole, key);
        } else {
            self.best.add(&Ranked { key, ..*whole }, self.index.rules());
        }
        self.parts.try_push(part).ok()
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.parts.iter().map(|&part| self.part(part))
    }

    fn part(&self, (number, sleepers): (u32, bool)) -> Part<'_> {
        let group = &self.index.groups[number as usize];
        let except = self.except(number);
        let Ranked { key, weight, .. } = group.best(sleepers, except, self.index.rules());
        Part { group, sleepers, key, weight, except }
    }

    /// Visits the accounts of a part and a range that tie with the best.
    fn each_of(&self, part: &Part<'_>, range: Range, mut visit: impl FnMut(Tied)) {
        let &Part { group, sleepers, key, except, .. } = part;
        let mut add = |number: u32, place: u32, weight: u64| {
            let hash = self.index.hashes[place as usize];
            visit(Tied { number, place, hash, weight });
        };
        let ties = |ranked: &Ranked| ranked.ties_with(key, self.index.ties);
        if sleepers {
            let ties = |sleeper: &Sleeper| ties(&sleeper.ranked);
            group.asleep.visit(range, except, ties, |number, place, sleeper| {
                add(number, place, sleeper.ranked.weight);
            });
        } else {
            group.ranked.visit(range, except, ties, |number, place, ranked| {
                add(number, place, ranked.weight);
            });
        }
    }

    /// What is left out of a group.
    fn except(&self, group: u32) -> Except<'_> {
        Except { numbers: self.ruled_out.of(group), at: self.view.now }
    }

    #[inline]
    fn serves(&self, group: &Group) -> bool {
        group.kind.excludes(self.query).is_none()
            && group.kind.felt(self.query, self.view.config) == Felt::None
    }

    /// What all accounts come to when none is eligible; `None` where the index cannot tell.
    fn refused(&self, bound: Option<(&Trail, Timestamp)>) -> Option<Refused> {
        let (index, query, view) = (self.index, self.query, self.view);
        if query.cost > 1 && index.token_limited > 0 {
            return None;
        }
        let mut apart = Apart::default();
        let excluded = query.excluded.iter().filter_map(|id| view.roster.find(id.as_str()));
        let trail = bound.into_iter().flat_map(|(trail, _)| trail.stops());
        let trail = trail.map(|stop| stop.slot).filter(|&slot| view.roster.get(slot).is_some());
        for slot in excluded.chain(trail) {
            let leaf = &index.leaves[slot.index as usize];
            if let Membership::Of(group) = leaf.group {
                apart.add((group, leaf.number))?;
            }
        }
        let mut refused = Refused::default();
        for (number, group) in (0..).zip(&index.groups) {
            self.refuse_group(group, apart.of(number), &mut refused);
        }
        for &number in &apart.numbers {
            self.refuse_account(number, bound, &mut refused);
        }
        Some(refused)
    }

    fn refuse_account(
        &self,
        number: u32,
        bound: Option<(&Trail, Timestamp)>,
        refused: &mut Refused,
    ) {
        let account = self.view.roster.numbered(number);
        let rejection =
            account.and_then(|(slot, state)| rejection(state, slot, bound, self.query, self.view));
        rejection.iter().for_each(|rejection| refused.add(rejection, number));
    }

    /// Adds what the members of a group come to, but for those in `apart`.
    fn refuse_group(&self, group: &Group, apart: &[u32], refused: &mut Refused) {
        let except = Except { numbers: apart, at: self.view.now };
        let felt = group.kind.felt(self.query, self.view.config);
        let reason = |number: u32, of: fn(&Leaf) -> Option<Reason>| {
            group.ranked.place(number).and_then(|place| of(&self.index.leaves[place as usize]))
        };
        if let Some(excluded) = group.kind.excludes(self.query) {
            let full = group.kind.is_at_binding_limit() && self.query.is_sticky(self.view.config);
            let other = if full { Reason::BindingLimit } else { excluded };
            let mut tally = group.base.tally;
            apart
                .iter()
                .filter_map(|&it| reason(it, |leaf| leaf.base))
                .for_each(|it| tally.remove(it));
            let mut others = group.members - apart.len();
            for standing in Reason::STANDING {
                let count = tally.count(standing);
                refused.tally.add_many(standing, count);
                others -= count as usize;
            }
            refused.tally.add_many(other, u32::try_from(others).unwrap_or(u32::MAX));
            return;
        }
        let (bars, of): (_, fn(&Leaf) -> Option<Reason>) = match felt {
            Felt::None => (&group.base, |leaf| leaf.base),
            Felt::All => (&group.felt, |leaf| leaf.felt),
            Felt::Some => {
                group.ranked.visit(
                    group.ranked.range(),
                    except,
                    |_| true,
                    |number, _, _| {
                        self.refuse_account(number, None, refused);
                    },
                );
                return;
            }
        };
        let mut tally = bars.tally;
        apart.iter().filter_map(|&it| reason(it, of)).for_each(|it| tally.remove(it));
        tally.iter().for_each(|(reason, count)| refused.tally.add_many(reason, count));
        refused.add_all(&bars.barred.without(except, ()));
    }
}

impl Survey for Search<'_> {
    fn best(&self) -> Option<Best> {
        let Ranked { place, tied, .. } = self.best;
        (tied > 0).then_some(Best { place, tied })
    }

    fn weight(&self) -> u64 {
        self.parts().map(|part| part.weight).sum()
    }

    fn weight_at(&self, place: u32) -> Option<u64> {
        let leaf = self.index.leaves.get(place as usize)?;
        let of_group = |&&(group, _): &&(u32, bool)| leaf.group == Membership::Of(group);
        let weight = |part| self.part(part).weight_of(leaf, self.index.ties);
        self.parts.iter().filter(of_group).find_map(|&part| weight(part))
    }

    fn shares(&self, range: Range) -> [Share; WIDTH] {
        let ties = self.index.ties;
        let mut shares = [Share::default(); WIDTH];
        for Part { group, sleepers, key, except, .. } in self.parts() {
            let rules = self.index.rules();
            let mut add = |digit: u32, summary: &Ranked| {
                if summary.ties_with(key, ties) {
                    shares[digit as usize].tied += summary.tied;
                    shares[digit as usize].weight += summary.weight;
                }
            };
            if sleepers {
                let add = |digit, sleeper: &Sleeper| add(digit, &sleeper.ranked);
                group.asleep.each_part(range, except, rules, add);
            } else {
                group.ranked.each_part(range, except, rules, add);
            }
        }
        shares
    }

    fn each_tied(&self, range: Range, visit: impl FnMut(Tied)) {
        if let [part] = self.parts[..] {
            return self.each_of(&self.part(part), range, visit);
        }
        // The accounts of several parts are to be put into one order.
        let mut tied: ArrayVec<Tied, { COMPARED as usize }> = ArrayVec::new();
        self.parts().for_each(|part| self.each_of(&part, range, |account| tied.push(account)));
        tied.sort_unstable_by_key(|account| account.number);
        tied.iter().copied().for_each(visit);
    }

    fn whole(&self) -> Range {
        Range::up_to(self.view.roster.last_number())
    }

    fn refuse(&self, bound: Option<(&Trail, Timestamp)>) -> (Unavailable, Option<Slot>) {
        match self.refused(bound) {
            Some(refused) => refused.conclude(self.view),
            None => Pass::new(self.query, self.view).refuse(bound),
        }
    }
}

/// Whether it makes a difference how many callers are bound to an account.
fn counts_bindings(config: &Config) -> bool {
    let refuses = config.sticky.binding_limit.is_some_and(|limit| limit.refuse);
    refuses || config.rank.terms.contains(&Term::BoundCallers)
}
