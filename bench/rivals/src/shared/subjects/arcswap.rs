//! Persistent maps that are published as a whole: an `ArcSwap` holds the copy that readers see, a
//! mutex the one that the writer edits. A replace edits, copies and publishes. A reader's guard is
//! a `load`.

use crate::map::{Map, found_if};
use crate::shared::map::{Guard, Reader, SharedMap};
use arc_swap::ArcSwap;
use samara::RangeMap;
use samara_bench::data::{Data, Item};
use std::sync::{Arc, Mutex};

/// `imbl::OrdMap`: first key to last key and value. Written by `remove` and `insert`.
pub type Imbl = Published<crate::subjects::imbl::Tree>;

/// `samara::RangeMap`. Written by one `insert` over the old range.
pub type Samara = Published<RangeMap<u64, u64>>;

/// A map, and the copy of it that readers see.
#[derive(Debug)]
pub struct Published<M> {
    edited: Mutex<M>,
    seen: ArcSwap<M>,
}

/// A map whose copies share what they can.
pub trait Copied: Map + Send + Sync {
    /// A copy in O(1).
    fn share(&self) -> Self;
    /// Replaces a range.
    fn change(&mut self, item: Item);
    /// The value of the range that holds `key`, or 0.
    fn value(&self, key: u64) -> u64;
}

impl Copied for crate::subjects::imbl::Tree {
    fn share(&self) -> Self {
        self.clone()
    }
    #[inline]
    fn change(&mut self, item: Item) {
        self.erase(item);
        self.store(item);
    }
    #[inline(always)]
    fn value(&self, key: u64) -> u64 {
        self.get_prev(&key).map_or(0, |(_, (last, value))| found_if(key <= *last, *value))
    }
}

impl Copied for RangeMap<u64, u64> {
    fn share(&self) -> Self {
        self.try_snapshot().expect("memory for a snapshot")
    }
    #[inline]
    fn change(&mut self, item: Item) {
        self.store(item);
    }
    #[inline(always)]
    fn value(&self, key: u64) -> u64 {
        *self.get_or(key, &0)
    }
}

impl<M: Copied> SharedMap for Published<M> {
    const WHOLE: bool = true;
    type Reader<'a>
        = &'a Self
    where
        M: 'a;

    fn filled(data: &Data) -> Self {
        let mut map = M::empty();
        data.shuffled.iter().for_each(|item| map.store(*item));
        Published { seen: ArcSwap::from_pointee(map.share()), edited: map.into() }
    }
    fn reader(&self) -> &Self {
        self
    }
    #[inline]
    fn replace(&self, item: Item) {
        let mut edited = self.edited.lock().expect("no thread panics with the lock held");
        edited.change(item);
        self.seen.store(Arc::new(edited.share()));
    }
}

impl<M: Copied> Reader for Published<M> {
    type Guard<'a>
        = arc_swap::Guard<Arc<M>>
    where
        M: 'a;

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        self.seen.load()
    }
}

impl<M: Copied> Guard for arc_swap::Guard<Arc<M>> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        self.value(key)
    }
}
