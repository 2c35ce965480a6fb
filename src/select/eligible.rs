//! The eligibility predicate: the only place that decides whether an account may serve a request.
//!
//! What keeps few accounts away is looked at out of line, so that a yes stays cheap.

use crate::account::{AccountId, Status};
use crate::config::Degraded;
use crate::refusal::{Dimension, Lift, Reason, Rejection};
use crate::select::query::{Query, View};
use crate::slot::Slot;
use crate::state::breaker::Phase;
use crate::state::rare::Rare;
use crate::state::window::Reading;
use crate::state::{AccountState, Entitled};
use crate::time::Timestamp;

/// Whether the account may serve the request now. `bound` says that the caller is bound to it,
/// which opens it where only its own conversations may go on.
pub(crate) fn eligible(
    state: &AccountState,
    slot: Slot,
    bound: bool,
    query: &Query<'_>,
    view: &View<'_>,
) -> Result<(), Rejection> {
    let mut verdict = Verdict::default();
    verdict.standing(state, slot, bound, query, view);
    verdict.request(state, query);
    verdict.trouble(state, query, view);
    verdict.firm(Reason::RateLimit, state.windows.request_lift(view.now));
    verdict.firm(Reason::TokenLimit, state.windows.token_lift(query.cost, view.now));
    verdict.firm(Reason::InFlight, load_lift(state, slot, view));
    verdict.0.map_or(Ok(()), Err)
}

/// Whether the account's limits leave room for the request: the part of the predicate that changes
/// with its load and its windows, of which those for requests say `reading`.
#[inline]
pub(crate) fn has_capacity(
    state: &AccountState,
    slot: Slot,
    reading: Reading,
    query: &Query<'_>,
    view: &View<'_>,
) -> bool {
    reading.has_room
        && state.windows.token_lift(query.cost, view.now) == Lift::Free
        && load_lift(state, slot, view) == Lift::Free
}

/// What lifts the limit of leases at a time.
#[inline]
fn load_lift(state: &AccountState, slot: Slot, view: &View<'_>) -> Lift {
    match state.max_in_flight {
        Some(0) => Lift::Never,
        Some(limit) if view.in_flight(state, slot) >= limit => Lift::Release,
        _ => Lift::Free,
    }
}

/// The verdict on an account to which the caller is bound until then. One that outlasts the
/// binding is that of a caller without.
pub(crate) fn judge(
    state: &AccountState,
    slot: Slot,
    bound_until: Option<Timestamp>,
    query: &Query<'_>,
    view: &View<'_>,
) -> Result<(), Rejection> {
    if let Some(end) = bound_until.filter(|&end| view.now < end) {
        match eligible(state, slot, true, query, view) {
            Err(rejection) if rejection.lift.deadline().is_some_and(|free_at| free_at >= end) => {}
            verdict => return verdict,
        }
    }
    eligible(state, slot, false, query, view)
}

/// The conditions met so far, of which the longest gives the reason.
#[derive(Default)]
struct Verdict(Option<Rejection>);

impl Verdict {
    /// What the operator and the upstream say about the account as such.
    #[inline]
    fn standing(
        &mut self,
        state: &AccountState,
        slot: Slot,
        bound: bool,
        query: &Query<'_>,
        view: &View<'_>,
    ) {
        if state.standing() == Status::Disabled {
            self.firm(Reason::Disabled, Lift::Never);
        }
        if state.standing() == Status::Banned {
            self.firm(Reason::Banned, Lift::Never);
        }
        if state.maintenance {
            self.firm(Reason::Maintenance, Lift::Never);
        }
        if bound {
            return;
        }
        if state.draining {
            self.firm(Reason::Draining, Lift::Never);
        }
        if view.is_at_binding_limit(state, slot) && query.is_sticky(view.config) {
            self.firm(Reason::BindingLimit, Lift::Never);
        }
    }

    /// What the request itself rules out.
    #[inline]
    fn request(&mut self, state: &AccountState, query: &Query<'_>) {
        if !query.excluded.is_empty() && is_excluded(state.id(), query) {
            self.firm(Reason::Excluded, Lift::Never);
        }
        if let Some(reason) = excluded_by_name(&state.entitled, query) {
            self.firm(reason, Lift::Never);
        }
    }

    /// What earlier failures say.
    #[inline]
    fn trouble(&mut self, state: &AccountState, query: &Query<'_>, view: &View<'_>) {
        let lift = view.breaker_lift(state);
        if lift != Lift::Free {
            self.breaker(lift, state, view);
        }
        if !state.cooldowns.is_empty() {
            self.cooldowns(state, query, view);
        }
    }

    #[inline(never)]
    fn breaker(&mut self, lift: Lift, state: &AccountState, view: &View<'_>) {
        let phase = state.breaker.phase(&view.config.breaker, view.now);
        let inferred = view.config.degraded == Degraded::Inferred;
        let may_override = inferred && matches!(phase, Phase::Open { .. });
        self.add(Reason::BreakerOpen, lift, !may_override);
    }

    #[inline(never)]
    fn cooldowns(&mut self, state: &AccountState, query: &Query<'_>, view: &View<'_>) {
        for block in state.cooldowns.live(view.now) {
            if query.feels(block) {
                let firm = !may_override(view.config.degraded, block.dimension);
                self.add(block.dimension.reason(), Lift::At(block.until), firm);
            }
        }
    }

    #[inline]
    fn firm(&mut self, reason: Reason, lift: Lift) {
        self.add(reason, lift, true);
    }

    /// Adds a condition, unless there is nothing to lift.
    #[inline]
    fn add(&mut self, reason: Reason, lift: Lift, firm: bool) {
        if lift != Lift::Free {
            self.note(reason, lift, firm);
        }
    }

    #[inline(never)]
    fn note(&mut self, reason: Reason, lift: Lift, firm: bool) {
        let mut condition = Rejection::firm(reason, lift);
        if !firm {
            condition.firm = Lift::Free;
        }
        let Some(so_far) = &mut self.0 else {
            self.0 = Some(condition);
            return;
        };
        if condition.lift > so_far.lift {
            (so_far.lift, so_far.reason) = (condition.lift, condition.reason);
        }
        so_far.firm = so_far.firm.max(condition.firm);
        so_far.unloaded = so_far.unloaded.max(condition.unloaded);
    }
}

#[inline(never)]
fn is_excluded(id: &AccountId, query: &Query<'_>) -> bool {
    query.excluded.contains(id)
}

/// Why accounts of this entitlement may never serve a request of these names; `None` when they
/// may.
#[inline]
pub(crate) fn excluded_by_name(entitled: &Rare<Entitled>, query: &Query<'_>) -> Option<Reason> {
    excluded_by(entitled.get()?, query)
}

#[inline(never)]
fn excluded_by(entitled: &Entitled, query: &Query<'_>) -> Option<Reason> {
    let Entitled { models, selectors, blocked_models } = entitled;
    let model = query.model.id();
    if model.is_some_and(|model| blocked_models.binary_search(&model).is_ok()) {
        return Some(Reason::ModelBlocked);
    }
    let admits = models.admits(query.model) && selectors.admits(query.selector);
    (!admits).then_some(Reason::NotEntitled)
}

/// Whether degraded serving may use an account that such a cooldown keeps away.
fn may_override(degraded: Degraded, dimension: Dimension) -> bool {
    let inferred = matches!(dimension, Dimension::Quarantine | Dimension::Breaker);
    match degraded {
        Degraded::Off => false,
        Degraded::Inferred => inferred,
        Degraded::Transient => {
            inferred || matches!(dimension, Dimension::Throttle | Dimension::Overload)
        }
    }
}
