//! Questions about the state, which change nothing.

use serde::{Deserialize, Serialize};

use super::Scheduler;
use super::accounts::BlockScope;
use crate::account::{AccountId, RateLimit, Status};
use crate::explain::{Explanation, explain};
use crate::outcome::QuotaWindow;
use crate::refusal::Dimension;
use crate::request::Request;
use crate::select::query::Query;
use crate::state::breaker::Phase;
use crate::state::cooldown::{Block, Target};
use crate::state::usage::UsageTotals;
use crate::stats::Stats;
use crate::time::Timestamp;

/// All that the scheduler knows about one account.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AccountView {
    /// Its id.
    pub id: AccountId,
    /// Its status, the breaker's included.
    pub status: Status,
    /// Whether the operator is working on it.
    pub maintenance: bool,
    /// Whether it takes no new conversations.
    pub draining: bool,
    /// Leases held.
    pub in_flight: u32,
    /// Requests that wait for it.
    pub waiting: usize,
    /// Callers whose first account it is.
    pub bound: u32,
    /// When it was last selected, or entered the order.
    pub last_used: Option<Timestamp>,
    /// Its request windows.
    pub requests: Vec<WindowView>,
    /// Its token window.
    pub tokens: Option<WindowView>,
    /// Its live blocks.
    pub blocks: Vec<BlockView>,
    /// Points of recent trouble.
    pub trouble: u64,
    /// Its breaker.
    pub breaker: BreakerView,
    /// Its newest quota reading.
    pub quota: QuotaView,
    /// What its successes used.
    pub usage: UsageTotals,
}

/// A rate window and its use.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WindowView {
    /// The limit.
    pub limit: RateLimit,
    /// Units in the window now.
    pub used: u64,
}

/// A block, holding in `[set_at, until)`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BlockView {
    /// What it applies to.
    pub scope: BlockScope,
    /// Its kind.
    pub dimension: Dimension,
    /// The date of the newest evidence for it: when the failure was reported, or the reading taken.
    pub set_at: Timestamp,
    /// When it ends.
    pub until: Timestamp,
    /// When the upstream said it ends, which a cap may have cut.
    pub announced: Timestamp,
    /// Steps of escalation, 0 for the shortest.
    pub level: u32,
    /// Identifies it for [`Scheduler::clear_block`].
    pub generation: u64,
    /// Whether an upstream's answer, rather than inference or the operator, made it.
    pub upstream: bool,
}

/// A breaker.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BreakerView {
    /// Lets everything pass.
    Closed {
        /// Errors in a row so far.
        errors: u32,
    },
    /// Lets nothing pass until then.
    Open {
        /// When it becomes half-open.
        until: Timestamp,
    },
    /// Lets probes pass.
    HalfOpen,
}

/// A quota reading.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QuotaView {
    /// When it was taken.
    pub observed_at: Timestamp,
    /// Its windows.
    pub windows: Vec<QuotaWindow>,
    /// Percent left in the worst window that is known now.
    pub worst: Option<f64>,
}

/// How the leases are spread over the accounts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoadView {
    /// Accounts in the pool.
    pub accounts: usize,
    /// Leases held.
    pub in_flight: u64,
    /// Leases on the account that holds the most.
    pub busiest: u32,
}

impl LoadView {
    /// How much more than its even share the busiest account holds: 1 when all hold the same,
    /// the number of accounts when one holds everything. `None` without load.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
    pub fn skew(&self) -> Option<f64> {
        let even = self.in_flight as f64 / self.accounts as f64;
        (self.in_flight > 0).then(|| f64::from(self.busiest) / even)
    }
}

impl Scheduler {
    /// How the leases are spread over the accounts. O(accounts).
    #[must_use]
    pub fn load(&self, now: Timestamp) -> LoadView {
        let view = self.view(now.max(self.now));
        let held = self.roster.iter().map(|(slot, state)| view.in_flight(state, slot));
        held.fold(LoadView::default(), |load, held| LoadView {
            accounts: load.accounts + 1,
            in_flight: load.in_flight + u64::from(held),
            busiest: load.busiest.max(held),
        })
    }

    /// What [`select`](Self::select) would answer and why, account by account, without changing
    /// anything. O(accounts), and it allocates.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>, now: Timestamp) -> Explanation {
        let query = Query::new(request, &self.names);
        explain(&query, &self.view(now.max(self.now)))
    }

    /// All that is known about one account.
    #[must_use]
    pub fn inspect(&self, account: &str, now: Timestamp) -> Option<AccountView> {
        let view = self.view(now.max(self.now));
        let slot = self.roster.find(account)?;
        let state = self.roster.get(slot)?;
        let (now, config) = (view.now, &self.config);
        let window = |(limit, used)| WindowView { limit, used };
        let breaker = match state.breaker.phase(&config.breaker, now) {
            Phase::Closed => BreakerView::Closed { errors: state.breaker.errors() },
            Phase::Open { until } => BreakerView::Open { until },
            Phase::HalfOpen => BreakerView::HalfOpen,
        };
        Some(AccountView {
            id: state.id().clone(),
            status: state.status(&config.breaker, now),
            maintenance: state.maintenance,
            draining: state.draining,
            in_flight: view.in_flight(state, slot),
            waiting: state.load.waiting(None, now),
            bound: view.bound(state, slot),
            last_used: Some(state.load.last_used).filter(|_| state.load.turn > 0),
            requests: state.windows.usage(now).map(window).collect(),
            tokens: state.windows.token_usage(now).map(window),
            blocks: state.cooldowns.live(now).map(|block| self.block_view(block)).collect(),
            trouble: state.health.score(&config.health, now),
            breaker,
            quota: QuotaView {
                observed_at: state.quota.observed_at(),
                windows: state.quota.windows().to_vec(),
                worst: state.quota.worst(now),
            },
            usage: state.record.usage,
        })
    }

    /// The accounts' ids in the order of their insertion.
    pub fn accounts(&self) -> impl Iterator<Item = &AccountId> {
        self.roster.iter().map(|(_, state)| state.id())
    }

    /// Leases held, silent ones included until the next command frees them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.leases.len()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether quota is running out everywhere: more than half of the active accounts are
    /// measured, and all of those are below [`drought_percent`].
    ///
    /// [`drought_percent`]: crate::config::QuotaPolicy::drought_percent
    #[must_use]
    pub fn drought(&self, now: Timestamp) -> bool {
        let now = now.max(self.now);
        let (mut active, mut measured, mut low) = (0_usize, 0_usize, 0_usize);
        for (_, state) in self.roster.iter() {
            if state.status(&self.config.breaker, now) != Status::Active {
                continue;
            }
            active += 1;
            if let Some(left) = state.quota.worst_gate(now) {
                measured += 1;
                low += usize::from(left < self.config.quota.drought_percent);
            }
        }
        measured * 2 > active && low == measured
    }

    /// The next instant after `now` at which time alone changes whether an account may serve: a
    /// block ends, a full window frees a slot, a breaker lets a probe pass, a silent lease is
    /// freed. O(accounts).
    #[must_use]
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.max(self.now);
        let timeout = self.config.lease_timeout;
        let reaping = timeout.and_then(|timeout| self.leases.next_silent(timeout, now));
        let view = self.view(now);
        let accounts = self.roster.iter().filter_map(|(_, state)| view.next_lift(state));
        accounts.chain(reaping).filter(|&deadline| deadline > now).min()
    }

    fn block_view(&self, block: &Block) -> BlockView {
        let scope = match block.target {
            Target::Account => BlockScope::Account,
            Target::Model(model) => BlockScope::Model(self.names.text(model).to_owned()),
            Target::Selector(name) => BlockScope::Selector(self.names.text(name).to_owned()),
        };
        BlockView {
            scope,
            dimension: block.dimension,
            set_at: block.set_at,
            until: block.until,
            announced: block.announced,
            level: block.steps.saturating_sub(1),
            generation: block.generation,
            upstream: block.upstream,
        }
    }
}
