use std::io::Cursor;

use proptest::prelude::*;

use super::{Code, KEPT, read};
use crate::stacks::memory_budget::Budget;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn header(flags: u64) -> Vec<u8> {
    words(&[u64::from_le_bytes(*b"DTiJ\x01\0\0\0"), 40, 0, 0, flags])
}

fn record(kind: u64, since: u64, body: &[u8]) -> Vec<u8> {
    [words(&[kind | (body.len() as u64 + 16) << 32, since]), body.to_vec()].concat()
}

/// A function at an address, of as many bytes as its code.
fn load(since: u64, start: u64, index: u64, name: &str, code: &[u8]) -> Vec<u8> {
    let fixed = words(&[7 << 32 | 7, start, start, code.len() as u64, index]);
    record(0, since, &[&fixed, name.as_bytes(), b"\0", code].concat())
}

fn moved(since: u64, to: u64, len: u64, index: u64) -> Vec<u8> {
    record(1, since, &words(&[7 << 32 | 7, to, 0, to, len, index]))
}

fn code(start: u64, end: u64, since: u64, name: &str) -> Code {
    Code { addresses: start..end, since, name: name.into() }
}

/// All functions that hold one of these addresses.
fn all(bytes: Vec<u8>) -> Vec<Code> {
    let wanted = [0, 1, 2, 0x1000, 0x2007, 0x3000, 0x4000, u64::MAX - 1];
    let (code, is_whole) = read(Cursor::new(bytes), &wanted, &Budget::default(), || 1000);
    assert!(is_whole);
    code
}

fn of(parts: &[Vec<u8>]) -> Vec<Code> {
    all(parts.concat())
}

#[test]
fn no_more_than_is_wanted() {
    let file = [
        header(0),
        load(20, 0x1000, 1, "a", &[0; 16]),
        load(21, 0x2000, 2, "b", &[0; 8]),
        load(22, 0x1008, 3, "c", &[0]),
    ];
    let named = |wanted: &[u64], budget: &Budget| {
        let (code, is_whole) = read(Cursor::new(file.concat()), wanted, budget, || 1000);
        (code.iter().map(|code| code.name.to_string()).collect::<Vec<_>>(), is_whole)
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let budget = Budget::of(3 * (KEPT + 1));
    assert_eq!(named(&[0x1008], &budget), (names(&["a", "c"]), true));
    assert_eq!(named(&[0x1000, 0x2000], &budget), (names(&["a"]), false), "of all files together");
    assert_eq!(budget.left(), 0);
    assert_eq!(named(&[0x1000], &budget), (names(&[]), false));
    assert_eq!(named(&[0x1010, 0x1fff], &budget), (names(&[]), true), "what is not wanted costs nothing");
}

/// A moved function keeps its former name, although names are kept only for moved functions.
#[test]
fn a_move_has_the_name_before_it() {
    let file = [
        header(0),
        load(20, 0x5000, 1, "first", &[0; 8]),
        load(21, 0x6000, 2, "other", &[0; 8]),
        moved(22, 0x1000, 8, 1),
        load(23, 0x7000, 1, "second", &[0; 8]),
        moved(24, 0x3000, 8, 1),
        moved(25, 0x4000, 8, 9),
    ];
    assert_eq!(of(&file), [code(0x1000, 0x1008, 22, "first"), code(0x3000, 0x3008, 24, "second")]);
    let little = Budget::of(KEPT);
    assert!(!read(Cursor::new(file.concat()), &[0x1000, 0x3000], &little, || 1000).1);
}

#[test]
fn functions_have_their_times() {
    let all = [
        header(0),
        record(4, 5, &[0; 48]), // unwind tables
        load(30, 0x1000, 1, "second", &[0; 16]),
        load(20, 0x2000, 2, "first\n", &[0; 8]),
        record(2, 6, &[1; 9]), // places in the source
        moved(40, 0x3000, 8, 2),
        moved(41, 0x4000, 8, 3),
        record(3, 50, &[]),
    ];
    let expected =
        [code(0x2000, 0x2008, 20, "first "), code(0x1000, 0x1010, 30, "second"), code(0x3000, 0x3008, 40, "first ")];
    assert_eq!(of(&all), expected);
    let other_clock = [header(1), load(20, 0x2000, 2, "first", &[0; 8])];
    assert_eq!(of(&other_clock), [code(0x2000, 0x2008, 0, "first")]);
    let later_than_now = [header(0), load(20, 1, 1, "a", &[0]), load(1001, 2, 2, "b", &[0])];
    assert_eq!(of(&later_than_now), [code(1, 2, 0, "a"), code(2, 3, 0, "b")]);
}

#[test]
fn what_cannot_be_ends_the_file() {
    let good = || load(20, 0x2000, 2, "first", &[0; 8]);
    let only_good = [code(0x2000, 0x2008, 20, "first")];
    for wrong in [
        words(&[0, 20]),                              // shorter than its head
        words(&[15 << 32, 20]),                       // likewise
        words(&[39 << 32, 20, 0, 0, 0, 0, 0]),        // shorter than a function
        words(&[1 | 32 << 32, 20, 0, 0, 0, 0, 0, 0]), // shorter than a move
        words(&[u64::from(u32::MAX) << 32 | 9, 20]),  // longer than the file
    ] {
        assert_eq!(of(&[header(0), good(), wrong, good()]), only_good);
    }
    for no_header in [vec![], b"JiTD".to_vec(), words(&[7, 40, 0, 0, 0]), words(&[0x1_4a69_5444, 39, 0, 0, 0])] {
        assert_eq!(of(&[no_header, good()]), []);
    }
    // A function up to the last address, and an unterminated name that is longer than allowed.
    let high = words(&[7, 0, u64::MAX - 1, u64::MAX, 0]);
    let long = record(0, 20, &[high.as_slice(), &[b'x'; 5000]].concat());
    let found = of(&[header(0), long, good()]);
    assert_eq!(found, [code(u64::MAX - 1, u64::MAX, 20, &"x".repeat(1024)), code(0x2000, 0x2008, 20, "first")]);
}

proptest! {
    /// Any bytes, and files with changed or missing parts, are read without a panic.
    #[test]
    fn anything_is_read(bytes in any::<Vec<u8>>(), changes in any::<Vec<(u16, u8)>>(), end in any::<u16>()) {
        all(bytes.clone());
        let mut file = [header(0), load(20, 4096, 2, "first", &bytes), moved(40, 0, 8, 2), load(41, 0, 2, "", &[])].concat();
        for (at, byte) in changes {
            let at = usize::from(at) % file.len();
            file[at] = byte;
        }
        file.truncate(usize::from(end).max(40));
        for code in all(file) {
            prop_assert!(code.addresses.start <= code.addresses.end && code.name.len() <= 1024);
        }
    }
}
