//! The shared map against the oracle: the first byte chooses nodes, value, key and reclaimer,
//! whether nodes are shared with snapshots, and whether they stay thin then now and then; the rest
//! is a script.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use samara::testing::{Small, Tiny};
use samara::{Epoch, Membarrier, Normal, Quiescent, Reclaim, Shape};
use samara_testkit::{Ledger, Sharing, TestKey, Tracked, Value, run_shared, script_shared_from_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of one script at most.
const LONGEST: usize = 600;

/// Operations done so far; printed now and then, so that the run's log says how many there were.
static OPS: AtomicU64 = AtomicU64::new(0);

fn attempt<K: TestKey, V: Value + Send + Sync, R: Reclaim, S: Shape>(u: &mut Unstructured<'_>, sharing: Sharing<R>) {
    let Ok(ops) = script_shared_from_bytes::<K>(u, LONGEST) else { return };
    let ledger = Ledger::open();
    match run_shared::<K, V, R, S>(sharing, &ops) {
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

fn quiescent() -> Quiescent {
    // SAFETY: one thread, and where this is asked for no guard is held over a store.
    unsafe { Quiescent::new() }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let u = &mut Unstructured::new(rest);
    let (shares, thins) = (choice & 0x80 == 0, choice & 0x40 != 0);
    let fenced = Sharing { reclaim: Membarrier::fenced, holds: true, shares, thins };
    let epoch = Sharing { reclaim: Epoch::new, holds: true, shares, thins };
    let quiet = Sharing { reclaim: quiescent, holds: false, shares, thins };
    match choice % 8 {
        0..=1 => attempt::<u64, Tracked, _, Tiny>(u, fenced),
        2 => attempt::<u64, Tracked, _, Tiny>(u, quiet),
        3..=4 => attempt::<u64, u32, _, Small>(u, fenced),
        5..=6 => attempt::<u64, Box<Tracked>, _, Normal>(u, epoch),
        _ => attempt::<u128, u64, _, Tiny>(u, quiet),
    }
});
