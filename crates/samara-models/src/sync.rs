//! What `epoch_domain`, `writer_gate` and `fault_gate` use of their crates' `sync`, from loom.

pub(crate) use core::cell::UnsafeCell;
pub(crate) use loom::cell::Cell;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// Loom's threads are not distinguished: a model in which one waits for itself does not end.
pub(crate) fn here() -> usize {
    1
}

pub(crate) fn is_here(_: usize) -> bool {
    false
}

/// Lets other threads run first.
pub(crate) fn spin(_: &mut u32) {
    loom::thread::yield_now();
}

/// Loom takes SeqCst accesses for AcqRel ones: the full fence is one of its own.
pub(crate) fn store_fenced(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// As [`store_fenced`].
pub(crate) fn add_fenced(word: &AtomicU64, more: u64) {
    word.fetch_add(more, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}
