//! Reclamation: how a shared structure learns that no reader can see what a writer has taken out.
//!
//! [`Reclaim`] is everything that a shared structure asks for. Three implementations are here, and
//! others can be written outside this crate.
//!
//! | | cost of a guard | cost of a stamp | needs |
//! |---|---|---|---|
//! | [`Epoch`] | a full fence | about 2 KiB, held by crossbeam-epoch | `alloc` |
//! | [`Membarrier`] | a few plain stores | a system call | Linux and `std` |
//! | [`Quiescent`] | nothing | nothing | no guard during a store |
//!
//! [`Epoch`] is the default. [`Membarrier`] suits readers that pin often while writers store
//! seldom. Pinning is nearly free, but each stamp interrupts the process's running threads for some
//! microseconds. A shared map asks for one stamp per 1,024 nodes that a writer takes out. Without
//! Linux or `std`, [`Membarrier`] uses fences, and needs `alloc`. [`Membarrier::fenced`] makes no
//! system call. [`Quiescent`] suits a single thread, and programs that keep readers and writers
//! apart by other means.
//!
//! Does not know trees or nodes: whoever unlinks a node keeps it together with the stamp, and frees
//! it.

pub(crate) mod crossbeam;
pub(crate) mod epoch_domain;
pub(crate) mod membarrier;
pub(crate) mod quiescent;

#[cfg(test)]
mod tests;

pub use crate::reclaim::crossbeam::{Epoch, EpochGuard, EpochReader, EpochStamp};
pub use crate::reclaim::membarrier::{Membarrier, MembarrierGuard, MembarrierReader, MembarrierStamp};
pub use crate::reclaim::quiescent::Quiescent;

/// When no reader can see any more what was taken out.
///
/// A reader holds a guard while it looks. A writer first *unlinks*: it stores, with release
/// ordering, so that who comes later does not find what was unlinked. Then it takes a stamp, and
/// once [`has_passed`](Self::has_passed) says so of that stamp, nobody has what was unlinked before
/// it.
///
/// # Safety
/// For one value of the type, with the registrations, guards and stamps that it made:
///
/// - `has_passed` returns `true` only when each guard that was made before `stamp` returned, and
///   might see what was unlinked before that call, has been dropped; and those drops happen before
///   `has_passed` returns.
/// - Any other guard sees what happened before `stamp` was called: of an atomic that was stored to
///   before, its holder loads that store or a later one, and whatever it loads with acquire
///   ordering is there as it was stored.
///
/// Beyond safety: a map calls `stamp` and `has_passed` within its stores, while its handle is held.
/// Neither must run foreign code, such as destructors that others have deferred: one that stores in
/// the map would wait for itself.
///
/// A guard protects for as long as it lives, whatever becomes of its registration, and whether or
/// not it ever is dropped. It counts as a guard of the value that made its registration, whichever
/// `pin` was asked for it. Nothing is promised of a stamp that another value made.
pub unsafe trait Reclaim {
    /// How many nodes a writer takes out before it asks for a stamp, at least: what a stamp costs
    /// is shared by as many stores.
    const BATCH: usize = 128;
    /// A registration: one thread's, or one reader's. It may cost an allocation; where that can go
    /// wrong, the program ends.
    type Reader;
    /// Keeps what its thread may see from being reclaimed. Dropped by the thread that made it: not
    /// `Send`, unless it may be dropped by any thread.
    type Guard;
    /// A moment of the writer's.
    type Stamp;
    /// Registers.
    fn reader(&self) -> Self::Reader;
    /// From here on the thread may look, until the guard is dropped. May be nested.
    fn pin(&self, reader: &Self::Reader) -> Self::Guard;
    /// Called by the writer after it has unlinked: the moment from which on new guards cannot see
    /// it. Several writers may call it at the same time.
    fn stamp(&self) -> Self::Stamp;
    /// Whether nobody can see what was unlinked before the stamp. Never waits for readers. May be
    /// asked again and again, by any thread that the stamp was handed to, also by one that
    /// holds a guard. `true` holds for good, though a later answer may be `false` again.
    fn has_passed(&self, stamp: &Self::Stamp) -> bool;
}

/// A reclaimer that finds the calling thread's registration by itself: [`Epoch`] and [`Membarrier`]
/// with `std`, [`Quiescent`] always.
pub trait PinHere: Reclaim {
    /// As [`Reclaim::pin`], by the registration of the calling thread, which is made on first use
    /// and given up when the thread ends.
    fn pin_here(&self) -> Self::Guard;
}
