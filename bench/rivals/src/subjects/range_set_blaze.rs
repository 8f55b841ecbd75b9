//! `range_set_blaze::RangeMapBlaze`. It removes single keys, or walks over everything
//! (`ranges_retain`, `-`). It cannot erase one range, so it has none of the cases that erase.

use crate::cases::Case;
use crate::map::{Map, found};
use range_set_blaze::{CheckSortedDisjointMap, RangeMapBlaze};
use samara_bench::data::Item;
use std::hint::black_box;

impl Map for RangeMapBlaze<u64, u64> {
    const LACKS: &'static [Case] = &[
        Case::Snapshot,
        Case::FirstWriteAfterSnapshot,
        Case::Replace,
        Case::MunmapMmap,
        Case::IterateChurned,
        Case::CloneChurned,
        Case::BytesPerRangeChurned,
    ];

    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        let ranges = items.iter().map(|(first, last, value)| (*first..=*last, value));
        Some(Self::from_sorted_disjoint_map(CheckSortedDisjointMap::new(ranges)))
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(found(self.get(black_box(*key)))))
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.ranges_insert(first..=last, value);
    }
    fn erase(&mut self, _item: Item) -> Option<u64> {
        None
    }
    #[inline]
    fn overwrite(&mut self, item: Item) {
        self.store(item);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.range_values().for_each(|(range, value)| visit((*range.start(), *range.end(), *value)));
    }
    #[inline]
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        self.range_values().rev().for_each(|(range, value)| visit((*range.start(), *range.end(), *value)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        let mut all = self.range_values().skip_while(|(range, _)| *range.end() < from);
        all.all(|(range, _)| visit(*range.start(), *range.end()));
    }
    #[inline]
    fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
        let mut all = self.range_values().rev().skip_while(|(range, _)| *range.start() > from);
        all.all(|(range, _)| visit(*range.start(), *range.end()));
        true
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}
