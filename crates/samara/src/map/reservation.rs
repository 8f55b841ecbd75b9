//! Reservations: memory is allocated first; later stores neither allocate nor fail for lack of
//! memory.
//!
//! Counts stores. Does not know how much memory a store may need: `tree::split` does.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::types::displaced::Displaced;
use crate::types::error::{AllocError, ReservedError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

/// # Reserve memory
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Sets memory aside for `stores` stores, wherever they go: [`insert`](Self::insert),
    /// [`replace`](Self::replace), their merging forms, [`clear_range`](Self::clear_range),
    /// [`split_at`](Self::split_at). These stores then neither allocate nor fail for lack of
    /// memory. A value's own `clone`, which is called where an entry is cut in two, may still
    /// allocate.
    ///
    /// The [`Reservation`] counts the stores. Its errors do not include lack of memory, except
    /// [`ReservedError::Shared`] if a snapshot was taken since. A caller that counts by itself may
    /// drop it and call the map's own methods. Either way, unused memory stays set aside until
    /// [`release`](Self::release) or the map's drop, and a later `reserve` counts it in.
    ///
    /// # Complexity
    /// At most O(stores + height) allocations, and none if enough is set aside already. Each store
    /// counts one leaf, because it may split one.
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before, and no more memory is set aside than before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, ReservedError};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=99, 'a').unwrap();
    /// let mut commit = map.reserve(2).unwrap();
    /// commit.insert(10..=19, 'b').unwrap();
    /// commit.clear_range(40..=49, |_| ()).unwrap();
    /// assert_eq!(commit.insert(0..=9, 'c'), Err(ReservedError::UsedUp));
    /// assert_eq!(map.len(), 4);
    /// ```
    pub fn reserve(&mut self, stores: usize) -> Result<Reservation<'_, K, V, S>, AllocError> {
        self.tree.plan_stores(stores, Span::FULL)?; // the stores may go anywhere
        Ok(Reservation { map: self, left: stores })
    }

    /// [`reserve`](Self::reserve) for stores within `window`, including the entries that they join.
    /// The two differ on a map that shares nodes with a [`snapshot`](Self::snapshot): `reserve`
    /// copies all shared nodes, `reserve_within` those on the way to the window. The caller counts
    /// the stores.
    ///
    /// # Complexity
    /// As for `reserve`. A map that shares nodes also copies O(k + log n) nodes, for k entries in
    /// the window.
    ///
    /// # Errors
    /// As for `reserve`.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64, u64> =
    ///     RangeMap::from_sorted((0..1000).map(|i| (i * 10..=i * 10 + 9, i))).unwrap();
    /// let before = map.snapshot();
    /// map.reserve_within(500..=599, 2)?;
    /// map.replace(510..=519, 7, |_| ()).unwrap(); // allocates nothing
    /// assert_eq!(before.get(510).unwrap().1, &51);
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn reserve_within(&mut self, window: impl Into<Span<K>>, stores: usize) -> Result<(), AllocError> {
        self.tree.plan_stores(stores, window.into())
    }

    /// Frees the memory that [`reserve`](Self::reserve) set aside.
    pub fn release(&mut self) {
        self.tree.release();
    }
}

/// Makes stores from memory that was set aside: see [`RangeMap::reserve`].
///
/// Every store that succeeds counts as one, whatever it meets, and even if it needs no memory. A
/// refused store does not count. Removals need no memory and do not count.
pub struct Reservation<'a, K: Key, V, S: Shape = Normal> {
    map: &'a mut RangeMap<K, V, S>,
    left: usize,
}

impl<'a, K: Key, V, S: Shape> Reservation<'a, K, V, S> {
    /// The number of stores that can still be made.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// The map as it is. After a snapshot taken from it here, stores need memory again: see
    /// [`ReservedError::Shared`].
    #[must_use]
    pub fn map(&self) -> &RangeMap<K, V, S> {
        self.map
    }

    /// The range and the mutable value of the entry that holds `key`. O(log n).
    pub fn get_mut(&mut self, key: K) -> Option<(Span<K>, &mut V)> {
        self.map.get_mut(key)
    }

    fn commit<T>(
        &mut self,
        store: impl FnOnce(&mut RangeMap<K, V, S>) -> Result<T, StoreError<K>>,
    ) -> Result<T, ReservedError<K>> {
        if self.left == 0 {
            return Err(ReservedError::UsedUp);
        }
        // Counted first: a store that an observer or a clone ends by a panic may have used nodes.
        self.left -= 1;
        store(self.map).map_err(|error| {
            self.left += 1;
            match error {
                StoreError::EmptyRange(span) => ReservedError::EmptyRange(span),
                StoreError::Alloc => {
                    debug_assert!(self.map.tree.may_share(), "a reserved store failed");
                    ReservedError::Shared
                }
            }
        })
    }

    /// [`RangeMap::insert`] from the reserved memory.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before.
    pub fn insert(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.insert(span, value))
    }

    /// [`RangeMap::insert_merging`] from the reserved memory. Counts as one store, however much it
    /// joins.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before.
    pub fn insert_merging(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> Result<Span<K>, ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.insert_merging(span, value, joins))
    }

    /// [`RangeMap::replace`] from the reserved memory.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before, and `observe` is not called.
    pub fn replace(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.replace(span, value, observe))
    }

    /// [`RangeMap::clear_range`] from the reserved memory.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before, and `observe` is not called.
    pub fn clear_range(
        &mut self,
        span: impl Into<Span<K>>,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.clear_range(span, observe))
    }

    /// [`RangeMap::split_at`] from the reserved memory. Counts as a store even if there is nothing
    /// to split.
    ///
    /// # Errors
    /// [`ReservedError::UsedUp`], [`ReservedError::Shared`]; the map is as before.
    pub fn split_at(&mut self, key: K) -> Result<bool, ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.split_at(key))
    }

    /// [`RangeMap::remove`]. Does not count. Needs no memory, unless a snapshot was taken since.
    pub fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        self.map.remove(key)
    }

    /// Frees the unused memory now: [`RangeMap::release`].
    pub fn release(self) {
        self.map.release();
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for Reservation<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("remaining", &self.left).finish_non_exhaustive()
    }
}
