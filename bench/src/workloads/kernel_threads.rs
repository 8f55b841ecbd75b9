//! The running kernel under threads of this process. A process that runs it runs nothing else.
//!
//! - **KERNEL-THREADS-1** The C library may keep the heap's end where the break is. So nothing is
//!   allocated or freed from the first move of the break to the last: all threads wait for one
//!   another before and after. The break stays above where it was.

use crate::workloads::Effort;
use crate::workloads::calls::{map, must, protect, unmap};
use crate::workloads::engine::{PAGE, alternating};
use crate::workloads::threads::{ALLOCATION, Case, READERS, WINDOW};
use std::fs::File;
use std::io::Read;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The rows of a round beside n areas; `None` if the kernel has no such operation.
pub fn run(case: Case, n: usize, threads: usize, effort: Effort) -> Option<Vec<f64>> {
    // Other threads would wait for one that panicked.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |why| {
        hook(why);
        std::process::exit(101);
    }));
    for i in 0..n {
        map(PAGE, alternating(i).bits() as i32, None);
    }
    Some(match case {
        Case::BrkThreads => vec![brk(threads, effort.count)],
        Case::MapsReaders => maps_readers(effort),
        // Present memory takes no fault.
        Case::Query => return None,
        Case::Allocate => vec![each(threads, effort.count, || unmap(map(ALLOCATION, RW, None), ALLOCATION))],
        Case::AllocateFaultModify => vec![each(threads, effort.count, || {
            let at = map(ALLOCATION, RW, None);
            // SAFETY: a writable page that was mapped just now.
            unsafe { (at as *mut u8).write_volatile(1) };
            protect(at, ALLOCATION, libc::PROT_READ);
            unmap(at, ALLOCATION);
        })],
    })
}

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Wall nanoseconds of one operation, with `threads` threads that do `count` each.
fn each(threads: usize, count: usize, act: impl Fn() + Sync) -> f64 {
    by_threads(threads, |_| (0..count).for_each(|_| act())).as_nanos() as f64 / (threads * count) as f64
}

/// Time from the common start of all threads to the end of the last one.
fn by_threads(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let (ready, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (ready, done, work) = (&ready, &done, &work);
            scope.spawn(move || {
                ready.wait();
                work(number);
                done.wait();
            });
        }
        ready.wait();
        let start = Instant::now();
        done.wait();
        start.elapsed()
    })
}

/// Threads move the break between different places, a page apart.
fn brk(threads: usize, count: usize) -> f64 {
    // SAFETY: it only queries, because the break cannot be 0.
    let end = unsafe { libc::syscall(libc::SYS_brk, 0) } as u64;
    let brk = |to: u64| {
        // SAFETY: no object uses the memory that it adds above `end` (KERNEL-THREADS-1).
        must(unsafe { libc::syscall(libc::SYS_brk, to) } as u64 == to, "brk");
    };
    let took = by_threads(threads, |number| {
        let low = end + PAGE * (1 + 2 * number as u64);
        for _ in 0..count {
            brk(low + PAGE);
            brk(low);
        }
    });
    took.as_nanos() as f64 / (2 * threads * count) as f64
}

/// Updates beside readers and alone: of each the mean and the longest, clock included.
fn maps_readers(effort: Effort) -> Vec<f64> {
    let window = map(WINDOW, RW, None);
    let update = || {
        let mut rng = fastrand::Rng::with_seed(effort.seed);
        let mut times = Vec::with_capacity(2 * effort.count);
        for _ in 0..effort.count {
            let page = window + rng.u64(0..WINDOW / PAGE) * PAGE;
            let start = Instant::now();
            unmap(page, PAGE);
            let between = Instant::now();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: a page of the window, which holds no Rust object.
            let at = unsafe { libc::mmap(page as *mut libc::c_void, PAGE as usize, RW, flags, -1, 0) };
            times.extend([between - start, between.elapsed()].map(|time| time.as_nanos() as u64));
            must(at as u64 == page, "mmap");
        }
        times
    };
    let alone = update();
    let (begun, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let beside = std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut page = [0; PAGE as usize];
                let mut walks = 0;
                while walks == 0 || !stop.load(Relaxed) {
                    let mut maps = File::open("/proc/self/maps").expect("the kernel shows the areas");
                    while maps.read(&mut page).expect("the kernel shows the areas") > 0 {}
                    if walks == 0 {
                        begun.fetch_add(1, Relaxed);
                    }
                    walks += 1;
                }
            });
        }
        while begun.load(Relaxed) < READERS {
            std::thread::yield_now();
        }
        let times = update();
        stop.store(true, Relaxed);
        times
    });
    unmap(window, WINDOW);
    [beside, alone].iter().flat_map(|times| [mean(times), *times.iter().max().expect("an update") as f64]).collect()
}

fn mean(times: &[u64]) -> f64 {
    times.iter().sum::<u64>() as f64 / times.len() as f64
}
