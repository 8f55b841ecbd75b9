//! `congee::Congee`: a radix tree from words to words that goes upwards only. A range is keyed by its last key; the word that
//! it maps to holds the range's pages above the value, which other users' values would have no room for. A lookup is the
//! entry at or above the key. A replace is a `remove` and an `insert`, between which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use congee::Congee;
use samara_bench::data::{Data, Item, PAGE};

/// The map.
pub struct Tree(Congee<usize, usize>);

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").finish_non_exhaustive()
    }
}

/// Where the number of pages begins, one to three.
const PAGES: u32 = 62;

fn word((first, last, value): Item) -> usize {
    (((last - first + 1) / PAGE) << PAGES | value) as usize
}

impl SharedMap for Tree {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let tree = Congee::default();
        let guard = tree.pin();
        for item in &data.shuffled {
            tree.insert(item.1 as usize, word(*item), &guard).expect("memory for a store");
        }
        drop(guard);
        Tree(tree)
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, item: Item) {
        let guard = self.0.pin();
        self.0.remove(&(item.1 as usize), &guard);
        self.0.insert(item.1 as usize, word(item), &guard).expect("memory for a store");
    }
}

impl Reader for Tree {
    type Guard<'a> = Held<'a>;

    #[inline]
    fn pin(&self) -> Held<'_> {
        Held { tree: &self.0, guard: self.0.pin() }
    }
}

/// The map, with its collector pinned.
pub struct Held<'a> {
    tree: &'a Congee<usize, usize>,
    guard: crossbeam_epoch::Guard,
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Guard for Held<'_> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let mut found = [(0, 0)];
        if self.tree.range(&(key as usize), &usize::MAX, &mut found, &self.guard) == 0 {
            return 0;
        }
        let [(last, word)] = found;
        let (pages, value) = (word as u64 >> PAGES, word as u64 & ((1 << PAGES) - 1));
        found_if(last as u64 - key < pages * PAGE, value)
    }
}
