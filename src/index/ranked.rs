//! What the index knows about eligible accounts.

use super::trie::{Count, Summary};
use crate::select::rank::{RankKey, TieMask};
use crate::state::AccountState;
use crate::time::Timestamp;

/// The best of a set of eligible accounts, and those equal to it. Without padding, since the index
/// holds several per account.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Ranked {
    /// The smallest key.
    pub(crate) key: RankKey,
    /// The number of the first account that has it.
    pub(crate) first: u32,
    /// The place of that account.
    pub(crate) place: u32,
    /// How many accounts tie with it.
    pub(crate) tied: u32,
    /// The weights of those that tie with it, together.
    pub(crate) weight: u64,
    /// The tokens that each of the set, tied or not, can still be charged.
    pub(crate) tokens: u64,
}

/// The key of no account, after all others.
pub(crate) const NO_KEY: RankKey = RankKey { merit: u128::MAX, recency: u64::MAX };

/// How the summaries of eligible accounts are joined.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Rules {
    pub(crate) ties: TieMask,
    /// Whether there are accounts with a limit of tokens.
    pub(crate) tokens: bool,
}

impl Ranked {
    /// One account that has this key.
    #[inline]
    pub(crate) fn of(state: &AccountState, place: u32, key: RankKey, now: Timestamp) -> Self {
        Self {
            key,
            first: state.number,
            place,
            tied: 1,
            weight: state.weight.into(),
            tokens: state.windows.tokens_left(now),
        }
    }

    /// Whether accounts of these keys tie.
    pub(crate) fn ties_with(&self, key: RankKey, ties: TieMask) -> bool {
        self.tied > 0 && ties.equates(self.key, key)
    }
}

impl PartialEq for Ranked {
    /// Asked of each node on the way up; what as a rule differs is compared first.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let Self { key, first, place, tied, weight, tokens } = *self;
        if key.recency != other.key.recency {
            return false;
        }
        let rest = (first, place, tied, weight, tokens);
        key.merit == other.key.merit
            && rest == (other.first, other.place, other.tied, other.weight, other.tokens)
    }
}

impl Summary for Ranked {
    type Rules = Rules;

    const EMPTY: Self = Self {
        key: NO_KEY,
        first: u32::MAX,
        place: u32::MAX,
        tied: 0,
        weight: 0,
        tokens: u64::MAX,
    };

    #[inline]
    fn precedes(&self, other: &Self) -> bool {
        self.key.is_before(self.first, other.key, other.first)
    }

    #[inline]
    fn outdoes(&self, other: &Self, rules: Rules) -> bool {
        !rules.tokens && self.tied > 0 && rules.ties.precedes(self.key, other.key)
    }

    #[inline]
    fn add(&mut self, other: &Self, rules: Rules) -> bool {
        let is_first = self.tied == 0;
        let ties = !is_first && rules.ties.equates(self.key, other.key);
        let tokens = self.tokens.min(other.tokens);
        if is_first {
            *self = *other;
        } else if ties {
            self.tied += other.tied;
            self.weight += other.weight;
            if other.precedes(self) {
                (self.key, self.first, self.place) = (other.key, other.first, other.place);
            }
        } else if other.precedes(self) {
            *self = *other;
        }
        self.tokens = tokens;
        is_first || ties || rules.tokens
    }

    #[inline]
    fn add_next(&mut self, other: &Self, rules: Rules) -> bool {
        let ties = rules.ties.equates(self.key, other.key);
        if ties {
            self.tied += other.tied;
            self.weight += other.weight;
        }
        self.tokens = self.tokens.min(other.tokens);
        ties || rules.tokens
    }
}

/// The best of a set of accounts that nothing will bar from a known instant on.
///
/// When that comes for many at once, all that is to be done is to compare the time: an account
/// that is awake counts as it lies, until it is moved to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sleeper {
    pub(crate) ranked: Ranked,
    /// When the first and the last of them wakes.
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
}

impl Sleeper {
    /// An account that wakes at `at`.
    pub(crate) fn until(at: Timestamp, ranked: Ranked) -> Self {
        Self { ranked, first: at, last: at }
    }

    fn add_times(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

impl Summary for Sleeper {
    type Rules = Rules;

    const EMPTY: Self =
        Self { ranked: Ranked::EMPTY, first: Timestamp::MAX, last: Timestamp::ZERO };

    #[inline]
    fn precedes(&self, other: &Self) -> bool {
        self.ranked.precedes(&other.ranked)
    }

    #[inline]
    fn outdoes(&self, _: &Self, _: Rules) -> bool {
        // When the last of them wakes is to be known of all.
        false
    }

    #[inline]
    fn add(&mut self, other: &Self, rules: Rules) -> bool {
        self.ranked.add(&other.ranked, rules);
        self.add_times(other);
        true
    }

    #[inline]
    fn add_next(&mut self, other: &Self, rules: Rules) -> bool {
        self.ranked.add_next(&other.ranked, rules);
        self.add_times(other);
        true
    }

    #[inline]
    fn counts(&self, now: Timestamp) -> Count {
        if now < self.first {
            Count::None
        } else if self.last <= now {
            Count::All
        } else {
            Count::Some
        }
    }
}
