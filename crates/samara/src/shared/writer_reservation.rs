//! Reservations of a concurrent writer: memory is allocated first; stores are committed later, and
//! neither allocate nor fail, whatever other writers store meanwhile. Knows how many nodes a store
//! may need in a tree of any height. Does not know how a store is made (`writer`).
//!
//! - **WRITER-RESERVE-1** While a reservation lives, the pools of its writer's record hold what its
//!   remaining stores may need, besides what is left for rebalancing, and the log has room for what
//!   they may note. The writer stores through the reservation alone. `WriteGuard::release` and
//!   `WriteGuard::reclaim` leave this memory where it is, because the record says `reserved`.
//! - **WRITER-RESERVE-2** A reserved store takes nodes and notes from its writer's record alone: a
//!   concurrent store always does, and for an exclusive one the record's workspace replaces the
//!   handle's ([`Lent`](crate::shared::write_guard::Lent)). It collects nothing.
//! - **WRITER-RESERVE-3** A store that meets more entries than were promised, and more than one
//!   leaf holds, is refused before it changes anything.
//!
//! **How many nodes a store needs.** Others may raise the tree meanwhile, so the count assumes the
//! maximum height of a shared map ([`SHARED_HEIGHT`]). On each level a store copies at most three
//! nodes: those on the paths to the first and the last leaf that it meets and to the next leaf, or,
//! if it goes into a gap, to its leaf and to those next to it. It splits at most two: once to make
//! room, and once more if the leaf's form does not admit the keys. At the lowest level it copies or
//! makes as many leaves. [`EACH`] is one more than these five.
//!
//! Inner nodes wholly within the range are copied too. Each of them is neither the first nor the
//! last of its level, so by TREE-5 it has at least `MIN` children, and all entries below it are
//! met. Where earlier stores have left nodes thin (`thinned`), each has at least one entry. If that
//! happens only after the reservation was made, a store that meets more than a leaf's entries may
//! find too few nodes; then it allocates.
//!
//! **Rebalancing** never fails, and nothing depends on it but the fill of nodes (TREE-5). So it has
//! nodes of its own, for the height that the tree has at the reservation, and it cannot take those
//! that stores need ([`NodePool::promise`](crate::node::pool::NodePool::promise)). If others raise
//! the tree meanwhile, a node may stay thin.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::reclaim::crossbeam::Epoch;
use crate::shared::SharedRangeMap;
use crate::shared::deferred_drop::Freed;
use crate::shared::footprint::Footprint;
use crate::shared::leaf_store::Attempt;
use crate::shared::limbo::NOTES;
use crate::shared::verbs::verbs;
use crate::shared::workspace::Workspace;
use crate::shared::write_guard::WriteGuard;
use crate::shared::writer::{MAX_ATTEMPTS, SharedWriter, meets};
use crate::shared::writer_gate::Look;
use crate::sync::{Ordering, spin};
use crate::tree::log::ROOTS;
use crate::tree::{SHARED_HEIGHT, Tree};
use crate::types::displaced::{Displaced, unobserved};
use crate::types::error::{AllocError, ReservedError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

/// Nodes that a store needs on each level.
const EACH: usize = 6;

/// Nodes that rebalancing may copy on each level: a node and its neighbour, on two paths.
const REBALANCED: usize = 4;

/// What stores may need.
#[derive(Clone, Copy)]
struct Need {
    leaves: usize,
    inners: usize,
    /// How many of these leaves and inner nodes are for rebalancing.
    rebalancing: (usize, usize),
    notes: usize,
}

impl Need {
    /// The memory that `stores` stores need, if each meets at most `most` entries.
    #[inline]
    fn new<K: Key, V, S: Shape>(tree: &Tree<K, V, S>, thinned: bool, stores: usize, most: usize) -> Self {
        let within = if thinned {
            most.saturating_mul(SHARED_HEIGHT)
        } else {
            // The number of nodes of each level that can have that many entries below them.
            let (mut nodes, mut all) = (most / Leaf::<K, V, S>::MIN, 0_usize);
            while nodes > 0 {
                nodes /= Inner::<K, S>::MIN;
                all = all.saturating_add(nodes);
            }
            all
        };
        let each = REBALANCED * (tree.height() + 1);
        let inners = (EACH * (SHARED_HEIGHT + 1) + each).saturating_add(within);
        let leaves = EACH + REBALANCED;
        // Each leaf that is met is noted, and each node that was copied; roots may go at the end.
        let notes = inners.saturating_add(leaves + 1 + ROOTS).saturating_add(most);
        Need {
            leaves: stores.saturating_mul(leaves),
            inners: stores.saturating_mul(inners),
            rebalancing: (stores.saturating_mul(REBALANCED), stores.saturating_mul(each)),
            // `Log::reserve` asks for room beyond what it needs.
            notes: stores.saturating_mul(notes).saturating_add(1 + ROOTS),
        }
    }

    /// Whether this is more than a workspace keeps in any case.
    fn is_large<K: Key, V, S: Shape>(self) -> bool {
        self.leaves > NodePool::<Leaf<K, V, S>>::LIMIT
            || self.inners > NodePool::<Inner<K, S>>::LIMIT
            || self.notes > NOTES
    }
}

impl<K: Key, V, S: Shape, R: Reclaim> Workspace<K, V, S, R> {
    /// Sets memory aside. O(1) if it is there already.
    #[inline]
    fn set_aside(&mut self, need: Need) -> Result<(), AllocError> {
        let Workspace { part, limbo } = self;
        limbo.log.retired.try_reserve(need.notes).map_err(|_| AllocError)?;
        part.set_aside(need.leaves, need.inners)?;
        part.leaves.promise(need.rebalancing.0);
        part.inners.promise(need.rebalancing.1);
        Ok(())
    }
}

impl<'m, K: Key, V, R: Reclaim, S: Shape> SharedWriter<'m, K, V, R, S> {
    /// Sets memory aside for `stores` stores that meet at most `entries` entries each. A store may
    /// always meet as many as a leaf holds (29 with values of up to 32 bytes).
    ///
    /// Stores through the returned reservation neither allocate nor fail for lack of memory,
    /// whatever others store and whatever snapshots are taken meanwhile. (A value's own `clone` may
    /// still allocate.) Others may store, and take the handle and snapshots, while the reservation
    /// lives: plan, reserve, do what takes long or may fail, then commit. One guarantee is weaker:
    /// if a store since the reservation could not rebalance, for lack of memory or because a
    /// value's `clone` panicked, then a store that meets more entries than a leaf holds may need
    /// memory.
    ///
    /// # Complexity
    /// O(1) and no allocation, if the memory is there from the reservation before: a writer keeps
    /// up to 1,024 nodes of each kind, at most 1 MiB of each. Otherwise it allocates up to ten
    /// leaves and about 110 inner nodes per store, and one more inner node per about 64 entries.
    /// What exceeds those limits is given back when the reservation is dropped.
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before.
    ///
    /// # Examples
    /// ```
    /// # use samara::{ReservedError, SharedRangeMap};
    /// let map = SharedRangeMap::<u64, _>::new();
    /// let mut writer = map.writer()?;
    /// let mut commit = writer.reserve(3, 8)?;
    /// map.write().insert(200..=299, 'z')?; // others go on
    /// commit.insert(0..=99, 'a')?;
    /// commit.update(|map| {
    ///     map.clear_range(40..=49, |_| ())?;
    ///     map.insert(100..=149, 'b') // readers see both at once
    /// })??;
    /// assert_eq!(commit.insert(0..=9, 'c'), Err(ReservedError::UsedUp));
    /// assert_eq!(map.len(), 4);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline]
    pub fn reserve(
        &mut self,
        stores: usize,
        entries: usize,
    ) -> Result<WriterReservation<'_, 'm, K, V, R, S>, AllocError> {
        let most = entries.max(Leaf::<K, V, S>::PACKED);
        let SharedRangeMap { gate, published, writer, reclaim, .. } = self.map;
        let record = self.record;
        // Dropped once the thread is outside again, because values' drops may store.
        let mut freed = Freed::new(&self.returned);
        let mut set_aside = || {
            // SAFETY: GATE-1, GATE-3: this writer is inside or has the handle, so no other thread
            // has the writer or its map mutably, and the record's workspace is this writer's.
            let (tree, workspace) = unsafe { (&(*writer.get()).map.tree, &mut *record.work.get()) };
            // Reserved stores do not collect.
            let left = |look: &mut Look| gate.have_left(look, record);
            workspace.collect(&record.pending, reclaim, false, left, &mut freed);
            let thinned = tree.thinned || published.tally.0.thinned.load(Ordering::Relaxed);
            let need = Need::new(tree, thinned, stores, most);
            workspace.set_aside(need)?;
            record.reserved.store(true, Ordering::Relaxed);
            Ok(need.is_large::<K, V, S>())
        };
        let (mut spins, mut done) = (0, None);
        while spins < MAX_ATTEMPTS {
            if let Some(inside) = gate.enter(record) {
                done = Some(set_aside());
                drop(inside);
                break;
            }
            spin(&mut spins);
        }
        let large = match done {
            Some(done) => done,
            None => {
                let write = self.map.write();
                let done = set_aside();
                drop(write);
                done
            }
        };
        drop(freed);
        Ok(WriterReservation { large: large?, writer: self, left: stores, most })
    }
}

/// Memory set aside for a number of stores of a [`SharedWriter`], which are committed through it:
/// see [`SharedWriter::reserve`].
///
/// Every call that is made counts as one store, whatever it met, and so does each call within an
/// [`update`](Self::update). A call that is refused does not count. Stores are concurrent with
/// those of others where a [`SharedWriter`]'s are. What they take out is not freed through the
/// reservation, but by the next reservation, the writer's next store, or [`WriteGuard::reclaim`].
pub struct WriterReservation<'w, 'm, K: Key, V, R: Reclaim = Epoch, S: Shape = Normal> {
    writer: &'w mut SharedWriter<'m, K, V, R, S>,
    left: usize,
    /// Number of entries that a store may meet.
    most: usize,
    /// Whether memory is to be given back.
    large: bool,
}

impl<'m, K: Key, V: Clone, R: Reclaim, S: Shape> WriterReservation<'_, 'm, K, V, R, S> {
    /// Number of stores that can still be made.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// The map that the stores go to.
    #[must_use]
    pub fn map(&self) -> &'m SharedRangeMap<K, V, R, S> {
        self.writer.map
    }

    /// The writer for a store, which is counted, if one is left.
    pub(crate) fn take_store(&mut self) -> Option<&mut SharedWriter<'m, K, V, R, S>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.writer)
    }

    /// Takes back the count of a store that was not made.
    pub(crate) fn give_store_back(&mut self) {
        self.left += 1;
    }

    /// Makes one store, unless none is left.
    #[inline]
    fn commit<T>(
        &mut self,
        store: impl FnOnce(&mut SharedWriter<'m, K, V, R, S>) -> Result<T, ReservedError<K>>,
    ) -> Result<T, ReservedError<K>> {
        // Counted first: an observer or a clone that panics may leave nodes used.
        self.left = self.left.checked_sub(1).ok_or(ReservedError::UsedUp)?;
        store(self.writer).inspect_err(|_| self.left += 1)
    }

    /// Makes a change by `verb`, concurrently with other writers if possible. `None`: there is
    /// no entry to clear, remove or modify.
    #[inline]
    fn store<T>(
        &mut self,
        change: Footprint<K>,
        verb: impl FnOnce(&mut Tree<K, V, S>) -> Result<T, StoreError<K>>,
    ) -> Result<Option<T>, ReservedError<K>> {
        let most = self.most;
        self.commit(|writer| match writer.attempt::<false, _, _>(change, most, verb).map_err(failed)? {
            Attempt::Done(done) => done.map(Some).map_err(stored),
            Attempt::NoEntry => Ok(None),
            Attempt::Exclusive(verb) => writer.alone(|write| {
                if !meets(write, change) {
                    return Ok(None);
                }
                if let Footprint::Replace { span, .. } = change {
                    within(write.range(span), most)?;
                }
                write.change(change, verb).map_err(failed)?.map(Some).map_err(stored)
            }),
        })
    }

    #[inline]
    fn put(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), ReservedError<K>> {
        if span.is_empty() {
            return Err(if self.left == 0 { ReservedError::UsedUp } else { ReservedError::EmptyRange(span) });
        }
        let change = Footprint::Replace { span, stores: value.is_some() };
        self.store(change, |part| part.store(span, value, observe)).map(|_| ())
    }

    fn take(&mut self, key: K) -> Result<Option<(Span<K>, V)>, ReservedError<K>> {
        let change = Footprint::Remove { key };
        self.store(change, |part| part.try_remove(key).map_err(StoreError::from)).map(Option::flatten)
    }

    fn alter(&mut self, key: K, change: impl FnOnce(&mut V)) -> Result<bool, ReservedError<K>> {
        let verb = |part: &mut Tree<K, V, S>| part.modify(key, change).map_err(StoreError::from);
        self.store(Footprint::Modify { key }, verb).map(|done| done.is_some())
    }

    /// Makes several stores one instant for readers, from the memory set aside. It takes the handle
    /// for itself, and so waits for it. `change` must use the map only through its argument: the
    /// rules for observers hold for it.
    ///
    /// Each call in it counts as a store, and an update without any counts as one. A call that is
    /// refused changes nothing; those before it are made in any case, also if `change` panics
    /// later. O(log n), and what the stores take.
    ///
    /// # Errors
    /// [`ReservedError::UsedUp`] if no store is left; `change` is not called.
    ///
    /// # Examples
    /// ```
    /// # use samara::SharedRangeMap;
    /// let map: SharedRangeMap<u64, _> = [(0..=9, 'a')].into_iter().collect();
    /// let mut writer = map.writer()?;
    /// let mut commit = writer.reserve(2, 4)?;
    /// let moved = commit.update(|map| {
    ///     assert_eq!(map.get(5).map(|(_, value)| *value), Some('a'));
    ///     let Some((_, value)) = map.remove(0)? else { return Ok(false) };
    ///     map.insert(100..=109, value).map(|()| true)
    /// })??;
    /// assert!(moved && commit.remaining() == 0 && map.pin().contains_key(105));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn update<T>(
        &mut self,
        change: impl FnOnce(&mut WriterUpdate<'_, K, V, S>) -> T,
    ) -> Result<T, ReservedError<K>> {
        let (before, most) = (self.left, self.most);
        if before == 0 {
            return Err(ReservedError::UsedUp);
        }
        let left = &mut self.left;
        // A change of everything is made in the whole tree.
        let everything = Footprint::Replace { span: Span::FULL, stores: false };
        let store = |part: &mut Tree<K, V, S>| {
            /// Counts one store at least, also if the update panics.
            struct Counted<'a>(&'a mut usize, usize);
            impl Drop for Counted<'_> {
                fn drop(&mut self) {
                    *self.0 = (*self.0).min(self.1);
                }
            }
            let counted = Counted(left, before - 1);
            change(&mut WriterUpdate { part, left: counted.0, most })
        };
        self.writer.alone(|write: &mut WriteGuard<'m, K, V, R, S>| write.change(everything, store)).map_err(failed)
    }
}

/// The map within an update: see [`WriterReservation::update`].
pub struct WriterUpdate<'a, K: Key, V, S: Shape = Normal> {
    /// The whole map, as a store's part.
    part: &'a mut Tree<K, V, S>,
    left: &'a mut usize,
    most: usize,
}

impl<K: Key, V: Clone, S: Shape> WriterUpdate<'_, K, V, S> {
    /// Number of stores that can still be made.
    #[must_use]
    pub fn remaining(&self) -> usize {
        *self.left
    }

    /// The entry that holds `key`, with the stores of this update. O(log n).
    #[must_use]
    pub fn get(&self, key: K) -> Option<(Span<K>, &V)> {
        self.part.range(Span::new(key, key)).next()
    }

    /// Makes one store, unless none is left.
    fn commit<T>(
        &mut self,
        store: impl FnOnce(&mut Tree<K, V, S>) -> Result<T, ReservedError<K>>,
    ) -> Result<T, ReservedError<K>> {
        *self.left = self.left.checked_sub(1).ok_or(ReservedError::UsedUp)?;
        store(self.part).inspect_err(|_| *self.left += 1)
    }

    fn put(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), ReservedError<K>> {
        let most = self.most;
        self.commit(|part| {
            if span.is_empty() {
                return Err(ReservedError::EmptyRange(span));
            }
            within(part.range(span), most)?;
            part.store(span, value, observe).map_err(stored)
        })
    }

    fn take(&mut self, key: K) -> Result<Option<(Span<K>, V)>, ReservedError<K>> {
        self.commit(|part| part.try_remove(key).map_err(failed))
    }

    fn alter(&mut self, key: K, change: impl FnOnce(&mut V)) -> Result<bool, ReservedError<K>> {
        self.commit(|part| {
            let is_there = part.range(Span::new(key, key)).next().is_some();
            part.modify(key, change).map_err(failed)?;
            Ok(is_there)
        })
    }
}

verbs! {
    impl['m, K: Key, V: Clone, R: Reclaim, S: Shape] WriterReservation<'_, 'm, K, V, R, S> {
        "from the memory set aside", ReservedError<K>, ReservedError<K>
    }
}

verbs! {
    impl[K: Key, V: Clone, S: Shape] WriterUpdate<'_, K, V, S> {
        "as a part of the update", ReservedError<K>, ReservedError<K>
    }
}

/// Refuses a store that meets more than `most` entries.
fn within<K: Key>(mut met: impl Iterator, most: usize) -> Result<(), ReservedError<K>> {
    if met.nth(most).is_some() { Err(ReservedError::MeetsMore(most)) } else { Ok(()) }
}

/// The error of a reservation for the error of a store through it.
fn stored<K: Key>(error: StoreError<K>) -> ReservedError<K> {
    match error {
        StoreError::EmptyRange(span) => ReservedError::EmptyRange(span),
        StoreError::Alloc => failed(AllocError),
    }
}

fn failed<K: Key>(AllocError: AllocError) -> ReservedError<K> {
    ReservedError::Alloc
}

/// Runs after a panic in a store, too.
impl<K: Key, V, R: Reclaim, S: Shape> Drop for WriterReservation<'_, '_, K, V, R, S> {
    #[inline]
    fn drop(&mut self) {
        let SharedWriter { map, record, .. } = &*self.writer;
        record.reserved.store(false, Ordering::Relaxed);
        // Does not wait: `release` gives back what is not given back now.
        if self.large
            && let Some(_inside) = map.gate.enter(record)
        {
            // SAFETY: GATE-3: this writer is inside.
            let Workspace { part, limbo } = unsafe { &mut *record.work.get() };
            part.leaves.trim();
            part.inners.trim();
            limbo.tidy(NOTES);
        }
    }
}

impl<K: Key, V, R: Reclaim, S: Shape> fmt::Debug for WriterReservation<'_, '_, K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterReservation").field("remaining", &self.left).finish_non_exhaustive()
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for WriterUpdate<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterUpdate").field("remaining", &*self.left).finish_non_exhaustive()
    }
}
