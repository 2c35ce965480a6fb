//! The facts about one account. Each fact is a room of its own and knows nothing of the others.

pub(crate) mod breaker;
pub(crate) mod cooldown;
pub(crate) mod health;
pub(crate) mod load;
pub(crate) mod quota;
pub(crate) mod rare;
pub(crate) mod usage;
pub(crate) mod window;

use std::collections::BTreeSet;

use self::breaker::{Breaker, Phase};
use self::cooldown::Cooldowns;
use self::health::Health;
use self::load::Load;
use self::quota::Quota;
use self::rare::Rare;
use self::usage::UsageTotals;
use self::window::{Taken, Windows};
use crate::account::{Account, AccountId, Entitlement, Plan, Status};
use crate::config::BreakerPolicy;
use crate::names::{NameId, Named, Names};
use crate::request::digest;
use crate::time::{Millis, Timestamp};

/// Everything the scheduler knows about an account.
///
/// In a large pool every account that is looked at is read from far away. So the fields lie in
/// this order: first those that the predicate and the order always read, in as few cache lines as
/// they need, with what is [`Rare`] out of line.
#[derive(Clone, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct AccountState {
    /// Its number in the order of insertion, smaller than those of accounts added later.
    pub(crate) number: u32,
    pub(crate) weight: u32,
    /// Hash of the id: the account's place in rendezvous hashing, and the source of its jitter.
    pub(crate) hash: u64,
    pub(crate) max_in_flight: Option<u32>,
    pub(crate) tier: u8,
    pub(crate) fallback_only: bool,
    standing: Status,
    pub(crate) maintenance: bool,
    pub(crate) draining: bool,
    pub(crate) entitled: Rare<Entitled>,
    pub(crate) load: Load,
    pub(crate) windows: Windows,
    pub(crate) breaker: Breaker,
    pub(crate) health: Health,
    pub(crate) quota: Quota,
    pub(crate) cooldowns: Cooldowns,
    pub(crate) record: Box<Record>,
}

/// What a selection does not look at; apart, so that a pool's accounts lie closer together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    id: AccountId,
    pub(crate) usage: UsageTotals,
    pub(crate) added_at: Timestamp,
}

impl AccountState {
    pub(crate) fn new(account: Account, names: &mut Names, now: Timestamp) -> Self {
        let mut state = Self {
            hash: u64::try_from(digest(account.id.as_str()) >> 64).unwrap_or_default(),
            number: 0,
            max_in_flight: None,
            tier: 0,
            weight: 0,
            fallback_only: false,
            entitled: Rare::new(Entitled {
                models: NameFilter::new(&account.models, |name| names.intern_model(name)),
                selectors: NameFilter::new(&account.selectors, |name| names.intern_selector(name)),
                blocked_models: interned(&account.blocked_models, |name| names.intern_model(name)),
            }),
            standing: Status::Active,
            maintenance: false,
            draining: false,
            windows: Windows::default(),
            cooldowns: Cooldowns::default(),
            health: Health::default(),
            breaker: Breaker::default(),
            quota: Quota::default(),
            load: Load::default(),
            record: Box::new(Record {
                id: account.id,
                usage: UsageTotals::default(),
                added_at: now,
            }),
        };
        state.set_plan(&account.plan);
        state
    }

    pub(crate) fn id(&self) -> &AccountId {
        &self.record.id
    }

    pub(crate) fn set_plan(&mut self, plan: &Plan) {
        self.max_in_flight = plan.max_in_flight;
        self.tier = plan.tier.0;
        self.weight = plan.weight_thousandths();
        self.fallback_only = plan.fallback_only;
        self.windows.set_limits(plan);
    }

    /// The operator's and the upstream's word, the breaker aside.
    pub(crate) fn standing(&self) -> Status {
        self.standing
    }

    /// Sets the standing. Making an account active closes its breaker.
    pub(crate) fn set_standing(&mut self, status: Status) {
        self.standing = status;
        if status == Status::Active {
            self.breaker.reset();
        }
    }

    /// The standing, or [`Status::Error`] while the breaker is open.
    pub(crate) fn status(&self, policy: &BreakerPolicy, now: Timestamp) -> Status {
        let open = matches!(self.breaker.phase(policy, now), Phase::Open { .. });
        if self.standing == Status::Active && open { Status::Error } else { self.standing }
    }

    /// Takes what a lease needs from every limit.
    #[inline]
    pub(crate) fn reserve(&mut self, cost: u64, turn: u64, now: Timestamp) -> Taken {
        self.load.in_flight = self.load.in_flight.saturating_add(1);
        self.load.last_used = now;
        self.load.turn = turn;
        self.windows.take(cost, now)
    }

    /// How long it has been in the pool.
    pub(crate) fn age(&self, now: Timestamp) -> Millis {
        now.since(self.record.added_at)
    }

    /// How much longer than announced this account's cooldowns last.
    pub(crate) fn jitter(&self, most: Millis) -> Millis {
        Millis::new(most.as_millis().checked_add(1).map_or(self.hash, |spread| self.hash % spread))
    }

    /// The names that it refers to.
    pub(crate) fn names(&self) -> impl Iterator<Item = NameId> + '_ {
        let cooled = self.cooldowns.all().filter_map(|block| block.target.name());
        self.entitled.get().into_iter().flat_map(Entitled::names).chain(cooled)
    }
}

/// Which names an account may serve; by default all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entitled {
    pub(crate) models: NameFilter,
    pub(crate) selectors: NameFilter,
    /// Models that the operator blocks.
    pub(crate) blocked_models: Vec<NameId>,
}

impl Entitled {
    fn names(&self) -> impl Iterator<Item = NameId> + '_ {
        let Self { models, selectors, blocked_models } = self;
        models.names.iter().chain(&selectors.names).chain(blocked_models).copied()
    }
}

/// An [`Entitlement`] over interned names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NameFilter {
    mode: FilterMode,
    names: Vec<NameId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum FilterMode {
    #[default]
    Any,
    Only,
    AllBut,
}

impl NameFilter {
    pub(crate) fn new(entitlement: &Entitlement, intern: impl FnMut(&str) -> NameId) -> Self {
        let (mode, names) = match entitlement {
            Entitlement::Any => (FilterMode::Any, Vec::new()),
            Entitlement::Only(only) => (FilterMode::Only, interned(only, intern)),
            Entitlement::AllBut(but) => (FilterMode::AllBut, interned(but, intern)),
        };
        Self { mode, names }
    }

    /// The entitlement, as the names read now.
    pub(crate) fn declared(&self, names: &Names) -> Entitlement {
        let texts = self.names.iter().map(|&name| names.text(name).to_owned());
        match self.mode {
            FilterMode::Any => Entitlement::Any,
            FilterMode::Only => Entitlement::Only(texts.collect()),
            FilterMode::AllBut => Entitlement::AllBut(texts.collect()),
        }
    }

    /// Whether it admits a request's name; one that names nothing is always admitted.
    pub(crate) fn admits(&self, name: Named) -> bool {
        let listed = name.id().is_some_and(|id| self.names.binary_search(&id).is_ok());
        match self.mode {
            FilterMode::Any => true,
            FilterMode::Only => listed || name == Named::Absent,
            FilterMode::AllBut => !listed,
        }
    }
}

/// The sorted numbers of `texts`, trimmed like a request's names; blank ones are left out.
pub(crate) fn interned(
    texts: &BTreeSet<String>,
    intern: impl FnMut(&str) -> NameId,
) -> Vec<NameId> {
    let trimmed = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
    let mut ids: Vec<NameId> = trimmed.map(intern).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
