//! Selections for requests that may wait.

use arrayvec::ArrayVec;

use super::Scheduler;
use crate::config::MAX_TRAIL;
use crate::events::Event;
use crate::grant::Reservation;
use crate::refusal::{Unavailable, WaitTicket};
use crate::request::{Affinity, Request};
use crate::select::conversation::current_trail;
use crate::select::decide;
use crate::select::query::Query;
use crate::slot::Slot;
use crate::time::Timestamp;

/// The accounts that mean something else to a request than to others of its kind.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Pins {
    /// Whether no other account may serve it now.
    pub(crate) only: bool,
    pub(crate) slots: ArrayVec<Slot, MAX_TRAIL>,
}

impl Scheduler {
    /// Selects for a request that may wait until `deadline`. A refusal leaves no mark, except that
    /// one which advises to wait gives the request its place in the account's queue.
    ///
    /// No wait past `deadline` is advised: where the account of the conversation is not free by
    /// then, the others are asked at once.
    pub(crate) fn select_or_wait(
        &mut self,
        request: &mut Request<'_>,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Result<Reservation, Unavailable> {
        let now = self.advance(now);
        self.refresh_index(now);
        let is_first = request.waited.is_none();
        loop {
            let query = Query::new(request, &self.names);
            let decision = decide(&query, &self.view(now));
            let Err(refusal) = decision.outcome else {
                self.note_sighting(&decision.affair, now);
                return self.carry_out(
                    &decision.outcome,
                    decision.affair.bound(),
                    &query,
                    request,
                    now,
                );
            };
            let Some(wait) = &refusal.wait else {
                if let Some(waited) = request.waited {
                    self.give_up(waited);
                }
                return Err(refusal);
            };
            let ticket = wait.ticket;
            if ticket.deadline > deadline {
                request.waited = Some(WaitTicket { deadline, ..ticket });
                self.next_sequence += u64::from(ticket.sequence == self.next_sequence);
                continue;
            }
            if is_first {
                self.note_sighting(&decision.affair, now);
                self.stats.refuse(&refusal);
                self.events.emit(|| Event::refused(&refusal));
            }
            self.enqueue(ticket, now);
            request.waited = Some(ticket);
            return Err(refusal);
        }
    }

    /// What tells a request that was just refused from others of its kind: the account that it
    /// insists on, or those of its trail that may be open to bound callers alone.
    pub(crate) fn pins(
        &self,
        request: &Request<'_>,
        refusal: &Unavailable,
        now: Timestamp,
    ) -> Pins {
        if let Some(wait) = &refusal.wait {
            return Pins { only: true, slots: [wait.ticket.slot].into_iter().collect() };
        }
        let policy = &self.config.sticky;
        let query = Query::new(request, &self.names);
        let Some(trail) = current_trail(&query, &self.view(now.max(self.now))) else {
            return Pins::default();
        };
        if query.affinity == Affinity::Require || policy.no_fallback {
            return Pins { only: true, slots: trail.first(policy.order).into_iter().collect() };
        }
        let limited = policy.binding_limit.is_some_and(|limit| limit.refuse);
        let draining = |slot| self.roster.get(slot).is_some_and(|state| state.draining);
        let slots = trail.in_order(policy.order).filter(|&slot| limited || draining(slot));
        Pins { only: false, slots: slots.collect() }
    }

    /// Whether an account counts tokens, so that a request's cost matters.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.roster.iter().any(|(_, state)| state.windows.token_usage(self.now).is_some())
    }

    /// When the reaper will next free a lease, if none gives a sign of life.
    pub(crate) fn reaps_at(&self) -> Option<Timestamp> {
        let timeout = self.config.lease_timeout?;
        self.leases.next_silent(timeout, self.now)
    }
}
