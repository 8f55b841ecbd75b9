//! Address spaces that threads share.

mod between_steps;
#[path = "../support/file.rs"]
mod file;
mod forks;
mod guards;
mod histories;
mod holders;
mod images;
mod leaves;
mod limits;
mod moves;
mod one_thread;
mod panics;
mod range_faults;
mod raw;
mod readers;
#[path = "../support/rng.rs"]
mod rng;
mod search;
mod world;

/// The seed of the random tests: SAMARA_SEED, else 1.
fn seed() -> u64 {
    std::env::var("SAMARA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Whether random tests repeat fewer times: too few for what they count. `ci/long.sh tests` repeats
/// them often.
const FEW: bool = cfg!(any(miri, samara_few, not(feature = "long")));

/// How often a random test repeats.
fn times(n: u64) -> u64 {
    if cfg!(miri) {
        n.div_ceil(200)
    } else if FEW {
        n.div_ceil(10)
    } else {
        n
    }
}
