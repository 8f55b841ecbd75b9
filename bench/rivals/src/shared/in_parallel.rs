//! Runs the same work in several threads at the same time. Knows nothing of maps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How much each of `threads` threads did, and the time from when the first began until the last
/// was done. Each thread calls `prepare` with its number. The work that this returns runs once all
/// threads are ready, and returns how much it did.
pub fn in_parallel<W: FnMut() -> usize>(threads: usize, prepare: impl Fn(usize) -> W + Sync) -> (Vec<usize>, Duration) {
    let ready = AtomicUsize::new(0);
    let work = |thread: usize| {
        let mut work = prepare(thread);
        together(&ready, threads);
        let from = Instant::now();
        let done = work();
        // What was prepared is dropped after the end was taken.
        (from, Instant::now(), done)
    };
    let work = &work;
    let times: Vec<(Instant, Instant, usize)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let mine = work(0);
        std::iter::once(mine).chain(others.into_iter().map(|thread| thread.join().expect("a thread at work"))).collect()
    });
    let first = times.iter().map(|(from, ..)| *from).min().expect("a thread");
    let last = times.iter().map(|(_, to, _)| *to).max().expect("a thread");
    (times.into_iter().map(|(.., done)| done).collect(), last - first)
}

/// Waits until all threads have called it. It spins: a thread that sleeps could wake up later than
/// a whole round takes.
fn together(ready: &AtomicUsize, threads: usize) {
    // Relaxed: no other memory depends on it.
    ready.fetch_add(1, Ordering::Relaxed);
    let mut spins = 0_u32;
    while ready.load(Ordering::Relaxed) < threads {
        spins += 1;
        if spins.is_multiple_of(1 << 12) {
            // There may be fewer processors than threads.
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}
