//! One of several concurrent writers of a shared map, [`SharedWriter`]. Knows the operations. Falls
//! back to the write handle for a store that cannot be concurrent; `leaf_store` makes all others.

use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::reclaim::crossbeam::Epoch;
use crate::shared::SharedRangeMap;
use crate::shared::deferred_drop::{Freed, Returned};
use crate::shared::footprint::Footprint;
use crate::shared::leaf_store::{self, Attempt};
use crate::shared::verbs::verbs;
use crate::shared::workspace::Workspace;
use crate::shared::write_guard::{Lent, WriteGuard};
use crate::shared::writer_gate::{Inside, Look, WriterRecord};
use crate::sync::{Ordering, spin};
use crate::tree::Tree;
use crate::types::displaced::{Displaced, unobserved};
use crate::types::error::{AllocError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

/// One of several writers that store at the same time: see [`SharedRangeMap::writer`].
///
/// Each call is one store, and atomic for readers, as with the [handle](SharedRangeMap::write).
/// After a panic the store has happened as a whole or not at all, as
/// [`WriteGuard`](crate::WriteGuard) says.
///
/// A store that changes leaves of one parent, as nearly all do, is concurrent with stores of other
/// `SharedWriter`s. It spins while another store below the same parent (at most 31 leaves) runs,
/// including that store's observers and clones. Now and then it spins for a moment while another
/// store changes the node above.
///
/// Any other store takes the handle for itself, and so waits for it: the first one below a parent
/// after a snapshot, one beyond the map's last entry, or one that meets leaves of several parents.
/// So does a store that moves the last key of a leaf, splits leaves or merges them, if that is the
/// first or the last leaf of its parent, or if the parent is full, nearly empty or the root. While
/// the map is one leaf (at most 29 entries), every store takes the handle.
///
/// What runs in a store (observers, a value's `clone`) may look at the map through guards, but must
/// not store, and must not take the handle, a snapshot or another `SharedWriter`. It would deadlock
/// with itself; instead it panics, whatever other threads do. There are two exceptions. A store by
/// another `SharedWriter` that the thread has already is detected only with debug assertions, and
/// otherwise may wait for ever. Without `std` nothing is detected.
///
/// [`reserve`](Self::reserve) sets memory aside for stores that must not fail.
///
/// Values that no reader sees any more are dropped when the store is over. For other operations,
/// take the [handle](SharedRangeMap::write). A thread must not call a `SharedWriter` while it holds
/// the handle: this panics too.
///
/// # Memory
/// Each writer has its own limbo, and keeps as many nodes for its next stores as the handle does
/// ([`WriteGuard::release`](crate::WriteGuard::release) gives them back). Once the writer is
/// dropped, the nodes that it took out wait for the next `SharedWriter` of the map, for
/// [`WriteGuard::reclaim`](crate::WriteGuard::reclaim), or for the drop of the map.
///
/// # Examples
/// ```
/// use samara::SharedRangeMap;
/// let map: SharedRangeMap<u64, u64> = (0..1_000_u64).map(|i| (i * 16..=i * 16 + 7, 0)).collect();
/// std::thread::scope(|scope| {
///     for half in 0..2 {
///         let map = &map;
///         scope.spawn(move || {
///             let mut writer = map.writer().unwrap();
///             for i in (half..1_000).step_by(2) {
///                 writer.insert(i * 16..=i * 16 + 7, i).unwrap();
///             }
///         });
///     }
/// });
/// assert!(map.pin().iter().map(|(_, value)| *value).eq(0..1_000));
/// ```
pub struct SharedWriter<'m, K: Key, V, R: Reclaim = Epoch, S: Shape = Normal> {
    pub(crate) map: &'m SharedRangeMap<K, V, R, S>,
    pub(crate) record: &'m WriterRecord<Workspace<K, V, S, R>>,
    /// Leaves whose values its collections have dropped.
    pub(crate) returned: Returned<K, V, S>,
}

// SAFETY: the record belongs to this writer alone while it lives. Like the handle's state it may be
// used from any thread, by one at a time.
unsafe impl<K: Key, V: Send + Sync, R: Reclaim + Sync, S: Shape> Send for SharedWriter<'_, K, V, R, S> where
    R::Stamp: Send
{
}

impl<'m, K: Key, V, R: Reclaim, S: Shape> SharedWriter<'m, K, V, R, S> {
    /// # Safety
    /// The caller has taken the record, which is one of the map's.
    pub(crate) unsafe fn new(
        map: &'m SharedRangeMap<K, V, R, S>,
        record: &'m WriterRecord<Workspace<K, V, S, R>>,
    ) -> Self {
        SharedWriter { map, record, returned: Returned::new() }
    }

    /// The map that the writer stores to.
    #[must_use]
    pub fn map(&self) -> &'m SharedRangeMap<K, V, R, S> {
        self.map
    }
}

/// Number of attempts to go inside before the writer waits for the handle.
pub(crate) const MAX_ATTEMPTS: u32 = 100;

impl<'m, K: Key, V: Clone, R: Reclaim, S: Shape> SharedWriter<'m, K, V, R, S> {
    /// Makes a change by `verb`, concurrently with other writers if possible. `None`: there is
    /// no entry to clear, remove or modify.
    #[inline]
    pub(crate) fn store<T>(
        &mut self,
        change: Footprint<K>,
        verb: impl FnOnce(&mut Tree<K, V, S>) -> T,
    ) -> Result<Option<T>, AllocError> {
        match self.attempt::<true, _, _>(change, usize::MAX, verb)? {
            Attempt::Done(done) => Ok(Some(done)),
            Attempt::NoEntry => Ok(None),
            Attempt::Exclusive(verb) => {
                let mut write = self.map.write();
                let done = if meets(&write, change) { write.change(change, verb).map(Some) } else { Ok(None) };
                // Drops values, which may panic. The result is a local, so it is dropped too.
                drop(write);
                done
            }
        }
    }

    /// Attempts to make a change concurrently. Collects what was taken out if that is due and
    /// `COLLECTS`, which may need memory. A change that may meet more than `most` entries, and more
    /// than one leaf, is not made.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn attempt<const COLLECTS: bool, T, F: FnOnce(&mut Tree<K, V, S>) -> T>(
        &mut self,
        change: Footprint<K>,
        most: usize,
        verb: F,
    ) -> Result<Attempt<T, F>, AllocError> {
        let SharedRangeMap { published, writer, reclaim, gate, .. } = self.map;
        let record = self.record;
        let left = |look: &mut Look| gate.have_left(look, record);
        // Dropped once the thread is outside again, because values' drops may store.
        let mut freed = Freed::new(&self.returned);
        let Some(inside) = self.go_inside() else { return Ok(Attempt::Exclusive(verb)) };
        // SAFETY: GATE-1, GATE-3: this writer is inside, so no thread is exclusive, and none has
        // the writer or its map mutably, and the record's workspace is this writer's.
        let (tree, workspace) = unsafe { (&(*writer.get()).map.tree, &mut *self.record.work.get()) };
        // Due here only after stores that have panicked.
        if COLLECTS && workspace.limbo.is_due(reclaim) {
            workspace.collect(&record.pending, reclaim, false, left, &mut freed);
        }
        // SAFETY: GATE-1: this writer is inside; `workspace` and `len` are its record's, and `tree`
        // is what `published` shows.
        let done = unsafe { leaf_store::store(tree, published, workspace, &record.len, change, most, verb) };
        if let Ok(Attempt::Done(_)) = done {
            if COLLECTS {
                workspace.collect(&record.pending, reclaim, false, left, &mut freed);
            } else {
                self.record.pending.store(workspace.limbo.log.bytes, Ordering::Relaxed);
            }
        }
        drop(inside);
        drop(freed);
        done
    }

    /// Goes inside the gate. `None`: it stays closed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn go_inside(&self) -> Option<Inside<'m, Workspace<K, V, S, R>>> {
        let gate = &self.map.gate;
        if cfg!(debug_assertions) {
            gate.assert_outside();
        }
        let mut spins = 0;
        while spins < MAX_ATTEMPTS {
            let inside = gate.enter(self.record);
            if inside.is_some() {
                return inside;
            }
            spin(&mut spins);
        }
        None
    }

    /// Runs `act` with the handle, whose stores use this writer's memory.
    pub(crate) fn alone<T>(&mut self, act: impl FnOnce(&mut WriteGuard<'m, K, V, R, S>) -> T) -> T {
        let mut write = self.map.write();
        // SAFETY: the record is one of the map's, and the handle has closed the map's gate.
        let lent = unsafe { Lent::new(&mut write, self.record) };
        act(lent.write)
    }

    #[inline]
    fn put(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), StoreError<K>> {
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        let change = Footprint::Replace { span, stores: value.is_some() };
        self.store(change, |part| part.store(span, value, observe))?.unwrap_or(Ok(()))
    }

    #[inline]
    fn take(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
        self.store(Footprint::Remove { key }, |part| part.try_remove(key))?.unwrap_or(Ok(None))
    }

    #[inline]
    fn alter(&mut self, key: K, change: impl FnOnce(&mut V)) -> Result<bool, AllocError> {
        let done = self.store(Footprint::Modify { key }, |part| part.modify(key, change))?;
        Ok(done.transpose()?.is_some())
    }
}

verbs! {
    impl['m, K: Key, V: Clone, R: Reclaim, S: Shape] SharedWriter<'m, K, V, R, S> {
        "concurrent with other writers", StoreError<K>, AllocError
    }
}

/// Whether there is an entry to clear, remove or modify; `true` for any other change.
#[inline]
pub(crate) fn meets<K: Key, V, R: Reclaim, S: Shape>(write: &WriteGuard<'_, K, V, R, S>, change: Footprint<K>) -> bool {
    match change {
        Footprint::Replace { span, stores: false } => write.overlaps(span),
        Footprint::Remove { key } | Footprint::Modify { key } => write.contains_key(key),
        _ => true,
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> Drop for SharedWriter<'_, K, V, R, S> {
    fn drop(&mut self) {
        self.record.give_back();
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> fmt::Debug for SharedWriter<'_, K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWriter").field("map", self.map).finish_non_exhaustive()
    }
}
