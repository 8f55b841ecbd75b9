//! Foreign code and stores: what other crates' and values' destructors may do, and what a thread
//! that would wait for itself is told. And writers that keep one another waiting each come to their
//! turn.

use samara::Compact;
use samara::{AllocError, Epoch, Fenced, Membarrier, Reclaim, Shape, SharedRangeMap, SharedWriter, Span, StoreError};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::thread;

use crate::epochs::epochs;

const ROUNDS: u64 = if cfg!(miri) { 400 } else { 20_000 };

/// Another crate's user: hands destructors that store to crossbeam-epoch's default collector.
#[test]
fn destructors_of_others() {
    if !epochs() {
        return;
    }
    static MAP: LazyLock<SharedRangeMap<u64, u64>> = LazyLock::new(SharedRangeMap::new);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static STORES: Cell<bool> = const { Cell::new(false) }; }
    struct Region(u64);
    impl Drop for Region {
        fn drop(&mut self) {
            assert!(!STORES.get(), "another crate's destructor runs inside a store");
            MAP.write().remove(self.0).unwrap();
            DROPPED.fetch_add(1, Relaxed);
        }
    }
    for i in 0..ROUNDS {
        let first = i % 500 * 10;
        STORES.set(true);
        MAP.write().insert(first..=first + 4, i).unwrap();
        MAP.pin().get(first).unwrap();
        STORES.set(false);
        if i % 50 == 0 {
            crossbeam_epoch::pin().defer(move || drop(Region(first)));
            crossbeam_epoch::pin().flush();
        }
    }
    for _ in 0..100 {
        crossbeam_epoch::pin().flush();
    }
    assert!(DROPPED.load(Relaxed) > 0);
    // Nor does a guard of theirs hold anything up.
    let _theirs = crossbeam_epoch::pin();
    while MAP.write().reclaim() > 0 {
        thread::yield_now();
    }
}

/// Values whose last clone's drop stores in the same map: by `$map`, with the reclaimer `$reclaim`.
macro_rules! values_that_store {
    ($name:ident, $reclaim:ty, $new:expr) => {
        #[test]
        fn $name() {
            static MAP: LazyLock<SharedRangeMap<u64, Arc<Region>, $reclaim>> =
                LazyLock::new(|| SharedRangeMap::with_reclaim($new));
            static DROPPED: AtomicUsize = AtomicUsize::new(0);
            static REFUSED: AtomicUsize = AtomicUsize::new(0);
            struct Region(u64);
            impl Drop for Region {
                fn drop(&mut self) {
                    DROPPED.fetch_add(1, Relaxed);
                    match MAP.try_write() {
                        Ok(mut write) => drop(write.remove(self.0).unwrap()),
                        Err(_) => _ = REFUSED.fetch_add(1, Relaxed),
                    }
                }
            }
            if std::any::type_name::<$reclaim>().contains("Epoch") && !epochs() {
                return;
            }
            let mark = |i: u64| 1_000_000 + i % 300 * 10;
            let value = |i: u64| Arc::new(Region(mark(i)));
            let mut writer = MAP.writer().unwrap();
            for i in 0..ROUNDS / 4 {
                let first = i % 300 * 10;
                // The handle, for one store each; then beside others.
                MAP.write().insert(mark(i)..=mark(i) + 4, Arc::new(Region(0))).unwrap();
                MAP.write().insert(first..=first + 4, value(i)).unwrap();
                writer.insert(first..=first + 4, value(i)).unwrap();
                if i % 300 == 299 {
                    MAP.write().clear_range(0..=5_000, |_| ()).unwrap();
                    MAP.write().reclaim();
                }
            }
            MAP.write().clear().unwrap();
            while MAP.write().reclaim() > 0 {
                thread::yield_now();
            }
            assert!(DROPPED.load(Relaxed) as u64 > ROUNDS / 4);
            assert_eq!(REFUSED.load(Relaxed), 0, "values were dropped while a lock was held");
        }
    };
}
values_that_store!(values_that_store_epoch, Epoch, Epoch::new());
values_that_store!(values_that_store_fenced, Fenced, Fenced);

type Map = SharedRangeMap<u64, u64, Fenced, Compact>;

fn filled() -> Map {
    let map = Map::with_reclaim(Fenced);
    for i in 0..200 {
        map.write().insert(10 * i..=10 * i + 4, i).unwrap();
    }
    map
}

/// What a thread is told that would wait for itself: it panics, and says so.
#[track_caller]
fn told(words: &str, call: impl FnOnce()) {
    let said = catch_unwind(AssertUnwindSafe(call)).expect_err("it waited for nothing");
    let said = said.downcast_ref::<String>().map_or("something else", |said| said);
    assert!(said.contains(words), "{said}");
}

const HANDLE: &str = "has the write handle of this SharedRangeMap already";
const STORE: &str = "in the midst of a store of this SharedRangeMap";

/// The map is as it should be, for this thread and for others.
fn sound(map: &Map) {
    map.write().check().unwrap();
    assert_eq!(map.len(), 200);
    thread::scope(|scope| {
        scope.spawn(|| {
            map.write().insert(0..=4, 0).unwrap();
            map.writer().unwrap().insert(1_000..=1_004, 0).unwrap();
            assert_eq!(map.snapshot().len(), 200);
        });
    });
}

#[test]
fn the_handle_twice() {
    let map = filled();
    let write = map.write();
    told(HANDLE, || drop(map.write()));
    told(HANDLE, || drop(map.writer()));
    assert!(map.try_write().is_err());
    // A snapshot of the map that the handle shows is no store.
    assert_eq!(map.snapshot().len(), 200);
    drop(write);
    sound(&map);
    // The temporary lives as long as the arms.
    told(HANDLE, || match map.write().get(0) {
        Some((span, _)) => map.write().insert(span, 1).unwrap(),
        None => unreachable!(),
    });
    told(HANDLE, || {
        if let Some((span, _)) = map.write().get(0) {
            map.write().insert(span, 1).unwrap();
        }
    });
    sound(&map);
    let mut writer = map.writer().unwrap();
    told(HANDLE, || {
        let _write = map.write();
        writer.insert(0..=4, 1).unwrap();
    });
    told(HANDLE, || {
        map.write().update(|_| map.write().remove(0).map(drop)).unwrap();
    });
    let done = map.write().update(|inner| {
        assert_eq!(map.snapshot().len(), inner.len());
        Ok::<_, AllocError>(())
    });
    done.unwrap();
    drop(writer);
    sound(&map);
}

#[test]
fn within_a_store() {
    let map = filled();
    type Inner<'a> = &'a dyn Fn();
    let by_handle = |inner: Inner<'_>| map.write().replace(1_000..=1_004, 1, |_| inner()).unwrap();
    let by_writer = |inner: Inner<'_>| map.writer().unwrap().replace(1_000..=1_004, 1, |_| inner()).unwrap();
    let snapshot = || drop(map.snapshot());
    told(STORE, || by_handle(&snapshot));
    told(STORE, || by_writer(&snapshot));
    told(STORE, || _ = map.write().modify(1_000, |_| snapshot()).unwrap());
    told(STORE, || _ = map.writer().unwrap().modify(1_000, |_| snapshot()).unwrap());
    told(HANDLE, || by_handle(&|| drop(map.write())));
    told(STORE, || by_writer(&|| drop(map.write())));
    // A store that goes beyond one leaf takes the handle.
    told(HANDLE, || map.writer().unwrap().clear_range(0..=3_000, |_| drop(map.write())).unwrap());
    let other = |map: &Map| SharedWriter::insert(&mut map.writer().unwrap(), 1_000..=1_004, 2).unwrap();
    told(HANDLE, || by_handle(&|| other(&map)));
    told(STORE, || by_writer(&|| other(&map)));
    // A store by another writer that is there already is told where debug assertions are on; else
    // it waits for ever.
    if cfg!(debug_assertions) {
        let (mut writer, second) = (map.writer().unwrap(), Cell::new(map.writer().ok()));
        let inner = || second.take().expect("once").insert(1_000..=1_004, 2).unwrap();
        told(STORE, || _ = writer.modify(1_000, |_| inner()).unwrap());
    }
    // Looking, and trying, wait for no thread.
    for by in [&by_handle as &dyn Fn(Inner<'_>), &by_writer] {
        by(&|| {
            assert!(map.try_write().is_err());
            assert_eq!(map.pin().iter().count(), 200);
        });
    }
    sound(&map);
}

/// A value's clone that takes the handle.
#[test]
fn a_clone_that_stores() {
    static MAP: LazyLock<SharedRangeMap<u64, Bad, Membarrier>> = LazyLock::new(SharedRangeMap::default);
    thread_local! { static ARMED: Cell<bool> = const { Cell::new(false) }; }
    #[derive(Debug)]
    struct Bad;
    impl Clone for Bad {
        fn clone(&self) -> Self {
            if ARMED.take() {
                MAP.write().remove(0).unwrap();
            }
            Bad
        }
    }
    MAP.write().insert(0..=9, Bad).unwrap();
    told(HANDLE, || {
        ARMED.set(true);
        MAP.write().insert(20..=29, Bad).unwrap();
    });
    assert_eq!(MAP.len(), 1, "a store whose clone panics has not been");
    MAP.write().insert(20..=29, Bad).unwrap();
    MAP.write().check().unwrap();
}

/// Each of two goes on until both have gone this number of rounds: none is kept waiting for ever.
fn both_go_on(turns: [&(dyn Fn(u64) -> Result<(), StoreError> + Sync); 2]) {
    let rounds = if cfg!(miri) { 2 } else { 300 };
    let done = [const { AtomicUsize::new(0) }; 2];
    thread::scope(|scope| {
        for (who, turn) in turns.into_iter().enumerate() {
            let done = &done;
            scope.spawn(move || {
                let mut round = 0;
                while done.iter().any(|done| done.load(Relaxed) < rounds) {
                    turn(round).unwrap();
                    round += 1;
                    done[who].fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert!(done.iter().all(|done| done.load(Relaxed) >= rounds));
}

fn progress<R: Reclaim<Stamp: Send> + Sync + Send, S: Shape>(reclaim: R) {
    let map: SharedRangeMap<u64, u64, R, S> = SharedRangeMap::with_reclaim(reclaim);
    for i in 0..200 {
        map.write().insert(10 * i..=10 * i + 4, i).unwrap();
    }
    // The same leaf, and its neighbours.
    let span = |round: u64| Span::new(1_000 + round % 3 * 10, 1_004 + round % 3 * 10);
    let handle = |round: u64| map.write().insert(span(round), round);
    let beside = |round: u64| map.writer()?.insert(span(round), round);
    let long = |round: u64| {
        // A handle that is kept for many stores.
        let mut write = map.write();
        (0..50).try_for_each(|i| write.insert(span(round + i), i))
    };
    let snapshot = |_| map.try_snapshot().map(drop).map_err(StoreError::from);
    both_go_on([&handle, &handle]);
    both_go_on([&beside, &beside]);
    both_go_on([&handle, &beside]);
    both_go_on([&long, &beside]);
    both_go_on([&snapshot, &handle]);
    both_go_on([&snapshot, &beside]);
    both_go_on([&snapshot, &long]);
    map.write().check().unwrap();
}

#[test]
fn progress_membarrier() {
    progress::<_, Compact>(Membarrier::new());
}

#[test]
fn progress_epoch() {
    if epochs() {
        progress::<_, samara::Normal>(Epoch::new());
    }
}
