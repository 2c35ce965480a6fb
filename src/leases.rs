//! The requests under way.

use crate::chunks::Chunks;
use crate::grant::Ticket;
use crate::names::NameId;
use crate::request::TrafficClass;
use crate::slot::Slot;
use crate::state::window::Taken;
use crate::sticky::{Bound, Tenant};
use crate::time::{Millis, Timestamp};

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeaseState {
    pub(crate) sequence: u64,
    pub(crate) slot: Slot,
    pub(crate) taken: Taken,
    pub(crate) model: Option<NameId>,
    pub(crate) selector: Option<NameId>,
    /// What a success binds.
    pub(crate) binding: Option<(Bound, Tenant)>,
    /// Tokens charged at selection.
    pub(crate) cost: u64,
    pub(crate) class: TrafficClass,
    /// Whether it probes a half-open breaker.
    pub(crate) probe: bool,
    /// The breaker's epoch at selection.
    pub(crate) epoch: u32,
    pub(crate) refunded: bool,
}

/// No entry.
const NONE: u32 = u32::MAX;

/// All leases, in a slab whose entries form a list from the longest silent to the newest sign of
/// life. Every operation is O(1).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leases {
    entries: Chunks<Entry>,
    vacant: u32,
    /// The longest silent.
    head: u32,
    /// The newest sign of life.
    tail: u32,
    len: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    lease: Option<LeaseState>,
    seen: Timestamp,
    previous: u32,
    next: u32,
}

impl Default for Leases {
    fn default() -> Self {
        Self { entries: Chunks::default(), vacant: NONE, head: NONE, tail: NONE, len: 0 }
    }
}

impl Leases {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Stores a lease; returns its index.
    #[inline]
    pub(crate) fn insert(&mut self, lease: LeaseState, now: Timestamp) -> u32 {
        if self.vacant == NONE {
            self.make_room();
        }
        let index = self.vacant;
        let entry = &mut self.entries[index as usize];
        self.vacant = entry.next;
        *entry = Entry { lease: Some(lease), seen: now, previous: self.tail, next: NONE };
        self.follow_tail(index);
        self.len += 1;
        index
    }

    /// Adds a vacant entry where there is none.
    #[cold]
    fn make_room(&mut self) {
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index != NONE);
        self.vacant = index.expect("fewer than 2^32 leases are held");
        self.entries.push(Entry { lease: None, seen: Timestamp::ZERO, previous: NONE, next: NONE });
    }

    /// The lease of a ticket, while it is held.
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&LeaseState> {
        let lease = self.entries.get(ticket.index as usize)?.lease.as_ref()?;
        (lease.sequence == ticket.sequence).then_some(lease)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut LeaseState> {
        let lease = self.entries.get_mut(ticket.index as usize)?.lease.as_mut()?;
        (lease.sequence == ticket.sequence).then_some(lease)
    }

    /// Notes a sign of life; `false` when the lease is not held.
    pub(crate) fn touch(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        if self.get(ticket).is_none() {
            return false;
        }
        let entry = &mut self.entries[ticket.index as usize];
        let (previous, next) = (entry.previous, entry.next);
        entry.seen = now;
        self.join(previous, next);
        let entry = &mut self.entries[ticket.index as usize];
        (entry.previous, entry.next) = (self.tail, NONE);
        self.follow_tail(ticket.index);
        true
    }

    /// Ends the lease of a ticket, which is held.
    #[inline]
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        debug_assert!(self.get(ticket).is_some(), "only what is held ends");
        self.vacate(ticket.index);
    }

    /// Ends the longest silent lease, if it has been silent for `silence`.
    pub(crate) fn pop_silent(&mut self, silence: Millis, now: Timestamp) -> Option<LeaseState> {
        let head = self.entries.get(self.head as usize)?;
        let lease = head.lease.filter(|_| head.seen.is_over(silence, now))?;
        self.vacate(self.head);
        Some(lease)
    }

    /// The leases that have been silent for `silence`.
    pub(crate) fn silent(
        &self,
        silence: Millis,
        now: Timestamp,
    ) -> impl Iterator<Item = &LeaseState> {
        let silent =
            self.entries_by_silence().take_while(move |entry| entry.seen.is_over(silence, now));
        silent.filter_map(|entry| entry.lease.as_ref())
    }

    /// The last sign of life of the lease that has been silent longest.
    pub(crate) fn longest_silent(&self) -> Option<Timestamp> {
        self.entries.get(self.head as usize).map(|entry| entry.seen)
    }

    /// When the next lease will have been silent for `silence`.
    pub(crate) fn next_silent(&self, silence: Millis, now: Timestamp) -> Option<Timestamp> {
        let mut entries =
            self.entries_by_silence().skip_while(|entry| entry.seen.is_over(silence, now));
        entries.next().map(|entry| entry.seen.plus(silence))
    }

    /// All leases, in no meaningful but a stable order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LeaseState> {
        self.entries.iter().filter_map(|entry| entry.lease.as_ref())
    }

    /// The leases with their places and newest signs of life, longest silent first.
    #[cfg(feature = "journal")]
    pub(crate) fn by_silence(&self) -> impl Iterator<Item = (u32, Timestamp, &LeaseState)> {
        let places = std::iter::successors(Some(self.head), |&index| {
            self.entries.get(index as usize).map(|entry| entry.next)
        });
        places.map_while(|index| {
            let entry = self.entries.get(index as usize)?;
            Some((index, entry.seen, entry.lease.as_ref()?))
        })
    }

    /// The places without a lease, the one to be taken next first.
    #[cfg(feature = "journal")]
    pub(crate) fn vacant(&self) -> impl Iterator<Item = u32> {
        let places = std::iter::successors(Some(self.vacant), |&index| {
            self.entries.get(index as usize).map(|entry| entry.next)
        });
        places.take_while(|&index| index != NONE)
    }

    fn entries_by_silence(&self) -> impl Iterator<Item = &Entry> {
        let first = self.entries.get(self.head as usize);
        std::iter::successors(first, |entry| self.entries.get(entry.next as usize))
    }

    #[inline]
    fn vacate(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let (previous, next) = (entry.previous, entry.next);
        (entry.lease, entry.next) = (None, self.vacant);
        self.vacant = index;
        self.len -= 1;
        self.join(previous, next);
    }

    /// Makes an entry that follows the tail the tail.
    #[inline]
    fn follow_tail(&mut self, index: u32) {
        let tail = std::mem::replace(&mut self.tail, index);
        match self.entries.get_mut(tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
    }

    /// Lets one entry follow the other, which takes what was between them out of the list.
    #[inline]
    fn join(&mut self, previous: u32, next: u32) {
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = next,
            None => self.head = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.previous = previous,
            None => self.tail = previous,
        }
    }
}
