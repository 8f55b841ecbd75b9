//! The public map of a single owner, [`RangeMap`]. Knows the tree's operations and nothing of
//! nodes.

pub(crate) mod append;
pub(crate) mod changes;
pub(crate) mod coalesce;
pub(crate) mod collect;
pub(crate) mod cover;
pub(crate) mod cursor;
pub(crate) mod drain;
pub(crate) mod ends;
pub(crate) mod entry;
pub(crate) mod gaps;
pub(crate) mod into_iter;
pub(crate) mod iter;
pub(crate) mod merge;
pub(crate) mod range_from;
pub(crate) mod reservation;
pub(crate) mod retain;
pub(crate) mod revise;
pub(crate) mod rewrite;
#[cfg(feature = "serde")]
pub(crate) mod serde;
pub(crate) mod sorted;
pub(crate) mod traits;
pub(crate) mod whole;

use crate::map::cursor::{Cursor, CursorMut};
use crate::map::gaps::Gaps;
use crate::map::iter::{Range, RangeMut};
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::{Normal, Shape};
use crate::tree::check::{Stats, Violation};
use crate::tree::{Tree, value_or};
use crate::types::displaced::{Displaced, unobserved};
use crate::types::error::{AllocError, BoundError, StoreError, or_abort};
use crate::types::gap::GapQuery;
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;

/// A map from disjoint, inclusive ranges of keys to values.
///
/// A wide B-tree: leaves have 29 slots, and an inner node keeps the width of the widest gap below
/// each child. Two touching ranges with equal values stay separate: the caller decides what is
/// joined.
///
/// `RangeMap<u64, V>` is invariant in `V`: a map of `&'static str` is not a map of `&'a str`.
///
/// # Consistency
/// A map has a single owner: `&mut` edits in place. A store replaces everything in its range at
/// once. An operation that fails (empty range, no memory), or whose observer or value's `clone`
/// panics, leaves the map as it was. If the `drop` of a displaced value panics, the store has
/// happened, every other displaced value is dropped, and the panic goes on.
///
/// # Complexity
/// For n entries: [`get`](Self::get), [`insert`](Self::insert) within a leaf,
/// [`remove`](Self::remove), and [`find_gap`](Self::find_gap) without alignment O(log n); a store
/// that meets k entries O(k + log n) amortised; a step of an iterator or cursor O(1) amortised;
/// [`try_clone`](Self::try_clone), [`from_sorted`](Self::from_sorted), `drop` O(n);
/// [`snapshot`](Self::snapshot) O(1). The [crate's page](crate#complexity) lists all of them.
///
/// Memory with `u64` keys and 8-byte values: about 19 bytes an entry where leaves are full, and 27
/// after random stores. Where neighbours lie so far apart that their keys differ in the upper 32
/// bits, it is 34 and 49. An empty map takes 384 bytes and allocates nothing. After any history of
/// stores, removals and snapshots there are at most `4 * n / 29 + 2` leaves: all but the two at the
/// ends are a quarter full on average. The exception is an allocation that failed while a shared
/// neighbour was copied.
///
/// # Examples
/// ```
/// use samara::{RangeMap, Span};
/// let mut map = RangeMap::<u64, _>::new();
/// map.insert(0x1000..=0x4fff, "text")?;
/// map.insert(0x2000..=0x2fff, "hole")?; // cuts the first one in two
/// assert_eq!(map.len(), 3);
/// assert_eq!(map.get(0x2800), Some((Span::new(0x2000, 0x2fff), &"hole")));
/// assert_eq!(map.get(0x5000), None);
/// assert_eq!(map.remove(0x2000), Some((Span::new(0x2000, 0x2fff), "hole")));
/// assert!(map.gaps(0x1000..=0x4fff).eq([Span::new(0x2000, 0x2fff)]));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct RangeMap<K: Key, V, S: Shape = Normal> {
    pub(crate) tree: Tree<K, V, S>,
}

impl<K: Key, V> RangeMap<K, V> {
    /// An empty map. Allocates nothing.
    ///
    /// A literal such as `0..=9` does not say which integer is the key: write `RangeMap::<u64,
    /// _>::new()`, or the type on the `let`.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// use std::sync::Mutex;
    /// static OWNERS: Mutex<RangeMap<u32, &str>> = Mutex::new(RangeMap::new());
    /// OWNERS.lock().unwrap().insert(0x1000..=0x1fff, "boot")?;
    /// # Ok::<(), samara::StoreError<u32>>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

impl<K: Key, V, S: Shape> Default for RangeMap<K, V, S> {
    /// An empty map. Allocates nothing.
    fn default() -> Self {
        RangeMap { tree: Tree::new() }
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// The sizes in bytes of a leaf and of an inner node of this map.
    pub const NODE_BYTES: (usize, usize) = (Leaf::<K, V, S>::BYTES, Inner::<K, S>::BYTES);

    /// The number of entries. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.tree.len
    }

    /// Whether the map has no entries. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.len == 0
    }

    /// Removes every entry. O(n).
    pub fn clear(&mut self) {
        self.tree.clear();
    }

    /// The entry that holds `key`: its range and its value. O(log n).
    #[must_use]
    #[inline]
    pub fn get(&self, key: K) -> Option<(Span<K>, &V)> {
        let (leaf, slot) = self.tree.find(key)?;
        // SAFETY: TREE-4: `find` returns the slot of an entry in a live leaf, and the value is
        // borrowed no longer than the map.
        unsafe {
            let first = leaf.first(slot);
            (first <= key).then(|| (Span::new(first, leaf.key(slot)), &*leaf.value(slot)))
        }
    }

    /// The value at `key`, or `default` where no entry holds it. O(log n).
    ///
    /// The choice takes no branch, so that a mix of hits and misses, which no processor can
    /// predict, costs no more than hits alone.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0x41..=0x5a, "upper case")?;
    /// assert_eq!((*map.get_or(0x4b, &"other"), *map.get_or(0x3f, &"other")), ("upper case", "other"));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn get_or<'a>(&'a self, key: K, default: &'a V) -> &'a V {
        // SAFETY: TREE-4: the leaf that `find` returns is live, and the value is borrowed no longer
        // than the map.
        unsafe { value_or(self.tree.find(key), key, default) }
    }

    /// [`get`](Self::get), with a mutable value.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<(Span<K>, &mut V)> {
        if !or_abort(self.tree.own_met(Span::new(key, key))) {
            return None;
        }
        let (leaf, slot) = self.tree.find(key)?;
        // SAFETY: as for `get`; the map is borrowed mutably, and `own_met` has made the leaf its
        // own (COW-2).
        unsafe {
            let first = leaf.first(slot);
            (first <= key).then(|| (Span::new(first, leaf.key(slot)), &mut *leaf.value(slot)))
        }
    }

    /// Whether an entry holds `key`. O(log n).
    #[must_use]
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The entry that holds `key`, or the first one above it. O(log n).
    #[must_use]
    #[inline]
    pub fn at_or_after(&self, key: K) -> Option<(Span<K>, &V)> {
        self.range_from(key).next()
    }

    /// The entry that holds `key`, or the last one below it. O(log n).
    #[must_use]
    pub fn at_or_before(&self, key: K) -> Option<(Span<K>, &V)> {
        let mut cursor = self.cursor(key);
        cursor.current().or_else(|| cursor.prev())
    }

    /// Stores `value` over `span` and replaces whatever was there. Entries inside `span` are
    /// removed, entries at its edges are trimmed. An entry that contains `span` is split, and its
    /// value is cloned for the upper part. O(log n + entries met).
    ///
    /// # Errors
    /// [`StoreError::EmptyRange`], [`StoreError::Alloc`]; the map is as before.
    #[inline]
    pub fn insert(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        self.tree.replace(span.into(), value, unobserved)
    }

    /// [`insert`](Self::insert) that shows `observe` each piece that it displaces, in ascending
    /// order, before anything changes. Showing them allocates nothing.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); `observe` is then not called.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Remains};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, 'a')?;
    /// map.insert(10..=19, 'b')?;
    /// let mut told = vec![];
    /// map.replace(5..=19, 'c', |piece| told.push((piece.span.first, *piece.value, piece.remains())))?;
    /// assert_eq!(told, [(5, 'a', Remains::Head), (10, 'b', Remains::Nothing)]);
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    #[inline(always)]
    pub fn replace(
        &mut self,
        span: impl Into<Span<K>>,
        value: V,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        self.tree.replace(span.into(), value, observe)
    }

    /// Clears `span`. Entries inside it are removed, entries at its edges are trimmed, and an entry
    /// that contains it is split. `observe` is shown each piece, as by [`replace`](Self::replace).
    /// O(log n + entries met).
    ///
    /// # Errors
    /// [`StoreError::EmptyRange`]. [`StoreError::Alloc`] only if an entry is split, or if the map
    /// shares nodes with a snapshot. The map is as before.
    #[inline]
    pub fn clear_range(
        &mut self,
        span: impl Into<Span<K>>,
        observe: impl FnMut(Displaced<'_, K, V>),
    ) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        self.tree.store(span.into(), None, observe)
    }

    /// Removes the whole entry that holds `key`. Needs no memory. O(log n).
    #[inline]
    pub fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        self.tree.remove(key)
    }

    /// Gives the entry that holds `key` the bounds `to`. Each bound may move inwards or into free
    /// keys; `to` must share a key with the entry's old range. O(log n), in place: allocates only
    /// if a boundary moves so far that the leaf has to be split, or if the map shares nodes with a
    /// snapshot.
    ///
    /// # Errors
    /// [`BoundError`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{BoundError, RangeMap};
    /// let mut map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')]).unwrap();
    /// map.resize(5, 0..=14)?;
    /// assert_eq!(map.get(12).map(|(_, value)| *value), Some('a'));
    /// assert_eq!(map.resize(5, 0..=20), Err(BoundError::Occupied(20)));
    /// # Ok::<(), BoundError>(())
    /// ```
    pub fn resize(&mut self, key: K, to: impl Into<Span<K>>) -> Result<(), BoundError<K>> {
        self.tree.resize(key, to.into()).map(|_| ())
    }

    /// Splits the entry that holds both `key - 1` and `key` into one that ends and one that starts
    /// there, and returns `true`. If no entry holds both, returns `false` and changes nothing.
    /// O(log n).
    ///
    /// # Errors
    /// [`StoreError::Alloc`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, 'a')?;
    /// assert!(map.split_at(5)? && !map.split_at(5)?);
    /// assert!(map.iter().map(|(span, _)| span).eq([Span::new(0, 4), Span::new(5, 9)]));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn split_at(&mut self, key: K) -> Result<bool, StoreError<K>>
    where
        V: Clone,
    {
        let Some((span, value)) = self.get(key).filter(|(span, _)| span.first < key) else { return Ok(false) };
        let value = value.clone();
        self.tree.store(Span::new(key, span.last), Some(value), unobserved)?;
        Ok(true)
    }

    /// Iterates over the entries that meet `window`, ascending, from both ends. Entries are whole:
    /// the outer ones may stick out. A window that holds no key meets no entry. O(log n), then O(1)
    /// amortised a step.
    pub fn range(&self, window: impl Into<Span<K>>) -> Range<'_, K, V, S> {
        self.tree.range(window.into())
    }

    /// [`range`](Self::range) with mutable values.
    pub fn range_mut(&mut self, window: impl Into<Span<K>>) -> RangeMut<'_, K, V, S> {
        let window = window.into();
        or_abort(self.tree.own_met(window));
        RangeMut { walk: self.tree.walk(window), borrow: PhantomData }
    }

    /// Iterates over the maximal gaps inside `window`, cut off at its ends; ascending, from both
    /// ends.
    pub fn gaps(&self, window: impl Into<Span<K>>) -> Gaps<'_, K, V, S> {
        let window = window.into();
        Gaps::new(self.tree.range(window), window)
    }

    /// Finds the run of free keys that `query` asks for: see [`GapQuery`]. O(log n). An alignment
    /// adds one step for each gap on the way that is wide enough but holds no aligned run.
    #[must_use]
    pub fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        self.tree.find_gap(query)
    }

    /// A cursor that stands at `key`. O(log n).
    pub fn cursor(&self, key: K) -> Cursor<'_, K, V, S> {
        Cursor::new(&self.tree, key)
    }

    /// A cursor that stands at `key` and can edit. O(log n).
    pub fn cursor_mut(&mut self, key: K) -> CursorMut<'_, K, V, S> {
        CursorMut::new(&mut self.tree, key)
    }

    /// Copies the map node by node, in the same shape: the fallible form of `clone`. O(n).
    ///
    /// # Errors
    /// [`AllocError`]; what was copied is dropped.
    pub fn try_clone(&self) -> Result<Self, AllocError>
    where
        V: Clone,
    {
        Ok(RangeMap { tree: self.tree.try_clone()? })
    }

    /// Makes a map of the same entries that is read and written separately. The two share all nodes
    /// until one of them is written to. O(1).
    ///
    /// # Consistency
    /// The two are independent, as after [`try_clone`](Self::try_clone): a change to one never
    /// shows in the other. Values with interior mutability are the exception: they are shared with
    /// their nodes until those are copied, so a change within a value through `&` does show. The
    /// two maps may be used and dropped in any order and by different threads.
    ///
    /// # Complexity
    /// A write to either map first copies the shared nodes that it changes: a path of O(log n)
    /// nodes, and with it the values of one leaf or two, which are cloned. So every writing call on
    /// a map that shares nodes may need memory, even one that otherwise needs none. A call that
    /// returns no error then aborts, as `Box` does, unless [`unshare`](Self::unshare) came first. A
    /// `clone` that panics during a copy leaves the entries as they were, or as the call leaves
    /// them: the latter where a node is left with few entries and its neighbour is copied to merge
    /// the two. [`reserve`](Self::reserve) copies all shared nodes, as do `drain`, `split_off`,
    /// `retain` and owned iteration: O(n). Copied nodes stay separate.
    ///
    /// # Errors
    /// [`AllocError`] beyond about a thousand million (2^30) snapshots of one map.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64, _> = RangeMap::from_sorted((0..100_000).map(|i| (10 * i..=10 * i + 9, i)))?;
    /// let before = map.try_snapshot()?;
    /// map.clear_range(5..=999_994, |_| ())?;
    /// assert_eq!((map.len(), before.len()), (2, 100_000));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn try_snapshot(&self) -> Result<Self, AllocError>
    where
        V: Clone + Send + Sync,
    {
        Ok(RangeMap { tree: self.tree.snapshot()? })
    }

    /// Copies now the shared nodes that changes within `window` would copy. Until the next
    /// snapshot, changes within `window` then need no memory in calls that return no memory error:
    /// [`remove`](Self::remove), [`get_mut`](Self::get_mut), [`range_mut`](Self::range_mut),
    /// cursors and entries. The neighbours of those nodes are copied too, because a change that
    /// leaves a node nearly empty merges it with its neighbour. O(log n + entries met); O(1) if
    /// nothing has been shared.
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64, _> = RangeMap::from_sorted((0..1000).map(|i| (10 * i..=10 * i + 9, i))).unwrap();
    /// let before = map.try_snapshot()?;
    /// map.unshare(500..=599)?;
    /// for (_, value) in map.range_mut(500..=599) {
    ///     *value += 1;
    /// }
    /// assert_eq!((map.get(510).unwrap().1, before.get(510).unwrap().1), (&52, &51));
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn unshare(&mut self, window: impl Into<Span<K>>) -> Result<(), AllocError> {
        self.tree.unshare(window.into())
    }

    /// [`try_snapshot`](Self::try_snapshot) that aborts on its error.
    #[must_use]
    pub fn snapshot(&self) -> Self
    where
        V: Clone + Send + Sync,
    {
        or_abort(self.try_snapshot())
    }

    /// Checks every node against the tree's invariants. O(n).
    ///
    /// # Errors
    /// The first [`Violation`] found, which is a defect of this crate.
    pub fn check(&self) -> Result<(), Violation> {
        self.tree.check().map(|_| ())
    }

    /// Statistics of the map's layout. O(n).
    ///
    /// # Errors
    /// As for [`check`](Self::check).
    pub fn stats(&self) -> Result<Stats, Violation> {
        self.tree.check()
    }
}
