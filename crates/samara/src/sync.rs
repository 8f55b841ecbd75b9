//! The only door to atomics: everything else in the crate imports them from here.

pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
