//! Page contents: the example `user_mode_kernel` moves its pages by the plans that the model
//! returns. It and a real process make the same random calls and writes, and then every byte is
//! compared. So it shows what a call discards, changes before it fails, moves, or passes to a
//! child.

use crate::child::{self, BASE, PAGE, PAGES, Raw, USUAL};
use crate::rng::Rng;
use crate::user_mode_kernel::{Kernel, Process};
use samara_mm::Advice;
use samara_mm::linux::{MADVISE, MMAP, MPROTECT, MREMAP, MUNMAP};

const EFAULT: i64 = -(libc::EFAULT as i64);

#[derive(Clone, Copy, Debug)]
enum Op {
    Call(u64, [u64; 6]),
    Write(u64, u8),
    Read(u64),
    Fork,
}

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

/// The op as the real process makes it. A byte is written by reading it from the file `bytes`,
/// where byte n is n, and read by writing it to the file `seen`, at the op's number: where that is
/// refused, the process would get a signal.
fn raw(op: Op, i: usize, bytes: u64, seen: u64) -> Raw {
    match op {
        Op::Call(nr, args) => Raw::Call(nr as i64, args),
        Op::Write(addr, byte) => Raw::Call(libc::SYS_pread64, [bytes, addr, 1, byte.into(), 0, 0]),
        Op::Read(addr) => Raw::Call(libc::SYS_pwrite64, [seen, addr, 1, i as u64, 0, 0]),
        Op::Fork => Raw::Fork,
    }
}

/// Where the example and the real process differ, if they do; else how many bytes were read that
/// are not zero.
fn compare(ops: &[Op]) -> Result<usize, String> {
    let (bytes, seen) = (child::memfd(256), child::memfd(ops.len() as u64));
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(child::call(libc::SYS_pwrite64, [bytes, all.as_ptr() as u64, 256, 0, 0, 0]), 256);
    let calls: Vec<Raw> = ops.iter().enumerate().map(|(i, op)| raw(*op, i, bytes, seen)).collect();
    let out = child::run(&calls, USUAL)?;
    let mut read = vec![0u8; ops.len()];
    let len = read.len() as u64;
    assert_eq!(child::call(libc::SYS_pread64, [seen, read.as_mut_ptr() as u64, len, 0, 0, 0]), len as i64);
    for fd in [bytes, seen] {
        child::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    }
    let (mut process, mut nonzero) = (Process::exec().expect("a process"), 0);
    for (i, (op, (kernel, _))) in ops.iter().zip(&out.frames).enumerate() {
        let byte = if let Op::Read(_) = op { read[i] } else { 0 };
        let (ours, held) = match *op {
            Op::Call(nr, args) => (process.syscall(&mut Kernel, nr, args), 0),
            Op::Write(addr, byte) => (process.write(addr, byte).map_or(EFAULT, |()| 1), 0),
            Op::Read(addr) => process.read(addr).map_or((EFAULT, 0), |byte| (1, byte)),
            Op::Fork => {
                process = process.fork().expect("a child");
                (0, 0)
            }
        };
        if (ours, held) != (*kernel, byte) {
            let ops: Vec<String> = ops[..=i].iter().map(|op| format!("{op:x?}")).collect();
            return Err(format!("{}\nkernel {kernel} {byte}, example {ours} {held}", ops.join("\n")));
        }
        nonzero += usize::from(byte != 0);
    }
    Ok(nonzero)
}

fn read_all() -> impl Iterator<Item = Op> {
    (0..PAGES).map(|page| Op::Read(at(page)))
}

fn map(first: u64, pages: u64) -> Op {
    Op::Call(MMAP, [at(first), pages * PAGE, 3, 0x32, u64::MAX, 0])
}

fn advise(first: u64, pages: u64, advice: Advice) -> Op {
    Op::Call(MADVISE, [at(first), pages * PAGE, advice as u64, 0, 0, 0])
}

#[test]
fn over_a_hole() {
    let write = |page: u64| Op::Write(at(page), 1 + page as u8);
    for advice in [Advice::DontNeed, Advice::DontNeedLocked] {
        let mut ops = vec![map(8, 4), map(14, 2)];
        ops.extend((8..12).chain(14..16).map(write));
        // A hole in the middle; and one at the end, where nothing else is.
        ops.extend([advise(9, 6, advice), advise(2, 4, advice)]);
        ops.extend(read_all());
        assert_eq!(compare(&ops), Ok(2), "8 and 15 have their bytes");
    }
}

#[test]
fn half_way() {
    let write = |page: u64| Op::Write(at(page), 1 + page as u8);
    let mut ops = vec![map(8, 12)];
    ops.extend((8..20).map(write));
    // A locked area makes the call fail: pages before it are discarded, pages after it are not.
    ops.push(Op::Call(samara_mm::linux::MLOCK, [at(12), PAGE, 0, 0, 0, 0]));
    ops.push(advise(9, 8, Advice::DontNeed));
    ops.extend(read_all());
    ops.push(advise(9, 8, Advice::DontNeedLocked));
    ops.extend(read_all());
    assert_eq!(compare(&ops), Ok(9 + 4));
}

#[test]
fn in_a_child() {
    let write = |page: u64| Op::Write(at(page), 1 + page as u8);
    let mut ops = vec![map(8, 8)];
    ops.extend((8..16).map(write));
    ops.extend([advise(9, 2, Advice::DontFork), advise(12, 2, Advice::WipeOnFork), Op::Fork]);
    ops.extend(read_all());
    assert_eq!(compare(&ops), Ok(4));
}

/// The pages at which random calls begin.
const FEW: u64 = 24;

fn random_op(r: &mut Rng) -> Op {
    // Few places, so that calls meet what others wrote.
    let page = r.below(FEW);
    let len = (1 + r.below(8)) * PAGE;
    let call = |nr, args| Op::Call(nr, args);
    match r.below(24) {
        0..=3 => call(MMAP, [at(page), len, r.pick(&[3, 3, 3, 1, 0]), 0x32, u64::MAX, 0]),
        4 => call(MUNMAP, [at(page), len, 0, 0, 0, 0]),
        5 => call(MPROTECT, [at(page), len, r.pick(&[0, 1, 3, 3]), 0, 0, 0]),
        6 | 7 => call(MREMAP, [at(page), len, len, 3, at(r.below(FEW)), 0]),
        8 => call(MREMAP, [at(page), len, (1 + r.below(8)) * PAGE, 3, at(r.below(FEW)), 0]),
        9 => call(MREMAP, [at(page), len, len, 7, at(r.below(FEW)), 0]),
        10..=12 => {
            use Advice::*;
            call(MADVISE, [at(page), len, r.pick(&[DontNeed, DontNeed, DontNeed, DontNeedLocked]) as u64, 0, 0, 0])
        }
        13 => {
            use Advice::*;
            call(MADVISE, [at(page), len, r.pick(&[DontFork, WipeOnFork, KeepOnFork, DoFork]) as u64, 0, 0, 0])
        }
        14 => call(r.pick(&[samara_mm::linux::MLOCK, samara_mm::linux::MUNLOCK]), [at(page), len, 0, 0, 0, 0]),
        15 if r.one_in(3) => Op::Fork,
        _ => Op::Write(at(page), 1 + r.below(255) as u8),
    }
}

#[test]
fn random() {
    let setting = |name: &str, usual| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(usual);
    let (seed, runs) = (setting("SAMARA_MM_SEED", 1), setting("SAMARA_MM_RUNS", 100));
    let mut read = 0;
    for run in 0..runs {
        let mut r = Rng(seed << 32 | run);
        let mut ops: Vec<Op> = (0..60).map(|_| random_op(&mut r)).collect();
        ops.extend(read_all());
        match compare(&ops) {
            Ok(nonzero) => read += nonzero,
            Err(why) => panic!("seed {seed}, run {run}: example and kernel differ\n{why}"),
        }
    }
    assert!(read as u64 >= runs, "only {read} bytes that were not zero");
}
