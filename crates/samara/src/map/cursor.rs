//! Cursors: a position at an entry or a gap. A cursor walks in both directions; on a map that is
//! borrowed mutably it also edits.
//!
//! Knows nothing of how the tree changes: `store`, `remove` and `resize` edit it.
//!
//! - **CURSOR-1** A position belongs to the current tree. Each change of the tree is followed by a
//!   new position, even if the change ends in an error or a panic.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::tree::Tree;
use crate::tree::walk::Place;
use crate::types::displaced::unobserved;
use crate::types::error::{BoundError, StoreError, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// A cursor that points to the entry or the gap that holds `key`. O(log n).
    pub fn cursor(&self, key: K) -> Cursor<'_, K, V, S> {
        Cursor::new(&self.tree, key)
    }

    /// A cursor that can edit, and points to the entry or the gap that holds `key`. O(log n).
    pub fn cursor_mut(&mut self, key: K) -> CursorMut<'_, K, V, S> {
        CursorMut::new(&mut self.tree, key)
    }
}

/// The position of a cursor.
struct Position<K: Key, V, S: Shape> {
    /// The range of the entry or the gap that the cursor points to.
    span: Span<K>,
    /// Whether the cursor points to an entry.
    entry: bool,
    /// The entry's slot; for a gap, the slot of the entry behind it, or the slot behind the last
    /// entry. `None` if the tree is empty.
    place: Option<Place<K, V, S>>,
}

impl<K: Key, V, S: Shape> Clone for Position<K, V, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V, S: Shape> Copy for Position<K, V, S> {}

impl<K: Key, V, S: Shape> Position<K, V, S> {
    fn at(tree: &Tree<K, V, S>, key: K) -> Self {
        let Some(place) = tree.place(key) else { return Position { span: Span::FULL, entry: false, place: None } };
        // SAFETY: CURSOR-1: the place was found in the tree as it is, and its slot is read only if
        // it is an entry's.
        unsafe {
            let (leaf, slot) = (place.leaf, place.slot);
            if slot < leaf.len() && leaf.first(slot) <= key {
                return Self::on(place);
            }
            Self::before(tree, place)
        }
    }

    /// The position at the entry at `place`.
    ///
    /// # Safety
    /// CURSOR-1, and the slot is an entry's.
    unsafe fn on(place: Place<K, V, S>) -> Self {
        // SAFETY: CURSOR-1: the leaf is live, and the caller guarantees that the slot is an
        // entry's.
        let span = unsafe { Span::new(place.leaf.first(place.slot), place.leaf.key(place.slot)) };
        Position { span, entry: true, place: Some(place) }
    }

    /// The position at the gap before the entry at `place`, or at the gap behind the last entry.
    ///
    /// # Safety
    /// CURSOR-1, and that gap holds a key.
    unsafe fn before(tree: &Tree<K, V, S>, place: Place<K, V, S>) -> Self {
        // SAFETY: CURSOR-1: the caller guarantees that the place is of the tree as it is; only
        // slots of entries are read.
        unsafe {
            let (leaf, slot) = (place.leaf, place.slot);
            let last = if slot < leaf.len() { leaf.first(slot).wrapping_sub(K::ONE) } else { K::MAX };
            let first = match Self::entry_before(tree, place) {
                Some(below) => below.leaf.key(below.slot).wrapping_add(K::ONE),
                None => K::MIN,
            };
            Position { span: Span::new(first, last), entry: false, place: Some(place) }
        }
    }

    /// The place of the entry before `place`.
    ///
    /// # Safety
    /// CURSOR-1.
    unsafe fn entry_before(tree: &Tree<K, V, S>, mut place: Place<K, V, S>) -> Option<Place<K, V, S>> {
        if place.slot == 0 {
            // SAFETY: CURSOR-1: the caller guarantees that the place is of the tree as it is.
            place = unsafe { tree.neighbour(&place, false)? };
        }
        place.slot -= 1;
        Some(place)
    }

    /// The position at the next entry.
    fn next(&self, tree: &Tree<K, V, S>) -> Option<Self> {
        let mut place = self.place?;
        // SAFETY: CURSOR-1: the place is of the tree as it is, and no leaf is empty (TREE-4), so
        // the neighbour's first slot is an entry's.
        unsafe {
            place.slot += usize::from(self.entry);
            if place.slot >= place.leaf.len() {
                place = tree.neighbour(&place, true)?;
            }
            Some(Self::on(place))
        }
    }

    /// The position at the previous entry.
    fn prev(&self, tree: &Tree<K, V, S>) -> Option<Self> {
        // SAFETY: CURSOR-1: the place is of the tree as it is, and `entry_before` returns an
        // entry's slot.
        unsafe { Some(Self::on(Self::entry_before(tree, self.place?)?)) }
    }

    /// The value of the current entry; `None` at a gap.
    fn value(&self) -> Option<*mut V> {
        let place = self.place.filter(|_| self.entry)?;
        // SAFETY: CURSOR-1: the leaf is live, and the slot is an entry's.
        Some(unsafe { place.leaf.value(place.slot) })
    }
}

macro_rules! walking {
    ($value:ty) => {
        /// The range of the entry or the gap that the cursor points to.
        #[must_use]
        pub fn span(&self) -> Span<K> {
            self.position.span
        }

        /// The entry that the cursor points to; `None` at a gap.
        #[must_use]
        pub fn current(&self) -> Option<(Span<K>, $value)> {
            // SAFETY: CURSOR-1: the value is in the tree, which the cursor borrows.
            self.position.value().map(|value| (self.position.span, unsafe { &*value }))
        }

        /// Moves to the entry that holds `key`, which is returned, or to the gap that holds it.
        /// O(log n).
        pub fn walk(&mut self, key: K) -> Option<(Span<K>, $value)> {
            self.position = Position::at(&*self.tree, key);
            self.current()
        }

        /// Moves to the next entry and returns it; stays if there is none. O(1) amortised.
        #[allow(clippy::should_implement_trait)] // not an iterator: a cursor can change direction
        pub fn next(&mut self) -> Option<(Span<K>, $value)> {
            self.position = self.position.next(&*self.tree)?;
            self.current()
        }

        /// Moves to the previous entry and returns it; stays if there is none. O(1) amortised.
        pub fn prev(&mut self) -> Option<(Span<K>, $value)> {
            self.position = self.position.prev(&*self.tree)?;
            self.current()
        }

        /// Moves to the next entry or gap, whichever touches the current one, and returns `true`:
        /// [`span`](Self::span) and [`current`](Self::current) describe it. Returns `false` and
        /// stays if the current one ends at the highest key.
        pub fn next_range(&mut self) -> bool {
            let Some(key) = self.position.span.last.succ() else { return false };
            self.position = match self.position.next(&*self.tree) {
                Some(next) if next.span.first == key => next,
                _ => Position::at(&*self.tree, key),
            };
            true
        }

        /// Moves to the previous entry or gap, whichever touches the current one, and returns
        /// `true`. Returns `false` and stays if the current one starts at the lowest key.
        pub fn prev_range(&mut self) -> bool {
            let Some(key) = self.position.span.first.pred() else { return false };
            self.position = match self.position.prev(&*self.tree) {
                Some(prev) if prev.span.last == key => prev,
                _ => Position::at(&*self.tree, key),
            };
            true
        }
    };
}

/// A cursor that reads: see [`RangeMap::cursor`](crate::RangeMap::cursor).
///
/// It points to an entry or to a gap, and walks in both directions.
///
/// ```
/// use samara::{RangeMap, Span};
/// let mut map = RangeMap::<u64, _>::new();
/// map.insert(10..=19, 'a')?;
/// map.insert(30..=39, 'b')?;
/// let mut cursor = map.cursor(15);
/// assert_eq!(cursor.current(), Some((Span::new(10, 19), &'a')));
/// assert!(cursor.next_range());
/// assert_eq!((cursor.span(), cursor.current()), (Span::new(20, 29), None));
/// assert_eq!(cursor.next(), Some((Span::new(30, 39), &'b')));
/// assert_eq!(cursor.next(), None);
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct Cursor<'a, K: Key, V, S: Shape = Normal> {
    tree: &'a Tree<K, V, S>,
    position: Position<K, V, S>,
}

/// # Walk
impl<'a, K: Key, V, S: Shape> Cursor<'a, K, V, S> {
    pub(crate) fn new(tree: &'a Tree<K, V, S>, key: K) -> Self {
        Cursor { tree, position: Position::at(tree, key) }
    }
    walking!(&'a V);
}

impl<K: Key, V, S: Shape> Clone for Cursor<'_, K, V, S> {
    fn clone(&self) -> Self {
        Cursor { tree: self.tree, position: self.position }
    }
}

/// A cursor that reads and edits: see [`RangeMap::cursor_mut`](crate::RangeMap::cursor_mut).
///
/// # Position after an edit
/// The cursor points:
/// - after [`store`](Self::store): to the new entry, wherever that is;
/// - after [`erase`](Self::erase): to the whole gap that is left;
/// - after [`set_first`](Self::set_first) and [`set_last`](Self::set_last): to the entry with its
///   new bounds;
/// - after an error: to what it pointed to before;
/// - after a panic in the drop of a displaced value: to the entry or gap that holds the first key
///   of what it pointed to before.
///
/// # Complexity
/// A step is O(1) amortised, an edit O(log n). A loop that edits while it walks visits each entry
/// once: n steps with k edits take O(n + k log n), and no edit makes it start over.
///
/// ```
/// # use samara::RangeMap;
/// # let mut map = RangeMap::<u64, u64>::from_sorted((0..100).map(|i| (10 * i..=10 * i + 4, i))).unwrap();
/// let mut cursor = map.cursor_mut(0); // points to the first entry
/// loop {
///     if cursor.current().is_some_and(|(_, value)| value % 2 == 1) {
///         cursor.erase(); // points to the gap: `next` goes to the entry behind it
///     }
///     if cursor.next().is_none() {
///         break;
///     }
/// }
/// assert_eq!(map.len(), 50);
/// ```
///
/// # Examples
/// ```
/// use samara::{RangeMap, Span};
/// let mut map = RangeMap::<u64, _>::new();
/// map.insert(10..=19, 'a')?;
/// let mut cursor = map.cursor_mut(10);
/// cursor.set_last(24).unwrap();
/// assert_eq!(cursor.span(), Span::new(10, 24));
/// cursor.store(20..=29, 'b')?;
/// assert_eq!(cursor.prev(), Some((Span::new(10, 19), &'a')));
/// assert_eq!(cursor.erase(), Some((Span::new(10, 19), 'a')));
/// assert_eq!(cursor.span(), Span::new(0, 19));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct CursorMut<'a, K: Key, V, S: Shape = Normal> {
    tree: &'a mut Tree<K, V, S>,
    position: Position<K, V, S>,
}

/// # Walk
impl<'a, K: Key, V, S: Shape> CursorMut<'a, K, V, S> {
    pub(crate) fn new(tree: &'a mut Tree<K, V, S>, key: K) -> Self {
        let position = Position::at(tree, key);
        CursorMut { tree, position }
    }
    walking!(&V);
}

/// # Edit
impl<'a, K: Key, V, S: Shape> CursorMut<'a, K, V, S> {
    /// The mutable value of the entry that the cursor points to; `None` at a gap.
    pub fn value_mut(&mut self) -> Option<&mut V> {
        self.own();
        // SAFETY: CURSOR-1: the value is in the tree, which the cursor borrows mutably. COW-2:
        // `own` has made its leaf the tree's own.
        self.position.value().map(|value| unsafe { &mut *value })
    }

    /// Makes the nodes of the current entry the tree's own (COW-2), so that its value may be
    /// written to.
    #[inline]
    fn own(&mut self) {
        if self.position.entry && self.tree.may_share() {
            let span = self.position.span;
            let reposition = Reposition { key: span.first, cursor: self };
            or_abort(reposition.cursor.tree.own(span));
        }
    }

    /// The mutable value of the current entry, for as long as the map is borrowed.
    pub(crate) fn into_value(mut self) -> Option<&'a mut V> {
        self.own();
        // SAFETY: as for `value_mut`; the cursor, which alone borrows the tree for `'a`, ends here.
        self.position.value().map(|value| unsafe { &mut *value })
    }

    /// Stores `value` over `span`, wherever that is, as
    /// [`RangeMap::insert`](crate::RangeMap::insert) does. The cursor then points to the new entry.
    /// O(log n + entries met).
    ///
    /// # Errors
    /// As for [`RangeMap::insert`](crate::RangeMap::insert); map and cursor stay as they are.
    pub fn store(&mut self, span: impl Into<Span<K>>, value: V) -> Result<(), StoreError<K>>
    where
        V: Clone,
    {
        let span = span.into();
        self.store_by(span, |tree| tree.store(span, Some(value), unobserved))
    }

    /// [`store`](Self::store) of a `span` that lies in the gap that the cursor points to.
    pub(crate) fn store_in_gap(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
        self.store_by(span, |tree| tree.store_in_gap(span, value))
    }

    fn store_by(
        &mut self,
        span: Span<K>,
        store: impl FnOnce(&mut Tree<K, V, S>) -> Result<(), StoreError<K>>,
    ) -> Result<(), StoreError<K>> {
        // CURSOR-1: a new position is made even if the drop of a displaced value, or a clone during
        // the copy of a shared node, panics.
        let key = self.position.span.first;
        let mut reposition = Reposition { cursor: self, key };
        store(reposition.cursor.tree)?;
        reposition.key = span.first;
        Ok(())
    }

    /// Removes the entry that the cursor points to. The cursor then points to the gap that is left.
    /// At a gap, removes nothing and returns `None`. O(log n).
    pub fn erase(&mut self) -> Option<(Span<K>, V)> {
        if !self.position.entry {
            return None;
        }
        let key = self.position.span.first;
        let reposition = Reposition { cursor: self, key };
        reposition.cursor.tree.remove(key)
    }

    /// Makes the entry that the cursor points to start at `first`: shrinks it, or grows it into
    /// free keys. O(log n), in place.
    ///
    /// # Errors
    /// [`BoundError`]; map and cursor stay as they are.
    pub fn set_first(&mut self, first: K) -> Result<(), BoundError<K>> {
        self.set_bounds(Span::new(first, self.position.span.last))
    }

    /// Makes the entry that the cursor points to end at `last`: shrinks it, or grows it into free
    /// keys. O(log n), in place.
    ///
    /// # Errors
    /// [`BoundError`]; map and cursor stay as they are.
    pub fn set_last(&mut self, last: K) -> Result<(), BoundError<K>> {
        self.set_bounds(Span::new(self.position.span.first, last))
    }

    pub(crate) fn set_bounds(&mut self, to: Span<K>) -> Result<(), BoundError<K>> {
        if !self.position.entry {
            return Err(BoundError::NoEntry(self.position.span.first));
        }
        // CURSOR-1: a new position is made even on an error, which may come after shared nodes were
        // copied.
        let key = self.position.span.first;
        let mut reposition = Reposition { cursor: self, key };
        reposition.cursor.tree.resize(key, to)?;
        reposition.key = to.first;
        Ok(())
    }
}

/// Gives a cursor a new position when dropped: after a change of its tree, an error or a panic
/// (CURSOR-1).
struct Reposition<'c, 'a, K: Key, V, S: Shape> {
    cursor: &'c mut CursorMut<'a, K, V, S>,
    /// The key to position the cursor at.
    key: K,
}

impl<K: Key, V, S: Shape> Drop for Reposition<'_, '_, K, V, S> {
    fn drop(&mut self) {
        self.cursor.position = Position::at(self.cursor.tree, self.key);
    }
}

macro_rules! debug {
    ($($name:ident),*) => {$(
        impl<K: Key, V: fmt::Debug, S: Shape> fmt::Debug for $name<'_, K, V, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("span", &self.span()).field("current", &self.current()).finish()
            }
        }
    )*};
}
debug!(Cursor, CursorMut);

// SAFETY: a `Cursor` is a `&Tree` and addresses within it, and is as `Send` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Send for Cursor<'_, K, V, S> {}
// SAFETY: a `Cursor` is a `&Tree` and addresses within it, and is as `Sync` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for Cursor<'_, K, V, S> {}
// SAFETY: a `CursorMut` is a `&mut Tree` and addresses within it, and is as `Send` as that.
unsafe impl<K: Key, V: Send, S: Shape> Send for CursorMut<'_, K, V, S> {}
// SAFETY: a `CursorMut` is a `&mut Tree` and addresses within it, and is as `Sync` as that.
unsafe impl<K: Key, V: Sync, S: Shape> Sync for CursorMut<'_, K, V, S> {}
