//! `papaya::HashMap` from the numbers of slots to last key and value: where a range may lie is computed, not searched. No
//! range map can do that; what it takes is a bound for what one can take. A replace is a `remove` and an `insert`, between
//! which readers find nothing.

use crate::map::found_if;
use crate::shared::map::{Guard, Reader, SharedMap};
use papaya::{HashMap, LocalGuard};
use samara_bench::data::{BASE, Data, Item, SLOT};

/// std's way to hash takes longer than all the rest.
type Hash = foldhash::fast::FixedState;

/// The map.
#[derive(Debug)]
pub struct Points(HashMap<u64, (u64, u64), Hash>);

#[inline]
fn slot(key: u64) -> u64 {
    key.wrapping_sub(BASE) / SLOT
}

impl SharedMap for Points {
    const WHOLE: bool = false;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        let points = HashMap::with_hasher(Hash::default());
        let guard = points.guard();
        for &(first, last, value) in &data.shuffled {
            points.insert(slot(first), (last, value), &guard);
        }
        drop(guard);
        Points(points)
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        let guard = self.0.guard();
        self.0.remove(&slot(first), &guard);
        self.0.insert(slot(first), (last, value), &guard);
    }
}

impl Reader for Points {
    type Guard<'a> = Held<'a>;

    #[inline]
    fn pin(&self) -> Held<'_> {
        Held { points: &self.0, guard: self.0.guard() }
    }
}

/// The map, with its collector pinned.
pub struct Held<'a> {
    points: &'a HashMap<u64, (u64, u64), Hash>,
    guard: LocalGuard<'a>,
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Guard for Held<'_> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        self.points.get(&slot(key), &self.guard).map_or(0, |(last, value)| found_if(key <= *last, *value))
    }
}
