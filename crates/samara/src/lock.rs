//! Who has the handle to write: one at a time. With std a thread that waits sleeps; without, it spins.

#[cfg(not(feature = "std"))]
use crate::sync::{AtomicBool, Ordering};
#[cfg(feature = "std")]
use crate::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A lock.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    #[cfg(feature = "std")]
    mutex: Mutex<()>,
    #[cfg(not(feature = "std"))]
    held: AtomicBool,
}

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    #[cfg(feature = "std")]
    _guard: MutexGuard<'a, ()>,
    #[cfg(not(feature = "std"))]
    held: &'a AtomicBool,
}

#[cfg(feature = "std")]
impl Lock {
    pub(crate) const fn new() -> Self {
        Lock { mutex: Mutex::new(()) }
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        // A panic of a writer leaves nothing half done.
        Held { _guard: self.mutex.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(Held { _guard: guard }),
            Err(TryLockError::Poisoned(poisoned)) => Some(Held { _guard: poisoned.into_inner() }),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(not(feature = "std"))]
impl Lock {
    pub(crate) const fn new() -> Self {
        Lock { held: AtomicBool::new(false) }
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            while self.held.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        // Acquire: pairs with the Release of the one who held it before.
        // Made only where it is held, for its drop lets go.
        (!self.held.swap(true, Ordering::Acquire)).then(|| Held { held: &self.held })
    }
}

#[cfg(not(feature = "std"))]
impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_lock`.
        self.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
