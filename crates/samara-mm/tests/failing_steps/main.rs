//! Something fails in every step of a call: threads call, fault and fork on a family of shared
//! spaces with files, while memory runs out, `apply` refuses or panics, timeouts end, guards are
//! held, and spaces end. Nothing of what failed is left: no lock, no mark, no link and no byte.
//!
//! A program of its own, because its global allocator fails on purpose, and counts what all threads
//! hold.
#![cfg(feature = "std")]

#[allow(dead_code)]
#[path = "../support/failing_alloc.rs"]
mod failing_alloc;
mod family;
#[path = "../support/file.rs"]
mod file;
#[allow(dead_code)]
#[path = "../files/of_spaces.rs"]
mod of_spaces;
#[path = "../support/rng.rs"]
mod rng;
mod work;
#[allow(dead_code)]
#[path = "../shared/world.rs"]
mod world;

use crate::failing_alloc::live_of_all;
use crate::family::Family;
use crate::rng::Rng;
use crate::work::{Counts, work};
use crate::world::PAGE;
use samara_mm::{Event, Fenced, Reclaim, SleepEvent};
use std::sync::Barrier;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: failing_alloc::Failing = failing_alloc::Failing;

/// Threads of a round.
const THREADS: u64 = 4;

/// A number from the environment.
fn setting(name: &str, by_default: u64) -> u64 {
    std::env::var(name).ok().and_then(|set| set.parse().ok()).unwrap_or(by_default)
}

/// Makes what the process keeps for as many threads as ever meet here: records of readers, and the
/// table of `parking_lot`.
fn warm_up() {
    drop((0..64).map(|_| Fenced.reader()).collect::<Vec<_>>());
    let all = Barrier::new(16);
    std::thread::scope(|scope| {
        let park = || {
            SleepEvent::default().wait(Some(Duration::from_micros(1)));
            all.wait();
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(park)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn nothing_of_what_failed_is_left() {
    let (rounds, steps) = if cfg!(miri) {
        (1, 6)
    } else if cfg!(samara_few) {
        (10, 100)
    } else {
        (30, 300)
    };
    let (rounds, seed) = (setting("SAMARA_ROUNDS", rounds), setting("SAMARA_SEED", 1));
    warm_up();
    let mut all = Counts::default();
    for round in 0..rounds {
        let before = live_of_all();
        let mut r = Rng(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let family = Family::new(&mut r);
        std::thread::scope(|scope| {
            let family = &family;
            let threads: Vec<_> = (0..THREADS).map(|_| Rng(r.next())).collect();
            let threads: Vec<_> = threads.into_iter().map(|r| scope.spawn(move || work(family, r, steps))).collect();
            // Joined, and not only ended: a thread frees what it has to itself behind its end.
            threads.into_iter().for_each(|thread| all.add(&thread.join().expect("no thread panics")));
        });
        let what = format!("SAMARA_SEED={seed}, round {round}");
        family.settle(&mut r, &what);
        drop(what);
        assert_eq!(live_of_all() - before, 0, "bytes left behind: SAMARA_SEED={seed}, round {round}");
    }
    println!("failing steps: {rounds} rounds, {all}, seed {seed}");
    assert!(cfg!(any(miri, samara_few)) || all.met_all(), "{all}");
}
