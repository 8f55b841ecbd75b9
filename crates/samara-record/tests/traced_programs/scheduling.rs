//! Traced programs with many tasks that stop all the time: each task is served. And programs that
//! wait for their children by pidfds: once a pidfd reports a child's end, its parent sees the end
//! too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::concurrent_calls::churn;
use crate::programs::myself;
use crate::syscalls::*;

const PAGE: u64 = 4096;
/// Spinning tasks.
const CROWD: usize = 12;
/// Rounds of the quickest of them after which all are compared.
const ROUNDS: u64 = 40;
/// Rounds of the quickest while another one has none, which is left behind.
const FAR: u64 = 100_000;
/// Pairs of calls that are made at the same time.
const PAIRS: u64 = 100;

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    match name {
        "turns-calls" => turns(Crowd::Processes(calls)),
        "turns-faults" => turns(Crowd::Processes(faults)),
        "turns-threads" => turns(Crowd::Threads),
        "pidfds" => pidfds(),
        _ => return false,
    }
    true
}

enum Crowd {
    Processes(fn(&AtomicU64)),
    Threads,
}

/// Calls without end.
fn calls(rounds: &AtomicU64) {
    let at = anon(PAGE);
    loop {
        assert_eq!(mprotect(at, PAGE, R), 0);
        assert_eq!(mprotect(at, PAGE, RW), 0);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where the next fault of this process will be.
static FAULT: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_fault(_: i32) {
    mprotect(FAULT.load(Ordering::Relaxed), PAGE, RW);
}

/// Endless faults; a handler resolves each.
fn faults(rounds: &AtomicU64) {
    let at = anon(PAGE);
    FAULT.store(at, Ordering::Relaxed);
    on_signal(libc::SIGSEGV, on_fault);
    loop {
        assert_eq!(mprotect(at, PAGE, R), 0);
        touch(at, 1);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until this task has made some calls, and each task of a spinning crowd its rounds: none is
/// left behind for ever. Neither times nor shares are compared: a busy machine gives processors to
/// some tasks much later than to others. If a task gets no turn at all, the rounds of the quickest
/// end the wait.
fn turns(crowd: Crowd) {
    let rounds = shared_counters(CROWD);
    let most = || rounds.iter().map(|r| r.load(Ordering::Relaxed)).max().unwrap_or(0);
    let least = || rounds.iter().map(|r| r.load(Ordering::Relaxed)).min().unwrap_or(0);
    let mut children = Vec::new();
    for mine in rounds {
        match crowd {
            Crowd::Processes(work) => {
                let child = fork();
                if child == 0 {
                    work(mine);
                }
                children.push(child);
            }
            Crowd::Threads => drop(std::thread::spawn(|| calls(mine))),
        }
    }
    // From when the last one runs.
    while least() == 0 && most() < FAR {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start: Vec<u64> = rounds.iter().map(|r| r.load(Ordering::Relaxed)).collect();
    let since = || rounds.iter().zip(&start).map(|(r, s)| r.load(Ordering::Relaxed) - s);
    let mut starved = 0;
    for _ in 0..PAIRS {
        munmap(anon(PAGE), PAGE);
        if since().max().unwrap_or(0) > FAR {
            starved = 5;
            break;
        }
    }
    while starved == 0 && since().min().unwrap_or(0) < ROUNDS {
        if since().max().unwrap_or(0) > FAR {
            starved = 6;
        }
        std::thread::sleep(Duration::from_millis(1)); // between two looks
    }
    if starved != 0 {
        eprintln!("rounds: {:?}", since().collect::<Vec<_>>());
    }
    for child in children {
        kill(child, libc::SIGKILL);
        wait(child, 0);
    }
    exit(starved);
}

/// Children that end in many ways, each with the status that it must have.
fn pidfds() {
    let busy = || {
        for _ in 0..3 {
            std::thread::spawn(|| churn(u64::MAX, &false.into()));
        }
    };
    let micros = |n: u64| std::thread::sleep(Duration::from_micros(n));
    let ways: [(i32, &dyn Fn(u64)); 6] = [
        (7 << 8, &|_| exit(7)),
        (libc::SIGKILL, &|_| loop {
            std::thread::sleep(Duration::from_secs(1));
        }),
        // Ends while its threads make calls.
        (6 << 8, &|i| {
            busy();
            micros(i * 37 % 900);
            exit(6);
        }),
        // One of its threads loads another program.
        (0, &|_| {
            busy();
            let me = myself();
            std::thread::spawn(move || exec(&me, &[&me, c"--program", c"nothing"])).join().unwrap();
        }),
        // Its threads live on when its first one has ended, and one of them ends all.
        (5 << 8, &|_| {
            busy();
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                exit(5);
            });
            end_thread();
        }),
        // A signal kills it after its first thread has ended.
        (libc::SIGSEGV, &|_| {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                touch(8192, 1);
            });
            end_thread();
        }),
    ];
    let mut early = [0; 6];
    for i in 0..40 {
        for (way, (expected, body)) in ways.iter().enumerate() {
            let child = fork();
            if child == 0 {
                no_core();
                body(i);
            }
            let fd = call(libc::SYS_pidfd_open, [child as u64, 0, 0, 0, 0, 0]);
            assert!(fd >= 0, "pidfd_open: {fd}");
            if *expected == libc::SIGKILL {
                micros(i * 53 % 700);
                kill(child, libc::SIGKILL);
            }
            wait_readable(fd as i32);
            let status = wait_now(child);
            early[way] += u32::from(status.is_none());
            let status = status.unwrap_or_else(|| wait(child, 0));
            assert_eq!(status, *expected, "the status of way {way}");
            call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
    }
    assert_eq!(early, [0; 6], "children that have ended, but not for their parent");
    exit(0);
}
