//! The verbs that are built upon stores, with predicates, clones and drops that panic at every
//! place where they can.
//!
//! After each panic the map passes `check()`, no value is dropped twice and none is lost. A panic
//! before the first change (in a clone, or in the predicate of a merge) leaves the map as it was.

use crate::support::{fuses, quiet};
use samara::testing::Tiny;
use samara::{RangeMap, Shape, Span};
use samara_testkit::{Ledger, Tracked};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ENTRIES: u64 = if cfg!(miri) { 24 } else { 400 };
const END: u64 = ENTRIES * 10;

type Map<S> = RangeMap<u64, Tracked, S>;
type Entries = Vec<(Span, u64)>;

/// Entries of six keys with gaps of four: 0..=5, 10..=15, ...
fn map<S: Shape>() -> Map<S> {
    (0..ENTRIES).map(|n| (Span::new(n * 10, n * 10 + 5), Tracked::new(n))).collect()
}

fn entries<S: Shape>(map: &Map<S>) -> Entries {
    map.iter().map(|(span, value)| (span, value.id())).collect()
}

fn other<S: Shape>() -> Map<S> {
    (0..ENTRIES / 4).map(|n| (Span::new(n * 40 + 3, n * 40 + 12), Tracked::new(n))).collect()
}

type Act<S> = (&'static str, fn(&mut Map<S>));

/// Every verb; those whose name starts with "whole" do nothing at all where a clone panics.
fn acts<S: Shape>() -> Vec<Act<S>> {
    vec![
        ("whole insert_merging", |m| {
            m.insert_merging(6..=9, Tracked::new(1), |_, _| true).unwrap();
        }),
        ("whole insert_merging within an entry", |m| {
            m.insert_merging(102..=103, Tracked::new(1), |left, _| left.0.last == 101).unwrap();
        }),
        ("whole merge_at", |m| {
            m.insert(6..=9, Tracked::new(1)).unwrap();
            assert!(m.merge_at(6, |_, _| true).is_some() && m.merge_at(10, |_, _| true).is_some());
        }),
        ("whole drain", |m| m.drain(103..=END - 17).unwrap().for_each(drop)),
        ("whole drain, from behind", |m| m.drain(103..=END - 17).unwrap().rev().for_each(drop)),
        ("whole drain, dropped early", |m| {
            m.drain(103..=END - 17).unwrap().nth(3);
        }),
        ("whole drain within an entry", |m| m.drain(102..=103).unwrap().for_each(drop)),
        ("whole drain of everything", |m| m.drain(0..=u64::MAX).unwrap().for_each(drop)),
        ("whole split_off", |m| drop(m.split_off(END / 2 + 3).unwrap())),
        ("retain half", |m| m.retain(|span, _| span.first % 20 == 0)),
        ("retain a few", |m| m.retain(|span, _| span.first % 130 == 0)),
        ("retain none", |m| m.retain(|_, _| false)),
        ("extract_if", |m| m.extract_if(53..=END - 53, |span, _| span.first % 30 != 0).for_each(drop)),
        ("into_iter", |m| std::mem::take(m).into_iter().for_each(drop)),
        ("into_iter, dropped early", |m| {
            std::mem::take(m).into_iter().rev().nth(5);
        }),
        ("into_values", |m| std::mem::take(m).into_values().for_each(drop)),
        ("append", |m| m.append(&mut other()).unwrap()),
        ("extend", |m| m.extend(other::<S>())),
        ("entry", |m| {
            let entry = m.entry(17).or_insert(16..=18, Tracked::new(3)).unwrap();
            *entry = Tracked::new(4);
            if let samara::Entry::Occupied(mut entry) = m.entry(33) {
                assert!(entry.split_at(33).unwrap());
                entry.set_span(31..=31).unwrap();
                drop(entry.insert(Tracked::new(5)));
                drop(entry.remove());
            }
        }),
        ("pops", |m| while m.len() > 2 && m.pop_first().is_some() && m.pop_last().is_some() {}),
    ]
}

fn usable<S: Shape>(map: &mut Map<S>, what: &str) {
    map.check().unwrap_or_else(|v| panic!("{what}: {v:?}"));
    map.insert(1..=2, Tracked::new(1)).unwrap();
    assert_eq!(map.get(1).unwrap().0, Span::new(1, 2), "{what}");
    map.check().unwrap_or_else(|v| panic!("{what}, and a store after it: {v:?}"));
}

fn panics<S: Shape>(in_clone: bool) {
    let mut panics = 0;
    for (name, act) in acts::<S>() {
        for n in fuses() {
            let what = format!("{name}, {} {n}", if in_clone { "clone" } else { "drop" });
            let ledger = Ledger::open();
            let mut map: Map<S> = map();
            let before = entries(&map);
            if in_clone {
                ledger.panic_at_clone(n);
            } else {
                ledger.panic_at_drop(n);
            }
            let done = catch_unwind(AssertUnwindSafe(|| act(&mut map))).is_ok();
            let over = ledger.disarm();
            assert_eq!(done, over, "{what}");
            if !done && in_clone && name.starts_with("whole") {
                assert_eq!(entries(&map), before, "{what}: the map changed");
            }
            assert_eq!((ledger.live(), ledger.dropped_twice()), (map.len(), 0), "{what}: values are lost");
            usable(&mut map, &what);
            drop(map);
            ledger.assert_clean();
            panics += u32::from(!done);
            if over {
                break;
            }
        }
    }
    let least = if in_clone || cfg!(miri) { 8 } else { 500 };
    assert!(panics > least, "only {panics} panics");
}

/// A predicate that panics: what has not been asked about stays, and so does the one that it
/// panicked at.
fn panics_in_predicate<S: Shape>() {
    for n in (0..ENTRIES.min(100)).step_by(if cfg!(miri) { 7 } else { 1 }) {
        for verb in 0..2 {
            let ledger = Ledger::open();
            let mut map: Map<S> = map();
            let mut asked = 0;
            let mut predicate = |span: Span| {
                assert!(asked < n, "the predicate that was asked to panic");
                asked += 1;
                span.first % 30 == 0
            };
            let done = catch_unwind(AssertUnwindSafe(|| match verb {
                0 => map.retain(|span, _| predicate(span)),
                _ => map.extract_if(.., |span, _| !predicate(span)).for_each(drop),
            }));
            assert!(done.is_err());
            let want = (0..ENTRIES).filter(|i| *i >= n || i % 3 == 0);
            assert!(map.values().map(Tracked::id).eq(want), "verb {verb}, predicate {n}");
            assert_eq!(ledger.live(), map.len());
            usable(&mut map, "predicate");
            drop(map);
            ledger.assert_clean();
        }
    }
    for second in [false, true] {
        let ledger = Ledger::open();
        let mut map: Map<S> = map();
        map.insert(10..=15, Tracked::new(1)).unwrap();
        let before = entries(&map);
        let mut asked = 0;
        let done = catch_unwind(AssertUnwindSafe(|| {
            map.insert_merging(6..=9, Tracked::new(1), |_, _| {
                asked += 1;
                assert!(asked < 1 + u32::from(second), "the predicate that was asked to panic");
                true
            })
        }));
        assert!(done.is_err());
        assert_eq!(entries(&map), before);
        let done = catch_unwind(AssertUnwindSafe(|| {
            map.split_at(13).unwrap();
            map.merge_at(13, |_, _| panic!("the predicate that was asked to panic"))
        }));
        assert!(done.is_err());
        assert!(map.merge_at(13, |_, _| true).is_some());
        assert_eq!(entries(&map), before);
        drop(map);
        ledger.assert_clean();
    }
}

/// A drain that is leaked takes the map's entries along, and leaves an empty, usable map.
fn leaked_drain<S: Shape>() {
    let ledger = Ledger::open();
    let mut map: Map<S> = map();
    let mut drain = map.drain(13..=END - 17).unwrap();
    drop((drain.next(), drain.next_back(), drain.next()));
    if cfg!(miri) {
        // Miri would report the leak.
        drop(drain);
    } else {
        std::mem::forget(drain);
        assert!(map.is_empty());
    }
    usable(&mut map, "a leaked drain");
    drop(map);
    assert_eq!(ledger.dropped_twice(), 0);
}

macro_rules! crashes {
    ($($module:ident: $shape:ty;)*) => {$(
        mod $module {
            use super::*;
            #[test]
            fn clone() {
                quiet(|| panics::<$shape>(true));
            }
            #[test]
            fn drop() {
                quiet(|| panics::<$shape>(false));
            }
            #[test]
            fn predicate() {
                quiet(panics_in_predicate::<$shape>);
            }
            #[test]
            fn leak() {
                leaked_drain::<$shape>();
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
