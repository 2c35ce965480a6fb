//! A reservation that ends by itself.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::account::AccountId;
use crate::grant::{Grant, Path, Ticket};
use crate::outcome::{Outcome, Settlement};
use crate::shared::Ledger;

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
    account: AccountId,
    payload: Arc<T>,
    path: Path,
    ticket: Ticket,
    /// Taken when the lease ends.
    pool: Option<Weak<dyn Ledger>>,
}

impl<T> Lease<T> {
    pub(crate) fn granted<P: Ledger + 'static>(
        pool: &Arc<P>,
        grant: Grant,
        payload: Arc<T>,
    ) -> Self {
        let Grant { account, ticket, path, .. } = grant;
        let pool: Weak<P> = Arc::downgrade(pool);
        Self { account, payload, path, ticket, pool: Some(pool) }
    }

    /// The account that serves the request.
    #[must_use]
    pub fn account(&self) -> &AccountId {
        &self.account
    }

    /// What the host stored with the account when it was selected. No lock is taken.
    #[must_use]
    pub fn payload(&self) -> &Arc<T> {
        &self.payload
    }

    /// How the account came to be selected.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// Ends the lease with the request's outcome.
    pub fn settle(mut self, outcome: Outcome) -> Settlement {
        self.end(|pool, ticket| pool.settle(ticket, &outcome))
    }

    /// Ends the lease of a request that was never sent: its rate slots are given back.
    pub fn abandon(mut self) -> Settlement {
        self.end(|pool, ticket| pool.abandon(ticket))
    }

    /// Learns from an outcome before the lease ends, such as a limit that the headers announce
    /// while the body still streams.
    pub fn report(&self, outcome: Outcome) -> Settlement {
        self.pool().map_or(Settlement::Unknown, |pool| pool.report(self.ticket, &outcome))
    }

    /// Notes that the request is alive, so that it is not reaped; once per chunk of a stream is
    /// plenty. `false` when the lease is not held any more.
    pub fn touch(&self) -> bool {
        self.pool().is_some_and(|pool| pool.touch(self.ticket))
    }

    fn pool(&self) -> Option<Arc<dyn Ledger>> {
        self.pool.as_ref().and_then(Weak::upgrade)
    }

    fn end(&mut self, finish: impl FnOnce(&dyn Ledger, Ticket) -> Settlement) -> Settlement {
        let pool = self.pool.take().and_then(|pool| pool.upgrade());
        pool.map_or(Settlement::Unknown, |pool| finish(&*pool, self.ticket))
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.end(|pool, ticket| pool.settle(ticket, &Outcome::Cancelled));
    }
}

impl<T> fmt::Debug for Lease<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("account", &self.account)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
