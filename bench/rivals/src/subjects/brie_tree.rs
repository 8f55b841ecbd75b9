//! `brie_tree::BTree`: a point map that iterates upwards only, so a range is keyed by its last key
//! and holds the first key and the value. A lookup is the entry at or above the key. The crate
//! reserves the largest key.

use crate::cases::Case;
use crate::map::{Map, found_if};
use brie_tree::BTree;
use brie_tree::nonmax::NonMaxU64;
use samara_bench::data::Item;
use std::hint::black_box;
use std::ops::Bound;

/// The map.
pub type Tree = BTree<NonMaxU64, (u64, u64)>;

#[inline]
fn point(key: u64) -> NonMaxU64 {
    NonMaxU64::new(key).expect("no range of these ends at the largest key")
}

impl Map for Tree {
    const LACKS: &'static [Case] = &[Case::Snapshot, Case::FirstWriteAfterSnapshot, Case::IterateRev];

    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        Some(items.iter().map(|&(first, last, value)| (point(last), (first, value))).collect())
    }
    #[inline]
    fn lookups(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |sum: u64, key| {
            let key = black_box(*key);
            let above = self.cursor_at(Bound::Included(point(key))).value();
            sum.wrapping_add(above.map_or(0, |(first, value)| found_if(*first <= key, *value)))
        })
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(point(last), (first, value));
    }
    #[inline]
    fn erase(&mut self, (_, last, _): Item) -> Option<u64> {
        self.remove(point(last)).map(|(_, value)| value)
    }
    fn overwrite(&mut self, (first, last, value): Item) {
        let mut cursor = self.cursor_mut_at(Bound::Included(point(first)));
        let mut head = None;
        while let Some((end, &(start, old))) = cursor.entry() {
            if start > last {
                break;
            }
            if end.get() > last {
                // The upper part stays under its key.
                cursor.replace(end, (last + 1, old));
                head = (start < first).then_some((start, old));
                break;
            }
            if start < first {
                cursor.replace(point(first - 1), (start, old));
                cursor.next();
            } else {
                cursor.remove();
            }
        }
        // The inserted entry is then the current one.
        cursor.insert_before(point(last), (first, value));
        if let Some(head) = head {
            cursor.insert_before(point(first - 1), head);
        }
    }
    #[inline]
    fn each(&self, mut visit: impl FnMut(Item)) {
        self.iter().for_each(|(last, (first, value))| visit((*first, last.get(), *value)));
    }
    #[inline]
    fn walk(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) {
        self.iter_from(Bound::Included(point(from))).all(|(last, (first, _))| visit(*first, last.get()));
    }
    #[inline]
    fn walk_rev(&self, from: u64, mut visit: impl FnMut(u64, u64) -> bool) -> bool {
        // Its iterators go upwards only; its cursors go back.
        let mut cursor = self.cursor_at(Bound::Included(point(from)));
        if let Some((last, (first, _))) = cursor.entry()
            && *first <= from
            && !visit(*first, last.get())
        {
            return true;
        }
        while cursor.prev() {
            if let Some((last, (first, _))) = cursor.entry()
                && !visit(*first, last.get())
            {
                break;
            }
        }
        true
    }
    fn copy(&self) -> Option<Self> {
        Some(self.clone())
    }
}
