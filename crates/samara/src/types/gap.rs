//! Gap queries, the arguments of `find_gap`. Knows nothing of nodes.

use crate::types::error::AlignError;
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
/// let query = GapQuery::new(0x1000).aligned(0x2000)?;
/// assert_eq!(map.find_gap(&query), Some(Span::new(0x2000, 0x2fff)));
/// # Ok::<(), samara::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapQuery<K = u64> {
    pub(crate) len: K,
    /// A power of two.
    pub(crate) align: K,
    pub(crate) offset: K,
    pub(crate) window: Span<K>,
    pub(crate) end: End,
    pub(crate) padded: bool,
}

impl<K: Key> GapQuery<K> {
    /// A query for the lowest run of `len` free keys, anywhere, at any alignment. A query for zero
    /// keys finds nothing.
    pub fn new(len: K) -> Self {
        GapQuery { len, align: K::ONE, offset: K::ZERO, window: Span::FULL, end: End::Lowest, padded: false }
    }
    /// Limits the answer to `window`. In a window that holds no key the query finds nothing.
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
    ///
    /// # Errors
    /// [`AlignError`]: `align` is not a power of two.
    pub fn aligned(self, align: K) -> Result<Self, AlignError<K>> {
        self.aligned_at(align, K::ZERO)
    }
    /// Requires the first key to equal `offset` modulo `align`, a power of two.
    ///
    /// # Errors
    /// [`AlignError`]: `align` is not a power of two.
    pub fn aligned_at(self, align: K, offset: K) -> Result<Self, AlignError<K>> {
        if !align.is_power_of_two() {
            return Err(AlignError { align });
        }
        Ok(GapQuery { align, offset: offset.and(align.wrapping_sub(K::ONE)), ..self })
    }

    /// Takes only gaps of `len + align - 1` keys or more within the window. An aligned run fits in
    /// these wherever they begin, so the search takes O(log n) whatever the alignment. It skips
    /// smaller gaps even if they hold an aligned run, so it may find a place further away, or none.
    /// (Linux searches like this for huge pages.) Without an alignment it changes nothing.
    ///
    /// ```
    /// use samara::{GapQuery, RangeMap, Span};
    /// let map: RangeMap<u64, char> =
    ///     [(0..=15, 'a'), (32..=99, 'b'), (140..=149, 'c')].into_iter().collect();
    /// let query = GapQuery::new(16).aligned(16)?;
    /// assert_eq!(map.find_gap(&query), Some(Span::new(16, 31)));
    /// assert_eq!(map.find_gap(&query.padded()), Some(Span::new(112, 127)), "the gap from 100 to 139");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn padded(mut self) -> Self {
        self.padded = true;
        self
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> K {
        self.len
    }
    /// Whether the query is for zero keys, and so finds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == K::ZERO
    }
    /// The alignment, a power of two: the first key of the answer equals [`offset`](Self::offset)
    /// modulo this.
    #[must_use]
    pub fn align(&self) -> K {
        self.align
    }
    /// The first key modulo [`align`](Self::align).
    #[must_use]
    pub fn offset(&self) -> K {
        self.offset
    }
    /// The range in which the answer lies.
    #[must_use]
    pub fn window(&self) -> Span<K> {
        self.window
    }
    /// The end of the window that the search starts from.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }

    /// Whether the search takes only gaps that hold an aligned run wherever they begin.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.padded
    }
    /// This query without padding, and the distance between the first and the last key of the
    /// smallest gap that is wide enough; `None` if no gap can be.
    pub(crate) fn unpadded(&self) -> Option<(Self, K)> {
        let distance = self.len.checked_sub(K::ONE)?.checked_add(self.align.wrapping_sub(K::ONE))?;
        Some((GapQuery { padded: false, ..*self }, distance))
    }

    /// The answer within the free range `gap`, the nearest to the wanted end; `None` if it does not
    /// fit there. For collections that search their gaps by themselves. O(1).
    ///
    /// ```
    /// use samara::{End, GapQuery, Span};
    /// let query = GapQuery::<u64>::new(16).aligned(16)?.from(End::Highest);
    /// assert_eq!(query.fit(Span::new(5, 50)), Some(Span::new(32, 47)));
    /// assert_eq!(query.fit(Span::new(5, 30)), None);
    /// # Ok::<(), samara::AlignError<u64>>(())
    /// ```
    #[must_use]
    pub fn fit(&self, gap: Span<K>) -> Option<Span<K>> {
        if self.padded {
            let room = gap.intersect(&self.window)?;
            let (plain, distance) = self.unpadded()?;
            return if room.first.checked_add(distance)? <= room.last { plain.fit_unpadded(room) } else { None };
        }
        self.fit_unpadded(gap)
    }

    /// [`fit`](Self::fit), without padding.
    #[inline]
    pub(crate) fn fit_unpadded(&self, gap: Span<K>) -> Option<Span<K>> {
        let room = gap.intersect(&self.window)?;
        let mask = self.align.wrapping_sub(K::ONE);
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
