//! Address spaces that threads share.

mod between_steps;
mod forks;
mod guards;
mod histories;
mod holders;
mod images;
mod moves;
mod one_thread;
mod range_faults;
#[path = "../support/rng.rs"]
mod rng;
mod search;
mod world;

/// The seed of the random tests: SAMARA_SEED, else 1.
fn seed() -> u64 {
    std::env::var("SAMARA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// How often a random test repeats: fewer times where each one is slow.
fn times(n: u64) -> u64 {
    if cfg!(miri) { n.div_ceil(200) } else { n }
}
