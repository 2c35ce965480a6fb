//! What a waiting request asks for.

use std::task::Waker;

use crate::account::AccountId;
use crate::refusal::Unavailable;
use crate::request::{OwnedRequest, TrafficClass};
use crate::scheduler::{Pins, Scheduler};
use crate::time::Timestamp;

/// What decides whether an account may serve a request. Whatever serves one of two waiters with
/// equal needs serves the other, so that asking for the first in line answers for all of them.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Need {
    /// User traffic goes before background traffic.
    pub(super) background: bool,
    has_caller: bool,
    affinity: u8,
    model: Option<String>,
    selector: Option<String>,
    excluded: Vec<AccountId>,
    cost: u64,
    pub(super) pins: Pins,
}

impl Need {
    pub(super) fn new(owned: &OwnedRequest, pins: Pins, scheduler: &Scheduler) -> Self {
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
    pub(super) request: OwnedRequest,
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
