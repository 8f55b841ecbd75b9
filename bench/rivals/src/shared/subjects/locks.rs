//! std's `BTreeMap` behind a lock: first key to last key and value. The guard of a reader is the
//! read lock, so a writer waits for it. A replace is a `remove` and an `insert` under one write
//! lock.

use crate::map::{Map, found_if};
use crate::shared::cases::Case;
use crate::shared::map::{Guard, Reader, SharedMap};
use crate::subjects::btreemap::Tree;
use samara_bench::data::{Data, Item};

/// `BTreeMap` behind the `RwLock` of a crate; std's calls may fail.
macro_rules! behind {
    ($(#[$doc:meta])* $name:ident: $($lock:ident)::+ $(, $expect:ident($why:literal))?) => {
        $(#[$doc])*
        pub type $name = $($lock)::+::RwLock<Tree>;

        impl SharedMap for $name {
            const LACKS: &'static [Case] = &[Case::WriterBesideStalledReader];
            const WHOLE: bool = true;
            type Reader<'a> = &'a Self;

            fn filled(data: &Data) -> Self {
                let mut tree = Tree::new();
                data.shuffled.iter().for_each(|item| tree.store(*item));
                tree.into()
            }
            fn reader(&self) -> &Self {
                self
            }
            #[inline]
            fn replace(&self, item: Item) {
                let mut tree = self.write()$(.$expect($why))?;
                tree.erase(item);
                tree.store(item);
            }
        }

        impl Reader for $name {
            type Guard<'a> = $($lock)::+::RwLockReadGuard<'a, Tree>;

            #[inline]
            fn pin(&self) -> Self::Guard<'_> {
                self.read()$(.$expect($why))?
            }
        }

        impl Guard for $($lock)::+::RwLockReadGuard<'_, Tree> {
            #[inline]
            fn at(&self, key: u64) -> u64 {
                let below = self.range(..=key).next_back();
                below.map_or(0, |(_, (last, value))| found_if(key <= *last, *value))
            }
        }
    };
}

behind! {
    /// Behind std's lock.
    Std: std::sync, expect("no thread panics with the lock held")
}

behind! {
    /// Behind parking_lot's lock.
    ParkingLot: parking_lot
}
