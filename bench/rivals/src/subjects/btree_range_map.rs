//! `btree_range_map::RangeMap`. It iterates over all ranges only: a range at a key is found by a
//! walk from the first one. `remove` does not return what it removed, so the check of an erase
//! needs a lookup, which is timed with it.

use crate::cases::Case;
use crate::map::{Map, found};
use btree_range_map::{AnyRange, RangeMap};
use samara_bench::data::Item;
use std::hint::black_box;
use std::ops::Bound;

/// The map.
pub type Tree = RangeMap<u64, u64>;

/// The first and the last key.
#[inline]
fn ends(range: &AnyRange<u64>) -> (u64, u64) {
    let first = match range.start {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key + 1,
        Bound::Unbounded => 0,
    };
    let last = match range.end {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key - 1,
        Bound::Unbounded => u64::MAX,
    };
    (first, last)
}

impl Map for Tree {
    const LACKS: &'static [Case] =
        &[Case::Snapshot, Case::FirstWriteAfterSnapshot, Case::BulkBuild, Case::AtOrBefore, Case::RangeBefore];

    fn empty() -> Self {
        Self::new()
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(found(self.get(black_box(*key)))))
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first..=last, value);
    }
    #[inline]
    fn erase(&mut self, (first, last, _): Item) -> Option<u64> {
        let value = self.get(first).copied()?;
        self.remove(first..=last);
        Some(value)
    }
    #[inline]
    fn overwrite(&mut self, item: Item) {
        self.store(item);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.iter().for_each(|(range, value)| {
            let (first, last) = ends(range);
            visit((first, last, *value));
        });
    }
    #[inline]
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        self.iter().rev().for_each(|(range, value)| {
            let (first, last) = ends(range);
            visit((first, last, *value));
        });
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        self.iter()
            .map(|(range, _)| ends(range))
            .skip_while(|range| range.1 < from)
            .all(|(first, last)| visit(first, last));
    }
    #[inline]
    fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
        let back = self.iter().rev().map(|(range, _)| ends(range));
        back.skip_while(|range| range.0 > from).all(|(first, last)| visit(first, last));
        true
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}
