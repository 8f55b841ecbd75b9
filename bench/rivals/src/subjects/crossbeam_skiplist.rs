//! `crossbeam_skiplist::SkipMap`: a concurrent map; first key to last key and value. Its calls pin
//! the default collector, which costs little while one of its guards is held.

use crate::cases::Case;
use crate::map::{Map, found_if};
use crate::points::{self, Points};
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;
use samara_bench::data::Item;
use std::hint::black_box;
use std::ops::Bound;

/// The map.
pub type Tree = SkipMap<u64, (u64, u64)>;

#[inline]
fn item(entry: &Entry<'_, u64, (u64, u64)>) -> Item {
    let (last, value) = *entry.value();
    (*entry.key(), last, value)
}

impl Map for Tree {
    const LACKS: &'static [Case] = &[Case::Snapshot, Case::FirstWriteAfterSnapshot];

    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        Some(items.iter().map(|&(first, last, value)| (first, (last, value))).collect())
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        let _guard = crossbeam_epoch::pin();
        keys.iter().fold(0, |sum: u64, key| {
            let key = black_box(*key);
            let below = self.upper_bound(Bound::Included(&key)).map(|entry| *entry.value());
            sum.wrapping_add(below.map_or(0, |(last, value)| found_if(key <= last, value)))
        })
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first, (last, value));
    }
    #[inline]
    fn erase(&mut self, (first, ..): Item) -> Option<u64> {
        self.remove(&first).map(|entry| entry.value().1)
    }
    #[inline]
    fn overwrite(&mut self, item: Item) {
        points::overwrite(self, item);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        let _guard = crossbeam_epoch::pin();
        self.iter().for_each(|entry| visit(item(&entry)));
    }
    #[inline]
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        let _guard = crossbeam_epoch::pin();
        self.iter().rev().for_each(|entry| visit(item(&entry)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        let _guard = crossbeam_epoch::pin();
        let start = self.floor(from).filter(|below| below.1 >= from).map_or(from, |below| below.0);
        self.range(start..).all(|entry| visit(*entry.key(), entry.value().0));
    }
    #[inline]
    fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
        let _guard = crossbeam_epoch::pin();
        self.range(..=from).rev().all(|entry| visit(*entry.key(), entry.value().0));
        true
    }
    /// It has no `clone`: collected from a walk.
    fn copy(&self) -> Option<Self> {
        let _guard = crossbeam_epoch::pin();
        Some(self.iter().map(|entry| (*entry.key(), *entry.value())).collect())
    }
}

impl Points for Tree {
    #[inline]
    fn floor(&self, key: u64) -> Option<Item> {
        self.upper_bound(Bound::Included(&key)).map(|entry| item(&entry))
    }
    #[inline]
    fn ceil(&self, key: u64) -> Option<Item> {
        self.lower_bound(Bound::Included(&key)).map(|entry| item(&entry))
    }
    #[inline]
    fn put(&mut self, item: Item) {
        self.store(item);
    }
    #[inline]
    fn take(&mut self, first: u64) {
        self.remove(&first);
    }
}
