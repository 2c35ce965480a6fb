//! What a selection answers when an account serves.

use serde::{Deserialize, Serialize};

use crate::account::AccountId;
use crate::slot::Slot;

/// How an account came to be selected.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Path {
    /// The first account of the conversation's trail.
    Sticky,
    /// Another account of the trail, whose cache is still warm.
    Warm,
    /// The best of the pool, or the caller's place among those equal to the best.
    Rank,
    /// The first account of a strictly pinned caller, whatever its rank.
    Pin,
    /// No account was eligible; the throttled one that is closest to recovery.
    Degraded,
    /// The account that was asked for by id.
    Acquired,
}

impl Path {
    /// A short stable label, for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sticky => "sticky",
            Self::Warm => "warm",
            Self::Rank => "rank",
            Self::Pin => "pin",
            Self::Degraded => "degraded",
            Self::Acquired => "acquired",
        }
    }
}

/// The right to end one lease of a [`Scheduler`](crate::Scheduler), once.
///
/// A plain value: losing it leaks the lease until it is reaped. [`Pool`](crate::Pool) wraps it in
/// a [`Lease`](crate::Lease) that ends by itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Ticket {
    pub(crate) origin: u32,
    pub(crate) index: u32,
    pub(crate) sequence: u64,
    pub(crate) slot: Slot,
}

impl Ticket {
    /// A number unique among the tickets of one scheduler, growing with each selection.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// An account selected and reserved, by its place: a [`Grant`] without the account's id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Reservation {
    pub(crate) ticket: Ticket,
    pub(crate) path: Path,
    pub(crate) tied: u32,
}

/// An account selected and reserved.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Grant {
    /// The account that serves the request.
    pub account: AccountId,
    /// Ends the reservation.
    pub ticket: Ticket,
    /// How the account came to be selected.
    pub path: Path,
    /// How many accounts were equally good, this one included.
    pub tied: u32,
}

/// The account that a selection would choose.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Preview {
    /// The account that would serve.
    pub account: AccountId,
    /// How it would come to be selected.
    pub path: Path,
    /// How many accounts are equally good, this one included.
    pub tied: u32,
}
