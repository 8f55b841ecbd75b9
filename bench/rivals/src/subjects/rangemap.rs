//! `rangemap::RangeMap` and `RangeInclusiveMap`. `remove` does not return what it removed, so
//! the check of an erase needs a lookup, which is timed with it.

use crate::cases::Case;
use crate::gap::Gap;
use crate::map::{Map, found};
use rangemap::{RangeInclusiveMap, RangeMap};
use samara::End;
use samara_bench::data::Item;
use std::hint::black_box;

/// `$range` makes the crate's range of a first and last key, `$ends` takes it apart.
macro_rules! rangemap {
    ($map:ty, $range:expr, $ends:expr) => {
        impl Map for $map {
            const LACKS: &'static [Case] = &[Case::Snapshot, Case::FirstWriteAfterSnapshot];

            fn empty() -> Self {
                Self::new()
            }
            fn bulk(items: &[Item]) -> Option<Self> {
                Some(items.iter().map(|&(first, last, value)| ($range(first, last), value)).collect())
            }
            #[inline]
            fn lookups(&self, keys: &[u64]) -> u64 {
                keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(found(self.get(&black_box(*key)))))
            }
            #[inline]
            fn store(&mut self, (first, last, value): Item) {
                self.insert($range(first, last), value);
            }
            #[inline]
            fn erase(&mut self, (first, last, _): Item) -> Option<u64> {
                let value = self.get(&first).copied()?;
                self.remove($range(first, last));
                Some(value)
            }
            #[inline]
            fn overwrite(&mut self, item: Item) {
                self.store(item);
            }
            #[inline]
            fn each(&self, mut visit: impl FnMut(Item)) {
                self.iter().for_each(|(range, value)| {
                    let (first, last) = $ends(range);
                    visit((first, last, *value));
                });
            }
            #[inline]
            fn each_rev(&self, mut visit: impl FnMut(Item)) {
                self.iter().rev().for_each(|(range, value)| {
                    let (first, last) = $ends(range);
                    visit((first, last, *value));
                });
            }
            #[inline]
            fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
                self.overlapping($range(from, u64::MAX - 1)).all(|(range, _)| {
                    let (first, last) = $ends(range);
                    visit(first, last)
                });
            }
            #[inline]
            fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
                self.overlapping($range(0, from)).rev().all(|(range, _)| {
                    let (first, last) = $ends(range);
                    visit(first, last)
                });
                true
            }
            #[inline]
            fn gap(&self, want: &Gap) -> Option<u64> {
                match want.end {
                    End::Lowest => self.gaps(&$range(want.low, want.high)).find_map(|gap| {
                        let (first, last) = $ends(&gap);
                        want.fit(first, last)
                    }),
                    End::Highest => want.scan(self),
                }
            }
            fn copy(&self) -> Option<Self> {
                Some(self.clone())
            }
        }
    };
}

rangemap!(
    RangeMap<u64, u64>,
    |first: u64, last: u64| first..last + 1,
    |range: &std::ops::Range<u64>| (range.start, range.end - 1)
);
rangemap!(
    RangeInclusiveMap<u64, u64>,
    |first: u64, last: u64| first..=last,
    |range: &std::ops::RangeInclusive<u64>| (*range.start(), *range.end())
);
