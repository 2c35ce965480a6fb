//! The crate's only time arithmetic: an instant and a span, both in whole milliseconds.
//!
//! Everything saturates, nothing panics, and every block or window is half-open: it holds in
//! `[start, end)` and is over at `end`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since an origin that the clock chooses (the Unix epoch for
/// [`SystemClock`](crate::SystemClock)).
///
/// ```
/// use account_pool::{Millis, Timestamp};
///
/// let start = Timestamp::from_millis(1_000);
/// assert_eq!(start.plus(Millis::from_secs(2)).as_millis(), 3_000);
/// assert_eq!(start.since(Timestamp::from_millis(9_000)), Millis::ZERO);
/// assert_eq!(start.plus(Millis::MAX), Timestamp::MAX);
/// ```
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin. An account that was never used counts as used at this instant.
    pub const ZERO: Self = Self(0);
    /// The last instant; arithmetic saturates here.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `millis` milliseconds after the clock's origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the clock's origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `span` later, saturating at [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The instant `span` earlier, saturating at [`Timestamp::ZERO`].
    #[must_use]
    pub const fn minus(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// Whether something that lasts `span` from `self` is over at `now` (half-open: it is over
    /// exactly at its end).
    #[must_use]
    pub const fn is_over(self, span: Millis, now: Self) -> bool {
        self.plus(span).0 <= now.0
    }
}

/// A span of time in milliseconds.
///
/// ```
/// use account_pool::Millis;
///
/// assert_eq!(Millis::new(1_400).as_secs_ceil(), 2);
/// assert_eq!(Millis::from_mins(2), Millis::from_secs(120));
/// ```
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Millis(u64);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `millis` milliseconds.
    #[must_use]
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// A span of `secs` seconds, saturating.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    /// A span of `mins` minutes, saturating.
    #[must_use]
    pub const fn from_mins(mins: u64) -> Self {
        Self(mins.saturating_mul(60_000))
    }

    /// A span of `days` days of 24 hours, saturating.
    #[must_use]
    pub const fn from_days(days: u64) -> Self {
        Self(days.saturating_mul(86_400_000))
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: what a `retry-after` header carries, never early and never 0
    /// for a span that is not zero.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whether this is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self × factor^steps`, rounded up, at most `cap`. Multiplies step by step, so that the
    /// result is the same on every machine.
    #[must_use]
    pub(crate) fn grown(self, factor: f64, steps: u32, cap: Self) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "spans past 2^53 ms are capped anyway")]
        let (mut span, limit) = (self.0 as f64, cap.0 as f64);
        for _ in 0..steps {
            if span >= limit || factor <= 1.0 {
                break;
            }
            span *= factor;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float to integer cast saturates, and spans are not negative"
        )]
        let grown = Self(span.ceil() as u64);
        grown.min(cap)
    }
}

/// The earlier one of two instants, or what is ordered by its instant; none never comes.
#[inline]
pub(crate) fn earliest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl From<Duration> for Millis {
    /// Rounds up to whole milliseconds and saturates.
    fn from(duration: Duration) -> Self {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        Self(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Self {
        Self::from_millis(span.0)
    }
}
