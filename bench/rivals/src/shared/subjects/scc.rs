//! `scc::TreeIndex`: first key to last key and value. A replace is a `remove` and an `insert`, between which readers find
//! nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use samara_bench::data::{Data, Item};
use scc::TreeIndex;
use scc::tree_index::Proximity;

/// The map.
#[derive(Debug)]
pub struct Tree(TreeIndex<u64, (u64, u64)>);

impl SharedMap for Tree {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let tree = TreeIndex::new();
        for &(first, last, value) in &data.shuffled {
            tree.insert_sync(first, (last, value)).expect("a store into free space");
        }
        Tree(tree)
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        self.0.remove_sync(&first);
        self.0.insert_sync(first, (last, value)).expect("a store into free space");
    }
}

impl Reader for Tree {
    type Guard<'a> = Held<'a>;

    #[inline]
    fn pin(&self) -> Held<'_> {
        Held { tree: &self.0, guard: scc::Guard::new() }
    }
}

/// The map, with its collector pinned.
#[derive(Debug)]
pub struct Held<'a> {
    tree: &'a TreeIndex<u64, (u64, u64)>,
    guard: scc::Guard,
}

impl Guard for Held<'_> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let below = match self.tree.locate(&key, &self.guard) {
            Proximity::Exact(iter) | Proximity::Between(iter) => iter.get(),
            Proximity::Smaller(iter) => iter.get_back(),
            _ => None,
        };
        below.map_or(0, |(_, (last, value))| found_if(key <= *last, *value))
    }
}
