//! Bindings: a list, least recently used first.

use std::collections::BTreeMap;

use account_pool::config::{BindAt, Order, Refresh, StickyMode};
use account_pool::{Dimension, Status, Timestamp, Usage, UsageTotals};

use crate::facts::{Binding, Key, Lease, Member, Serial, Trail};
use crate::naive::{Model, add_usage};
use crate::rules::{Affair, Query, Sighting};

impl Model {
    pub(crate) fn stickiness_is_on(&self) -> bool {
        let policy = &self.config.sticky;
        policy.mode != StickyMode::Off && policy.capacity > 0 && !policy.time_to_idle.is_zero()
    }

    fn trail_len(&self) -> usize {
        if self.config.sticky.no_fallback { 1 } else { self.config.sticky.trail }
    }

    pub(crate) fn binding(&self, key: &Key) -> Option<&Binding> {
        self.bindings.iter().find(|binding| binding.key == *key)
    }

    /// When a binding will lapse, counting what a look-up now does to it.
    pub(crate) fn lapses_at(&self, key: &Key) -> Timestamp {
        let last_used = match self.config.sticky.refresh {
            Refresh::OnLookup => self.now,
            _ => self.binding(key).unwrap().last_used,
        };
        last_used.plus(self.config.sticky.time_to_idle)
    }

    /// Callers whose first account it is.
    pub(crate) fn bound(&self, serial: Serial) -> u32 {
        let live = self.bindings.iter().filter(|binding| !binding.lapsed);
        let here = live.filter(|it| self.first(&it.trail) == Some(serial));
        u32::try_from(here.count()).unwrap()
    }

    fn first(&self, trail: &Trail) -> Option<Serial> {
        let recent = trail.stops.first()?.0;
        let home_first = self.config.sticky.order == Order::HomeFirst;
        Some(if home_first { trail.home } else { recent })
    }

    /// The accounts of a trail in the order in which they are tried.
    pub(crate) fn in_order(&self, trail: &Trail) -> Vec<Serial> {
        let mut order: Vec<Serial> = trail.stops.iter().map(|stop| stop.0).collect();
        if self.config.sticky.order == Order::HomeFirst && !order.is_empty() {
            order.retain(|&serial| serial != trail.home);
            order.insert(0, trail.home);
        }
        order
    }

    /// Whether an account leaves the trails of such a request.
    fn has_left(&self, serial: Serial, query: &Query) -> bool {
        let Some(member) = self.member(serial) else { return true };
        let cold_at = self.now.plus(self.config.sticky.cache_lifetime);
        let blocked = self.met_blocks(member, query).any(|block| {
            block.dimension == Dimension::Auth
                || (block.dimension == Dimension::Quota && block.until > cold_at)
        });
        matches!(member.standing, Status::Disabled | Status::Banned) || blocked
    }

    /// The trail as it counts now for a request.
    pub(crate) fn current(&self, trail: &Trail, query: &Query) -> Trail {
        let cache = self.config.sticky.cache_lifetime;
        let recent = trail.stops.first().map(|stop| stop.0);
        let mut current = trail.clone();
        current
            .stops
            .retain(|&(serial, at)| Some(serial) == recent || !at.is_over(cache, self.now));
        current.stops.retain(|&(serial, _)| !self.has_left(serial, query));
        settle_home(&mut current);
        self.shorten(&mut current, self.trail_len());
        settle_home(&mut current);
        current
    }

    fn shorten(&self, trail: &mut Trail, len: usize) {
        while trail.stops.len() > len {
            let keeps_home = self.config.sticky.order == Order::HomeFirst && len > 0;
            let last = trail.stops.iter().rposition(|it| !(keeps_home && it.0 == trail.home));
            trail.stops.remove(last.unwrap());
        }
    }

    /// When an account leaves a trail by time alone, if its binding lapses then; `None` when it is
    /// not in it.
    pub(crate) fn stays_until(
        &self,
        serial: Serial,
        trail: &Trail,
        lapses: Timestamp,
    ) -> Option<Timestamp> {
        let &(_, at) = trail.stops.iter().find(|stop| stop.0 == serial)?;
        let is_recent = trail.stops[0].0 == serial;
        let cold_at = at.plus(self.config.sticky.cache_lifetime);
        Some(if is_recent { lapses } else { lapses.min(cold_at) })
    }

    fn is_reserve(&self, serial: Serial) -> bool {
        self.member(serial).is_some_and(|member| member.plan.fallback_only)
    }

    /// An account served the conversation of `key`; whether that is remembered.
    pub(crate) fn bind_key(&mut self, key: &Key, query: &Query, serial: Serial) -> bool {
        if !self.stickiness_is_on() {
            return false;
        }
        let returns = self.binding(key).is_some_and(|binding| binding.lapsed);
        if returns {
            self.drop_binding(key);
        }
        let limit = self.config.sticky.binding_limit;
        let full = limit.is_some_and(|limit| self.bound(serial) >= limit.callers);
        if let Some(binding) = self.binding(key) {
            let first = |trail| self.in_order(trail).first().copied();
            let mut trail = self.current(&binding.trail, query);
            trail.stops.retain(|stop| stop.0 != serial);
            self.shorten(&mut trail, self.trail_len() - 1);
            trail.stops.insert(0, (serial, self.now));
            settle_home(&mut trail);
            if self.is_reserve(trail.home) && !self.is_reserve(serial) {
                trail.home = serial;
            }
            let comes_first =
                first(&trail) == Some(serial) && first(&binding.trail) != Some(serial);
            if full && comes_first {
                return false;
            }
            self.set_trail(key, trail);
            self.freshen(key);
            return true;
        }
        if full || self.config.sticky.mode == StickyMode::Drain {
            return false;
        }
        while self.bindings.len() >= self.config.sticky.capacity {
            let victim = self.victim(Some(&query.tenant));
            self.bindings.remove(victim);
            self.stats.sticky.evictions += 1;
        }
        self.bindings.push(Binding {
            key: key.clone(),
            tenant: query.tenant.clone(),
            trail: Trail { stops: vec![(serial, self.now)], home: serial },
            last_used: self.now,
            usage: UsageTotals::default(),
            lapsed: false,
        });
        self.stats.sticky.creates += u64::from(!returns);
        true
    }

    /// Which binding gives way, to one of the tenant `newcomer` if there is one.
    fn victim(&self, newcomer: Option<&str>) -> usize {
        if self.bindings[0].lapsed {
            return 0;
        }
        let mut held: BTreeMap<&str, u32> =
            newcomer.map(|tenant| (tenant, 1)).into_iter().collect();
        for binding in &self.bindings {
            *held.entry(&binding.tenant).or_insert(0) += 1;
        }
        let most = held.values().max().copied();
        // A newcomer may be the only one of the tenant that holds the most.
        let victim = self.bindings.iter().position(|it| held.get(&*it.tenant).copied() == most);
        victim.unwrap_or(0)
    }

    pub(crate) fn bind_selected(&mut self, lease: &Lease) {
        if self.config.sticky.bind_at == BindAt::Select
            && let Some(key) = &lease.binding
            && self.binding(key).is_none_or(|binding| binding.lapsed)
        {
            self.bind_key(key, &lease.query, lease.claim.serial);
        }
    }

    pub(crate) fn bind_served(&mut self, lease: &Lease, usage: &Usage) {
        let member = self.member(lease.claim.serial);
        let in_service = |it: &Member| self.status(it) == Status::Active && !it.maintenance;
        if let Some(key) = &lease.binding
            && member.is_some_and(in_service)
            && self.bind_key(key, &lease.query, lease.claim.serial)
            && let Some(binding) = self.bindings.iter_mut().find(|it| it.key == *key)
        {
            add_usage(&mut binding.usage, usage);
        }
    }

    pub(crate) fn drop_binding(&mut self, key: &Key) {
        self.bindings.retain(|binding| binding.key != *key);
    }

    fn set_trail(&mut self, key: &Key, trail: Trail) {
        if let Some(binding) = self.bindings.iter_mut().find(|binding| binding.key == *key) {
            binding.trail = trail;
        }
    }

    /// Makes a binding the most recently used.
    fn freshen(&mut self, key: &Key) {
        if let Some(index) = self.bindings.iter().position(|binding| binding.key == *key) {
            let mut binding = self.bindings.remove(index);
            binding.last_used = self.now;
            self.bindings.push(binding);
        }
    }

    pub(crate) fn lapse_bindings(&mut self) {
        let (idle, now) = (self.config.sticky.time_to_idle, self.now);
        for binding in self.bindings.iter_mut().filter(|binding| !binding.lapsed) {
            if binding.last_used.is_over(idle, now) {
                binding.lapsed = true;
                self.stats.sticky.expiries += 1;
            }
        }
    }

    /// After a change of the configuration.
    pub(crate) fn trim_bindings(&mut self) {
        while self.bindings.len() > self.config.sticky.capacity {
            let victim = self.victim(None);
            self.bindings.remove(victim);
            self.stats.sticky.evictions += 1;
        }
    }

    pub(crate) fn note(&mut self, affair: Affair) {
        let counts = &mut self.stats.sticky;
        match affair {
            Affair::None => {}
            Affair::Miss => counts.misses += 1,
            Affair::Expired(key) => self.drop_binding(&key),
            Affair::Found { key, trail, result } => {
                *match result {
                    Sighting::Hit => &mut counts.hits,
                    Sighting::WarmHit => &mut counts.warm_hits,
                    Sighting::ColdMove => &mut counts.cold_moves,
                    Sighting::Refused => &mut counts.refusals,
                    Sighting::Waiting => &mut counts.waits,
                } += 1;
                match trail {
                    None => self.drop_binding(&key),
                    Some(trail) => {
                        self.set_trail(&key, trail);
                        if self.config.sticky.refresh == Refresh::OnLookup {
                            self.freshen(&key);
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn unbind_key(&mut self, key: &Key) -> bool {
        let was_bound = self.binding(key).is_some_and(|binding| !binding.lapsed);
        self.drop_binding(key);
        was_bound
    }

    pub(crate) fn unbind_serial(&mut self, serial: Serial) -> usize {
        let mut touched = 0;
        for binding in self.bindings.iter_mut().filter(|binding| !binding.lapsed) {
            let before = binding.trail.stops.len();
            binding.trail.stops.retain(|stop| stop.0 != serial);
            touched += usize::from(binding.trail.stops.len() < before);
            settle_home(&mut binding.trail);
        }
        self.bindings.retain(|binding| !binding.trail.stops.is_empty());
        touched
    }
}

/// When the home has left, the most recent account takes its place.
fn settle_home(trail: &mut Trail) {
    if let Some(recent) = trail.stops.first()
        && !trail.stops.iter().any(|stop| stop.0 == trail.home)
    {
        trail.home = recent.0;
    }
}
