//! `scc::TreeIndex`: first key to last key and value. A replace is a `remove` and an `insert`,
//! between which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use crate::subjects::scc::below;
use samara_bench::data::{Data, Item};

pub use crate::subjects::scc::Tree;

impl SharedMap for Tree {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let tree = Tree::new();
        for &(first, last, value) in &data.shuffled {
            tree.insert_sync(first, (last, value)).expect("a store into free space");
        }
        tree
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        self.remove_sync(&first);
        self.insert_sync(first, (last, value)).expect("a store into free space");
    }
}

impl Reader for Tree {
    type Guard<'a> = (&'a Self, scc::Guard);

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        (self, scc::Guard::new())
    }
}

impl Guard for (&Tree, scc::Guard) {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let (tree, guard) = self;
        below(tree, key, guard).map_or(0, |(_, last, value)| found_if(key <= last, value))
    }
}
