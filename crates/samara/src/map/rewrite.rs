//! Rewrites a window: a closure gets every piece and gap of it and returns the new value.
//!
//! Uses the map's own lookups and stores. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::displaced::unobserved;
use crate::types::error::{AllocError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use alloc::vec::Vec;

/// Pieces of the window, each with its new value, or `None` to remove what is there.
type Pieces<K, V> = Vec<(Span<K>, Option<V>)>;

impl<K: Key, V: Clone, S: Shape> RangeMap<K, V, S> {
    /// Shows `rewrite` every piece of `window`, ascending: the part of each entry that lies within
    /// it, with the value, and each gap, with `None`. Afterwards the piece has the value that
    /// `rewrite` returned for it, or no entry if that was `None`. Parts of entries outside of
    /// the window stay as they are.
    ///
    /// Each piece becomes an entry of its own; [`coalesce`](Self::coalesce) joins equal ones. In a
    /// [`WriteGuard::update`](crate::WriteGuard::update) of a shared map, readers see all of a
    /// rewrite or nothing of it.
    ///
    /// Nothing changes before `rewrite` has returned for all pieces: if it panics, the map is as
    /// before. Where a value's `clone` panics, every key still has its value, but an entry may have
    /// been split at an edge of the window, and the memory that was reserved for the stores stays
    /// set aside until [`release`](Self::release). If the map shares nodes with a snapshot, copies
    /// of nodes clone values too: where one of those panics, a part of the pieces may have been
    /// rewritten. The same holds where the `drop` of a displaced value panics. An `update` of a
    /// shared map publishes nothing then.
    ///
    /// Memory that [`reserve`](Self::reserve) has set aside is used first.
    ///
    /// # Complexity
    /// O(k log n) for k pieces. Allocates a list of the pieces, and reserves memory for the stores
    /// before the first of them.
    ///
    /// # Errors
    /// [`StoreError::EmptyRange`], [`StoreError::Alloc`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// // Counts how many threads hold each byte of a file.
    /// let mut holders: RangeMap<u64, u32> = RangeMap::from_sorted([(0..=9, 1), (20..=29, 2)])?;
    /// holders.rewrite(5..=24, |_, count| Some(count.map_or(1, |count| count + 1)))?;
    /// let shown: Vec<_> =
    ///     holders.iter().map(|(span, count)| (span.first, span.last, *count)).collect();
    /// assert_eq!(shown, [(0, 4, 1), (5, 9, 2), (10, 19, 1), (20, 24, 3), (25, 29, 2)]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn rewrite(
        &mut self,
        window: impl Into<Span<K>>,
        mut rewrite: impl FnMut(Span<K>, Option<&V>) -> Option<V>,
    ) -> Result<(), StoreError<K>> {
        let window = window.into();
        if window.is_empty() {
            return Err(StoreError::EmptyRange(window));
        }
        let pieces = self.rewritten(window, &mut rewrite)?;
        // A reservation that the caller has made is the caller's to give back.
        let reserved = self.tree.leaves.is_reserved();
        // One store for each piece, and one for each entry that crosses an edge of the window.
        let crossed = |key| self.get(key).map_or(Span::new(key, key), |(span, _)| span);
        let touched = Span::new(crossed(window.first).first, crossed(window.last).last);
        self.reserve_within(touched, pieces.len() + 2)?;
        let done = self.store_pieces(window, pieces);
        if !reserved {
            self.release();
        }
        done
    }

    /// The pieces of the window that change, each with its new value.
    fn rewritten(
        &self,
        window: Span<K>,
        rewrite: &mut impl FnMut(Span<K>, Option<&V>) -> Option<V>,
    ) -> Result<Pieces<K, V>, AllocError> {
        let mut pieces = Vec::new();
        let mut show = |span: Span<K>, value: Option<&V>| {
            let new = rewrite(span, value);
            if new.is_some() || value.is_some() {
                pieces.try_reserve(1).map_err(|_| AllocError)?;
                pieces.push((span, new));
            }
            Ok(())
        };
        let mut next = Some(window.first);
        for (span, value) in self.range(window) {
            let Some(first) = next else { break };
            if let Some(below) = span.first.pred().filter(|below| first <= *below) {
                show(Span::new(first, below), None)?;
            }
            show(Span::new(span.first.max(first), span.last.min(window.last)), Some(value))?;
            next = span.last.succ();
        }
        if let Some(first) = next.filter(|first| *first <= window.last) {
            show(Span::new(first, window.last), None)?;
        }
        Ok(pieces)
    }

    fn store_pieces(&mut self, window: Span<K>, pieces: Pieces<K, V>) -> Result<(), StoreError<K>> {
        // Splits clone values, so they come first: afterwards pieces are whole entries, or gaps.
        self.split_at(window.first)?;
        if let Some(behind) = window.last.succ() {
            self.split_at(behind)?;
        }
        for (span, value) in pieces {
            match value {
                Some(value) => self.insert(span, value)?,
                None => self.clear_range(span, unobserved)?,
            }
        }
        Ok(())
    }
}
