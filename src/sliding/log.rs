//! A log of amounts, whose entries count in numbers of one width.

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::time::{Millis, Timestamp};

/// Counts modulo 2 to the power of its width. What lies between two counts is exact as long as it
/// fits in the width, however often the counts have started over.
pub(super) trait Count: Copy + Debug + Default + Eq {
    /// The largest count.
    const MAX: u64;
    /// The count of `number`.
    fn of(number: u64) -> Self;
    /// This count and `more`.
    fn plus(self, more: u64) -> Self;
    /// This count and `less` fewer.
    fn minus(self, less: u64) -> Self;
    /// How far it is past an earlier count.
    fn past(self, earlier: Self) -> u64;
}

impl Count for u32 {
    const MAX: u64 = 0xffff_ffff;

    #[expect(clippy::cast_possible_truncation, reason = "counts start over")]
    fn of(number: u64) -> Self {
        number as Self
    }

    fn plus(self, more: u64) -> Self {
        self.wrapping_add(Self::of(more))
    }

    fn minus(self, less: u64) -> Self {
        self.wrapping_sub(Self::of(less))
    }

    fn past(self, earlier: Self) -> u64 {
        self.wrapping_sub(earlier).into()
    }
}

impl Count for u64 {
    const MAX: Self = Self::MAX;

    fn of(number: u64) -> Self {
        number
    }

    fn plus(self, more: u64) -> Self {
        self.wrapping_add(more)
    }

    fn minus(self, less: u64) -> Self {
        self.wrapping_sub(less)
    }

    fn past(self, earlier: Self) -> u64 {
        self.wrapping_sub(earlier)
    }
}

/// Amounts by instant whose span and sum both fit in `C`.
#[derive(Clone, Debug, Default)]
pub(super) struct Log<C> {
    /// In time order; `total` runs on from entry to entry.
    entries: VecDeque<Entry<C>>,
    /// When the first entry was, from which the times of the others are counted. Kept here, so
    /// that as long as it is inside a span, no answer has to look at the entries.
    oldest: Timestamp,
    /// The running total before the first entry.
    base: C,
    /// The running total after the last entry.
    total: C,
    /// When the last entry was, or one after it that was taken back, so that no answer has to look
    /// at entries that have all left.
    newest: C,
}

/// How many entries a log has room for from the first one on. A log that grows from a handful
/// leaves small pieces of memory behind, and with a log for each account that is many: an
/// allocator may join them all at once, in the middle of some call that asks for a large piece.
const FIRST_ROOM: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry<C> {
    /// Milliseconds since the clock's origin.
    at: C,
    total: C,
}

impl<C: Count> Log<C> {
    /// Adds `amount` at `now`, which is not before the last entry; `false` when that does not fit.
    #[inline]
    pub(super) fn add(&mut self, amount: u64, now: Timestamp) -> bool {
        let first = if self.is_empty() { now } else { self.oldest };
        if amount > C::MAX - self.all() || now.since(first).as_millis() > C::MAX {
            return false;
        }
        self.total = self.total.plus(amount);
        let at = C::of(now.as_millis());
        let entry = Entry { at, total: self.total };
        match self.entries.back_mut() {
            Some(last) if last.at == at => *last = entry,
            Some(_) => self.entries.push_back(entry),
            None => self.add_first(entry, now),
        }
        self.newest = at;
        true
    }

    #[inline(never)]
    fn add_first(&mut self, entry: Entry<C>, now: Timestamp) {
        self.oldest = now;
        self.entries.reserve(FIRST_ROOM);
        self.entries.push_back(entry);
    }

    #[inline]
    pub(super) fn prune(&mut self, span: Millis, now: Timestamp) {
        while self.is_past(span, now) {
            self.forget_first();
        }
    }

    pub(super) fn truncate(&mut self, count: usize) {
        while self.entries.len() > count {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.entries.pop_front() {
            self.base = first.total;
            self.find_oldest();
        }
    }

    /// Notes the time of the first entry, which is another one than before.
    fn find_oldest(&mut self) {
        if let Some(first) = self.entries.front() {
            self.oldest = self.time(first.at);
        }
    }

    /// The sum over the span, and when the next entry leaves it.
    #[inline]
    pub(super) fn read(&self, span: Millis, now: Timestamp) -> (u64, Option<Timestamp>) {
        if self.is_past(span, now) {
            return self.read_inside(span, now);
        }
        (self.all(), (!self.is_empty()).then(|| self.oldest.plus(span)))
    }

    /// Whether an entry has left the span.
    #[inline]
    fn is_past(&self, span: Millis, now: Timestamp) -> bool {
        !self.is_empty() && self.oldest.is_over(span, now)
    }

    /// Whether all entries have left the span when some have.
    #[inline]
    fn is_all_past(&self, span: Millis, now: Timestamp) -> bool {
        self.time(self.newest).is_over(span, now)
    }

    /// The same when some entries have left the span.
    #[inline(never)]
    fn read_inside(&self, span: Millis, now: Timestamp) -> (u64, Option<Timestamp>) {
        if self.is_all_past(span, now) {
            return (0, None);
        }
        let left = self.left(span, now);
        let next = self.entries.get(left).map(|entry| self.time(entry.at).plus(span));
        (self.total.past(self.total_before(left)), next)
    }

    /// How many entries have left the span when some have: mostly it is one.
    #[inline]
    fn left(&self, span: Millis, now: Timestamp) -> usize {
        match self.entries.get(1) {
            Some(second) if self.time(second.at).is_over(span, now) => self.count_left(span, now),
            _ => 1,
        }
    }

    #[inline(never)]
    fn count_left(&self, span: Millis, now: Timestamp) -> usize {
        self.entries.partition_point(|entry| self.time(entry.at).is_over(span, now))
    }

    #[inline(never)]
    pub(super) fn free_at(&self, span: Millis, allowed: u64) -> Timestamp {
        let blocks = |entry: &Entry<C>| self.total.past(entry.total) > allowed;
        let blocking = self.entries.partition_point(blocks);
        self.entries.get(blocking).map_or(Timestamp::ZERO, |entry| self.time(entry.at).plus(span))
    }

    pub(super) fn take_back(&mut self, amount: u64, at: Timestamp) -> bool {
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| self.time(entry.at)) else {
            return false;
        };
        let held = self.entries[index].total.past(self.total_before(index));
        if held < amount {
            return false;
        }
        for entry in self.entries.range_mut(index..) {
            entry.total = entry.total.minus(amount);
        }
        self.total = self.total.minus(amount);
        if held == amount {
            self.entries.remove(index);
            self.find_oldest();
        }
        true
    }

    pub(super) fn amounts(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        (0..self.len()).map(|index| self.amount(index))
    }

    /// An entry's time and amount.
    pub(super) fn amount(&self, index: usize) -> (Timestamp, u64) {
        let entry = &self.entries[index];
        (self.time(entry.at), entry.total.past(self.total_before(index)))
    }

    /// The sum of all entries.
    #[inline]
    pub(super) fn all(&self) -> u64 {
        self.total.past(self.base)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The instant of an entry that was at this count.
    #[inline]
    fn time(&self, at: C) -> Timestamp {
        let later = at.past(C::of(self.oldest.as_millis()));
        self.oldest.plus(Millis::new(later))
    }

    #[inline]
    fn total_before(&self, index: usize) -> C {
        index.checked_sub(1).map_or(self.base, |previous| self.entries[previous].total)
    }
}
