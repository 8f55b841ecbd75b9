//! The lock of the write handle: one holder at a time. With `std` a waiting thread sleeps, and a
//! thread that would deadlock with itself panics; without `std` a waiting thread spins.

#[cfg(feature = "std")]
use crate::shared::reentry::Reentry;
#[cfg(not(feature = "std"))]
use crate::sync::{AtomicBool, Ordering, spin};
#[cfg(feature = "std")]
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, TryLockError, here, is_here};

/// The lock of the write handle.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    #[cfg(feature = "std")]
    mutex: Mutex<()>,
    /// Word of the thread that holds the lock; 0 if it is free. Relaxed: a thread only compares it
    /// with its own word, which only that thread stores.
    #[cfg(feature = "std")]
    owner: AtomicUsize,
    #[cfg(not(feature = "std"))]
    held: AtomicBool,
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    #[cfg(feature = "std")]
    owner: &'a AtomicUsize,
    #[cfg(feature = "std")]
    _guard: MutexGuard<'a, ()>,
    #[cfg(not(feature = "std"))]
    held: &'a AtomicBool,
}

#[cfg(feature = "std")]
impl Lock {
    pub(crate) const fn new() -> Self {
        Lock { mutex: Mutex::new(()), owner: AtomicUsize::new(0) }
    }

    fn held<'a>(&'a self, guard: MutexGuard<'a, ()>) -> Held<'a> {
        self.owner.store(here(), Ordering::Relaxed);
        Held { owner: &self.owner, _guard: guard }
    }

    /// Takes the lock. Calls `waits` before it waits.
    ///
    /// # Panics
    /// If the calling thread holds the lock.
    pub(crate) fn lock(&self, waits: impl FnOnce()) -> Held<'_> {
        if let Some(held) = self.try_lock() {
            return held;
        }
        if is_here(self.owner.load(Ordering::Relaxed)) {
            Reentry::Handle.panic();
        }
        waits();
        // Poison is ignored: a writer that panics leaves nothing half done.
        self.held(self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(self.held(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.held(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(feature = "std")]
impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Before the mutex is unlocked: `_guard` is a field, and fields are dropped after this.
        self.owner.store(0, Ordering::Relaxed);
    }
}

#[cfg(not(feature = "std"))]
impl Lock {
    pub(crate) const fn new() -> Self {
        Lock { held: AtomicBool::new(false) }
    }

    /// Takes the lock. Without `std` there is nothing to call before it waits: a thread cannot
    /// tell itself from others.
    pub(crate) fn lock(&self, _waits: impl FnOnce()) -> Held<'_> {
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            let mut spins = 0;
            while self.held.load(Ordering::Relaxed) {
                spin(&mut spins);
            }
        }
    }

    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        // Acquire: pairs with the Release in `Held::drop`. `Held` is made only if the swap has
        // taken the lock, because its drop releases the lock.
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
