//! Re-exports the locks of `std` that this crate uses. All other modules import them from here.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
