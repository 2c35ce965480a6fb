//! The monotonic time of [`CoarseClock`](super::CoarseClock).

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use self::of_ticks::Start;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use std::time::Instant as Start;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod of_ticks {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    /// Where a clock starts; is used like std's `Instant`.
    #[derive(Clone, Debug)]
    pub(crate) struct Start(Duration);

    impl Start {
        /// Now, to the nanosecond: the wall time that was just read belongs to this instant, and
        /// with the last tick instead stamps could be up to a tick ahead of the exact time.
        pub(crate) fn now() -> Self {
            Self(monotonic(ClockId::Monotonic))
        }

        /// From then to the last tick; zero where there was none since.
        pub(crate) fn elapsed(&self) -> Duration {
            monotonic(ClockId::MonotonicCoarse).saturating_sub(self.0)
        }
    }

    /// The time since an origin that both monotonic clocks share, and that is in the past.
    #[expect(clippy::disallowed_methods, reason = "the one place where the kernel's time is read")]
    fn monotonic(clock: ClockId) -> Duration {
        clock_gettime(clock).try_into().unwrap_or_default()
    }
}
