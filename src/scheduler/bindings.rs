//! The life of bindings: written by successes, counted, dropped, evicted.

use super::Scheduler;
use crate::account::{AccountError, AccountId};
use crate::config::{StickyMode, Term};
use crate::events::Event;
use crate::leases::LeaseState;
use crate::outcome::Usage;
use crate::request::{Caller, Request};
use crate::select::conversation::has_left;
use crate::select::query::Query;
use crate::slot::Slot;
use crate::state::usage::UsageTotals;
use crate::sticky::kept::{KeptTrail, KeptUsage};
use crate::sticky::trail::Trail;
use crate::sticky::{Binding, BindingKey, Bound, Shift, Tenant};
use crate::time::Timestamp;

/// Where a conversation is bound.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BindingView {
    /// The accounts of its trail in the order in which they are tried.
    pub trail: Vec<AccountId>,
    /// When it was last used.
    pub last_used: Timestamp,
    /// What its successes used.
    pub usage: UsageTotals,
}

impl Scheduler {
    /// Binds the request's caller to an account, as if it had just served. Does nothing for an
    /// anonymous caller, for [`Affinity::Ignore`](crate::Affinity::Ignore) and while stickiness
    /// is off.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn bind(
        &mut self,
        request: &Request<'_>,
        account: &str,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        let now = self.advance(now);
        let slot = self.slot_of(account)?;
        let query = Query::new(request, &self.names);
        if let Some(caller) = query.caller.filter(|_| query.is_sticky(&self.config)) {
            let (model, selector) = self.intern(&query, request);
            let key = BindingKey::new(*caller, model, selector, &self.config.sticky);
            self.bind_key(Bound::nowhere(key), caller.tenant, slot, &query, now);
        }
        Ok(())
    }

    /// Removes the binding of the request's caller, model and selector; whether there was one.
    pub fn unbind(&mut self, request: &Request<'_>, now: Timestamp) -> bool {
        self.advance(now);
        let query = Query::new(request, &self.names);
        let Some(key) = query.binding_key(&self.config) else {
            return false;
        };
        let was_bound = self.bindings.alive(&key, &self.config.sticky, self.now).is_some();
        self.drop_binding(&key);
        was_bound
    }

    /// Removes all bindings of a caller, whatever the model; returns how many. O(bindings).
    pub fn unbind_caller(&mut self, caller: Caller, now: Timestamp) -> usize {
        self.advance(now);
        self.drop_bindings(|key, _| key.belongs_to(caller))
    }

    /// Takes an account out of every trail; returns how many it was in. O(bindings).
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn unbind_account(&mut self, account: &str, now: Timestamp) -> Result<usize, AccountError> {
        self.advance(now);
        let slot = self.slot_of(account)?;
        let on_account = |trail: &KeptTrail| trail.stops().iter().any(|stop| stop.slot == slot);
        let bound = self.bindings.iter().filter(|(_, binding)| on_account(&binding.trail));
        let keys: Vec<BindingKey> = bound.map(|(key, _)| *key).collect();
        for key in &keys {
            let trail = self.bindings.peek(key).map(|binding| binding.trail.trail().without(slot));
            match trail {
                Some(trail) if !trail.stops().is_empty() => self.replace_trail(key, trail),
                _ => self.drop_binding(key),
            }
        }
        Ok(keys.len())
    }

    /// Where the request's caller is bound, without freshening it. An account that has left the
    /// pool is not listed; `None` when none is left, or there is no binding.
    #[must_use]
    pub fn peek(&self, request: &Request<'_>, now: Timestamp) -> Option<BindingView> {
        let now = now.max(self.now);
        let query = Query::new(request, &self.names);
        let policy = &self.config.sticky;
        let binding = self.bindings.alive(&query.binding_key(&self.config)?, policy, now)?;
        let kept = binding.trail.trail();
        let slots = kept.in_order(policy.order);
        let accounts = slots.filter_map(|slot| self.roster.get(slot));
        let trail: Vec<AccountId> = accounts.map(|state| state.id().clone()).collect();
        let view =
            BindingView { trail, last_used: binding.last_used, usage: binding.usage.totals() };
        Some(view).filter(|view| !view.trail.is_empty())
    }

    /// Bindings that have not lapsed.
    #[must_use]
    pub fn bindings(&self, now: Timestamp) -> usize {
        let now = now.max(self.now);
        let policy = &self.config.sticky;
        let lapsed = self.bindings.iter().take_while(|(_, it)| it.has_lapsed(policy, now)).count();
        self.bindings.len() - lapsed
    }

    /// A success: its account becomes the most recent of the conversation's trail.
    pub(super) fn bind_served(&mut self, lease: &LeaseState, usage: &Usage, now: Timestamp) {
        let Some((bound, tenant)) = lease.binding.filter(|_| self.is_in_service(lease.slot, now))
        else {
            return;
        };
        let is_on = self.config.sticky.is_on();
        if is_on && self.bindings.serves_again(&bound, lease.slot, usage, now) {
            return;
        }
        self.bind_with(bound, tenant, lease, usage, now);
    }

    /// A success that changes the conversation's trail, or finds none.
    #[inline(never)]
    fn bind_with(
        &mut self,
        bound: Bound,
        tenant: Tenant,
        lease: &LeaseState,
        usage: &Usage,
        now: Timestamp,
    ) {
        let query = Query::of_lease(lease, &self.names);
        if self.bind_key(bound, tenant, lease.slot, &query, now)
            && let Some(binding) = self.bindings.peek_mut(&bound.key)
        {
            binding.usage.add(usage);
        }
    }

    /// A selection, where it binds at once: binds an unbound caller.
    pub(super) fn bind_selected(&mut self, lease: &LeaseState, now: Timestamp) {
        if let Some((bound, tenant)) = lease.binding
            && self.bindings.alive(&bound.key, &self.config.sticky, now).is_none()
        {
            let query = Query::of_lease(lease, &self.names);
            self.bind_key(bound, tenant, lease.slot, &query, now);
        }
    }

    /// Lets an account enter the trail of a key, which is made if there is none; whether it did.
    fn bind_key(
        &mut self,
        bound: Bound,
        tenant: Tenant,
        slot: Slot,
        query: &Query<'_>,
        now: Timestamp,
    ) -> bool {
        if !self.config.sticky.is_on() {
            return false;
        }
        let key = bound.key;
        let returns = self.bindings.is_lapsed(&key);
        if returns {
            self.drop_binding(&key);
        }
        let policy = &self.config.sticky;
        let callers = self.roster.get(slot).map_or(0, |state| state.load.bound);
        let full = policy.binding_limit.is_some_and(|limit| callers >= limit.callers);
        if let Some(binding) = self.bindings.peek(&key) {
            let view = self.view_alone(now);
            let mut trail = binding.trail.current(|slot| has_left(slot, query, &view), policy, now);
            trail.served(slot, policy, now);
            trail.relieve_home(|slot| self.roster.get(slot).is_some_and(|it| it.fallback_only));
            let was_first = binding.trail.first(policy.order) == Some(slot);
            if full && !was_first && trail.first(policy.order) == Some(slot) {
                return false;
            }
            self.replace_trail(&key, trail);
            self.bindings.refresh(&bound, now);
            return true;
        }
        if policy.mode == StickyMode::Drain || full {
            return false;
        }
        self.make_room(tenant);
        let trail = Trail::new(slot, now).into();
        let usage = KeptUsage::default();
        self.bindings.insert(key, Binding { trail, tenant, last_used: now, usage });
        self.stats.sticky.creates += u64::from(!returns);
        self.emit_for(slot, |account| Event::Bound { account });
        self.shift(Shift { from: None, to: Some(slot) });
        true
    }

    /// Evicts until one more binding of `tenant` fits.
    fn make_room(&mut self, tenant: Tenant) {
        while self.bindings.places() >= self.config.sticky.capacity.max(1) {
            let Some(victim) = self.bindings.victim(Some(tenant)) else {
                return;
            };
            self.stats.sticky.evictions += 1;
            self.events.emit(|| Event::Evicted);
            self.drop_binding(&victim);
        }
    }

    /// Counts out what has lapsed by `now`.
    pub(super) fn lapse_bindings(&mut self, now: Timestamp) {
        let counts = self.bound_callers_count();
        let (roster, stats) = (&mut self.roster, &mut self.stats);
        self.bindings.lapse(&self.config.sticky, now, |shift| {
            stats.sticky.expiries += 1;
            if let Some(bound) = shift.from.and_then(|slot| roster.bound_mut(slot, counts)) {
                *bound = bound.saturating_sub(1);
            }
        });
    }

    pub(super) fn drop_binding(&mut self, key: &BindingKey) {
        let was_lapsed = self.bindings.is_lapsed(key);
        if let Some(binding) = self.bindings.remove(key)
            && !was_lapsed
        {
            let from = binding.trail.first(self.config.sticky.order);
            self.shift(Shift { from, to: None });
        }
    }

    fn drop_bindings(&mut self, dropped: impl Fn(&BindingKey, &Binding) -> bool) -> usize {
        let matching = self.bindings.iter().filter(|(key, binding)| dropped(key, binding));
        let keys: Vec<BindingKey> = matching.map(|(key, _)| *key).collect();
        for key in &keys {
            self.drop_binding(key);
        }
        keys.len()
    }

    pub(super) fn replace_trail(&mut self, key: &BindingKey, trail: Trail) {
        let order = self.config.sticky.order;
        if let Some(binding) = self.bindings.peek_mut(key) {
            let to = trail.first(order);
            let from = binding.trail.first(order);
            binding.trail.replace(trail);
            self.shift(Shift { from, to });
        }
    }

    /// Evicts what a smaller table has no room for.
    pub(super) fn trim_bindings(&mut self) {
        while self.bindings.places() > self.config.sticky.capacity
            && let Some(victim) = self.bindings.victim(None)
        {
            self.stats.sticky.evictions += 1;
            self.drop_binding(&victim);
        }
    }

    /// Counts anew under which account each binding counts.
    pub(super) fn recount_bindings(&mut self) {
        let mut bound = vec![0_u32; self.roster.places() as usize];
        for slot in self.bindings.firsts(self.config.sticky.order) {
            if self.roster.get(slot).is_some() {
                bound[slot.index as usize] += 1;
            }
        }
        let counts = self.bound_callers_count();
        for (place, callers) in (0..).zip(bound) {
            let slot = self.roster.slot_at(place);
            if self.roster.get(slot).is_some_and(|state| state.load.bound != callers)
                && let Some(bound) = self.roster.bound_mut(slot, counts)
            {
                *bound = callers;
            }
        }
    }

    fn shift(&mut self, Shift { from, to }: Shift) {
        if from == to {
            return;
        }
        let counts = self.bound_callers_count();
        if let Some(bound) = from.and_then(|slot| self.roster.bound_mut(slot, counts)) {
            *bound = bound.saturating_sub(1);
        }
        if let Some(bound) = to.and_then(|slot| self.roster.bound_mut(slot, counts)) {
            *bound = bound.saturating_add(1);
        }
    }

    /// Whether it matters which account has how many bound callers, beside being told: to the
    /// policy, or to one that is being prepared.
    fn bound_callers_count(&self) -> bool {
        self.layout.unit(Term::BoundCallers) > 0
            || self.config.sticky.binding_limit.is_some()
            || self.preparation.is_under_way()
    }
}
