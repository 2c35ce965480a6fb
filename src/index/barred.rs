//! What the index knows about accounts that cannot serve.

use super::trie::Summary;
use crate::refusal::{Lift, Rejection};
use crate::time::{Timestamp, earliest};

/// What a set of accounts that cannot serve contributes to a refusal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Barred {
    /// When the first of them may serve, if time alone lets one.
    pub(crate) retry_at: Option<Timestamp>,
    /// From when on the end of a request may help; [`Timestamp::ZERO`] is at once.
    pub(crate) release_at: Option<Timestamp>,
    /// Whether load alone keeps one of them.
    pub(crate) loaded: bool,
    /// When the first of those recovers that degraded serving may use, and its number.
    pub(crate) recovers: Option<(Timestamp, u32)>,
}

impl Barred {
    /// What one account contributes.
    pub(crate) fn by(rejection: &Rejection, number: u32) -> Self {
        let recovers = match (rejection.firm, rejection.lift) {
            (Lift::Free, Lift::At(recovers)) => Some((recovers, number)),
            _ => None,
        };
        Self {
            retry_at: rejection.firm.deadline(),
            release_at: rejection.release_at(Timestamp::ZERO),
            loaded: rejection.is_load_only(),
            recovers,
        }
    }
}

impl Summary for Barred {
    type Rules = ();

    const EMPTY: Self = Self { retry_at: None, release_at: None, loaded: false, recovers: None };

    fn precedes(&self, _: &Self) -> bool {
        false
    }

    fn outdoes(&self, _: &Self, (): ()) -> bool {
        false
    }

    fn add(&mut self, other: &Self, (): ()) -> bool {
        self.retry_at = earliest(self.retry_at, other.retry_at);
        self.release_at = earliest(self.release_at, other.release_at);
        self.loaded |= other.loaded;
        self.recovers = earliest(self.recovers, other.recovers);
        true
    }
}
