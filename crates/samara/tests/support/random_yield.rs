//! A hook for `samara::testing::set_hook` that lets other threads run at random points of a store.

use samara::testing::Point;
use std::cell::Cell;
use std::thread;

thread_local! { static RNG: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) }; }

/// Seeds this thread's choices; `seed` is not 0.
pub(crate) fn seed_yields(seed: u64) {
    RNG.set(seed);
}

/// Yields to other threads at one in 64 points.
pub(crate) fn yield_at_random(_: Point) {
    // xorshift64.
    let mut x = RNG.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RNG.set(x);
    if x & 63 == 0 {
        thread::yield_now();
    }
}
