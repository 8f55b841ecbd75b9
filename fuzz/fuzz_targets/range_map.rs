//! A range map against the reference map of the test kit. The first byte chooses the node shape and
//! the types of key and value; the rest is a script of operations.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
#[cfg(not(samara_few))]
use samara::Normal;
use samara::Shape;
use samara::testing::Tiny;
use samara_testkit::{TestKey, Value, run, script_from_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of one script at most.
const LONGEST: usize = 600;

/// Operations done so far; printed at intervals, for the counts in the run's log.
static OPS: AtomicU64 = AtomicU64::new(0);

fn attempt<K: TestKey, V: Value, S: Shape>(u: &mut Unstructured<'_>) {
    let Ok(ops) = script_from_bytes::<K>(u, LONGEST) else { return };
    match run::<K, V, S>(&ops) {
        Ok(stats) => {
            let before = OPS.fetch_add(stats.ops, Ordering::Relaxed);
            if before / 250_000 != (before + stats.ops) / 250_000 {
                eprintln!("samara-fuzz-ops {}", before + stats.ops);
            }
        }
        Err(difference) => panic!("{difference}\n{ops:#?}"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let u = &mut Unstructured::new(rest);
    // Each kind of map takes long to build: `samara_few` leaves one, for short runs.
    match choice % 8 {
        #[cfg(not(samara_few))]
        1 => attempt::<u64, u32, Tiny>(u),
        #[cfg(not(samara_few))]
        2 => attempt::<u64, Box<u64>, Normal>(u),
        #[cfg(not(samara_few))]
        3 => attempt::<u32, u64, Tiny>(u),
        #[cfg(not(samara_few))]
        4 => attempt::<u128, u32, Tiny>(u),
        #[cfg(not(samara_few))]
        5 => attempt::<u64, [u64; 12], Tiny>(u),
        #[cfg(not(samara_few))]
        6 => attempt::<usize, (), Tiny>(u),
        #[cfg(not(samara_few))]
        7 => attempt::<u64, u64, Normal>(u),
        _ => attempt::<u64, Box<u64>, Tiny>(u),
    }
});
