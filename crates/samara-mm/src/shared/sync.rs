//! The only module of `shared` and `files` that imports atomics from outside, so that models can
//! replace them.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use once_cell::race::OnceBox;

/// Stores `value` before all later SeqCst loads, in the one order of all SeqCst accesses: its
/// partners are SeqCst too.
///
/// A SeqCst exchange takes less time than a store and a fence on x86-64.
#[inline]
pub(crate) fn store_fenced(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
}

/// Adds `more`, modulo 2^64, as [`store_fenced`] stores.
#[inline]
pub(crate) fn add_fenced(word: &AtomicU64, more: u64) {
    word.fetch_add(more, Ordering::SeqCst);
}

/// Loads a word that only this thread stores to. Other threads may change bits that the caller
/// ignores. (Models replace this.)
#[inline]
pub(crate) fn load_own(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}
