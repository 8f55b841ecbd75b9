//! The only door to atomics: everything else in the crate imports them from here.

pub(crate) use core::sync::atomic::{AtomicU8, Ordering};
