//! Reservations: memory is allocated first; later stores neither allocate nor fail for lack of
//! memory.
//!
//! Does not count stores: the caller does. Does not know how much memory a store may need:
//! `tree::split` does.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::error::AllocError;
use crate::types::key::Key;
use crate::types::span::Span;

/// # Reserve memory
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Sets memory aside for `stores` stores, wherever they go: [`insert`](Self::insert),
    /// [`replace`](Self::replace), their merging forms, [`clear_range`](Self::clear_range),
    /// [`split_at`](Self::split_at). The next `stores` of these then neither allocate nor fail for
    /// lack of memory, as with [`Vec::try_reserve`](alloc::vec::Vec::try_reserve): plan, reserve,
    /// do what may fail, then commit. Each store counts as one, whatever it meets, also if an
    /// observer or a `clone` ends it by a panic. A refused store does not count. Removals need no
    /// memory and do not count. Other storing calls use the memory that was set aside, too, but
    /// without a promise not to fail: entries and cursors, [`revise`](Self::revise),
    /// [`resize`](Self::resize), [`drain`](Self::drain), [`append`](Self::append).
    ///
    /// A value's own `clone`, which is called where an entry is cut in two, may still allocate.
    /// After a [`snapshot`](Self::snapshot) of the map, stores need memory again. Unused memory
    /// stays set aside until [`release`](Self::release) or the map's drop, and a later `reserve`
    /// counts it in.
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
    /// use samara::RangeMap;
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=99, 'a').unwrap();
    /// map.reserve(2)?;
    /// map.insert(10..=19, 'b').unwrap(); // neither of these allocates
    /// map.clear_range(40..=49, |_| ()).unwrap();
    /// map.release();
    /// assert_eq!(map.len(), 4);
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn reserve(&mut self, stores: usize) -> Result<(), AllocError> {
        self.tree.plan_stores(stores, Span::FULL) // the stores may go anywhere
    }

    /// [`reserve`](Self::reserve) for stores within `window`, including the entries that they join.
    /// The two differ on a map that shares nodes with a [`snapshot`](Self::snapshot): `reserve`
    /// copies all shared nodes, `reserve_within` only those on the way to the window (for an empty
    /// window, none).
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
