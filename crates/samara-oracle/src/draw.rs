//! How ops are drawn: each mix has its own odds. Knows which calls there are, not what they do.

mod huge;
mod rare;
pub(crate) mod threads;

use crate::model::Model;
use crate::rng::Rng;
use samara_mm::*;
use samara_probe::harness::task_size;
use samara_probe::op::{BASE, Limited, Op, PAGE, PAGES, SYS_MSEAL, at, fd, segment};

/// What the ops of a sequence may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// How many ops.
    pub(crate) len: usize,
    /// In how many pages: few, so that neighbours meet often.
    pub(crate) pages: u64,
    pub(crate) seal: bool,
    pub(crate) lock: bool,
    /// mlockall: its answer depends on what the process may lock.
    pub(crate) lock_all: bool,
    pub(crate) forks: bool,
    /// Wrong arguments now and then.
    pub(crate) odd: bool,
    /// mremap with DONTUNMAP.
    pub(crate) dontunmap: bool,
    /// System V segments.
    pub(crate) segments: bool,
    /// Pages that are merged of their own.
    pub(crate) merge_pages: bool,
    /// A heap.
    pub(crate) heap: bool,
    /// Memory in huge pages.
    pub(crate) huge: bool,
    /// Registrations among other calls: a userfaultfd is the first process's, and not for sequences
    /// with forks.
    pub(crate) uffd: bool,
    /// Makes areas first, until this many are left to the limit.
    pub(crate) fill: Option<u64>,
}

/// Around what the ops turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    General,
    Remap,
    Hot,
    Moves,
    Files,
    Locks,
    Uffd,
    Errors,
    Stacks,
    Limited,
    Calls,
    Heap,
    Huge,
    Free,
    Threads,
}

/// The next op of a sequence, the `i`th.
pub(crate) fn draw(r: &mut Rng, shape: Shape, model: &Model, i: usize) -> Op {
    if let (0, Some(left)) = (i, shape.fill) {
        return Op::Fill { left };
    }
    match shape.kind {
        Kind::General if r.one_in(24) => several(r, shape, model),
        Kind::General | Kind::Threads => general(r, shape),
        Kind::Remap if r.one_in(4) => several(r, shape, model),
        Kind::Remap if r.one_in(2) => remap(r, shape),
        Kind::Remap => general(r, shape),
        Kind::Hot => hot(r, shape),
        Kind::Moves => moves(r, shape, model),
        Kind::Files => files(r, shape),
        Kind::Locks if r.one_in(3) => lock(r, shape),
        Kind::Locks => general(r, shape),
        Kind::Uffd => uffd(r, shape),
        Kind::Errors => wrong(r, shape, model),
        Kind::Stacks => {
            // Where the areas that grow down start now.
            let grows = |a: &Placed<'_, FileId>| a.area.flags.contains(Flags::GROWSDOWN);
            let stacks = model.space.areas_in(at(0), at(PAGES)).filter(grows).map(|a| a.start);
            stack(r, shape, &stacks.collect::<Vec<_>>())
        }
        Kind::Limited => limited(r, shape, model, i),
        Kind::Calls if r.one_in(2) => rare::rare(r, shape, model),
        Kind::Calls => general(r, shape),
        Kind::Heap => rare::heap(r, shape, model),
        Kind::Huge => huge::huge(r, shape, i),
        Kind::Free => free(r, shape, model, i),
    }
}

fn mmap(at: u64, len: u64, prot: u64, flags: MapFlags, fd: u64, offset: u64) -> Op {
    Op::call(libc::SYS_mmap, &[at, len, prot, flags.bits().into(), fd, offset])
}

fn munmap(at: u64, len: u64) -> Op {
    Op::call(libc::SYS_munmap, &[at, len])
}

fn mprotect(at: u64, len: u64, prot: u64) -> Op {
    Op::call(libc::SYS_mprotect, &[at, len, prot])
}

fn madvise(at: u64, len: u64, advice: Advice) -> Op {
    Op::call(libc::SYS_madvise, &[at, len, advice as u64])
}

/// mbind to MPOL_LOCAL, or back to MPOL_DEFAULT.
fn mbind(at: u64, len: u64, local: bool) -> Op {
    Op::call(libc::SYS_mbind, &[at, len, if local { 4 } else { 0 }])
}

/// mremap in place, or to there.
fn mremap(old: u64, old_len: u64, new_len: u64, to: Option<u64>, dontunmap: bool) -> Op {
    let flags = if to.is_some() { 3 } else { 0 } | if dontunmap { 4 } else { 0 };
    Op::call(libc::SYS_mremap, &[old, old_len, new_len, flags, to.unwrap_or(0)])
}

const FILES: [u64; 12] = [
    fd::FILE,
    fd::FILE,
    fd::DUP,
    fd::AGAIN,
    fd::READ_ONLY,
    fd::OTHER,
    fd::OTHER,
    fd::SEALED,
    fd::ZERO,
    fd::ZERO,
    fd::ZERO,
    fd::ZERO_READ_ONLY,
];

const MADV_FLAGS: [Advice; 12] = [
    Advice::Normal,
    Advice::Random,
    Advice::Sequential,
    Advice::DontFork,
    Advice::DoFork,
    Advice::DontDump,
    Advice::DoDump,
    Advice::WipeOnFork,
    Advice::KeepOnFork,
    Advice::HugePage,
    Advice::NoHugePage,
    Advice::Mergeable,
];
const MADV_REST: [Advice; 8] = [
    Advice::DontNeed,
    Advice::DontNeedLocked,
    Advice::Free,
    Advice::Cold,
    Advice::PopulateRead,
    Advice::PopulateWrite,
    Advice::GuardInstall,
    Advice::GuardRemove,
];

fn general(r: &mut Rng, shape: Shape) -> Op {
    let (at, len) = range(r, shape);
    // Not all the rest of the address space: the process's own memory lies there.
    let near = len.min(if len > u64::MAX / 4 * 3 { len } else { 64 * PAGE });
    match r.below(100) {
        0..=27 => map(r, shape, at, len),
        28..=37 => munmap(at, len),
        38..=55 => {
            let prot =
                if shape.odd && r.one_in(40) { r.next() & 0xffff_ffff } else { prot(r, &[0, 1, 1, 3, 3, 3, 5, 7]) };
            mprotect(at, len, prot)
        }
        56..=68 => remap(r, shape),
        69..=75 => madvise(at, near, r.pick(&MADV_FLAGS)),
        76..=79 => madvise(at, near, r.pick(&MADV_REST)),
        80..=83 if shape.lock || shape.seal => lock(r, shape),
        84 | 85 => mbind(at, near, r.one_in(2)),
        86 if shape.forks && r.one_in(2) => Op::Fork,
        _ => Op::Write(at & !(PAGE - 1)),
    }
}

/// Locks for the most part, and seals.
fn lock(r: &mut Rng, shape: Shape) -> Op {
    let (at, len) = range(r, shape);
    match r.below(14) {
        0 | 1 if shape.seal => Op::call(SYS_MSEAL, &[at, len]),
        _ if !shape.lock => Op::Write(at & !(PAGE - 1)),
        2 if shape.lock_all => Op::call(libc::SYS_mlockall, &[r.below(8)]),
        3 => Op::call(libc::SYS_munlockall, &[]),
        4..=6 => Op::call(libc::SYS_munlock, &[at, len]),
        7 => Op::call(libc::SYS_mlock, &[at, len]),
        _ => Op::call(libc::SYS_mlock2, &[at, len, u64::from(r.one_in(3))]),
    }
}

fn range(r: &mut Rng, shape: Shape) -> (u64, u64) {
    if shape.odd && r.one_in(60) {
        let at = r.pick(&[BASE + 1, BASE + 0x800, u64::MAX - 4095, 0x7fff_ffff_f000, BASE, BASE + PAGE]);
        return (at, r.pick(&[0, 1, 4095, 4097, u64::MAX, u64::MAX - 4095, 1 << 63]));
    }
    let page = r.below(shape.pages);
    let longest = if r.one_in(3) { 14 } else { 4 };
    let len = (1 + r.below(longest)).min(shape.pages - page);
    (at(page), len * PAGE - if r.one_in(16) { r.below(PAGE) } else { 0 })
}

/// A usual protection; now and then any: what may be written or executed but not read, too.
fn prot(r: &mut Rng, usual: &[u64]) -> u64 {
    if r.one_in(16) { r.below(8) } else { r.pick(usual) }
}

fn map(r: &mut Rng, shape: Shape, at: u64, len: u64) -> Op {
    let prot = prot(r, &[0, 1, 3, 3, 3, 3, 7]);
    let (mut flags, mut file, mut offset) = (MapFlags::PRIVATE | MapFlags::ANONYMOUS, fd::NONE, 0);
    match r.below(12) {
        0 => flags = MapFlags::SHARED | MapFlags::ANONYMOUS,
        1..=3 => {
            file = r.pick(&FILES);
            flags = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED, MapFlags::SHARED_VALIDATE]);
            // Mostly the same place in file and window, so that neighbours fit.
            offset = if r.one_in(4) { r.below(8) * PAGE } else { at.wrapping_sub(BASE) & !(PAGE - 1) };
        }
        4 if r.one_in(3) => flags = MapFlags::DROPPABLE | MapFlags::ANONYMOUS,
        _ => {}
    }
    for (odds, flag) in [
        (9, MapFlags::NORESERVE),
        (24, MapFlags::GROWSDOWN),
        (24, MapFlags::STACK),
        (if shape.lock { 40 } else { u64::MAX }, MapFlags::LOCKED),
        (24, MapFlags::POPULATE),
        (12, MapFlags::FIXED_NOREPLACE),
    ] {
        if r.one_in(odds) {
            flags |= flag;
        }
    }
    // Now and then a bit that means nothing here (32BIT and hidden ones among them), but SYNC,
    // ANONYMOUS and HUGETLB.
    let odd = if r.one_in(20) { 1 << r.pick(&[4, 6, 7, 9, 10, 11, 12, 16, 21, 22, 25, 26, 27]) } else { 0 };
    mmap(at, len, prot, flags | MapFlags::FIXED | MapFlags::from_bits_retain(odd), file, offset)
}

fn remap(r: &mut Rng, shape: Shape) -> Op {
    let (old, len) = range(r, shape);
    let odd = shape.odd && r.one_in(4);
    let (to, other) = range(r, Shape { odd, ..shape });
    match r.below(8) {
        0 | 1 => mremap(old, len, other, None, false),
        2..=5 => mremap(old, len, len, Some(to), shape.dontunmap && r.one_in(4)),
        6 => mremap(old, 0, other, Some(to), false),
        _ => mremap(old, len, other, Some(to), shape.dontunmap && r.one_in(8)),
    }
}

/// Moves several areas at once, so that one of them comes to touch another area, which the next one
/// may overwrite: the target begins where one of the areas ends at, or shortly behind, the start of
/// an area that is alike. By chance where there are not two areas.
fn several(r: &mut Rng, shape: Shape, model: &Model) -> Op {
    let areas: Vec<_> = model.space.areas_in(at(0), at(shape.pages)).collect();
    if areas.len() < 2 {
        return remap(r, shape);
    }
    let first = r.below(areas.len() as u64 - 1) as usize;
    let count = 2 + r.below(3).min(areas.len() as u64 - 2 - first as u64) as usize;
    let sources = &areas[first..first + count];
    let old = sources[0].start + r.below((sources[0].end - sources[0].start) / PAGE) * PAGE;
    let last = sources[count - 1];
    let len = last.start + (1 + r.below((last.end - last.start) / PAGE)) * PAGE - old;
    // What is to touch another area, and whether that lies above or below it.
    let (which, above) = (r.below(count as u64) as usize, !r.one_in(4));
    let touching = sources[which];
    let alike = |a: &&Placed<'_, FileId>| a.area.flags == touching.area.flags && a.area.object == touching.area.object;
    let apart: Vec<_> = areas.iter().filter(|a| a.end <= old || a.start >= old + len).collect();
    let alike: Vec<_> = apart.iter().copied().filter(alike).collect();
    let Some(neighbour) = (!apart.is_empty()).then(|| if alike.is_empty() { r.pick(&apart) } else { r.pick(&alike) })
    else {
        return moved(r, shape, old, len, len);
    };
    let (edge, of) = if above { (neighbour.start, touching.end) } else { (neighbour.end, touching.start.max(old)) };
    let into = if r.one_in(4) { r.below(2) * PAGE } else { 0 };
    let to = (edge + into).wrapping_sub(of.min(old + len) - old);
    if to < at(0) || to.saturating_add(len) > at(PAGES) {
        return moved(r, shape, old, len, len);
    }
    mremap(old, len, len, Some(to), shape.dontunmap && r.one_in(8))
}

fn moved(r: &mut Rng, shape: Shape, old: u64, old_len: u64, new_len: u64) -> Op {
    let (to, _) = range(r, shape);
    mremap(old, old_len, new_len, Some(to), shape.dontunmap && r.one_in(4))
}

/// Anonymous memory, alike but for protection, so that identities alone keep areas apart.
fn hot(r: &mut Rng, shape: Shape) -> Op {
    let (at, len) = range(r, shape);
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED | MapFlags::NORESERVE;
    match r.below(20) {
        0..=4 => mmap(at, len, prot(r, &[0, 1, 3, 3, 3]), kind, fd::NONE, 0),
        5 => munmap(at, len),
        6..=9 => mprotect(at, len, prot(r, &[0, 1, 3, 3, 3])),
        10..=13 => moved(r, shape, at, len, len),
        14 => mremap(at, len, range(r, shape).1, None, false),
        15 if shape.forks && r.one_in(3) => Op::Fork,
        15 => {
            use Advice::*;
            madvise(at, len, r.pick(&[WipeOnFork, KeepOnFork, DontFork, DoFork]))
        }
        _ => Op::Write(at & !(PAGE - 1)),
    }
}

/// Anonymous memory, most of it alike, that is written to and moves, several areas at once: what a
/// move joined is overwritten by the next one of the same call.
fn moves(r: &mut Rng, shape: Shape, model: &Model) -> Op {
    let (at, len) = range(r, shape);
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    match r.below(20) {
        0..=4 => mmap(at, len, prot(r, &[0, 3, 3, 3, 3]), kind, fd::NONE, 0),
        5 => mprotect(at, len, prot(r, &[0, 3, 3, 3])),
        6..=9 => several(r, shape, model),
        10..=12 => moved(r, shape, at, len, len),
        13 if shape.forks && r.one_in(3) => Op::Fork,
        _ => Op::Write(at & !(PAGE - 1)),
    }
}

/// Maps of files, at the same place in file and window for the most part.
fn files(r: &mut Rng, shape: Shape) -> Op {
    use Advice::*;
    let advice = [WipeOnFork, DontFork, DoFork, Remove, Remove, Mergeable, Unmergeable, PopulateWrite, PopulateRead];
    let (at, len) = range(r, shape);
    match r.below(20) {
        0..=6 => {
            let kind = r.pick(&[MapFlags::SHARED, MapFlags::PRIVATE, MapFlags::PRIVATE, MapFlags::PRIVATE]);
            let flags = MapFlags::FIXED | kind | if r.one_in(4) { MapFlags::NORESERVE } else { MapFlags::empty() };
            let offset = if r.one_in(6) { r.below(8) * PAGE } else { at - BASE };
            mmap(at, len, prot(r, &[0, 1, 3, 3, 3, 5]), flags, r.pick(&FILES), offset)
        }
        7 => munmap(at, len),
        8..=11 => mprotect(at, len, prot(r, &[0, 1, 3, 3, 3, 5])),
        12 => mremap(at, len, range(r, shape).1, None, false),
        13..=15 => {
            let new_len = if r.one_in(4) { range(r, shape).1 } else { len };
            let old_len = if r.one_in(6) { 0 } else { len };
            moved(r, shape, at, old_len, new_len)
        }
        16 if shape.forks && r.one_in(3) => Op::Fork,
        16 => madvise(at, len, r.pick(&advice)),
        17 => mbind(at, len, r.one_in(2)),
        _ => Op::Write(at & !(PAGE - 1)),
    }
}

/// The general mix with registrations.
fn uffd(r: &mut Rng, shape: Shape) -> Op {
    let (at, len) = range(r, shape);
    match r.below(10) {
        0..=3 => Op::Uffd { on: r.one_in(2), at, len: if r.one_in(20) { len } else { len.next_multiple_of(PAGE) } },
        _ => general(r, shape),
    }
}

/// Every other call has arguments that are wrong, one or more of them.
fn wrong(r: &mut Rng, shape: Shape, model: &Model) -> Op {
    let op = if r.one_in(8) { rare::rare(r, shape, model) } else { general(r, shape) };
    let Op::Call(nr, mut args) = op else { return op };
    // What does not take a start and a length has its own wrong arguments.
    if r.one_in(2) || matches!(nr, libc::SYS_shmat | libc::SYS_shmdt | libc::SYS_prctl | libc::SYS_personality) {
        return op;
    }
    for _ in 0..1 + r.below(2) {
        match r.below(6) {
            // Not on a page, or outside user space.
            0 => {
                args[0] = r.pick(&[
                    args[0].wrapping_add(1),
                    args[0].wrapping_add(0x800),
                    u64::MAX - 4095,
                    0x7fff_ffff_f000,
                    1 << 63,
                ])
            }
            1 => args[1] = r.pick(&ABSURD),
            2 if nr == libc::SYS_mmap => {
                args[5] = r.pick(&[1, 0x800, 1 << 63, u64::MAX - 4095, i64::MAX as u64 & !4095])
            }
            2 if nr == libc::SYS_mremap => args[2] = r.pick(&ABSURD),
            3 if nr == libc::SYS_mmap => args[4] = r.pick(&[99, fd::NONE, 1 << 31, fd::WRITE_ONLY, fd::PIPE, fd::FILE]),
            3 if nr == libc::SYS_mremap => {
                args[4] = r.pick(&[args[4].wrapping_add(1), u64::MAX - 4095, 0x7fff_ffff_f000])
            }
            // Unknown bits. The flags of mmap: a type that there is not (its other bits all mean
            // something somewhere).
            4 if nr == libc::SYS_mmap => args[3] = args[3] & !15 | r.pick(&[0, 4, 5, 6, 7, 9, 12, 15]),
            2 if nr == libc::SYS_mincore => args[2] = r.pick(&[0, u64::MAX, 1 << 63, task_size()]),
            2 if nr == libc::SYS_remap_file_pages => args[3] = r.pick(&[u64::MAX, 1 << 51, (1 << 51) - 1, 1 << 52]),
            4 if nr == libc::SYS_msync || nr == libc::SYS_remap_file_pages => args[2] ^= 1 << r.below(40),
            4 if nr == libc::SYS_pkey_mprotect => args[3] = r.pick(&[5, 1 << 31, 1 << 32, 0xffff_ffff]),
            4 if nr == libc::SYS_mremap => args[3] ^= 1 << r.below(6),
            4 if nr == libc::SYS_mprotect => args[2] |= 1 << r.pick(&[3, 4, 5, 23, 24, 25, 31]),
            4 if nr == libc::SYS_madvise => args[2] = r.pick(&[5, 6, 7, 26, 27, 99, 104, 1 << 31]),
            4 if nr == libc::SYS_mlock2 || nr == SYS_MSEAL => args[2] ^= 1 << r.below(40),
            4 if nr == libc::SYS_mlockall => args[0] ^= 1 << r.below(40),
            _ => {}
        }
    }
    // What is neither refused for its length nor ends in the window would take the process's own
    // memory.
    let goes_on = nr == libc::SYS_madvise || nr == libc::SYS_mbind;
    let refused = if goes_on { u64::MAX / 4 * 3 } else { model.space.config().task_size - BASE };
    let far = |len: u64| (PAGES * PAGE..refused).contains(&len);
    let lengths = if nr == libc::SYS_mremap { &args[1..3] } else { &args[1..2] };
    if lengths.iter().any(|len| far(*len)) { op } else { Op::Call(nr, args) }
}

const ABSURD: [u64; 12] = [
    0,
    1,
    4095,
    4097,
    u64::MAX,
    u64::MAX - 4094,
    u64::MAX - 4095,
    1 << 63,
    (1 << 63) - 4096,
    1 << 47,
    0x7fff_ffff_f000,
    0x8000_0000_1000,
];

/// The general mix under limits, which change now and then; capabilities are dropped at first, or
/// later.
fn limited(r: &mut Rng, shape: Shape, model: &Model, i: usize) -> Op {
    let left = |r: &mut Rng, most: u64| (!r.one_in(3)).then(|| r.below(most) * PAGE + r.pick(&[0, 0, 0, 0x800]));
    if i == 0 || r.one_in(25) {
        let (address_space, data) = (left(r, 40), left(r, 24));
        let (stack, locked) = (left(r, 12), left(r, 20).map(|bytes| if r.one_in(6) { 0 } else { bytes }));
        return Op::Limit(Limited { address_space, data, stack, locked, privileged: r.one_in(3) });
    }
    match r.below(10) {
        8 if shape.heap => rare::heap(r, shape, model),
        9 => rare::rare(r, shape, model),
        0 => lock(r, shape),
        1 => stack(r, shape, &[]),
        2 if shape.lock && r.one_in(3) => Op::call(libc::SYS_mlockall, &[r.pick(&[2, 6, 0, 4])]),
        // More than there is, in all. (Locked, it would be brought in.)
        3 if !shape.lock && r.one_in(2) => {
            let (at, _) = range(r, shape);
            let kind = MapFlags::ANONYMOUS | MapFlags::FIXED | r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED]);
            let more = r.pick(&[MapFlags::empty(), MapFlags::empty(), MapFlags::NORESERVE]);
            mmap(at, 1 << r.pick(&[33, 38, 40]), prot(r, &[0, 1, 3]), kind | more, fd::NONE, 0)
        }
        _ => general(r, shape),
    }
}

/// Areas that grow down, writes below them, and what lies in their way.
fn stack(r: &mut Rng, shape: Shape, stacks: &[u64]) -> Op {
    let page = r.below(shape.pages);
    let len = (1 + r.below(6)).min(shape.pages - page) * PAGE;
    let near = |r: &mut Rng, up: u64| {
        let far = if r.one_in(3) { 300 } else { 4 };
        let start = if stacks.is_empty() { at(page) } else { r.pick(stacks) };
        (start + up * PAGE).saturating_sub(r.below(far) * PAGE).max(at(0))
    };
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    let grow = kind | MapFlags::GROWSDOWN;
    match r.below(20) {
        0..=3 => mmap(at(page), len, prot(r, &[3, 3, 3, 1, 0, 7]), grow, fd::NONE, 0),
        // Neighbours, in and around the gap.
        4 | 5 => {
            // The gap is 256 pages.
            let to = near(r, 0).saturating_sub(r.pick(&[1, 2, 254, 255, 256, 257, 258]) * PAGE).max(at(0));
            mmap(to, PAGE, prot(r, &[0, 1, 3]), kind, fd::NONE, 0)
        }
        6 => mmap(
            at(page),
            len,
            3,
            kind | r.pick(&[MapFlags::NORESERVE, MapFlags::STACK, MapFlags::POPULATE]),
            fd::NONE,
            0,
        ),
        7 => munmap(near(r, 1), len),
        // With PROT_GROWSDOWN now and then.
        8..=10 => {
            let down = if r.one_in(3) { 0x0100_0000 } else { 0 };
            mprotect(near(r, 2), len, prot(r, &[0, 1, 3, 3]) | down)
        }
        11 | 12 => mremap(near(r, 1), len, len, Some(at(r.below(shape.pages - 16))), r.one_in(6)),
        13 => mremap(near(r, 0), len, r.below(8) * PAGE, None, false),
        14 if shape.forks && r.one_in(3) => Op::Fork,
        14 if shape.lock => Op::call(libc::SYS_mlock2, &[near(r, 1), len, u64::from(r.one_in(2))]),
        _ => Op::Write(near(r, 1)),
    }
}

const HUGE: u64 = 2 << 20;

/// Maps whose place the kernel chooses. NORESERVE, so that nothing joins what the process has.
fn free(r: &mut Rng, shape: Shape, model: &Model, i: usize) -> Op {
    let any = |r: &mut Rng| (i > 0).then(|| r.below(i as u64) as u16);
    let own = model.results();
    // An earlier map, as its number.
    let earlier = |r: &mut Rng| any(r).filter(|of| own.get(usize::from(*of)).is_some_and(|at| *at > 0));
    match r.below(10) {
        0..=2 => {
            if let Some(of) = earlier(r) {
                let most = if r.one_in(3) { 600 } else { 20 };
                return munmap(Op::result(of, r.below(4) as i32 * PAGE as i32), (1 + r.below(most)) * PAGE);
            }
        }
        3 => {
            if let Some(of) = earlier(r) {
                return mprotect(Op::result(of, r.below(8) as i32 * PAGE as i32), (1 + r.below(8)) * PAGE, r.below(4));
            }
        }
        _ => {}
    }
    if let Some(of) = earlier(r).filter(|_| r.one_in(6)) {
        return away(r, of);
    }
    if shape.segments && r.one_in(16) {
        let which = r.pick(&[segment::FIVE, segment::ONE]);
        return match earlier(r).filter(|_| r.one_in(2)) {
            Some(of) => Op::call(libc::SYS_shmdt, &[Op::result(of, 0)]),
            None => Op::call(libc::SYS_shmat, &[which, 0, r.pick(&[0, 0, 0x1000, 0x8000])]),
        };
    }
    let len = match r.below(8) {
        0 => HUGE * (1 + r.below(4)),
        1 => HUGE * (1 + r.below(4)) + PAGE * r.below(300),
        2 => PAGE * r.below(2_000) + r.below(PAGE) + 1,
        3 if r.one_in(8) => r.pick(&[1 << 46, 1 << 47, u64::MAX, 0, 0x7fff_ffff_f000]),
        _ => PAGE * (1 + r.below(20)),
    };
    let near = |r: &mut Rng| match any(r) {
        Some(of) => Op::result(of, r.below(2 * HUGE) as i32 - HUGE as i32),
        None => 0x7000_0000_0000,
    };
    let hint = match r.below(6) {
        0 => near(r),
        1 => r.below(1 << 48),
        2 => r.below(1 << 17),
        _ => 0,
    };
    let (extra, hint) = match r.below(8) {
        0 => (MapFlags::GROWSDOWN, hint),
        1 => (MapFlags::BIT32, hint),
        2 => (MapFlags::ABOVE4G, hint),
        3 => {
            let pages = r.below(2 * HUGE / PAGE) as i32 - (HUGE / PAGE) as i32;
            (MapFlags::FIXED_NOREPLACE, any(r).map_or(0x7000_0000_0000, |of| Op::result(of, pages * PAGE as i32)))
        }
        _ => (MapFlags::empty(), hint),
    };
    if shape.huge && r.one_in(5) {
        return huge::anywhere(r, hint, len, extra);
    }
    if r.one_in(6) {
        let kind = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED]) | MapFlags::NORESERVE | extra;
        return mmap(hint, len, prot(r, &[0, 1, 3]), kind, r.pick(&FILES), r.pick(&[0, PAGE, HUGE, 3 * PAGE + HUGE]));
    }
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::NORESERVE | extra;
    mmap(hint, len, prot(r, &[0, 0, 0, 1, 3]), kind, fd::NONE, 0)
}

/// mremap of an earlier map, to a place that the kernel chooses.
fn away(r: &mut Rng, of: u16) -> Op {
    let old = Op::result(of, r.below(4) as i32 * PAGE as i32);
    let old_len = if r.one_in(8) { 0 } else { (1 + r.below(8)) * PAGE };
    let new_len = if r.one_in(4) { HUGE * (1 + r.below(2)) } else { (1 + r.below(40)) * PAGE };
    // With DONTUNMAP, and a wish.
    if r.one_in(4) {
        let wish = r.pick(&[0, Op::result(of, HUGE as i32), 0x7000_0000_0000]);
        return Op::call(libc::SYS_mremap, &[old, old_len, old_len, 5, wish]);
    }
    Op::call(libc::SYS_mremap, &[old, old_len, new_len, u64::from(!r.one_in(6))])
}
