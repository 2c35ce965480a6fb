//! The scheduler behind its lock, with the clock and the hosts' payloads.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::account::AccountId;
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::events::Observer;
use crate::grant::Ticket;
use crate::outcome::{Outcome, Settlement};
use crate::room::Room;
use crate::scheduler::Scheduler;
use crate::slot::Slot;
use crate::sync::{FairGuard, Mutex, MutexGuard};
use crate::time::Timestamp;

/// What the clones of a pool share. When the last one goes the pool is emptied, so that leases,
/// which hold on to [`Shared`], keep nothing else of it alive.
pub(crate) struct Handle<T, C>(Arc<Shared<T, C>>);

/// A pool as its handles and its leases reach it.
pub(crate) struct Shared<T, C> {
    state: Mutex<State<T>>,
    clock: C,
}

/// What the lock protects.
pub(crate) struct State<T> {
    pub(crate) scheduler: Scheduler,
    /// By place.
    members: Vec<Option<(Slot, Arc<Member<T>>)>>,
    pub(crate) room: Room,
    observer: Option<Arc<dyn Observer>>,
}

/// An account of a pool with all that a lease needs of both, under one reference count.
pub(crate) struct Member<T> {
    pub(crate) id: AccountId,
    pub(crate) payload: Arc<T>,
    /// The pool, which holds its members in turn until its last handle goes.
    pub(crate) pool: Arc<dyn Ledger>,
}

/// Origins of the process's pools, so that none takes another's tickets.
static NEXT_ORIGIN: AtomicU32 = AtomicU32::new(1);

/// An origin that no pool of this process has.
pub(crate) fn next_origin() -> u32 {
    NEXT_ORIGIN.fetch_add(1, Ordering::Relaxed)
}

impl<T, C: Clock> Handle<T, C> {
    pub(crate) fn new(config: Config, clock: C) -> Result<Self, ConfigError> {
        let scheduler = Scheduler::with_origin(config, next_origin())?;
        Ok(Self::around(scheduler, clock))
    }

    /// What a scheduler needs to be shared, whose origin is none of another pool.
    pub(crate) fn around(scheduler: Scheduler, clock: C) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(State::around(scheduler)), clock }))
    }
}

impl<T: Send + Sync + 'static, C: Clock> Handle<T, C> {
    /// An account with its payload, to be [put](State::put) in its place.
    pub(crate) fn member(&self, id: AccountId, payload: Arc<T>) -> Arc<Member<T>> {
        let pool: Arc<Shared<T, C>> = Arc::clone(&self.0);
        Arc::new(Member { id, payload, pool })
    }
}

impl<T, C> Deref for Handle<T, C> {
    type Target = Shared<T, C>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T, C> Drop for Handle<T, C> {
    /// All that the pool had goes, outside of the lock; who waits learns it.
    fn drop(&mut self) {
        let gone = State::gone();
        let last = std::mem::replace(&mut *self.0.state.lock(), gone);
        drop(last);
    }
}

impl<T, C: Clock> Shared<T, C> {
    /// Runs one command under the lock, at the time read before it was taken, and serves those
    /// who wait for what it freed.
    pub(crate) fn run<R>(&self, command: impl FnOnce(&mut State<T>, Timestamp) -> R) -> R {
        self.turn().run(command)
    }

    /// Runs one operation that frees nothing. Waiters are woken, and the observer is told, after
    /// the lock is released.
    pub(crate) fn run_alone<R>(&self, operation: impl FnOnce(&mut State<T>, Timestamp) -> R) -> R {
        let mut turn = self.turn();
        let result = operation(&mut turn.state, turn.now);
        turn.end();
        result
    }

    /// The same for one command of many in a row, between which others who wait for the lock get
    /// it.
    pub(crate) fn run_in_between<R>(
        &self,
        command: impl FnOnce(&mut State<T>, Timestamp) -> R,
    ) -> R {
        let Turn { state, now } = self.turn();
        Turn { state: FairGuard::of(state), now }.run(command)
    }

    /// Takes the lock.
    #[inline]
    pub(crate) fn turn(&self) -> Turn<MutexGuard<'_, State<T>>> {
        let now = self.clock.now();
        let state = self.state.lock();
        Turn { state, now }
    }

    /// Sets the observer; `false` when there is one.
    pub(crate) fn set_observer(&self, observer: &Arc<dyn Observer>) -> bool {
        let mut state = self.state.lock();
        let is_first = state.observer.is_none();
        state.observer.get_or_insert_with(|| Arc::clone(observer));
        state.scheduler.watch(true);
        is_first
    }

    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }
}

impl<T> State<T> {
    fn around(scheduler: Scheduler) -> Self {
        Self { scheduler, members: Vec::new(), room: Room::default(), observer: None }
    }

    /// What is left when the last handle has gone: a scheduler that knows no ticket of any pool.
    fn gone() -> Self {
        Self::around(Scheduler::new(Config::default()).expect("the default policy is sound"))
    }

    /// Serves those who wait and can be served.
    #[inline]
    pub(crate) fn serve(&mut self, now: Timestamp) {
        self.room.serve(&mut self.scheduler, now);
    }

    /// Stores the account of a slot; returns the one before, to be dropped outside the lock.
    pub(crate) fn put(&mut self, slot: Slot, member: Arc<Member<T>>) -> Option<Arc<Member<T>>> {
        let index = slot.index as usize;
        if self.members.len() <= index {
            self.members.resize_with(index + 1, || None);
        }
        self.members[index].replace((slot, member)).map(|(_, member)| member)
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<Arc<Member<T>>> {
        let held = self.members.get_mut(slot.index as usize)?;
        held.take_if(|(owner, _)| *owner == slot).map(|(_, member)| member)
    }

    #[inline]
    pub(crate) fn member(&self, slot: Slot) -> Option<&Arc<Member<T>>> {
        let (owner, member) = self.members.get(slot.index as usize)?.as_ref()?;
        (*owner == slot).then_some(member)
    }
}

/// The lock, held for one operation.
pub(crate) struct Turn<G> {
    pub(crate) state: G,
    /// The time read before it was taken.
    pub(crate) now: Timestamp,
}

impl<T, G: DerefMut<Target = State<T>>> Turn<G> {
    /// Runs a command, and serves those who wait and can be served then.
    fn run<R>(mut self, command: impl FnOnce(&mut State<T>, Timestamp) -> R) -> R {
        let result = command(&mut self.state, self.now);
        self.state.serve(self.now);
        self.end();
        result
    }

    /// Releases the lock; then wakes waiters, and tells the observer what happened.
    #[inline]
    pub(crate) fn end(self) {
        let Self { state, now } = self;
        match &state.observer {
            None => release(state),
            Some(observer) => {
                let observer = Arc::clone(observer);
                release_observed(state, &*observer, now);
            }
        }
    }
}

/// Releases the lock, and wakes those who are to be woken.
#[inline]
fn release<T>(mut state: impl DerefMut<Target = State<T>>) {
    if let Some(wake_ups) = state.room.take_wake_ups() {
        drop(state);
        wake_ups.wake();
    }
}

/// The same, and tells the observer what happened.
#[inline(never)]
fn release_observed<T>(
    mut state: impl DerefMut<Target = State<T>>,
    observer: &dyn Observer,
    now: Timestamp,
) {
    let mut events = Vec::new();
    state.scheduler.drain_events(&mut events);
    release(state);
    for event in &events {
        observer.on_event(event, now);
    }
}

/// What a lease needs of its pool, whatever the pool's clock and payload.
pub(crate) trait Ledger: Send + Sync {
    fn settle(&self, ticket: &Ticket, outcome: &Outcome) -> Settlement;
    fn report(&self, ticket: &Ticket, outcome: &Outcome) -> Settlement;
    fn abandon(&self, ticket: &Ticket) -> Settlement;
    fn touch(&self, ticket: &Ticket) -> bool;
}

impl<T: Send + Sync, C: Clock> Ledger for Shared<T, C> {
    fn settle(&self, ticket: &Ticket, outcome: &Outcome) -> Settlement {
        self.run(|state, now| state.scheduler.settle(*ticket, outcome, now))
    }

    fn report(&self, ticket: &Ticket, outcome: &Outcome) -> Settlement {
        self.run(|state, now| state.scheduler.report(*ticket, outcome, now))
    }

    fn abandon(&self, ticket: &Ticket) -> Settlement {
        self.run(|state, now| state.scheduler.abandon(*ticket, now))
    }

    fn touch(&self, ticket: &Ticket) -> bool {
        self.run_alone(|state, now| state.scheduler.touch(*ticket, now))
    }
}
