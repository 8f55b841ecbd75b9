//! Memory in huge pages, and calls on whole ones and on parts of them.

use super::{MADV_FLAGS, MADV_REST, Shape, madvise, mbind, mmap, mprotect, mremap, munmap, prot};
use crate::rng::Rng;
use samara_mm::{Advice, MapFlags};
use samara_probe::op::{BASE, HUGE_PAGES, Limited, Op, PAGE, ROOM, SYS_MSEAL, at, fd, segment};

const HUGE: u64 = HUGE_PAGES * PAGE;
/// Sizes as the flags of mmap say them: the default, 2 MiB, and such as there are none of.
const SIZES: [u32; 8] = [0, 0, 0, 0, 21, 21, 22, 12];

/// A place: mostly where a huge page begins.
fn place(r: &mut Rng, shape: Shape) -> u64 {
    let within = match r.below(10) {
        0 => 1 + r.below(2),
        1 => HUGE_PAGES - 1,
        2 => r.below(HUGE_PAGES),
        _ => 0,
    };
    at(r.below(shape.pages / HUGE_PAGES) * HUGE_PAGES + within)
}

/// How much from there on: mostly whole huge pages.
fn length(r: &mut Rng, shape: Shape, from: u64) -> u64 {
    let whole = (1 + r.below(3)) * HUGE;
    let len = match r.below(10) {
        0 => whole + PAGE,
        1 => whole - PAGE,
        2 => (1 + r.below(3)) * PAGE,
        3 => whole - r.below(PAGE),
        _ => whole,
    };
    len.min(at(shape.pages) - from)
}

pub(super) fn huge(r: &mut Rng, shape: Shape, i: usize) -> Op {
    use Advice::*;
    if i == 0 && r.one_in(6) {
        let left = |r: &mut Rng| (!r.one_in(3)).then(|| r.below(8) * HUGE + r.pick(&[0, PAGE, HUGE / 2]));
        // Without privileges, no more than the process may have as it is can be locked.
        let (address_space, data, locked) = (left(r), left(r), Some(r.below(4) * HUGE));
        return Op::Limit(Limited { address_space, data, stack: None, locked, privileged: r.one_in(3) });
    }
    let from = place(r, shape);
    let len = length(r, shape, from);
    match r.below(100) {
        0..=29 => map(r, from, len),
        30..=35 => plain(r, shape, from, len),
        36..=43 => munmap(from, len),
        44..=53 => mprotect(from, len, prot(r, &[0, 1, 3, 3, 7])),
        54..=59 => madvise(from, len, r.pick(&MADV_FLAGS)),
        60..=65 => madvise(from, len, r.pick(&MADV_REST)),
        66 => madvise(from, len, r.pick(&[Remove, Unmergeable])),
        67..=79 => moved(r, shape, from, len),
        80 | 81 => mbind(from, len, r.one_in(2)),
        82..=84 if shape.uffd => Op::Uffd { on: !r.one_in(3), at: from, len: len.next_multiple_of(PAGE) },
        85 => Op::call(libc::SYS_msync, &[from, len, r.pick(&[1, 2, 4])]),
        86 => Op::call(libc::SYS_mincore, &[from, len, ROOM]),
        87 | 88 => {
            Op::call(libc::SYS_remap_file_pages, &[from, len, 0, r.pick(&[0, 0, HUGE_PAGES, 1, 2 * HUGE_PAGES])])
        }
        89 => Op::call(libc::SYS_pkey_mprotect, &[from, len, prot(r, &[0, 1, 3]), u64::MAX]),
        90 if shape.forks && r.one_in(3) => Op::Fork,
        91 if shape.seal && r.one_in(2) => Op::call(SYS_MSEAL, &[from, len]),
        // What is there is more than may be locked without privileges.
        92 if shape.lock_all && r.one_in(4) => Op::call(libc::SYS_mlockall, &[r.pick(&[2, 6, 0])]),
        93 if shape.segments => Op::call(libc::SYS_shmat, &[segment::FIVE, from & !(PAGE - 1), r.pick(&[0, 0x4000])]),
        94..=96 if shape.lock => {
            let nr = r.pick(&[libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock]);
            Op::call(nr, &[from, len, u64::from(r.one_in(3))])
        }
        97 => Op::call(libc::SYS_personality, &[r.pick(&[0x4_0000, 0x44_0000])]),
        _ => Op::Write(from & !(PAGE - 1)),
    }
}

/// A map of huge pages, which mostly asks for none; anonymous, or of a file.
fn map(r: &mut Rng, from: u64, len: u64) -> Op {
    let kind = r.pick(&[MapFlags::PRIVATE, MapFlags::PRIVATE, MapFlags::SHARED, MapFlags::SHARED_VALIDATE]);
    let mut flags = kind | MapFlags::FIXED | MapFlags::from_bits_retain(r.pick(&SIZES) << 26);
    let file = match r.below(8) {
        0 | 1 => fd::HUGE,
        2 => fd::HUGE_READ_ONLY,
        3 if r.one_in(6) => fd::FILE,
        _ => fd::NONE,
    };
    if file == fd::NONE {
        flags |= MapFlags::ANONYMOUS;
    }
    if file == fd::NONE || file == fd::FILE || r.one_in(3) {
        flags |= MapFlags::HUGETLB;
    }
    for (odds, flag) in [
        (30, MapFlags::GROWSDOWN),
        (30, MapFlags::STACK),
        (30, MapFlags::SYNC),
        (20, MapFlags::LOCKED),
        (20, MapFlags::POPULATE),
        (12, MapFlags::FIXED_NOREPLACE),
        (40, MapFlags::DROPPABLE),
    ] {
        if r.one_in(odds) {
            flags |= flag;
        }
    }
    flags.set(MapFlags::NORESERVE, !r.one_in(12));
    let offset = match r.below(16) {
        0 => r.pick(&[PAGE, 5, HUGE / 2, (1 << 63) - HUGE, (1 << 63) - 2 * HUGE, 1 << 63, u64::MAX - 4095]),
        1..=4 => r.below(4) * HUGE,
        _ => from.wrapping_sub(BASE),
    };
    let len = if r.one_in(40) { r.pick(&[0, u64::MAX, u64::MAX - HUGE, 1 << 56, 1 << 62]) } else { len };
    mmap(from + if r.one_in(60) { 1 } else { 0 }, len, prot(r, &[0, 1, 3, 3, 3, 7]), flags, file, offset)
}

/// Private anonymous memory among them, which asks for little.
fn plain(r: &mut Rng, shape: Shape, from: u64, len: u64) -> Op {
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    let flags = kind | r.pick(&[MapFlags::empty(), MapFlags::empty(), MapFlags::NORESERVE]);
    let locked = if shape.lock && r.one_in(10) { MapFlags::LOCKED } else { MapFlags::empty() };
    mmap(from, len, prot(r, &[0, 1, 3, 3]), flags | locked, fd::NONE, 0)
}

fn moved(r: &mut Rng, shape: Shape, old: u64, old_len: u64) -> Op {
    let to = place(r, shape);
    let new_len = if r.one_in(3) { length(r, shape, to) } else { old_len.min(at(shape.pages) - to) };
    let old_len = if r.one_in(12) { 0 } else { old_len };
    match r.below(10) {
        0..=2 => mremap(old, old_len, new_len.min(at(shape.pages) - old), None, false),
        // A new address that means nothing.
        3 => Op::call(libc::SYS_mremap, &[old, old_len, new_len.min(old_len), 0, r.pick(&[to, to + 5])]),
        4 => mremap(old, old_len, new_len, Some(to), true),
        5 => mremap(old, old_len, old_len.min(at(shape.pages) - to), Some(to), r.one_in(2)),
        _ => mremap(old, old_len, new_len, Some(to), false),
    }
}

/// Memory in huge pages where the kernel chooses.
pub(super) fn anywhere(r: &mut Rng, hint: u64, len: u64, extra: MapFlags) -> Op {
    let kind = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED]) | MapFlags::NORESERVE | extra;
    if r.one_in(3) {
        return mmap(hint, len, prot(r, &[0, 1, 3]), kind, fd::HUGE, r.pick(&[0, HUGE, 3 * HUGE, PAGE]));
    }
    let kind = kind | MapFlags::ANONYMOUS | MapFlags::HUGETLB;
    mmap(hint, len, prot(r, &[0, 1, 3]), kind, fd::NONE, r.pick(&[0, 0, HUGE]))
}
