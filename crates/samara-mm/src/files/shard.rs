//! The areas of some spaces, under a lock, and the memory that reservations may claim.
//!
//! Does not know which spaces belong to it.
//!
//! - **SHARD-1** `room` counts nodes that are neither in use nor promised to a reservation. So
//!   `room` plus the number of areas is at most the capacity of the tree. It grows under the lock
//!   or by a reservation's unused nodes, and shrinks by claims without the lock.

use super::stats::{Purpose, Stats};
use super::tree::Tree;
use crate::shared::sync::{AtomicUsize, Ordering::Relaxed};
use crate::shared::wait::Wait;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::{Mutex, MutexGuard};
use samara::AllocError;

/// Alone on its cache lines: two, because processors fetch them in pairs.
#[repr(align(128))]
pub(super) struct Shard<W: Wait, S: Stats> {
    /// SHARD-1. Relaxed, because it counts nodes and gives no access to them: a thread that claims
    /// nodes takes the lock before it uses them.
    room: AtomicUsize,
    /// Number of areas as of the last batch that ended. Relaxed: it orders nothing.
    areas: AtomicUsize,
    kept: Mutex<W::Lock, Guarded<S>>,
}

/// The state that the lock protects.
#[derive(Default)]
pub(super) struct Guarded<S> {
    pub(super) tree: Tree,
    pub(super) stats: S,
}

impl<W: Wait, S: Stats> Shard<W, S> {
    /// A shard in memory of its own.
    pub(super) fn boxed() -> Result<Box<[Self; 1]>, AllocError> {
        let shard =
            Shard { room: AtomicUsize::new(0), areas: AtomicUsize::new(0), kept: Mutex::new(Guarded::default()) };
        let mut one = Vec::new();
        one.try_reserve_exact(1).map_err(|_| AllocError)?;
        one.push(shard);
        one.try_into().map_err(|_| AllocError)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, W::Lock, Guarded<S>> {
        self.kept.lock()
    }

    /// Areas as of the last batch that ended.
    pub(super) fn areas(&self) -> usize {
        self.areas.load(Relaxed)
    }

    pub(super) fn set_areas(&self, areas: usize) {
        self.areas.store(areas, Relaxed);
    }

    /// Nodes without a claim on them.
    pub(super) fn room(&self) -> usize {
        self.room.load(Relaxed)
    }

    /// Claims `links` nodes, if `room` has as many.
    fn claim(&self, links: usize) -> bool {
        self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(links)).is_ok()
    }

    /// Gives claimed nodes back.
    pub(super) fn give_back(&self, links: usize) {
        if links > 0 {
            self.room.fetch_add(links, Relaxed);
        }
    }

    /// Claims `links` nodes. Takes the lock, and allocates, only if nodes are missing.
    pub(super) fn reserve(&self, links: usize) -> Result<(), AllocError> {
        if links == 0 || self.claim(links) {
            return Ok(());
        }
        let mut kept = self.lock();
        let since = S::now();
        let reserved = self.reserve_locked(&mut kept, links);
        kept.stats.count(since, Purpose::Growth);
        reserved
    }

    /// [`reserve`](Self::reserve) by the holder of the lock.
    pub(super) fn reserve_locked(&self, kept: &mut Guarded<S>, links: usize) -> Result<(), AllocError> {
        while !self.claim(links) {
            let made = kept.tree.grow(links.saturating_sub(self.room()).max(1))?;
            self.room.fetch_add(made, Relaxed);
        }
        Ok(())
    }

    /// Frees the memory of a tree that became empty, unless a reservation counts on it.
    pub(super) fn release_empty(&self, kept: &mut Guarded<S>) {
        let capacity = kept.tree.capacity();
        // There is no claim if `room` is the whole capacity; with `room` at zero no claim can be
        // made.
        if kept.tree.len() == 0 && self.room.compare_exchange(capacity, 0, Relaxed, Relaxed).is_ok() {
            kept.tree.release();
            self.room.fetch_add(kept.tree.capacity(), Relaxed);
        }
    }
}
