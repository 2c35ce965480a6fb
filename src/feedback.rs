//! What an outcome changes: the one place where facts reported by the host become state.

use crate::account::{AccountId, Status};
use crate::config::{Backoff, BreakerPolicy, Config};
use crate::events::{Event, Events};
use crate::leases::LeaseState;
use crate::names::NameId;
use crate::outcome::{Outcome, QuotaReading, Reset, Scope, Usage};
use crate::refusal::Dimension;
use crate::request::TrafficClass;
use crate::roster::Roster;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::state::cooldown::{Block, Target};
use crate::state::quota::Evidence;
use crate::time::{Millis, Timestamp};

/// Where an outcome comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) model: Option<NameId>,
    pub(crate) selector: Option<NameId>,
    pub(crate) class: TrafficClass,
    /// Whether the breaker listens; it ignores leases taken before it opened and probes that
    /// overran their time.
    pub(crate) heard: bool,
    /// The tokens charged before, if what a success used is to be counted on its account now.
    pub(crate) charged: Option<u64>,
}

impl Source {
    /// The request that holds a lease and settles.
    pub(crate) fn of(lease: &LeaseState) -> Self {
        let &LeaseState { model, selector, class, cost, .. } = lease;
        Self { model, selector, class, heard: true, charged: Some(cost) }
    }

    fn target(&self, scope: Scope) -> Target {
        let named = match scope {
            Scope::Account => None,
            Scope::Model => self.model.map(Target::Model),
            Scope::Selector => self.selector.map(Target::Selector),
        };
        named.unwrap_or(Target::Account)
    }

    fn concerns(&self, target: Target) -> bool {
        match target {
            Target::Account => true,
            Target::Model(model) => self.model == Some(model),
            Target::Selector(selector) => self.selector == Some(selector),
        }
    }
}

/// The state that outcomes change, and what they are judged by.
#[derive(Debug)]
pub(crate) struct Feedback<'a> {
    pub(crate) roster: &'a mut Roster,
    pub(crate) config: &'a Config,
    /// The newest block generation.
    pub(crate) generation: &'a mut u64,
    pub(crate) events: &'a mut Events,
    pub(crate) now: Timestamp,
}

impl Feedback<'_> {
    /// Frees what a lease held, and applies its outcome in full.
    #[inline]
    pub(crate) fn conclude(&mut self, lease: &LeaseState, outcome: &Outcome) {
        let now = self.now;
        let Some(state) = self.roster.serving_mut(lease.slot) else {
            return;
        };
        let heard = release(state, lease, &self.config.breaker, now);
        let source = Source { heard, ..Source::of(lease) };
        match outcome {
            Outcome::Success { usage } => {
                if succeed(state, usage, &source, now) {
                    self.emit(lease.slot, |account| Event::BreakerClosed { account });
                }
            }
            failure => self.fail(lease.slot, failure, &source),
        }
    }

    /// Applies an outcome in full.
    pub(crate) fn apply(&mut self, slot: Slot, outcome: &Outcome, source: &Source) {
        match outcome {
            Outcome::Success { usage } => {
                let now = self.now;
                if self.update(slot, |state| succeed(state, usage, source, now)) == Some(true) {
                    self.emit(slot, |account| Event::BreakerClosed { account });
                }
            }
            failure => self.fail(slot, failure, source),
        }
    }

    /// Applies an outcome that is not a success.
    #[inline(never)]
    fn fail(&mut self, slot: Slot, outcome: &Outcome, source: &Source) {
        self.note_health(slot, outcome);
        let Config { cooldown, .. } = self.config;
        match *outcome {
            Outcome::RateLimited { scope, reset } => {
                let place = (source.target(scope), Dimension::Throttle);
                self.cool(slot, place, cooldown.throttle, reset, source);
            }
            Outcome::QuotaExhausted { scope, reset } => {
                let place = (source.target(scope), Dimension::Quota);
                self.cool(slot, place, cooldown.quota, reset, source);
            }
            Outcome::Overloaded { scope, reset } => {
                let place = (source.target(scope), Dimension::Overload);
                self.cool(slot, place, cooldown.overload, reset, source);
            }
            Outcome::AuthFailed => {
                let place = (Target::Account, Dimension::Auth);
                self.cool(slot, place, cooldown.auth, None, source);
            }
            Outcome::DeadToken => {
                let for_good = Backoff { base: cooldown.auth.cap, ..cooldown.auth };
                let backoff = if cooldown.auth.base.is_zero() { cooldown.auth } else { for_good };
                let place = (Target::Account, Dimension::Auth);
                self.cool(slot, place, backoff, None, source);
            }
            Outcome::Internal => self.internal(slot, source),
            Outcome::Network | Outcome::Timeout => self.error(slot, source),
            Outcome::BanSignal => self.ban_signal(slot),
            Outcome::Success { .. } | Outcome::ClientFault | Outcome::Cancelled => {}
        }
    }

    /// Notes the trouble that an outcome tells of: all that a late report may change.
    pub(crate) fn note_health(&mut self, slot: Slot, outcome: &Outcome) {
        let policy = &self.config.health;
        let points = match outcome {
            Outcome::RateLimited { .. } | Outcome::QuotaExhausted { .. } => policy.throttle,
            Outcome::Overloaded { .. } => policy.capacity,
            Outcome::Internal | Outcome::Network | Outcome::Timeout => policy.error,
            Outcome::AuthFailed | Outcome::DeadToken => policy.dead,
            Outcome::Success { .. }
            | Outcome::BanSignal
            | Outcome::ClientFault
            | Outcome::Cancelled => 0,
        };
        if points > 0 {
            let now = self.now;
            self.update(slot, |state| state.health.note(points, policy, now));
        }
    }

    /// Stores a quota reading and lets it set or lift the account's quota block.
    pub(crate) fn quota(&mut self, slot: Slot, reading: &QuotaReading) -> bool {
        let (now, policy) = (self.now, &self.config.quota);
        let Some(state) = self.roster.get_mut(slot) else {
            return false;
        };
        if !state.quota.store(reading, now) {
            return false;
        }
        if !policy.gate {
            return true;
        }
        let (observed_at, evidence) =
            (state.quota.observed_at(), state.quota.evidence(policy, now));
        let is_older = |block: &Block| {
            let place = (block.target, block.dimension);
            place == (Target::Account, Dimension::Quota) && block.set_at < observed_at
        };
        match evidence {
            Evidence::Unknown => {}
            Evidence::Available => {
                if state.cooldowns.lift(is_older) {
                    let dimension = Dimension::Quota;
                    self.emit(slot, |account| Event::Unblocked { account, dimension });
                }
            }
            Evidence::Dry { until } => {
                state.cooldowns.lift(is_older);
                let cap = now.plus(self.config.cooldown.quota.cap);
                let place = (Target::Account, Dimension::Quota);
                self.block_since(observed_at, slot, place, until.min(cap), true);
            }
        }
        true
    }

    /// Sets a block that ends at `until`, or extends the one that is there; escalation stays.
    pub(crate) fn block(
        &mut self,
        slot: Slot,
        place: (Target, Dimension),
        until: Timestamp,
        upstream: bool,
    ) {
        self.block_since(self.now, slot, place, until, upstream);
    }

    /// Sets or extends a block for which the evidence is of `set_at`.
    fn block_since(
        &mut self,
        set_at: Timestamp,
        slot: Slot,
        place: (Target, Dimension),
        until: Timestamp,
        upstream: bool,
    ) {
        let (now, decay) = (self.now, self.config.cooldown.decay);
        let state = self.roster.get(slot);
        let steps = state.map_or(0, |state| state.cooldowns.current_steps(place, decay, now));
        self.write(slot, place, Span { set_at, until, announced: until, steps }, upstream);
    }

    /// A cooldown: as long as the upstream said within the limits, else the next step of the
    /// backoff. Background traffic cools nobody without the upstream's word.
    fn cool(
        &mut self,
        slot: Slot,
        place: (Target, Dimension),
        backoff: Backoff,
        reset: Option<Reset>,
        source: &Source,
    ) {
        let (now, policy) = (self.now, &self.config.cooldown);
        if reset.is_none() && source.class == TrafficClass::Background {
            return;
        }
        let Some(state) = self.roster.get(slot) else {
            return;
        };
        let jitter = state.jitter(policy.jitter);
        let span = match reset {
            Some(reset) => {
                let announced = reset.at(now);
                let latest = now.plus(backoff.cap.max(policy.floor));
                let until = announced.clamp(now.plus(policy.floor), latest).plus(jitter);
                let steps = state.cooldowns.current_steps(place, policy.decay, now).max(1);
                Span { set_at: now, until, announced: announced.max(until), steps }
            }
            None => {
                let steps = state.cooldowns.next_steps(place, policy.decay, now);
                let length = backoff.base.grown(backoff.factor, steps - 1, backoff.cap);
                if length.is_zero() {
                    return;
                }
                let until = now.plus(length).plus(jitter);
                Span { set_at: now, until, announced: until, steps }
            }
        };
        self.write(slot, place, span, true);
    }

    fn write(
        &mut self,
        slot: Slot,
        (target, dimension): (Target, Dimension),
        Span { set_at, until, announced, steps }: Span,
        upstream: bool,
    ) {
        *self.generation += 1;
        let (now, generation) = (self.now, *self.generation);
        let block =
            Block { target, dimension, set_at, until, announced, steps, generation, upstream };
        let decay = self.config.cooldown.decay;
        self.update(slot, |state| state.cooldowns.extend(block, decay, now));
        let scope = match target {
            Target::Account => Scope::Account,
            Target::Model(_) => Scope::Model,
            Target::Selector(_) => Scope::Selector,
        };
        self.emit(slot, |account| Event::Blocked { account, scope, dimension, until });
    }

    /// An internal upstream error: several in a row quarantine the account.
    fn internal(&mut self, slot: Slot, source: &Source) {
        if source.class == TrafficClass::Background {
            return;
        }
        let policy = &self.config.breaker;
        let due = self.update(slot, |state| state.breaker.internal(policy)) == Some(true);
        if due && !self.is_exempt(slot) && !policy.quarantine.is_zero() {
            let until = self.now.plus(policy.quarantine);
            self.block(slot, (Target::Account, Dimension::Quarantine), until, false);
        }
    }

    /// A network error or time-out: several in a row open the breaker.
    fn error(&mut self, slot: Slot, source: &Source) {
        if source.class == TrafficClass::Background || !source.heard {
            return;
        }
        let (now, policy) = (self.now, &self.config.breaker);
        let due = self.update(slot, |state| state.breaker.error(policy, now)) == Some(true);
        if !due || self.is_exempt(slot) {
            return;
        }
        let longer = self.update(slot, |state| {
            let age: Millis = state.age(now);
            state.breaker.open(policy, age, now)
        });
        self.emit(slot, |account| Event::BreakerOpened { account });
        if let Some(Some(span)) = longer {
            let place = (Target::Account, Dimension::Breaker);
            self.block(slot, place, now.plus(span), false);
        }
    }

    fn ban_signal(&mut self, slot: Slot) {
        let (now, policy) = (self.now, &self.config.breaker);
        let banned = self.update(slot, |state| {
            let banned = state.breaker.ban_signal(policy, now);
            if banned {
                state.set_standing(Status::Banned);
            }
            banned
        });
        if banned == Some(true) {
            self.emit(slot, |account| Event::Banned { account });
        }
    }

    /// Whether inferred trouble must not take this account out, because no other one could serve
    /// its tier.
    fn is_exempt(&self, slot: Slot) -> bool {
        let Some(state) = self.roster.get(slot) else {
            return false;
        };
        let serves_instead = |(other, account): (Slot, &AccountState)| {
            other != slot && account.tier <= state.tier && self.is_usable(account)
        };
        self.config.last_usable_exempt && !self.roster.iter().any(serves_instead)
    }

    fn is_usable(&self, state: &AccountState) -> bool {
        let active = state.status(&self.config.breaker, self.now) == Status::Active;
        let cooled = state.cooldowns.live(self.now).any(|block| block.target == Target::Account);
        active && !cooled
    }

    fn emit(&mut self, slot: Slot, event: impl FnOnce(AccountId) -> Event) {
        if self.events.are_watched()
            && let Some(state) = self.roster.get(slot)
        {
            self.events.emit(|| event(state.id().clone()));
        }
    }

    fn update<R>(&mut self, slot: Slot, change: impl FnOnce(&mut AccountState) -> R) -> Option<R> {
        self.roster.get_mut(slot).map(change)
    }
}

/// Frees what a lease held on its account, rate slots aside; whether the breaker listens to its
/// outcome.
#[inline]
pub(crate) fn release(
    state: &mut AccountState,
    lease: &LeaseState,
    policy: &BreakerPolicy,
    now: Timestamp,
) -> bool {
    state.load.in_flight = state.load.in_flight.saturating_sub(1);
    let probe_counts = !lease.probe || state.breaker.release(lease.sequence, policy, now);
    probe_counts && state.breaker.epoch() == lease.epoch
}

/// A success: it ends streaks and escalations, and health takes no note of it; whether it closed
/// the breaker.
#[inline]
fn succeed(state: &mut AccountState, usage: &Usage, source: &Source, now: Timestamp) -> bool {
    state.cooldowns.relax(|target| source.concerns(target));
    if let Some(charged) = source.charged {
        state.record.usage.add(usage);
        let beyond = usage.billable().saturating_sub(charged);
        state.windows.take_tokens(beyond, now);
    }
    source.heard && state.breaker.success()
}

/// When a cooldown starts and ends, for us and for the upstream.
#[derive(Clone, Copy, Debug)]
struct Span {
    set_at: Timestamp,
    until: Timestamp,
    announced: Timestamp,
    steps: u32,
}
