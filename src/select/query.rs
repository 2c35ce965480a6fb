//! A request and the pool as the steps of a selection see them: resolved, and read-only.

use crate::account::AccountId;
use crate::config::Config;
use crate::index::Index;
use crate::leases::{LeaseState, Leases};
use crate::names::{NameId, Named, Names};
use crate::refusal::{Dimension, Lift, WaitTicket};
use crate::request::{Affinity, Caller, Request};
use crate::roster::Roster;
use crate::select::rank::Layout;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::{Block, Target};
use crate::sticky::{BindingKey, Bindings};
use crate::time::Timestamp;

/// A request whose names are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Query<'a> {
    pub(crate) caller: Option<&'a Caller>,
    pub(crate) model: Named,
    pub(crate) selector: Named,
    /// Whether the model draws on the account's quota.
    pub(crate) metered: bool,
    pub(crate) excluded: &'a [AccountId],
    pub(crate) cost: u64,
    pub(crate) affinity: Affinity,
    pub(crate) waited: Option<&'a WaitTicket>,
}

impl<'a> Query<'a> {
    #[inline]
    pub(crate) fn new(request: &'a Request<'_>, names: &Names) -> Self {
        let (model, metered) = names.find_model(request.model);
        Self {
            caller: request.caller.as_ref(),
            model,
            selector: names.find_selector(request.selector),
            metered,
            excluded: request.excluded,
            cost: request.cost,
            affinity: request.affinity,
            waited: request.waited.as_ref(),
        }
    }

    /// The request that holds a lease, as far as cooldowns concern it.
    pub(crate) fn of_lease(lease: &LeaseState, names: &Names) -> Self {
        let named = |id: Option<NameId>| id.map_or(Named::Absent, Named::Known);
        Self {
            caller: None,
            model: named(lease.model),
            selector: named(lease.selector),
            metered: lease.model.is_none_or(|model| names.is_metered(names.text(model))),
            excluded: &[],
            cost: lease.cost,
            affinity: Affinity::default(),
            waited: None,
        }
    }

    /// Whether a cooldown on `target` applies to this request.
    pub(crate) fn concerns(&self, target: Target) -> bool {
        match target {
            Target::Account => true,
            Target::Model(model) => self.model == Named::Known(model),
            Target::Selector(selector) => self.selector == Named::Known(selector),
        }
    }

    /// Whether a cooldown applies to this request. A quota of the whole account does not apply to
    /// models that do not draw on it.
    pub(crate) fn feels(&self, block: &Block) -> bool {
        self.feels_on(block.target, block.dimension)
    }

    /// The same of a cooldown of that dimension on `target`.
    pub(crate) fn feels_on(&self, target: Target, dimension: Dimension) -> bool {
        let quota = (target, dimension) == (Target::Account, Dimension::Quota);
        self.concerns(target) && (self.metered || !quota)
    }

    /// Whether the caller may have a binding at all.
    pub(crate) fn is_sticky(&self, config: &Config) -> bool {
        let wanted = self.caller.is_some() && self.affinity != Affinity::Ignore;
        wanted && config.sticky.is_on()
    }

    /// Whether a binding may decide where it goes; otherwise ranking alone does.
    #[inline]
    pub(crate) fn may_follow(&self, config: &Config) -> bool {
        self.affinity == Affinity::Require || self.is_sticky(config)
    }

    /// The key of the caller's binding; `None` when there cannot be one.
    pub(crate) fn binding_key(&self, config: &Config) -> Option<BindingKey> {
        let caller = self.caller.filter(|_| self.is_sticky(config))?;
        BindingKey::find(*caller, self.model, self.selector, &config.sticky)
    }
}

/// All that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) config: &'a Config,
    /// The configured order of preference, laid out.
    pub(crate) layout: &'a Layout,
    pub(crate) roster: &'a Roster,
    pub(crate) leases: &'a Leases,
    pub(crate) bindings: &'a Bindings,
    /// The index, where it is current.
    pub(crate) index: Option<&'a Index>,
    /// What tickets are marked with.
    pub(crate) origin: u32,
    /// The number of the next ticket.
    pub(crate) next_sequence: u64,
    /// Before this instant no lease is about to be freed, and no binding to be counted out.
    pub(crate) quiet_until: Timestamp,
    /// The account on which the decision frees the caller's own place.
    pub(crate) vacated: Option<Slot>,
    pub(crate) now: Timestamp,
}

impl<'a> View<'a> {
    /// What there is at `now`, for one who asks for no ticket.
    pub(crate) fn new(
        config: &'a Config,
        layout: &'a Layout,
        roster: &'a Roster,
        leases: &'a Leases,
        bindings: &'a Bindings,
        quiet_until: Timestamp,
        now: Timestamp,
    ) -> Self {
        let (origin, next_sequence) = (0, 0);
        Self {
            config,
            layout,
            roster,
            leases,
            bindings,
            index: None,
            origin,
            next_sequence,
            quiet_until,
            vacated: None,
            now,
        }
    }

    /// Leases held on an account, without those that the reaper is about to free.
    #[inline]
    pub(crate) fn in_flight(&self, state: &AccountState, slot: Slot) -> u32 {
        let silent = if self.is_quiet() { 0 } else { self.silent_on(slot) };
        state.load.in_flight.saturating_sub(silent)
    }

    /// Callers bound to an account, without those whose bindings are about to be counted out, and
    /// without the one whose place the decision frees.
    #[inline]
    pub(crate) fn bound(&self, state: &AccountState, slot: Slot) -> u32 {
        let overdue = if self.is_quiet() { 0 } else { self.overdue_on(slot) };
        let vacated = u32::from(self.vacated == Some(slot));
        state.load.bound.saturating_sub(overdue).saturating_sub(vacated)
    }

    /// Whether nothing that counts is about to be freed or counted out.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.now < self.quiet_until
    }

    /// The leases on an account that the reaper is about to free.
    #[cold]
    fn silent_on(&self, slot: Slot) -> u32 {
        let Some(timeout) = self.config.lease_timeout else {
            return 0;
        };
        let silent = self.leases.silent(timeout, self.now).filter(|lease| lease.slot == slot);
        u32::try_from(silent.count()).unwrap_or(u32::MAX)
    }

    /// The callers bound to an account whose bindings are about to be counted out.
    #[cold]
    fn overdue_on(&self, slot: Slot) -> u32 {
        let policy = &self.config.sticky;
        let overdue = self.bindings.overdue(policy, self.now);
        let here = overdue.filter(|binding| binding.trail.first(policy.order) == Some(slot));
        u32::try_from(here.count()).unwrap_or(u32::MAX)
    }

    /// Whether so many callers are bound to an account that others are refused.
    pub(crate) fn is_at_binding_limit(&self, state: &AccountState, slot: Slot) -> bool {
        let limit = self.config.sticky.binding_limit.filter(|limit| limit.refuse);
        limit.is_some_and(|limit| self.bound(state, slot) >= limit.callers)
    }

    /// When the first condition ends by time alone that keeps an account from requests of any
    /// name: a block ends, a full window frees a slot, a breaker lets a probe pass.
    pub(crate) fn next_lift(&self, state: &AccountState) -> Option<Timestamp> {
        let lifts = [
            state.windows.request_lift(self.now),
            state.windows.token_lift(0, self.now),
            self.breaker_lift(state),
        ];
        let blocks = state.cooldowns.live(self.now).map(|block| block.until);
        blocks.chain(lifts.into_iter().filter_map(Lift::deadline)).min()
    }

    /// What lets an account's breaker pass the next request.
    pub(crate) fn breaker_lift(&self, state: &AccountState) -> Lift {
        state.breaker.lift(&self.config.breaker, self.config.lease_timeout, self.now)
    }
}
