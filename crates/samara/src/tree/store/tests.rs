//! Tests of [`Tree::store_in_gap`] with a caller that breaks its contract, which no outside test
//! can do.

extern crate std;

use crate::map::RangeMap;
use crate::node::shape::Tiny;
use crate::types::span::Span;
use alloc::vec::Vec;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Not `Clone`.
struct Unique(u64);

/// Entries of ten keys with gaps of ten, in several leaves.
fn map() -> RangeMap<u64, Unique, Tiny> {
    let mut map = RangeMap::default();
    for i in 0..50 {
        map.tree.store_in_gap(Span::new(20 * i, 20 * i + 9), Unique(i)).unwrap();
    }
    map
}

fn entries(map: &RangeMap<u64, Unique, Tiny>) -> Vec<(Span<u64>, u64)> {
    map.iter().map(|(span, value)| (span, value.0)).collect()
}

/// A store into a gap that meets entries panics and changes nothing, whether it would cut an entry
/// in two, trim one, or replace some in one leaf or in several.
#[test]
fn a_store_into_a_gap_that_meets_an_entry_changes_nothing() {
    let spans = [(103, 106), (100, 109), (95, 102), (105, 112), (95, 112), (95, 155), (3, 900), (0, u64::MAX)];
    for (first, last) in spans {
        let mut map = map();
        let before = entries(&map);
        let stored = catch_unwind(AssertUnwindSafe(|| map.tree.store_in_gap(Span::new(first, last), Unique(77))));
        assert!(stored.is_err(), "{first}..={last} meets an entry");
        map.check().unwrap();
        assert_eq!(entries(&map), before, "{first}..={last}");
        map.tree.store_in_gap(Span::new(110, 119), Unique(78)).unwrap();
        assert_eq!(map.len(), before.len() + 1);
    }
}
