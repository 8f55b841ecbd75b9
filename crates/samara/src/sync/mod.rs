//! Atomics, locks and shared cells: the only module that imports them from outside; all others
//! import them from here.
//!
//! With `--cfg loom` the atomics are those of `shadow`, which also watches the memory of nodes, so
//! the models run the crate's own files. Without it nothing of `shadow` is built.

#[cfg(loom)]
pub(crate) mod shadow;

#[cfg(feature = "shared")]
pub(crate) use core::cell::{Cell, UnsafeCell};
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) use core::sync::atomic::AtomicBool;
#[cfg(all(target_has_atomic = "64", not(loom)))]
pub(crate) use core::sync::atomic::AtomicU64;
pub(crate) use core::sync::atomic::Ordering;
#[cfg(feature = "shared")]
pub(crate) use core::sync::atomic::compiler_fence;
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) use core::sync::atomic::fence;
#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize};
#[cfg(feature = "std")]
pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, TryLockError};

#[cfg(not(loom))]
pub(crate) use alloc::alloc::dealloc;
#[cfg(loom)]
pub(crate) use shadow::*;

#[cfg(feature = "shared")]
pub(crate) use here::{here, is_here};

/// Loads of an atomic word by the thread that then stores to it.
pub(crate) trait LoadOwn {
    type Value;
    /// Loads what no other thread stores to meanwhile, or what the next exchange checks or changes.
    /// (Models load the last value in any case.)
    fn load_own(&self, order: Ordering) -> Self::Value;
}

#[cfg(not(loom))]
macro_rules! load_own {
    ($($word:ident $(<$t:ident>)?: $value:ty;)*) => {$(
        impl $(<$t>)? LoadOwn for $word $(<$t>)? {
            type Value = $value;
            #[cfg_attr(not(debug_assertions), inline(always))]
            fn load_own(&self, order: Ordering) -> $value {
                self.load(order)
            }
        }
    )*};
}
#[cfg(not(loom))]
load_own! {
    AtomicU32: u32;
    AtomicUsize: usize;
    AtomicPtr<T>: *mut T;
}
#[cfg(all(feature = "shared", not(loom)))]
load_own! { AtomicBool: bool; }

/// Adds one, unless the word has its highest value. Returns the value before. (Models do it in one
/// step.)
#[cfg(feature = "shared")]
#[inline]
pub(crate) fn count_up(word: &AtomicUsize, order: Ordering) -> usize {
    if cfg!(loom) {
        return word.fetch_add(1, order);
    }
    word.fetch_update(order, Ordering::Relaxed, |n| n.checked_add(1)).unwrap_or_else(|highest| highest)
}

/// The running thread, as a word that is not 0. A thread stores its word in the locks that it
/// takes, and so recognises its own later.
#[cfg(all(feature = "shared", feature = "std", not(loom)))]
mod here {
    std::thread_local! {
        /// Its address is the word.
        static HERE: u8 = const { 0 };
    }

    /// The calling thread's word. No other thread has it as long as this one lives.
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

/// Without `std` threads cannot be distinguished: they share one word, which counts as no thread's.
/// The same holds for loom's threads, which run in one thread.
#[cfg(all(feature = "shared", any(not(feature = "std"), loom)))]
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

/// Overwrites the memory of a node that is given back, in the crate's own tests: so a later read of
/// it is noticed, whatever the allocator does. Elsewhere it does nothing.
///
/// # Safety
/// The `bytes` bytes at `at` are not used any more. `bytes` is a multiple of 8, and `at` is aligned
/// to 8.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) unsafe fn spoil(at: core::ptr::NonNull<u8>, bytes: usize) {
    if cfg!(all(feature = "testing", debug_assertions, not(miri), not(loom))) {
        for word in 0..bytes / 8 {
            // SAFETY: the caller promises aligned memory that is not used. Volatile: nothing reads
            // the words, so plain stores would be left out.
            unsafe { at.as_ptr().cast::<u64>().add(word).write_volatile(0xa5a5_a5a5_a5a5_a5a5) };
        }
    }
}

/// The bit in a node's owner count that marks it as visible to readers of a shared map (COW-4).
pub(crate) const PUBLISHED: u32 = 1 << 31;

/// Atomics that are part of no map's protocol. The models do not order them.
pub(crate) mod plain {
    pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8};
}

/// One turn of waiting for another thread, before the next look at its word. Turns grow from 2 to
/// 64 pauses, because a look takes the cache line of the word from the thread that works there.
/// Later, with `std`, a turn yields the processor.
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) fn spin(spins: &mut u32) {
    *spins = spins.saturating_add(1);
    #[cfg(feature = "std")]
    if *spins > 10 {
        std::thread::yield_now();
        return;
    }
    (0..1 << (*spins).min(6)).for_each(|_| core::hint::spin_loop());
}

/// What `shadow` learns about the memory of nodes. Without `--cfg loom` each function does nothing.
#[cfg(not(loom))]
mod watch {
    use core::ptr::NonNull;

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn made(_at: NonNull<u8>, _bytes: usize, _refs: usize, _inner: bool) {}
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn read(_at: NonNull<u8>, _inner: bool) {}
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn written(_at: NonNull<u8>) {}
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn freed(_at: NonNull<u8>, _bytes: usize) {}
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn words_read<T>(_at: *const T, _n: usize) {}
}
#[cfg(not(loom))]
pub(crate) use watch::*;
