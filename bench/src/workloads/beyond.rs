//! Workloads of real programs without published figures: huge pages among holes of their size,
//! guard pages, code that a JIT compiler changes, arenas that grow, reservations of sandboxes. Each
//! measures the cost of one more step beside n others.

use crate::workloads::Effort;
use crate::workloads::engine::{Engine, PAGE, What, alternating, timed};
use samara_mm::Prot;
use std::time::Duration;

/// Bytes of a huge page, on which the kernel aligns maps of this size.
const HUGE: u64 = 2 << 20;
/// Bytes of a thread's stack, and of the guard page below it.
const STACK: u64 = 256 << 10;
const GUARD: u64 = PAGE;
/// Bytes of a region of code.
const CODE: u64 = 16 * PAGE;
/// Maximum size of an arena.
const ARENA: u64 = 64 * PAGE;
/// Bytes that a sandbox reserves, and the part that it uses at first.
const RESERVED: u64 = 4 << 30;
const USED: u64 = 64 << 10;

/// Runs `step` `effort.count` times.
fn steps(effort: Effort, mut step: impl FnMut(&mut fastrand::Rng)) -> (Duration, usize) {
    let mut random = fastrand::Rng::with_seed(effort.seed);
    (timed(|| (0..effort.count).for_each(|_| step(&mut random))).1, effort.count)
}

/// A map of a huge page and its unmap, beside n holes that are as large. The search skips them: it
/// asks for room for two huge pages, in which an aligned one always fits.
pub fn huge_gaps(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    let all = engine.map(n as u64 * (PAGE + HUGE), Prot::empty(), What::Anonymous);
    for i in 0..n as u64 {
        engine.unmap(all + i * (PAGE + HUGE) + PAGE, HUGE);
    }
    steps(effort, |_| {
        let at = engine.map(HUGE, Prot::RW, What::Anonymous);
        engine.unmap(at, HUGE);
    })
}

/// A thread ends, and another one begins, beside n others: a stack with a guard page goes, and
/// another one comes.
pub fn guards(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    let begin = |engine: &mut dyn Engine| {
        let at = engine.map(GUARD + STACK, Prot::empty(), What::Anonymous);
        engine.protect(at + GUARD, STACK, Prot::RW);
        at
    };
    let mut stacks: Vec<u64> = (0..n).map(|_| begin(engine)).collect();
    steps(effort, |random| {
        let own = &mut stacks[random.usize(0..n)];
        engine.unmap(*own, GUARD + STACK);
        *own = begin(engine);
    })
}

/// A JIT compiler writes to a page of one of n regions of code, between which there are pages
/// without access: the page becomes writable, and executable again.
pub fn flips(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    let code = Prot::READ | Prot::EXEC;
    let all = engine.map(n as u64 * (CODE + GUARD), Prot::empty(), What::Anonymous);
    for i in 0..n as u64 {
        engine.protect(all + i * (CODE + GUARD), CODE, code);
    }
    steps(effort, |random| {
        let region = all + random.u64(0..n as u64) * (CODE + GUARD);
        let page = region + random.u64(0..CODE / PAGE) * PAGE;
        engine.protect(page, PAGE, Prot::RW);
        engine.protect(page, PAGE, code);
    })
}

/// One of n arenas grows to twice its size by mremap, which moves it where it has no room; one of
/// 256 KiB shrinks to a page. Neighbours differ in protection, so that they stay apart.
pub fn arenas(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    let mut random = fastrand::Rng::with_seed(!effort.seed);
    let mut new = |i| {
        let len = PAGE << random.u64(0..=(ARENA / PAGE).ilog2().into());
        (engine.map(len, alternating(i), What::Anonymous), len)
    };
    let mut arenas: Vec<(u64, u64)> = (0..n).map(&mut new).collect();
    steps(effort, |random| {
        let (at, len) = &mut arenas[random.usize(0..n)];
        let to = if *len == ARENA { PAGE } else { 2 * *len };
        *at = engine.remap(*at, *len, to);
        *len = to;
    })
}

/// A sandbox ends, and another one begins, beside n others: 4 GiB without access go; as many come,
/// and 64 KiB of them become writable, then as many again. The hole that a sandbox leaves is too
/// narrow for the next one, which is aligned, until two holes touch.
pub fn reservations(engine: &mut dyn Engine, n: usize, effort: Effort) -> (Duration, usize) {
    let begin = |engine: &mut dyn Engine| {
        let at = engine.map(RESERVED, Prot::empty(), What::Anonymous);
        engine.protect(at, USED, Prot::RW);
        engine.protect(at + USED, USED, Prot::RW);
        at
    };
    let mut all: Vec<u64> = (0..n).map(|_| begin(engine)).collect();
    steps(effort, |random| {
        let own = &mut all[random.usize(0..n)];
        engine.unmap(*own, RESERVED);
        *own = begin(engine);
    })
}
