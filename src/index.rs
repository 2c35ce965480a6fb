//! The index: what makes a selection cheap in a large pool.
//!
//! It answers what a pass over all accounts would ([`Pass`](crate::select::pass::Pass) is that
//! pass, and the exact answer wherever the index has none), from summaries that are kept current:
//!
//! - **Kinds** ([`kind`]): accounts that are open to the same names, by their entitlement and by
//!   the cooldowns that only some requests feel. They are kept in the order of the best key that
//!   a request may find in each; a request looks at them until no other can be better.
//! - **Tries** ([`trie`]): per kind, who can serve ([`ranked`]: the smallest key and those that
//!   tie with it) and who cannot ([`barred`]: reasons and deadlines), summed up over aligned
//!   ranges of 16, 256, … accounts in the order of insertion. Of those who can serve, a few that
//!   have come to be better than all others lie apart, until they are chosen ([`ranking`]).
//! - **Deadlines** ([`due`]): when time alone changes what is known about an account.
//!
//! # Invariants
//!
//! An index is *current* at `now` when no account has been touched since the last
//! [`refresh`](Index::refresh), none is due, and nothing waits to be joined. Then, for each
//! account, the predicate lets it serve the plain request exactly when `ranked` holds its key, or
//! `asleep` does and it is awake; otherwise `barred` holds the predicate's rejection. All come from
//! the same functions that the pass uses: an account is looked at closely, or, where only its load
//! and windows have changed, again, which asks just the parts of these functions that depend on
//! them ([`look`]). The index is derived from the accounts: it is no part of a snapshot or
//! comparison.
//!
//! # Costs
//!
//! | operation | cost |
//! | --- | --- |
//! | refresh | O(log accounts) for each account that was touched or is due; O(accounts) where that is most of them |
//! | another policy, prepared | O(accounts), in calls that look at as many as they are told to |
//! | another order of preference, not prepared ([`translate`]) | O(accounts); it reads an account only for what its key does not say |
//! | recovery of many accounts at one instant | O(1) amortised for each, without looking at it |
//! | best account, number of ties | O(kinds), of which it looks at few |
//! | the caller's place among the tied | O(1) where a good part of the accounts ties, else O(log accounts) |
//! | an excluded account | O(log accounts) |
//! | refusal | O(kinds) |

mod barred;
mod due;
mod group;
mod kind;
mod look;
mod ranked;
mod ranking;
mod search;
mod translate;
mod trie;

pub(crate) use self::barred::Barred;
use self::due::Deadlines;
use self::group::{Group, Leaf, Membership};
use self::kind::{Condition, Kind, plain};
use self::ranked::{NO_KEY, Sleeper};
pub(crate) use self::ranked::{Ranked, Rules};
pub(crate) use self::search::Search;
use self::trie::{Except, height_for};
pub(crate) use self::trie::{Range, Summary, WIDTH};
use crate::chunks::Chunks;
use crate::config::Term;
use crate::roster::Roster;
use crate::roster::touched::{Touch, Touched};
use crate::select::query::{Query, View};
use crate::select::rank::{RankKey, TieMask};
use crate::slot::Slot;
use crate::state::AccountState;
use crate::time::Timestamp;

/// How many kinds are told apart. In a pool of more, accounts of the kinds that came last are
/// [loose](Index::loose), and selections pass over all accounts.
const MAX_KINDS: usize = 1_024;

/// How many accounts that are due are looked at one after the other. Where they are more, it is
/// better to know all of them first: then one can be fetched while another is looked at.
const FEW: usize = 2;

/// How many accounts that are awake are moved by one refresh.
const MAX_WOKEN: usize = 64;

/// From how many accounts on it is cheaper to join all tries once, if they are a good part of the
/// pool, than to do so for each account.
const MANY: usize = 256;

/// A group by what makes its place in the order.
#[derive(Clone, Copy, Debug)]
struct Ordered {
    least: RankKey,
    group: u32,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    groups: Vec<Group>,
    /// The groups by [`Group::least`], then by number.
    order: Vec<Ordered>,
    /// Before this instant no sleeper wakes.
    quiet_until: Timestamp,
    /// By place.
    leaves: Chunks<Leaf>,
    /// The accounts' hashes, by place.
    hashes: Vec<u64>,
    deadlines: Deadlines,
    height: u32,
    /// How often the order of preference has changed.
    order_number: u32,
    ties: TieMask,
    /// What a cooldown of another model costs in the order: see [`Kind::least`].
    cooled: u128,
    /// Accounts without a kind.
    loose: usize,
    /// Accounts with a limit of tokens.
    token_limited: usize,
    /// Room for the work of a refresh, kept so that it is not allocated again.
    places: Vec<u32>,
    conditions: Vec<Condition>,
    /// Whether accounts are looked at without joining what is learnt, and those of a new group too.
    is_behind: bool,
}

impl PartialEq for Index {
    /// What is derived from the accounts makes no difference between schedulers.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Index {
    /// An empty index that is to [learn](Self::learn_some) of its accounts a few at a time, and
    /// joins nothing before it knows all of them.
    pub(crate) fn to_be_filled() -> Self {
        let mut it = Self::default();
        it.fall_behind();
        it
    }

    /// Whether it answers for `now`.
    pub(crate) fn is_current(&self, roster: &Roster, now: Timestamp) -> bool {
        !self.is_behind && roster.touched().places().is_empty() && now < self.deadlines.earliest()
    }

    /// Makes it current at the view's time.
    pub(crate) fn refresh(&mut self, view: &View<'_>) {
        self.learn(view);
        if self.is_behind {
            self.catch_up();
        }
        if self.quiet_until <= view.now {
            self.wake(view.now);
        }
        debug_assert!(self.is_in_order(), "kinds come in the order of their best keys");
        debug_assert!(self.quiet_until <= self.next_waking(), "who wakes is moved");
    }

    /// Looks at the accounts that were touched or are due: the part of a refresh that reads
    /// accounts. Where they are most of the pool, what is learnt is left to be joined, and the
    /// index is not current before the next refresh.
    pub(crate) fn learn(&mut self, view: &View<'_>) {
        let touched = view.roster.touched();
        if touched.has_moved() {
            self.let_go(touched, view.roster);
        }
        let plain = self.set_out(view);
        if touched.is_all() || is_most(touched.places(), view) {
            self.fall_behind();
        }
        for (place, touch) in touched.iter() {
            self.look_at(place, touch, &plain, view);
        }
        self.deadlines.catch_up();
        for _ in 0..FEW {
            let Some(place) = self.deadlines.first_due(view.now) else {
                return;
            };
            self.look_at(place, Touch::None, &plain, view);
        }
        self.look_at_due(&plain, view);
    }

    /// Looks at up to so many of the accounts that were touched, which then no longer count as
    /// such, and joins what it has learnt when it has looked at all of them, as a rule in a call
    /// of its own; whether nothing is left to do. Who has left must be [gone](Self::let_go).
    pub(crate) fn learn_some(
        &mut self,
        touched: &mut Touched,
        most: usize,
        view: &View<'_>,
    ) -> bool {
        let plain = self.set_out(view);
        let before = touched.places().len();
        for (place, touch) in std::iter::from_fn(|| touched.pop()).take(most) {
            self.look_at(place, touch, &plain, view);
        }
        if self.is_behind && before <= (most / 2).max(1) {
            self.catch_up();
        }
        !self.is_behind && touched.places().is_empty()
    }

    /// Notes what all that it learns rests on, beside the accounts; the request that it asks about.
    fn set_out(&mut self, view: &View<'_>) -> Query<'static> {
        self.ties = view.layout.ties;
        self.cooled = view.layout.unit(Term::ModelCooldown);
        plain(view.config)
    }

    /// Looks at all accounts that are due.
    #[inline(never)]
    fn look_at_due(&mut self, plain: &Query<'_>, view: &View<'_>) {
        let mut places = std::mem::take(&mut self.places);
        self.deadlines.due(view.now, &mut places);
        if is_most(&places, view) {
            self.fall_behind();
        }
        for place in places.drain(..) {
            self.look_at(place, Touch::None, plain, view);
        }
        self.places = places;
        self.deadlines.catch_up();
    }

    /// Until [`catch_up`](Self::catch_up), what is learnt of accounts is not joined.
    #[cold]
    fn fall_behind(&mut self) {
        self.is_behind = true;
        self.deadlines.fall_behind();
        self.groups.iter_mut().for_each(Group::fall_behind);
    }

    /// Joins what was learnt.
    #[cold]
    fn catch_up(&mut self) {
        self.is_behind = false;
        self.deadlines.catch_up();
        let rules = self.rules();
        self.groups.iter_mut().for_each(|group| group.catch_up(rules));
        (0..self.groups.len()).for_each(|index| self.reorder(index));
    }

    fn is_in_order(&self) -> bool {
        let is_known = |it: &Ordered| {
            let group = &self.groups[it.group as usize];
            it.least == group.least && it.least == group.least_of_all(self.cooled)
        };
        let sorted = self.order.is_sorted_by_key(|it| (it.least, it.group));
        self.groups.len() <= 1 || (sorted && self.order.iter().all(is_known))
    }

    /// Moves a group to its place in the order.
    #[inline]
    fn reorder(&mut self, index: usize) {
        if self.groups.len() > 1 {
            self.reorder_among(index);
        }
    }

    fn reorder_among(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let least = group.least_of_all(self.cooled);
        if least == group.least {
            return;
        }
        let before = std::mem::replace(&mut group.least, least);
        let number = u32::try_from(index).expect("there are few groups");
        let precedes = |it: &Ordered, key: RankKey| it.least.is_before(it.group, key, number);
        let from = self.order.partition_point(|it| precedes(it, before));
        self.order[from].least = least;
        if least < before {
            let to = self.order[..from].partition_point(|it| precedes(it, least));
            self.order[to..=from].rotate_right(1);
        } else {
            let after = &self.order[from + 1..];
            let to = from + after.partition_point(|it| precedes(it, least));
            self.order[from..=to].rotate_left(1);
        }
    }

    /// Moves accounts that are awake to those that can serve: a few at a time, since they count
    /// where they are.
    #[cold]
    fn wake(&mut self, now: Timestamp) {
        let except = Except { numbers: &[], at: now };
        let mut left = MAX_WOKEN;
        for index in 0..self.groups.len() {
            if self.groups[index].asleep.whole().first <= now && left > 0 {
                let mut woken = std::mem::take(&mut self.places);
                self.groups[index].asleep.visit_some(left, except, &mut woken);
                left -= woken.len();
                for place in woken.drain(..) {
                    self.wake_up(index, place);
                }
                self.places = woken;
            }
        }
        self.quiet_until = self.next_waking();
    }

    /// When the next sleeper wakes.
    fn next_waking(&self) -> Timestamp {
        let wakes = self.groups.iter().map(|group| group.asleep.whole().first).min();
        wakes.unwrap_or(Timestamp::MAX)
    }

    /// Moves an account of a group that is awake to those that can serve.
    fn wake_up(&mut self, group: usize, place: u32) {
        let rules = self.rules();
        let leaf = &mut self.leaves[place as usize];
        let group = &mut self.groups[group];
        leaf.wakes_at = None;
        group.base.recount(leaf.base.take(), None);
        let number = leaf.number;
        let ranked = group.asleep.get(number).map_or(Ranked::EMPTY, |sleeper| sleeper.ranked);
        group.base.barred.set(number, place, &Barred::EMPTY, ());
        group.asleep.set(number, place, &Sleeper::EMPTY, rules);
        group.ranked.set(number, place, &ranked, rules);
    }

    /// Puts an account into the group where it belongs; `false` when it is there.
    #[inline]
    fn sort_in(&mut self, place: u32, slot: Slot, state: &AccountState, view: &View<'_>) -> bool {
        kind::conditions(state, slot, view, &mut self.conditions);
        let token_limited = state.windows.token_usage(view.now).is_some();
        if let Some(leaf) = self.leaves.get(place as usize)
            && let Membership::Of(index) = leaf.group
            && self.groups[index as usize].kind.fits(state, &self.conditions, view)
            && leaf.token_limited == token_limited
        {
            return false;
        }
        self.move_in(place, state, token_limited, view);
        true
    }

    #[cold]
    fn move_in(&mut self, place: u32, state: &AccountState, token_limited: bool, view: &View<'_>) {
        if self.leaves.len() <= place as usize {
            self.leaves.grow_to(place as usize + 1, Leaf::default);
            self.hashes.resize(place as usize + 1, 0);
        }
        let group = self.group_of(state, view);
        self.forget(place);
        self.join(place, group, state);
        self.leaves[place as usize].token_limited = token_limited;
        self.token_limited += usize::from(token_limited);
    }

    /// Forgets the accounts that are no longer there. That comes before another is looked at: it
    /// may have come in the same place, or with the same number if that was the last.
    pub(crate) fn let_go(&mut self, touched: &Touched, roster: &Roster) {
        for (place, _) in touched.iter().filter(|&(_, touch)| touch == Touch::Seat) {
            let Some(leaf) = self.leaves.get(place as usize) else {
                continue;
            };
            let known = (leaf.number, self.hashes[place as usize]);
            let now = roster.at(place).map(|(_, state)| (state.number, state.hash));
            if leaf.group != Membership::Vacant && now != Some(known) {
                self.forget(place);
            }
        }
    }

    /// Takes the account in a place out of its group.
    fn forget(&mut self, place: u32) {
        let leaf = std::mem::take(&mut self.leaves[place as usize]);
        self.token_limited -= usize::from(leaf.token_limited);
        match leaf.group {
            Membership::Vacant => {}
            Membership::Loose => self.loose -= 1,
            Membership::Of(index) => {
                let rules = self.rules();
                let group = &mut self.groups[index as usize];
                group.members -= 1;
                group.ranked.remove(leaf.number, rules);
                group.asleep.remove(leaf.number, rules);
                group.base.remove(leaf.number, leaf.base);
                group.felt.remove(leaf.number, leaf.felt);
                self.reorder(index as usize);
            }
        }
    }

    /// Puts the account in a place into a group.
    fn join(&mut self, place: u32, membership: Membership, state: &AccountState) {
        let leaf = &mut self.leaves[place as usize];
        leaf.group = membership;
        leaf.number = state.number;
        self.hashes[place as usize] = state.hash;
        match membership {
            Membership::Vacant => {}
            Membership::Loose => self.loose += 1,
            Membership::Of(group) => self.groups[group as usize].members += 1,
        }
        let height = height_for(state.number);
        if height > self.height {
            self.height = height;
            self.groups.iter_mut().for_each(|group| group.grow(height));
        }
    }

    /// The group of an account: one that fits, a new one or none.
    fn group_of(&mut self, state: &AccountState, view: &View<'_>) -> Membership {
        let conditions = &self.conditions;
        let fits = |group: &Group| group.kind.fits(state, conditions, view);
        let number = |index| u32::try_from(index).expect("there are few groups");
        if let Some(index) = self.groups.iter().position(fits) {
            return Membership::Of(number(index));
        }
        let height = self.height.max(height_for(state.number));
        let mut group = Group::new(Kind::new(state, conditions, view), height);
        if self.is_behind {
            group.fall_behind();
        }
        if self.groups.len() < MAX_KINDS {
            let index = number(self.groups.len());
            self.groups.push(group);
            self.order.push(Ordered { least: NO_KEY, group: index });
            // As long as it was the only one, the first was not kept in order.
            self.reorder(0);
            return Membership::Of(index);
        }
        match self.groups.iter().position(|group| group.members == 0) {
            Some(index) => {
                self.groups[index] = group;
                Membership::Of(number(index))
            }
            None => Membership::Loose,
        }
    }

    fn rules(&self) -> Rules {
        Rules { ties: self.ties, tokens: self.token_limited > 0 }
    }
}

/// Whether accounts are so many that it is cheaper to join all tries once than for each of them.
fn is_most(places: &[u32], view: &View<'_>) -> bool {
    places.len() >= MANY && places.len() > view.roster.len() / 4
}
