//! Values that are not `Clone`: what cuts no entry in two takes them.

use samara::testing::Tiny;
use samara::{Entry, EntryError, Normal, RangeMap, Shape, Span};

/// Not `Clone`.
#[derive(Debug, PartialEq, Eq)]
struct Unique(u64);

const ENTRIES: u64 = if cfg!(miri) { 60 } else { 3000 };

/// Entries of four keys with gaps of twelve, inserted in mixed order, `step` apart.
fn filled<S: Shape>(step: u64) -> RangeMap<u64, Unique, S> {
    let mut map = RangeMap::default();
    for i in 0..ENTRIES {
        let i = (i * 1009) % ENTRIES;
        let Entry::Vacant(gap) = map.entry(i * step) else { panic!("{i} is not stored yet") };
        let mut entry = gap.insert(Span::new(i * step, i * step + 3), Unique(0)).unwrap();
        *entry.get_mut() = Unique(i);
    }
    map
}

fn holds_all<S: Shape>(map: &RangeMap<u64, Unique, S>, step: u64) {
    map.check().unwrap();
    let expected = (0..ENTRIES).map(|i| (Span::new(i * step, i * step + 3), Unique(i)));
    assert!(map.iter().map(|(span, value)| (span, value.0)).eq(expected.map(|(span, value)| (span, value.0))));
}

fn inserts_and_replacements<S: Shape>() {
    // Packed leaves, and keys that differ in their upper halves.
    for step in [16, 1 << 33] {
        let mut map = filled::<S>(step);
        holds_all(&map, step);
        for i in (0..ENTRIES).step_by(3) {
            // The insertion goes into the hole that the removal left.
            assert_eq!(map.remove(i * step), Some((Span::new(i * step, i * step + 3), Unique(i))));
            *map.entry(i * step).or_insert(Span::new(i * step, i * step + 3), Unique(9)).unwrap() = Unique(i);
        }
        holds_all(&map, step);
        map.shrink_to_fit().unwrap();
        holds_all(&map, step);
    }
}

#[test]
fn entries_of_values_that_are_not_clone() {
    inserts_and_replacements::<Normal>();
    inserts_and_replacements::<Tiny>();
}

#[test]
fn a_refused_insert_changes_nothing() {
    let mut map = filled::<Tiny>(16);
    let Entry::Vacant(gap) = map.entry(20) else { panic!("20 lies in a gap") };
    let refused = gap.insert(20..=32, Unique(1)).map(|_| ());
    assert_eq!(refused, Err(EntryError::OutsideGap { span: Span::new(20, 32), gap: Span::new(20, 31) }));
    let refused = map.entry(20).or_insert(Span::new(24, 23), Unique(1)).map(|_| ());
    assert_eq!(refused, Err(EntryError::EmptyRange(Span::new(24, 23))));
    holds_all(&map, 16);
}

/// The nodes of a map with a snapshot are copied by the function that the snapshot has left in the
/// tree, without a bound on the insert.
#[test]
fn an_insert_into_a_gap_leaves_a_snapshot_alone() {
    fn put<V>(map: &mut RangeMap<u64, V, Tiny>, key: u64, value: V) {
        map.entry(key).or_insert(Span::new(key, key), value).unwrap();
    }
    let mut map = RangeMap::<u64, String, Tiny>::default();
    (0..200).for_each(|i| put(&mut map, 10 * i, i.to_string()));
    let before = map.snapshot();
    (0..200).for_each(|i| put(&mut map, 10 * i + 5, format!("new {i}")));
    assert_eq!((map.len(), before.len()), (400, 200));
    assert!(
        before.iter().map(|(span, value)| (span.first, value.clone())).eq((0..200).map(|i| (10 * i, i.to_string())))
    );
    map.check().unwrap();
    before.check().unwrap();
}
