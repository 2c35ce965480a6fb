//! Why an account, or the whole pool, cannot serve a request, and until when.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::account::AccountId;
use crate::slot::Slot;
use crate::time::{Millis, Timestamp};

/// A kind of cooldown. Each has its own deadline, so that lifting one leaves the others.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dimension {
    /// The upstream throttled.
    Throttle,
    /// A quota is spent.
    Quota,
    /// The upstream rejected the credential.
    Auth,
    /// The provider is overloaded.
    Overload,
    /// Internal upstream errors in a row.
    Quarantine,
    /// The breaker opened repeatedly and stays away longer each time.
    Breaker,
    /// The operator's own block.
    Operator,
}

impl Dimension {
    /// The reason given for an account that this cooldown keeps away.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Throttle => Reason::Throttled,
            Self::Quota => Reason::QuotaExhausted,
            Self::Auth => Reason::AuthFailed,
            Self::Overload => Reason::Overloaded,
            Self::Quarantine => Reason::Quarantined,
            Self::Breaker => Reason::BreakerOpen,
            Self::Operator => Reason::OperatorBlock,
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Why one account does not serve a request.
        ///
        /// An account that several conditions keep away counts under the one that lasts longest.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// A short stable label, for logs and metrics.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }
        }
    };
}

reasons! {
    /// The operator switched it off.
    Disabled = "disabled",
    /// The upstream banned it.
    Banned = "banned",
    /// The operator is working on it.
    Maintenance = "maintenance",
    /// It takes no new conversations.
    Draining = "draining",
    /// The request excludes it.
    Excluded = "excluded",
    /// It may not serve the request's model or selector.
    NotEntitled = "not_entitled",
    /// The operator blocked the request's model on it.
    ModelBlocked = "model_blocked",
    /// The request requires a bound account, and its conversation has none.
    Unbound = "unbound",
    /// No account of the asked id is in the pool.
    UnknownAccount = "unknown_account",
    /// It is throttled.
    Throttled = "throttled",
    /// Its quota is spent.
    QuotaExhausted = "quota_exhausted",
    /// Its credential was rejected.
    AuthFailed = "auth_failed",
    /// Its provider is overloaded.
    Overloaded = "overloaded",
    /// It is quarantined after internal errors.
    Quarantined = "quarantined",
    /// Its breaker is open, or half-open with all probes under way.
    BreakerOpen = "breaker_open",
    /// The operator blocked it for a time.
    OperatorBlock = "operator_block",
    /// A request window is full.
    RateLimit = "rate_limit",
    /// The token window has no room.
    TokenLimit = "token_limit",
    /// It serves as many requests at once as it may.
    InFlight = "in_flight",
    /// Its bound callers are as many as it may have.
    BindingLimit = "binding_limit",
}

impl Reason {
    /// What holds an account back for good whatever the request, and goes before what a request
    /// rules out.
    pub(crate) const STANDING: [Self; 4] =
        [Self::Disabled, Self::Banned, Self::Maintenance, Self::Draining];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What lifts a condition. The order is "lasts longer".
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Lift {
    /// Nothing to lift.
    #[default]
    Free,
    /// Time alone, at this instant.
    At(Timestamp),
    /// The end of a request that is under way.
    Release,
    /// Neither time nor load: another request, or the operator.
    Never,
}

impl Lift {
    /// The instant at which time alone lifts it.
    #[must_use]
    pub fn deadline(self) -> Option<Timestamp> {
        match self {
            Self::At(deadline) => Some(deadline),
            Self::Free | Self::Release | Self::Never => None,
        }
    }
}

/// The verdict of the eligibility predicate on an account that cannot serve a request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rejection {
    /// The condition that lasts longest.
    pub reason: Reason,
    /// What lifts all conditions together.
    pub lift: Lift,
    /// What lifts the conditions that degraded serving must respect; [`Lift::Free`] for an account
    /// that degraded serving may use now.
    pub firm: Lift,
    /// What lifts the conditions other than load; [`Lift::Free`] for an account that only its
    /// load keeps away.
    pub unloaded: Lift,
}

impl Rejection {
    /// A rejection by one condition that degraded serving must respect.
    pub(crate) fn firm(reason: Reason, lift: Lift) -> Self {
        let unloaded = if lift == Lift::Release { Lift::Free } else { lift };
        Self { reason, lift, firm: lift, unloaded }
    }

    /// From when on the end of a running request lifts it; `None` when that does not help.
    pub(crate) fn release_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.unloaded {
            _ if self.lift != Lift::Release => None,
            Lift::At(deadline) => Some(deadline),
            Lift::Free => Some(now),
            Lift::Release | Lift::Never => None,
        }
    }

    /// Whether the account's load alone keeps it away.
    #[must_use]
    pub fn is_load_only(&self) -> bool {
        self.unloaded == Lift::Free
    }
}

/// How many accounts were kept away, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    counts: [u32; Reason::ALL.len()],
}

impl Tally {
    pub(crate) fn add(&mut self, reason: Reason) {
        let count = &mut self.counts[reason as usize];
        *count = count.saturating_add(1);
    }

    pub(crate) fn remove(&mut self, reason: Reason) {
        let count = &mut self.counts[reason as usize];
        *count = count.saturating_sub(1);
    }

    /// Adds `count` accounts.
    pub(crate) fn add_many(&mut self, reason: Reason, more: u32) {
        let count = &mut self.counts[reason as usize];
        *count = count.saturating_add(more);
    }

    /// The accounts kept away for `reason`.
    #[must_use]
    pub fn count(&self, reason: Reason) -> u32 {
        self.counts[reason as usize]
    }

    /// The accounts kept away, each counted once.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.counts.iter().fold(0, |total, &count| total.saturating_add(count))
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        let counted = Reason::ALL.iter().map(|&reason| (reason, self.count(reason)));
        counted.filter(|&(_, count)| count > 0)
    }
}

/// A place in the queue for a busy account, to be given back with
/// [`Request::after_wait`](crate::Request::after_wait) or
/// [`Scheduler::give_up`](crate::Scheduler::give_up). It lapses by itself at the wait's deadline.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct WaitTicket {
    pub(crate) origin: u32,
    pub(crate) sequence: u64,
    pub(crate) slot: Slot,
    pub(crate) deadline: Timestamp,
}

/// The advice to wait for the account of the conversation rather than to leave its prompt cache.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Wait {
    /// The account worth waiting for.
    pub account: AccountId,
    /// When it will be free by time alone; `None` when a running request has to end first.
    pub wake_at: Option<Timestamp>,
    /// When waiting ends and [`Request::after_wait`](crate::Request::after_wait) goes on to the
    /// other accounts.
    pub deadline: Timestamp,
    /// The place in the queue.
    pub ticket: WaitTicket,
}

/// Why no account serves a request now, and when one will.
///
/// ```
/// use account_pool::{Account, Config, Reason, Request, Scheduler, Timestamp};
///
/// let mut scheduler = Scheduler::new(Config::default()).unwrap();
/// let now = Timestamp::from_millis(1_000);
/// scheduler.add(Account::new("a").rpm(1), now).unwrap();
/// scheduler.select(&Request::new(), now).unwrap();
///
/// let refusal = scheduler.select(&Request::new(), now).unwrap_err();
/// assert_eq!(refusal.retry_after().unwrap().as_secs_ceil(), 60);
/// assert_eq!(refusal.tally().count(Reason::RateLimit), 1);
/// ```
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", Summary(self))]
pub struct Unavailable {
    pub(crate) at: Timestamp,
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) tally: Tally,
    pub(crate) load_only: bool,
    /// From when on the end of a running request makes an account eligible; `None` when none does.
    pub(crate) release_at: Option<Timestamp>,
    pub(crate) queue_full: bool,
    pub(crate) wait: Option<Wait>,
}

impl Unavailable {
    /// The refusal of a pool without accounts.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            at,
            retry_at: None,
            tally: Tally::default(),
            load_only: false,
            release_at: None,
            queue_full: false,
            wait: None,
        }
    }

    /// A refusal by a single verdict.
    pub(crate) fn because(rejection: Rejection, at: Timestamp) -> Self {
        let mut refusal = Self::new(at);
        refusal.tally.add(rejection.reason);
        refusal.retry_at = rejection.lift.deadline();
        refusal.load_only = rejection.is_load_only();
        refusal.release_at = rejection.release_at(at);
        refusal
    }

    /// When the same request will succeed if nothing else happens: it would still fail 1 ms
    /// earlier. `None` when time alone will not help. With `queue_on_pin` the answer at that
    /// instant may be the advice to wait for the conversation's own account. A silent lease that is freed and a binding
    /// that lapses under a [binding limit](crate::config::BindingLimit) are not foreseen: they may
    /// open an account sooner.
    #[must_use]
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at
    }

    /// The time from the refusal to [`Unavailable::retry_at`], more than zero. Use
    /// [`Millis::as_secs_ceil`] for a `retry-after` header.
    #[must_use]
    pub fn retry_after(&self) -> Option<Millis> {
        self.retry_at.map(|retry_at| retry_at.since(self.at))
    }

    /// The reasons. [`Tally::total`] is 0 for an empty pool.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether only requests under way keep an account away, so that the end of one helps. A
    /// deadline is named all the same where one is known: the end of an advised wait, or the time
    /// at which a caller that may not go elsewhere has lost its binding.
    #[must_use]
    pub fn is_load_only(&self) -> bool {
        self.load_only
    }

    /// Whether the same request will never succeed, as far as is known: neither time nor the end of
    /// requests under way helps, but only the operator or another request. A gateway answers such
    /// a refusal with 503 or 404, any other with 429.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let may_pass = self.retry_at.is_some() || self.release_at.is_some();
        !may_pass && !self.load_only && !self.queue_full && self.wait.is_none()
    }

    /// Whether the request would have waited, but [`Config::max_waiting`] others do already.
    ///
    /// [`Config::max_waiting`]: crate::Config::max_waiting
    #[must_use]
    pub fn is_queue_full(&self) -> bool {
        self.queue_full
    }

    /// With `queue_on_pin`: the advice to wait for the account of the conversation.
    #[must_use]
    pub fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }
}

struct Summary<'a>(&'a Unavailable);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusal = self.0;
        if let Some(wait) = &refusal.wait {
            return write!(f, "account {} is worth waiting for", wait.account);
        }
        if refusal.tally.total() == 0 {
            return f.write_str("the pool has no accounts");
        }
        if refusal.queue_full {
            f.write_str("the queue is full, and ")?;
        }
        f.write_str("no account can serve the request (")?;
        for (index, (reason, count)) in refusal.tally.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{reason}: {count}")?;
        }
        match refusal.retry_after() {
            Some(delay) => write!(f, "); retry in {} ms", delay.as_millis()),
            None if refusal.load_only => f.write_str("); retry when a request ends"),
            None => f.write_str("); waiting will not help"),
        }
    }
}
