//! What threads do at the same time: calls on few pages, and faults there. Knows no order.
//!
//! Left out: what no model of areas can answer whatever the order (memory whose pages may be
//! missing: shared anonymous memory that grows, guard pages), and calls on the whole address space.

use super::{FILES, MADV_FLAGS, Shape, madvise, mbind, mmap, mprotect, mremap, munmap, prot, range};
use crate::rng::Rng;
use samara_mm::{Advice, MapFlags};
use samara_probe::child::{Pause, THREADS, Timed};
use samara_probe::op::{BASE, Op, PAGE, ROOM, SYS_MSEAL, fd};

/// What is done first, one after the other, and what each thread does then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    pub(crate) first: Vec<Op>,
    pub(crate) threads: Vec<Vec<Timed>>,
}

impl Together {
    /// Whether locks bring pages in; if not, all locks are on fault.
    pub(crate) fn locks_now(&self) -> bool {
        let now = |op: &Op| match *op {
            Op::Call(libc::SYS_mlock, _) => true,
            Op::Call(libc::SYS_mlock2, [_, _, flags, ..]) => flags == 0,
            _ => false,
        };
        self.first.iter().chain(self.threads.iter().flatten().map(|timed| &timed.op)).any(now)
    }

    /// How many ops there are.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.threads.iter().map(Vec::len).sum::<usize>()
    }
}

/// A round of at most `most` ops.
pub(crate) fn together(r: &mut Rng, shape: Shape, most: usize) -> Together {
    // On fault in half of the rounds.
    let shape = Shape { pages: 3 + r.below(shape.pages), lock: r.one_in(2), ..shape };
    let first = (0..(1 + r.below(6)).min(most as u64)).map(|_| one(r, shape)).collect();
    let mut drawn = Together { first, threads: Vec::new() };
    for _ in 0..2 + r.below(THREADS as u64 - 1) {
        let len = (2 + r.below(4)).min((most - drawn.len()) as u64);
        drawn.threads.push((0..len).map(|nth| timed(r, nth, |r| one(r, shape))).collect());
    }
    drawn
}

/// The `nth` op of a thread, after a pause.
pub(crate) fn timed(r: &mut Rng, nth: u64, op: impl FnOnce(&mut Rng) -> Op) -> Timed {
    let pause = match r.below(8) {
        0 => Pause::Yield,
        1 => Pause::Spin(r.below(300) as u32),
        // As if two or three threads had made as many.
        2..=5 => Pause::Until(nth * (4 + r.below(3))),
        _ => Pause::Spin(0),
    };
    Timed { pause, op: op(r) }
}

fn one(r: &mut Rng, shape: Shape) -> Op {
    let (at, len) = range(r, shape);
    match r.below(40) {
        0..=9 => map(r, at, len),
        10..=14 => munmap(at, len),
        15..=20 => mprotect(at, len, prot(r, &[0, 1, 3, 3, 3, 5])),
        21 | 22 => madvise(at, len, r.pick(&MADV_FLAGS)),
        23 => madvise(at, len, r.pick(&[Advice::DontNeed, Advice::Free, Advice::Cold])),
        // Locked with all its pages, what an area grows by would be brought in.
        24 if !shape.lock => mremap(at, len, range(r, shape).1, None, false),
        25 | 26 => mremap(at, len, len, Some(range(r, shape).0 & !(PAGE - 1)), shape.dontunmap && r.one_in(4)),
        27 | 28 => Op::call(libc::SYS_mlock2, &[at, len, u64::from(!shape.lock)]),
        24 => Op::call(libc::SYS_munlock, &[at, len]),
        29 => mbind(at, len, r.one_in(2)),
        30 if shape.seal && r.one_in(6) => Op::call(SYS_MSEAL, &[at, len]),
        31 => madvise(at, len, r.pick(&[Advice::PopulateRead, Advice::PopulateWrite])),
        32 => Op::call(libc::SYS_mincore, &[at, len, ROOM]),
        33..=35 => Op::Read(at),
        _ => Op::Write(at),
    }
}

fn map(r: &mut Rng, at: u64, len: u64) -> Op {
    let fixed = if r.one_in(6) { MapFlags::FIXED_NOREPLACE } else { MapFlags::FIXED };
    let prot = prot(r, &[0, 1, 3, 3, 3, 5]);
    let more = r.pick(&[MapFlags::empty(), MapFlags::empty(), MapFlags::POPULATE, MapFlags::NORESERVE]);
    if !r.one_in(3) {
        return mmap(at, len, prot, fixed | more | MapFlags::PRIVATE | MapFlags::ANONYMOUS, fd::NONE, 0);
    }
    let kind = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED]);
    // Without /dev/zero.
    mmap(at, len, prot, fixed | more | kind, r.pick(&FILES[..8]), at.wrapping_sub(BASE) & !(PAGE - 1))
}
