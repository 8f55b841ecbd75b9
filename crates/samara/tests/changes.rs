//! The difference of two maps, against a comparison of all their entries.
#![forbid(unsafe_code)]

use std::cell::Cell;

#[cfg(feature = "long")]
use samara::Compact;
use samara::testing::Tiny;
use samara::{Change, Key, Normal, RangeMap, Shape, Span};

thread_local!(static COMPARED: Cell<u64> = const { Cell::new(0) });

/// A value that counts how often it is compared.
#[derive(Clone, Copy, Debug, Eq)]
struct Value(u64);

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        COMPARED.set(COMPARED.get() + 1);
        self.0 == other.0
    }
}

type Map<S> = RangeMap<u64, Value, S>;

fn entries<S: Shape>(map: &Map<S>) -> Vec<(Span, u64)> {
    map.iter().map(|(span, value)| (span, value.0)).collect()
}

/// The changes are those entries that only one of the maps has, and make the one into the other.
fn compare<S: Shape>(earlier: &Map<S>, later: &Map<S>) {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let mut copy = earlier.try_clone().unwrap();
    for change in later.changes_since(earlier) {
        match change {
            Change::Removed(span, value) => {
                removed.push((span, value.0));
                assert_eq!(copy.remove(span.first), Some((span, *value)));
            }
            Change::Added(span, value) => {
                added.push((span, value.0));
                assert!(!copy.overlaps(span), "{span} is added to what is still there");
                copy.insert(span, *value).unwrap();
            }
        }
    }
    let (before, after) = (entries(earlier), entries(later));
    let only = |these: &[(Span, u64)], others: &[(Span, u64)]| -> Vec<(Span, u64)> {
        let others: std::collections::BTreeSet<_> = others.iter().map(|(s, v)| (s.first, s.last, *v)).collect();
        these.iter().filter(|(s, v)| !others.contains(&(s.first, s.last, *v))).copied().collect()
    };
    assert_eq!((removed, added), (only(&before, &after), only(&after, &before)));
    assert_eq!(entries(&copy), after);
}

fn random<S: Shape>(seed: u64, most: u64, rounds: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..rounds {
        let n = rng.u64(0..most);
        let mut map: Map<S> = (0..n).map(|i| (i * 10..=i * 10 + 5, Value(i % 3))).collect();
        let mut kept = vec![map.snapshot()];
        for _ in 0..rng.u32(1..6) {
            for _ in 0..[0, 1, 3, 40][rng.usize(0..4)] {
                let first = rng.u64(0..most * 10);
                let span = Span::new(first, first + [0, 5, 30, most * 4][rng.usize(0..4)]);
                match rng.u8(0..6) {
                    0 => map.clear_range(span, |_| ()).unwrap(),
                    1 => drop(map.remove(first)),
                    2 => drop(map.get_mut(first).map(|(_, value)| value.0 ^= 1)),
                    3 => drop(map.resize(first, first..=first + 3)),
                    _ => map.insert(span, Value(rng.u64(0..3))).unwrap(),
                }
            }
            kept.push(map.snapshot());
        }
        if rng.bool() {
            kept.push(map.try_clone().unwrap()); // shares nothing
        }
        for earlier in &kept {
            for later in &kept {
                compare(earlier, later);
            }
        }
    }
}

#[test]
fn changes_of_snapshots() {
    let rounds = if cfg!(miri) { 2 } else { 200 };
    random::<Tiny>(1, if cfg!(miri) { 20 } else { 200 }, rounds);
    #[cfg(feature = "long")]
    random::<Compact>(2, if cfg!(miri) { 20 } else { 300 }, rounds);
    random::<Normal>(3, if cfg!(miri) { 60 } else { 2_000 }, rounds / 4);
}

/// What the maps share is not looked into: few values are compared, however many there are.
#[test]
fn shared_nodes_are_skipped() {
    for n in if cfg!(miri) { vec![1_000] } else { vec![1_000, 10_000, 100_000] } {
        let mut map: Map<Normal> = RangeMap::from_sorted((0..n).map(|i| (i * 10..=i * 10 + 5, Value(i)))).unwrap();
        let before = map.snapshot();
        for at in [0, n / 2, n - 1] {
            map.insert(at * 10 + 1..=at * 10 + 2, Value(0)).unwrap();
        }
        COMPARED.set(0);
        assert_eq!(map.changes_since(&before).count(), 3 * 4);
        // Three leaves, which may have split, with their neighbours.
        assert!(COMPARED.get() < 400, "{} compared of {n}", COMPARED.get());
        assert_eq!(before.changes_since(&before).next(), None);
        assert_eq!(map.snapshot().changes_since(&map).next(), None);
    }
}

#[test]
fn empty_and_full() {
    let (empty, full) = (Map::<Normal>::default(), Map::<Normal>::from_sorted([(0..=9, Value(1))]).unwrap());
    assert_eq!(empty.changes_since(&empty).next(), None);
    assert!(full.changes_since(&empty).eq([Change::Added(Span::new(0, 9), &Value(1))]));
    assert!(empty.changes_since(&full).eq([Change::Removed(Span::new(0, 9), &Value(1))]));
    let all: Map<Normal> = RangeMap::from_sorted([(Span::new(u64::MIN, <u64 as Key>::MAX), Value(1))]).unwrap();
    assert_eq!(all.changes_since(&full).count(), 2);
    assert_eq!(format!("{:?}", all.changes_since(&full)), "Changes { .. }");
}
