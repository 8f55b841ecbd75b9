//! Tests of [`super`].

use super::*;

#[test]
fn percentiles_count_from_the_least() {
    let mut times: Vec<u64> = (1..=2_000).rev().collect();
    assert_eq!([500, 999, 1_000].map(|per_mille| percentile(&mut times, per_mille)), [1_000, 1_998, 2_000]);
    assert_eq!(percentile(&mut [7], 1), 7);
}

#[test]
fn one_long_time_is_the_longest_and_no_percentile() {
    let mut times = vec![1_000_000; 10_000];
    times[17] = 1_000_000_000;
    let Singles { mean, p999, longest } = Singles::of(times);
    // The clock takes less than a tenth of a millisecond.
    assert!((900_000.0..=1_000_000.0).contains(&p999), "{p999}");
    assert!((999_900_000.0..=1_000_000_000.0).contains(&longest), "{longest}");
    assert!((mean - p999 - 99_900.0).abs() < 1.0, "{mean} {p999}");
}
