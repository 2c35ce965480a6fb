//! Where time comes from. The only place of the crate that reads a clock.

#[cfg(feature = "coarse-clock")]
mod coarse;

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
    #[expect(clippy::disallowed_methods, reason = "a clock starts here")]
    pub fn new() -> Self {
        Self { anchor: wall_time(), started: Instant::now() }
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
        after(self.anchor, self.started.elapsed())
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where wall time is read")]
fn wall_time() -> Timestamp {
    after(Timestamp::ZERO, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// So many milliseconds after `anchor` as have passed in full, without arithmetic of 128 bits.
fn after(anchor: Timestamp, passed: Duration) -> Timestamp {
    let seconds = passed.as_secs().saturating_mul(1_000);
    anchor.plus(Millis::new(seconds.saturating_add(passed.subsec_millis().into())))
}

/// A [`SystemClock`] that is cheaper to read and whose stamps lag by up to one tick of the kernel.
///
/// On Linux and Android it reads the kernel's coarse monotonic clock, which stands still between
/// two ticks: 4 ns a reading instead of 22 on an Intel Xeon, and a [`Pool`] reads its clock twice
/// per request. Elsewhere it reads what `SystemClock` reads, at the same cost and without a lag.
/// Like `SystemClock` it is anchored at wall time once, and never steps back.
///
/// # How exact it is
///
/// A stamp is earlier than the exact time by less than one tick, and never later. A tick is
/// `1 / CONFIG_HZ` of the kernel: 1 to 10 ms, 4 ms on many systems;
/// `clock_getres(CLOCK_MONOTONIC_COARSE)` tells. (A virtual machine that is held up may miss
/// ticks; until the next one its clock lags by more.) By exact time this means:
///
/// - An instant that was given, like a reset time that an upstream announced, is noticed up to a
///   tick late, and never early.
/// - A span that begins with a call (a request in its rate window, a cooldown, a binding's life)
///   ends up to a tick early or late, since each of its two ends is off by less than a tick: with
///   ticks of 4 ms a window of 60 s may be as short as 59.996 s.
/// - Calls within one tick have the same stamp, and are told apart by their order. Only
///   [`Recency::Millisecond`](crate::config::Recency::Millisecond) takes accounts as used at the
///   same time that were used in the same tick.
/// - `Pool::acquire` sleeps on a timer that is exact. Where this clock is not there yet when the
///   request wakes up, it sleeps again for what is missing, and is served up to a tick late.
///
/// ```
/// use account_pool::{Account, CoarseClock, Config, Outcome, Pool, Request};
///
/// let pool = Pool::with_clock(Config::default(), CoarseClock::new())?;
/// pool.add(Account::new("acct-1").rpm(1), "credential")?;
///
/// pool.select(&Request::new())?.settle(Outcome::success());
/// assert!(pool.select(&Request::new()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Pool`]: crate::Pool
#[cfg(feature = "coarse-clock")]
#[cfg_attr(docsrs, doc(cfg(feature = "coarse-clock")))]
#[derive(Clone, Debug)]
pub struct CoarseClock {
    anchor: Timestamp,
    started: coarse::Start,
}

#[cfg(feature = "coarse-clock")]
impl CoarseClock {
    /// A clock anchored at the current wall time, like [`SystemClock::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::anchored(wall_time())
    }

    #[allow(clippy::disallowed_methods, reason = "a clock starts here, in places on std's time")]
    fn anchored(anchor: Timestamp) -> Self {
        Self { anchor, started: coarse::Start::now() }
    }
}

#[cfg(feature = "coarse-clock")]
impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "coarse-clock")]
impl Clock for CoarseClock {
    #[allow(clippy::disallowed_methods, reason = "monotonic time is read here, in places std's")]
    fn now(&self) -> Timestamp {
        after(self.anchor, self.started.elapsed())
    }
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
        Self::anchored(wall_time())
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
        after(self.anchor, self.started.elapsed())
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

#[cfg(all(test, feature = "coarse-clock"))]
mod tests {
    use super::{Clock, CoarseClock, SystemClock};

    #[test]
    fn a_coarse_clock_goes_on_from_its_anchor_and_is_never_ahead() {
        let exact = SystemClock::new();
        let coarse = CoarseClock::anchored(exact.anchor);
        let (mut last, mut ticks) = (exact.anchor, 0);
        while ticks < 3 {
            let stamp = coarse.now();
            assert!(stamp >= last, "{stamp:?} after {last:?}");
            let limit = exact.now();
            assert!(stamp <= limit, "{stamp:?} at {limit:?}");
            ticks += u32::from(stamp > last);
            last = stamp;
        }
    }

    #[test]
    fn a_clone_of_a_coarse_clock_shows_the_same_time() {
        let clock = CoarseClock::new();
        let same = clock.clone();
        let [first, second, third] = [clock.now(), same.now(), clock.now()];
        assert!(first <= second && second <= third);
    }
}
