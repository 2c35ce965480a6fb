//! The lock: a plain mutex, or under the private `cfg(pool_shuttle)` one whose interleavings a
//! test explores.

#[cfg(not(pool_shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(pool_shuttle)]
pub(crate) use self::explored::{Mutex, MutexGuard};

#[cfg(pool_shuttle)]
mod explored {
    use std::sync::PoisonError;

    pub(crate) use shuttle::sync::MutexGuard;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
