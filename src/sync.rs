//! The lock: a plain mutex, or under the private `cfg(pool_shuttle)` one whose interleavings a
//! test explores.

use std::ops::{Deref, DerefMut};

#[cfg(not(pool_shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(pool_shuttle)]
pub(crate) use self::explored::{Mutex, MutexGuard};

/// The lock, to be handed to the thread that waits for it first. (A plain guard that goes lets the
/// same thread take the lock again before one that waits has woken up.)
pub(crate) struct FairGuard<'a, T>(Option<MutexGuard<'a, T>>);

impl<'a, T> FairGuard<'a, T> {
    pub(crate) fn of(guard: MutexGuard<'a, T>) -> Self {
        Self(Some(guard))
    }
}

impl<T> Deref for FairGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is held until it goes")
    }
}

impl<T> DerefMut for FairGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is held until it goes")
    }
}

impl<T> Drop for FairGuard<'_, T> {
    fn drop(&mut self) {
        #[cfg(not(pool_shuttle))]
        self.0.take().into_iter().for_each(MutexGuard::unlock_fair);
    }
}

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
