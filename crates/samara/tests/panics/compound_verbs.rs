//! Values whose `clone` or `drop` panics within a verb that does several things: it has happened as
//! a whole or not at all, and no value is lost.

use samara::{AllocError, Fenced, RangeMap, SharedRangeMap, Span};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// How many clones, or drops, until one panics; 0: none will.
    static CLONES: Cell<u64> = const { Cell::new(0) };
    static DROPS: Cell<u64> = const { Cell::new(0) };
    /// Values that live.
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Whether the fuse burns down.
fn burns(fuse: &'static std::thread::LocalKey<Cell<u64>>) -> bool {
    let left = fuse.get();
    fuse.set(left.saturating_sub(1));
    left == 1
}

struct Value(u64);

impl Value {
    fn new(n: u64) -> Value {
        LIVE.set(LIVE.get() + 1);
        Value(n)
    }
}

impl Clone for Value {
    fn clone(&self) -> Value {
        assert!(!burns(&CLONES), "a clone");
        Value::new(self.0)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
        assert!(std::thread::panicking() || !burns(&DROPS), "a drop");
    }
}

/// Entries that touch, in leaves of 29, 29 and 2, of which the first keeps 8: as few as it may
/// have.
fn touching() -> RangeMap<u64, Value> {
    let mut map = RangeMap::<u64, _>::new();
    for i in 0..60 {
        map.insert(i * 2..=i * 2 + 1, Value::new(i)).unwrap();
    }
    (2..23).for_each(|i| drop(map.remove(i * 2)));
    map
}

/// What `merge_at(50)` may leave: the two entries, or one.
fn is_whole(at: impl Fn(u64) -> Option<(Span, u64)>, done: bool) {
    let apart = [Some((Span::new(48, 49), 24)), Some((Span::new(50, 51), 25))];
    let one = [Some((Span::new(48, 51), 24)); 2];
    let has = [48, 50].map(at);
    assert!(has == one || (!done && has == apart), "done {done}: {has:?}");
}

#[test]
fn two_entries_that_become_one() {
    let mut panics = 0;
    for fuse in (1..60).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let map = SharedRangeMap::<u64, Value, Fenced>::from_map(touching(), Fenced).unwrap();
        CLONES.set(fuse);
        let joined = |map: &mut RangeMap<u64, Value>| Ok::<_, AllocError>(map.merge_at(50, |_, _| true).map(drop));
        let done = catch_unwind(AssertUnwindSafe(|| map.write().update(joined)));
        CLONES.set(0);
        is_whole(|key| map.pin().get(key).map(|(span, value)| (span, value.0)), done.is_ok());
        map.write().check().unwrap();

        let mut map = touching();
        let snapshot = map.snapshot();
        CLONES.set(fuse);
        let own = catch_unwind(AssertUnwindSafe(|| map.merge_at(50, |_, _| true).map(drop)));
        CLONES.set(0);
        is_whole(|key| map.get(key).map(|(span, value)| (span, value.0)), own.is_ok());
        map.check().unwrap();
        assert_eq!(snapshot.len(), 39);
        panics += u32::from(done.is_err()) + u32::from(own.is_err());
    }
    assert!(panics > if cfg!(miri) { 4 } else { 40 }, "{panics} clones panicked");
    assert_eq!(LIVE.get(), 0);
}

#[test]
fn a_value_that_is_given_back() {
    const ENTRIES: u64 = if cfg!(miri) { 60 } else { 2_000 };
    let mut panics = 0;
    for fuse in 1..4 {
        let map: SharedRangeMap<u64, Value, Fenced> = SharedRangeMap::with_reclaim(Fenced);
        for i in 0..ENTRIES {
            map.write().insert(i * 2..=i * 2, Value::new(i)).unwrap();
        }
        let mut writer = map.writer().unwrap();
        for i in 0..ENTRIES {
            DROPS.set(fuse);
            panics += u32::from(catch_unwind(AssertUnwindSafe(|| drop(writer.remove(i * 2)))).is_err());
            DROPS.set(0);
        }
        drop(writer);
        drop(map);
        assert_eq!(LIVE.get(), 0, "drop {fuse} of a call panics");
    }
    assert!(panics > 0, "no drop panicked");
}
