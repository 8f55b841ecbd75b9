//! The range map against the oracle: the first byte chooses nodes and key type, the rest is a
//! script.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use samara::testing::Tiny;
use samara::{Normal, Shape};
use samara_testkit::{TestKey, Value, run, script_from_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of one script at most.
const LONGEST: usize = 600;

/// Operations done so far; printed now and then, so that the run's log says how many there were.
static OPS: AtomicU64 = AtomicU64::new(0);

fn attempt<V: Value, K: TestKey, S: Shape>(u: &mut Unstructured<'_>) {
    let Ok(ops) = script_from_bytes::<K>(u, LONGEST) else { return };
    match run::<V, K, S>(&ops) {
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
    match choice % 8 {
        0..=1 => attempt::<u32, u64, Tiny>(u),
        2 => attempt::<Box<u64>, u64, Normal>(u),
        3 => attempt::<u64, u32, Tiny>(u),
        4 => attempt::<u32, u128, Tiny>(u),
        5 => attempt::<[u64; 12], u64, Tiny>(u),
        6 => attempt::<(), usize, Tiny>(u),
        _ => attempt::<u64, u64, Normal>(u),
    }
});
