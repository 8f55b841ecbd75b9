//! Removes entries, and clears ranges. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::displaced::Displaced;
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;

/// # Remove
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Removes the whole entry that holds `key`. Needs no memory, except to copy nodes that are
    /// shared with a snapshot ([`unshare`](crate::RangeMap::unshare)). O(log n).
    #[inline]
    pub fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        self.tree.remove(key)
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

    /// Removes the lowest entry. Needs no memory, except to copy nodes that are shared with a
    /// snapshot ([`unshare`](crate::RangeMap::unshare)). O(log n).
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')])?;
    /// assert_eq!(map.pop_last(), Some((Span::new(20, 29), 'b')));
    /// assert_eq!(map.pop_first(), Some((Span::new(0, 9), 'a')));
    /// assert_eq!(map.pop_first(), None);
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn pop_first(&mut self) -> Option<(Span<K>, V)> {
        let key = self.first()?.0.first;
        self.tree.remove(key)
    }

    /// Removes the highest entry. Needs no memory, except to copy nodes that are shared with a
    /// snapshot ([`unshare`](crate::RangeMap::unshare)). O(log n).
    pub fn pop_last(&mut self) -> Option<(Span<K>, V)> {
        let key = self.last()?.0.last;
        self.tree.remove(key)
    }

    /// Removes every entry. O(n).
    pub fn clear(&mut self) {
        self.tree.clear();
    }
}
