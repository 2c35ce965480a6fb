//! The end of requests, and what outcomes teach.

use super::Scheduler;
use crate::account::AccountError;
use crate::events::Event;
use crate::feedback::{Feedback, Source, release};
use crate::grant::Ticket;
use crate::outcome::{Outcome, QuotaReading, Settlement};
use crate::request::Request;
use crate::select::query::Query;
use crate::state::AccountState;
use crate::time::{Millis, Timestamp};

impl Scheduler {
    /// Ends a lease with its outcome, and learns from it: see [`Outcome`].
    pub fn settle(&mut self, ticket: Ticket, outcome: &Outcome, now: Timestamp) -> Settlement {
        let now = self.advance(now);
        let held = self.leases.get(ticket).filter(|_| ticket.origin == self.origin);
        let Some(&lease) = held else {
            return self.note_late(ticket, outcome, now);
        };
        self.leases.remove(ticket);
        self.stats.settled += 1;
        self.emit_for(lease.slot, |account| Event::Settled { account, outcome: outcome.into() });
        self.feedback(now).conclude(&lease, outcome);
        if let Outcome::Success { usage } = outcome {
            self.stats.usage.add(usage);
            self.bind_served(&lease, usage, now);
        }
        Settlement::Settled
    }

    /// Ends a lease without a verdict on the account: the client left.
    pub fn cancel(&mut self, ticket: Ticket, now: Timestamp) -> Settlement {
        self.settle(ticket, &Outcome::Cancelled, now)
    }

    /// Ends a lease whose request was never sent: its rate slots are given back.
    pub fn abandon(&mut self, ticket: Ticket, now: Timestamp) -> Settlement {
        self.refund(ticket, now);
        self.cancel(ticket, now)
    }

    /// Gives back the rate slots that a lease took; it stays in flight. `false` when they have
    /// left the window, were given back before, or the lease is not held.
    pub fn refund(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let now = self.advance(now);
        let Some(lease) = self.leases.get_mut(ticket).filter(|_| ticket.origin == self.origin)
        else {
            return false;
        };
        if std::mem::replace(&mut lease.refunded, true) {
            return false;
        }
        let Some(state) = self.roster.get_mut(lease.slot) else {
            return false;
        };
        let refunded = state.windows.give_back(lease.taken, now);
        self.stats.refunded += u64::from(refunded);
        refunded
    }

    /// Notes that a lease is alive, so that it is not reaped and a probe keeps its place; `false`
    /// when it is not held any more.
    pub fn touch(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        self.now = self.now.max(now);
        let now = self.now;
        if ticket.origin != self.origin || !self.leases.touch(ticket, now) {
            return false;
        }
        if let Some(state) = self.roster.get_mut(ticket.slot) {
            state.breaker.touch(ticket.sequence, &self.config.breaker, now);
        }
        true
    }

    /// Frees every lease that has been silent for `silence`, and returns how many. Selections do
    /// it by themselves after [`Config::lease_timeout`](crate::Config::lease_timeout).
    pub fn reap(&mut self, silence: Millis, now: Timestamp) -> usize {
        let now = self.advance(now);
        self.reap_silent(silence, now)
    }

    /// Learns from an outcome before the lease ends, such as a limit that the response headers
    /// announce while the body still streams. The lease stays in flight; what is reported here and
    /// again when it settles counts twice.
    pub fn report(&mut self, ticket: Ticket, outcome: &Outcome, now: Timestamp) -> Settlement {
        let now = self.advance(now);
        let Some(lease) = self.leases.get(ticket).filter(|_| ticket.origin == self.origin) else {
            return self.note_late(ticket, outcome, now);
        };
        let is_heard = |state: &AccountState| {
            let policy = &self.config.breaker;
            let probe_counts = !lease.probe || state.breaker.holds(lease.sequence, policy, now);
            probe_counts && state.breaker.epoch() == lease.epoch
        };
        let heard = self.roster.get(lease.slot).is_some_and(is_heard);
        let source = Source { heard, charged: None, ..Source::of(lease) };
        self.feedback(now).apply(ticket.slot, outcome, &source);
        Settlement::Settled
    }

    /// Learns from an outcome without a lease. The request gives the model, the selector and the
    /// traffic class that the outcome belongs to.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn observe(
        &mut self,
        account: &str,
        request: &Request<'_>,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Result<(), AccountError> {
        let now = self.advance(now);
        let slot = self.slot_of(account)?;
        let query = Query::new(request, &self.names);
        let (model, selector) = self.intern(&query, request);
        // What was used without a lease draws on no token window.
        let charged = Some(u64::MAX);
        let source = Source { model, selector, class: request.class, heard: true, charged };
        self.feedback(now).apply(slot, outcome, &source);
        if let Outcome::Success { usage } = outcome {
            self.stats.usage.add(usage);
        }
        Ok(())
    }

    /// Stores a quota reading; `false` when a newer one is there. A dry reading blocks the
    /// account, a newer one with quota lifts the block.
    ///
    /// # Errors
    ///
    /// [`AccountError::Unknown`].
    pub fn observe_quota(
        &mut self,
        account: &str,
        reading: &QuotaReading,
        now: Timestamp,
    ) -> Result<bool, AccountError> {
        let now = self.advance(now);
        let slot = self.slot_of(account)?;
        Ok(self.feedback(now).quota(slot, reading))
    }

    pub(super) fn reap_silent(&mut self, silence: Millis, now: Timestamp) -> usize {
        let mut reaped = 0;
        while let Some(lease) = self.leases.pop_silent(silence, now) {
            if let Some(state) = self.roster.serving_mut(lease.slot) {
                release(state, &lease, &self.config.breaker, now);
            }
            self.emit_for(lease.slot, |account| Event::Reaped { account });
            reaped += 1;
        }
        self.stats.reaped += reaped as u64;
        reaped
    }

    pub(super) fn feedback(&mut self, now: Timestamp) -> Feedback<'_> {
        Feedback {
            roster: &mut self.roster,
            config: &self.config,
            generation: &mut self.generation,
            events: &mut self.events,
            now,
        }
    }

    /// A report on a lease that is not held: health takes note if it was held once.
    fn note_late(&mut self, ticket: Ticket, outcome: &Outcome, now: Timestamp) -> Settlement {
        let ours = ticket.origin == self.origin && ticket.sequence < self.next_sequence;
        if !ours || self.roster.get(ticket.slot).is_none() {
            return Settlement::Unknown;
        }
        self.feedback(now).note_health(ticket.slot, outcome);
        Settlement::Late
    }
}
