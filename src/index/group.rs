//! The accounts of one kind: who of them can serve, and what bars the others.

use super::barred::Barred;
use super::kind::Kind;
use super::ranked::{NO_KEY, Ranked, Rules, Sleeper};
use super::ranking::Ranking;
use super::trie::{Summary, Trie};
use crate::refusal::{Reason, Rejection, Tally};
use crate::select::rank::RankKey;
use crate::time::Timestamp;

/// The accounts of a kind.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    pub(super) members: usize,
    /// No request finds a better key among those that can serve.
    pub(super) least: RankKey,
    /// Every member; those that cannot serve as [`Ranked::EMPTY`].
    pub(super) ranked: Ranking,
    /// Those of which it is known when they can serve, until they are moved to `ranked`.
    pub(super) asleep: Trie<Sleeper>,
    /// Those that cannot serve the plain request.
    pub(super) base: Bars,
    /// Those that cannot serve a request that feels all conditions of the kind.
    pub(super) felt: Bars,
}

/// Accounts that cannot serve.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) barred: Trie<Barred>,
    pub(super) tally: Tally,
}

/// What is known about the account in a place.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) group: Membership,
    /// Its number in the order of insertion.
    pub(super) number: u32,
    /// The node of its group's trie of those that can serve.
    pub(super) bottom: u32,
    pub(super) base: Option<Reason>,
    pub(super) felt: Option<Reason>,
    /// When all that bars it ends at once: then it is among those that are asleep.
    pub(super) wakes_at: Option<Timestamp>,
    pub(super) token_limited: bool,
    pub(super) settled: Settled,
    /// The [number](super::Index::order_number) of the order of preference by which it is settled.
    pub(super) order: u32,
}

/// What is known about an account that nothing bars, apart from its load and its windows.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(8))]
pub(super) struct Settled {
    /// That part of its key: see [`settled`](crate::select::rank::settled).
    pub(super) merit: u128,
    /// From when on time may have changed it; [`Timestamp::ZERO`] where nothing is known.
    pub(super) until: Timestamp,
}

impl Settled {
    const UNKNOWN: Self = Self { merit: 0, until: Timestamp::ZERO };
}

/// What bars an account.
pub(super) struct Barring {
    /// From the plain request.
    pub(super) base: Option<Rejection>,
    /// From one that feels all conditions of its kind.
    pub(super) felt: Option<Rejection>,
    /// When the first of it ends by time alone.
    pub(super) ends: Option<Timestamp>,
}

/// Which group an account belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Membership {
    /// There is no account.
    Vacant,
    Loose,
    Of(u32),
}

impl Bars {
    pub(super) fn new(height: u32) -> Self {
        Self { barred: Trie::new(height), tally: Tally::default() }
    }

    /// Counts a member for another reason than before.
    pub(super) fn recount(&mut self, before: Option<Reason>, now: Option<Reason>) {
        if before != now {
            before.into_iter().for_each(|reason| self.tally.remove(reason));
            now.into_iter().for_each(|reason| self.tally.add(reason));
        }
    }

    pub(super) fn remove(&mut self, number: u32, reason: Option<Reason>) {
        self.recount(reason, None);
        self.barred.remove(number, ());
    }
}

impl Group {
    pub(super) fn new(kind: Kind, height: u32) -> Self {
        Self {
            kind,
            members: 0,
            least: NO_KEY,
            ranked: Ranking::new(height),
            asleep: Trie::new(height),
            base: Bars::new(height),
            felt: Bars::new(height),
        }
    }

    /// What [`least`](Self::least) is now.
    pub(super) fn least_of_all(&self, cooled: u128) -> RankKey {
        let best = self.ranked.whole().key.min(self.asleep.whole().ranked.key);
        self.kind.least(best, cooled)
    }

    pub(super) fn grow(&mut self, height: u32) {
        self.ranked.grow(height);
        self.asleep.grow(height);
        self.base.barred.grow(height);
        self.felt.barred.grow(height);
    }

    /// See [`Trie::fall_behind`].
    pub(super) fn fall_behind(&mut self) {
        self.ranked.fall_behind();
        self.asleep.fall_behind();
        self.base.barred.fall_behind();
        self.felt.barred.fall_behind();
    }

    /// See [`Trie::catch_up`].
    pub(super) fn catch_up(&mut self, rules: Rules) {
        self.ranked.catch_up(rules);
        self.asleep.catch_up(rules);
        self.base.barred.catch_up(());
        self.felt.barred.catch_up(());
    }

    /// Notes what bars a member, one that `joins` or not. Says when that is to be looked at again:
    /// when the first bar ends, unless it is known what comes then.
    #[cold]
    pub(super) fn bar(
        &mut self,
        place: u32,
        leaf: &mut Leaf,
        ranked: Ranked,
        Barring { base, felt, ends }: Barring,
        joins: bool,
        rules: Rules,
    ) -> Option<Timestamp> {
        let number = leaf.number;
        let reason = |rejection: &Option<Rejection>| rejection.as_ref().map(|it| it.reason);
        let barred = |rejection: &Option<Rejection>| {
            rejection.as_ref().map_or(Barred::EMPTY, |it| Barred::by(it, number))
        };
        self.base.recount(leaf.base, reason(&base));
        self.felt.recount(leaf.felt, reason(&felt));
        // One that joins gets its entries at once, so that a later rejection allocates nothing.
        if joins || base.is_some() || leaf.base.is_some() {
            self.base.barred.set(number, place, &barred(&base), ());
        }
        if (joins && self.kind.has_conditions()) || felt.is_some() || leaf.felt.is_some() {
            self.felt.barred.set(number, place, &barred(&felt), ());
        }
        (leaf.base, leaf.felt) = (reason(&base), reason(&felt));
        let slept = leaf.wakes_at.is_some();
        let ends_at_once = |&end: &Timestamp| Some(end) == ends && felt.is_none();
        leaf.wakes_at = base.and_then(|it| it.lift.deadline()).filter(ends_at_once);
        if slept || leaf.wakes_at.is_some() {
            let sleeper = leaf.wakes_at.map(|at| Sleeper::until(at, ranked));
            let summary = sleeper.unwrap_or(Sleeper::EMPTY);
            self.asleep.set(number, place, &summary, rules);
        }
        ends.filter(|_| leaf.wakes_at.is_none())
    }
}

impl Leaf {
    /// Whether something keeps the account from some request.
    pub(super) fn is_barred(&self) -> bool {
        self.base.is_some() || self.felt.is_some()
    }
}

impl Default for Leaf {
    fn default() -> Self {
        Self {
            group: Membership::Vacant,
            number: u32::MAX,
            bottom: 0,
            base: None,
            felt: None,
            wakes_at: None,
            token_limited: false,
            settled: Settled::UNKNOWN,
            order: 0,
        }
    }
}
