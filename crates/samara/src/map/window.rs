//! Iterators over a window, and cursors. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::map::cursor::{Cursor, CursorMut};
use crate::map::iter::{Range, RangeMut};
use crate::node::shape::Shape;
use crate::types::error::or_abort;
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Iterates over the entries that meet `window`, ascending, from both ends. Entries are whole:
    /// the outer ones may stick out. A window that holds no key meets no entry. O(log n), then O(1)
    /// amortised a step.
    #[inline]
    pub fn range(&self, window: impl Into<Span<K>>) -> Range<'_, K, V, S> {
        self.tree.range(window.into())
    }

    /// [`range`](Self::range) with mutable values.
    pub fn range_mut(&mut self, window: impl Into<Span<K>>) -> RangeMut<'_, K, V, S> {
        let window = window.into();
        or_abort(self.tree.own_values(window));
        RangeMut { walk: self.tree.walk(window), borrow: PhantomData }
    }

    /// A cursor that points to the entry or the gap that holds `key`. O(log n).
    pub fn cursor(&self, key: K) -> Cursor<'_, K, V, S> {
        Cursor::new(&self.tree, key)
    }

    /// A cursor that can edit, and points to the entry or the gap that holds `key`. O(log n).
    pub fn cursor_mut(&mut self, key: K) -> CursorMut<'_, K, V, S> {
        CursorMut::new(&mut self.tree, key)
    }
}
