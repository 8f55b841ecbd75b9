//! Runs the same work in several threads at the same time. Knows nothing of maps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs `threads` threads. Each calls `prepare` with its number; the work that `prepare` returns
/// runs once all threads are ready, and returns its amount. Returns the amount of each thread, and
/// the time from the start of the first to the end of the last.
pub fn in_parallel<W: FnMut() -> usize>(threads: usize, prepare: impl Fn(usize) -> W + Sync) -> (Vec<usize>, Duration) {
    let ready = AtomicUsize::new(0);
    let work = |thread: usize| {
        let mut work = prepare(thread);
        together(&ready, threads);
        let from = Instant::now();
        let done = work();
        // The prepared work is dropped after the end time was taken.
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
