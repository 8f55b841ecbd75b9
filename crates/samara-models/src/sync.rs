//! What `epoch_domain` and `writer_gate` use of the crate's `sync`, from loom.

pub(crate) use core::cell::UnsafeCell;
pub(crate) use loom::cell::Cell;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

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
