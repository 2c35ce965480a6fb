//! Where time comes from. The only place of the crate that reads a clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Millis, Timestamp};

/// A source of time for a [`Pool`](crate::Pool).
///
/// The pool reads it once per call, before it takes its lock. Stamps should not step back; if
/// they do, the scheduler goes on with the largest stamp it has seen.
///
/// ```
/// use account_pool::{Clock, Timestamp};
///
/// #[derive(Debug)]
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_millis(42)
///     }
/// }
/// assert_eq!(Stopped.now().as_millis(), 42);
/// ```
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// Unix time that never steps back: wall time is read once, at construction, and monotonic time
/// is added to it.
///
/// Its stamps compare with the reset times that upstreams announce and mean the same in another
/// process. A correction of the wall clock after construction is not followed, and where the
/// machine's monotonic clock stops during suspend, so does this one; build a new clock to
/// re-anchor.
#[derive(Clone, Debug)]
pub struct SystemClock {
    anchor: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// A clock anchored at the current wall time. Wall times before 1970 count as 1970.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place where wall time is read")]
    pub fn new() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { anchor: Timestamp::ZERO.plus(whole_millis(unix)), started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where monotonic time is read")]
    fn now(&self) -> Timestamp {
        self.anchor.plus(whole_millis(self.started.elapsed()))
    }
}

/// The milliseconds that have passed in full, without arithmetic of 128 bits.
fn whole_millis(span: Duration) -> Millis {
    let seconds = span.as_secs().saturating_mul(1_000);
    Millis::new(seconds.saturating_add(span.subsec_millis().into()))
}

/// A [`SystemClock`] on tokio's time, so that `tokio::time::pause` and `advance` move it along with
/// the timers of waiting requests.
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
#[derive(Clone, Debug)]
pub struct TokioClock {
    anchor: Timestamp,
    started: tokio::time::Instant,
}

#[cfg(feature = "tokio")]
impl TokioClock {
    /// A clock anchored at the current wall time, like [`SystemClock::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::anchored(SystemClock::new().anchor)
    }

    /// A clock that stands at `anchor` now, for tests.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a clock starts here")]
    pub fn anchored(anchor: Timestamp) -> Self {
        Self { anchor, started: tokio::time::Instant::now() }
    }
}

#[cfg(feature = "tokio")]
impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "tokio")]
impl Clock for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where tokio's time is read")]
    fn now(&self) -> Timestamp {
        self.anchor.plus(whole_millis(self.started.elapsed()))
    }
}

/// A clock that moves only when it is told to: for tests, benches, simulations and replays.
///
/// Clones share the time.
///
/// ```
/// use account_pool::{Clock, ManualClock, Millis, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::from_millis(100));
/// let same = clock.clone();
/// clock.advance(Millis::new(5));
/// assert_eq!(same.now(), Timestamp::from_millis(105));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    millis: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { millis: Arc::new(AtomicU64::new(now.as_millis())) }
    }

    /// Moves the time forward by `span`, saturating.
    pub fn advance(&self, span: Millis) {
        let later = |millis| Some(Timestamp::from_millis(millis).plus(span).as_millis());
        self.millis
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later)
            .unwrap_or_else(|unchanged| unchanged);
    }

    /// Sets the time, backwards too: a scheduler that has seen a later stamp keeps that one.
    pub fn set(&self, now: Timestamp) {
        self.millis.store(now.as_millis(), Ordering::Release);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::Acquire))
    }
}
