//! `congee::Congee`: a concurrent radix tree from words to words that iterates upwards only. A
//! range is keyed by its last key; a value is one word, so it is an index into a list of first keys
//! and values. A lookup is the entry at or above the key. There is no copy and no descending
//! iteration.

use crate::cases::Case;
use crate::map::{Map, found_if};
use congee::Congee;
use samara_bench::data::Item;
use std::hint::black_box;

/// The map.
pub struct Tree {
    /// Last key to place.
    tree: Congee<usize, usize>,
    /// First keys and values.
    slots: Vec<(u64, u64)>,
    /// Places that are free.
    free: Vec<usize>,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("slots", &self.slots).finish_non_exhaustive()
    }
}

type Guard = crossbeam_epoch::Guard;

impl Tree {
    /// The range with the least last key at or above `key`.
    #[inline]
    fn above(&self, key: u64, guard: &Guard) -> Option<Item> {
        let mut found = [(0, 0)];
        if self.tree.range(&(key as usize), &usize::MAX, &mut found, guard) == 0 {
            return None;
        }
        let (last, slot) = found[0];
        let (first, value) = self.slots[slot];
        Some((first, last as u64, value))
    }

    fn put(&mut self, (first, last, value): Item, guard: &Guard) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = (first, value);
                slot
            }
            None => {
                self.slots.push((first, value));
                self.slots.len() - 1
            }
        };
        self.tree.insert(last as usize, slot, guard).expect("memory for a store");
    }

    fn take(&mut self, last: u64, guard: &Guard) -> Option<u64> {
        let slot = self.tree.remove(&(last as usize), guard)?;
        self.free.push(slot);
        Some(self.slots[slot].1)
    }
}

impl Map for Tree {
    const LACKS: &'static [Case] = &[
        Case::Snapshot,
        Case::FirstWriteAfterSnapshot,
        Case::BulkBuild,
        Case::IterateRev,
        Case::AtOrBefore,
        Case::RangeBefore,
        Case::Clone,
        Case::CloneChurned,
    ];

    fn empty() -> Self {
        Tree { tree: Congee::default(), slots: Vec::new(), free: Vec::new() }
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        let guard = self.tree.pin();
        keys.iter().fold(0, |sum: u64, key| {
            let key = black_box(*key);
            let above = self.above(key, &guard);
            sum.wrapping_add(above.map_or(0, |(first, _, value)| found_if(first <= key, value)))
        })
    }
    #[inline]
    fn store(&mut self, item: Item) {
        let guard = self.tree.pin();
        self.put(item, &guard);
    }
    #[inline]
    fn erase(&mut self, (_, last, _): Item) -> Option<u64> {
        let guard = self.tree.pin();
        self.take(last, &guard)
    }
    fn overwrite(&mut self, item: Item) {
        let (first, last, _) = item;
        let guard = self.tree.pin();
        while let Some((start, end, value)) = self.above(first, &guard).filter(|above| above.0 <= last) {
            self.take(end, &guard);
            if start < first {
                self.put((start, first - 1, value), &guard);
            }
            if end > last {
                self.put((last + 1, end, value), &guard);
                break;
            }
        }
        self.put(item, &guard);
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        let guard = self.tree.pin();
        let (mut from, mut found) = (0, [(0, 0); 256]);
        loop {
            let count = self.tree.range(&from, &usize::MAX, &mut found, &guard);
            for &(last, slot) in &found[..count] {
                let (first, value) = self.slots[slot];
                visit((first, last as u64, value));
                from = last + 1;
            }
            if count < found.len() {
                return;
            }
        }
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        let guard = self.tree.pin();
        let (mut from, mut found) = (from as usize, [(0, 0); 256]);
        loop {
            let count = self.tree.range(&from, &usize::MAX, &mut found, &guard);
            for &(last, slot) in &found[..count] {
                if !visit(self.slots[slot].0, last as u64) {
                    return;
                }
                from = last + 1;
            }
            if count < found.len() {
                return;
            }
        }
    }
}
