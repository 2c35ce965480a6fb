//! The scheduler behind its lock, with the clock and the hosts' payloads.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::events::Observer;
use crate::grant::Ticket;
use crate::outcome::{Outcome, Settlement};
use crate::room::Room;
use crate::scheduler::Scheduler;
use crate::slot::Slot;
use crate::sync::{Mutex, MutexGuard};
use crate::time::Timestamp;

/// What all clones of a pool share.
pub(crate) struct Shared<T, C> {
    state: Mutex<State<T>>,
    clock: C,
    observer: OnceLock<Box<dyn Observer>>,
}

/// What the lock protects.
pub(crate) struct State<T> {
    pub(crate) scheduler: Scheduler,
    payloads: Vec<Option<(Slot, Arc<T>)>>,
    pub(crate) room: Room,
}

/// Origins of the process's pools, so that none takes another's tickets.
static NEXT_ORIGIN: AtomicU32 = AtomicU32::new(1);

/// An origin that no pool of this process has.
pub(crate) fn next_origin() -> u32 {
    NEXT_ORIGIN.fetch_add(1, Ordering::Relaxed)
}

impl<T, C: Clock> Shared<T, C> {
    pub(crate) fn new(config: Config, clock: C) -> Result<Self, ConfigError> {
        let scheduler = Scheduler::with_origin(config, next_origin())?;
        Ok(Self::around(scheduler, clock))
    }

    /// What a scheduler needs to be shared, whose origin is none of another pool.
    pub(crate) fn around(scheduler: Scheduler, clock: C) -> Self {
        let state = Mutex::new(State { scheduler, payloads: Vec::new(), room: Room::default() });
        Self { state, clock, observer: OnceLock::new() }
    }

    /// Runs one command under the lock, at the time read before it was taken, and serves those
    /// who wait for what it freed.
    pub(crate) fn run<R>(&self, command: impl FnOnce(&mut State<T>, Timestamp) -> R) -> R {
        self.run_alone(|state, now| {
            let result = command(state, now);
            state.room.serve(&mut state.scheduler, now);
            result
        })
    }

    /// Runs one operation that frees nothing. Waiters are woken, and the observer is told, after
    /// the lock is released.
    pub(crate) fn run_alone<R>(&self, operation: impl FnOnce(&mut State<T>, Timestamp) -> R) -> R {
        let mut turn = self.turn();
        let result = operation(&mut turn.state, turn.now);
        turn.end();
        result
    }

    /// Takes the lock.
    #[inline]
    pub(crate) fn turn(&self) -> Turn<'_, T> {
        let now = self.clock.now();
        let state = self.state.lock();
        Turn { state, now, observer: &self.observer }
    }

    /// Sets the observer; `false` when there is one.
    pub(crate) fn set_observer(&self, observer: Box<dyn Observer>) -> bool {
        let is_first = self.observer.set(observer).is_ok();
        self.state.lock().scheduler.watch(true);
        is_first
    }

    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }
}

impl<T> State<T> {
    /// Stores the payload of a slot; returns the one before, to be dropped outside the lock.
    pub(crate) fn put(&mut self, slot: Slot, payload: Arc<T>) -> Option<Arc<T>> {
        let index = slot.index as usize;
        if self.payloads.len() <= index {
            self.payloads.resize_with(index + 1, || None);
        }
        self.payloads[index].replace((slot, payload)).map(|(_, payload)| payload)
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<Arc<T>> {
        let held = self.payloads.get_mut(slot.index as usize)?;
        held.take_if(|(owner, _)| *owner == slot).map(|(_, payload)| payload)
    }

    pub(crate) fn payload(&self, slot: Slot) -> Option<&Arc<T>> {
        let (owner, payload) = self.payloads.get(slot.index as usize)?.as_ref()?;
        (*owner == slot).then_some(payload)
    }
}

/// The lock, held for one operation.
pub(crate) struct Turn<'a, T> {
    pub(crate) state: MutexGuard<'a, State<T>>,
    /// The time read before it was taken.
    pub(crate) now: Timestamp,
    observer: &'a OnceLock<Box<dyn Observer>>,
}

impl<T> Turn<'_, T> {
    /// Releases the lock; then wakes waiters, and tells the observer what happened.
    #[inline]
    pub(crate) fn end(self) {
        let Self { state, now, observer } = self;
        match observer.get() {
            None => release(state),
            Some(observer) => release_observed(state, &**observer, now),
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
    fn settle(&self, ticket: Ticket, outcome: &Outcome) -> Settlement;
    fn report(&self, ticket: Ticket, outcome: &Outcome) -> Settlement;
    fn abandon(&self, ticket: Ticket) -> Settlement;
    fn touch(&self, ticket: Ticket) -> bool;
}

impl<T: Send + Sync, C: Clock> Ledger for Shared<T, C> {
    fn settle(&self, ticket: Ticket, outcome: &Outcome) -> Settlement {
        self.run(|state, now| state.scheduler.settle(ticket, outcome, now))
    }

    fn report(&self, ticket: Ticket, outcome: &Outcome) -> Settlement {
        self.run(|state, now| state.scheduler.report(ticket, outcome, now))
    }

    fn abandon(&self, ticket: Ticket) -> Settlement {
        self.run(|state, now| state.scheduler.abandon(ticket, now))
    }

    fn touch(&self, ticket: Ticket) -> bool {
        self.run_alone(|state, now| state.scheduler.touch(ticket, now))
    }
}
