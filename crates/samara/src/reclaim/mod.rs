//! Reclamation: how a shared structure learns that no reader can see what a writer has taken out.
//!
//! [`Reclaim`] is everything that a shared structure asks for. Five implementations are here, and
//! others can be written outside this crate.
//!
//! | | cost of a guard | cost of a stamp | needs |
//! |---|---|---|---|
//! | [`Epoch`] | a full fence | about 2 KiB, held by crossbeam-epoch | `alloc` |
//! | [`Membarrier`] | a few plain stores | a system call | Linux and `std` |
//! | [`Fenced`] | a full fence | a full fence | `alloc` |
//! | [`FencedDomain`] | a full fence | two full fences | `alloc` |
//! | [`Quiescent`] | nothing | nothing | no guard during a store |
//!
//! [`Epoch`] is the default. [`Membarrier`] suits readers that pin often while writers store
//! seldom. Pinning is nearly free, but each stamp interrupts the process's running threads for some
//! microseconds. A shared map asks for one stamp per 1,024 nodes that a writer takes out. Without
//! Linux or `std`, [`Membarrier`] uses fences. [`Fenced`] always does, with one stamp per 64 nodes:
//! it suits writers that store often. A guard of these three holds up what all structures of the
//! process take out. A guard of a reader of a [`FencedDomain`] holds up only what structures of the
//! same value take out. [`Quiescent`] suits a single thread, and programs that keep readers and
//! writers apart by other means.
//!
//! Does not know trees or nodes: a writer that unlinks a node keeps it together with the stamp, and
//! frees it.

pub(crate) mod crossbeam;
pub(crate) mod epoch_domain;
pub(crate) mod fenced_domain;
pub(crate) mod membarrier;
pub(crate) mod quiescent;

#[cfg(test)]
mod tests;

pub use crate::reclaim::crossbeam::{Epoch, EpochGuard, EpochReader, EpochStamp};
pub use crate::reclaim::fenced_domain::{FencedDomain, FencedDomainStamp};
pub use crate::reclaim::membarrier::{Fenced, Membarrier, MembarrierGuard, MembarrierReader, MembarrierStamp};
pub use crate::reclaim::quiescent::Quiescent;

use crate::types::error::AllocError;

/// Decides when no reader can see the nodes that a writer has taken out.
///
/// A reader holds a guard while it reads. A writer first *unlinks*: it stores, with release
/// ordering, so that later readers do not find what was unlinked. Then it takes a stamp. Once
/// [`has_passed`](Self::has_passed) returns `true` for that stamp, no thread can see what was
/// unlinked before it.
///
/// # Safety
/// For one value of the type, with the registrations, guards and stamps that it made:
///
/// - `has_passed` returns `true` only if each guard that was made before `stamp` returned, and may
///   see what was unlinked before that call, has been dropped. Those drops happen before
///   `has_passed` returns.
/// - Any other guard sees what happened before `stamp` was called. If an atomic was stored to
///   before, the guard's holder loads that store or a later one, and with acquire ordering it also
///   sees the writes before that store.
///
/// Beyond safety: a map calls `stamp` and `has_passed` within its stores, with its handle held or
/// within a store of a `SharedWriter`. Neither must run foreign code, such as destructors that
/// others have deferred: one that stores in the map would deadlock.
///
/// A guard protects as long as it lives, whatever becomes of its registration, and even if it is
/// never dropped. It counts as a guard of the value that made its registration, whichever value's
/// `pin` made it. Nothing is promised about a stamp that another value made.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no reclaimer",
    note = "a shared map is `SharedRangeMap<K, V>`, or `SharedRangeMap<K, V, R>` where `R` is `Epoch`, `Membarrier`, `Fenced`, `FencedDomain` or `Quiescent`"
)]
pub unsafe trait Reclaim {
    /// A registration, of one thread or of one reader.
    type Reader;
    /// Keeps what its thread may see from being reclaimed. The thread that made it drops it: it is
    /// not `Send`, unless any thread may drop it.
    type Guard;
    /// A moment of the writer.
    type Stamp;
    /// Registers a reader. It may allocate; if that fails, the program ends.
    fn reader(&self) -> Self::Reader;
    /// [`reader`](Self::reader) that reports a lack of memory, where the reclaimer can:
    /// all but [`Epoch`] do. By default, and with [`Epoch`], the program ends.
    ///
    /// # Errors
    /// [`AllocError`].
    fn try_reader(&self) -> Result<Self::Reader, AllocError> {
        Ok(self.reader())
    }
    /// [`Default::default`] that reports a lack of memory, where the reclaimer can.
    ///
    /// # Errors
    /// [`AllocError`].
    fn try_default() -> Result<Self, AllocError>
    where
        Self: Default,
    {
        Ok(Self::default())
    }
    /// The least number of nodes that a writer takes out before it asks for a stamp. More nodes
    /// spread the cost of a stamp over more stores, but get cold before they are reused.
    fn batch(&self) -> usize {
        128
    }
    /// Lets the thread read until the guard is dropped. Guards may be nested.
    fn pin(&self, reader: &Self::Reader) -> Self::Guard;
    /// Returns the moment from which new guards cannot see what the writer has unlinked. The writer
    /// calls it after unlinking. Several writers may call it at the same time.
    fn stamp(&self) -> Self::Stamp;
    /// Whether no thread can see what was unlinked before the stamp. Never waits for readers.
    ///
    /// It may be asked any number of times, by any thread that the stamp was handed to, even by one
    /// that holds a guard. `true` is final, though a later answer may be `false` again.
    fn has_passed(&self, stamp: &Self::Stamp) -> bool;
}

/// A reclaimer that finds the calling thread's registration by itself: [`Epoch`], [`Membarrier`],
/// [`Fenced`] and [`FencedDomain`] with `std`, [`Quiescent`] always.
///
/// # Safety
/// What [`pin_here`](Self::pin_here) returns protects as much as what [`Reclaim::pin`] of this
/// reclaimer returns: [`SharedRangeMap::pin`](crate::SharedRangeMap::pin) reads nodes while it
/// lives.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not find the registration of the calling thread",
    note = "register with `map.reader()`, and pin by what that returns; with the feature `std`, `Epoch`, `Membarrier`, `Fenced` and `FencedDomain` find it"
)]
pub unsafe trait PinHere: Reclaim {
    /// Pins like [`Reclaim::pin`], by the calling thread's registration. It is made on first use,
    /// and given up when the thread ends.
    fn pin_here(&self) -> Self::Guard;
}
