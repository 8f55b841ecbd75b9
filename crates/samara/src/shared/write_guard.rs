//! The write handle: each operation is one store, and each store is atomic for readers. Knows the
//! operations and which entries each one looks at; `publish` makes them visible.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::reclaim::crossbeam::Epoch;
use crate::shared::SharedRangeMap;
use crate::shared::deferred_drop::Freed;
use crate::shared::footprint::Footprint;
use crate::shared::lock::Held;
use crate::shared::publish::WriterSide;
use crate::shared::root::Published;
use crate::shared::verbs::verbs;
use crate::shared::workspace::Workspace;
use crate::shared::writer::meets;
use crate::shared::writer_gate::{Closed, WriterGate, WriterRecord};
use crate::sync::Ordering;
use crate::tree::Tree;
use crate::types::displaced::{Displaced, unobserved};
use crate::types::error::{AllocError, BuildError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ops::Deref;
use core::ptr::NonNull;

/// The write handle, the right to write: see [`SharedRangeMap::write`]. It dereferences to the map,
/// so every `&` method of [`RangeMap`] is available; the map does not change until the next store
/// of this handle.
///
/// It stores by the verbs that every writer of a shared map has: [`insert`](Self::insert),
/// [`replace`](Self::replace), [`clear_range`](Self::clear_range), [`remove`](Self::remove),
/// [`modify`](Self::modify); and by [`insert_merging`](Self::insert_merging). Everything else that
/// a [`RangeMap`] does goes through [`update`](Self::update).
///
/// # Consistency
/// Each call is one store, and atomic for readers: see [`SharedRangeMap`]. A call that fails leaves
/// the map as it was.
///
/// After a panic the store has happened as a whole or not at all. It has not happened if an
/// observer or a predicate panics, or a value's `clone` while the store is prepared. It has
/// happened if a `clone` panics while nodes are rebalanced afterwards, or if the `drop` of a value
/// that the store took out panics. The `drop` of a value that an earlier call took out may run
/// before the store or after it.
///
/// Observers, predicates, the closure of [`modify`](Self::modify) and values' `clone` run while the
/// store is under way. They may look at the map through guards, but must not take a snapshot of it
/// or write to it. That panics, or without `std` waits for ever, as the page of [`SharedRangeMap`]
/// says. The closure of [`update`](Self::update) may take snapshots. It must not write to the map,
/// except to the one that it is given.
///
/// Values that no reader sees any more are dropped once the handle has been dropped. Values that
/// one call has found free may also be dropped in a later call of the same handle.
///
/// # Errors
/// Every call may need memory, even those that need none on a [`RangeMap`]: what changes is copied.
///
/// # Examples
/// ```
/// use samara::{SharedRangeMap, Span};
/// let map = SharedRangeMap::<u64, _>::new();
/// let mut write = map.write();
/// write.insert(0..=99, 'a')?;
/// write.insert(40..=49, 'b')?;
/// assert_eq!(write.len(), 3);
/// assert_eq!(write.remove(45)?, Some((Span::new(40, 49), 'b')));
/// assert_eq!(map.pin().get(45), None);
/// assert!(write.modify(50, |value| *value = 'c')?);
/// write.update(|map| map.split_at(70))?;
/// assert_eq!(map.pin().get(70), Some((Span::new(70, 99), &'c')));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct WriteGuard<'m, K: Key, V, R: Reclaim = Epoch, S: Shape = Normal> {
    published: &'m Published,
    reclaim: &'m R,
    /// The writer, whose lock is held. Not a reference: it would still exist while `_held` releases
    /// the lock, when another thread may make its own.
    writer: NonNull<WriterSide<K, V, S, R>>,
    /// Makes the type invariant in what the writer holds, as a reference would.
    kind: PhantomData<&'m mut WriterSide<K, V, S, R>>,
    /// Whether a store may collect what was taken out, which may need memory.
    pub(crate) collects: bool,
    gate: &'m WriterGate<Workspace<K, V, S, R>>,
    /// Keeps concurrent writers out. Dropped before `_held`, so the gate is open before the lock is
    /// released.
    _closed: Closed<'m, Workspace<K, V, S, R>>,
    _held: Held<'m>,
    /// Nodes that the last call has found free. Dropped after `_held`, because fields are dropped
    /// in this order and values' drops may store.
    freed: Freed<'m, K, V, S>,
}

impl<'m, K: Key, V, R: Reclaim, S: Shape> WriteGuard<'m, K, V, R, S> {
    /// # Safety
    /// `held` is the map's lock. `closed` has closed the map's gate, and no thread is inside.
    pub(crate) unsafe fn new(
        map: &'m SharedRangeMap<K, V, R, S>,
        held: Held<'m>,
        closed: Closed<'m, Workspace<K, V, S, R>>,
    ) -> Self {
        let gate = &map.gate;
        // SAFETY: the pointer is a cell's, so it is not null. GATE-3: the lock is held and no
        // thread is inside, so no other thread uses the writer now.
        let writer = unsafe {
            let mut writer = NonNull::new_unchecked(map.writer.get());
            if !gate.is_empty() {
                let WriterSide { map: whole, added, .. } = writer.as_mut();
                whole.tree.thinned |= map.published.tally.0.thinned.load(Ordering::Relaxed);
                *added = gate.len();
                whole.tree.len = map.published.tally.0.len.load(Ordering::Relaxed).wrapping_add(*added);
            }
            writer
        };
        WriteGuard {
            published: &map.published,
            reclaim: &map.reclaim,
            writer,
            kind: PhantomData,
            collects: true,
            gate,
            _closed: closed,
            _held: held,
            freed: Freed::new(&map.returned),
        }
    }

    /// The writer, and what else a store needs.
    ///
    /// A handle for long-lived values must not become one for short-lived values, which could then
    /// be stored:
    /// ```compile_fail
    /// # use samara::WriteGuard;
    /// fn shorter<'m, 'a>(guard: WriteGuard<'m, u64, &'static str>) -> WriteGuard<'m, u64, &'a str> {
    ///     guard
    /// }
    /// ```
    pub(crate) fn writer(&mut self) -> (&mut WriterSide<K, V, S, R>, &'m Published, &'m R) {
        // SAFETY: the lock is held and no thread is inside the gate, so no other one uses the
        // writer.
        (unsafe { self.writer.as_mut() }, self.published, self.reclaim)
    }

    /// Asks the reclaimer now, and frees what no reader can see. Returns
    /// [`pending`](SharedRangeMap::pending) after it. Values that it finds free are dropped when
    /// the handle is dropped, or in a later call.
    ///
    /// A reclaimer may have to be asked several times before it knows ([`Epoch`](crate::Epoch) many
    /// times, after many threads have come and gone). It does not help while a guard is held that
    /// may see what was taken out.
    pub fn reclaim(&mut self) -> usize {
        self.collect(true);
        let reclaim = self.reclaim;
        for record in self.gate.iter() {
            let mut freed = Freed::new(self.freed.returned());
            // SAFETY: GATE-3: the gate is closed and no thread is inside, so their `work` is this
            // handle's.
            let work = unsafe { &mut *record.work.get() };
            // Relaxed: set while its writer was inside, or under the handle's lock.
            if record.reserved.load(Ordering::Relaxed) {
                work.gather(&record.pending, reclaim, |_| true, &mut freed); // all are outside
            } else {
                work.collect(&record.pending, reclaim, true, |_| true, &mut freed);
            }
            self.freed.append(freed);
        }
        self.published.tally.0.pending.load(Ordering::Relaxed) + self.gate.pending()
    }

    /// Gives back the nodes that are kept for the next stores, by this handle and by every
    /// [`SharedWriter`](crate::SharedWriter) that ever existed. The map does not change: nodes that
    /// a bulk build made stay where they are ([`shrink_to_fit`](Self::shrink_to_fit) moves them).
    /// The memory of a [`WriterReservation`](crate::WriterReservation) also stays, and so do, until
    /// its next store, the leaves that a `SharedWriter` emptied last. O(nodes given back).
    pub fn release(&mut self) {
        let returned = self.freed.returned();
        self.freed.clear();
        let workspace = &mut self.writer().0.workspace;
        returned.take(&mut workspace.part.leaves);
        workspace.release();
        for record in self.gate.iter() {
            // Relaxed: set while its writer was inside, or under the handle's lock.
            if !record.reserved.load(Ordering::Relaxed) {
                // SAFETY: GATE-3: the gate is closed and no thread is inside, so their `work` is
                // this handle's.
                unsafe { (*record.work.get()).release() };
            }
        }
    }

    /// Collects what was taken out, if that is due or `now`.
    fn collect(&mut self, now: bool) {
        let (published, reclaim) = (self.published, self.reclaim);
        // SAFETY: as in `writer`.
        let writer = unsafe { self.writer.as_mut() };
        if now || writer.workspace.limbo.is_due(reclaim) {
            self.freed.clear(); // a handle kept for many stores does not keep what they free
        }
        writer.workspace.collect(&published.tally.0.pending, reclaim, now, |_| true, &mut self.freed);
    }
}

/// The handle, whose stores use the memory and the limbo of a concurrent writer until this is
/// dropped: also when a store's panic unwinds. They collect nothing.
pub(crate) struct Lent<'a, 'm, K: Key, V, R: Reclaim, S: Shape> {
    pub(crate) write: &'a mut WriteGuard<'m, K, V, R, S>,
    record: &'m WriterRecord<Workspace<K, V, S, R>>,
}

impl<'a, 'm, K: Key, V, R: Reclaim, S: Shape> Lent<'a, 'm, K, V, R, S> {
    /// # Safety
    /// The record is one of the gate that the handle has closed.
    pub(crate) unsafe fn new(
        write: &'a mut WriteGuard<'m, K, V, R, S>,
        record: &'m WriterRecord<Workspace<K, V, S, R>>,
    ) -> Self {
        write.collects = false;
        let mut lent = Lent { write, record };
        lent.swap();
        lent
    }

    fn swap(&mut self) {
        // SAFETY: GATE-3: the handle has closed the record's gate, as the caller of `new` promises,
        // and no thread is inside, so the record's `work` is the handle's.
        let work = unsafe { &mut *self.record.work.get() };
        mem::swap(&mut self.write.writer().0.workspace, work);
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> Drop for Lent<'_, '_, K, V, R, S> {
    fn drop(&mut self) {
        let bytes = self.write.writer().0.workspace.limbo.log.bytes;
        self.record.pending.store(bytes, Ordering::Relaxed);
        self.swap();
        self.write.collects = true;
    }
}

impl<K: Key, V: Clone, R: Reclaim, S: Shape> WriteGuard<'_, K, V, R, S> {
    #[inline]
    pub(crate) fn change<T>(
        &mut self,
        change: Footprint<K>,
        verb: impl FnOnce(&mut Tree<K, V, S>) -> T,
    ) -> Result<T, AllocError> {
        let (collects, reclaim) = (self.collects, self.reclaim);
        // Due here only after stores that have panicked.
        if collects && self.writer().0.workspace.limbo.is_due(reclaim) {
            self.collect(false);
        }
        let (writer, published, _) = self.writer();
        let done = writer.change(published, change, verb)?;
        if collects {
            self.collect(false);
        }
        Ok(done)
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
        if !meets(self, change) {
            return Ok(());
        }
        self.change(change, |part| part.store(span, value, observe))?
    }

    #[inline]
    fn take(&mut self, key: K) -> Result<Option<(Span<K>, V)>, AllocError> {
        let change = Footprint::Remove { key };
        if meets(self, change) { self.change(change, |part| part.try_remove(key))? } else { Ok(None) }
    }

    fn alter(&mut self, key: K, edit: impl FnOnce(&mut V)) -> Result<bool, AllocError> {
        let change = Footprint::Modify { key };
        if !meets(self, change) {
            return Ok(false);
        }
        self.change(change, |part| part.modify(key, edit))??;
        Ok(true)
    }

    /// [`RangeMap::insert_merging`], as one atomic store. O(log n + entries met).
    ///
    /// # Errors
    /// [`StoreError`]; the map is as before.
    pub fn insert_merging(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> Result<Span<K>, StoreError<K>> {
        let span = span.into();
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        let whole = self.joined(span, &value, joins);
        self.insert(whole, value)?;
        Ok(whole)
    }

    /// Makes many operations one atomic store. `change` gets the map as it is and may do anything
    /// with it. What it leaves is published if it returns `Ok`. If it returns an error or panics,
    /// nothing has changed. Every operation of [`RangeMap`] is available: cursors, entries,
    /// `retain`, `append`, `split_at`, `resize`.
    ///
    /// The map that `change` gets shares all nodes with the published one: each part of it is
    /// copied when it is first written to, as after a [`snapshot`](RangeMap::snapshot). The result
    /// stays compact however many updates there are, because nodes that grow thin are merged.
    ///
    /// As on any map that shares nodes, operations that return no error (`retain`, `merge_at`,
    /// `get_mut`) end the program where memory for copies runs out; [`RangeMap::unshare`] copies in
    /// advance, and returns the error. An update also takes a snapshot and frees what it can at
    /// once: to change one entry, a verb is quicker.
    ///
    /// # Errors
    /// The error that `change` returns; [`AllocError`], converted to that type.
    ///
    /// # Examples
    /// ```
    /// # use samara::{AllocError, SharedRangeMap};
    /// let map = SharedRangeMap::<u64, _>::new();
    /// map.write().insert(0..=9, 1)?;
    /// map.write().update(|map| {
    ///     map.insert(20..=29, 2).map_err(|_| AllocError)?;
    ///     map.retain(|_, value| *value != 1);
    ///     Ok::<_, AllocError>(())
    /// })?;
    /// assert!(map.pin().iter().map(|(_, value)| *value).eq([2]));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn update<T, E: From<AllocError>>(
        &mut self,
        change: impl FnOnce(&mut RangeMap<K, V, S>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        V: Send + Sync,
    {
        let mut map = self.try_snapshot()?;
        let done = change(&mut map)?;
        self.set(map)?;
        Ok(done)
    }

    /// Sets memory aside for the next [`set`](Self::set), which then cannot fail, unless another
    /// store, [`reclaim`](Self::reclaim) or [`release`](Self::release) comes between. O(1).
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before.
    pub fn reserve_set(&mut self) -> Result<(), AllocError> {
        self.writer().0.workspace.limbo.log.reserve()
    }

    /// Replaces the whole map by `map`, as one atomic store (arc-swap calls this a store). O(nodes
    /// of `map` that are new to this map).
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    pub fn set(&mut self, map: RangeMap<K, V, S>) -> Result<(), AllocError> {
        let (writer, published, _) = self.writer();
        writer.set(published, map)?;
        // The old map may be large, and counts as one node here.
        self.collect(true);
        Ok(())
    }

    /// Packs the entries into as few nodes as they need, as one atomic store, and gives back the
    /// remaining memory: the nodes that are kept for the next stores ([`release`](Self::release)),
    /// and slabs of bulk builds that are little used.
    ///
    /// It needs memory for all new nodes first, and clones each value once. What it replaces is
    /// freed when no reader and no snapshot sees it any more ([`reclaim`](Self::reclaim)). O(n).
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// # use samara::SharedRangeMap;
    /// let map: SharedRangeMap<u64, u64> = (0..10_000).map(|i| (10 * i..=10 * i + 4, i)).collect();
    /// map.write().update(|map| {
    ///     map.retain(|span, _| span.first % 1000 == 0);
    ///     Ok::<_, samara::AllocError>(())
    /// })?;
    /// map.write().shrink_to_fit()?;
    /// assert_eq!(map.len(), 100);
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn shrink_to_fit(&mut self) -> Result<(), AllocError> {
        let packed = RangeMap::from_sorted(self.iter().map(|(span, value)| (span, value.clone())));
        self.set(packed.map_err(|error: BuildError<K>| {
            debug_assert!(matches!(error, BuildError::Alloc), "the entries of a map are sorted");
            AllocError
        })?)?;
        self.release();
        Ok(())
    }

    /// Removes every entry, as one atomic store. O(1), apart from what is freed now or later.
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    pub fn clear(&mut self) -> Result<(), AllocError> {
        self.set(RangeMap { tree: Tree::new() })
    }
}

verbs! {
    impl[K: Key, V: Clone, R: Reclaim, S: Shape] WriteGuard<'_, K, V, R, S> {
        "as one atomic store", StoreError<K>, AllocError
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> Deref for WriteGuard<'_, K, V, R, S> {
    type Target = RangeMap<K, V, S>;

    fn deref(&self) -> &RangeMap<K, V, S> {
        // SAFETY: the lock is held and the gate is closed, so no other thread changes the writer; a
        // store borrows `self` mutably.
        unsafe { &self.writer.as_ref().map }
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> fmt::Debug for WriteGuard<'_, K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard").field("len", &self.len()).finish_non_exhaustive()
    }
}
