//! A reservation that ends by itself.

use std::fmt;
use std::sync::Arc;

use crate::account::AccountId;
use crate::grant::{Path, Reservation, Ticket};
use crate::outcome::{Outcome, Settlement};
use crate::shared::Member;

/// An account reserved for one request, with the host's payload.
///
/// Keep it until the request is over, which for a streamed answer is the end of the body, not the
/// arrival of the headers; then [`settle`](Lease::settle) it. Dropping it instead, also by a
/// panic or a cancelled task, counts as cancelled: neutral for the account.
///
/// It may be sent to another thread and held across await points. It keeps neither the pool nor
/// the account alive; when one is gone, settling changes nothing but the pool's counters. `Debug`
/// prints the account's id, never the payload.
#[must_use = "dropping a lease cancels it"]
pub struct Lease<T = ()> {
    member: Arc<Member<T>>,
    ticket: Ticket,
    path: Path,
    /// Whether it has not ended yet.
    held: bool,
}

impl<T> Lease<T> {
    /// The lease of a reservation on that account.
    #[inline]
    pub(crate) fn of(reservation: Reservation, member: Arc<Member<T>>) -> Self {
        let Reservation { ticket, path, .. } = reservation;
        Self { member, ticket, path, held: true }
    }

    /// The account that serves the request.
    #[must_use]
    pub fn account(&self) -> &AccountId {
        &self.member.id
    }

    /// What the host stored with the account when it was selected. No lock is taken.
    #[must_use]
    pub fn payload(&self) -> &Arc<T> {
        &self.member.payload
    }

    /// How the account came to be selected.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// Ends the lease with the request's outcome.
    #[inline]
    pub fn settle(mut self, outcome: Outcome) -> Settlement {
        self.held = false;
        self.member.pool.settle(&self.ticket, &outcome)
    }

    /// Ends the lease of a request that was never sent: its rate slots are given back.
    pub fn abandon(mut self) -> Settlement {
        self.held = false;
        self.member.pool.abandon(&self.ticket)
    }

    /// Learns from an outcome before the lease ends, such as a limit that the headers announce
    /// while the body still streams.
    pub fn report(&self, outcome: Outcome) -> Settlement {
        self.member.pool.report(&self.ticket, &outcome)
    }

    /// Notes that the request is alive, so that it is not reaped; once per chunk of a stream is
    /// plenty. `false` when the lease is not held any more.
    pub fn touch(&self) -> bool {
        self.member.pool.touch(&self.ticket)
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        if self.held {
            self.member.pool.settle(&self.ticket, &Outcome::Cancelled);
        }
    }
}

impl<T> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("account", &self.member.id)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
