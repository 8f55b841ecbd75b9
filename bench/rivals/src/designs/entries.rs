//! The operations of a design on the entries of an address space. Knows no rule of a store.

use samara_mm::{AllocError, Area, GapQuery, IndexEntry, Span, gap_by_walk};

/// Entries by address, without overlaps. A design finds an entry, and goes from it to the next and
/// to the one before.
pub trait Entries<B>: Clone + Default {
    /// A handle of an entry. It is valid until the entry is removed or its bounds change, whatever
    /// happens to others.
    type At: Copy + PartialEq;

    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry that holds `addr`, or the first one above it.
    fn find(&self, addr: u64) -> Option<Self::At>;

    /// The last entry that begins at or below `addr`.
    fn find_before(&self, addr: u64) -> Option<Self::At> {
        match self.find(addr) {
            Some(at) if self.span(at).first <= addr => Some(at),
            Some(at) => self.prev(at),
            None => self.last(),
        }
    }

    /// The last entry.
    fn last(&self) -> Option<Self::At>;

    /// The next entry.
    fn next(&self, at: Self::At) -> Option<Self::At>;

    /// The entry before.
    fn prev(&self, at: Self::At) -> Option<Self::At>;

    /// The bounds of an entry.
    fn span(&self, at: Self::At) -> Span;

    /// Its area.
    fn area(&self, at: Self::At) -> &Area<B>;

    /// Its area, to change.
    fn area_mut(&mut self, at: Self::At) -> &mut Area<B>;

    /// Adds an entry in free space.
    fn insert(&mut self, span: Span, area: Area<B>);

    /// Removes an entry.
    fn remove(&mut self, at: Self::At) -> Area<B>;

    /// Gives an entry other bounds, which meet no other entry. Its place among the others stays.
    fn set_span(&mut self, at: Self::At, span: Span);

    /// Sets memory aside for `more` entries.
    ///
    /// # Errors
    /// [`AllocError`].
    fn reserve(&mut self, more: usize) -> Result<(), AllocError>;

    /// The entries that meet `span`.
    fn range(&self, span: Span) -> Walk<'_, Self, B> {
        let low = self.find(span.first).filter(|at| self.span(*at).first <= span.last);
        let ends = low.and_then(|low| Some((low, self.find_before(span.last)?)));
        Walk { entries: self, ends }
    }

    /// The answer to a gap query: a walk from one end of its window.
    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        gap_by_walk(self.range(query.window()), query)
    }
}

/// Iterates over the entries from `low` to `high`, both included.
pub struct Walk<'a, E: Entries<B>, B> {
    entries: &'a E,
    ends: Option<(E::At, E::At)>,
}

impl<E: Entries<B>, B> Clone for Walk<'_, E, B> {
    fn clone(&self) -> Self {
        Walk { entries: self.entries, ends: self.ends }
    }
}

impl<'a, E: Entries<B>, B: 'a> Iterator for Walk<'a, E, B> {
    type Item = IndexEntry<'a, B>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (low, high) = self.ends?;
        self.ends = if low == high { None } else { self.entries.next(low).map(|next| (next, high)) };
        Some((self.entries.span(low), self.entries.area(low)))
    }
}

impl<'a, E: Entries<B>, B: 'a> DoubleEndedIterator for Walk<'a, E, B> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (low, high) = self.ends?;
        self.ends = if low == high { None } else { self.entries.prev(high).map(|prev| (low, prev)) };
        Some((self.entries.span(high), self.entries.area(high)))
    }
}
