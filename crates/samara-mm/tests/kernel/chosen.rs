//! Chosen sequences, for what random ones meet seldom. In pages of the window; words as in `tests/tables.rs`.

use crate::ops::Op;
use crate::sys::{BASE, PAGE};
use samara_mm::*;

pub(crate) const CASES: [&str; 23] = [
    "rw 3-7; mv 5-7 2; t 2-3; mv 2-4 5; rw 0-6",
    "rw 10-12; t 10-12; rw 14-16; fork; size 10-12 4",
    "rw 10-12; t 10-12; rw 14-16; t 14-16; fork; size 10-12 4",
    "rw 10-12; local 10-11; t 10-11; t 11-12; default 10-11",
    "pfile 0 10-11; pfile 3 11-12; pfile 0 12-13; t 10-11; t 11-12; t 12-13; u 11-12; pfile 0 11-12",
    "pfile 0 10-11; pfile 0 12-13; t 10-11; pfile 0 11-12; t 12-13",
    "rw 10-12; t 10-12; mv 11-12 20; rw 21-22; t 21-22; rw 11-21",
    "rw 10-12; t 10-12; rwx 12-14; fork; t 12-14; p-rw 12-14",
    "rw 10-12; rw 20-22; uffd 10-12; uffd 20-22; mv 10-12 18; rw 16-18",
    "rw 10-12; rw 20-22; uffd 10-12; mv 10-12 18",
    "drop 10-12; uffd 10-12; unuffd 10-12",
    "rw 10-12; r 12-14; uffd 10-12; seal 10-12; mv 10-14 30",
    "rw 10-12; r 12-14; seal 10-12; mv 10-14 30",
    "rw 10-12; uffd 10-12; seal 10-12; mv 10-12 30",
    "file 0 10-12; remove 10-12; p-r 10-12; remove 10-12",
    "file 2 10-12; remove 10-12",
    "pfile 0 10-12; remove 10-12; p-r 10-12; remove 10-12",
    "rw 10-12; resize 10-100000000000 1 2",
    "rw 10-12; resize 10-100000000000000 1 2",
    // Offsets in pages: the last that can be mapped, and the first that cannot; what is looked at before that.
    "big 10-11 7fffffffffffe; big 10-12 7fffffffffffe; big 10-11 7ffffffffffff; big 10-11 8000000000000; big 10-12 fffffffffffff",
    "rw 10-12; new-big 10-12 8000000000000; new-big 12-13 8000000000000; type-big 12-13 8000000000000",
    "ro-big 10-11 8000000000000; shared-big 10-11 8000000000000; far-big 10-11 8000000000000",
    "rw 10-14; t 11-12; fork; guard 12-13; rw 14-16; p-r 10-12; p-rw 10-12",
];

pub(crate) fn parse(script: &str) -> Vec<Op> {
    script.split(';').map(|call| one(&call.split_whitespace().collect::<Vec<_>>())).collect()
}

fn one(words: &[&str]) -> Op {
    let range = |w: &&str| {
        let (a, b) = w.split_once('-')?;
        Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?))
    };
    let (a, b) = words[1..].iter().find_map(range).unwrap_or((0, 0));
    let (at, len) = (BASE + a * PAGE, (b - a) * PAGE);
    let number = |i: usize| words[i].parse::<u64>().expect("a number");
    let map = |prot, flags: MapFlags| {
        let flags = (flags | MapFlags::FIXED | MapFlags::ANONYMOUS).bits();
        Op::Map { at, len, prot, flags, file: None, offset: 0 }
    };
    let file = |prot, kind: MapFlags| {
        let flags = (kind | MapFlags::FIXED).bits();
        Op::Map { at, len, prot, flags, file: Some(number(1) as usize), offset: a * PAGE }
    };
    let big = |at, prot, flags: u32, file| {
        let page = u64::from_str_radix(words[2], 16).expect("hex");
        Op::Map { at, len, prot, flags: flags | MapFlags::FIXED.bits(), file, offset: page.wrapping_mul(PAGE) }
    };
    let remap = |new_len, fixed: Option<u64>| Op::Remap {
        old: at,
        old_len: len,
        new_len,
        fixed: fixed.map(|p| BASE + p * PAGE),
        dontunmap: false,
    };
    match words[0] {
        "rw" => map(3, MapFlags::PRIVATE),
        "rwx" => map(7, MapFlags::PRIVATE),
        "r" => map(1, MapFlags::PRIVATE),
        "drop" => map(3, MapFlags::DROPPABLE),
        "file" => file(1, MapFlags::SHARED),
        "pfile" => file(3, MapFlags::PRIVATE),
        "big" => big(at, 1, 1, Some(0)),
        "new-big" => big(at, 1, 1 | MapFlags::FIXED_NOREPLACE.bits(), Some(0)),
        "type-big" => big(at, 1, 0, Some(0)),
        "ro-big" => big(at, 3, 1, Some(2)),
        "shared-big" => big(at, 1, 1 | MapFlags::ANONYMOUS.bits(), None),
        "far-big" => big(0x7fff_ffff_f000, 1, 1, Some(0)),
        "t" => Op::Write { at },
        "u" => Op::Unmap { at, len },
        "p-rw" => Op::Protect { at, len, prot: 3 },
        "p-r" => Op::Protect { at, len, prot: 1 },
        "mv" => remap(len, Some(number(2))),
        "size" => remap(number(2) * PAGE, None),
        "resize" => remap(number(2) * PAGE, Some(number(3))),
        "seal" => Op::Seal { at, len },
        "local" => Op::Policy { at, len, local: true },
        "default" => Op::Policy { at, len, local: false },
        "remove" => Op::Advise { at, len, advice: Advice::Remove },
        "guard" => Op::Advise { at, len, advice: Advice::GuardInstall },
        "uffd" => Op::Uffd { on: true, at, len },
        "unuffd" => Op::Uffd { on: false, at, len },
        "fork" => Op::Fork,
        other => panic!("no such call: {other}"),
    }
}
