//! A shared map against the reference map of the test kit. The first byte chooses the node shape,
//! the types of value and key, the reclaimer, and whether snapshots are taken and nodes stay thin.
//! The rest is a script of operations.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use samara::testing::Tiny;
#[cfg(not(samara_few))]
use samara::{Compact, Epoch, Membarrier, Normal, Quiescent};
use samara::{Fenced, Reclaim, Shape};
use samara_testkit::{Ledger, SharedOptions, TestKey, Tracked, Value, run_shared, script_shared_from_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of one script at most.
const LONGEST: usize = 600;

/// Operations done so far; printed at intervals, for the counts in the run's log.
static OPS: AtomicU64 = AtomicU64::new(0);

fn attempt<K: TestKey, V: Value + Send + Sync, R: Reclaim, S: Shape>(
    u: &mut Unstructured<'_>,
    options: SharedOptions<R>,
) {
    let Ok(ops) = script_shared_from_bytes::<K>(u, LONGEST) else { return };
    let ledger = Ledger::open();
    match run_shared::<K, V, R, S>(options, &ops) {
        Ok(stats) => {
            let before = OPS.fetch_add(stats.ops, Ordering::Relaxed);
            if before / 250_000 != (before + stats.ops) / 250_000 {
                eprintln!("samara-fuzz-ops {}", before + stats.ops);
            }
        }
        Err(difference) => panic!("{difference}\n{ops:#?}"),
    }
    ledger.assert_clean();
}

#[cfg(not(samara_few))]
fn quiescent() -> Quiescent {
    // SAFETY: the target has one thread, and `hold_guards` is false where this reclaimer is used:
    // no guard is pinned during a store.
    unsafe { Quiescent::new() }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let u = &mut Unstructured::new(rest);
    let (take_snapshots, leave_thin_nodes) = (choice & 0x80 == 0, choice & 0x40 != 0);
    let fenced = SharedOptions { reclaim: Fenced::default, hold_guards: true, take_snapshots, leave_thin_nodes };
    #[cfg(not(samara_few))]
    let barrier = SharedOptions { reclaim: Membarrier::default, hold_guards: true, take_snapshots, leave_thin_nodes };
    #[cfg(not(samara_few))]
    let epoch = SharedOptions { reclaim: Epoch::new, hold_guards: true, take_snapshots, leave_thin_nodes };
    #[cfg(not(samara_few))]
    let quiet = SharedOptions { reclaim: quiescent, hold_guards: false, take_snapshots, leave_thin_nodes };
    // Each kind of map takes long to build: `samara_few` leaves one, for short runs.
    match choice % 8 {
        #[cfg(not(samara_few))]
        2 => attempt::<u64, Tracked, _, Tiny>(u, quiet),
        #[cfg(not(samara_few))]
        3..=4 => attempt::<u64, u32, _, Compact>(u, barrier),
        #[cfg(not(samara_few))]
        5..=6 => attempt::<u64, Box<Tracked>, _, Normal>(u, epoch),
        #[cfg(not(samara_few))]
        7 => attempt::<u128, u64, _, Tiny>(u, quiet),
        _ => attempt::<u64, Tracked, _, Tiny>(u, fenced),
    }
});
