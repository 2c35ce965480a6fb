//! Exact sums over a sliding span of time.

mod log;

use self::log::Log;
use crate::time::{Millis, Timestamp};

/// Amounts by instant. Answers how much lies within the last `span`, and when enough of it will
/// have left.
///
/// Amounts of one millisecond share an entry, so the memory is bounded by what the caller lets in
/// per span and by the span's milliseconds, not by the traffic. Sums cost O(log entries), and O(1)
/// while the oldest entry is inside; taking an amount back O(entries), the rest amortised O(1).
#[derive(Clone, Debug)]
pub(crate) struct SlidingSum(Form);

/// Both forms are exact. An entry takes 8 bytes in the narrow one, which holds less than 50 days
/// and 2³² amounts at a time, and 16 in the wide one, which is kept until it is empty.
#[derive(Clone, Debug)]
enum Form {
    Narrow(Log<u32>),
    Wide(Box<Log<u64>>),
}

/// Larger amounts are cut, so that sums stay far from overflow.
const MAX_AMOUNT: u64 = u64::MAX >> 20;

/// The log of either form.
macro_rules! either {
    ($form:expr, $log:ident => $answer:expr) => {
        match $form {
            Form::Narrow($log) => $answer,
            Form::Wide($log) => $answer,
        }
    };
}

impl Default for SlidingSum {
    fn default() -> Self {
        Self(Form::Narrow(Log::default()))
    }
}

impl PartialEq for SlidingSum {
    /// Equal amounts are equal, however they are held.
    fn eq(&self, other: &Self) -> bool {
        self.amounts().eq(other.amounts())
    }
}

impl SlidingSum {
    /// Adds `amount` at `now`, which is not before the last entry.
    #[inline]
    pub(crate) fn add(&mut self, amount: u64, now: Timestamp) {
        self.add_all(amount.min(MAX_AMOUNT), now);
    }

    /// Adds an amount of any size, as far as the sum can be counted.
    #[inline]
    fn add_all(&mut self, amount: u64, now: Timestamp) {
        if amount == 0 {
            return;
        }
        if let Form::Narrow(log) = &mut self.0
            && log.add(amount, now)
        {
            return;
        }
        self.add_wide(amount, now);
    }

    /// The same in the wide form.
    #[cold]
    fn add_wide(&mut self, amount: u64, now: Timestamp) {
        let amount = amount.min(u64::MAX - self.all());
        if amount == 0 {
            return;
        }
        if let Form::Narrow(log) = &self.0 {
            let mut wide = Log::default();
            for (at, amount) in log.amounts() {
                wide.add(amount, at);
            }
            self.0 = Form::Wide(Box::new(wide));
        }
        if let Form::Wide(log) = &mut self.0 {
            log.add(amount, now);
        }
    }

    /// Forgets what left the span.
    #[inline]
    pub(crate) fn prune(&mut self, span: Millis, now: Timestamp) {
        either!(&mut self.0, log => log.prune(span, now));
        if let Form::Wide(log) = &self.0
            && log.is_empty()
        {
            *self = Self::default();
        }
    }

    /// Forgets the oldest entries beyond `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        either!(&mut self.0, log => log.truncate(count));
    }

    /// The sum over `(now − span, now]`.
    #[inline]
    pub(crate) fn sum(&self, span: Millis, now: Timestamp) -> u64 {
        self.read(span, now).0
    }

    /// When the next amount leaves the span.
    #[inline]
    pub(crate) fn next_exit(&self, span: Millis, now: Timestamp) -> Option<Timestamp> {
        self.read(span, now).1
    }

    /// The sum over `(now − span, now]`, and when the next amount leaves it.
    #[inline]
    pub(crate) fn read(&self, span: Millis, now: Timestamp) -> (u64, Option<Timestamp>) {
        either!(&self.0, log => log.read(span, now))
    }

    /// When the sum will first be at most `allowed`, which it is not now.
    pub(crate) fn free_at(&self, span: Millis, allowed: u64) -> Timestamp {
        either!(&self.0, log => log.free_at(span, allowed))
    }

    /// Takes back `amount` added at `at`; `false` when that entry holds less or is forgotten.
    pub(crate) fn take_back(&mut self, amount: u64, at: Timestamp) -> bool {
        let amount = amount.min(MAX_AMOUNT);
        either!(&mut self.0, log => log.take_back(amount, at))
    }

    /// The amounts by instant, in the order of time.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        (0..self.len()).map(|index| either!(&self.0, log => log.amount(index)))
    }

    /// The sums of `amounts`; `None` unless their times grow, their amounts are not zero and the
    /// total can be counted.
    pub(crate) fn of(amounts: &[(Timestamp, u64)]) -> Option<Self> {
        let mut sums = Self::default();
        let (mut total, mut last) = (0_u64, None);
        for &(at, amount) in amounts {
            let follows = last.is_none_or(|last| last < at);
            total = total.checked_add(amount).filter(|_| follows && amount > 0)?;
            sums.add_all(amount, at);
            last = Some(at);
        }
        Some(sums)
    }

    fn all(&self) -> u64 {
        either!(&self.0, log => log.all())
    }

    fn len(&self) -> usize {
        either!(&self.0, log => log.len())
    }
}

#[cfg(test)]
mod tests;
