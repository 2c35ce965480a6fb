//! The accounts that served a conversation last.

use arrayvec::ArrayVec;

use crate::config::{MAX_TRAIL, Order, Stickiness};
use crate::slot::Slot;
use crate::time::Timestamp;

/// An account of a trail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stop {
    pub(crate) slot: Slot,
    /// When it last served the conversation.
    pub(crate) at: Timestamp,
}

impl Stop {
    /// Whether it counts at `now`, unless its account has left the trail: its cache is warm or it
    /// is the most `recent` one.
    #[inline]
    pub(crate) fn is_warm(&self, recent: bool, policy: &Stickiness, now: Timestamp) -> bool {
        recent || now < self.cold_at(policy)
    }

    /// When its cache no longer holds the conversation.
    pub(crate) fn cold_at(&self, policy: &Stickiness) -> Timestamp {
        self.at.plus(policy.cache_lifetime)
    }
}

/// The accounts whose caches hold a conversation, most recently served first. Never empty while
/// it is in the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trail {
    stops: ArrayVec<Stop, MAX_TRAIL>,
    /// The account that served first; when it leaves, the most recent one.
    home: Slot,
}

impl Trail {
    pub(crate) fn new(slot: Slot, now: Timestamp) -> Self {
        Self { stops: ArrayVec::from_iter([Stop { slot, at: now }]), home: slot }
    }

    /// A trail of `stops`, most recently served first, whose home is one of them.
    pub(crate) fn of(stops: ArrayVec<Stop, MAX_TRAIL>, home: Slot) -> Self {
        Self { stops, home }
    }

    /// The account that served first; when it leaves, the most recent one.
    pub(crate) fn home(&self) -> Slot {
        self.home
    }

    /// The account that is tried first.
    pub(crate) fn first(&self, order: Order) -> Option<Slot> {
        match order {
            Order::MostRecent => self.stops.first().map(|stop| stop.slot),
            Order::HomeFirst => self.stops.first().map(|_| self.home),
        }
    }

    /// Its accounts in the order in which they are tried.
    pub(crate) fn in_order(&self, order: Order) -> impl Iterator<Item = Slot> + '_ {
        let first = self.first(order);
        let others = self.stops.iter().map(|stop| stop.slot).filter(move |&it| Some(it) != first);
        first.into_iter().chain(others)
    }

    /// The accounts, most recently served first.
    pub(crate) fn stops(&self) -> &[Stop] {
        &self.stops
    }

    /// `slot` has served at `now`: it becomes the most recent account, and the one that served
    /// longest ago gives way if the trail is full.
    pub(crate) fn served(&mut self, slot: Slot, policy: &Stickiness, now: Timestamp) {
        self.stops.retain(|stop| stop.slot != slot);
        self.shorten(policy.trail_len() - 1, policy.order);
        self.stops.insert(0, Stop { slot, at: now });
        self.settle_home();
    }

    /// A home that is one of the `reserves` gives its place to the most recent account, unless
    /// that is one itself.
    pub(crate) fn relieve_home(&mut self, reserves: impl Fn(Slot) -> bool) {
        let recent = self.stops.first().map(|stop| stop.slot).filter(|&recent| !reserves(recent));
        if let Some(recent) = recent
            && reserves(self.home)
        {
            self.home = recent;
        }
    }

    /// The trail as it counts at `now`: without accounts that `left` it and without those whose
    /// cache is cold. The most recent account stays warm as long as the binding lives.
    pub(crate) fn current(
        mut self,
        left: impl Fn(Slot) -> bool,
        policy: &Stickiness,
        now: Timestamp,
    ) -> Self {
        let recent = self.stops.first().map(|stop| stop.slot);
        let is_warm = |stop: &Stop| stop.is_warm(Some(stop.slot) == recent, policy, now);
        self.stops.retain(|stop| is_warm(stop) && !left(stop.slot));
        self.settle_home();
        self.shorten(policy.trail_len(), policy.order);
        self.settle_home();
        self
    }

    /// When `slot` leaves the trail by time alone, in a binding that lapses at `lapses`; `None` when
    /// it is not in it.
    pub(crate) fn stays_until(
        &self,
        slot: Slot,
        lapses: Timestamp,
        policy: &Stickiness,
    ) -> Option<Timestamp> {
        let index = self.stops.iter().position(|stop| stop.slot == slot)?;
        let cold_at = self.stops[index].cold_at(policy);
        Some(if index == 0 { lapses } else { lapses.min(cold_at) })
    }

    /// The trail without an account, whatever the age of the others.
    pub(crate) fn without(mut self, slot: Slot) -> Self {
        self.stops.retain(|stop| stop.slot != slot);
        self.settle_home();
        self
    }

    fn shorten(&mut self, len: usize, order: Order) {
        while self.stops.len() > len {
            let keeps = |stop: &Stop| order == Order::HomeFirst && stop.slot == self.home;
            let index = self.stops.iter().rposition(|stop| !keeps(stop)).unwrap_or(0);
            self.stops.remove(index);
        }
    }

    /// When the home has left, the most recent account takes its place.
    fn settle_home(&mut self) {
        if let Some(recent) = self.stops.first()
            && !self.stops.iter().any(|stop| stop.slot == self.home)
        {
            self.home = recent.slot;
        }
    }
}
