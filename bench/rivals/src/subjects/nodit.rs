//! `nodit::NoditMap`.

use crate::cases::Case;
use crate::gap::Gap;
use crate::map::{Map, found};
use nodit::interval::ii;
use nodit::{Interval, NoditMap};
use samara::End;
use samara_bench::data::Item;
use std::hint::black_box;

/// The map.
pub type Tree = NoditMap<u64, Interval<u64>, u64>;

impl Map for Tree {
    const LACKS: &'static [Case] = &[Case::Snapshot, Case::FirstWriteAfterSnapshot];

    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        Self::from_iter_strict(items.iter().map(|&(first, last, value)| (ii(first, last), value))).ok()
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(found(self.get_at_point(&black_box(*key)))))
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert_strict(ii(first, last), value).expect("a store into free space");
    }
    #[inline]
    fn erase(&mut self, (first, last, _): Item) -> Option<u64> {
        self.remove_overlapping(&ii(first, last)).next().map(|(_, value)| value)
    }
    #[inline]
    fn overwrite(&mut self, (first, last, value): Item) {
        let _ = self.insert_overwrite(ii(first, last), value);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.iter().for_each(|(range, value)| visit((*range.start(), *range.end(), *value)));
    }
    #[inline]
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        self.iter().rev().for_each(|(range, value)| visit((*range.start(), *range.end(), *value)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        self.overlapping(&ii(from, u64::MAX)).all(|(range, _)| visit(*range.start(), *range.end()));
    }
    #[inline]
    fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
        self.overlapping(&ii(0, from)).rev().all(|(range, _)| visit(*range.start(), *range.end()));
        true
    }
    #[inline]
    fn gap(&self, want: &Gap) -> Option<u64> {
        match want.end {
            End::Lowest => {
                self.gaps_trimmed(&ii(want.low, want.high)).find_map(|gap| want.fit(*gap.start(), *gap.end()))
            }
            End::Highest => want.scan(self),
        }
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}
