//! Tests of [`super`].

use super::*;
use std::collections::HashSet;

#[test]
fn each_number_has_an_area_of_its_own() {
    let (arena, mut free) = (Arena::default(), Free::default());
    let numbers: Vec<u32> = (0..1_000).map(|_| free.take(&arena)).collect();
    assert!(numbers.iter().copied().eq(0..1_000));
    let places: HashSet<_> = numbers.iter().map(|number| std::ptr::from_ref(arena.area(*number)).addr()).collect();
    assert_eq!(places.len(), 1_000);
    // Blocks of 64, 128, 256 and 512 areas hold 960.
    assert_eq!(arena.blocks.iter().filter(|block| block.get().is_some()).count(), 5);
    assert_eq!([63, 64, 959, 960].map(place), [(0, 63), (1, 0), (3, 511), (4, 0)]);
}

#[test]
fn a_number_that_was_given_back_is_taken_first() {
    let (arena, mut free) = (Arena::default(), Free::default());
    let [first, second] = [free.take(&arena), free.take(&arena)];
    free.give_back(first);
    assert_eq!([free.take(&arena), free.take(&arena)], [first, second + 1]);
}
