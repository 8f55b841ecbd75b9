//! Runs work while other threads do theirs over and over. Knows nothing of spaces.

use crate::shared::writes::Done;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Sets a flag when it goes out of scope, also by a panic, so no thread waits for the flag for
/// ever.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Counts a thread when it goes out of scope, also by a panic.
struct CountAtEnd<'a>(&'a AtomicUsize);

impl Drop for CountAtEnd<'_> {
    fn drop(&mut self) {
        // Relaxed: no other memory depends on it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `act` while `others` threads repeat their work. Each calls `prepare` with its number, and
/// repeats the work that this returns, at least once; the work returns its amount. `act` begins
/// when each has done some. Returns the result of `act`, and the amount of each thread.
pub fn beside<T, W: FnMut() -> usize>(
    others: usize,
    prepare: impl Fn(usize) -> W + Sync,
    act: impl FnOnce() -> T,
) -> (T, Vec<Done>) {
    // Relaxed, in both: no other memory depends on them.
    let (begun, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let repeat = |thread: usize| {
        let first = CountAtEnd(&begun);
        let mut work = prepare(thread);
        let start = Instant::now();
        let mut count = work();
        drop(first);
        while !stop.load(Ordering::Relaxed) {
            count += work();
        }
        Done { count, elapsed: start.elapsed() }
    };
    let repeat = &repeat;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|thread| scope.spawn(move || repeat(thread))).collect();
        let at_end = SetAtEnd(&stop);
        while begun.load(Ordering::Relaxed) < others {
            // There may be fewer processors than threads.
            std::thread::yield_now();
        }
        let result = act();
        drop(at_end);
        (result, threads.into_iter().map(|thread| thread.join().expect("a thread at work")).collect())
    })
}
