//! Every public type may be sent to, shared with and moved within another thread or task.

use account_pool::config::{
    Backoff, BindAt, BindingLimit, BreakerPolicy, CooldownPolicy, Degraded, Escalation,
    HealthPolicy, Order, QuotaPolicy, Ranking, Recency, Refresh, Shard, SoftLimits, Stickiness,
    StickyMode, Term, Ties,
};
use account_pool::{
    Account, AccountError, AccountId, AccountView, Affinity, BindingView, BlockScope, BlockView,
    BreakerView, Caller, Clock, Config, ConfigError, Dimension, Entitlement, Grant, Lease, Lift,
    ManualClock, Millis, Outcome, Path, PathCounts, Plan, Pool, Preview, QuotaReading, QuotaView,
    QuotaWindow, RateLimit, Reason, Rejection, Request, Reset, Scheduler, Scope, Settlement, Stats,
    Status, StickyCounts, SystemClock, Tally, Ticket, Tier, Timestamp, TrafficClass, Unavailable,
    Usage, UsageTotals, Wait, WaitTicket, WindowView,
};

fn travels<T: Send + Sync + Unpin + 'static>() {}
fn is_an_error<T: std::error::Error + Send + Sync + 'static>() {}

macro_rules! travel {
    ($($type:ty),* $(,)?) => {
        #[test]
        fn public_types_are_send_sync_and_unpin() {
            $(travels::<$type>();)*
        }
    };
}

travel! {
    Account, AccountError, AccountId, AccountView, Affinity, BindingView, BlockScope, BlockView,
    BreakerView, Caller, Box<dyn Clock>, Config, ConfigError, Dimension, Entitlement, Grant,
    Lease<String>, Lift, ManualClock, Millis, Outcome, Path, PathCounts, Plan, Pool,
    Pool<String, ManualClock>, Preview, QuotaReading, QuotaView, QuotaWindow, RateLimit, Reason,
    Rejection, Request<'static>, Reset, Scheduler, Scope, Settlement, Stats, Status, StickyCounts,
    SystemClock, Tally, Ticket, Tier, Timestamp, TrafficClass, Unavailable, Usage, UsageTotals,
    Wait, WaitTicket, WindowView,
    Backoff, BindAt, BindingLimit, BreakerPolicy, CooldownPolicy, Degraded, Escalation,
    HealthPolicy, Order, QuotaPolicy, Ranking, Recency, Refresh, Shard, SoftLimits, Stickiness,
    StickyMode, Term, Ties,
}

#[test]
fn refusals_are_errors_that_travel() {
    is_an_error::<AccountError>();
    is_an_error::<ConfigError>();
    is_an_error::<Unavailable>();
}

#[test]
fn a_payload_that_cannot_be_pinned_does_not_spoil_the_lease() {
    travels::<Lease<std::marker::PhantomPinned>>();
}
