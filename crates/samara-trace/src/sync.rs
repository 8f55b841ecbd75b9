//! The only door to atomics and locks: everything else in the crate imports them from here.

pub(crate) use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
