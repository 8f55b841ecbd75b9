//! The index that keeps the areas of an address space in order, as a type parameter: [`AreaIndex`].
//!
//! Knows spans of addresses and the areas there; knows no rule of a call. Samara's own index is
//! [`RangeMap`]. An embedder with its own tree, or who compares designs, implements another one.

use crate::area::Area;
use samara::{AllocError, End, GapQuery, RangeMap, Revision, Span};

/// An entry of an index: where the area is (both ends inclusive), and the area.
pub type IndexEntry<'a, B> = (Span, &'a Area<B>);

/// Areas by address, without overlaps.
///
/// The engine ([`AddressSpace`](crate::AddressSpace)) uses an index to look up an address and its
/// neighbours, to find a gap, and to store one area over existing ones. The engine has all rules:
/// for splits, merges and refusals.
///
/// # What holds for each implementation
/// - Entries ascend and do not overlap. Entries that touch stay apart, even if their areas are
///   equal: only the engine joins.
/// - An operation that returns [`AllocError`] has changed nothing.
/// - After [`reserve`](Self::reserve), stores in its span do not run out of memory: `stores` of
///   them may add an entry, and any number may overwrite, trim or remove entries. That holds even
///   if the index shares memory with a duplicate.
///
/// # Complexity
/// The engine's documentation assumes O(log n) for a look, a gap and a store, and O(1) for the next
/// entry of an iterator.
pub trait AreaIndex<B>: Default {
    /// Goes over entries in either direction.
    type Iter<'a>: DoubleEndedIterator<Item = IndexEntry<'a, B>> + Clone
    where
        Self: 'a,
        B: 'a;

    /// Goes over entries upwards.
    type Ascend<'a>: Iterator<Item = IndexEntry<'a, B>>
    where
        Self: 'a,
        B: 'a;

    // --- Find ---

    /// Number of entries. O(1).
    fn len(&self) -> usize;

    /// Whether there is no entry. O(1).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry that holds `addr`.
    fn get(&self, addr: u64) -> Option<IndexEntry<'_, B>> {
        self.at_or_after(addr).filter(|(span, _)| span.first <= addr)
    }

    /// The entry that holds `addr`, or the first one above it.
    fn at_or_after(&self, addr: u64) -> Option<IndexEntry<'_, B>> {
        self.range_from(addr).next()
    }

    /// [`at_or_after`](Self::at_or_after) with `&mut self`: the index may remember the place,
    /// because the next call is often there.
    fn seek(&mut self, addr: u64) -> Option<IndexEntry<'_, B>> {
        self.at_or_after(addr)
    }

    /// Announces that the next lookups and stores are at `addr` or right beside it. An index that
    /// remembers places descends once for all of them.
    fn approach(&mut self, addr: u64) {
        _ = addr;
    }

    // --- Neighbours ---

    /// The entries before and behind `span`, if the index remembers the one behind and knows that
    /// `span` is empty. `None` means unknown; an index that remembers no places always returns it.
    fn beside(&self, span: Span) -> Option<[IndexEntry<'_, B>; 2]> {
        _ = span;
        None
    }

    /// The entries that meet `span`, untrimmed.
    fn range(&self, span: Span) -> Self::Iter<'_>;

    /// The entries from [`at_or_after`](Self::at_or_after) on.
    fn range_from(&self, addr: u64) -> Self::Ascend<'_>;

    /// All entries.
    fn iter(&self) -> Self::Iter<'_> {
        self.range(Span::FULL)
    }

    // --- Gap ---

    /// A gap as [`RangeMap::find_gap`] finds it: the lowest or the highest place that the query
    /// allows. By default a walk over the entries, O(n).
    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        gap_by_walk(self.range(query.window()), query)
    }

    /// [`find_gap`](Self::find_gap) with `&mut self`: the index may remember the place, because a
    /// store there follows. Also returns the entry behind the gap.
    fn seek_gap(&mut self, query: &GapQuery) -> Option<(Span, Option<IndexEntry<'_, B>>)> {
        let place = self.find_gap(query)?;
        Some((place, self.at_or_after(place.last)))
    }

    // --- Store ---

    /// Stores `area` at `span`: removes entries within it, trims entries across its ends, and cuts
    /// an entry that holds all of it in two.
    ///
    /// # Errors
    /// [`AllocError`].
    fn replace(&mut self, span: Span, area: Area<B>) -> Result<(), AllocError>;

    /// Empties `span` likewise.
    ///
    /// # Errors
    /// [`AllocError`].
    fn clear_range(&mut self, span: Span) -> Result<(), AllocError>;

    /// Cuts the entry that lies across `at` in two equal ones. Returns whether there was one.
    ///
    /// # Errors
    /// [`AllocError`].
    fn split_at(&mut self, at: u64) -> Result<bool, AllocError>;

    /// The entry that holds `addr`, to change its area in place.
    fn get_mut(&mut self, addr: u64) -> Option<(Span, &mut Area<B>)>;

    /// Calls `change` for each area.
    fn for_each_mut(&mut self, change: impl FnMut(&mut Area<B>));

    /// Passes `decide` the entry that holds `addr` or is the first above it, and the next one. Then
    /// removes the first, or gives it other bounds within its span and the gaps beside it. `decide`
    /// is called at most once. An index that does this in one descent saves the engine a lookup in
    /// most calls.
    ///
    /// # Errors
    /// [`AllocError`].
    fn revise(
        &mut self,
        addr: u64,
        decide: impl FnMut(IndexEntry<'_, B>, Option<IndexEntry<'_, B>>) -> Revision,
    ) -> Result<(), AllocError>;

    /// Reserves memory for stores in `span`; `stores` of them may add an entry.
    ///
    /// # Errors
    /// [`AllocError`].
    fn reserve(&mut self, span: Span, stores: usize) -> Result<(), AllocError>;

    /// Gives back reserved memory that was not used.
    fn release(&mut self) {}

    // --- Duplicate ---

    /// A copy with the same entries. Later changes of one do not affect the other.
    ///
    /// # Errors
    /// [`AllocError`].
    fn duplicate(&self) -> Result<Self, AllocError>
    where
        B: Send + Sync;

    /// An index of these entries, which ascend and do not overlap.
    ///
    /// # Errors
    /// [`AllocError`].
    fn from_sorted(entries: impl Iterator<Item = (Span, Area<B>)>) -> Result<Self, AllocError>;

    /// Checks the index's own invariants, for tests.
    ///
    /// # Errors
    /// The violation found.
    fn check(&self) -> Result<(), samara::Violation> {
        Ok(())
    }
}

/// The gap for `query`, found by a walk over these entries of its window.
pub fn gap_by_walk<'a, B: 'a>(
    mut entries: impl DoubleEndedIterator<Item = IndexEntry<'a, B>>,
    query: &GapQuery,
) -> Option<Span> {
    let window = query.window();
    let (mut low, mut high) = (window.first, window.last);
    loop {
        let next = match query.end() {
            End::Lowest => entries.next(),
            End::Highest => entries.next_back(),
        };
        let Some((span, _)) = next else { break };
        let gap = match query.end() {
            End::Lowest => span.first.checked_sub(1).map(|last| (low, last)),
            End::Highest => span.last.checked_add(1).map(|first| (first, high)),
        };
        let found =
            gap.filter(|(first, last)| first <= last).and_then(|(first, last)| query.fit(Span::new(first, last)));
        if found.is_some() {
            return found;
        }
        match query.end() {
            End::Lowest => low = span.last.checked_add(1)?,
            End::Highest => high = span.first.checked_sub(1)?,
        }
    }
    if low <= high { query.fit(Span::new(low, high)) } else { None }
}

impl<B: Clone> AreaIndex<B> for RangeMap<u64, Area<B>> {
    type Iter<'a>
        = samara::Range<'a, u64, Area<B>>
    where
        B: 'a;
    type Ascend<'a>
        = samara::RangeFrom<'a, u64, Area<B>>
    where
        B: 'a;

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn len(&self) -> usize {
        RangeMap::len(self)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn get(&self, addr: u64) -> Option<IndexEntry<'_, B>> {
        RangeMap::get(self, addr)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn at_or_after(&self, addr: u64) -> Option<IndexEntry<'_, B>> {
        RangeMap::at_or_after(self, addr)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn seek(&mut self, addr: u64) -> Option<IndexEntry<'_, B>> {
        RangeMap::seek(self, addr)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn approach(&mut self, addr: u64) {
        _ = RangeMap::seek(self, addr);
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn range(&self, span: Span) -> Self::Iter<'_> {
        RangeMap::range(self, span)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn range_from(&self, addr: u64) -> Self::Ascend<'_> {
        RangeMap::range_from(self, addr)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        RangeMap::find_gap(self, query)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn beside(&self, span: Span) -> Option<[IndexEntry<'_, B>; 2]> {
        RangeMap::beside(self, span)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn seek_gap(&mut self, query: &GapQuery) -> Option<(Span, Option<IndexEntry<'_, B>>)> {
        RangeMap::seek_gap(self, query)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn replace(&mut self, span: Span, area: Area<B>) -> Result<(), AllocError> {
        RangeMap::insert(self, span, area).map_err(|_| AllocError)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn clear_range(&mut self, span: Span) -> Result<(), AllocError> {
        RangeMap::clear_range(self, span, |_| ()).map_err(|_| AllocError)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn split_at(&mut self, at: u64) -> Result<bool, AllocError> {
        RangeMap::split_at(self, at).map_err(|_| AllocError)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn get_mut(&mut self, addr: u64) -> Option<(Span, &mut Area<B>)> {
        RangeMap::get_mut(self, addr)
    }

    fn for_each_mut(&mut self, mut change: impl FnMut(&mut Area<B>)) {
        self.iter_mut().for_each(|(_, area)| change(area));
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn revise(
        &mut self,
        addr: u64,
        decide: impl FnMut(IndexEntry<'_, B>, Option<IndexEntry<'_, B>>) -> Revision,
    ) -> Result<(), AllocError> {
        RangeMap::revise(self, addr, decide).map_err(|_| AllocError)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn reserve(&mut self, span: Span, stores: usize) -> Result<(), AllocError> {
        self.reserve_within(span, stores)
    }

    fn release(&mut self) {
        RangeMap::release(self);
    }

    fn duplicate(&self) -> Result<Self, AllocError>
    where
        B: Send + Sync,
    {
        self.try_snapshot()
    }

    fn from_sorted(entries: impl Iterator<Item = (Span, Area<B>)>) -> Result<Self, AllocError> {
        RangeMap::from_sorted(entries).map_err(|_| AllocError)
    }

    fn check(&self) -> Result<(), samara::Violation> {
        RangeMap::check(self)
    }
}
