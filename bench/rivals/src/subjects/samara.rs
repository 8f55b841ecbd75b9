//! `samara::RangeMap`: each operation is one call.

use crate::cases::Case;
use crate::gap::Gap;
use crate::map::Map;
use samara::{GapQuery, RangeMap, Shape, Span};
use samara_bench::data::Item;
use std::hint::black_box;

impl<S: Shape> Map for RangeMap<u64, u64, S> {
    const LACKS: &'static [Case] = &[];

    fn empty() -> Self {
        Self::default()
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        Self::from_sorted(items.iter().map(|&(first, last, value)| (first..=last, value))).ok()
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(*self.get_or(black_box(*key), &0)))
    }
    #[inline]
    fn befores(&self, keys: &[u64]) -> u64 {
        let last = |key: &u64| self.at_or_before(black_box(*key)).map_or(0, |(span, _)| span.last);
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(last(key)))
    }
    #[inline]
    fn ranges_before(&self, keys: &[u64]) -> u64 {
        let last = |key: &u64| self.range(..=black_box(*key)).next_back().map_or(0, |(span, _)| span.last);
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(last(key)))
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first..=last, value).expect("memory for a store");
    }
    #[inline]
    fn erase(&mut self, (first, ..): Item) -> Option<u64> {
        self.remove(first).map(|(_, value)| value)
    }
    #[inline]
    fn overwrite(&mut self, item: Item) {
        self.store(item);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.iter().for_each(|(span, value)| visit((span.first, span.last, *value)));
    }
    #[inline]
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        self.iter().rev().for_each(|(span, value)| visit((span.first, span.last, *value)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        self.range(Span::new(from, u64::MAX)).all(|(span, _)| visit(span.first, span.last));
    }
    #[inline]
    fn gap(&self, want: &Gap) -> Option<u64> {
        let query = GapQuery::new(want.len).within(want.low..=want.high).aligned(want.align).ok()?.from(want.end);
        let query = if want.padded { query.padded() } else { query };
        self.find_gap(&query).map(|span| span.first)
    }
    fn snapshot(&self) -> Option<Self> {
        self.try_snapshot().ok()
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}
