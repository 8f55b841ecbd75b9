//! The comparison of two made-up traces.

use samara_trace::event::EventKind;

use super::*;
use crate::why::tests::{Made, file, memory};

/// A program that maps a file `maps` times, and cuts its memory `cuts` times, from functions with
/// these places.
fn program(maps: u64, cuts: u64, lines: [u64; 2]) -> Summary {
    let mut made = Made::new();
    made.define(EventKind::Module, [0, 0], "- /bin/app");
    made.define(EventKind::Stack, [0, 0], "0+10 0+30");
    made.define(EventKind::Stack, [1, 0], "0+20 0+30");
    made.stack = Some(0);
    (0..maps).for_each(|i| made.map(10_000 + i * 4, 1, file(7, 1, "/etc/app.conf")));
    made.stack = None;
    made.map(1000, 300, memory(3));
    made.stack = Some(1);
    (0..cuts).for_each(|i| made.protect(1003 + i * 4, 1, 0));
    let names = [(0x10, format!("load\tapp.c:{}", lines[0])), (0x20, format!("guard\tapp.c:{}", lines[1]))];
    names.iter().for_each(|(at, text)| made.define(EventKind::Symbol, [0, *at], text));
    made.define(EventKind::Symbol, [0, 0x30], "main");
    made.summary()
}

fn side(summary: &Summary) -> Side<'_> {
    Side::largest(summary).unwrap()
}

#[test]
fn what_grew_is_told_by_function_and_by_reason() {
    // Another build: the functions have moved.
    let (before, after) = (program(40, 60, [3, 9]), program(90, 50, [4, 12]));
    let diff = Diff::of(side(&before), side(&after), 0);
    let text = anstream::adapter::strip_str(&diff.screen("from a to b")).to_string();
    insta::assert_snapshot!(text);
    assert!(diff.has_grown());
    let json = diff.json();
    assert_eq!(json["places"][0]["functions"], json!(["load", "main"]));
    assert_eq!(json["places"][0]["before"]["areas"], json!(40));
    assert_eq!(json["places"][0]["after"]["areas"], json!(90));
    assert_eq!(json["has_grown"], json!(true));
    // Beyond a threshold.
    assert!(Diff::of(side(&before), side(&after), 49).has_grown());
    let less = Diff::of(side(&before), side(&after), 50);
    assert!(!less.has_grown() && less.places.is_empty() && less.reasons.is_empty());
    // In the other direction nothing grew by more than 20, the cuts.
    let back = Diff::of(side(&after), side(&before), 25);
    assert!(!back.has_grown() && !back.places.is_empty());
    // Nothing differs from itself.
    let same = Diff::of(side(&before), side(&before), 0);
    assert!(!same.has_grown() && same.places.is_empty() && same.reasons.is_empty());
}

/// A trace without stacks beside one with them: the same program has not grown.
#[test]
fn stacks_of_one_alone_make_no_growth() {
    let mut bare = Made::new();
    (0..40).for_each(|i| bare.map(10_000 + i * 4, 1, file(7, 1, "/etc/app.conf")));
    bare.map(1000, 300, memory(3));
    (0..60).for_each(|i| bare.protect(1003 + i * 4, 1, 0));
    let (with, bare) = (program(40, 60, [3, 9]), bare.summary());
    for (before, after) in [(&with, &bare), (&bare, &with)] {
        let diff = Diff::of(side(before), side(after), 0);
        assert!(!diff.has_grown() && diff.screen("").contains("only one of the two has call stacks"));
    }
}
