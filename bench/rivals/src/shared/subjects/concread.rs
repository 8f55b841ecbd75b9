//! `concread::bptree::BptreeMap`: first key to last key and value. Readers and the writer have
//! transactions; a replace is a `remove` and an `insert` in one transaction.

use crate::map::found_if;
use crate::shared::cases::Case;
use crate::shared::map::{Guard, Reader, SharedMap};
use concread::bptree::{BptreeMap, BptreeMapReadTxn};
use samara_bench::data::{Data, Item};

/// The map.
pub type Tree = BptreeMap<u64, (u64, u64)>;

impl SharedMap for Tree {
    /// With a concurrent writer that never pauses, its generations are freed much later than they
    /// are made: 8 GB in half a minute, over 1,000 ranges.
    const LACKS: &'static [Case] = &[Case::ReadBesideWriter, Case::FalseMisses];
    const WHOLE: bool = true;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let tree = Tree::new();
        let mut write = tree.write();
        for &(first, last, value) in &data.shuffled {
            write.insert(first, (last, value));
        }
        write.commit();
        tree
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        let mut write = self.write();
        write.remove(&first);
        write.insert(first, (last, value));
        write.commit();
    }
}

impl Reader for Tree {
    type Guard<'a> = BptreeMapReadTxn<'a, u64, (u64, u64)>;

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        self.read()
    }
}

impl Guard for BptreeMapReadTxn<'_, u64, (u64, u64)> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let below = self.range(..=key).next_back();
        below.map_or(0, |(_, (last, value))| found_if(key <= *last, *value))
    }
}
