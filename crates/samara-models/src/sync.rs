//! What `domain` takes from the crate's `sync`, by loom.

pub(crate) use loom::cell::Cell;
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
