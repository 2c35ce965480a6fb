//! The decision: which account serves a request. Read-only; the scheduler carries it out.

pub(crate) mod eligible;
pub(crate) mod query;
pub(crate) mod rank;
pub(crate) mod shard;

use std::cmp::Ordering;

use self::eligible::eligible;
use self::query::{Query, View};
use self::rank::RankKey;
use self::shard::Distance;
use crate::account::Status;
use crate::config::{Order, Refresh, Shard, Ties};
use crate::grant::{Path, Preview};
use crate::refusal::{Dimension, Lift, Reason, Rejection, Unavailable, Wait, WaitTicket};
use crate::request::Affinity;
use crate::slot::Slot;
use crate::state::AccountState;
use crate::sticky::trail::Trail;
use crate::sticky::{Binding, BindingKey};
use crate::time::Timestamp;

/// What a look-up of the caller's binding came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Affair {
    /// There was nothing to look up, or the look-up leaves no mark.
    None,
    /// No binding.
    Miss,
    /// A binding that has lapsed.
    Expired(BindingKey),
    /// A binding, whose trail is now this one; an empty trail drops it.
    Found { key: BindingKey, trail: Option<Trail>, result: Sighting },
}

/// What became of a binding that was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sighting {
    /// The first account serves.
    Hit,
    /// Another account of the trail serves.
    WarmHit,
    /// None of the trail can serve.
    ColdMove,
    /// The first account cannot serve, and no other may.
    Refused,
    /// The first account is worth waiting for.
    Waiting,
}

/// The account that was chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Choice {
    pub(crate) slot: Slot,
    pub(crate) path: Path,
    /// How many accounts were equally good, this one included.
    pub(crate) tied: u32,
}

impl Choice {
    /// The choice by the account's id.
    pub(crate) fn preview(self, view: &View<'_>) -> Preview {
        let Self { slot, path, tied } = self;
        let state = view.roster.get(slot).expect("a decision chooses an account of the roster");
        Preview { account: state.id.clone(), path, tied }
    }
}

/// A decision, not yet carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) outcome: Result<Choice, Unavailable>,
    pub(crate) affair: Affair,
}

/// Decides for a request. O(accounts), without allocation.
pub(crate) fn decide(query: &Query<'_>, view: &View<'_>) -> Decision {
    if query.affinity == Affinity::Require {
        return require(query, view);
    }
    if !query.is_sticky(view.config) {
        return Decision { outcome: survey(query, view).choose(), affair: Affair::None };
    }
    match look_up(query, view) {
        Found::Binding(key, binding) => follow(key, binding, query, view),
        Found::Nothing(affair) => {
            let survey = survey(query, view);
            let strict = view.config.sticky.strict_pin();
            let outcome = if strict { survey.pin() } else { survey.choose() };
            Decision { outcome, affair }
        }
    }
}

/// Decides for a request that asks for the account at `slot`; `None` is an unknown one.
pub(crate) fn decide_for(
    slot: Option<Slot>,
    query: &Query<'_>,
    view: &View<'_>,
) -> Result<Choice, Unavailable> {
    let account = slot.and_then(|slot| Some((slot, view.roster.get(slot)?)));
    let Some((slot, state)) = account else {
        let unknown = Rejection::firm(Reason::UnknownAccount, Lift::Never);
        return Err(Unavailable::because(unknown, view.now));
    };
    let key = query.binding_key(view.config);
    let binding = key.and_then(|key| view.bindings.alive(&key, &view.config.sticky, view.now));
    let bound =
        binding.is_some_and(|binding| binding.trail.stops().iter().any(|stop| stop.slot == slot));
    match eligible(state, slot, bound, query, view) {
        Ok(()) => Ok(Choice { slot, path: Path::Acquired, tied: 1 }),
        Err(rejection) => Err(Unavailable::because(rejection, view.now)),
    }
}

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

enum Found<'a> {
    Binding(BindingKey, &'a Binding),
    Nothing(Affair),
}

fn look_up<'a>(query: &Query<'_>, view: &View<'a>) -> Found<'a> {
    let Some(key) = query.binding_key(view.config) else {
        return Found::Nothing(Affair::Miss);
    };
    match view.bindings.alive(&key, &view.config.sticky, view.now) {
        Some(binding) => Found::Binding(key, binding),
        None if view.bindings.peek(&key).is_some() => Found::Nothing(Affair::Expired(key)),
        None => Found::Nothing(Affair::Miss),
    }
}

/// The account of the caller's binding, or a refusal that leaves no mark.
fn require(query: &Query<'_>, view: &View<'_>) -> Decision {
    let policy = &view.config.sticky;
    let refused = |refusal| Decision { outcome: Err(refusal), affair: Affair::None };
    let unbound = Unavailable::because(Rejection::firm(Reason::Unbound, Lift::Never), view.now);
    let Found::Binding(key, binding) = look_up(query, view) else {
        return refused(unbound);
    };
    let trail = reduced(binding, query, view);
    let Some((slot, state)) = first(&trail, policy.order, view) else {
        return refused(unbound);
    };
    match eligible(state, slot, true, query, view) {
        Ok(()) => {
            let affair = Affair::Found { key, trail: Some(trail), result: Sighting::Hit };
            Decision { outcome: Ok(Choice { slot, path: Path::Sticky, tied: 1 }), affair }
        }
        Err(rejection) => {
            let mut refusal = Unavailable::because(rejection, view.now);
            let lapses = binding.last_used.plus(policy.time_to_idle);
            refusal.retry_at = refusal.retry_at.filter(|&retry_at| retry_at < lapses);
            refused(refusal)
        }
    }
}

/// Decides for a caller that is bound.
fn follow(key: BindingKey, binding: &Binding, query: &Query<'_>, view: &View<'_>) -> Decision {
    let policy = &view.config.sticky;
    let trail = reduced(binding, query, view);
    let found = |result| Affair::Found { key, trail: Some(trail.clone()), result };
    let lapses = lapses_if_followed(binding, view);
    let (mut returns, mut released) = (None, None);

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
            Err(rejection) => {
                let lift = rejection.lift.deadline();
                let back = lift.filter(|&at| at < lapses && trail.keeps(slot, policy, at));
                returns = earliest(returns, back);
                released = earliest(released, rejection.release_at(view.now));
                if !is_first || relief(state, query, view).is_some() {
                    continue;
                }
                if let Some(wait) = worth_waiting(state, slot, &rejection, query, view) {
                    let mut refusal = Unavailable::because(rejection, view.now);
                    refusal.retry_at = Some(wait.wake_at.unwrap_or(wait.deadline));
                    refusal.wait = Some(wait);
                    let affair = found(Sighting::Waiting);
                    return Decision { outcome: Err(refusal), affair };
                }
                if policy.no_fallback && is_passing(state, view) {
                    let refusal = refuse_elsewhere(rejection, lapses, query, view);
                    let affair = found(Sighting::Refused);
                    return Decision { outcome: Err(refusal), affair };
                }
            }
        }
    }
    if let Some((slot, state, is_first)) = reserve {
        return match relief(state, query, view) {
            Some(relief) => Decision { outcome: Ok(relief), affair: found(Sighting::ColdMove) },
            None => serve(slot, is_first),
        };
    }

    let gone = policy.drop_when_blocked || policy.no_fallback || trail.stops().is_empty();
    let trail = (!gone).then_some(trail);
    let affair = Affair::Found { key, trail, result: Sighting::ColdMove };
    let mut outcome = survey(query, view).choose();
    if let Err(refusal) = &mut outcome
        && !gone
    {
        refusal.retry_at = earliest(refusal.retry_at, returns);
        refusal.release_at = earliest(refusal.release_at, released);
        refusal.load_only &= refusal.retry_at.is_none();
    }
    Decision { outcome, affair }
}

/// When a binding lapses that is looked up now.
fn lapses_if_followed(binding: &Binding, view: &View<'_>) -> Timestamp {
    let policy = &view.config.sticky;
    let last_used = match policy.refresh {
        Refresh::OnLookup => view.now,
        Refresh::OnSuccess => binding.last_used,
    };
    last_used.plus(policy.time_to_idle)
}

fn first<'a>(trail: &Trail, order: Order, view: &View<'a>) -> Option<(Slot, &'a AccountState)> {
    let slot = trail.first(order)?;
    Some((slot, view.roster.get(slot)?))
}

/// Whether an account leaves the conversation's trail: gone, switched off, without a valid
/// credential, or out of quota for longer than any cache lives.
pub(crate) fn has_left(slot: Slot, query: &Query<'_>, view: &View<'_>) -> bool {
    let Some(state) = view.roster.get(slot) else {
        return true;
    };
    if matches!(state.standing(), Status::Disabled | Status::Banned) {
        return true;
    }
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
    let choice = survey(query, view).choose().ok()?;
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
    let ours = |ticket: &WaitTicket| (ticket.origin, ticket.slot) == (view.origin, slot);
    let again = query.waited.filter(ours);
    let budget = view.now.plus(policy.queue_on_pin);
    let deadline = query.waited.map_or(budget, |ticket| ticket.deadline.min(budget));
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
    let account = state.id.clone();
    let ticket = WaitTicket {
        origin: view.origin,
        sequence: again.map_or(view.next_sequence, |ticket| ticket.sequence),
        slot,
        deadline,
    };
    (view.now < deadline && has_room).then_some(Wait { account, wake_at, deadline, ticket })
}

/// The refusal of a caller that may not go elsewhere: until its account is free, or until its
/// binding lapses and another account can serve.
fn refuse_elsewhere(
    rejection: Rejection,
    lapses: Timestamp,
    query: &Query<'_>,
    view: &View<'_>,
) -> Unavailable {
    let elsewhere = match survey(query, view).choose() {
        Ok(_) => Some(lapses),
        Err(refusal) => refusal.retry_at.map(|retry_at| retry_at.max(lapses)),
    };
    let mut refusal = Unavailable::because(rejection, view.now);
    let own = refusal.retry_at.filter(|&retry_at| retry_at < lapses);
    refusal.retry_at = earliest(own, elsewhere);
    refusal
}

/// What one pass over the accounts found.
struct Survey {
    best: Option<(RankKey, Slot)>,
    /// How many are equal to the best, by its key.
    tied: u32,
    /// The caller's place among the tied.
    sharded: Option<Slot>,
    /// The caller's place among all that are eligible.
    pinned: Option<Slot>,
    /// The account that degraded serving would use.
    degraded: Option<Slot>,
    refusal: Unavailable,
}

impl Survey {
    fn choose(self) -> Result<Choice, Unavailable> {
        if let Some((_, best)) = self.best {
            let slot = self.sharded.unwrap_or(best);
            return Ok(Choice { slot, path: Path::Rank, tied: self.tied });
        }
        match self.degraded {
            Some(slot) => Ok(Choice { slot, path: Path::Degraded, tied: 1 }),
            None => Err(self.refusal),
        }
    }

    fn pin(self) -> Result<Choice, Unavailable> {
        match self.pinned {
            Some(slot) => Ok(Choice { slot, path: Path::Pin, tied: 1 }),
            None => self.choose(),
        }
    }
}

/// Passes once over the accounts: filter, rank, tie, shard.
fn survey(query: &Query<'_>, view: &View<'_>) -> Survey {
    let ranking = &view.config.rank;
    let mut pass = Pass::default();
    let mut refusal = Unavailable::new(view.now);
    let mut loaded = false;
    for (slot, state) in view.roster.iter() {
        match eligible(state, slot, false, query, view) {
            Ok(()) => {
                let place = query.caller.map(|caller| (shard::distance(caller, state), slot));
                pass.candidate(slot, rank::key(state, slot, query, view), ranking.ties, place);
            }
            Err(rejection) => {
                refusal.tally.add(rejection.reason);
                refusal.retry_at = earliest(refusal.retry_at, rejection.firm.deadline());
                refusal.release_at = earliest(refusal.release_at, rejection.release_at(view.now));
                loaded |= rejection.is_load_only();
                pass.rejected(slot, &rejection);
            }
        }
    }
    refusal.load_only = loaded && refusal.retry_at.is_none();
    let sharded = match (query.caller, ranking.shard) {
        (Some(caller), Shard::Modulo) if pass.tied > 1 => {
            nth_tied(shard::modulo(caller, pass.tied), &pass, query, view)
        }
        (Some(_), Shard::Rendezvous) => pass.nearest_tied.map(|(_, slot)| slot),
        _ => None,
    };
    Survey {
        best: pass.best,
        tied: pass.tied,
        sharded,
        pinned: pass.nearest.map(|(_, slot)| slot),
        degraded: pass.degraded.map(|(_, slot)| slot),
        refusal,
    }
}

/// The running result of a pass.
#[derive(Default)]
struct Pass {
    best: Option<(RankKey, Slot)>,
    tied: u32,
    nearest_tied: Option<(Distance, Slot)>,
    nearest: Option<(Distance, Slot)>,
    degraded: Option<(Timestamp, Slot)>,
}

impl Pass {
    fn candidate(&mut self, slot: Slot, key: RankKey, ties: Ties, place: Option<(Distance, Slot)>) {
        nearer(&mut self.nearest, place);
        let order = self.best.map(|(best, _)| key.tie(ties).cmp(&best.tie(ties)));
        match order {
            Some(Ordering::Greater) => return,
            Some(Ordering::Equal) => self.tied += 1,
            None | Some(Ordering::Less) => {
                self.tied = 1;
                self.nearest_tied = None;
            }
        }
        nearer(&mut self.nearest_tied, place);
        if self.best.is_none_or(|(best, _)| key < best) {
            self.best = Some((key, slot));
        }
    }

    fn rejected(&mut self, slot: Slot, rejection: &Rejection) {
        if let (Lift::Free, Lift::At(recovers)) = (rejection.firm, rejection.lift)
            && self.degraded.is_none_or(|(earliest, _)| recovers < earliest)
        {
            self.degraded = Some((recovers, slot));
        }
    }
}

/// Keeps the nearer of two places; the earlier one when they are equally near.
fn nearer(nearest: &mut Option<(Distance, Slot)>, place: Option<(Distance, Slot)>) {
    if let Some((distance, _)) = place
        && nearest.is_none_or(|(so_far, _)| distance < so_far)
    {
        *nearest = place;
    }
}

/// The account at an index among those equal to the best, in the order of insertion.
fn nth_tied(index: u32, pass: &Pass, query: &Query<'_>, view: &View<'_>) -> Option<Slot> {
    let ties = view.config.rank.ties;
    let best = pass.best?.0.tie(ties);
    let tied = view.roster.iter().filter(|&(slot, state)| {
        eligible(state, slot, false, query, view).is_ok()
            && rank::key(state, slot, query, view).tie(ties) == best
    });
    tied.map(|(slot, _)| slot).nth(index as usize)
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
