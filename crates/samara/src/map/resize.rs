//! Moves the bounds of an entry, and cuts an entry in two. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::displaced::unobserved;
use crate::types::error::{BoundError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
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
}
