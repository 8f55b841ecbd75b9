//! Gap queries, the arguments of `find_gap`. Knows nothing of nodes.

use crate::types::key::Key;
use crate::types::span::Span;

/// The end of the window that a gap search starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Finds the lowest fit, at the bottom of its gap.
    Lowest,
    /// Finds the highest fit, at the top of its gap.
    Highest,
}

/// A request for a run of free keys.
///
/// ```
/// use samara::{End, GapQuery, RangeMap, Span};
/// let mut map = RangeMap::<u64, _>::new();
/// map.insert(0x0000..=0x0fff, 'a')?;
/// map.insert(0x3000..=0x3fff, 'b')?;
/// let query = GapQuery::new(0x1000).within(0x0..=0xffff);
/// assert_eq!(map.find_gap(&query), Some(Span::new(0x1000, 0x1fff)));
/// assert_eq!(map.find_gap(&query.from(End::Highest)), Some(Span::new(0xf000, 0xffff)));
/// # Ok::<(), samara::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapQuery<K = u64> {
    /// Number of keys. A query for zero keys finds nothing.
    pub len: K,
    /// Alignment: the first key of the answer equals `offset` modulo `align`. Must be a power of
    /// two; otherwise the query finds nothing.
    pub align: K,
    /// Offset of the first key from a multiple of `align`.
    pub offset: K,
    /// Range in which the answer lies.
    pub window: Span<K>,
    /// The end of the window that the search starts from.
    pub end: End,
}

impl<K: Key> GapQuery<K> {
    /// A query for the lowest run of `len` free keys, anywhere, at any alignment.
    pub fn new(len: K) -> Self {
        GapQuery { len, align: K::ONE, offset: K::ZERO, window: Span::FULL, end: End::Lowest }
    }
    /// Limits the answer to `window`.
    #[must_use]
    pub fn within(mut self, window: impl Into<Span<K>>) -> Self {
        self.window = window.into();
        self
    }
    /// Searches from this end of the window.
    #[must_use]
    pub fn from(mut self, end: End) -> Self {
        self.end = end;
        self
    }
    /// Requires the first key to be a multiple of `align`, a power of two.
    #[must_use]
    pub fn aligned(self, align: K) -> Self {
        self.aligned_at(align, K::ZERO)
    }
    /// Requires the first key to equal `offset` modulo `align`, a power of two.
    #[must_use]
    pub fn aligned_at(mut self, align: K, offset: K) -> Self {
        self.align = align;
        self.offset = offset;
        self
    }

    /// The fit inside the free run `gap` that is nearest to the wanted end.
    pub(crate) fn fit(&self, gap: Span<K>) -> Option<Span<K>> {
        let room = gap.intersect(&self.window)?;
        let mask = self.align.checked_sub(K::ONE)?;
        if !self.align.is_power_of_two() {
            return None;
        }
        let span = match self.end {
            End::Lowest => {
                let up = self.offset.wrapping_sub(room.first).and(mask);
                Span::with_len(room.first.checked_add(up)?, self.len)?
            }
            End::Highest => {
                let top = room.last.checked_sub(self.len.checked_sub(K::ONE)?)?;
                let down = top.wrapping_sub(self.offset).and(mask);
                Span::with_len(top.checked_sub(down)?, self.len)?
            }
        };
        (room.first <= span.first && span.last <= room.last).then_some(span)
    }
}
