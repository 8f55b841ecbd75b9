//! Reservations: memory is allocated first; stores are committed later, and neither allocate nor
//! fail for lack of memory.
//!
//! Counts stores. How much memory a store may need is known to `tree::split`.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::types::displaced::Displaced;
use crate::types::error::{AllocError, ReservedError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

impl<V, K: Key, S: Shape> RangeMap<V, K, S> {
    /// Sets memory aside for `stores` stores, wherever they go: [`insert`](Self::insert),
    /// [`replace`](Self::replace), their merging forms, [`clear_range`](Self::clear_range),
    /// [`split_at`](Self::split_at). These then neither allocate nor fail for lack of
    /// memory. (What the value's own `clone` does, where an entry is cut in two, is its affair.)
    ///
    /// Through the [`Reservation`] the stores are counted, and their errors say so: there is none
    /// for memory, but [`ReservedError::Shared`] where a snapshot was taken since. Whoever
    /// counts for himself may let go of it and call the map's own verbs. Either way what is not
    /// used stays set aside until [`release`](Self::release) or the map's end, and a later
    /// `reserve` counts it in.
    ///
    /// # Complexity
    /// O(stores + height) allocations at most, none where enough is set aside already; a leaf for
    /// every store, for each may split one.
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before, and no more is set aside than was before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, ReservedError};
    /// let mut map = RangeMap::new();
    /// map.insert(0..=99, 'a').unwrap();
    /// let mut commit = map.reserve(2).unwrap();
    /// commit.insert(10..=19, 'b').unwrap();
    /// commit.clear_range(40..=49, |_| ()).unwrap();
    /// assert_eq!(commit.insert(0..=9, 'c'), Err(ReservedError::UsedUp));
    /// assert_eq!(map.len(), 4);
    /// ```
    pub fn reserve(&mut self, stores: usize) -> Result<Reservation<'_, V, K, S>, AllocError> {
        self.tree.plan_stores(stores, Span::FULL)?; // where the stores will go is not known
        Ok(Reservation { map: self, left: stores })
    }

    /// [`reserve`](Self::reserve) for stores within `window`, what they join included. They differ
    /// where the map shares nodes with a [`snapshot`](Self::snapshot): then `reserve` copies
    /// all of it, and this what lies on the way to the window. The caller counts.
    ///
    /// # Complexity
    /// As `reserve`; a map that shares nodes: O(k + log n) copies of nodes more, for k entries in
    /// the window.
    ///
    /// # Errors
    /// As `reserve`.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64> = RangeMap::from_sorted((0..1000).map(|i| (i * 10..=i * 10 + 9, i))).unwrap();
    /// let before = map.snapshot();
    /// map.reserve_within(500..=599, 2)?;
    /// map.replace(510..=519, 7, |_| ()).unwrap(); // allocates nothing
    /// assert_eq!(before.get(510).unwrap().1, &51);
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn reserve_within(&mut self, window: impl Into<Span<K>>, stores: usize) -> Result<(), AllocError> {
        self.tree.plan_stores(stores, window.into())
    }

    /// Gives back what [`reserve`](Self::reserve) set aside.
    pub fn release(&mut self) {
        self.tree.release();
    }
}

/// Memory set aside for a number of stores, which are committed through it: see
/// [`RangeMap::reserve`].
///
/// Every store that happens counts as one, whatever it met and also where it needed no memory; one
/// that is refused counts for nothing. Removals need no memory and are not counted.
pub struct Reservation<'a, V, K: Key = u64, S: Shape = Normal> {
    map: &'a mut RangeMap<V, K, S>,
    left: usize,
}

impl<'a, V, K: Key, S: Shape> Reservation<'a, V, K, S> {
    /// How many stores can still be made.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// The map as it is. After a snapshot that is taken of it here, stores need memory again: see
    /// [`ReservedError::Shared`].
    #[must_use]
    pub fn map(&self) -> &RangeMap<V, K, S> {
        self.map
    }

    /// The value of the entry that holds `key`, to change. O(log n).
    pub fn get_mut(&mut self, key: K) -> Option<(Span<K>, &mut V)> {
        self.map.get_mut(key)
    }

    fn commit<T>(
        &mut self,
        store: impl FnOnce(&mut RangeMap<V, K, S>) -> Result<T, StoreError<K>>,
    ) -> Result<T, ReservedError<K>> {
        if self.left == 0 {
            return Err(ReservedError::UsedUp);
        }
        // First, for an observer or a clone that panics may leave nodes used.
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

    /// [`RangeMap::insert`], from what is set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before.
    pub fn insert(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.insert(span, value))
    }

    /// [`RangeMap::insert_merging`], from what is set aside: one store, however much is joined.
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

    /// [`RangeMap::replace`], from what is set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before, and nothing is told.
    pub fn replace(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        observe: impl FnMut(Displaced<'_, V, K>),
    ) -> Result<(), ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.replace(span, value, observe))
    }

    /// [`RangeMap::clear_range`], from what is set aside.
    ///
    /// # Errors
    /// [`ReservedError`]; the map is as before, and nothing is told.
    pub fn clear_range(
        &mut self,
        span: impl Into<Span<K>>,
        observe: impl FnMut(Displaced<'_, V, K>),
    ) -> Result<(), ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.clear_range(span, observe))
    }

    /// [`RangeMap::split_at`], from what is set aside. Counts as a store also where there is
    /// nothing to split.
    ///
    /// # Errors
    /// [`ReservedError::UsedUp`], [`ReservedError::Shared`]; the map is as before.
    pub fn split_at(&mut self, key: K) -> Result<bool, ReservedError<K>>
    where
        V: Clone,
    {
        self.commit(|map| map.split_at(key))
    }

    /// [`RangeMap::remove`]. Needs no memory, unless a snapshot was taken since, and is not
    /// counted.
    pub fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        self.map.remove(key)
    }

    /// Gives back what has not been used, now: [`RangeMap::release`].
    pub fn release(self) {
        self.map.release();
    }
}

impl<V, K: Key, S: Shape> fmt::Debug for Reservation<'_, V, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("remaining", &self.left).finish_non_exhaustive()
    }
}
