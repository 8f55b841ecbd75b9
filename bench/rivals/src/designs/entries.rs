//! What a design does with the entries of an address space. Knows no rule of a store.

use samara_mm::{AllocError, Area, End, GapQuery, Span};

/// Entries by address, none of which overlap. A design finds an entry, and goes from it to the next
/// and to the one before.
pub trait Entries<B>: Clone + Default {
    /// Where an entry is kept.
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

    /// Where an entry lies.
    fn span(&self, at: Self::At) -> Span;

    /// Its area.
    fn area(&self, at: Self::At) -> &Area<B>;

    /// Its area, to change.
    fn area_mut(&mut self, at: Self::At) -> &mut Area<B>;

    /// Adds an entry where nothing is.
    fn insert(&mut self, span: Span, area: Area<B>);

    /// Takes an entry out.
    fn remove(&mut self, at: Self::At) -> Area<B>;

    /// Gives an entry other bounds, which meet no other entry. Its place among the others stays.
    fn set_span(&mut self, at: Self::At, span: Span);

    /// Sets memory aside for `more` entries.
    ///
    /// # Errors
    /// [`AllocError`].
    fn reserve(&mut self, more: usize) -> Result<(), AllocError>;

    /// The gap that the query asks for: a walk from one end of its window.
    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        let window = query.window();
        match query.end() {
            End::Lowest => {
                let mut low = window.first;
                let mut at = self.find(low);
                while let Some(entry) = at.filter(|entry| self.span(*entry).first <= window.last) {
                    let span = self.span(entry);
                    if span.first > low
                        && let found @ Some(_) = query.fit(Span::new(low, span.first - 1))
                    {
                        return found;
                    }
                    low = span.last.checked_add(1)?;
                    at = self.next(entry);
                }
                if low <= window.last { query.fit(Span::new(low, window.last)) } else { None }
            }
            End::Highest => {
                let mut high = window.last;
                let mut at = self.find_before(high);
                while let Some(entry) = at.filter(|entry| self.span(*entry).last >= window.first) {
                    let span = self.span(entry);
                    if span.last < high
                        && let found @ Some(_) = query.fit(Span::new(span.last + 1, high))
                    {
                        return found;
                    }
                    high = span.first.checked_sub(1)?;
                    at = self.prev(entry);
                }
                if window.first <= high { query.fit(Span::new(window.first, high)) } else { None }
            }
        }
    }
}
