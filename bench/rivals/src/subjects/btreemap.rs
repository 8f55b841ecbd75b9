//! std's `BTreeMap`: first key to last key and value. A lookup is `range(..=key).next_back()`, an
//! erase is `remove`, a store into free space is `insert`; a store over a window removes what
//! starts in it in one walk.

use crate::cases::Case;
use crate::map::{Map, found_if};
use crate::points::{self, Points};
use samara_bench::data::Item;
use std::collections::BTreeMap;
use std::hint::black_box;

/// The map.
pub type Tree = BTreeMap<u64, (u64, u64)>;

/// The same for every map that has `BTreeMap`'s interface.
macro_rules! like_btreemap {
    ($tree:ty) => {
        impl Map for $tree {
            const LACKS: &'static [Case] = &[Case::Snapshot, Case::FirstWriteAfterSnapshot];

            fn empty() -> Self {
                Self::new()
            }
            fn bulk(items: &[Item]) -> Option<Self> {
                Some(items.iter().map(|&(first, last, value)| (first, (last, value))).collect())
            }
            #[inline]
            fn lookups(&self, keys: &[u64]) -> u64 {
                keys.iter().fold(0, |sum: u64, key| {
                    let key = black_box(*key);
                    let below = self.range(..=key).next_back();
                    sum.wrapping_add(below.map_or(0, |(_, (last, value))| found_if(key <= *last, *value)))
                })
            }
            #[inline]
            fn store(&mut self, (first, last, value): Item) {
                self.insert(first, (last, value));
            }
            #[inline]
            fn erase(&mut self, (first, ..): Item) -> Option<u64> {
                self.remove(&first).map(|(_, value)| value)
            }
            #[inline]
            fn overwrite(&mut self, item: Item) {
                points::overwrite(self, item);
            }
            #[inline]
            fn each(&self, mut visit: impl FnMut(Item)) {
                self.iter().for_each(|(first, (last, value))| visit((*first, *last, *value)));
            }
            #[inline]
            fn each_rev(&self, mut visit: impl FnMut(Item)) {
                self.iter().rev().for_each(|(first, (last, value))| visit((*first, *last, *value)));
            }
            #[inline]
            fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
                let start = self.floor(from).filter(|below| below.1 >= from).map_or(from, |below| below.0);
                self.range(start..).all(|(first, (last, _))| visit(*first, *last));
            }
            #[inline]
            fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
                self.range(..=from).rev().all(|(first, (last, _))| visit(*first, *last));
                true
            }
            fn copy(&self) -> Option<Self> {
                Some(self.clone())
            }
        }

        impl Points for $tree {
            #[inline]
            fn floor(&self, key: u64) -> Option<Item> {
                self.range(..=key).next_back().map(|(first, (last, value))| (*first, *last, *value))
            }
            #[inline]
            fn ceil(&self, key: u64) -> Option<Item> {
                self.range(key..).next().map(|(first, (last, value))| (*first, *last, *value))
            }
            #[inline]
            fn put(&mut self, (first, last, value): Item) {
                self.insert(first, (last, value));
            }
            #[inline]
            fn take(&mut self, first: u64) {
                self.remove(&first);
            }
            #[inline]
            fn cut(&mut self, at: u64) -> Option<Item> {
                let (first, (last, value)) = self.range_mut(..at).next_back()?;
                if *last < at {
                    return None;
                }
                Some((*first, std::mem::replace(last, at - 1), *value))
            }
            #[inline]
            fn clear(&mut self, first: u64, last: u64) -> Option<Item> {
                let gone = self.extract_if(first..=last, |_, _| true).last();
                gone.map(|(first, (last, value))| (first, last, value))
            }
        }
    };
}
pub(crate) use like_btreemap;

like_btreemap!(Tree);
