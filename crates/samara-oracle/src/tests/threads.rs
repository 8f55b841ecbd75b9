//! Threads: an order is found for what they did, and none for what they did not.

use crate::op::{Op, PAGE, at, fd};
use crate::{Check, Mix, agree_threads};

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
    println!("{:?}", report.mixes);
    assert!(report.divergences.is_empty(), "no order explains what threads did: above");
    let of = &report.mixes[0];
    assert!(of.overlapped > 20, "calls met: {of:?}");
}

#[test]
fn experiment() {
    use crate::child::{Pause, Scope, Timed};
    use crate::proc::vm_flags;
    let Some(mut sides) = super::sides(Mix::Threads) else { return };
    let rw = |page, pages: u64, prot, more: u64| Op::call(libc::SYS_mmap, &[at(page), pages * PAGE, prot, 0x32 | more, fd::NONE]);
    let lock = |page, pages: u64, f| Op::call(libc::SYS_mlock2, &[at(page), pages * PAGE, f]);
    let unmap = |page, pages: u64| Op::call(libc::SYS_munmap, &[at(page), pages * PAGE]);
    let cases: Vec<(&str, Vec<Op>, Vec<Vec<Op>>)> = vec![
        ("onfault, hole in front", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 1)], vec![unmap(0, 1)]]),
        ("onfault, hole in middle", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 1)], vec![unmap(1, 1)]]),
        ("onfault, hole all", vec![rw(0, 64, 3, 0), rw(64, 1, 1, 0)], vec![vec![lock(0, 65, 1)], vec![unmap(0, 64)]]),
        ("now, hole in front", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 0)], vec![unmap(0, 1)]]),
        ("now, hole in middle", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 0)], vec![unmap(32, 1)]]),
        ("now, hole at end", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 0)], vec![unmap(63, 1)]]),
        ("now, none in middle", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 0)], vec![rw(32, 1, 0, 0)]]),
        ("onfault, none in middle", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 1)], vec![rw(32, 1, 0, 0)]]),
        ("onfault, mprotect none in middle", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 1)], vec![Op::call(libc::SYS_mprotect, &[at(32), PAGE, 0])]]),
        ("now, mprotect none in middle", vec![rw(0, 64, 3, 0)], vec![vec![lock(0, 64, 0)], vec![Op::call(libc::SYS_mprotect, &[at(32), PAGE, 0])]]),
        ("populate write, hole front", vec![rw(0, 64, 3, 0)], vec![vec![Op::call(libc::SYS_madvise, &[at(0), 64 * PAGE, 23])], vec![unmap(0, 1)]]),
        ("populate write, two changes", vec![rw(0, 64, 3, 0)], vec![vec![Op::call(libc::SYS_madvise, &[at(0), 64 * PAGE, 23])], vec![unmap(63, 1), rw(0, 1, 0, 0)]]),
        ("dontneed, two unmaps", vec![rw(0, 64, 3, 0x8000), rw(32, 1, 1, 0)], vec![vec![Op::call(libc::SYS_madvise, &[at(0), 64 * PAGE, 4])], vec![unmap(0, 1), rw(0, 1, 3, 0), unmap(63, 1)]]),
        ("dontneed, alternate hole", vec![rw(0, 32, 3, 0x8000), rw(33, 31, 3, 0x8000)], vec![vec![Op::call(libc::SYS_madvise, &[at(0), 64 * PAGE, 4])], vec![rw(32, 1, 3, 0), unmap(63, 1)]]),
        ("dontneed, hole never absent", vec![rw(0, 63, 3, 0x8000)], vec![vec![Op::call(libc::SYS_madvise, &[at(0), 64 * PAGE, 4])], vec![rw(63, 1, 3, 0), unmap(0, 1)]]),
    ];
    for (name, first, threads) in cases {
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for time in 0..super::setting("TIMES", 1500) {
            let spin = (time % 50) as u32 * 8;
            let threads: Vec<Vec<Timed>> = threads.iter().enumerate().map(|(t, ops)| ops.iter().enumerate().map(|(i, op)| {
                let pause = if i == 0 && (t == 0) == (time % 2 == 0) { Pause::Spin(spin) } else { Pause::Spin(0) };
                Timed { pause, op: *op } }).collect()).collect();
            let out = sides.kernel.run_together(&first, &threads, Scope::Window).unwrap();
            let (events, seen) = out.together(&threads);
            if crate::order::overlapped(&events) == 0 { continue }
            let flags = vm_flags(&out.smaps());
            let seen: Vec<String> = seen.map(|s| {
                let f = flags.iter().find(|f| f.0 == s.start).map(|f| f.1.letters().to_string());
                let l = f.is_some_and(|f| f.contains("lo"));
                format!("{}{}", crate::print::areas(&[s], &[]), if l { " lo" } else { "" }) }).collect();
            let answers: Vec<Vec<i64>> = events.iter().map(|t| t.iter().map(|e| if e.what.1 > 4095 { 1 } else { e.what.1 }).collect()).collect();
            *counts.entry(format!("{answers:?} {}", seen.join(", "))).or_default() += 1;
        }
        println!("== {name}");
        for (what, n) in counts { println!("   {n:5} {what}"); }
    }
}
