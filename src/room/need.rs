//! What a waiting request asks for.

use std::task::Waker;

use crate::account::AccountId;
use crate::refusal::{Unavailable, WaitTicket};
use crate::request::{Affinity, Caller, Request, TrafficClass};
use crate::scheduler::{Pins, Scheduler};
use crate::time::Timestamp;

/// A request that outlives the call.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    caller: Option<Caller>,
    model: Option<Box<str>>,
    selector: Option<Box<str>>,
    excluded: Box<[AccountId]>,
    cost: u64,
    affinity: Affinity,
    class: TrafficClass,
    pub(super) waited: Option<WaitTicket>,
}

impl Owned {
    pub(super) fn new(request: &Request<'_>) -> Self {
        Self {
            caller: request.caller,
            model: request.model.map(Into::into),
            selector: request.selector.map(Into::into),
            excluded: request.excluded.into(),
            cost: request.cost,
            affinity: request.affinity,
            class: request.class,
            waited: request.waited,
        }
    }

    pub(super) fn request(&self) -> Request<'_> {
        Request {
            caller: self.caller,
            model: self.model.as_deref(),
            selector: self.selector.as_deref(),
            excluded: &self.excluded,
            cost: self.cost,
            affinity: self.affinity,
            class: self.class,
            waited: self.waited,
        }
    }

    /// Whose turn it takes. Anonymous requests take turns as one tenant.
    pub(super) fn tenant(&self) -> u64 {
        self.caller.map_or(0, |caller| caller.tenant)
    }
}

/// What decides whether an account may serve a request. Whatever serves one of two waiters with
/// equal needs serves the other, so that asking for the first in line answers for all of them.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Need {
    /// User traffic goes before background traffic.
    pub(super) background: bool,
    has_caller: bool,
    affinity: u8,
    model: Option<Box<str>>,
    selector: Option<Box<str>>,
    excluded: Box<[AccountId]>,
    cost: u64,
    pub(super) pins: Pins,
}

impl Need {
    pub(super) fn new(owned: &Owned, pins: Pins, scheduler: &Scheduler) -> Self {
        let mut excluded = owned.excluded.clone();
        excluded.sort_unstable();
        Self {
            background: owned.class == TrafficClass::Background,
            has_caller: owned.caller.is_some(),
            affinity: owned.affinity as u8,
            model: owned.model.clone(),
            selector: owned.selector.clone(),
            excluded,
            cost: if scheduler.counts_tokens() { owned.cost } else { 0 },
            pins,
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Owned,
    /// When waiting ends.
    pub(super) deadline: Timestamp,
    /// When it goes on by itself: at the deadline, or when the wait for a pin is over.
    pub(super) until: Timestamp,
    /// Whether it is to look for itself, since waiting will not help any more.
    pub(super) flagged: bool,
    pub(super) waker: Waker,
}

/// When a request that was refused goes on by itself; `None` when waiting will not help.
pub(super) fn worth_waiting_until(
    refusal: &Unavailable,
    deadline: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    if let Some(wait) = &refusal.wait {
        return Some(wait.deadline);
    }
    let by_time = refusal.retry_at.is_some_and(|retry_at| retry_at <= deadline);
    let by_release = refusal.release_at.is_some_and(|from| from < deadline);
    (now < deadline && (by_time || by_release)).then_some(deadline)
}
