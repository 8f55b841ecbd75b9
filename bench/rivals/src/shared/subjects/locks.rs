//! std's `BTreeMap` behind a lock: first key to last key and value. The guard of a reader is the read lock, so a writer waits
//! for it. A replace is a `remove` and an `insert` under one write lock.

use crate::map::{Map, found_if};
use crate::shared::cases::Case;
use crate::shared::map::{Guard, Reader, SharedMap};
use crate::subjects::btreemap::Tree;
use samara_bench::data::{Data, Item};

/// Behind std's lock.
#[derive(Debug)]
pub struct Std(std::sync::RwLock<Tree>);

/// Behind parking_lot's lock.
#[derive(Debug)]
pub struct ParkingLot(parking_lot::RwLock<Tree>);

/// What panics with the lock held ends the benchmark.
const POISONED: &str = "nobody panics with the lock held";

fn filled(data: &Data) -> Tree {
    let mut tree = Tree::new();
    data.shuffled.iter().for_each(|item| tree.store(*item));
    tree
}

#[inline(always)]
fn at(tree: &Tree, key: u64) -> u64 {
    let below = tree.range(..=key).next_back();
    below.map_or(0, |(_, (last, value))| found_if(key <= *last, *value))
}

#[inline]
fn replace(tree: &mut Tree, item: Item) {
    tree.erase(item);
    tree.store(item);
}

impl SharedMap for Std {
    const LACKS: &'static [Case] = &[Case::WriterBesideStalledReader];
    const WHOLE: bool = true;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        Std(filled(data).into())
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, item: Item) {
        replace(&mut self.0.write().expect(POISONED), item);
    }
}

impl Reader for Std {
    type Guard<'a> = std::sync::RwLockReadGuard<'a, Tree>;

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        self.0.read().expect(POISONED)
    }
}

impl Guard for std::sync::RwLockReadGuard<'_, Tree> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        at(self, key)
    }
}

impl SharedMap for ParkingLot {
    const LACKS: &'static [Case] = &[Case::WriterBesideStalledReader];
    const WHOLE: bool = true;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        ParkingLot(filled(data).into())
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, item: Item) {
        replace(&mut self.0.write(), item);
    }
}

impl Reader for ParkingLot {
    type Guard<'a> = parking_lot::RwLockReadGuard<'a, Tree>;

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        self.0.read()
    }
}

impl Guard for parking_lot::RwLockReadGuard<'_, Tree> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        at(self, key)
    }
}
