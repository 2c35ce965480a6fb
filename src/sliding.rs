//! Exact sums over a sliding span of time.

use std::collections::VecDeque;

use crate::time::{Millis, Timestamp};

/// Amounts by instant. Answers how much lies within the last `span`, and when enough of it will
/// have left.
///
/// Amounts of one millisecond share an entry, so the memory is bounded by what the caller lets in
/// per span and by the span's milliseconds, not by the traffic. Sums cost O(log entries), taking
/// an amount back O(entries), the rest amortised O(1).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SlidingSum {
    /// In time order; `total` runs on from entry to entry.
    entries: VecDeque<Entry>,
    /// The running total before the first entry.
    base: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    at: Timestamp,
    total: u64,
}

/// Larger amounts are cut, so that running totals stay far from overflow.
const MAX_AMOUNT: u64 = u64::MAX >> 20;

impl SlidingSum {
    /// Adds `amount` at `now`, which is not before the last entry.
    pub(crate) fn add(&mut self, amount: u64, now: Timestamp) {
        let total = self.total().saturating_add(amount.min(MAX_AMOUNT));
        match self.entries.back_mut() {
            Some(last) if last.at == now => last.total = total,
            _ => self.entries.push_back(Entry { at: now, total }),
        }
    }

    /// Forgets what left the span.
    pub(crate) fn prune(&mut self, span: Millis, now: Timestamp) {
        while let Some(first) = self.entries.front()
            && first.at.is_over(span, now)
        {
            self.base = first.total;
            self.entries.pop_front();
        }
        if self.entries.is_empty() {
            self.base = 0;
        }
    }

    /// Forgets the oldest entries beyond `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        while self.entries.len() > count {
            self.base = self.entries.pop_front().map_or(self.base, |first| first.total);
        }
    }

    /// The sum over `(now − span, now]`.
    pub(crate) fn sum(&self, span: Millis, now: Timestamp) -> u64 {
        self.total() - self.total_before(self.left(span, now))
    }

    /// When the next amount leaves the span.
    pub(crate) fn next_exit(&self, span: Millis, now: Timestamp) -> Option<Timestamp> {
        self.entries.get(self.left(span, now)).map(|entry| entry.at.plus(span))
    }

    /// How many entries have left the span.
    fn left(&self, span: Millis, now: Timestamp) -> usize {
        let has_left = |entry: &Entry| entry.at.is_over(span, now);
        match self.entries.front() {
            Some(oldest) if has_left(oldest) => self.entries.partition_point(has_left),
            _ => 0,
        }
    }

    /// When the sum will first be at most `allowed`, which it is not now.
    pub(crate) fn free_at(&self, span: Millis, allowed: u64) -> Timestamp {
        let total = self.total();
        let blocking = self.entries.partition_point(|entry| total - entry.total > allowed);
        self.entries.get(blocking).map_or(Timestamp::ZERO, |entry| entry.at.plus(span))
    }

    /// Takes back `amount` added at `at`; `false` when that entry holds less or is forgotten.
    pub(crate) fn take_back(&mut self, amount: u64, at: Timestamp) -> bool {
        let amount = amount.min(MAX_AMOUNT);
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.at) else {
            return false;
        };
        let before = self.total_before(index);
        let held = self.entries[index].total - before;
        if held < amount {
            return false;
        }
        for entry in self.entries.range_mut(index..) {
            entry.total -= amount;
        }
        if held == amount {
            self.entries.remove(index);
        }
        true
    }

    /// The amounts by instant, in the order of time.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        let entries = self.entries.iter().enumerate();
        entries.map(|(index, entry)| (entry.at, entry.total - self.total_before(index)))
    }

    /// The sums of `amounts`; `None` unless their times grow, their amounts are not zero and the
    /// total can be counted.
    pub(crate) fn of(amounts: &[(Timestamp, u64)]) -> Option<Self> {
        let mut sums = Self::default();
        for &(at, amount) in amounts {
            let follows = sums.entries.back().is_none_or(|last| last.at < at);
            let total = sums.total().checked_add(amount).filter(|_| follows && amount > 0)?;
            sums.entries.push_back(Entry { at, total });
        }
        Some(sums)
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.base, |last| last.total)
    }

    fn total_before(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.base, |previous| self.entries[previous].total)
    }
}
