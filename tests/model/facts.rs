//! What the model remembers: event logs and plain values.

use std::collections::BTreeSet;

use account_pool::{
    AccountId, Affinity, Dimension, Entitlement, Plan, QuotaWindow, Status, Timestamp,
    TrafficClass, UsageTotals,
};
use sha2::{Digest, Sha256};

use crate::rules::Query;

/// One stay of an account in the pool; an id that comes back gets a new one.
pub(crate) type Serial = u64;

/// A request, before its names are resolved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) caller: Option<String>,
    pub(crate) tenant: String,
    pub(crate) model: Option<String>,
    pub(crate) selector: Option<String>,
    pub(crate) excluded: Vec<AccountId>,
    pub(crate) cost: u64,
    pub(crate) affinity: Affinity,
    pub(crate) class: TrafficClass,
    pub(crate) waited: Option<Place>,
}

/// A place in the queue for an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) sequence: u64,
    pub(crate) serial: Serial,
    pub(crate) deadline: Timestamp,
}

/// The right to end a lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) sequence: u64,
    pub(crate) serial: Serial,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Account,
    Model(String),
    Selector(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) target: Target,
    pub(crate) dimension: Dimension,
    /// The date of the newest evidence.
    pub(crate) set_at: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) announced: Timestamp,
    /// Failures in a row that count: the next one without a hint lasts `factor^strikes` longer
    /// than the first. 0 when no failure made the block.
    pub(crate) strikes: u64,
    pub(crate) generation: u64,
    pub(crate) upstream: bool,
}

/// Events in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streak {
    pub(crate) count: u32,
    pub(crate) last: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    pub(crate) errors: Streak,
    pub(crate) internal: u32,
    pub(crate) bans: Streak,
    pub(crate) open_until: Option<Timestamp>,
    pub(crate) episodes: u32,
    /// How often it has opened in all.
    pub(crate) openings: u32,
    /// Probes under way: lease and last sign of life.
    pub(crate) probes: Vec<(u64, Timestamp)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) observed_at: Timestamp,
    pub(crate) windows: Vec<QuotaWindow>,
}

/// An account of the pool.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) serial: Serial,
    /// One more than that of the account that was the last when it came, 0 in an empty pool.
    pub(crate) number: u32,
    /// What it was given when it came: the seat that was given up last, else a new one.
    pub(crate) seat: u32,
    pub(crate) id: AccountId,
    pub(crate) added_at: Timestamp,
    pub(crate) plan: Plan,
    pub(crate) models: Entitlement,
    pub(crate) selectors: Entitlement,
    pub(crate) blocked_models: BTreeSet<String>,
    pub(crate) standing: Status,
    pub(crate) maintenance: bool,
    pub(crate) draining: bool,
    /// When which lease took a request slot.
    pub(crate) requests: Vec<(Timestamp, u64)>,
    /// When how many tokens were taken, and by which selection.
    pub(crate) tokens: Vec<(Timestamp, u64, Option<u64>)>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) trouble: Vec<(Timestamp, u64)>,
    pub(crate) breaker: Breaker,
    pub(crate) quota: Reading,
    pub(crate) last_used: Timestamp,
    pub(crate) turn: u64,
    pub(crate) waiters: Vec<Place>,
    pub(crate) usage: UsageTotals,
}

/// Caller, model, selector.
pub(crate) type Key = (String, Option<String>, Option<String>);

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) claim: Claim,
    pub(crate) taken_at: Timestamp,
    pub(crate) seen: Timestamp,
    /// The request that holds it.
    pub(crate) query: Query,
    /// What a success binds.
    pub(crate) binding: Option<Key>,
    pub(crate) cost: u64,
    pub(crate) class: TrafficClass,
    pub(crate) probe: bool,
    pub(crate) openings: u32,
    pub(crate) refunded: bool,
}

/// The accounts of a conversation, most recently served first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trail {
    pub(crate) stops: Vec<(Serial, Timestamp)>,
    pub(crate) home: Serial,
}

#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) key: Key,
    pub(crate) tenant: String,
    pub(crate) trail: Trail,
    pub(crate) last_used: Timestamp,
    pub(crate) usage: UsageTotals,
    /// Counted out once, a binding does not come back to life.
    pub(crate) lapsed: bool,
}

/// The first eight bytes of a SHA-256, big-endian.
pub(crate) fn hash(text: &str) -> u64 {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).fold(0, |hash, &byte| hash << 8 | u64::from(byte))
}

/// A name as it is compared: trimmed, absent when blank.
pub(crate) fn named(name: &str) -> Option<String> {
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
