//! Values that panic in clone or drop, and observers and iterators that panic, at every place where
//! they can.
//!
//! After each panic the map passes `check()`; no value is dropped twice, and none is lost. A panic
//! in a clone or in an observer leaves the map as it was.

use crate::support::{fuses, quiet};
use samara::testing::Tiny;
use samara::{RangeMap, Shape, Span};
use samara_testkit::{Ledger, Tracked};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Enough entries for several levels of nodes; fewer under Miri.
const ENTRIES: u64 = if cfg!(miri) { 40 } else { 400 };

type Map<S> = RangeMap<u64, Tracked, S>;
type Entries = Vec<(Span, u64)>;

/// Entries of six keys with gaps of four: 0..=5, 10..=15, ...
fn map<S: Shape>() -> Map<S> {
    let mut map = Map::<S>::default();
    for n in 0..ENTRIES {
        // An order that is neither ascending nor descending.
        let n = (n * 7) % ENTRIES;
        map.insert(Span::new(n * 10, n * 10 + 5), Tracked::new(n)).unwrap();
    }
    map
}

fn entries<S: Shape>(map: &Map<S>) -> Entries {
    map.iter().map(|(span, value)| (span, value.id())).collect()
}

type Act<S> = (&'static str, fn(&mut Map<S>));

fn store<S: Shape>(map: &mut Map<S>, first: u64, last: u64) {
    let value = Tracked::new(9999);
    map.insert(Span::new(first, last), value).unwrap();
}

fn clear<S: Shape>(map: &mut Map<S>, first: u64, last: u64) {
    map.clear_range(Span::new(first, last), |_| ()).unwrap();
}

const END: u64 = ENTRIES * 10;

/// Every way to change a map.
fn acts<S: Shape>() -> Vec<Act<S>> {
    vec![
        ("insert into a gap", |m| store(m, 106, 109)),
        ("insert over one entry", |m| store(m, 100, 105)),
        ("insert into an entry", |m| store(m, 102, 103)),
        ("insert over the end of an entry", |m| store(m, 103, 107)),
        ("insert over the start of an entry", |m| store(m, 107, 112)),
        ("insert over a few entries", |m| store(m, 103, 133)),
        ("insert over most entries", |m| store(m, 13, END - 17)),
        ("insert over everything", |m| store(m, 0, u64::MAX)),
        ("replace a few entries", |m| m.replace(Span::new(52, 91), Tracked::new(1), |_| ()).unwrap()),
        ("clear inside an entry", |m| clear(m, 102, 103)),
        ("clear one entry", |m| clear(m, 100, 105)),
        ("clear a few entries", |m| clear(m, 103, 133)),
        ("clear most entries", |m| clear(m, 13, END - 17)),
        ("clear the low half", |m| clear(m, 0, END / 2)),
        ("clear the high half", |m| clear(m, END / 2, u64::MAX)),
        ("clear everything", |m| clear(m, 0, u64::MAX)),
        ("split_at", |m| assert!(m.split_at(103).unwrap())),
        ("remove", |m| drop(m.remove(103).unwrap())),
        ("remove all, upwards", |m| (0..ENTRIES).for_each(|n| drop(m.remove(n * 10)))),
        ("remove all, downwards", |m| (0..ENTRIES).rev().for_each(|n| drop(m.remove(n * 10)))),
        ("clear()", |m| m.clear()),
        ("try_clone", |m| drop(m.try_clone().unwrap())),
        ("assign through get_mut", |m| *m.get_mut(103).unwrap().1 = Tracked::new(1)),
        ("many inserts into entries", |m| (0..ENTRIES).for_each(|n| store(m, n * 10 + 2, n * 10 + 3))),
    ]
}

fn panics_in_clone<S: Shape>() {
    let mut panics = 0;
    for (name, act) in acts::<S>() {
        for n in fuses() {
            let ledger = Ledger::open();
            let mut map: Map<S> = map();
            let before = entries(&map);
            ledger.panic_at_clone(n);
            let done = catch_unwind(AssertUnwindSafe(|| act(&mut map))).is_ok();
            let over = ledger.disarm();
            map.check().unwrap_or_else(|v| panic!("{name}, clone {n}: {v:?}"));
            assert_eq!(done, over, "{name}, clone {n}");
            // An act of many calls ends in the middle; each call of it is whole or not at all.
            if !done && !name.starts_with("many") {
                assert_eq!(entries(&map), before, "{name}, clone {n}: the map changed");
            }
            assert_eq!(ledger.live(), map.len(), "{name}, clone {n}: values are lost");
            drop(map);
            ledger.assert_clean();
            panics += u32::from(!done);
            if over {
                break;
            }
        }
    }
    assert!(panics > if cfg!(miri) { 4 } else { 20 }, "only {panics} panics");
}

fn panics_in_drop<S: Shape>() {
    let mut panics = 0;
    for (name, act) in acts::<S>() {
        for n in fuses() {
            let ledger = Ledger::open();
            let mut map: Map<S> = map();
            ledger.panic_at_drop(n);
            let done = catch_unwind(AssertUnwindSafe(|| act(&mut map))).is_ok();
            let over = ledger.disarm();
            map.check().unwrap_or_else(|v| panic!("{name}, drop {n}: {v:?}"));
            assert_eq!(ledger.dropped_twice(), 0, "{name}, drop {n}");
            assert_eq!(ledger.live(), map.len(), "{name}, drop {n}: values are lost");
            // What is left can be used.
            store(&mut map, 1, 2);
            assert_eq!(map.get(1).unwrap().0, Span::new(1, 2));
            map.check().unwrap_or_else(|v| panic!("{name}, drop {n}, and a store after it: {v:?}"));
            drop(map);
            ledger.assert_clean();
            panics += u32::from(!done);
            if over {
                break;
            }
        }
    }
    assert!(panics > if cfg!(miri) { 4 } else { 20 }, "only {panics} panics");
}

/// The drop of the map itself, and of a copy of it.
fn panics_in_the_maps_drop<S: Shape>() {
    for n in fuses().take_while(|n| *n < ENTRIES) {
        let ledger = Ledger::open();
        let map: Map<S> = map();
        ledger.panic_at_drop(n);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(map))).is_err());
        assert!(!ledger.disarm());
        ledger.assert_clean();
    }
}

fn panics_in_observer<S: Shape>() {
    for n in 0..4 {
        for clears in [false, true] {
            let ledger = Ledger::open();
            let mut map: Map<S> = map();
            let before = entries(&map);
            let span = Span::new(103, 133);
            let mut told = 0;
            let observe = |_: samara::Displaced<'_, u64, Tracked>| {
                assert!(told < n, "the observer that was asked to panic");
                told += 1;
            };
            let done = catch_unwind(AssertUnwindSafe(|| {
                if clears { map.clear_range(span, observe) } else { map.replace(span, Tracked::new(1), observe) }
            }));
            assert!(done.is_err());
            assert_eq!(entries(&map), before);
            map.check().unwrap();
            assert_eq!(ledger.live(), map.len());
            drop(map);
            ledger.assert_clean();
        }
    }
}

/// An iterator that panics, or that is refused, in the middle of a build.
fn build_ends_early<S: Shape>() {
    for n in fuses().take_while(|n| *n < ENTRIES) {
        let ledger = Ledger::open();
        let items = (0..ENTRIES).map(|at| {
            assert!(at < n, "the iterator that was asked to panic");
            (Span::new(at * 2, at * 2), Tracked::new(at))
        });
        assert!(catch_unwind(AssertUnwindSafe(|| Map::<S>::from_sorted(items))).is_err());
        ledger.assert_clean();
        let items = (0..ENTRIES).map(|at| {
            let first = if at < n { at * 2 } else { 0 };
            (Span::new(first, if at == 0 && n == 0 { 0 } else { first }), Tracked::new(at))
        });
        let built = Map::<S>::from_sorted(items);
        if n > 0 {
            let Err(samara::BuildError::NotAscending { index, .. }) = built.map(|_| ()) else { panic!("built at {n}") };
            assert_eq!(index as u64, n);
        } else {
            drop(built);
        }
        ledger.assert_clean();
    }
}

macro_rules! crashes {
    ($($module:ident: $shape:ty;)*) => {$(
        mod $module {
            use super::*;
            #[test]
            fn clone() {
                quiet(panics_in_clone::<$shape>);
            }
            #[test]
            fn drop() {
                quiet(panics_in_drop::<$shape>);
            }
            #[test]
            fn drop_of_the_map() {
                quiet(panics_in_the_maps_drop::<$shape>);
            }
            #[test]
            fn observer() {
                quiet(panics_in_observer::<$shape>);
            }
            #[test]
            fn build() {
                quiet(build_ends_early::<$shape>);
            }
        }
    )*};
}

crashes! {
    tiny: Tiny;
}

#[cfg(feature = "long")]
crashes! {
    real: samara::Normal;
}

/// Items that do not fit end a build: what was built is dropped, also where one of the drops
/// panics.
#[test]
fn an_unfinished_build_drops_everything() {
    use std::rc::Rc;
    struct Bomb(Rc<std::cell::Cell<usize>>, bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
            assert!(!self.1, "a drop that panics");
        }
    }
    let alive = Rc::new(std::cell::Cell::new(0));
    for bomb in (0..200u64).step_by(if cfg!(miri) { 20 } else { 1 }) {
        let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let items = (0..200u64).map(|i| {
                alive.set(alive.get() + 1);
                let first = if i == 199 { 0 } else { i * 10 };
                (Span::new(first, first + 5), Bomb(Rc::clone(&alive), i == bomb))
            });
            samara::RangeMap::<u64, Bomb>::from_sorted(items).is_err()
        }));
        assert!(built.is_err(), "the bomb {bomb} goes off");
        assert_eq!(alive.get(), 0, "bomb {bomb}");
    }
}
