//! `iset::IntervalMap`: its ranges may overlap, so a store over a window is several operations.
//! It iterates upwards only.

use crate::cases::Case;
use crate::map::{Map, found};
use iset::IntervalMap;
use samara_bench::data::Item;
use std::hint::black_box;

impl Map for IntervalMap<u64, u64> {
    const LACKS: &'static [Case] =
        &[Case::Snapshot, Case::FirstWriteAfterSnapshot, Case::IterateRev, Case::AtOrBefore, Case::RangeBefore];

    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        Some(Self::from_sorted(items.iter().map(|&(first, last, value)| (first..last + 1, value))))
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(found(self.values_overlap(black_box(*key)).next())))
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first..last + 1, value);
    }
    #[inline]
    fn erase(&mut self, (first, last, _): Item) -> Option<u64> {
        self.remove(first..last + 1)
    }
    fn overwrite(&mut self, (first, last, value): Item) {
        let overlapping: Vec<_> = self.iter(first..=last).map(|(range, value)| (range, *value)).collect();
        for (range, old) in overlapping {
            self.remove(range.clone());
            if range.start < first {
                self.insert(range.start..first, old);
            }
            if range.end > last + 1 {
                self.insert(last + 1..range.end, old);
            }
        }
        self.insert(first..last + 1, value);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.iter(..).for_each(|(range, value)| visit((range.start, range.end - 1, *value)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        self.intervals(from..).all(|range| visit(range.start, range.end - 1));
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}
