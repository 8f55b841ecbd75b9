//! Faults, alone and while other threads change the space. Uses spaces through their traits.
//!
//! - **SPACES-FAULTS-1** All faults are writes to areas that were written before. The sum of the
//!   areas' starts that they return is compared with one that was computed without the space.

use crate::latency::Singles;
use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::shared::writes::Done;
use crate::spaces::space::{Space, Thread};
use samara_bench::data::{BASE, Item, SLOT};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The clock is read after this many faults.
const BATCH: usize = 256;

/// `count` random addresses in these ranges of the data.
pub fn addresses(items: &[Item], seed: u64, count: usize) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(0xfa17 + seed);
    let mut any = || {
        let (first, last, _) = items[rng.usize(0..items.len())];
        rng.u64(first..=last)
    };
    (0..count).map(|_| any()).collect()
}

/// The start of the range that holds `addr`, by arithmetic (DATA-1).
pub fn start_of(addr: u64) -> u64 {
    addr - (addr - BASE) % SLOT
}

/// Faults at these addresses until all are done or the time is up. Panics if one is served wrongly.
pub fn run<T: Thread>(thread: &mut T, addresses: &[u64], limit: Duration) -> Done {
    let (start, mut count, mut sum) = (Instant::now(), 0, 0_u64);
    for batch in addresses.chunks(BATCH) {
        sum = batch.iter().fold(sum, |sum, addr| sum.wrapping_add(thread.fault(black_box(*addr), true)));
        count += batch.len();
        if start.elapsed() >= limit {
            break;
        }
    }
    let elapsed = start.elapsed();
    let want = addresses[..count].iter().fold(0_u64, |sum, addr| sum.wrapping_add(start_of(*addr)));
    assert_eq!(sum, want, "faults were served wrongly");
    Done { count, elapsed }
}

/// Faults at these addresses, each timed by itself, until all are done or the time is up.
pub fn single<T: Thread>(thread: &mut T, addresses: &[u64], limit: Duration) -> Singles {
    let (begin, mut times, mut wrong) = (Instant::now(), Vec::with_capacity(addresses.len()), 0);
    for addr in addresses {
        let addr = black_box(*addr);
        let start = Instant::now();
        let served = black_box(thread.fault(addr, true));
        let end = Instant::now();
        times.push((end - start).as_nanos() as u64);
        wrong += usize::from(served != start_of(addr));
        if end - begin >= limit {
            break;
        }
    }
    assert_eq!(wrong, 0, "faults were served wrongly");
    Singles::of(times)
}

/// Faults of `threads` threads in the area in the middle: wall nanoseconds divided by the faults of
/// all of them.
pub fn in_one_area<S: Space>(
    space: &S,
    items: &[Item],
    seed: u64,
    threads: usize,
    effort: usize,
    limit: Duration,
) -> f64 {
    let middle = items.len() / 2;
    let (done, elapsed) = in_parallel(threads, |number| {
        let addresses = addresses(&items[middle..=middle], seed * threads as u64 + number as u64, effort);
        let mut thread = space.thread();
        move || run(&mut thread, &addresses, limit).count
    });
    each(elapsed, done.into_iter().sum())
}
