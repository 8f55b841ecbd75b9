//! Readers concurrent with a writer, and a writer concurrent with a reader that holds a guard. Uses
//! maps through their traits.
//!
//! Threads are not bound to processors: with as many processors as threads, and nothing else
//! running, each thread has its own.

use crate::latency::{clock, percentile};
use crate::loaded::each;
use crate::shared::map::{Guard, Reader, SharedMap};
use crate::shared::reads::{HELD, MASK, sum};
use crate::shared::writes::{Done, Plan};
use samara_bench::data::Data;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The times of concurrent lookups and replaces in one round.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    /// Nanoseconds of a lookup, with a guard for each [`HELD`].
    pub read: f64,
    /// Nanoseconds of a replace meanwhile.
    pub write: f64,
    /// The median of single lookups, with a guard for each, in nanoseconds.
    pub p50: f64,
    /// The 99.9th percentile of single lookups.
    pub p999: f64,
}

/// Sets a flag when it goes out of scope, also by a panic, so no thread waits for the flag for
/// ever.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs `act` concurrently with a thread that replaces in a tight loop. Returns the result, and the
/// replaces of that thread.
fn with_writer<M: SharedMap, T>(map: &M, plan: &Plan, act: impl FnOnce() -> T) -> (T, Done) {
    let (begun, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (result, done) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let _at_end = SetAtEnd(&begun);
            plan.until(map, || begun.store(true, Ordering::Release), || stop.load(Ordering::Relaxed))
        });
        let at_end = SetAtEnd(&stop);
        while !begun.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let result = act();
        drop(at_end);
        (result, writer.join().expect("the thread that replaces"))
    });
    plan.check(map, done.count);
    (result, done)
}

/// A round of `read_beside_writer`.
pub fn read_beside_writer<M: SharedMap>(map: &M, data: &Data, round: u64, effort: usize, limit: Duration) -> Latencies {
    let plan = Plan::new(data, round);
    let (keys, _) = data.probes(round, effort);
    let ((lookups, found, elapsed), done) = with_writer(map, &plan, || many(map, &keys, limit));
    let want = keys[..lookups].iter().map(|key| data.answer(*key)).sum::<u64>();
    assert!(if M::WHOLE { found == want } else { found <= want }, "lookups concurrent with a writer gave wrong values");
    let ((mut singles, wrong), _) = with_writer(map, &plan, || single(map, data, &keys, limit));
    assert_eq!(wrong, 0, "lookups concurrent with a writer gave wrong values");
    let clock = percentile(&mut clock(singles.len()), 500);
    let [p50, p999] = [500, 999].map(|per_mille| percentile(&mut singles, per_mille).saturating_sub(clock) as f64);
    Latencies { read: each(elapsed, lookups), write: done.nanos(), p50, p999 }
}

/// Lookups with a guard for each [`HELD`], until all are done or the time is up: their number, the
/// sum of the found values, and their time.
fn many<M: SharedMap>(map: &M, keys: &[u64], limit: Duration) -> (usize, u64, Duration) {
    let reader = map.reader();
    let (mut done, mut found) = (0, 0);
    let start = Instant::now();
    for keys in keys.chunks(HELD) {
        found += sum(&reader.pin(), keys);
        done += keys.len();
        if start.elapsed() >= limit {
            break;
        }
    }
    (done, found, start.elapsed())
}

/// Lookups that are timed one by one, each with its guard: the times, clock included, and the
/// number of wrong values.
fn single<M: SharedMap>(map: &M, data: &Data, keys: &[u64], limit: Duration) -> (Vec<u64>, usize) {
    let reader = map.reader();
    let (mut times, mut wrong) = (Vec::with_capacity(keys.len()), 0);
    let begin = Instant::now();
    for key in keys {
        let key = black_box(*key);
        let start = Instant::now();
        let value = black_box(reader.pin().at(key));
        let end = Instant::now();
        times.push((end - start).as_nanos() as u64);
        let right = value & MASK == data.answer(key) || (value == 0 && !M::WHOLE);
        wrong += usize::from(!right);
        if end - begin >= limit {
            break;
        }
    }
    (times, wrong)
}

/// A round of `false_misses`: the number of `reads` lookups, by `threads` - 1 threads, that found
/// nothing although the range is mapped all the time; and the number of lookups, if the time was up
/// before.
pub fn false_misses<M: SharedMap>(
    map: &M,
    data: &Data,
    threads: usize,
    reads: usize,
    limit: Duration,
) -> (usize, usize) {
    let plan = Plan::new(data, 0);
    let readers = threads.saturating_sub(1).max(1);
    let (misses, done, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let read = |thread: usize| {
        let (keys, _) = data.hits(thread as u64, 1 << 16);
        let keys: Vec<(u64, u64)> = keys.into_iter().map(|key| (key, data.answer(key))).collect();
        let (reader, start) = (map.reader(), Instant::now());
        for keys in keys.chunks(HELD).cycle() {
            // Each thread takes chunks of the remaining lookups.
            if done.fetch_add(keys.len(), Ordering::Relaxed) >= reads || start.elapsed() >= limit {
                done.fetch_sub(keys.len(), Ordering::Relaxed);
                return;
            }
            let guard = reader.pin();
            let (mut none, mut other) = (0, 0);
            for (key, want) in keys {
                let value = guard.at(black_box(*key));
                none += usize::from(value == 0);
                other += usize::from(value != 0 && value & MASK != *want);
            }
            misses.fetch_add(none, Ordering::Relaxed);
            wrong.fetch_add(other, Ordering::Relaxed);
        }
    };
    let read = &read;
    with_writer(map, &plan, || {
        std::thread::scope(|scope| {
            (1..readers).for_each(|thread| {
                scope.spawn(move || read(thread));
            });
            read(0);
        });
    });
    assert_eq!(wrong.into_inner(), 0, "lookups concurrent with a writer gave wrong values");
    (misses.into_inner(), done.into_inner())
}

/// A writer while a reader holds a guard: its replaces, the bytes that could not be freed
/// meanwhile, and those that could not be freed after the guard was dropped.
pub fn stalled<M: SharedMap>(
    map: &M,
    data: &Data,
    round: u64,
    effort: usize,
    limit: Duration,
) -> (Done, Option<usize>, Option<usize>) {
    let plan = Plan::new(data, round);
    // A thread that panics drops its end of a channel, so no thread waits for ever.
    let ((held, is_held), (release, is_released)) = (channel::<()>(), channel::<()>());
    let (done, pending) = std::thread::scope(|scope| {
        let holder = scope.spawn(move || {
            let reader = map.reader();
            let guard = reader.pin();
            let found = black_box(guard.at(data.items[0].0));
            let _ = held.send(());
            let _ = is_released.recv();
            found & MASK
        });
        let _ = is_held.recv();
        let done = plan.run(|item| map.replace(item), effort, limit);
        let pending = map.pending();
        drop(release);
        assert_eq!(holder.join().expect("the thread that holds a guard"), data.items[0].2, "a wrong value");
        (done, pending)
    });
    plan.check(map, done.count);
    (done, pending, map.reclaim())
}
