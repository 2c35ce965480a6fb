//! A scheduler's state as a value that outlives the process. The form is apart from the live
//! types, so that these can change without it.

mod error;
pub(crate) mod saved;

use serde::{Deserialize, Serialize};

pub use self::error::SnapshotError;
use self::saved::{SavedAccount, SavedBinding, SavedCounters, SavedDeparted, SavedPlace};
use crate::time::Timestamp;

/// The state of a [`Scheduler`](crate::Scheduler) without its requests under way, for
/// [`Scheduler::restore`](crate::Scheduler::restore).
///
/// A value for any serde format that describes itself; in JSON about 800 bytes per account,
/// 170 per block, 20 per request in a rate window, and 350 per binding. It holds the accounts as declared,
/// the use of their windows, blocks with their escalation, health, breakers, quota readings,
/// recency and totals, the bindings from the least to the most recently used, the blocks of
/// accounts that were removed, and the counters.
///
/// Formats must carry numbers as they are; in `serde_json` that is the feature `float_roundtrip`.
///
/// It does not hold the configuration, leases and places in queues, nor payloads. Callers and
/// tenants are digests (SHA-256, cut); names of models, selectors and accounts are text.
///
/// ```
/// use account_pool::{Account, Config, Scheduler, Snapshot, Timestamp};
///
/// let now = Timestamp::from_millis(1_000);
/// let mut scheduler = Scheduler::new(Config::default())?;
/// scheduler.add(Account::new("acct-1").rpm(60), now)?;
///
/// let text = serde_json::to_string(&scheduler.snapshot(now))?;
/// let snapshot: Snapshot = serde_json::from_str(&text)?;
/// assert_eq!(snapshot.taken_at(), now);
/// let restored = Scheduler::restore(Config::default(), &snapshot, now)?;
/// assert_eq!(restored.snapshot(now), snapshot);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// Unknown fields are passed over here, and here alone, so that a later format gets to tell its
// version.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[must_use]
#[non_exhaustive]
pub struct Snapshot {
    pub(crate) version: u32,
    /// The scheduler's time.
    pub(crate) at: Timestamp,
    pub(crate) origin: u32,
    pub(crate) next_sequence: u64,
    pub(crate) turn: u64,
    pub(crate) generation: u64,
    /// In the order of insertion.
    pub(crate) accounts: Vec<SavedAccount>,
    /// Free places, the one to be taken next last.
    pub(crate) vacant: Vec<SavedPlace>,
    /// The one that departed first comes first.
    pub(crate) departed: Vec<SavedDeparted>,
    /// The least recently used comes first.
    pub(crate) bindings: Vec<SavedBinding>,
    /// How many of the bindings, from the first on, have been counted out as lapsed.
    pub(crate) lapsed: usize,
    pub(crate) counters: SavedCounters,
}

impl Snapshot {
    /// The format that this release writes, and the only one it reads.
    pub const VERSION: u32 = 1;

    /// The format of this snapshot; one other than [`Snapshot::VERSION`] is not restored.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The scheduler's time when it was taken.
    #[must_use]
    pub fn taken_at(&self) -> Timestamp {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::{Snapshot, SnapshotError};
    use crate::{Account, Config, QuotaReading, QuotaWindow, Scheduler, Timestamp};

    /// JSON cannot write these; other formats can.
    #[test]
    fn numbers_that_are_none_are_refused() {
        let now = Timestamp::from_millis(9);
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        scheduler.add(Account::new("a"), now).unwrap();
        let reading = QuotaReading::at(now).window(QuotaWindow::new(5.0)).balance(1.0);
        scheduler.observe_quota("a", &reading, now).unwrap();
        let sound = scheduler.snapshot(now);
        let restore = |snapshot: &Snapshot| Scheduler::restore(Config::default(), snapshot, now);
        assert!(restore(&sound).is_ok());
        for not in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut broken = sound.clone();
            broken.accounts[0].quota.balance = Some(not);
            let error = SnapshotError::Range { part: "accounts.quota" };
            assert_eq!(restore(&broken).unwrap_err(), error);
            let mut broken = sound.clone();
            broken.accounts[0].quota.windows[0].remaining = Some(not);
            assert_eq!(restore(&broken).unwrap_err(), error);
            let mut broken = sound.clone();
            broken.accounts[0].plan.weight = not;
            assert!(matches!(restore(&broken), Err(SnapshotError::Account { .. })));
        }
    }
}
