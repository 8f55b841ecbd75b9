//! Tests of [`super`].

use super::*;

#[test]
fn each_round_begins_with_another_subject_and_warm_ones_do_not_count() {
    let mut order = Vec::new();
    let results = interleaved(&mut ['a', 'b', 'c'], (1, 2), |subject, round| {
        order.push(*subject);
        (*subject, round)
    });
    assert_eq!(order.iter().collect::<String>(), "abcbcacab");
    assert_eq!(results, [[('a', 1), ('a', 2)], [('b', 1), ('b', 2)], [('c', 1), ('c', 2)]]);
}

#[test]
fn what_memory_does_not_hold_is_measured_alone() {
    assert_eq!(side_by_side(1, 14), 14);
    assert_eq!(side_by_side(usize::MAX >> 16, 14), 1);
}
