//! `papaya::HashMap` from the numbers of slots to last key and value: the place of a range is
//! computed, not searched. No range map can do that, so its times are a lower bound for them. A
//! replace is a `remove` and an `insert`, between which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use papaya::{HashMap, LocalGuard};
use samara_bench::data::{BASE, Data, Item, SLOT};

/// std's hash function takes longer than all the rest.
type Hash = foldhash::fast::FixedState;

/// The map.
pub type Points = HashMap<u64, (u64, u64), Hash>;

#[inline]
fn slot(key: u64) -> u64 {
    key.wrapping_sub(BASE) / SLOT
}

impl SharedMap for Points {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let points = Points::with_hasher(Hash::default());
        let guard = points.guard();
        for &(first, last, value) in &data.shuffled {
            points.insert(slot(first), (last, value), &guard);
        }
        drop(guard);
        points
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        let guard = self.guard();
        self.remove(&slot(first), &guard);
        self.insert(slot(first), (last, value), &guard);
    }
}

impl Reader for Points {
    type Guard<'a> = (&'a Self, LocalGuard<'a>);

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        (self, self.guard())
    }
}

impl Guard for (&Points, LocalGuard<'_>) {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        let (points, guard) = self;
        points.get(&slot(key), guard).map_or(0, |(last, value)| found_if(key <= *last, *value))
    }
}
