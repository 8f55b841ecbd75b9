//! Re-exports the atomics of `std` that this crate uses. All other modules import them from here.

pub(crate) use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
