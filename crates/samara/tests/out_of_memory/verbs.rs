//! Memory that runs out at every allocation of every verb that is built upon stores; and
//! reservations, whose commits end the program if they allocate.

use crate::alloc::fail_after;
use samara::testing::Tiny;
use samara::{Entry, EntryError, RangeMap, Shape, Span, StoreError};
use samara_testkit::{Op, Universe, script};

const ENTRIES: u64 = if cfg!(miri) { 31 } else { 400 };

type Map<S> = RangeMap<u64, u64, S>;

/// Full leaves: entries of six keys, ten apart.
fn full<S: Shape>() -> Map<S> {
    RangeMap::from_sorted((0..ENTRIES).map(|n| (Span::new(n * 10, n * 10 + 5), n))).unwrap()
}

fn entries<S: Shape>(map: &Map<S>) -> Vec<(Span, u64)> {
    map.iter().map(|(span, value)| (span, *value)).collect()
}

/// Whether it failed for want of memory.
type Act<S> = (&'static str, fn(&mut Map<S>) -> bool);

fn acts<S: Shape>() -> Vec<Act<S>> {
    vec![
        ("insert_merging into a gap", |m| m.insert_merging(107..=108, 1, |_, _| true) == Err(StoreError::Alloc)),
        ("insert_merging into an entry", |m| {
            m.insert_merging(102..=103, 1, |left, right| left.0.last < 102 && right.0.last > 103)
                == Err(StoreError::Alloc)
        }),
        ("insert_merging that joins both sides", |m| {
            m.insert_merging(106..=109, 1, |_, _| true) == Err(StoreError::Alloc)
        }),
        ("or_insert", |m| m.entry(107).or_insert(107..=107, 1) == Err(EntryError::Alloc)),
        ("split_at of an entry", |m| {
            let Entry::Occupied(mut entry) = m.entry(103) else { panic!("103 is occupied") };
            entry.split_at(103) == Err(StoreError::Alloc)
        }),
        ("drain within an entry", |m| matches!(m.drain(102..=103).map(Iterator::count), Err(StoreError::Alloc))),
        ("drain", |m| matches!(m.drain(102..=203).map(Iterator::count), Err(StoreError::Alloc))),
        ("split_off", |m| matches!(m.split_off(ENTRIES * 5 + 3).map(drop), Err(StoreError::Alloc))),
        ("retain", |m| {
            m.retain(|span, _| span.first % 30 == 0);
            false
        }),
        ("merge_at", |m| m.merge_at(10, |_, _| true).is_some()),
        ("extract_if", |m| m.extract_if(.., |span, _| span.first % 30 == 0).count() == 0),
        ("into_iter", |m| std::mem::take(m).into_iter().count() == 0),
        ("pops", |m| m.pop_first().is_none() || m.pop_last().is_none()),
    ]
}

/// The least number of failures in all, and the acts that need no memory at all.
fn every_verb<S: Shape>() {
    let mut failures = 0;
    for (name, act) in acts::<S>() {
        for n in 0.. {
            let mut map: Map<S> = full();
            let before = entries(&map);
            let (failed, asked) = fail_after(n, || act(&mut map));
            map.check().unwrap_or_else(|v| panic!("{name} failed at allocation {n}: {v:?}"));
            if !failed {
                let needs_none = [
                    "drain",
                    "retain",
                    "merge_at",
                    "extract_if",
                    "into_iter",
                    "pops",
                    "insert_merging that joins both sides",
                ];
                assert!(n == 0 || !needs_none.contains(&name), "{name} needed memory");
                assert!(n > 0 || asked == 0, "{name} did without what it asked for");
                break;
            }
            assert_eq!(entries(&map), before, "{name} failed at allocation {n} of {asked}: the map changed");
            failures += 1;
            assert!(n < 10_000, "{name} asks for memory again and again");
        }
    }
    assert!(failures > 6, "only {failures} failures");
}

/// Appending stops between two entries, and loses none.
fn append<S: Shape>() {
    let mut failures = 0;
    for n in 0.. {
        let mut low: Map<S> = full();
        let mut high: Map<S> =
            RangeMap::from_sorted((0..ENTRIES / 2).map(|n| (Span::new(n * 20 + 2, n * 20 + 3), 1000 + n))).unwrap();
        let mut want = entries(&high);
        let mut model = low.try_clone().unwrap();
        let (got, _) = fail_after(n, || low.append(&mut high));
        low.check().unwrap();
        high.check().unwrap();
        let left = entries(&high);
        assert!(want.ends_with(&left), "what is left is the upper end");
        want.truncate(want.len() - left.len());
        model.try_extend(want).unwrap();
        assert_eq!(low, model);
        let (got_again, asked) = fail_after(0, || low.insert(17..=17, 1));
        assert!(got_again.is_err() || asked == 0);
        if got.is_ok() {
            assert!(left.is_empty());
            break;
        }
        failures += 1;
    }
    assert!(failures > 4, "only {failures} failures");
}

/// What a random script commits through reservations neither allocates nor fails, and does what the
/// map's own verbs do.
fn reserved<S: Shape>() {
    let (mut done, mut refused) = (0, 0);
    for round in 0..if cfg!(miri) { 3 } else { 60 } {
        let stores = [1, 2, 5, 20, 100][round % 5];
        let seed = samara_testkit::seed_wanted() + round as u64;
        let ops: Vec<Op<u64>> = script(seed, Universe::Low(10 * ENTRIES as u32), stores * 6 + 40);
        let mut map: Map<S> = full();
        let mut model = map.try_clone().unwrap();
        map.reserve(stores).unwrap();
        let mut left = stores;
        for op in &ops {
            // The allocator fails at once; `asked` proves that it was not even asked.
            let stores =
                matches!(op, Op::Insert(_) | Op::Replace(_) | Op::ClearRange(_) | Op::SplitAt(_) | Op::Range(..));
            if stores && left == 0 {
                continue;
            }
            let (got, asked) = fail_after(0, || match op {
                Op::Insert(span) => map.insert(*span, 1),
                Op::Replace(span) => map.replace(*span, 2, |_| ()),
                Op::ClearRange(span) => map.clear_range(*span, |_| ()),
                Op::SplitAt(key) => map.split_at(*key).map(|_| ()),
                Op::Range(span, _) => map.insert_merging(*span, 3, |_, _| true).map(|_| ()),
                Op::Remove(key) => {
                    map.remove(*key);
                    Ok(())
                }
                _ => Ok(()),
            });
            assert_eq!(asked, 0, "{op:?} asked for memory");
            match (got, op) {
                (Err(StoreError::EmptyRange(span)), _) => {
                    assert!(span.is_empty());
                    refused += 1;
                    continue;
                }
                (Err(error), _) => panic!("{op:?}: {error}"),
                (_, Op::Insert(span)) => model.insert(*span, 1).unwrap(),
                (_, Op::Replace(span)) => model.insert(*span, 2).unwrap(),
                (_, Op::ClearRange(span)) => model.clear_range(*span, |_| ()).unwrap(),
                (_, Op::SplitAt(key)) => drop(model.split_at(*key).unwrap()),
                (_, Op::Range(span, _)) => drop(model.insert_merging(*span, 3, |_, _| true).unwrap()),
                (_, Op::Remove(key)) => drop(model.remove(*key)),
                _ => {}
            }
            if stores {
                left -= 1;
                done += 1;
            }
        }
        assert_eq!(map, model);
        map.check().unwrap();
        map.release();
        map.check().unwrap();
    }
    assert!(done > if cfg!(miri) { 5 } else { 900 } && refused > 0, "{done} commits, {refused} refused");
}

/// A reservation holds whatever the map goes through before it is used: entries that leave, come
/// back, or go elsewhere.
fn a_reservation_outlives_other_verbs<S: Shape>() {
    let stores = if cfg!(miri) { 10 } else { 30 };
    let others: [fn(&mut Map<S>); 6] = [
        |m| m.retain(|span, _| span.first % 30 == 0),
        |m| m.extract_if(.., |span, _| span.first % 20 == 0).for_each(drop),
        |m| m.drain(105..=ENTRIES * 10 - 30).unwrap().for_each(drop),
        |m| drop(m.split_off(ENTRIES * 5).unwrap()),
        |m| while m.len() > 5 && m.pop_first().is_some() {},
        |m| m.clear(),
    ];
    for (which, other) in others.into_iter().enumerate() {
        let mut map: Map<S> = full();
        map.reserve(stores).unwrap();
        other(&mut map);
        let ((), asked) = fail_after(0, || {
            for n in 0..stores as u64 {
                assert!(map.insert(Span::new(n * 100 + 2, n * 100 + 3), n).is_ok(), "verb {which}, store {n}");
            }
        });
        assert_eq!(asked, 0, "verb {which}");
        map.check().unwrap();
    }
}

macro_rules! allocation {
    ($($module:ident: $shape:ty;)*) => {$(
        mod $module {
            use super::*;
            #[test]
            fn verbs() {
                every_verb::<$shape>();
            }
            #[test]
            fn append() {
                super::append::<$shape>();
            }
            #[test]
            fn reservation() {
                reserved::<$shape>();
            }
            #[test]
            fn reservation_and_other_verbs() {
                a_reservation_outlives_other_verbs::<$shape>();
            }
        }
    )*};
}

allocation! {
    tiny: Tiny;
}

#[cfg(feature = "long")]
allocation! {
    real: samara::Normal;
}
