//! The panic of a thread that would deadlock with itself. Builds the message; `lock`, `writer_gate`
//! and `root` detect the case, with `std` only.
//!
//! - **REENTRY-1** A thread that is inside the gate, or holds the handle's lock or `storing`,
//!   detects this before it waits for anything of the map. Otherwise it could wait for a thread
//!   that waits for it.

use core::fmt;

/// What the calling thread holds and would deadlock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reentry {
    /// The write handle.
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "a lock that spins does not know who holds it"))]
    Handle,
    /// The store that the thread is in.
    Store,
}

impl Reentry {
    /// Panics with the message.
    ///
    /// # Panics
    /// Always.
    #[cold]
    #[inline(never)]
    pub(crate) fn panic(self) -> ! {
        panic!("{self}")
    }
}

impl fmt::Display for Reentry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reentry::Handle => {
                "this thread has the write handle of this SharedRangeMap already, or is in a store that has taken it, and would wait for itself \
                 for ever. Closures of a store must not store in the same map. Let the handle go first: the temporaries of `match map.write()..` and `if let .. = map.write()..` live as long as their arms, so bind the \
                 result before"
            }
            Reentry::Store => {
                "this thread is in the midst of a store of this SharedRangeMap, and would wait for itself for ever. Observers, predicates, \
                 closures of a store and values' `clone` and `drop` must not store in the same map, nor take its handle or a snapshot"
            }
        })
    }
}
