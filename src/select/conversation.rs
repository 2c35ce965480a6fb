//! The sticky arm: a caller that is bound, and the accounts of its trail.

use crate::account::Status;
use crate::config::{Order, Refresh};
use crate::grant::Path;
use crate::refusal::{Dimension, Lift, Reason, Rejection, Unavailable, Wait, WaitTicket};
use crate::select::decision::{Affair, Choice, Decision, Fate, Sighting};
use crate::select::eligible::eligible;
use crate::select::query::{Query, View};
use crate::select::survey::choose;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::sticky::trail::Trail;
use crate::sticky::{Binding, Bound};
use crate::time::Timestamp;

/// The trail of the request's caller as it counts now, if it is bound.
pub(crate) fn current_trail(query: &Query<'_>, view: &View<'_>) -> Option<Trail> {
    match look_up(query, view) {
        Found::Binding(_, binding) => Some(reduced(binding, query, view)),
        Found::Nothing(_) => None,
    }
}

/// A binding's trail as it counts now.
fn reduced(binding: &Binding, query: &Query<'_>, view: &View<'_>) -> Trail {
    binding.trail.current(|slot| has_left(slot, query, view), &view.config.sticky, view.now)
}

/// What a look-up finds.
pub(super) enum Found<'a> {
    Binding(Bound, &'a Binding),
    Nothing(Affair),
}

/// Looks the caller's binding up.
pub(super) fn look_up<'a>(query: &Query<'_>, view: &View<'a>) -> Found<'a> {
    let Some(key) = query.binding_key(view.config) else {
        return Found::Nothing(Affair::Miss);
    };
    match view.bindings.find_alive(&key, &view.config.sticky, view.now) {
        Some((node, binding)) => Found::Binding(Bound::at(key, node), binding),
        None if view.bindings.peek(&key).is_some() => Found::Nothing(Affair::Expired(key)),
        None => Found::Nothing(Affair::Miss),
    }
}

/// The account of the caller's binding, or a refusal that leaves no mark.
pub(super) fn require(query: &Query<'_>, view: &View<'_>) -> Decision {
    let Found::Binding(bound, binding) = look_up(query, view) else {
        let unbound = Rejection::firm(Reason::Unbound, Lift::Never);
        let outcome = Err(Unavailable::because(unbound, view.now));
        return Decision { outcome, affair: Affair::None };
    };
    match required(binding, query, view) {
        Ok((slot, trail)) => {
            let affair = Affair::Found { bound, trail: Fate::Became(trail), result: Sighting::Hit };
            Decision { outcome: Ok(Choice { slot, path: Path::Sticky, tied: 1 }), affair }
        }
        Err(rejection) => {
            let mut refusal = Unavailable::because(rejection, view.now);
            refusal.retry_at = required_at(binding, query, view);
            Decision { outcome: Err(refusal), affair: Affair::None }
        }
    }
}

/// The first account of a binding, if it may serve, and the trail as it counts.
fn required(
    binding: &Binding,
    query: &Query<'_>,
    view: &View<'_>,
) -> Result<(Slot, Trail), Rejection> {
    let trail = reduced(binding, query, view);
    let Some((slot, state)) = first(&trail, view.config.sticky.order, view) else {
        return Err(Rejection::firm(Reason::Unbound, Lift::Never));
    };
    eligible(state, slot, true, query, view).map(|()| (slot, trail))
}

/// When the first account of a binding may serve, whichever it is then: accounts return to the
/// trail and go cold as time passes.
fn required_at(binding: &Binding, query: &Query<'_>, view: &View<'_>) -> Option<Timestamp> {
    let policy = &view.config.sticky;
    let changes = binding.trail.stops().iter().flat_map(|stop| {
        let state = view.roster.get(stop.slot);
        let rejection = state.and_then(|it| eligible(it, stop.slot, true, query, view).err());
        let free_at = rejection.and_then(|rejection| rejection.lift.deadline());
        let blocks = state.into_iter().flat_map(|state| state.cooldowns.live(view.now));
        let felt = blocks.filter(|block| query.feels(block));
        let returns =
            felt.flat_map(|block| [block.until, block.until.minus(policy.cache_lifetime)]);
        returns.chain(free_at).chain([stop.cold_at(policy)])
    });
    let ahead = changes.filter(|&at| view.now < at && at < binding.lapses(policy));
    ahead.filter(|&at| required(binding, query, &View { now: at, ..*view }).is_ok()).min()
}

/// The first account of a bound caller if it serves, as in most turns of a conversation: it needs
/// no ranking, and the trail is kept.
#[inline]
pub(crate) fn stay(query: &Query<'_>, view: &View<'_>) -> Option<(Choice, Bound)> {
    let policy = &view.config.sticky;
    let key = query.binding_key(view.config)?;
    let (node, binding) = view.bindings.find_alive(&key, policy, view.now)?;
    let trail = &binding.trail;
    let slot = trail.first(policy.order)?;
    let state = view.roster.get(slot)?;
    let left = |other| match other == slot {
        true => leaves(state, query, view),
        false => has_left(other, query, view),
    };
    if !trail.is_current(left, policy, view.now) {
        return None;
    }
    if state.fallback_only || eligible(state, slot, true, query, view).is_err() {
        return None;
    }
    Some((Choice { slot, path: Path::Sticky, tied: 1 }, Bound::at(key, node)))
}

/// Decides for a caller that is bound.
pub(super) fn follow(
    bound: Bound,
    binding: &Binding,
    query: &Query<'_>,
    view: &View<'_>,
) -> Decision {
    let policy = &view.config.sticky;
    let trail = reduced(binding, query, view);
    let found = |result| Affair::Found { bound, trail: Fate::Became(trail.clone()), result };

    let serve = |slot, is_first| {
        let (path, result) =
            if is_first { (Path::Sticky, Sighting::Hit) } else { (Path::Warm, Sighting::WarmHit) };
        Decision { outcome: Ok(Choice { slot, path, tied: 1 }), affair: found(result) }
    };

    let mut reserve = None;
    for (place, slot) in trail.in_order(policy.order).enumerate() {
        let Some(state) = view.roster.get(slot) else {
            continue;
        };
        let is_first = place == 0;
        match eligible(state, slot, true, query, view) {
            Ok(()) if state.fallback_only => reserve = reserve.or(Some((slot, state, is_first))),
            Ok(()) => return serve(slot, is_first),
            Err(rejection) if is_first && relief(state, query, view).is_none() => {
                if let Some(wait) = worth_waiting(state, slot, &rejection, query, view) {
                    let mut refusal = Unavailable::because(rejection, view.now);
                    refusal.retry_at = Some(wait.wake_at.unwrap_or(wait.deadline));
                    refusal.wait = Some(wait);
                    let affair = found(Sighting::Waiting);
                    return Decision { outcome: Err(refusal), affair };
                }
                if policy.no_fallback && is_passing(state, view) {
                    let refusal = refuse_elsewhere(state, rejection, binding, query, view);
                    let affair = found(Sighting::Refused);
                    return Decision { outcome: Err(refusal), affair };
                }
            }
            Err(_) => {}
        }
    }
    if let Some((slot, state, is_first)) = reserve {
        return match relief(state, query, view) {
            Some(relief) => Decision { outcome: Ok(relief), affair: found(Sighting::ColdMove) },
            None => serve(slot, is_first),
        };
    }

    let gone = policy.drop_when_blocked || policy.no_fallback || trail.stops().is_empty();
    let kept = (!gone).then(|| (&trail, lapses_if_refused(binding, view)));
    let counted = binding.trail.first(policy.order);
    let vacated = counted.filter(|_| gone || trail.first(policy.order) != counted);
    let outcome = choose(query, &View { vacated, ..*view }, kept);
    let trail = if gone { Fate::Dropped } else { Fate::Became(trail) };
    Decision { outcome, affair: Affair::Found { bound, trail, result: Sighting::ColdMove } }
}

/// When a binding lapses after a look-up that ends in a refusal.
fn lapses_if_refused(binding: &Binding, view: &View<'_>) -> Timestamp {
    let policy = &view.config.sticky;
    match policy.refresh {
        Refresh::OnLookup => policy.lapses(view.now),
        Refresh::OnSuccess => binding.lapses(policy),
    }
}

/// Until when the caller is bound to an account by time alone; `None` when it is not.
pub(super) fn bound_until(slot: Slot, query: &Query<'_>, view: &View<'_>) -> Option<Timestamp> {
    let policy = &view.config.sticky;
    let key = query.binding_key(view.config)?;
    let binding = view.bindings.alive(&key, policy, view.now)?;
    binding.trail.stays_until(slot, binding.lapses(policy), policy)
}

fn first<'a>(trail: &Trail, order: Order, view: &View<'a>) -> Option<(Slot, &'a AccountState)> {
    let slot = trail.first(order)?;
    Some((slot, view.roster.get(slot)?))
}

/// Whether an account leaves the conversation's trail: gone, switched off, without a valid
/// credential, or out of quota for longer than any cache lives.
pub(crate) fn has_left(slot: Slot, query: &Query<'_>, view: &View<'_>) -> bool {
    view.roster.get(slot).is_none_or(|state| leaves(state, query, view))
}

/// The same of an account that is not gone.
#[inline]
fn leaves(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    if matches!(state.standing(), Status::Disabled | Status::Banned) {
        return true;
    }
    !state.cooldowns.is_empty() && is_blocked_for_long(state, query, view)
}

/// Whether a block outlasts the caches of the conversation.
fn is_blocked_for_long(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> bool {
    let cold_at = view.now.plus(view.config.sticky.cache_lifetime);
    let mut felt = state.cooldowns.live(view.now).filter(|block| query.feels(block));
    felt.any(|block| match block.dimension {
        Dimension::Auth => true,
        Dimension::Quota => block.until > cold_at,
        _ => false,
    })
}

/// Whether what keeps the account away is a passing block rather than its standing.
fn is_passing(state: &AccountState, view: &View<'_>) -> bool {
    state.status(&view.config.breaker, view.now) == Status::Active
}

/// A normal account to which a reserve gives its conversation back.
fn relief(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> Option<Choice> {
    if !state.fallback_only {
        return None;
    }
    let choice = choose(query, view, None).ok()?;
    let relieves = view.roster.get(choice.slot).is_some_and(|other| !other.fallback_only);
    (relieves && choice.path != Path::Degraded).then_some(choice)
}

/// The wait for the first account of a trail, if it is short and the queue is.
fn worth_waiting(
    state: &AccountState,
    slot: Slot,
    rejection: &Rejection,
    query: &Query<'_>,
    view: &View<'_>,
) -> Option<Wait> {
    let policy = &view.config.sticky;
    let waited = query.waited.filter(|ticket| ticket.origin == view.origin);
    let again = waited.filter(|ticket| ticket.slot == slot);
    let budget = view.now.plus(policy.queue_on_pin);
    let deadline = waited.map_or(budget, |ticket| ticket.deadline.min(budget));
    if rejection.unloaded > Lift::At(deadline) {
        return None;
    }
    let wake_at = match rejection.lift {
        Lift::At(free_at) => Some(free_at),
        Lift::Release => None,
        Lift::Free | Lift::Never => return None,
    };
    let waiting = state.load.waiting(again.map(|ticket| ticket.sequence), view.now);
    let has_room = waiting < policy.max_waiters as usize;
    let account = state.id().clone();
    let ticket = WaitTicket {
        origin: view.origin,
        sequence: again.map_or(view.next_sequence, |ticket| ticket.sequence),
        slot,
        deadline,
    };
    (view.now < deadline && has_room).then_some(Wait { account, wake_at, deadline, ticket })
}

/// When a reserve would give its conversation back: the first normal account is free then.
fn relieved_at(state: &AccountState, query: &Query<'_>, view: &View<'_>) -> Option<Timestamp> {
    let others = view.roster.iter().filter(|(_, other)| !other.fallback_only);
    let normal = others.filter(|_| state.fallback_only);
    let rejections =
        normal.filter_map(|(slot, other)| eligible(other, slot, false, query, view).err());
    rejections.filter_map(|rejection| rejection.lift.deadline()).min()
}

/// The refusal of a caller that may not go elsewhere: until its account is free or would give
/// way, or until its binding lapses and another account can serve.
fn refuse_elsewhere(
    state: &AccountState,
    rejection: Rejection,
    binding: &Binding,
    query: &Query<'_>,
    view: &View<'_>,
) -> Unavailable {
    let lapses = lapses_if_refused(binding, view);
    let elsewhere = match choose(query, view, None) {
        Ok(_) => Some(lapses),
        Err(refusal) => refusal.retry_at.map(|retry_at| retry_at.max(lapses)),
    };
    let mut refusal = Unavailable::because(rejection, view.now);
    let own = refusal.retry_at.filter(|&free_at| free_at < lapses);
    refusal.retry_at =
        [own, relieved_at(state, query, view), elsewhere].into_iter().flatten().min();
    refusal
}
