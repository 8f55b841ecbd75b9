//! `crossbeam_skiplist::SkipMap`: first key to last key and value. Its calls pin the default collector themselves, which
//! costs little while a guard of it is held; so the guard of a reader is one of those. A replace is a `remove` and an
//! `insert`, between which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use crossbeam_skiplist::SkipMap;
use samara_bench::data::{Data, Item};
use std::ops::Bound;

/// The map.
#[derive(Debug)]
pub struct Tree(SkipMap<u64, (u64, u64)>);

impl SharedMap for Tree {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        Tree(data.shuffled.iter().map(|&(first, last, value)| (first, (last, value))).collect())
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        self.0.remove(&first);
        self.0.insert(first, (last, value));
    }
}

impl Reader for Tree {
    type Guard<'a> = Held<'a>;

    #[inline]
    fn pin(&self) -> Held<'_> {
        Held { map: &self.0, _guard: crossbeam_epoch::pin() }
    }
}

/// The map, with its collector pinned.
pub struct Held<'a> {
    map: &'a SkipMap<u64, (u64, u64)>,
    _guard: crossbeam_epoch::Guard,
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Guard for Held<'_> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let below = self.map.upper_bound(Bound::Included(&key)).map(|entry| *entry.value());
        below.map_or(0, |(last, value)| found_if(key <= last, value))
    }
}
