//! Threads: an order is found for what they did, and none for what they did not.

use crate::draw::threads::Together;
use crate::threads::Verdict;
use crate::{Check, Mix, agree_threads};
use samara_probe::child::{Pause, Timed};
use samara_probe::op::{Op, PAGE, at, fd};

#[test]
fn every_history_has_an_order() {
    if super::sides(Mix::Threads).is_none() {
        return;
    }
    let (seed, ops) = (super::setting("SAMARA_MM_SEED", 1), super::setting("SAMARA_MM_OPS", 12_000));
    let report = Check { ops, seed, mixes: vec![Mix::Threads] }.run(|_| ()).expect("a process in which to make calls");
    for divergence in &report.divergences {
        println!("{divergence}");
    }
    assert!(report.divergences.is_empty(), "no order explains what threads did: above");
    let of = &report.mixes[0];
    assert_eq!((report.ops, report.compared), (ops, ops), "{of:?}");
    assert!(of.overlapped > 0, "calls met: {of:?}");
    println!("{} rounds, {} calls, {} overlapped, seed {seed}", of.sequences, of.ops, of.overlapped);
}

fn rw(page: u64, pages: u64) -> Op {
    Op::call(libc::SYS_mmap, &[at(page), pages * PAGE, 3, 0x32, fd::NONE])
}

fn unmap(page: u64, pages: u64) -> Op {
    Op::call(libc::SYS_munmap, &[at(page), pages * PAGE])
}

/// As if munmap of two pages and more were refused.
fn no_unmap(op: Op, answer: i64) -> i64 {
    match op {
        Op::Call(libc::SYS_munmap, [_, len, ..]) if len > PAGE => -12,
        _ => answer,
    }
}

#[test]
fn a_wrong_answer_is_found_and_printed() {
    if super::sides(Mix::Threads).is_none() {
        return;
    }
    let check = Check { ops: 5_000, seed: 1, mixes: vec![Mix::Threads] };
    let report = check.run_with(Some(no_unmap), &|| false, |_| ()).unwrap();
    assert!(report.divergences.len() == 5 && report.mixes[0].divergences > 5);
    assert!(report.compared < report.ops && report.ops == 5_000);
    let d = report.divergences.iter().find(|d| d.history.as_ref().is_some_and(|h| !h.threads.is_empty()));
    let (text, d) = (d.unwrap().to_string(), d.unwrap());
    let parts =
        ["/// threads, seed 1, sequence ", "/// thread 0, ", " = 0\n", "#[test]\nfn threads_1_", "agree_threads(\n"];
    for part in parts {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let unmaps = |op: &Op| matches!(op, Op::Call(libc::SYS_munmap, [_, len, ..]) if *len > PAGE);
    assert!(d.ops.iter().any(unmaps) && d.once && d.drawn.is_some_and(|drawn| drawn.0 == 1), "{text}");
}

/// What an order must explain: areas and flags at the end, and the times.
#[test]
fn what_no_order_explains_is_found() {
    let Some(mut sides) = super::sides(Mix::Threads) else { return };
    let timed = |op| Timed { pause: Pause::Spin(0), op };
    // The kernel makes a call that the model does not, and nothing of it shows in the answers: a
    // third page (areas), another advice (flags).
    let swap = |op: Op| match op {
        Op::Call(libc::SYS_mmap, [start, len, ..]) if len == 2 * PAGE => {
            Op::call(libc::SYS_mmap, &[start, len + PAGE, 3, 0x32, fd::NONE])
        }
        Op::Call(libc::SYS_madvise, [start, len, 16, ..]) => Op::call(libc::SYS_madvise, &[start, len, 17]),
        other => other,
    };
    let dump = |page| Op::call(libc::SYS_madvise, &[at(page), PAGE, 16]);
    for (first, op, differs) in [
        (vec![], rw(2, 1), false),
        (vec![], rw(2, 2), true),
        (vec![rw(2, 1)], dump(2), true),
        (vec![rw(2, 1)], Op::Read(at(2)), false),
    ] {
        let drawn = Together { first, threads: vec![vec![timed(op)], vec![timed(Op::Write(at(9)))]] };
        let round = sides.round_as(&drawn, swap).unwrap();
        assert_eq!(matches!(round.verdict, Verdict::Differ(_)), differs, "{op}: {:?}", round.verdict);
    }
}

/// What has more than one instant, where the second one meets what came between; and what has one.
#[test]
fn several_instants() {
    let lock = |flags| Op::call(libc::SYS_mlock2, &[at(0), 8 * PAGE, flags]);
    let nothing = Op::call(libc::SYS_mmap, &[at(4), PAGE, 0, 0x32, fd::NONE]);
    agree_threads(&[rw(0, 8)], &[&[lock(1)], &[nothing, Op::Write(at(4))]]);
    agree_threads(&[rw(0, 8)], &[&[lock(0)], &[nothing, Op::Write(at(4))]]);
    let populated = Op::call(libc::SYS_mmap, &[at(0), 8 * PAGE, 3, 0x8032, fd::NONE]);
    agree_threads(&[populated], &[&[unmap(0, 8)], &[Op::Read(at(7)), Op::Read(at(0))], &[rw(3, 1), Op::Write(at(3))]]);
    let mincore = Op::call(libc::SYS_mincore, &[at(0), 8 * PAGE, crate::ROOM]);
    agree_threads(&[rw(0, 7)], &[&[mincore, mincore], &[unmap(0, 1), rw(7, 1)]]);
}

#[test]
fn same_seed_same_rounds() {
    let drawn = |seed, sequence| {
        let mut rng = crate::rng::Rng::new(seed, "threads", sequence);
        crate::draw::threads::together(&mut rng, Mix::Threads.shapes()[0], 100)
    };
    assert_eq!(drawn(7, 3), drawn(7, 3));
    assert_ne!(drawn(7, 3), drawn(7, 4));
    assert_ne!(drawn(7, 3), drawn(8, 3));
    // No more than are wanted.
    for most in 0..30 {
        let mut rng = crate::rng::Rng::new(1, "threads", most as u64);
        assert!(crate::draw::threads::together(&mut rng, Mix::Threads.shapes()[0], most).len() <= most);
    }
}
