//! The shape of the JSON.

use std::collections::BTreeMap;

use account_pool::{
    AccountId, AccountView, BlockScope, BreakerView, Clock, PathCounts, Reason, Stats, Status,
    StickyCounts, Timestamp, UsageTotals, WindowView,
};
use serde::Serialize;

use super::Host;
use super::events::RecentEvent;

/// All that is shown: the answer of `GET /pool`. Instants are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Numbers about the pool as a whole.
    #[serde(flatten)]
    pub summary: Summary,
    /// The accounts in the order of their insertion.
    pub accounts: Vec<AccountStatus>,
    /// What happened last, the newest first.
    pub events: Vec<RecentEvent>,
    #[serde(skip)]
    pub(super) revision: u64,
}

/// Numbers about the pool as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// When it was read.
    pub at: Timestamp,
    /// Whether an admin token is configured.
    pub admin: bool,
    /// The selectors that a request carries one of, when the host tells.
    pub selectors: Vec<String>,
    /// Whether events come here; not when the pool had an observer before.
    pub observed: bool,
    /// How many accounts are in which condition.
    pub conditions: BTreeMap<Condition, usize>,
    /// Leases held.
    pub in_flight: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Whether quota runs out everywhere.
    pub drought: bool,
    /// What has happened so far.
    pub counters: Counters,
}

/// What has happened so far; numbers only grow, and go on after a restart from a snapshot, the
/// outcomes excepted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// Selections by path.
    pub selected: PathCounts,
    /// What became of the bindings.
    pub sticky: StickyCounts,
    /// Requests that were refused.
    pub refused: u64,
    /// Refusals in which at least one account was kept away for the reason.
    pub refused_by_reason: BTreeMap<&'static str, u64>,
    /// Answers that advised to wait.
    pub waits: u64,
    /// Leases that ended.
    pub settled: u64,
    /// How leases ended since the gateway started.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Leases freed in silence.
    pub reaped: u64,
    /// Rate slots given back.
    pub refunded: u64,
    /// What all successes used.
    pub usage: UsageTotals,
    /// The share of the input that came from prompt caches, 0 to 1; `null` before any input.
    pub cached_share: Option<f64>,
}

/// One account.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AccountStatus {
    /// In one word how it does.
    pub condition: Condition,
    /// The leases that it may hold at once, when the host tells.
    pub max_in_flight: Option<u32>,
    /// The free part of its tightest request or token window, 0 to 1; `null` without a window.
    pub headroom: Option<f64>,
    /// All that the pool knows.
    #[serde(flatten)]
    pub view: AccountView,
}

/// How an account does. Of several conditions the first in this order is told.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Condition {
    /// The upstream banned it.
    Banned,
    /// The operator switched it off.
    Disabled,
    /// The operator is working on it.
    Maintenance,
    /// Its breaker lets nothing pass.
    BreakerOpen,
    /// A block keeps all of it away for a time.
    Cooling,
    /// Its breaker lets probes pass.
    HalfOpen,
    /// It takes no new conversations.
    Draining,
    /// It holds as many leases as it may, or a window has no room.
    Full,
    /// It may serve. One of its models may be blocked.
    Ready,
}

impl PoolStatus {
    /// Reads the pool, account by account.
    pub(super) fn of<T: Send + Sync + 'static>(host: &Host<T>) -> Self {
        let pool = &host.pool;
        let at = pool.clock().now();
        let ids = pool.accounts();
        let views = ids.iter().filter_map(|id| pool.inspect(id.as_str()));
        let accounts: Vec<AccountStatus> =
            views.map(|view| AccountStatus::new(view, |id| host.max_in_flight(id))).collect();
        let mut conditions = BTreeMap::new();
        for account in &accounts {
            *conditions.entry(account.condition).or_default() += 1;
        }
        let (events, revision) = host.recent.all();
        let summary = Summary {
            at,
            admin: host.admin_token.is_some(),
            selectors: host.options.selectors.clone(),
            observed: host.observed,
            conditions,
            in_flight: pool.in_flight(),
            waiting: pool.waiting(),
            drought: pool.drought(),
            counters: Counters::new(&pool.stats(), host.recent.outcomes()),
        };
        Self { summary, accounts, events, revision }
    }
}

impl<T> Host<T> {
    fn max_in_flight(&self, account: &AccountId) -> Option<u32> {
        self.options.limits.as_ref().and_then(|limits| limits(account))
    }
}

impl Counters {
    fn new(stats: &Stats, outcomes: BTreeMap<&'static str, u64>) -> Self {
        let refusals = Reason::ALL.iter().map(|&reason| (reason, stats.refused_for(reason)));
        let counted = refusals.filter(|&(_, count)| count > 0);
        Self {
            selected: stats.selected,
            sticky: stats.sticky,
            refused: stats.refused,
            refused_by_reason: counted.map(|(reason, count)| (reason.as_str(), count)).collect(),
            waits: stats.waits,
            settled: stats.settled,
            outcomes,
            reaped: stats.reaped,
            refunded: stats.refunded,
            usage: stats.usage,
            cached_share: stats.usage.cached_share(),
        }
    }
}

impl AccountStatus {
    fn new(view: AccountView, limit: impl Fn(&AccountId) -> Option<u32>) -> Self {
        let max_in_flight = limit(&view.id);
        let headroom = view.requests.iter().chain(&view.tokens).map(free).reduce(f64::min);
        let busy = max_in_flight.is_some_and(|max| view.in_flight >= max);
        let is_full = busy || headroom.is_some_and(|free| free <= 0.0);
        Self { condition: Condition::of(&view, is_full), max_in_flight, headroom, view }
    }

    /// When the last block of the whole account ends.
    pub(super) fn blocked_until(&self) -> Option<Timestamp> {
        let whole = self.view.blocks.iter().filter(|block| block.scope == BlockScope::Account);
        whole.map(|block| block.until).max()
    }
}

impl Condition {
    /// All, in order.
    pub(super) const ALL: [Self; 9] = [
        Self::Banned,
        Self::Disabled,
        Self::Maintenance,
        Self::BreakerOpen,
        Self::Cooling,
        Self::HalfOpen,
        Self::Draining,
        Self::Full,
        Self::Ready,
    ];

    /// A short stable label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Banned => "banned",
            Self::Disabled => "disabled",
            Self::Maintenance => "maintenance",
            Self::BreakerOpen => "breaker_open",
            Self::Cooling => "cooling",
            Self::HalfOpen => "half_open",
            Self::Draining => "draining",
            Self::Full => "full",
            Self::Ready => "ready",
        }
    }

    fn of(view: &AccountView, is_full: bool) -> Self {
        let is_blocked = view.blocks.iter().any(|block| block.scope == BlockScope::Account);
        match view.status {
            Status::Banned => return Self::Banned,
            Status::Disabled => return Self::Disabled,
            _ => {}
        }
        match view.breaker {
            _ if view.maintenance => Self::Maintenance,
            BreakerView::Open { .. } => Self::BreakerOpen,
            _ if is_blocked => Self::Cooling,
            BreakerView::HalfOpen => Self::HalfOpen,
            _ if view.draining => Self::Draining,
            _ if is_full => Self::Full,
            _ => Self::Ready,
        }
    }
}

/// The free part of a window. A limit of 0 has none.
#[expect(clippy::cast_precision_loss, reason = "a share for people to read")]
fn free(window: &WindowView) -> f64 {
    let (limit, used) = (window.limit.limit, window.used);
    if limit == 0 { 0.0 } else { limit.saturating_sub(used) as f64 / limit as f64 }
}
