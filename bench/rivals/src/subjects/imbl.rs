//! `imbl::OrdMap`: first key to last key and value. A clone shares everything and is O(1), so it is
//! the snapshot; there is no copy of all entries to time.

use crate::cases::Case;
use crate::map::{Map, found_if};
use crate::points::{self, Points};
use imbl::OrdMap;
use samara_bench::data::Item;
use std::hint::black_box;

/// The map.
pub type Tree = OrdMap<u64, (u64, u64)>;

impl Map for Tree {
    const LACKS: &'static [Case] = &[Case::Clone, Case::CloneChurned];

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
            let below = self.get_prev(&key);
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
    #[inline]
    fn snapshot(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Points for Tree {
    #[inline]
    fn floor(&self, key: u64) -> Option<Item> {
        self.get_prev(&key).map(|(first, (last, value))| (*first, *last, *value))
    }
    #[inline]
    fn ceil(&self, key: u64) -> Option<Item> {
        self.get_next(&key).map(|(first, (last, value))| (*first, *last, *value))
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
