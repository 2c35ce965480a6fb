//! Whose fault an answer is.

use std::fmt;

use crate::outcome::{Outcome, Reset, Scope, Usage};

/// Whose fault an answer is, and so what it may do to the account.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// Nobody's: the request was served.
    Served,
    /// The request's own; it fails everywhere. [`Outcome::ClientFault`]
    Request,
    /// The account does not offer the model, or not for such a request. Another one may; this one
    /// is not harmed. [`Outcome::ClientFault`]
    Model,
    /// A limit that refills by itself. [`Outcome::RateLimited`]
    Throttle(Scope),
    /// A spent quota or balance. [`Outcome::QuotaExhausted`]
    Quota(Scope),
    /// The credential was refused, perhaps for now: expired, or not permitted.
    /// [`Outcome::AuthFailed`]
    Auth,
    /// The credential is gone for good. [`Outcome::DeadToken`]
    Revoked,
    /// The upstream speaks of a ban. [`Outcome::BanSignal`]
    Ban,
    /// The provider has no capacity. [`Outcome::Overloaded`]
    Overload(Scope),
    /// The provider failed. [`Outcome::Internal`]
    Server,
    /// The provider, or something in front of it, gave up waiting. [`Outcome::Timeout`]
    Timeout,
    /// Something on the way answered instead: a redirect, a login page, a firewall, a refused
    /// region. [`Outcome::Network`]
    Path,
    /// Not understood; nobody is blamed. [`Outcome::ClientFault`]
    Unknown,
}

impl Cause {
    /// Whether the same request may succeed on another account: all failures but
    /// [`Cause::Request`].
    #[must_use]
    pub fn may_succeed_elsewhere(self) -> bool {
        !matches!(self, Self::Served | Self::Request)
    }

    pub(super) fn outcome(self, reset: Option<Reset>, usage: Usage) -> Outcome {
        match self {
            Self::Served => Outcome::Success { usage },
            Self::Request | Self::Model | Self::Unknown => Outcome::ClientFault,
            Self::Throttle(scope) => Outcome::RateLimited { scope, reset },
            Self::Quota(scope) => Outcome::QuotaExhausted { scope, reset },
            Self::Auth => Outcome::AuthFailed,
            Self::Revoked => Outcome::DeadToken,
            Self::Ban => Outcome::BanSignal,
            Self::Overload(scope) => Outcome::Overloaded { scope, reset },
            Self::Server => Outcome::Internal,
            Self::Timeout => Outcome::Timeout,
            Self::Path => Outcome::Network,
        }
    }
}

/// What an answer comes to, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Verdict<'a> {
    /// What to settle the lease with.
    pub outcome: Outcome,
    /// Whose fault it is.
    pub cause: Cause,
    /// The name of the rule that decided, for logs and metrics.
    pub rule: &'a str,
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {}", self.cause, self.rule)
    }
}

impl From<Verdict<'_>> for Outcome {
    fn from(verdict: Verdict<'_>) -> Self {
        verdict.outcome
    }
}
