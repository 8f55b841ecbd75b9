//! The only door to atomics, locks and shared cells: everything else in the crate imports them from here.

#[cfg(feature = "shared")]
pub(crate) use core::cell::{Cell, UnsafeCell};
#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(feature = "shared")]
pub(crate) use core::sync::atomic::{AtomicBool, compiler_fence};
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
#[cfg(feature = "shared")]
pub(crate) use here::{here, is_here};
#[cfg(feature = "std")]
pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};

/// Which thread runs, as a word that is not 0: who takes something leaves it there, to be known if it comes again.
#[cfg(all(feature = "shared", feature = "std"))]
mod here {
    std::thread_local! {
        /// Its address is the word.
        static HERE: u8 = const { 0 };
    }

    /// The calling thread's word, which no other thread has as long as this one lives.
    #[inline]
    pub(crate) fn here() -> usize {
        HERE.with(|here| core::ptr::from_ref(here).addr())
    }

    /// Whether the word is the calling thread's.
    #[inline]
    pub(crate) fn is_here(word: usize) -> bool {
        word == here()
    }
}

/// Without `std` threads cannot be told apart: there is one word for all, and it is nobody's.
#[cfg(all(feature = "shared", not(feature = "std")))]
mod here {
    #[inline]
    pub(crate) fn here() -> usize {
        1
    }

    #[inline]
    pub(crate) fn is_here(_: usize) -> bool {
        false
    }
}

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
