//! Several threads that do the same at the same time. Knows nothing of maps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How much each of `threads` threads did, from when the first began until the last was done.
/// `prepare` is called in each, with its number; the work that it returns is run once all are
/// ready, and says how much that was.
pub fn at_once<W: FnMut() -> usize>(threads: usize, prepare: impl Fn(usize) -> W + Sync) -> (Vec<usize>, Duration) {
    let ready = AtomicUsize::new(0);
    let work = |thread: usize| {
        let mut work = prepare(thread);
        together(&ready, threads);
        let from = Instant::now();
        let done = work();
        // What was prepared goes after that.
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

/// Returns in all of so many threads at once: a thread that slept would come late, and a round may
/// be shorter than that.
fn together(ready: &AtomicUsize, threads: usize) {
    // Relaxed: nothing is handed over.
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
