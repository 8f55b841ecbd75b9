//! `congee::Congee`: a radix tree from words to words that iterates upwards only. A range is keyed
//! by its last key; the word that it maps to holds the range's pages above the value, for which
//! general values would leave no room. A lookup is the entry at or above the key. A replace is a
//! `remove` and an `insert`, between which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use congee::Congee;
use samara_bench::data::{Data, Item, PAGE};

/// The map.
pub type Tree = Congee<usize, usize>;

/// The lowest bit of the number of pages, one to three.
const PAGES: u32 = 62;

fn word((first, last, value): Item) -> usize {
    (((last - first + 1) / PAGE) << PAGES | value) as usize
}

impl SharedMap for Tree {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let tree = Tree::default();
        let guard = tree.pin();
        for item in &data.shuffled {
            tree.insert(item.1 as usize, word(*item), &guard).expect("memory for a store");
        }
        drop(guard);
        tree
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, item: Item) {
        let guard = self.pin();
        self.remove(&(item.1 as usize), &guard);
        self.insert(item.1 as usize, word(item), &guard).expect("memory for a store");
    }
}

impl Reader for Tree {
    type Guard<'a> = (&'a Self, crossbeam_epoch::Guard);

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        (self, self.pin())
    }
}

impl Guard for (&Tree, crossbeam_epoch::Guard) {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let (tree, guard) = self;
        let mut found = [(0, 0)];
        if tree.range(&(key as usize), &usize::MAX, &mut found, guard) == 0 {
            return 0;
        }
        let [(last, word)] = found;
        let (pages, value) = (word as u64 >> PAGES, word as u64 & ((1 << PAGES) - 1));
        found_if(last as u64 - key < pages * PAGE, value)
    }
}
