//! `scc::TreeIndex`: a concurrent map; first key to last key and value. In 3.8.8 `range(..).rev()`
//! omits entries where others were removed before, so descending iteration is `iter().rev()`.

use crate::cases::Case;
use crate::map::{Map, found_if};
use crate::points::{self, Points};
use samara_bench::data::Item;
use scc::tree_index::Proximity;
use scc::{Guard, TreeIndex};
use std::hint::black_box;

/// The map.
pub type Tree = TreeIndex<u64, (u64, u64)>;

/// The range with the greatest first key at or below `key`.
#[inline]
pub(crate) fn below(tree: &Tree, key: u64, guard: &Guard) -> Option<Item> {
    let entry = match tree.locate(&key, guard) {
        Proximity::Exact(iter) | Proximity::Between(iter) => iter.get(),
        Proximity::Smaller(iter) => iter.get_back(),
        _ => None,
    };
    entry.map(|(first, (last, value))| (*first, *last, *value))
}

impl Map for Tree {
    const LACKS: &'static [Case] = &[Case::Snapshot, Case::FirstWriteAfterSnapshot, Case::BulkBuild];

    fn empty() -> Self {
        Self::new()
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        let guard = Guard::new();
        keys.iter().fold(0, |sum: u64, key| {
            let key = black_box(*key);
            let below = below(self, key, &guard);
            sum.wrapping_add(below.map_or(0, |(_, last, value)| found_if(key <= last, value)))
        })
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert_sync(first, (last, value)).expect("a store into free space");
    }
    #[inline]
    fn erase(&mut self, (first, ..): Item) -> Option<u64> {
        let mut gone = None;
        self.remove_if_sync(&first, |(_, value)| {
            gone = Some(*value);
            true
        });
        gone
    }
    #[inline]
    fn overwrite(&mut self, item: Item) {
        points::overwrite(self, item);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.iter(&Guard::new()).for_each(|(first, (last, value))| visit((*first, *last, *value)));
    }
    #[inline]
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        self.iter(&Guard::new()).rev().for_each(|(first, (last, value))| visit((*first, *last, *value)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        let guard = Guard::new();
        let start = below(self, from, &guard).filter(|below| below.1 >= from).map_or(from, |below| below.0);
        self.range(start.., &guard).all(|(first, (last, _))| visit(*first, *last));
    }
    #[inline]
    fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
        let guard = Guard::new();
        let mut all = self.iter(&guard).rev().skip_while(|(first, _)| **first > from);
        all.all(|(first, (last, _))| visit(*first, *last));
        true
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Points for Tree {
    #[inline]
    fn floor(&self, key: u64) -> Option<Item> {
        below(self, key, &Guard::new())
    }
    #[inline]
    fn ceil(&self, key: u64) -> Option<Item> {
        self.range(key.., &Guard::new()).next().map(|(first, (last, value))| (*first, *last, *value))
    }
    #[inline]
    fn put(&mut self, (first, last, value): Item) {
        self.upsert_sync(first, (last, value));
    }
    #[inline]
    fn take(&mut self, first: u64) {
        self.remove_sync(&first);
    }
}
