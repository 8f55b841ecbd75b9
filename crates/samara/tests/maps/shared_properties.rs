//! Random scripts on a shared map, against the oracle: every operation, beside guards that are
//! held, snapshots and updates.
//!
//! Each set of nodes, value, key and reclaimer takes seconds to compile. Two are tested always; the
//! feature `long` adds the others, and runs up to five times as many operations.
//!
//! | nodes  | value       | key     | reclaimer             | what it stands for                               |
//! |--------|-------------|---------|-----------------------|--------------------------------------------------|
//! | tiny   | `Tracked`   | `u64`   | `Fenced::default`  | tall trees; values that are counted              |
//! | small  | `u32`       | `u64`   | `Fenced::default`  | long: inner nodes with room to split a child     |
//! | real   | `Tracked`   | `u64`   | `Membarrier::new`     | packed leaves                                    |
//! | real   | `Tracked`   | `u64`   | `Epoch`               | long: the same, by another reclaimer             |
//! | tiny   | `u32`       | `u128`  | `Quiescent`           | long: keys that are not loaded at once; nothing waits |
//! | tiny   | `u32`       | `u8`    | `Fenced::default`  | long: gap words of one byte                      |
//!
//! Other sets are met by the fuzz target.
//!
//! Those that `fill` share no nodes. In those that `thin`, nodes that share stay thin now and then;
//! in all others none does, which `check()` sees to.
//!
//! `SAMARA_SEED=N` repeats a run, `SAMARA_OPS=N` sets how many operations each test does.

use samara::testing::Tiny;
#[cfg(feature = "long")]
use samara::{Compact, Epoch, Quiescent};
use samara::{Fenced, Membarrier, Normal, Reclaim, Shape};
use samara_testkit::{Campaign, Ledger, SharedOptions, TestKey, Tracked, Universe, Value, campaign_shared, ops_wanted};

#[cfg(feature = "long")]
use crate::epochs::epochs;

#[cfg(feature = "long")]
fn quiescent() -> Quiescent {
    // SAFETY: these tests have one thread for each map, and hold no guard across a write.
    unsafe { Quiescent::new() }
}

/// Whether guards are held over stores, whether nodes are shared with snapshots, and whether they
/// stay thin then now and then.
const BOTH: (bool, bool, bool) = (true, true, false);
const THIN: (bool, bool, bool) = (true, true, true);
const FILL: (bool, bool, bool) = (true, false, false);
#[cfg(feature = "long")]
const QUIET: (bool, bool, bool) = (false, true, false);
#[cfg(feature = "long")]
const QUIET_FILL: (bool, bool, bool) = (false, false, false);

/// Keys of a tree of three levels, and more.
const TALL: Universe = Universe::Pages(8_192);

#[inline(never)]
fn property<K: TestKey, V: Value + Send + Sync, R: Reclaim, S: Shape>(
    name: &'static str,
    reclaim: fn() -> R,
    (holds, shares, thins): (bool, bool, bool),
    universe: Universe,
    (ops, script): (usize, usize),
) {
    let ops = ops_wanted(if cfg!(feature = "long") { ops } else { ops.min(10_000) });
    // For the values that are counted; the others leave it empty.
    let ledger = Ledger::open();
    let options = SharedOptions { reclaim, hold_guards: holds, take_snapshots: shares, leave_thin_nodes: thins };
    // This number of pages is more than a root of leaves takes.
    let filled = if universe == TALL { if cfg!(miri) { 120 } else { 4_000 } } else { 0 };
    let stats =
        campaign_shared::<K, V, R, S>(Campaign { name, universe, ops, script: script.min(ops), filled }, options);
    ledger.assert_clean();
    assert_eq!(stats.ops, ops as u64);
    // Scripts that displace nothing, find no gap and show nothing that is stored in would prove
    // nothing. Miri's are too short to say.
    assert!(cfg!(miri) || stats.displaced > stats.ops / 50 && stats.gaps_found > stats.ops / 200, "{stats:?}");
    assert!(cfg!(miri) || stats.shown_after_change > stats.ops / 100 || !holds, "{stats:?}");
}

/// One test a line: `name: shape, value, key, reclaimer, what is done beside, universe, operations,
/// operations of one script`.
macro_rules! properties {
    ($($name:ident: $shape:ty, $value:ty, $key:ty, $reclaim:expr, $beside:expr, $universe:expr, $ops:expr, $script:expr;)*) => {$(
        #[test]
        fn $name() {
            property::<$key, $value, _, $shape>(stringify!($name), $reclaim, $beside, $universe, ($ops, $script));
        }
    )*};
}

properties! {
    tiny_low: Tiny, Tracked, u64, Fenced::default, BOTH, Universe::Low(255), 100_000, 1_000;
    tiny_high: Tiny, Tracked, u64, Fenced::default, BOTH, Universe::High(255), 100_000, 1_000;
    tiny_whole: Tiny, Tracked, u64, Fenced::default, BOTH, Universe::Whole, 100_000, 1_000;
    tiny_few_keys: Tiny, Tracked, u64, Fenced::default, BOTH, Universe::Low(9), 20_000, 500;
    tiny_pages: Tiny, Tracked, u64, Fenced::default, BOTH, Universe::Pages(4096), 40_000, 10_000;
    tiny_fill: Tiny, Tracked, u64, Fenced::default, FILL, Universe::Pages(4096), 40_000, 10_000;
    tiny_thin: Tiny, Tracked, u64, Fenced::default, THIN, Universe::Low(255), 100_000, 1_000;
    real_low: Normal, Tracked, u64, Membarrier::new, BOTH, Universe::Low(255), 100_000, 1_000;
    real_middle: Normal, Tracked, u64, Membarrier::new, BOTH, Universe::Middle(400), 100_000, 1_000;
    real_fill: Normal, Tracked, u64, Membarrier::new, FILL, Universe::Pages(32768), 30_000, 30_000;
}

#[cfg(feature = "long")]
properties! {
    real_thin: Normal, Tracked, u64, Membarrier::new, THIN, TALL, 20_000, 1_000;
    real_pages: Normal, Tracked, u64, Membarrier::new, BOTH, Universe::Pages(32768), 30_000, 30_000;
    real_tall: Normal, Tracked, u64, Membarrier::new, BOTH, TALL, 20_000, 1_000;
    real_tall_fill: Normal, Tracked, u64, Membarrier::new, FILL, TALL, 20_000, 1_000;
    compact_thin: Compact, u32, u64, Fenced::default, THIN, Universe::Pages(4096), 40_000, 10_000;
    compact_low: Compact, u32, u64, Fenced::default, BOTH, Universe::Low(255), 100_000, 1_000;
    compact_pages: Compact, u32, u64, Fenced::default, BOTH, Universe::Pages(4096), 40_000, 10_000;
    compact_fill: Compact, u32, u64, Fenced::default, FILL, Universe::Pages(4096), 40_000, 10_000;
    narrow_low: Tiny, u32, u8, Fenced::default, BOTH, Universe::Low(255), 40_000, 1_000;
    wide_low: Tiny, u32, u128, quiescent, QUIET, Universe::Low(255), 100_000, 1_000;
    wide_whole: Tiny, u32, u128, quiescent, QUIET, Universe::Whole, 100_000, 1_000;
    wide_fill: Tiny, u32, u128, quiescent, QUIET_FILL, Universe::Low(255), 100_000, 1_000;
}

#[cfg(feature = "long")]
#[test]
fn epoch_both() {
    if epochs() {
        property::<u64, Tracked, _, Normal>("epoch_both", Epoch::new, BOTH, Universe::Both(100), (100_000, 1_000));
    }
}
