//! A thread that changes the space while others read all its areas, as `/proc/PID/maps` is read.
//! Uses spaces through their traits.
//!
//! - **SPACES-MAPS-1** Only a window above the heap changes. So each walk must show each range of
//!   the data once; their sum is compared.

use crate::latency::Singles;
use crate::spaces::beside::beside;
use crate::spaces::space::{Apply, HEAP, Space, Thread};
use samara_bench::data::{Data, PAGE};
use samara_bench::workloads::threads::{READERS, WINDOW};
use std::time::{Duration, Instant};

/// Start of the window.
const START: u64 = 0x6000_0000_0000;

/// The times of a round, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Single updates without readers.
    pub alone: Singles,
    /// Single updates with readers.
    pub beside: Singles,
    /// One area of a walk, while pages come and go.
    pub walk: f64,
}

/// A round: `effort` pairs of an unmap and a map of a page in the window, or as many as the time
/// allows, without readers and with them.
pub fn time<S: Space>(space: &S, data: &Data, seed: u64, effort: usize, limit: Duration) -> Found {
    let mut thread = space.thread();
    assert!(thread.map_fixed(START, WINDOW, Apply::NOTHING), "a window");
    assert_eq!(thread.fault(START, true), START, "a window");
    let update = || pages(&mut space.thread(), seed, effort, limit);
    let alone = update();
    let read = |_| {
        let mut thread = space.thread();
        move || walk(&mut thread, data)
    };
    let (beside, walks) = beside(READERS, read, update);
    assert!(thread.unmap(START, WINDOW, Apply::NOTHING), "a window");
    let walk = walks.iter().map(|done| done.nanos()).sum::<f64>() / walks.len() as f64;
    Found { alone: Singles::of(alone), beside: Singles::of(beside), walk }
}

/// Unmaps and maps random pages of the window: the times, clock included.
fn pages<T: Thread>(thread: &mut T, seed: u64, effort: usize, limit: Duration) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(0x9a6e + seed);
    let (begin, mut times) = (Instant::now(), Vec::with_capacity(2 * effort));
    for _ in 0..effort {
        let page = START + rng.u64(0..WINDOW / PAGE) * PAGE;
        let start = Instant::now();
        let unmapped = thread.unmap(page, PAGE, Apply::NOTHING);
        let between = Instant::now();
        let mapped = thread.map_fixed(page, PAGE, Apply::NOTHING);
        let end = Instant::now();
        assert!(unmapped && mapped, "an update at {page:#x}");
        times.extend([between - start, end - between].map(|time| time.as_nanos() as u64));
        if end - begin >= limit {
            break;
        }
    }
    times
}

/// Reads all areas once; returns their number. Panics unless each range of the data is among them.
fn walk<T: Thread>(thread: &mut T, data: &Data) -> usize {
    let (mut areas, mut before) = (0, 0);
    let (mut count, mut sum) = (0, 0_u64);
    thread.read_all(|start, end| {
        assert!(end > before && end > start, "an area is shown out of order");
        (areas, before) = (areas + 1, end);
        if start < HEAP {
            (count, sum) = (count + 1, sum.wrapping_add(start ^ end));
        }
    });
    let want = data.items.iter().fold(0_u64, |sum, (first, last, _)| sum.wrapping_add(first ^ (last + 1)));
    assert_eq!((count, sum), (data.n(), want), "a walk does not show what is there throughout");
    areas
}
