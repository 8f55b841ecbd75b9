//! A shared cursor's steps show what is there when they are asked for, and not what the leaf held
//! when the cursor came to it.

use samara::testing::Tiny;
use samara::{Fenced, Normal, Shape, SharedRangeMap, Span};

type Map<S> = SharedRangeMap<u64, u64, Fenced, S>;

const ENTRIES: u64 = if cfg!(miri) { 14 } else { 400 };

fn span(i: u64) -> Span {
    Span::new(10 * i, 10 * i + 6)
}

fn filled<S: Shape>() -> Map<S> {
    let map = Map::with_reclaim(Fenced);
    for i in 0..ENTRIES {
        map.write().insert(span(i), i).unwrap();
    }
    map
}

/// On both sides of each entry, by the handle and beside others, within the leaf and at its ends.
fn steps<S: Shape>() {
    let map = filled::<S>();
    let mut writer = map.writer().unwrap();
    for i in 2..ENTRIES - 2 {
        let guard = map.pin();
        let cursor = guard.cursor(10 * i);
        // Replaced.
        map.write().insert(span(i + 1), i + 1_000).unwrap();
        writer.insert(span(i - 1), i + 2_000).unwrap();
        assert_eq!(cursor.clone().next(), Some((span(i + 1), &(i + 1_000))));
        assert_eq!(cursor.clone().prev(), Some((span(i - 1), &(i + 2_000))));
        // Removed.
        map.write().remove(10 * (i + 1)).unwrap();
        writer.remove(10 * (i - 1)).unwrap();
        assert_eq!(cursor.clone().next().map(|(span, _)| span), Some(span(i + 2)));
        assert_eq!(cursor.clone().prev().map(|(span, _)| span), Some(span(i - 2)));
        // Stored nearer; one that overlaps what the cursor points to is not reached.
        map.write().insert(10 * i + 5..=10 * i + 7, 1).unwrap();
        assert_eq!(cursor.clone().next().map(|(span, _)| span), Some(span(i + 2)));
        writer.insert(10 * i + 9..=10 * i + 9, 2).unwrap();
        assert_eq!(cursor.clone().next(), Some((Span::new(10 * i + 9, 10 * i + 9), &2)));
        writer.insert(10 * i - 3..=10 * i + 1, 3).unwrap();
        assert_eq!(cursor.clone().prev().map(|(span, _)| span), Some(span(i - 2)));
        // It points to what it pointed to.
        assert_eq!(cursor.current(), Some((span(i), &i)));
        // Everything is gone.
        let before = map.snapshot();
        map.write().clear().unwrap();
        assert_eq!((cursor.clone().next(), cursor.clone().prev()), (None, None));
        map.write().set(before).unwrap();
        map.write().clear_range(10 * (i - 1)..=10 * (i + 2) - 1, |_| ()).unwrap();
        for i in i - 1..=i + 1 {
            map.write().insert(span(i), i).unwrap();
        }
    }
    map.write().check().unwrap();
}

#[test]
fn steps_tiny() {
    steps::<Tiny>();
}

#[test]
fn steps_normal() {
    steps::<Normal>();
}

/// A walk by a cursor over a map that is stored in all the time, both ways.
#[test]
fn a_walk_beside_its_own_stores() {
    let map = filled::<Tiny>();
    let guard = map.pin();
    let mut cursor = guard.cursor(0);
    let mut seen = 1;
    while let Some((at, _)) = cursor.next() {
        // The one behind goes, so every other one is met.
        map.write().remove(at.first + 10).unwrap();
        seen += 1;
    }
    assert_eq!(seen, ENTRIES / 2 + 1);
    let mut back = 0;
    while let Some((at, value)) = cursor.prev() {
        if let Some(before) = at.first.checked_sub(20) {
            map.write().modify(before, |value| *value += 10_000).unwrap();
        }
        assert!(back == 0 || at.first == 0 || *value >= 10_000, "the value as it was: {value}");
        back += 1;
    }
    assert_eq!(back, seen - 1);
}
