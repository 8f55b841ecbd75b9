//! A reservation holds, whatever the stores are: ends that fill up and are cleared again, splits
//! and clears by turns. And what needs no memory does not fail for want of it.

use crate::alloc::fail_after;
use samara::testing::TinyMap;
use samara::{RangeMap, Span, StoreError};

/// Full leaves: entries of six keys, ten apart, from 1000 on.
fn full<M: FromSpans>(entries: u64) -> M {
    M::from_spans((0..entries).map(|i| Span::new(1000 + i * 10, 1005 + i * 10)))
}

trait FromSpans {
    fn from_spans(spans: impl Iterator<Item = Span>) -> Self;
    fn reserve(&mut self, stores: usize);
    fn store(&mut self, span: Span, fill: bool) -> Result<(), StoreError>;
    fn check(&self);
}

macro_rules! from_spans {
    ($($map:ty),*) => {$(
        impl FromSpans for $map {
            fn from_spans(spans: impl Iterator<Item = Span>) -> Self {
                Self::from_sorted(spans.map(|span| (span, 0))).unwrap()
            }
            fn reserve(&mut self, stores: usize) {
                Self::reserve(self, stores).unwrap();
            }
            fn store(&mut self, span: Span, fill: bool) -> Result<(), StoreError> {
                if fill { self.insert(span, 1) } else { self.clear_range(span, |_| ()) }
            }
            fn check(&self) {
                Self::check(self).unwrap();
            }
        }
    )*};
}
from_spans!(RangeMap<u64, u64>, TinyMap<u64, u64>);

/// Reserves for these stores, and makes them where nothing can be allocated.
fn hold<M: FromSpans>(mut map: M, what: &str, stores: &[(Span, bool)]) {
    map.reserve(stores.len());
    let (failed, asked) =
        fail_after(0, || stores.iter().position(|&(span, fill)| map.store(span, fill) == Err(StoreError::Alloc)));
    assert_eq!((failed, asked), (None, 0), "{what}: {} stores", stores.len());
    map.check();
}

fn ends<M: FromSpans>(entries: u64) {
    let turns: &[u64] = if cfg!(miri) { &[4, 8] } else { &[4, 8, 16, 50, 200, 1000] };
    for &stores in turns {
        for (name, key) in [("last", 1000 + entries * 10 + 100), ("first", 5)] {
            let turns: Vec<_> = (0..stores).map(|n| (Span::new(key, key), n % 2 == 0)).collect();
            hold::<M>(full(entries), &format!("{entries} entries, {name}"), &turns);
        }
    }
}

#[test]
fn an_end_that_fills_and_empties() {
    let sizes = if cfg!(miri) { 29..=29 } else { 29..=29 * 31 };
    for entries in [*sizes.start(), *sizes.end()] {
        ends::<RangeMap<u64, u64>>(entries);
    }
    for entries in if cfg!(miri) { vec![3, 9] } else { vec![3, 27, 81] } {
        ends::<TinyMap<u64, u64>>(entries);
    }
    if !cfg!(miri) {
        ends::<RangeMap<u64, u64>>(31 * 31 * 29);
    }
}

fn adversary<M: FromSpans>(seed: u64, entries: u64, stores: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let at = |i: u64| 1000 + i * 10;
    let weights: [u32; 4] = std::array::from_fn(|_| random.u32(0..10));
    let focus = random.u64(0..entries);
    let width = [40, 400, entries][random.usize(0..3)].min(entries);
    let script: Vec<_> = (0..stores)
        .map(|_| {
            let i = (focus + random.u64(0..width)) % entries;
            let (mut pick, mut kind) = (random.u32(0..=weights.iter().sum()), 0);
            while kind < 3 && pick >= weights[kind] {
                pick -= weights[kind];
                kind += 1;
            }
            match kind {
                // An entry is cut in two.
                0 => (Span::new(at(i) + 2, at(i) + 3), true),
                // Whole leaves, or whole nodes of leaves, go.
                1 => (Span::new(at(i), at(i + [8, 31, 62, 279, 961][random.usize(0..5)])), false),
                // An end fills and empties.
                2 if random.bool() => (Span::new(0, 99), random.bool()),
                2 => (Span::new(at(entries) + 50, at(entries) + 60 + random.u64(0..3)), random.bool()),
                // Anything.
                _ => {
                    let first = at(i) + random.u64(0..8);
                    (Span::new(first, first + random.u64(0..600)), random.bool())
                }
            }
        })
        .collect();
    hold::<M>(full(entries), &format!("seed {seed}, {entries} entries"), &script);
}

#[test]
fn an_adversary() {
    let seeds = if cfg!(miri) { 2 } else { 100 };
    for seed in 0..seeds {
        let stores = [3, 8, 20, 60, 200, 600][seed as usize % 6];
        adversary::<TinyMap<u64, u64>>(seed, [9, 27, 81, 200][seed as usize % 4], stores);
        if !cfg!(miri) {
            adversary::<RangeMap<u64, u64>>(seed, [31 * 31, 31 * 31 * 4, 31 * 31 * 16][seed as usize % 3], stores);
        }
    }
}

#[test]
fn a_reservation_that_fails_keeps_nothing() {
    let mut map: RangeMap<u64, u64> = full(100);
    let (got, asked) = fail_after(30, || map.reserve(10_000).map(drop));
    assert!(got.is_err() && asked == 31);
    let (got, asked) = fail_after(0, || map.reserve(20).map(drop));
    assert!(got.is_err() && asked == 1, "nodes of the failed reservation were kept");
    let (got, asked) = fail_after(0, || map.reserve(usize::MAX).map(drop));
    assert!(got.is_err() && asked == 0, "more than memory can hold was asked for");
    // Nor does one that fails at the last of its nodes, which is an inner one.
    let reserve = |map: &mut RangeMap<u64, u64>, n| fail_after(n, || map.reserve(1_000).is_ok());
    let all = reserve(&mut full(100), u64::MAX).1;
    let mut map = full(100);
    assert_eq!(reserve(&mut map, all - 1), (false, all));
    assert_eq!(reserve(&mut map, u64::MAX), (true, all), "nodes of the failed reservation were kept");
}

#[test]
fn a_store_that_makes_room_needs_no_memory() {
    let mut map: RangeMap<u64, u64> = full(1240);
    let (got, asked) = fail_after(0, || map.insert(1100..=1930, 7));
    assert_eq!((got, asked), (Ok(()), 0));
    map.check().unwrap();
}

/// Stores within a window that a clear has emptied: their keys then belong to the leaf behind it,
/// which a snapshot shares.
#[test]
fn an_emptied_window_beside_a_snapshot() {
    for n in if cfg!(miri) { vec![70] } else { vec![30, 70, 200, 1000] } {
        for (from, to) in [(0, 28), (29, 57), (29, 60), (1, n - 2)].into_iter().filter(|(_, to)| *to < n) {
            let mut map: RangeMap<u64, u64> = (0..n).map(|i| (10 * i..=10 * i + 4, i)).collect();
            let before = map.snapshot();
            let window = Span::new(10 * from, 10 * to + 4);
            map.reserve_within(window, 3).unwrap();
            let (stored, asked) = fail_after(0, || {
                map.clear_range(window, |_| ())?;
                map.insert(window.first + 10..=window.first + 14, 7)?;
                map.insert(window.last - 4..=window.last, 7)
            });
            assert_eq!((stored, asked), (Ok(()), 0), "{n} entries, {window}");
            map.check().unwrap();
            assert!(before.iter().map(|(_, i)| *i).eq(0..n));
        }
    }
}
