//! What the index knows about eligible accounts.

use super::trie::Summary;
use crate::config::Ties;
use crate::select::rank::RankKey;

/// The best of a set of eligible accounts, and those equal to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    /// The smallest key.
    pub(crate) key: RankKey,
    /// The number of the first account that has it.
    pub(crate) first: u32,
    /// How many accounts tie with it.
    pub(crate) tied: u32,
    /// The weights of those that tie with it, together.
    pub(crate) weight: u64,
    /// The tokens that each of the set, tied or not, can still be charged.
    pub(crate) tokens: u64,
}

/// Which part of the recency counts for a tie, as a mask.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TieMask(u64);

impl TieMask {
    /// The mask under which [`RankKey::tie`] compares.
    pub(crate) fn under(ties: Ties) -> Self {
        let whole = RankKey { merit: u128::MAX, recency: u64::MAX };
        Self(whole.tie(ties).recency)
    }

    /// The part of a key on which accounts tie.
    pub(crate) fn of(self, key: RankKey) -> (u128, u64) {
        (key.merit, key.recency & self.0)
    }
}

impl Ranked {
    /// Whether accounts of these keys tie.
    pub(crate) fn ties_with(&self, key: RankKey, ties: TieMask) -> bool {
        self.tied > 0 && ties.of(self.key) == ties.of(key)
    }
}

impl Summary for Ranked {
    type Rules = TieMask;

    const EMPTY: Self = Self {
        key: RankKey { merit: u128::MAX, recency: u64::MAX },
        first: u32::MAX,
        tied: 0,
        weight: 0,
        tokens: u64::MAX,
    };

    fn join(self, other: Self, ties: TieMask) -> Self {
        let tokens = self.tokens.min(other.tokens);
        let (here, there) = (ties.of(self.key), ties.of(other.key));
        if here == there {
            let best = if other.key < self.key { other } else { self };
            let (tied, weight) = (self.tied + other.tied, self.weight + other.weight);
            return Self { tied, weight, tokens, ..best };
        }
        let best = if there < here { other } else { self };
        Self { tokens, ..best }
    }
}
