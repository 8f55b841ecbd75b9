//! Tests of [`super`].

use super::*;
use samara_bench::stats::Sample;

fn row(case: &str, n: usize, subject: &str, rounds: &[f64]) -> Row {
    let sample = Sample::new(rounds.to_vec());
    Row { suite: "index", case: case.into(), n, subject: subject.into(), sample, unit: "ns", threads: None }
}

#[test]
fn sorted_by_the_largest_size_with_ratios_and_dashes() {
    let rows = [
        row("lookup", 1000, "btreemap", &[40.0, 39.0, 41.0]),
        row("lookup", 1000, "samara", &[50.0]),
        row("lookup", 100, "samara", &[10.0]),
        row("lookup", 1000, "imbl", &[30.0]),
        row("clone", 1000, "btreemap", &[4.0]),
    ];
    let subjects = ["samara", "btreemap", "imbl"].map(String::from);
    let text = table(&rows, "btreemap", &subjects);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[2], ["100", "1000"]);
    assert_eq!(words[3], ["imbl", "-", "30.00", "[30.00..30.00]", "0.75"]);
    assert_eq!(words[4], ["btreemap", "-", "40.00", "[39.00..41.00]", "1.00"]);
    // No figure of `btreemap` at 100, so no ratio.
    assert_eq!(words[5], ["samara", "10.00", "[10.00..10.00]", "50.00", "[50.00..50.00]", "1.25"]);
    assert_eq!(words[9], ["btreemap", "-", "4.00", "[4.00..4.00]", "1.00"]);
    assert_eq!(words[10], ["samara", "-", "-"]);
    assert_eq!(words.len(), 12);
}

#[test]
fn figures_fit_their_columns() {
    let rows = [row("gap_low", 10_000_000, "btreemap", &[1.5e8, 1.656e9, 99_999.9])];
    let text = table(&rows, "btreemap", &["btreemap".into()]);
    let widths: Vec<usize> = text.lines().skip(2).map(str::len).collect();
    assert_eq!(widths, [65, 65], "{text}");
    assert!(text.contains("1.50e8") && text.contains("[99999.9..1.66e9]"), "{text}");
}

#[test]
fn ratios_keep_two_digits() {
    let texts = [0.0004, 0.0123, 0.254, 12.34, 1234.5].map(ratio);
    assert_eq!(texts, ["<0.001", "0.012", "0.25", "12.34", "1234"].map(String::from));
}

#[test]
fn a_block_for_each_number_of_threads() {
    let with = |threads, subject: &str, value| Row { threads: Some(threads), ..row("read", 10, subject, &[value]) };
    let rows = [with(1, "a", 8.0), with(1, "b", 0.0), with(2, "a", 4.0)];
    let text = table(&rows, "b", &["a", "b"].map(String::from));
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(text.contains("read, 1 thread (ns") && text.contains("read, 2 threads (ns"), "{text}");
    // Nothing is a ratio to 0, and a subject without a figure for two threads is left out.
    assert_eq!(words[4], ["a", "8.00", "[8.00..8.00]"]);
    assert_eq!(words.last().expect("a line"), &["a", "4.00", "[4.00..4.00]"]);
    assert_eq!(words.len(), 9);
}
