//! `crossbeam_skiplist::SkipMap`: first key to last key and value. Its calls pin the default
//! collector themselves, which costs little while one of its guards is held. So a reader's guard is
//! such a guard. A replace is a `remove` and an `insert`, between which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use crossbeam_skiplist::SkipMap;
use samara_bench::data::{Data, Item};
use std::ops::Bound;

/// The map.
pub type Tree = SkipMap<u64, (u64, u64)>;

impl SharedMap for Tree {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        data.shuffled.iter().map(|&(first, last, value)| (first, (last, value))).collect()
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        self.remove(&first);
        self.insert(first, (last, value));
    }
}

impl Reader for Tree {
    type Guard<'a> = (&'a Self, crossbeam_epoch::Guard);

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        (self, crossbeam_epoch::pin())
    }
}

impl Guard for (&Tree, crossbeam_epoch::Guard) {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let below = self.0.upper_bound(Bound::Included(&key)).map(|entry| *entry.value());
        below.map_or(0, |(last, value)| found_if(key <= last, value))
    }
}
