//! The parts of a snapshot, as they are written.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::account::{AccountId, Entitlement, Plan, Status};
use crate::outcome::QuotaReading;
use crate::refusal::{Dimension, Reason};
use crate::state::usage::UsageTotals;
use crate::stats::{PathCounts, StickyCounts};
use crate::time::Timestamp;

/// An account: as declared, and what is known about it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedAccount {
    pub(crate) id: AccountId,
    pub(crate) place: SavedPlace,
    /// Its number in the order of insertion.
    pub(crate) number: u32,
    pub(crate) added_at: Timestamp,
    pub(crate) plan: Plan,
    pub(crate) models: Entitlement,
    pub(crate) selectors: Entitlement,
    pub(crate) blocked_models: BTreeSet<String>,
    pub(crate) status: Status,
    pub(crate) maintenance: bool,
    pub(crate) draining: bool,
    pub(crate) last_used: Timestamp,
    pub(crate) turn: u64,
    pub(crate) requests: SavedAmounts,
    pub(crate) tokens: SavedAmounts,
    pub(crate) trouble: SavedAmounts,
    /// In the order in which they were first set.
    pub(crate) blocks: Vec<SavedBlock>,
    pub(crate) breaker: SavedBreaker,
    pub(crate) quota: QuotaReading,
    pub(crate) usage: UsageTotals,
}

/// Amounts by instant, in the order of time.
pub(crate) type SavedAmounts = Vec<(Timestamp, u64)>;

/// A place in the roster, so that old tickets still tell whose they were.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedPlace {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedBlock {
    pub(crate) target: SavedTarget,
    pub(crate) dimension: Dimension,
    pub(crate) set_at: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) announced: Timestamp,
    pub(crate) steps: u32,
    pub(crate) generation: u64,
    pub(crate) upstream: bool,
}

#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedTarget {
    Account,
    Model(String),
    Selector(String),
}

/// A breaker without its probes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedBreaker {
    pub(crate) errors: SavedStreak,
    pub(crate) internal: u32,
    pub(crate) bans: SavedStreak,
    pub(crate) open_until: Option<Timestamp>,
    pub(crate) episodes: u32,
    pub(crate) epoch: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedStreak {
    pub(crate) count: u32,
    pub(crate) last: Option<Timestamp>,
}

/// The upstreams' blocks of an account that was removed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedDeparted {
    pub(crate) id: AccountId,
    pub(crate) blocks: Vec<SavedBlock>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedBinding {
    #[serde(with = "crate::hex")]
    pub(crate) caller: u128,
    pub(crate) model: Option<String>,
    pub(crate) selector: Option<String>,
    #[serde(with = "crate::hex")]
    pub(crate) tenant: u64,
    pub(crate) last_used: Timestamp,
    /// Most recently served first.
    pub(crate) trail: Vec<SavedStop>,
    /// Which of the trail is the home.
    pub(crate) home: usize,
    pub(crate) usage: UsageTotals,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedStop {
    /// `None` is an account that has left the pool since.
    pub(crate) account: Option<AccountId>,
    pub(crate) at: Timestamp,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedCounters {
    pub(crate) selected: PathCounts,
    pub(crate) refused: u64,
    pub(crate) refused_by_reason: BTreeMap<Reason, u64>,
    pub(crate) waits: u64,
    pub(crate) settled: u64,
    pub(crate) reaped: u64,
    pub(crate) refunded: u64,
    pub(crate) sticky: StickyCounts,
    pub(crate) usage: UsageTotals,
}
