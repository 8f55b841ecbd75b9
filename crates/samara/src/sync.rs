//! The only door to atomics, locks and shared cells: everything else in the crate imports them from here.

#[cfg(feature = "shared")]
pub(crate) use core::cell::{Cell, UnsafeCell};
#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(feature = "shared")]
pub(crate) use core::sync::atomic::{AtomicBool, compiler_fence};
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(feature = "std")]
pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};

/// One turn of waiting for another thread: short at first, then, where there is an operating system, others are let run.
#[cfg(feature = "shared")]
pub(crate) fn spin(spins: &mut u32) {
    *spins = spins.saturating_add(1);
    #[cfg(feature = "std")]
    if *spins > 100 {
        std::thread::yield_now();
        return;
    }
    core::hint::spin_loop();
}
