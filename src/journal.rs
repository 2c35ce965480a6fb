//! Operations as values: recorded, replayed to the same state, and rehearsed under another policy.
//!
//! A [`Scheduler`] reads no clock and draws no random numbers, so the operations with their times
//! are all there is to a state. Recording is storing an [`Operation`] and then applying it:
//!
//! ```
//! use account_pool::journal::{Answer, Journal, Operation};
//! use account_pool::{Account, Config, Outcome, Request, Scheduler, Timestamp};
//!
//! let mut scheduler = Scheduler::new(Config::default())?;
//! let mut journal = Journal::new(&scheduler);
//! let now = Timestamp::from_millis(1_000);
//! let mut record = |operation| journal.record(operation, &mut scheduler, now);
//!
//! record(Operation::Add(Account::new("acct-1").into()));
//! let request = Request::new().caller("api:6f:user:42");
//! if let Answer::Granted(grant) = record(Operation::Select((&request).into())) {
//!     record(Operation::Settle(grant.ticket, Outcome::success()));
//! }
//!
//! let text = serde_json::to_string(&journal)?;
//! let replayed = serde_json::from_str::<Journal>(&text)?.replay(Config::default())?;
//! assert_eq!(replayed.digest, scheduler.digest());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A journal holds callers as digests and names as text, never payloads.

mod operation;
mod rehearse;

use serde::{Deserialize, Serialize};

pub use self::operation::{Answer, Operation};
pub use self::rehearse::Rehearsal;
use crate::config::{Config, ConfigError};
pub use crate::digest::Digest;
use crate::scheduler::Scheduler;
use crate::time::Timestamp;

/// The operations on one scheduler from its beginning, in order.
///
/// Formats must carry numbers as they are; in `serde_json` that is the feature `float_roundtrip`.
/// Grows by one [`Entry`] per call and is never cut: for a long life keep the entries elsewhere,
/// or begin anew from a clone of the scheduler with [`Journal::replay_on`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    version: u32,
    origin: u32,
    entries: Vec<Entry>,
}

/// One operation with its time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "an operation and its time are a call")]
pub struct Entry {
    /// The time that the call was given. One before the entry in front of it counts as that one's.
    pub at: Timestamp,
    /// The call.
    pub operation: Operation,
}

impl Journal {
    /// The format that this release writes, and the only one it reads.
    pub const VERSION: u32 = 1;

    /// An empty journal for a scheduler that nothing has been done to yet.
    #[must_use]
    pub fn new(scheduler: &Scheduler) -> Self {
        Self { version: Self::VERSION, origin: scheduler.origin(), entries: Vec::new() }
    }

    /// Stores the operation, applies it and gives the answer. O(1) on top of the call itself,
    /// amortised.
    pub fn record(
        &mut self,
        operation: Operation,
        scheduler: &mut Scheduler,
        now: Timestamp,
    ) -> Answer {
        self.entries.push(Entry { at: now, operation });
        self.entries.last().map_or(Answer::Skipped, |it| it.operation.apply(scheduler, it.at))
    }

    /// Stores an operation that was applied elsewhere.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The operations in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Does everything again on a new scheduler. Under the configuration of the recording the
    /// answers and the digest are the same as then. O(the calls), and a digest.
    ///
    /// # Errors
    ///
    /// [`JournalError::Version`], and [`JournalError::Config`] for a wrong configuration.
    pub fn replay(&self, config: Config) -> Result<Replayed, JournalError> {
        let mut scheduler = self.begin(config)?;
        let answers = self.replay_on(&mut scheduler)?;
        let digest = scheduler.digest();
        Ok(Replayed { scheduler, answers, digest })
    }

    /// Does everything again on a scheduler in the state that the journal began with, and gives
    /// the answers.
    ///
    /// # Errors
    ///
    /// [`JournalError::Version`]; then nothing was done.
    pub fn replay_on(&self, scheduler: &mut Scheduler) -> Result<Vec<Answer>, JournalError> {
        self.check_version()?;
        let entries = self.entries.iter();
        Ok(entries.map(|entry| entry.operation.apply(scheduler, entry.at)).collect())
    }

    fn begin(&self, config: Config) -> Result<Scheduler, JournalError> {
        self.check_version()?;
        Ok(Scheduler::with_origin(config, self.origin)?)
    }

    fn check_version(&self) -> Result<(), JournalError> {
        let known = self.version == Self::VERSION;
        if known { Ok(()) } else { Err(JournalError::Version { found: self.version }) }
    }
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Replayed {
    /// The scheduler after the last operation.
    pub scheduler: Scheduler,
    /// The answer to each operation, in order.
    pub answers: Vec<Answer>,
    /// The scheduler's [`digest`](Scheduler::digest).
    pub digest: Digest,
}

/// Why a journal is not replayed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It is of a format that this release does not know.
    #[error("a journal of format {found} cannot be read: this release reads {}", Journal::VERSION)]
    Version {
        /// Its format.
        found: u32,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
