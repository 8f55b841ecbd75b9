//! `samara::SharedRangeMap`, with either reclaimer: each operation is one call. Readers register. A
//! replace takes the write guard, and stores once over the old range. If several threads store at
//! once, each has a `SharedWriter`.

use crate::map::Map;
use crate::shared::map::{Guard, Reader, SharedMap};
use samara::reclaim::{Epoch, Membarrier, Reclaim};
use samara::{RangeMap, SharedGuard, SharedRangeMap, SharedReader};
use samara_bench::data::{Data, Item};

/// Reclaimed by crossbeam-epoch.
pub type ByEpoch = SharedRangeMap<u64, u64, Epoch>;

/// Reclaimed by membarrier(2).
pub type ByMembarrier = SharedRangeMap<u64, u64, Membarrier>;

impl<R> SharedMap for SharedRangeMap<u64, u64, R>
where
    R: Reclaim<Stamp: Send> + Default + Sync,
{
    const WHOLE: bool = true;
    type Reader<'a>
        = SharedReader<'a, u64, u64, R>
    where
        R: 'a;

    fn filled(data: &Data) -> Self {
        let mut map = RangeMap::<u64, _>::new();
        data.shuffled.iter().for_each(|item| map.store(*item));
        map.into()
    }
    fn reader(&self) -> Self::Reader<'_> {
        self.reader()
    }
    #[inline]
    fn replace(&self, (first, last, value): Item) {
        self.write().insert(first..=last, value).expect("memory for a store");
    }
    fn writer(&self) -> impl FnMut(Item) {
        let mut writer = self.writer().expect("memory for a registration");
        move |(first, last, value)| writer.insert(first..=last, value).expect("memory for a store")
    }
    fn pending(&self) -> Option<usize> {
        Some(self.pending())
    }
    fn reclaim(&self) -> Option<usize> {
        // Some reclaimers need several calls.
        (0..8).map(|_| self.write().reclaim()).last()
    }
}

impl<'m, R: Reclaim> Reader for SharedReader<'m, u64, u64, R> {
    type Guard<'a>
        = SharedGuard<'m, u64, u64, R>
    where
        Self: 'a;

    #[inline]
    fn pin(&self) -> Self::Guard<'_> {
        self.pin()
    }
}

impl<R: Reclaim> Guard for SharedGuard<'_, u64, u64, R> {
    #[inline]
    fn at(&self, key: u64) -> u64 {
        *self.get_or(key, &0)
    }
}
