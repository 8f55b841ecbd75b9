//! The only module of `shared` that imports atomics from outside, so that models can replace them.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// Stores `value`, as a full fence: nothing after it is ordered before it.
///
/// A SeqCst exchange takes less time than a store and a fence on x86-64. Its partners are SeqCst
/// accesses too, so all of them are in one order.
#[inline]
pub(crate) fn store_fenced(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
}

/// Adds `more`, modulo 2^64, as a full fence: see [`store_fenced`].
#[inline]
pub(crate) fn add_fenced(word: &AtomicU64, more: u64) {
    word.fetch_add(more, Ordering::SeqCst);
}
