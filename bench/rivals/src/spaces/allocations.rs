//! Threads that map memory wherever there is room, use it and unmap it. Uses spaces through their
//! traits.

use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::spaces::space::{Allocate, Apply, STACK, Space, Thread};
use samara_bench::workloads::threads::ALLOCATION;
use std::time::{Duration, Instant};

/// The clock is read after this many.
const BATCH: usize = 16;

/// Maps and unmaps by each of the threads, `effort` times or as often as the time allows. With
/// `used`, each first writes to the mapped memory, and then removes the right to write. Wall
/// nanoseconds divided by the maps of all of them.
pub fn time<S: Space>(space: &S, threads: usize, used: bool, effort: usize, limit: Duration) -> f64
where
    for<'a> S::Thread<'a>: Allocate,
{
    let (done, elapsed) = in_parallel(threads, |_| {
        let mut thread = space.thread();
        let at = thread.allocate(ALLOCATION);
        assert!(at < STACK, "{at:#x} is above the stack, as no map of a process is");
        write(&mut thread, at);
        assert_eq!(thread.fault(at, true), 0, "a write to read-only memory");
        assert!(thread.unmap(at, ALLOCATION, Apply::NOTHING), "an unmap");
        move || {
            let (start, mut maps) = (Instant::now(), 0);
            while maps < effort {
                for _ in 0..BATCH.min(effort - maps) {
                    let at = thread.allocate(ALLOCATION);
                    if used {
                        write(&mut thread, at);
                    }
                    assert!(thread.unmap(at, ALLOCATION, Apply::NOTHING), "an unmap");
                }
                maps += BATCH;
                if start.elapsed() >= limit {
                    break;
                }
            }
            maps.min(effort)
        }
    });
    each(elapsed, done.into_iter().sum())
}

/// Writes to the first page, and removes the right to write.
fn write(thread: &mut impl Allocate, at: u64) {
    assert_ne!(thread.fault(at, true), 0, "a write to what was mapped");
    thread.make_read_only(at, ALLOCATION);
}
