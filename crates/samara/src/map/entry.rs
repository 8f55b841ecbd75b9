//! The entry API: one lookup, then edits of the entry or the gap found.
//!
//! An entry is a cursor that does not walk. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::map::cursor::CursorMut;
use crate::node::shape::{Normal, Shape};
use crate::types::error::{BoundError, EntryError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::mem;

/// # Edit
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Finds the entry or the gap that holds `key`, for editing. O(log n).
    ///
    /// # Examples
    /// ```
    /// use samara::{Entry, RangeMap, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, 1)?;
    /// for key in [5, 15] {
    ///     match map.entry(key) {
    ///         Entry::Occupied(mut entry) => *entry.get_mut() += 1,
    ///         Entry::Vacant(gap) => {
    ///             assert_eq!(gap.span(), Span::new(10, u64::MAX));
    ///             gap.insert(15..=19, 7).unwrap();
    ///         }
    ///     }
    /// }
    /// assert!(map.iter().eq([(Span::new(0, 9), &2), (Span::new(15, 19), &7)]));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        let cursor = self.cursor_mut(key);
        if cursor.current().is_some() {
            Entry::Occupied(OccupiedEntry { cursor })
        } else {
            Entry::Vacant(VacantEntry { cursor, key })
        }
    }
}

/// The entry or the gap at a key: see [`RangeMap::entry`].
pub enum Entry<'a, K: Key, V, S: Shape = Normal> {
    /// An entry holds the key.
    Occupied(OccupiedEntry<'a, K, V, S>),
    /// A gap holds the key.
    Vacant(VacantEntry<'a, K, V, S>),
}

/// An entry of the map.
pub struct OccupiedEntry<'a, K: Key, V, S: Shape = Normal> {
    /// Points to the entry.
    cursor: CursorMut<'a, K, V, S>,
}

/// A gap of the map.
pub struct VacantEntry<'a, K: Key, V, S: Shape = Normal> {
    /// Points to the gap.
    cursor: CursorMut<'a, K, V, S>,
    key: K,
}

/// Why the cursor of an occupied entry has a value: no method moves it off its entry.
const AT_ENTRY: &str = "the cursor of an occupied entry is at that entry";

impl<'a, K: Key, V, S: Shape> Entry<'a, K, V, S> {
    /// The range of the entry, or of the gap.
    #[must_use]
    pub fn span(&self) -> Span<K> {
        match self {
            Entry::Occupied(entry) => entry.span(),
            Entry::Vacant(gap) => gap.span(),
        }
    }

    /// Changes the value if there is an entry.
    #[must_use = "the entry that was changed is returned"]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the entry's value. If there is no entry, first inserts `value` over `span`, which
    /// must lie within the gap.
    ///
    /// # Errors
    /// As for [`VacantEntry::insert`].
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let mut faults = RangeMap::<u64, _>::new();
    /// for address in [0x1234, 0x1ff0, 0x5000] {
    ///     let page = address & !0xfff;
    ///     *faults.entry(address).or_insert(page..=page + 0xfff, 0)? += 1;
    /// }
    /// assert_eq!(faults.get(0x1000).map(|(_, count)| *count), Some(2));
    /// # Ok::<(), samara::EntryError>(())
    /// ```
    pub fn or_insert(self, span: impl Into<Span<K>>, value: V) -> Result<&'a mut V, EntryError<K>> {
        self.or_insert_with(span, || value)
    }

    /// [`or_insert`](Self::or_insert) with a value that is made only if it is needed.
    ///
    /// # Errors
    /// As for [`VacantEntry::insert`].
    pub fn or_insert_with(
        self,
        span: impl Into<Span<K>>,
        value: impl FnOnce() -> V,
    ) -> Result<&'a mut V, EntryError<K>> {
        match self {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(gap) => gap.insert(span, value()).map(OccupiedEntry::into_mut),
        }
    }
}

impl<'a, K: Key, V, S: Shape> OccupiedEntry<'a, K, V, S> {
    /// The entry's range.
    #[must_use]
    pub fn span(&self) -> Span<K> {
        self.cursor.span()
    }

    /// The entry's value.
    #[must_use]
    pub fn get(&self) -> &V {
        self.cursor.current().expect(AT_ENTRY).1
    }

    /// The entry's value, mutable.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut V {
        self.cursor.value_mut().expect(AT_ENTRY)
    }

    /// The entry's value, mutable, for as long as the map is borrowed.
    #[must_use]
    pub fn into_mut(self) -> &'a mut V {
        self.cursor.into_value().expect(AT_ENTRY)
    }

    /// Replaces the value and returns the old one. O(1).
    pub fn insert(&mut self, value: V) -> V {
        mem::replace(self.get_mut(), value)
    }

    /// Removes the entry and returns it. Needs no memory, except to copy nodes that are shared with
    /// a snapshot ([`unshare`](crate::RangeMap::unshare)). O(log n).
    #[must_use = "dropping the entry that is returned is what `RangeMap::clear_range` is for"]
    pub fn remove(mut self) -> (Span<K>, V) {
        self.cursor.erase().expect(AT_ENTRY)
    }

    /// Gives the entry the range `to`, which must meet its own range and no other entry: trims it,
    /// or grows it into free keys, at both ends at once. O(log n), in place: needs memory only if a
    /// boundary moves so far that the leaf has to be split.
    ///
    /// # Errors
    /// [`BoundError`]; the entry is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{BoundError, Entry, RangeMap, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(10..=19, 'a')?;
    /// map.insert(30..=39, 'b')?;
    /// let Entry::Occupied(mut entry) = map.entry(10) else { panic!() };
    /// entry.set_span(15..=29).unwrap();
    /// assert_eq!(entry.span(), Span::new(15, 29));
    /// assert_eq!(entry.set_span(15..=30), Err(BoundError::Occupied(30)));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn set_span(&mut self, to: impl Into<Span<K>>) -> Result<(), BoundError<K>> {
        self.cursor.set_bounds(to.into())
    }

    /// Makes the entry start at `first`: see [`set_span`](Self::set_span).
    ///
    /// # Errors
    /// [`BoundError`]; the entry is as before.
    pub fn set_first(&mut self, first: K) -> Result<(), BoundError<K>> {
        self.cursor.set_first(first)
    }

    /// Makes the entry end at `last`: see [`set_span`](Self::set_span).
    ///
    /// # Errors
    /// [`BoundError`]; the entry is as before.
    pub fn set_last(&mut self, last: K) -> Result<(), BoundError<K>> {
        self.cursor.set_last(last)
    }

    /// Splits the entry so that one part starts at `key`, and returns `true`; this entry is then
    /// the lower part. If `key` is not in the entry, or is its first key, returns `false` and
    /// changes nothing. O(log n).
    ///
    /// # Errors
    /// [`StoreError::Alloc`]; the entry is as before.
    pub fn split_at(&mut self, key: K) -> Result<bool, StoreError<K>>
    where
        V: Clone,
    {
        let span = self.span();
        if key <= span.first || key > span.last {
            return Ok(false);
        }
        let upper = self.get().clone();
        self.cursor.store(Span::new(key, span.last), upper)?;
        self.cursor.prev();
        Ok(true)
    }
}

impl<'a, K: Key, V, S: Shape> VacantEntry<'a, K, V, S> {
    /// The range of the gap: the maximal run of free keys around the key.
    #[must_use]
    pub fn span(&self) -> Span<K> {
        self.cursor.span()
    }

    /// The key that was asked for.
    #[must_use]
    pub fn key(&self) -> K {
        self.key
    }

    /// Inserts an entry into the gap, anywhere in it. It cuts no entry, so `V` need not be `Clone`.
    /// O(log n).
    ///
    /// # Errors
    /// [`EntryError`]: `span` holds no key, `span` extends beyond the gap, or memory ran out. The
    /// map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{Entry, EntryError, RangeMap};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(10..=19, 'a').unwrap();
    /// let Entry::Vacant(gap) = map.entry(5) else { panic!() };
    /// assert!(matches!(gap.insert(5..=10, 'b'), Err(EntryError::OutsideGap { .. })));
    /// ```
    pub fn insert(mut self, span: impl Into<Span<K>>, value: V) -> Result<OccupiedEntry<'a, K, V, S>, EntryError<K>> {
        let (span, gap) = (span.into(), self.span());
        if span.is_empty() {
            return Err(EntryError::EmptyRange(span));
        }
        if span.first < gap.first || gap.last < span.last {
            return Err(EntryError::OutsideGap { span, gap });
        }
        self.cursor.store_in_gap(span, value).map_err(|_| EntryError::Alloc)?;
        Ok(OccupiedEntry { cursor: self.cursor })
    }
}

impl<K: Key, V: fmt::Debug, S: Shape> fmt::Debug for Entry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Occupied(entry) => entry.fmt(f),
            Entry::Vacant(gap) => gap.fmt(f),
        }
    }
}

impl<K: Key, V: fmt::Debug, S: Shape> fmt::Debug for OccupiedEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry").field("span", &self.span()).field("value", self.get()).finish()
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for VacantEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VacantEntry").field("span", &self.span()).field("key", &self.key).finish()
    }
}
