//! Reservations of a shared map: memory is allocated first; stores are committed later, and neither
//! allocate nor fail. Knows how many nodes a store may need.

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::reclaim::crossbeam::Epoch;
use crate::shared::limbo::NOTES;
use crate::shared::publish::Writer;
use crate::shared::write_guard::WriteGuard;
use crate::tree::retired::ROOTS;
use crate::types::displaced::Displaced;
use crate::types::error::{AllocError, ReservedError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

impl<K: Key, V: Clone, S: Shape, R: Reclaim> Writer<K, V, S, R> {
    /// Sets aside what `stores` stores may need, wherever they go.
    ///
    /// A store needs nodes for three things:
    /// - It copies the paths to the first and the last leaf that it meets and to the next leaf, and
    ///   those leaves.
    /// - It rebalances on two paths, with one or two neighbours per level.
    /// - It splits a leaf at most twice, and the nodes above.
    ///
    /// Inner nodes wholly within its range are copied, and the copies fall free at once. So all
    /// stores together need as many of these as the map has inner nodes. The log needs room for
    /// everything that is taken out, which is at most all of these nodes.
    fn set_aside(&mut self, stores: usize) -> Result<(), AllocError> {
        let tree = &self.map.tree;
        let (mut inners, mut leaves) = (0, 0);
        if let Some(root) = tree.root {
            // SAFETY: TREE-4: the root is live, at its height.
            unsafe { count::<K, S>(root, tree.height(), &mut inners, &mut leaves) };
        }
        let levels = tree.height() + 1;
        let each = stores.checked_mul(12).ok_or(AllocError)?;
        let each_inner = each.checked_mul(levels).ok_or(AllocError)?;
        let all = inners.checked_add(each_inner).ok_or(AllocError)?;
        let noted = all.checked_add(each).and_then(|nodes| nodes.checked_add(leaves + 1 + ROOTS)).ok_or(AllocError)?;
        self.workspace.limbo.log.retired.try_reserve(noted).map_err(|_| AllocError)?;
        self.workspace.part.ensure(each, all)
    }

    /// Gives back what was set aside and not used, beyond what is kept in any case.
    fn give_back(&mut self) {
        let part = &mut self.workspace.part;
        part.leaves.trim();
        part.inners.trim();
        self.workspace.limbo.tidy(NOTES);
    }
}

/// Adds the number of nodes below `at`, and `at` itself, to `inners` and `leaves`.
///
/// # Safety
/// A live node at `level` of a tree.
unsafe fn count<K: Key, S: Shape>(at: Raw, level: usize, inners: &mut usize, leaves: &mut usize) {
    if level == 0 {
        *leaves += 1;
        return;
    }
    *inners += 1;
    // SAFETY: the caller promises a live node at `level`; the children of a live node are live.
    unsafe {
        let node = Inner::<K, S>::from_raw(at);
        if level == 1 {
            *leaves += node.len();
            return;
        }
        for i in 0..node.len() {
            count::<K, S>(node.child(i), level - 1, inners, leaves);
        }
    }
}

impl<'m, K: Key, V: Clone, R: Reclaim, S: Shape> WriteGuard<'m, K, V, R, S> {
    /// Sets memory aside for `stores` stores, wherever they go.
    ///
    /// Stores through the returned reservation neither allocate nor fail for lack of memory,
    /// whatever snapshots are taken meanwhile. (A value's own `clone` may still allocate.) What is
    /// not used is given back when the reservation is dropped, except the 1,024 nodes of each kind
    /// that are kept for later stores.
    ///
    /// # Complexity
    /// O(inner nodes), which is O(n / 600). It allocates up to about a dozen nodes per store and
    /// level, and as many as the map has inner nodes.
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before.
    ///
    /// # Examples
    /// ```
    /// # use samara::{ReservedError, SharedRangeMap};
    /// let map = SharedRangeMap::<u64, _>::new();
    /// let mut write = map.write();
    /// let mut commit = write.reserve(2)?;
    /// commit.insert(0..=99, 'a')?;
    /// commit.clear_range(40..=49, |_| ())?;
    /// assert_eq!(commit.insert(0..=9, 'c'), Err(ReservedError::UsedUp));
    /// assert_eq!(map.len(), 2);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn reserve(&mut self, stores: usize) -> Result<SharedReservation<'_, 'm, K, V, R, S>, AllocError> {
        self.writer().0.set_aside(stores)?;
        Ok(SharedReservation { write: self, left: stores })
    }
}

/// Memory set aside for a number of stores, which are committed through it: see
/// [`WriteGuard::reserve`].
///
/// Every call that is made counts as one store, whatever it met. A call that is refused does not
/// count. What these stores take out is not freed through the reservation: the first store after
/// it, or [`WriteGuard::reclaim`], looks at it.
pub struct SharedReservation<'w, 'm, K: Key, V: Clone, R: Reclaim = Epoch, S: Shape = Normal> {
    write: &'w mut WriteGuard<'m, K, V, R, S>,
    left: usize,
}

impl<'m, K: Key, V: Clone, R: Reclaim, S: Shape> SharedReservation<'_, 'm, K, V, R, S> {
    /// Number of stores that can still be made.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// The map as it is.
    #[must_use]
    pub fn map(&self) -> &WriteGuard<'m, K, V, R, S> {
        self.write
    }

    fn commit<T, E>(
        &mut self,
        store: impl FnOnce(&mut WriteGuard<'m, K, V, R, S>) -> Result<T, E>,
        refused: impl FnOnce(E) -> ReservedError<K>,
    ) -> Result<T, ReservedError<K>> {
        if self.left == 0 {
            return Err(ReservedError::UsedUp);
        }
        // Counted first: an observer or a clone that panics may leave nodes used.
        self.left -= 1;
        self.write.collects = false;
        let done = store(self.write);
        self.write.collects = true;
        done.map_err(|error| {
            self.left += 1;
            refused(error)
        })
    }

    /// [`WriteGuard::insert`], from the memory set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before.
    pub fn insert(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), ReservedError<K>> {
        self.commit(|write| write.insert(span, value), stored)
    }

    /// [`WriteGuard::insert_merging`], from the memory set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before.
    pub fn insert_merging(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> Result<Span<K>, ReservedError<K>> {
        self.commit(|write| write.insert_merging(span, value, joins), stored)
    }

    /// [`WriteGuard::replace`], from the memory set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before, and `observe` is not called.
    pub fn replace(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), ReservedError<K>> {
        self.commit(|write| write.replace(span, value, observe), stored)
    }

    /// [`WriteGuard::clear_range`], from the memory set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before, and `observe` is not called.
    pub fn clear_range(
        &mut self,
        span: impl Into<Span<K>>,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), ReservedError<K>> {
        self.commit(|write| write.clear_range(span, observe), stored)
    }

    /// [`WriteGuard::split_at`], from the memory set aside.
    ///
    /// # Errors
    /// [`ReservedError::UsedUp`]; the map is as before.
    pub fn split_at(&mut self, key: K) -> Result<bool, ReservedError<K>> {
        self.commit(|write| write.split_at(key), stored)
    }

    /// [`WriteGuard::remove`], from the memory set aside. Unlike a removal from a
    /// [`RangeMap`](crate::RangeMap) it copies, so it counts as a store.
    ///
    /// # Errors
    /// [`ReservedError::UsedUp`]; the map is as before.
    pub fn remove(&mut self, key: K) -> Result<Option<(Span<K>, V)>, ReservedError<K>> {
        self.commit(|write| write.remove(key), |AllocError| stored(StoreError::Alloc))
    }
}

/// The error of a reservation for the error of a store through it.
fn stored<K: Key>(error: StoreError<K>) -> ReservedError<K> {
    match error {
        StoreError::EmptyRange(span) => ReservedError::EmptyRange(span),
        StoreError::Alloc => {
            debug_assert!(false, "a reserved store failed");
            ReservedError::Shared
        }
    }
}

/// Also runs after a panic in a store.
impl<K: Key, V: Clone, R: Reclaim, S: Shape> Drop for SharedReservation<'_, '_, K, V, R, S> {
    fn drop(&mut self) {
        self.write.collects = true;
        self.write.writer().0.give_back();
    }
}

impl<K: Key, V: Clone, R: Reclaim, S: Shape> fmt::Debug for SharedReservation<'_, '_, K, V, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReservation").field("remaining", &self.left).finish_non_exhaustive()
    }
}
