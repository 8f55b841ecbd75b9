//! `rangemap`: the crate of that name. Its maps join neighbours with equal values, and give no
//! mutable access to values. So its values are unique numbers of areas that are kept beside the
//! map.

use crate::designs::entries::Entries;
use rangemap::RangeInclusiveMap;
use samara_mm::{AllocError, Area, Span};

/// The numbers of areas by range.
#[derive(Clone)]
pub struct ByRange<B> {
    map: RangeInclusiveMap<u64, u32>,
    areas: Vec<Option<Area<B>>>,
    free: Vec<u32>,
}

impl<B> Default for ByRange<B> {
    fn default() -> Self {
        ByRange { map: RangeInclusiveMap::new(), areas: Vec::new(), free: Vec::new() }
    }
}

impl<B> ByRange<B> {
    fn first_in(&self, span: Span) -> Option<(Span, u32)> {
        let found = self.map.overlapping(span.first..=span.last).next();
        found.map(|(range, number)| (Span::new(*range.start(), *range.end()), *number))
    }

    fn last_in(&self, span: Span) -> Option<(Span, u32)> {
        let found = self.map.overlapping(span.first..=span.last).next_back();
        found.map(|(range, number)| (Span::new(*range.start(), *range.end()), *number))
    }
}

impl<B: Clone> Entries<B> for ByRange<B> {
    /// The range of the entry, and its number.
    type At = (Span, u32);

    fn len(&self) -> usize {
        self.areas.len() - self.free.len()
    }

    fn find(&self, addr: u64) -> Option<(Span, u32)> {
        self.first_in(Span::new(addr, u64::MAX))
    }

    fn find_before(&self, addr: u64) -> Option<(Span, u32)> {
        self.last_in(Span::new(0, addr))
    }

    fn last(&self) -> Option<(Span, u32)> {
        self.last_in(Span::FULL)
    }

    fn next(&self, (span, _): (Span, u32)) -> Option<(Span, u32)> {
        self.find(span.last.checked_add(1)?)
    }

    fn prev(&self, (span, _): (Span, u32)) -> Option<(Span, u32)> {
        self.find_before(span.first.checked_sub(1)?)
    }

    fn span(&self, (span, _): (Span, u32)) -> Span {
        span
    }

    fn area(&self, (_, number): (Span, u32)) -> &Area<B> {
        self.areas[number as usize].as_ref().expect("an area is there")
    }

    fn area_mut(&mut self, (_, number): (Span, u32)) -> &mut Area<B> {
        self.areas[number as usize].as_mut().expect("an area is there")
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.areas.push(None);
            self.areas.len() as u32 - 1
        });
        self.areas[number as usize] = Some(area);
        self.map.insert(span.first..=span.last, number);
    }

    fn remove(&mut self, (span, number): (Span, u32)) -> Area<B> {
        self.map.remove(span.first..=span.last);
        self.free.push(number);
        self.areas[number as usize].take().expect("an area is there")
    }

    fn set_span(&mut self, (own, number): (Span, u32), span: Span) {
        // Cut the entry if it became shorter.
        if own.first < span.first {
            self.map.remove(own.first..=span.first - 1);
        }
        if span.last < own.last {
            self.map.remove(span.last + 1..=own.last);
        }
        if span.first < own.first || own.last < span.last {
            self.map.insert(span.first..=span.last, number);
        }
    }

    /// Its maps do not allocate in advance.
    fn reserve(&mut self, _more: usize) -> Result<(), AllocError> {
        Ok(())
    }
}
