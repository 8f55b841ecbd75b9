//! Joins touching entries throughout a window.
//!
//! Uses the map's own lookups and `merge_at`. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::key::Key;
use crate::types::span::Span;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Joins touching entries into one, where `joins` allows it, and returns how many were joined
    /// to the one before them. The joined entry keeps the lowest one's value; the others' are
    /// dropped.
    ///
    /// `joins` is asked about each pair of touching entries of which at least one meets `window`,
    /// ascending, the lower one first: the lower one as long as it has become by then. Repeats
    /// [`merge_at`](Self::merge_at); where `joins` panics, the pairs joined so far stay joined.
    ///
    /// # Complexity
    /// O(k log n) for k entries in the window. Needs no memory, except to copy nodes that are
    /// shared with a snapshot; lack of that ends the program, unless [`unshare`](Self::unshare)
    /// has gone before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map: RangeMap<u64, char> = RangeMap::from_sorted([
    ///     (0..=9, 'a'),
    ///     (10..=19, 'a'),
    ///     (20..=29, 'b'),
    ///     (30..=39, 'b'),
    ///     (50..=59, 'b'),
    /// ])?;
    /// assert_eq!(map.coalesce(Span::FULL, |left, right| left.1 == right.1), 2);
    /// assert!(map.spans().eq([Span::new(0, 19), Span::new(20, 39), Span::new(50, 59)]));
    /// # Ok::<(), samara::BuildError>(())
    /// ```
    pub fn coalesce(
        &mut self,
        window: impl Into<Span<K>>,
        mut joins: impl FnMut((Span<K>, &V), (Span<K>, &V)) -> bool,
    ) -> usize {
        let window = window.into();
        if window.is_empty() {
            return 0;
        }
        let mut joined = 0;
        // The lower entry of the first pair may end just below the first entry that meets the
        // window.
        let first = self.get(window.first).map_or(window.first, |(span, _)| span.first);
        let mut lower = self.at_or_after(first.pred().unwrap_or(first)).map(|(span, _)| span);
        while let Some(left) = lower.filter(|left| left.first <= window.last)
            && let Some(next) = left.last.succ()
        {
            lower = if self.merge_at(next, &mut joins).is_some() {
                joined += 1;
                self.get(left.first).map(|(span, _)| span)
            } else {
                self.at_or_after(next).map(|(span, _)| span)
            };
        }
        joined
    }
}
