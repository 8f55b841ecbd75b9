//! Chosen sequences, for what random ones meet seldom. In pages of the window; words as in the
//! tables of samara-mm's tests.

use samara_mm::{Advice, MapFlags};
use samara_probe::op::{Op, PAGE, SYS_MSEAL, at as page_at, fd};

pub(crate) const CASES: [&str; 24] = [
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
    // Offsets in pages: the last that can be mapped, and the first that cannot; what is looked at
    // before that.
    "big 10-11 7fffffffffffe; big 10-12 7fffffffffffe; big 10-11 7ffffffffffff; big 10-11 8000000000000; big 10-12 fffffffffffff",
    "rw 10-12; new-big 10-12 8000000000000; new-big 12-13 8000000000000; type-big 12-13 8000000000000",
    "ro-big 10-11 8000000000000; shared-big 10-11 8000000000000; far-big 10-11 8000000000000",
    "rw 10-14; t 11-12; fork; guard 12-13; rw 14-16; p-r 10-12; p-rw 10-12",
    // What arrives first joins what is still there of the old.
    "rw 2-5; t 4-5; rw 5-6; mv 2-3 6; mv 4-6 7; mv 6-8 2; rw 2-3",
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
    let (at, len) = (page_at(a), (b - a) * PAGE);
    let number = |i: usize| words[i].parse::<u64>().expect("a number");
    let mmap = |at, prot, flags: MapFlags, file, offset| {
        Op::call(libc::SYS_mmap, &[at, len, prot, (flags | MapFlags::FIXED).bits().into(), file, offset])
    };
    let map = |prot, flags: MapFlags| mmap(at, prot, flags | MapFlags::ANONYMOUS, fd::NONE, 0);
    let file = |prot, kind| {
        mmap(at, prot, kind, [fd::FILE, fd::AGAIN, fd::READ_ONLY, fd::OTHER][number(1) as usize], a * PAGE)
    };
    let big = |at, prot, flags: u32, file| {
        let page = u64::from_str_radix(words[2], 16).expect("hex");
        mmap(at, prot, MapFlags::from_bits_retain(flags), file, page.wrapping_mul(PAGE))
    };
    let protect = |prot| Op::call(libc::SYS_mprotect, &[at, len, prot]);
    let moved = |new_len, to: u64| Op::call(libc::SYS_mremap, &[at, len, new_len, 3, page_at(to)]);
    let policy = |mode| Op::call(libc::SYS_mbind, &[at, len, mode]);
    let advise = |advice: Advice| Op::call(libc::SYS_madvise, &[at, len, advice as u64]);
    match words[0] {
        "rw" => map(3, MapFlags::PRIVATE),
        "rwx" => map(7, MapFlags::PRIVATE),
        "r" => map(1, MapFlags::PRIVATE),
        "drop" => map(3, MapFlags::DROPPABLE),
        "file" => file(1, MapFlags::SHARED),
        "pfile" => file(3, MapFlags::PRIVATE),
        "big" => big(at, 1, 1, fd::FILE),
        "new-big" => big(at, 1, 1 | MapFlags::FIXED_NOREPLACE.bits(), fd::FILE),
        "type-big" => big(at, 1, 0, fd::FILE),
        "ro-big" => big(at, 3, 1, fd::READ_ONLY),
        "shared-big" => big(at, 1, 1 | MapFlags::ANONYMOUS.bits(), fd::NONE),
        "far-big" => big(0x7fff_ffff_f000, 1, 1, fd::FILE),
        "t" => Op::Write(at),
        "u" => Op::call(libc::SYS_munmap, &[at, len]),
        "p-rw" => protect(3),
        "p-r" => protect(1),
        "mv" => moved(len, number(2)),
        "size" => Op::call(libc::SYS_mremap, &[at, len, number(2) * PAGE]),
        "resize" => moved(number(2) * PAGE, number(3)),
        "seal" => Op::call(SYS_MSEAL, &[at, len]),
        // MPOL_LOCAL, MPOL_DEFAULT.
        "local" => policy(4),
        "default" => policy(0),
        "remove" => advise(Advice::Remove),
        "guard" => advise(Advice::GuardInstall),
        "uffd" => Op::Uffd { on: true, at, len },
        "unuffd" => Op::Uffd { on: false, at, len },
        "fork" => Op::Fork,
        other => panic!("no such call: {other}"),
    }
}
