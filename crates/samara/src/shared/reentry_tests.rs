//! Tests of REENTRY-1: a thread that would deadlock with itself panics, whatever other threads do.
//! In each test another thread holds what the store's closure asks for, until the thread in the
//! store has panicked.

use crate::{Compact, Fenced, RangeMap, SharedRangeMap};
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::string::String;
use std::sync::mpsc::channel;
use std::thread;

type Map = SharedRangeMap<u64, u64, Fenced, Compact>;

#[test]
fn a_writer_takes_what_its_documentation_says() {
    use crate::node::shape::Normal;
    use crate::shared::{workspace::Workspace, writer_gate::WriterRecord};
    type Record<R> = WriterRecord<Workspace<u64, u64, Normal, R>>;
    assert_eq!([size_of::<Record<crate::Epoch>>(), size_of::<Record<Fenced>>()], [384; 2]);
}

/// A thread that has not panicked within this time counts as deadlocked.
const LIMIT: Duration = Duration::from_secs(60);

/// What the other thread does.
#[derive(Clone, Copy, Debug)]
enum Other {
    /// It is in a store of its own. Its record precedes the first thread's in the list.
    StoresBefore,
    /// The same, and its record comes after.
    StoresAfter,
    /// It has the handle's lock, and waits for the store.
    Handle,
    /// It holds `storing`, and waits for the store.
    Snapshot,
}

/// Checks that a store panics if its closure calls `inner`, with the other thread at work.
fn is_told(inner: fn(&Map)) {
    for other in [Other::StoresBefore, Other::StoresAfter, Other::Handle, Other::Snapshot] {
        let (done, is_done) = channel();
        thread::spawn(move || {
            check(other, inner);
            done.send(()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(LIMIT), Ok(()), "{other:?}: it was not told");
    }
}

fn check(other: Other, inner: fn(&Map)) {
    let plain: RangeMap<u64, u64, Compact> = (0..200).map(|i| (i * 10..=i * 10 + 4, i)).collect();
    let map = &Map::from_map(plain, Fenced).unwrap();
    let (first, second) = (map.writer().unwrap(), map.writer().unwrap());
    // The newest record is the first in the list.
    let (mut own, mut others) = if let Other::StoresAfter = other { (second, first) } else { (first, second) };
    let (inside, is_inside) = channel();
    let (told, is_told) = channel::<()>();
    thread::scope(|scope| {
        let store = || {
            own.modify(0, |_| {
                match other {
                    Other::StoresBefore | Other::StoresAfter => {
                        // Below another node.
                        scope.spawn(move || {
                            let waits = |_: &mut u64| {
                                inside.send(()).unwrap();
                                assert!(is_told.recv().is_err());
                            };
                            assert!(others.modify(1_000, waits).unwrap());
                        });
                        is_inside.recv().unwrap();
                    }
                    Other::Handle => _ = scope.spawn(|| drop(map.write())),
                    Other::Snapshot => _ = scope.spawn(|| drop(map.snapshot())),
                }
                while !map.gate.is_closed() && !matches!(other, Other::StoresBefore | Other::StoresAfter) {
                    thread::yield_now();
                }
                inner(map);
            })
        };
        let said = catch_unwind(AssertUnwindSafe(store)).expect_err("it waited for nothing");
        drop(told);
        let said = said.downcast_ref::<String>().expect("a message");
        assert!(said.contains("in the midst of a store of this SharedRangeMap"), "{said}");
    });
    map.write().check().unwrap();
    assert!(map.pin().iter().map(|(_, value)| *value).eq(0..200));
}

#[test]
fn who_asks_for_the_handle() {
    is_told(|map| drop(map.write()));
}

#[test]
fn who_asks_for_a_snapshot() {
    is_told(|map| drop(map.snapshot()));
}

#[test]
fn who_asks_for_a_writer() {
    is_told(|map| drop(map.writer()));
}
