//! The start of requests: what was decided is carried out.

use super::Scheduler;
use crate::config::{BindAt, Refresh};
use crate::events::Event;
use crate::grant::{Grant, Path, Preview, Reservation, Ticket};
use crate::leases::LeaseState;
use crate::names::{NameId, Named};
use crate::refusal::{Unavailable, WaitTicket};
use crate::request::{Affinity, Request};
use crate::select::conversation::stay;
use crate::select::decision::{Affair, Choice, Decision, Fate, Sighting};
use crate::select::query::Query;
use crate::select::{decide, decide_by_binding, decide_by_rank, decide_for};
use crate::sticky::{BindingKey, Bound};
use crate::time::Timestamp;

impl Scheduler {
    /// Selects an account for the request and reserves it: sticky look-up, eligibility, rank,
    /// tie, shard, reservation, in one step.
    ///
    /// O(log accounts + kinds of accounts), without allocation once the pool and its names are
    /// known. Where accounts differ in their entitlements or in live cooldowns of single models,
    /// they are of different kinds; beyond 1 024 kinds it is O(accounts).
    ///
    /// # Errors
    ///
    /// [`Unavailable`] says why no account can serve and when one will.
    pub fn select(&mut self, request: &Request<'_>, now: Timestamp) -> Result<Grant, Unavailable> {
        self.reserve_best(request, now).map(|reservation| self.grant(reservation))
    }

    /// [`select`](Self::select) for who knows the account by its place.
    #[inline]
    pub(crate) fn reserve_best(
        &mut self,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Unavailable> {
        let now = self.advance(now);
        let query = Query::new(request, &self.names);
        if query.may_follow(&self.config) {
            return self.select_for_bound(&query, request, now);
        }
        self.refresh_index(now);
        let outcome = decide_by_rank(&query, &self.view(now));
        self.carry_out(&outcome, None, &query, request, now)
    }

    /// Selects for a request that may follow a binding.
    #[inline]
    fn select_for_bound(
        &mut self,
        query: &Query<'_>,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Unavailable> {
        // The index is not asked about a conversation that stays where it is, or must: it can wait.
        if query.affinity != Affinity::Require {
            if let Some((choice, bound)) = stay(query, &self.view_alone(now)) {
                self.note_hit(&bound, now);
                return self.carry_out(&Ok(choice), Some(&bound), query, request, now);
            }
            self.refresh_index(now);
        }
        let Decision { outcome, affair } = &decide_by_binding(query, &self.view(now));
        self.note_sighting(affair, now);
        self.carry_out(outcome, affair.bound(), query, request, now)
    }

    /// Reserves that very account for the request, if it is eligible.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] with the account's own reason and deadline.
    pub fn select_account(
        &mut self,
        account: &str,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Grant, Unavailable> {
        let reserved = self.reserve_account(account, request, now);
        reserved.map(|reservation| self.grant(reservation))
    }

    /// [`select_account`](Self::select_account) for who knows the account by its place.
    pub(crate) fn reserve_account(
        &mut self,
        account: &str,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Unavailable> {
        let now = self.advance(now);
        let query = Query::new(request, &self.names);
        let outcome = self.decide_for(account, &query, now);
        self.carry_out(&outcome, None, &query, request, now)
    }

    /// What [`select`](Self::select) would answer, without changing anything. A refusal's wait
    /// carries the ticket that the selection would give.
    ///
    /// # Errors
    ///
    /// The [`Unavailable`] of that selection.
    pub fn preview(&self, request: &Request<'_>, now: Timestamp) -> Result<Preview, Unavailable> {
        let now = now.max(self.now);
        let query = Query::new(request, &self.names);
        let Choice { slot, path, tied } = decide(&query, &self.view(now)).outcome?;
        let account = self.roster.get(slot).map(|state| state.id().clone());
        account.map(|account| Preview { account, path, tied }).ok_or_else(|| Unavailable::new(now))
    }

    /// Gives back a place in a queue without another selection.
    #[inline(never)]
    pub fn give_up(&mut self, wait: WaitTicket) -> bool {
        let state = self.roster.get_mut(wait.slot).filter(|_| wait.origin == self.origin);
        state.is_some_and(|state| state.load.dequeue(wait.sequence))
    }

    /// A reservation that was just made, with the account's id.
    #[inline]
    fn grant(&self, reservation: Reservation) -> Grant {
        let Reservation { ticket, path, tied } = reservation;
        let state =
            self.roster.get(ticket.slot).expect("only an account of the roster is reserved");
        Grant { account: state.id().clone(), ticket, path, tied }
    }

    fn decide_for(
        &self,
        account: &str,
        query: &Query<'_>,
        now: Timestamp,
    ) -> Result<Choice, Unavailable> {
        decide_for(self.roster.find(account), query, &self.view(now))
    }

    /// Reserves what was chosen, or counts the refusal. `bound` is the caller's binding, if one was
    /// found.
    pub(super) fn carry_out(
        &mut self,
        outcome: &Result<Choice, Unavailable>,
        bound: Option<&Bound>,
        query: &Query<'_>,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Unavailable> {
        match outcome {
            Ok(choice) => {
                if let Some(&waited) = query.waited {
                    self.give_up(waited);
                }
                Ok(self.reserve(choice, bound, query, request, now))
            }
            Err(refusal) => {
                self.refuse(refusal, query.waited, now);
                Err(refusal.clone())
            }
        }
    }

    /// Counts a refusal; the request gives its place in a queue back, unless it waits on there.
    #[inline(never)]
    fn refuse(&mut self, refusal: &Unavailable, waited: Option<&WaitTicket>, now: Timestamp) {
        let stays = refusal.wait.as_ref().map(|wait| wait.ticket.sequence);
        if let Some(&waited) = waited.filter(|waited| Some(waited.sequence) != stays) {
            self.give_up(waited);
        }
        self.stats.refuse(refusal);
        self.events.emit(|| Event::refused(refusal));
        if let Some(wait) = &refusal.wait {
            self.enqueue(wait.ticket, now);
        }
    }

    pub(super) fn enqueue(&mut self, wait: WaitTicket, now: Timestamp) {
        if wait.sequence == self.next_sequence {
            self.next_sequence += 1;
        }
        if let Some(state) = self.roster.get_mut(wait.slot) {
            state.load.dequeue(wait.sequence);
            state.load.enqueue(wait.sequence, wait.deadline, now);
        }
    }

    /// Reserves what was chosen for a caller whose binding is `bound`, if one was found.
    fn reserve(
        &mut self,
        choice: &Choice,
        bound: Option<&Bound>,
        query: &Query<'_>,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Reservation {
        let &Choice { slot, path, tied } = choice;
        let (model, selector) = self.intern(query, request);
        self.names.note_selected(model);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.turn += 1;
        self.stats.selected.add(path);

        let state =
            self.roster.serving_mut(slot).expect("a decision chooses an account of the roster");
        let taken = state.reserve(query.cost, self.turn, now);
        let probe = state.breaker.admit(sequence, &self.config.breaker, now);
        let epoch = state.breaker.epoch();
        let caller = query.caller.filter(|_| query.is_sticky(&self.config));
        let binding = caller.map(|caller| {
            let key = || BindingKey::new(*caller, model, selector, &self.config.sticky);
            let bound = bound.copied().unwrap_or_else(|| Bound::nowhere(key()));
            (bound, caller.tenant)
        });
        let lease = LeaseState {
            sequence,
            slot,
            taken,
            model,
            selector,
            binding,
            cost: query.cost,
            class: request.class,
            probe,
            epoch,
            refunded: false,
        };
        let index = self.leases.insert(lease, now);
        let ticket = Ticket { origin: self.origin, index, sequence, slot };
        if self.events.are_watched() {
            self.announce(choice, probe);
        }
        if self.config.sticky.bind_at == BindAt::Select
            && let Some(&lease) = self.leases.get(ticket)
        {
            self.bind_selected(&lease, now);
        }
        Reservation { ticket, path, tied }
    }

    /// Tells those who watch of a selection.
    #[cold]
    fn announce(&mut self, choice: &Choice, probe: bool) {
        let &Choice { slot, path, tied } = choice;
        if probe {
            self.emit_for(slot, |account| Event::BreakerHalfOpen { account });
        }
        self.emit_for(slot, |account| Event::Selected { account, path, tied });
        if path == Path::Warm {
            self.emit_for(slot, |account| Event::MovedWarm { account });
        }
    }

    /// The numbers of a request's names; new names are remembered while something refers to them.
    #[inline]
    pub(super) fn intern(
        &mut self,
        query: &Query<'_>,
        request: &Request<'_>,
    ) -> (Option<NameId>, Option<NameId>) {
        if query.model == Named::Unknown || query.selector == Named::Unknown {
            return self.intern_new(query, request);
        }
        (query.model.id(), query.selector.id())
    }

    /// The same where there is a new name.
    #[cold]
    fn intern_new(
        &mut self,
        query: &Query<'_>,
        request: &Request<'_>,
    ) -> (Option<NameId>, Option<NameId>) {
        if self.names.is_sweep_due() {
            let accounts = self.roster.iter().flat_map(|(_, state)| state.names());
            let leases =
                self.leases.iter().flat_map(|lease| lease.model.into_iter().chain(lease.selector));
            let bindings = self.bindings.keys().flat_map(BindingKey::names);
            let departed = self.departed.blocks().filter_map(|block| block.target.name());
            // The lease, the block or the binding to be will refer to what is known already.
            let own = query.model.id().into_iter().chain(query.selector.id());
            self.names.sweep(accounts.chain(leases).chain(bindings).chain(departed).chain(own));
        }
        let model =
            query.model.id().or_else(|| request.model.map(|model| self.names.intern_model(model)));
        let selector = query
            .selector
            .id()
            .or_else(|| request.selector.map(|selector| self.names.intern_selector(selector)));
        (model, selector)
    }

    /// Counts what a look-up came to, and writes back what it changed.
    #[inline]
    pub(super) fn note_sighting(&mut self, affair: &Affair, now: Timestamp) {
        match affair {
            Affair::None => {}
            Affair::Miss => self.stats.sticky.misses += 1,
            Affair::Expired(key) => self.note_expired(key),
            Affair::Found { bound, trail, result } => self.note_found(bound, trail, *result, now),
        }
    }

    /// A look-up that met a lapsed binding, which gives up its place.
    #[cold]
    fn note_expired(&mut self, key: &BindingKey) {
        self.drop_binding(key);
    }

    /// A look-up that found a binding whose trail does not stay as it is.
    #[inline(never)]
    fn note_found(&mut self, bound: &Bound, trail: &Fate, result: Sighting, now: Timestamp) {
        self.stats.sticky.add(result);
        if result == Sighting::ColdMove {
            self.events.emit(|| Event::MovedCold);
        }
        match trail {
            Fate::Became(trail) => self.replace_trail(&bound.key, trail.clone()),
            Fate::Dropped => return self.drop_binding(&bound.key),
        }
        self.note_use(bound, now);
    }

    /// A look-up that found a binding whose first account serves, and its trail as it is.
    #[inline]
    fn note_hit(&mut self, bound: &Bound, now: Timestamp) {
        self.stats.sticky.add(Sighting::Hit);
        self.note_use(bound, now);
    }

    /// A binding that was looked up and goes on.
    #[inline]
    fn note_use(&mut self, bound: &Bound, now: Timestamp) {
        if self.config.sticky.refresh == Refresh::OnLookup {
            self.bindings.refresh(bound, now);
        }
    }
}
