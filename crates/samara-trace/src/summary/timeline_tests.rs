//! Tests: a number over time.

use super::*;

#[test]
fn a_peak_survives_any_length_of_time() {
    let mut line = Timeline::default();
    line.add(5, 3);
    line.add(10, 90);
    line.add(20, 4);
    line.add(u64::MAX, 7);
    let columns = line.columns(8);
    assert_eq!((columns.len(), columns[0], columns[1], columns[7]), (8, 90, 4, 7));
    assert!(line.cells.len() <= CELLS);
}

#[test]
fn a_value_lasts_until_the_next() {
    let mut line = Timeline::default();
    line.add(0, 2);
    line.add(100 << 14, 1);
    // A time that goes backwards counts as now.
    line.add(3, 5);
    assert_eq!(line.columns(101)[99..], [2, 5]);
    assert_eq!(line.columns(2), [2, 5]);
    line.lasts(200 << 14);
    assert_eq!(line.columns(201)[101..], [5; 100]);
    assert_eq!(Timeline::default().columns(4), [] as [u64; 0]);
}
