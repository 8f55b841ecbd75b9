//! `bbtree::BBTreeMap`: its only latch-free seek goes upwards, so a range is keyed by its last key
//! and holds the first key and the value. A lookup is the entry at or above the key. It has no
//! guards: each call stands alone. A replace is a `remove` and an `insert`, between which readers
//! find nothing.

use crate::map::found_if;
use crate::shared::cases::Case;
use crate::shared::map::{Guard, Reader, SharedMap};
use bbtree::BBTreeMap;
use samara_bench::data::{Data, Item};

/// The map.
pub type Tree = BBTreeMap<u64, (u64, u64)>;

impl SharedMap for Tree {
    const LACKS: &'static [Case] = &[Case::WriterBesideStalledReader];
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let tree = Tree::new();
        for &(first, last, value) in &data.shuffled {
            tree.insert(last, (first, value)).expect("memory for a store");
        }
        tree
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        self.remove(&last);
        self.insert(last, (first, value)).expect("memory for a store");
    }
}

impl Reader for Tree {
    type Guard<'a> = &'a Self;

    #[inline]
    fn pin(&self) -> &Self {
        self
    }
}

impl Guard for &Tree {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        self.first_copied(key..).map_or(0, |(_, (first, value))| found_if(first <= key, value))
    }
}
