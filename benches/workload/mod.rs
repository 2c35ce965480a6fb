//! The workloads that benches and tests share: a pool of any size, warm, and the requests that
//! it serves in turn. All of it goes through the public interface.

#![allow(dead_code, reason = "each bench and test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a set-up that does not fit should stop")]

pub(crate) mod drive;
pub(crate) mod pace;
pub(crate) mod requests;
pub(crate) mod settings;
pub(crate) mod setup;

/// What is asked of which pool. Every account is limited to 60 requests a minute and gets 30, and
/// has done so for a minute already where nothing else is said, so that with each request that
/// comes another one leaves its window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Workload {
    /// No caller, on accounts that were never used, all of them tied at first.
    Anonymous,
    /// A caller without affinity, another one each time.
    Sharded,
    /// The same where rank knows neither headroom nor recency: all accounts are tied, always.
    Tied,
    /// One of the conversations, which are bound to accounts across the pool.
    Bound,
    /// A conversation that is hardly ever bound yet, of many tenants, in a table that is full of live
    /// bindings: another one gives way.
    New,
    /// No caller, every third account cooled for the whole run.
    ThirdCooled,
    /// No caller, three accounts excluded.
    Excluded,
    /// No caller, 32 models in turn. Half of the accounts serve all of them, a quarter eight of
    /// them, a quarter all but two; every sixteenth account is cooled for one model.
    Models,
    /// No caller, one account left: all others are blocked for the whole run, unused.
    NearlyNone,
    /// No caller, all accounts blocked, each until another time: a refusal.
    Refused,
    /// No caller, every account's window full, time standing still: a refusal.
    RateFull,
    /// No caller, and nothing else.
    Steady,
}

/// How many conversations [`Workload::Bound`] keeps going.
pub(crate) const CONVERSATIONS: usize = 1_000;

/// How many conversations [`Workload::New`] begins before it comes back to the first.
pub(crate) const NEW_CONVERSATIONS: usize = 1 << 18;

/// How many models [`Workload::Models`] asks for.
pub(crate) const MODELS: usize = 32;

impl Workload {
    pub(crate) const ALL: [Self; 12] = [
        Self::Anonymous,
        Self::Sharded,
        Self::Tied,
        Self::Bound,
        Self::New,
        Self::ThirdCooled,
        Self::Excluded,
        Self::Models,
        Self::NearlyNone,
        Self::Refused,
        Self::RateFull,
        Self::Steady,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Sharded => "caller-sharded",
            Self::Tied => "all-tied",
            Self::Bound => "bound",
            Self::New => "new-conversation",
            Self::ThirdCooled => "third-cooled",
            Self::Excluded => "excluded-3",
            Self::Models => "models-32",
            Self::NearlyNone => "nearly-none",
            Self::Refused => "refused",
            Self::RateFull => "rate-full",
            Self::Steady => "steady",
        }
    }

    /// Whether its requests are served; otherwise all of them are refused.
    pub(crate) fn is_served(self) -> bool {
        !matches!(self, Self::Refused | Self::RateFull)
    }
}
