//! Random scripts against the oracle: real and tiny nodes, each key type, value type and universe.
//!
//! Each test prints its first seed and how many operations it did. `SAMARA_SEED=N` repeats a run, `SAMARA_OPS=N` sets
//! how many operations each test does. The search path in force is the processor's best; `tests/portable.rs` runs the
//! other ones.

use samara::Normal;
use samara::testing::Tiny;
use samara_testkit::{Campaign, Frame, Ledger, Small, Tracked, Universe, campaign, ops_wanted};

/// One test a line: `name: shape, value, key, universe, operations, operations of one script`.
macro_rules! properties {
    ($($name:ident: $shape:ty, $value:ty, $key:ty, $universe:expr, $ops:expr, $script:expr;)*) => {$(
        #[test]
        fn $name() {
            let ops = ops_wanted($ops);
            let stats = campaign::<$value, $key, $shape>(Campaign {
                name: stringify!($name),
                universe: $universe,
                ops,
                script: if cfg!(miri) { 200 } else { $script },
            });
            assert_eq!(stats.ops, ops as u64);
            // Scripts that displace nothing and find no gap would prove nothing. Miri's are too short to say.
            assert!(cfg!(miri) || stats.displaced > stats.ops / 50 && stats.gaps_found > stats.ops / 200, "{stats:?}");
        }
    )*};
}

properties! {
    real_u64_low: Normal, u32, u64, Universe::Low(255), 900_000, 2_000;
    real_u64_high: Normal, u64, u64, Universe::High(255), 300_000, 2_000;
    real_u64_both: Normal, u32, u64, Universe::Both(100), 300_000, 2_000;
    real_u64_pages: Normal, u64, u64, Universe::Pages(32768), 100_000, 50_000;
    real_u64_middle: Normal, u32, u64, Universe::Middle(400), 300_000, 2_000;
    real_u64_whole: Normal, u64, u64, Universe::Whole, 600_000, 2_000;
    real_u32_low: Normal, u32, u32, Universe::Low(255), 200_000, 2_000;
    real_u32_whole: Normal, u32, u32, Universe::Whole, 200_000, 2_000;
    real_usize_both: Normal, u32, usize, Universe::Both(100), 200_000, 2_000;
    real_u128_high: Normal, u64, u128, Universe::High(200), 200_000, 2_000;
    real_u128_whole: Normal, u64, u128, Universe::Whole, 200_000, 2_000;
    real_newtype_low: Normal, u64, Frame, Universe::Low(255), 200_000, 2_000;
    real_newtype_high: Normal, u32, Small, Universe::High(255), 200_000, 2_000;
    real_no_value: Normal, (), u64, Universe::Low(200), 200_000, 2_000;
    real_large_value: Normal, [u64; 12], u64, Universe::Low(255), 200_000, 2_000;
    real_huge_value: Normal, [u64; 40], u64, Universe::Low(255), 100_000, 2_000;
    real_boxed_value: Normal, Box<u64>, u64, Universe::High(255), 200_000, 2_000;
    tiny_u64_low: Tiny, u32, u64, Universe::Low(255), 900_000, 2_000;
    tiny_u64_high: Tiny, u64, u64, Universe::High(255), 600_000, 2_000;
    tiny_u64_middle: Tiny, u32, u64, Universe::Middle(60), 300_000, 2_000;
    tiny_u64_both: Tiny, u32, u64, Universe::Both(100), 600_000, 2_000;
    tiny_u64_few_keys: Tiny, u32, u64, Universe::Low(9), 300_000, 500;
    tiny_u64_pages: Tiny, u64, u64, Universe::Pages(32768), 100_000, 50_000;
    tiny_u64_whole: Tiny, u64, u64, Universe::Whole, 600_000, 2_000;
    tiny_u32_both: Tiny, u32, u32, Universe::Both(100), 200_000, 2_000;
    tiny_usize_low: Tiny, u32, usize, Universe::Low(100), 200_000, 2_000;
    tiny_u128_high: Tiny, u64, u128, Universe::High(200), 200_000, 2_000;
    tiny_newtype_whole: Tiny, u64, Frame, Universe::Whole, 200_000, 2_000;
    tiny_newtype_both: Tiny, u32, Small, Universe::Both(100), 200_000, 2_000;
    tiny_no_value: Tiny, (), u64, Universe::Low(200), 200_000, 2_000;
    tiny_large_value: Tiny, [u64; 12], u64, Universe::Low(255), 200_000, 2_000;
    tiny_boxed_value: Tiny, Box<u64>, u64, Universe::High(255), 200_000, 2_000;
}

/// Values are dropped exactly once, however they leave the map.
fn dropped_once<S: samara::Shape>(name: &'static str) {
    let ledger = Ledger::open();
    let stats = campaign::<Tracked, u64, S>(Campaign {
        name,
        universe: Universe::Low(255),
        ops: ops_wanted(100_000),
        script: if cfg!(miri) { 200 } else { 2_000 },
    });
    assert!(stats.displaced > 0);
    ledger.assert_clean();
}

#[test]
fn real_values_are_dropped_once() {
    dropped_once::<Normal>("real_values_are_dropped_once");
}

#[test]
fn tiny_values_are_dropped_once() {
    dropped_once::<Tiny>("tiny_values_are_dropped_once");
}
