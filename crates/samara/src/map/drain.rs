//! Drain: moves the entries of a window out, trimmed to the window, then clears the window with one
//! store.
//!
//! Knows nothing of how values leave the tree: that is `take_out`.
//!
//! - **DRAIN-1** Entries that stick out of the window are trimmed before the drain begins, and the
//!   drain holds the pieces from inside the window. So all entries left in the window are whole,
//!   and clearing it needs no memory.
//! - **DRAIN-2** While the drain lives it owns all entries of the map, and the map is empty. A
//!   leaked drain leaks them, so a value that has been moved out is never seen.

use crate::map::RangeMap;
use crate::node::shape::{Normal, Shape};
use crate::tree::take_out::TakeOut;
use crate::types::displaced::unobserved;
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::iter::FusedIterator;

impl<K: Key, V: Clone, S: Shape> RangeMap<K, V, S> {
    /// Clears `window`, as [`clear_range`](Self::clear_range) does, and yields what was in it:
    /// entries in ascending order, from both ends, trimmed to the window. An entry that extends
    /// beyond it keeps its value, and the piece inside gets a clone. O(log n + entries met).
    ///
    /// Dropping the drain drops what it has not yielded; the window is then clear. Leaking the
    /// drain leaks all entries of the map; the map is then empty.
    ///
    /// # Errors
    /// [`StoreError::EmptyRange`]. [`StoreError::Alloc`] only if one entry extends beyond both
    /// ends, or if the map shares nodes with a snapshot. The map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Span};
    /// let mut map = RangeMap::<u64, _>::new();
    /// map.insert(0..=9, 'a')?;
    /// map.insert(20..=29, 'b')?;
    /// let gone: Vec<_> = map.drain(5..=99)?.collect();
    /// assert_eq!(gone, [(Span::new(5, 9), 'a'), (Span::new(20, 29), 'b')]);
    /// assert!(map.iter().eq([(Span::new(0, 4), &'a')]));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn drain(&mut self, window: impl Into<Span<K>>) -> Result<Drain<'_, K, V, S>, StoreError<K>> {
        let window = window.into();
        if window.is_empty() {
            return Err(StoreError::EmptyRange(window));
        }
        self.tree.own(Span::FULL)?;
        let piece = |key: K, sticks_out: fn(Span<K>, Span<K>) -> bool| {
            let (span, value) = self.get(key).filter(|(span, _)| sticks_out(*span, window))?;
            Some((span, value.clone()))
        };
        // All values are cloned before the first change.
        let mut low = piece(window.first, |span, window| span.first < window.first);
        let mut high = None;
        if let Some((span, _)) = &mut low
            && span.last > window.last
        {
            self.tree.store(window, None, unobserved)?;
            *span = window;
        } else {
            high = piece(window.last, |span, window| span.last > window.last);
            if let Some((span, _)) = &mut low {
                let rest = Span::new(span.first, window.first.wrapping_sub(K::ONE));
                let trimmed = self.tree.resize(span.first, rest);
                debug_assert!(trimmed.is_ok(), "an entry is trimmed where it sticks out");
                span.first = window.first;
            }
            if let Some((span, _)) = &mut high {
                let rest = Span::new(window.last.wrapping_add(K::ONE), span.last);
                let trimmed = self.tree.resize(span.last, rest);
                debug_assert!(trimmed.is_ok(), "an entry is trimmed where it sticks out");
                span.last = window.last;
            }
        }
        let left = self.range(window).count();
        // SAFETY: `left` entries meet the window, as just counted, and COW-2: `own` has made all
        // nodes the map's own.
        let leaving = unsafe { TakeOut::new(&mut self.tree, window, left) };
        Ok(Drain { map: self, low, high, window, leaving })
    }
}

/// Takes entries out of a map: see [`RangeMap::drain`].
pub struct Drain<'a, K: Key, V: Clone, S: Shape = Normal> {
    map: &'a mut RangeMap<K, V, S>,
    low: Option<(Span<K>, V)>,
    high: Option<(Span<K>, V)>,
    window: Span<K>,
    leaving: TakeOut<K, V, S>,
}

impl<K: Key, V: Clone, S: Shape> Iterator for Drain<'_, K, V, S> {
    type Item = (Span<K>, V);
    fn next(&mut self) -> Option<Self::Item> {
        self.low.take().or_else(|| self.leaving.next()).or_else(|| self.high.take())
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.low.is_some()) + self.leaving.left() + usize::from(self.high.is_some());
        (left, Some(left))
    }
}

impl<K: Key, V: Clone, S: Shape> DoubleEndedIterator for Drain<'_, K, V, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.high.take().or_else(|| self.leaving.next_back()).or_else(|| self.low.take())
    }
}

impl<K: Key, V: Clone, S: Shape> ExactSizeIterator for Drain<'_, K, V, S> {}
impl<K: Key, V: Clone, S: Shape> FusedIterator for Drain<'_, K, V, S> {}

impl<K: Key, V: Clone, S: Shape> Drop for Drain<'_, K, V, S> {
    fn drop(&mut self) {
        /// Gives the map its entries back, even if a value's drop panics.
        struct GiveBack<'d, 'a, K: Key, V: Clone, S: Shape>(&'d mut Drain<'a, K, V, S>);
        impl<K: Key, V: Clone, S: Shape> Drop for GiveBack<'_, '_, K, V, S> {
            fn drop(&mut self) {
                let Drain { map, window, leaving, .. } = &mut *self.0;
                // TAKE-OUT-2: the window holds no value any more. TAKE-OUT-1: clearing it drops
                // none.
                let cleared = leaving.tree.store(*window, None, unobserved);
                // Asserted: otherwise the map would hold values that have been moved out.
                assert!(cleared.is_ok(), "DRAIN-1: clearing whole entries cannot fail");
                // SAFETY: DRAIN-2: the drain alone holds the map's nodes, and all entries left in
                // them lie outside the window and have their values.
                unsafe { leaving.tree.move_into(&mut map.tree) };
            }
        }
        let give_back = GiveBack(self);
        give_back.0.leaving.drop_rest();
    }
}

impl<K: Key, V: Clone, S: Shape> fmt::Debug for Drain<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.len()).finish_non_exhaustive()
    }
}
