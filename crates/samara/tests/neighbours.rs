//! The entry at a key or the nearest one on either side, and windows that are open on one side: at
//! every border of trees of several levels, against a scan of all entries.

#![forbid(unsafe_code)]

use samara::testing::Tiny;
use samara::{Compact, Membarrier, Normal, RangeMap, Shape, SharedRangeMap, Span};

/// Every third key is free, and one border of two touches nothing.
fn entries(count: u64, highest: u64) -> Vec<(Span, u64)> {
    let from = |i: u64| highest - 3 * (count - i) + 1;
    (0..count).map(|i| (Span::new(from(i) + i % 2, from(i) + 2 - u64::from(i.is_multiple_of(3))), i)).collect()
}

fn found(entry: Option<(Span, &u64)>) -> Option<(Span, u64)> {
    entry.map(|(span, value)| (span, *value))
}

fn agrees<S: Shape>(entries: &[(Span, u64)]) {
    let mut map = RangeMap::<u64, u64, S>::default();
    // Not ascending, so that leaves are not full.
    for turn in [1, 0] {
        for (span, value) in entries.iter().filter(|entry| entry.1 % 2 == turn) {
            map.insert(*span, *value).unwrap();
        }
    }
    let snapshot = map.snapshot();
    let shared = SharedRangeMap::from_map(map.snapshot(), Membarrier::new()).unwrap();
    let reader = shared.reader();
    let guard = reader.pin();
    let (low, high) = entries.first().zip(entries.last()).map_or((0, 9), |(low, high)| (low.0.first, high.0.last));
    for key in [0, 1, u64::MAX].into_iter().chain(low.saturating_sub(3)..=high.saturating_add(3)) {
        let before = entries.iter().rev().copied().find(|(span, _)| span.first <= key);
        let after = entries.iter().copied().find(|(span, _)| span.last >= key);
        for map in [&map, &snapshot] {
            assert_eq!(found(map.at_or_before(key)), before, "at or before {key}");
            assert_eq!(found(map.at_or_after(key)), after, "at or after {key}");
            assert_eq!(found(map.range(..=key).next_back()), before, "the last up to {key}");
            assert_eq!(found(map.range(key..).next()), after, "the first from {key}");
            assert_eq!(map.range(..=key).count(), entries.iter().filter(|entry| entry.0.first <= key).count());
            assert_eq!(map.range(key..).rev().count(), entries.iter().filter(|entry| entry.0.last >= key).count());
        }
        assert_eq!(found(guard.at_or_before(key)), before, "at or before {key}, shared");
        assert_eq!(found(guard.at_or_after(key)), after, "at or after {key}, shared");
    }
    let (first, last) = (entries.first().copied(), entries.last().copied());
    assert_eq!((found(map.first()), found(map.last())), (first, last));
    assert_eq!((found(guard.first()), found(guard.last())), (first, last));
    assert_eq!((found(map.iter().next()), found(map.iter().next_back())), (first, last));
    assert!(map.iter().map(|(span, value)| (span, *value)).eq(entries.iter().copied()));
    assert!(map.iter().rev().map(|(span, value)| (span, *value)).eq(entries.iter().rev().copied()));
}

#[test]
fn neighbours_are_found_at_every_border() {
    // Miri takes a thousand times as long: small nodes alone, of one level and of several.
    let most = if cfg!(miri) { 24 } else { 700 };
    let counts: &[u64] = if cfg!(miri) { &[0, 1, most] } else { &[0, 1, 2, 5, 30, most] };
    for count in counts.iter().copied() {
        for highest in [3 * most, u64::MAX] {
            let entries = entries(count, highest);
            agrees::<Tiny>(&entries);
            if cfg!(miri) {
                continue;
            }
            agrees::<Normal>(&entries);
            agrees::<Compact>(&entries);
        }
    }
}

/// The entry at the lowest key is shown once, whichever end asks for it.
#[test]
fn an_entry_at_the_lowest_key_is_shown_once() {
    let map = RangeMap::<u64, u64>::from_sorted([(Span::new(0, 0), 7)]).unwrap();
    let shared = SharedRangeMap::from_map(map, Membarrier::new()).unwrap();
    let reader = shared.reader();
    let guard = reader.pin();
    let mut entries = guard.range(Span::FULL);
    assert_eq!(found(entries.next_back()), Some((Span::new(0, 0), 7)));
    assert_eq!(entries.next(), None);
    let mut entries = guard.range(Span::FULL);
    assert_eq!(found(entries.next()), Some((Span::new(0, 0), 7)));
    assert_eq!(entries.next_back(), None);
}
