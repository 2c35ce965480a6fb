//! What happened, for those who watch.

use serde::{Deserialize, Serialize};

use crate::account::AccountId;
use crate::grant::Path;
use crate::outcome::{Outcome, Scope};
use crate::refusal::{Dimension, Tally, Unavailable};
use crate::time::Timestamp;

/// Something that a scheduler did. Carries ids and names of accounts, never callers or payloads.
///
/// Collected only after [`Scheduler::watch`](crate::Scheduler::watch), and handed out by
/// [`Scheduler::drain_events`](crate::Scheduler::drain_events) or to the observer of a
/// [`Pool`](crate::Pool::set_observer), outside its lock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// An account was selected and reserved.
    Selected {
        /// The account.
        account: AccountId,
        /// How it came to be selected.
        path: Path,
        /// How many accounts were equally good.
        tied: u32,
    },
    /// No account could serve, or one was worth waiting for.
    Refused {
        /// The reasons.
        tally: Tally,
        /// When the same request will succeed.
        retry_at: Option<Timestamp>,
        /// The account that is worth waiting for.
        wait_for: Option<AccountId>,
    },
    /// A lease ended.
    Settled {
        /// Its account.
        account: AccountId,
        /// What became of the request.
        outcome: OutcomeKind,
    },
    /// A lease was freed because it was silent too long.
    Reaped {
        /// Its account.
        account: AccountId,
    },
    /// A cooldown was set or extended.
    Blocked {
        /// The account.
        account: AccountId,
        /// Whether the whole account, or one of its models or selectors.
        scope: Scope,
        /// Its kind.
        dimension: Dimension,
        /// When it ends.
        until: Timestamp,
    },
    /// A cooldown was lifted before its end, by the operator or by newer quota evidence.
    Unblocked {
        /// The account.
        account: AccountId,
        /// Its kind.
        dimension: Dimension,
    },
    /// A breaker opened.
    BreakerOpened {
        /// The account.
        account: AccountId,
    },
    /// A breaker let a probe pass.
    BreakerHalfOpen {
        /// The account.
        account: AccountId,
    },
    /// A breaker closed after a success.
    BreakerClosed {
        /// The account.
        account: AccountId,
    },
    /// The upstream banned an account.
    Banned {
        /// The account.
        account: AccountId,
    },
    /// A conversation was bound to its first account.
    Bound {
        /// The account.
        account: AccountId,
    },
    /// A conversation was served by another account of its trail.
    MovedWarm {
        /// The account that serves now.
        account: AccountId,
    },
    /// A bound conversation could be served by none of its trail.
    MovedCold,
    /// A binding gave way to another.
    Evicted,
}

/// The kind of an [`Outcome`], without its details.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// [`Outcome::Success`].
    Success,
    /// [`Outcome::RateLimited`].
    RateLimited,
    /// [`Outcome::QuotaExhausted`].
    QuotaExhausted,
    /// [`Outcome::Overloaded`].
    Overloaded,
    /// [`Outcome::Internal`].
    Internal,
    /// [`Outcome::AuthFailed`].
    AuthFailed,
    /// [`Outcome::DeadToken`].
    DeadToken,
    /// [`Outcome::BanSignal`].
    BanSignal,
    /// [`Outcome::Network`].
    Network,
    /// [`Outcome::Timeout`].
    Timeout,
    /// [`Outcome::ClientFault`].
    ClientFault,
    /// [`Outcome::Cancelled`].
    Cancelled,
}

impl OutcomeKind {
    /// A short stable label, for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RateLimited => "rate_limited",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Overloaded => "overloaded",
            Self::Internal => "internal",
            Self::AuthFailed => "auth_failed",
            Self::DeadToken => "dead_token",
            Self::BanSignal => "ban_signal",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::ClientFault => "client_fault",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<&Outcome> for OutcomeKind {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Success { .. } => Self::Success,
            Outcome::RateLimited { .. } => Self::RateLimited,
            Outcome::QuotaExhausted { .. } => Self::QuotaExhausted,
            Outcome::Overloaded { .. } => Self::Overloaded,
            Outcome::Internal => Self::Internal,
            Outcome::AuthFailed => Self::AuthFailed,
            Outcome::DeadToken => Self::DeadToken,
            Outcome::BanSignal => Self::BanSignal,
            Outcome::Network => Self::Network,
            Outcome::Timeout => Self::Timeout,
            Outcome::ClientFault => Self::ClientFault,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

/// Watches a [`Pool`](crate::Pool). Any `Fn(&Event, Timestamp)` is one.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of an event of the operation at `at`. It is called outside the pool's lock, on
    /// the thread that made the operation, so that it may call the pool; events of one operation
    /// come in order, those of concurrent operations in any.
    fn on_event(&self, event: &Event, at: Timestamp);
}

impl<F: Fn(&Event, Timestamp) + Send + Sync + 'static> Observer for F {
    fn on_event(&self, event: &Event, at: Timestamp) {
        self(event, at);
    }
}

/// The events since the last drain; none are made while nobody watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Events {
    watched: bool,
    pending: Vec<Event>,
}

impl Events {
    pub(crate) fn watch(&mut self, watched: bool) {
        self.watched = watched;
        if !watched {
            self.pending = Vec::new();
        }
    }

    /// Whether somebody watches.
    #[inline]
    pub(crate) fn are_watched(&self) -> bool {
        self.watched
    }

    #[inline]
    pub(crate) fn emit(&mut self, event: impl FnOnce() -> Event) {
        if self.watched {
            self.pending.push(event());
        }
    }

    /// Moves the pending events to the end of `into`.
    pub(crate) fn drain_into(&mut self, into: &mut Vec<Event>) {
        into.append(&mut self.pending);
    }
}

impl Event {
    pub(crate) fn refused(refusal: &Unavailable) -> Self {
        Self::Refused {
            tally: *refusal.tally(),
            retry_at: refusal.retry_at(),
            wait_for: refusal.wait().map(|wait| wait.account.clone()),
        }
    }
}
