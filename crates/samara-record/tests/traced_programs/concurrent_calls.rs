//! Traced programs whose threads change one address space at the same time, and are interrupted
//! while they do.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use crate::programs::{myself, window};
use crate::syscalls::*;

const PAGE: u64 = 4096;

/// Maps, protects and unmaps as fast as it can, at addresses that the kernel chooses.
pub(crate) fn churn(rounds: u64, stop: &AtomicBool) {
    for i in 0..rounds {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let len = PAGE * (1 + i % 5);
        let at = anon(len);
        if i % 3 == 0 {
            touch(at, len);
        }
        if len > PAGE {
            assert_eq!(mprotect(at + PAGE, PAGE, R), 0);
            assert_eq!(mprotect(at + PAGE, PAGE, RW), 0);
        }
        assert_eq!(munmap(at, len), 0);
    }
}

pub(crate) fn threads() {
    let go = Arc::new(Barrier::new(4));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let go = go.clone();
            std::thread::spawn(move || {
                go.wait();
                churn(200, &AtomicBool::new(false));
            })
        })
        .collect();
    workers.into_iter().for_each(|w| w.join().unwrap());
}

pub(crate) fn exec_from_thread() {
    for _ in 0..3 {
        std::thread::spawn(|| churn(u64::MAX, &AtomicBool::new(false)));
    }
    let me = myself();
    std::thread::spawn(move || exec(&me, &[&me, c"--program", c"nothing"])).join().unwrap();
}

pub(crate) fn kill_busy() {
    for i in 0..30 {
        let child = fork();
        if child == 0 {
            let workers: Vec<_> =
                (0..3).map(|_| std::thread::spawn(|| churn(u64::MAX, &AtomicBool::new(false)))).collect();
            workers.into_iter().for_each(|w| w.join().unwrap());
        }
        std::thread::sleep(std::time::Duration::from_micros(i * 400));
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child, 0), libc::SIGKILL);
    }
    // Killed while it forks: its children go on.
    for i in 0..20 {
        let child = fork();
        if child == 0 {
            loop {
                let grandchild = fork();
                if grandchild == 0 {
                    anon(PAGE);
                    exit(0);
                }
                wait(grandchild, 0);
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(i * 300));
        kill(child, libc::SIGKILL);
        assert_eq!(wait(child, 0), libc::SIGKILL);
    }
}

pub(crate) fn exit_busy() {
    for _ in 0..10 {
        let child = fork();
        if child == 0 {
            for _ in 0..3 {
                std::thread::spawn(|| churn(u64::MAX, &AtomicBool::new(false)));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            std::process::exit(6);
        }
        assert_eq!(wait(child, 0), 6 << 8);
    }
}

pub(crate) fn fork_busy() {
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || churn(u64::MAX, &stop))
        })
        .collect();
    for _ in 0..20 {
        let child = fork();
        if child == 0 {
            call(libc::SYS_madvise, [window(1), PAGE, 0, 0, 0, 0]);
            exit(0);
        }
        assert_eq!(wait(child, 0), 0);
    }
    stop.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|w| w.join().unwrap());
}

/// Threads that move the break, and fill the heap while others take it away.
pub(crate) fn brk_busy() {
    let ask = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    let go = Arc::new(Barrier::new(7));
    let place = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let start = |seed: u64| {
        let (go, place) = (go.clone(), place.clone());
        std::thread::spawn(move || {
            go.wait();
            let place = place.load(Ordering::Relaxed);
            let mut s = seed as u32 * 7919;
            for _ in 0..200 {
                s = s.wrapping_mul(1_103_515_245).wrapping_add(12345);
                let at = place + PAGE * u64::from((s >> 16) % 64);
                if (s >> 8) % 3 < 2 {
                    ask(at + u64::from(s >> 24));
                } else {
                    call(libc::SYS_madvise, [at, 4 * PAGE, libc::MADV_POPULATE_WRITE as u64, 0, 0, 0]);
                }
            }
        })
    };
    let workers: Vec<_> = (0..6).map(start).collect();
    // Above what the allocator has.
    place.store(ask(0).next_multiple_of(PAGE) + 20 * PAGE, Ordering::Relaxed);
    ask(place.load(Ordering::Relaxed) + 64 * PAGE);
    go.wait();
    workers.into_iter().for_each(|w| w.join().unwrap());
    exit(0);
}

pub(crate) fn populate() {
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for kind in 0..3 {
        let stop = stop.clone();
        workers.push(std::thread::spawn(move || {
            for _ in 0..60 {
                let len = 64 * PAGE;
                let flags = if kind == 0 { ANON | libc::MAP_POPULATE } else { ANON };
                let at = mmap(0, len, RW, flags, -1, 0) as u64;
                if kind == 1 {
                    call(libc::SYS_mlock, [at + PAGE, 30 * PAGE, 0, 0, 0, 0]);
                }
                if kind == 2 {
                    call(libc::SYS_madvise, [at, len, libc::MADV_POPULATE_WRITE as u64, 0, 0, 0]);
                }
                assert_eq!(munmap(at, len), 0);
            }
            stop.store(true, Ordering::Relaxed);
        }));
    }
    workers.push(std::thread::spawn(move || churn(u64::MAX, &stop)));
    workers.into_iter().for_each(|w| w.join().unwrap());
}

/// Processes that end while their threads end by themselves, map, are killed, or live longer than
/// the first one.
pub(crate) fn ends(rounds: u64) {
    let quick = || drop(std::thread::spawn(|| munmap(anon(2 * PAGE), PAGE)));
    let busy = || drop(std::thread::spawn(|| churn(u64::MAX, &AtomicBool::new(false))));
    let micros = |n: u64| std::thread::sleep(std::time::Duration::from_micros(n));
    for round in 0..rounds {
        let delay = round * 97 % 700;
        for kind in 0..4 {
            let child = fork();
            if child == 0 {
                match kind {
                    0 => (0..6).for_each(|_| quick()),
                    1 => (0..3).for_each(|_| busy()),
                    2 => {
                        std::thread::spawn(move || {
                            micros(delay);
                            exit(6);
                        });
                        (0..3).for_each(|_| quick());
                        end_thread();
                    }
                    _ => {
                        (0..3).for_each(|_| busy());
                        micros(delay);
                        kill(pid(), libc::SIGKILL);
                    }
                }
                micros(if kind == 0 { delay / 4 } else { delay });
                exit(6);
            }
            assert_eq!(wait(child, 0), if kind == 3 { libc::SIGKILL } else { 6 << 8 });
        }
    }
}

static TICKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_tick(_: i32) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn signals() {
    on_signal(libc::SIGALRM, on_tick);
    interval_timer(200);
    churn(1000, &AtomicBool::new(false));
    while TICKS.load(Ordering::Relaxed) < 50 {
        std::hint::spin_loop();
    }
    interval_timer(0);
}
