//! An index on top of a design: it turns stores into removals, moved bounds and insertions of
//! entries, as a kernel's `munmap` and `mmap` do. Knows no design.

use crate::designs::entries::{Entries, Walk};
use samara_mm::{AllocError, Area, AreaIndex, GapQuery, IndexEntry, Revision, Span};
use std::fmt;
use std::marker::PhantomData;

/// The index of an address space by a design.
#[derive(Clone)]
pub struct Design<E, B>(E, PhantomData<fn() -> B>);

impl<E: Default, B> Default for Design<E, B> {
    fn default() -> Self {
        Design(E::default(), PhantomData)
    }
}

impl<E: Entries<B>, B> fmt::Debug for Design<E, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} entries", self.0.len())
    }
}

/// Iterates upwards from an entry.
pub struct Ascend<'a, E: Entries<B>, B> {
    entries: &'a E,
    at: Option<E::At>,
}

impl<'a, E: Entries<B>, B: 'a> Iterator for Ascend<'a, E, B> {
    type Item = IndexEntry<'a, B>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at?;
        self.at = self.entries.next(at);
        Some((self.entries.span(at), self.entries.area(at)))
    }
}

impl<E: Entries<B>, B: Clone> Design<E, B> {
    /// Empties `span`. With `keep`, the first entry within it stays and is returned: a store takes
    /// it over, as a kernel extends an area, instead of removing one and adding another.
    fn empty(&mut self, span: Span, keep: bool) -> Option<E::At> {
        let (entries, mut kept) = (&mut self.0, None);
        let mut at = entries.find(span.first);
        while let Some(entry) = at {
            let own = entries.span(entry);
            if own.first > span.last {
                break;
            }
            at = entries.next(entry);
            match (own.first < span.first, span.last < own.last) {
                (true, true) => {
                    let upper = entries.area(entry).clone();
                    entries.set_span(entry, Span::new(own.first, span.first - 1));
                    entries.insert(Span::new(span.last + 1, own.last), upper);
                    break;
                }
                (true, false) => entries.set_span(entry, Span::new(own.first, span.first - 1)),
                (false, true) => entries.set_span(entry, Span::new(span.last + 1, own.last)),
                (false, false) if keep && kept.is_none() => kept = Some(entry),
                (false, false) => drop(entries.remove(entry)),
            }
        }
        kept
    }
}

impl<E: Entries<B>, B: Clone> AreaIndex<B> for Design<E, B> {
    type Iter<'a>
        = Walk<'a, E, B>
    where
        E: 'a,
        B: 'a;
    type Ascend<'a>
        = Ascend<'a, E, B>
    where
        E: 'a,
        B: 'a;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn range(&self, span: Span) -> Walk<'_, E, B> {
        self.0.range(span)
    }

    fn range_from(&self, addr: u64) -> Ascend<'_, E, B> {
        Ascend { entries: &self.0, at: self.0.find(addr) }
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        self.0.find_gap(query)
    }

    fn replace(&mut self, span: Span, area: Area<B>) -> Result<(), AllocError> {
        let entries = &mut self.0;
        // An entry with these bounds is changed in place.
        if let Some(at) = entries.find(span.first).filter(|at| entries.span(*at) == span) {
            *entries.area_mut(at) = area;
            return Ok(());
        }
        match self.empty(span, true) {
            Some(at) => {
                *self.0.area_mut(at) = area;
                self.0.set_span(at, span);
            }
            None => self.0.insert(span, area),
        }
        Ok(())
    }

    fn clear_range(&mut self, span: Span) -> Result<(), AllocError> {
        self.empty(span, false);
        Ok(())
    }

    fn split_at(&mut self, at: u64) -> Result<bool, AllocError> {
        let entries = &mut self.0;
        let Some(entry) = entries.find(at).filter(|entry| entries.span(*entry).first < at) else { return Ok(false) };
        let (own, upper) = (entries.span(entry), entries.area(entry).clone());
        entries.set_span(entry, Span::new(own.first, at - 1));
        entries.insert(Span::new(at, own.last), upper);
        Ok(true)
    }

    fn get_mut(&mut self, addr: u64) -> Option<(Span, &mut Area<B>)> {
        let at = self.0.find(addr).filter(|at| self.0.span(*at).first <= addr)?;
        Some((self.0.span(at), self.0.area_mut(at)))
    }

    fn for_each_mut(&mut self, mut change: impl FnMut(&mut Area<B>)) {
        let mut at = self.0.find(0);
        while let Some(entry) = at {
            change(self.0.area_mut(entry));
            at = self.0.next(entry);
        }
    }

    fn revise(
        &mut self,
        addr: u64,
        mut decide: impl FnMut(IndexEntry<'_, B>, Option<IndexEntry<'_, B>>) -> Revision,
    ) -> Result<(), AllocError> {
        let entries = &mut self.0;
        let Some(at) = entries.find(addr) else { return Ok(()) };
        let next = entries.next(at).map(|next| (entries.span(next), entries.area(next)));
        match decide((entries.span(at), entries.area(at)), next) {
            Revision::Keep => {}
            Revision::Resize(span) => entries.set_span(at, span),
            Revision::Remove => drop(entries.remove(at)),
            Revision::Punch(hole) => {
                let own = entries.span(at);
                if hole.first <= own.first || own.last <= hole.last {
                    return self.clear_range(hole);
                }
                let upper = entries.area(at).clone();
                entries.set_span(at, Span::new(own.first, hole.first - 1));
                entries.insert(Span::new(hole.last + 1, own.last), upper);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, _span: Span, stores: usize) -> Result<(), AllocError> {
        self.0.reserve(stores)
    }

    fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(Design(self.0.clone(), PhantomData))
    }

    fn from_sorted(all: impl Iterator<Item = (Span, Area<B>)>) -> Result<Self, AllocError> {
        let mut entries = E::default();
        all.for_each(|(span, area)| entries.insert(span, area));
        Ok(Design(entries, PhantomData))
    }
}
