//! What `domain` and `seats` take from the crate's `sync`, by loom.

pub(crate) use core::cell::UnsafeCell;
pub(crate) use loom::cell::Cell;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};

/// Others go on first.
pub(crate) fn spin(_: &mut u32) {
    loom::thread::yield_now();
}
