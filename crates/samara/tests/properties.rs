//! Random scripts against the oracle.
//!
//! Each set of nodes, value and key takes seconds to compile. Four of eleven are tested always; the
//! feature `long` adds those marked so, and runs 10 to 45 times as many operations. Every key type,
//! every kind of value and all shapes of nodes are met, and the pairs whose code differs most.
//! Universes cost nothing:
//!
//! | nodes  | value                        | key               | what it stands for                                       |
//! |--------|------------------------------|-------------------|----------------------------------------------------------|
//! | real   | `u64`                        | `u64`             | packed leaves, 8-byte values: vectors move the values    |
//! | real   | `Box<Tracked>`               | `u64`             | long: the same with values that are dropped, each counted |
//! | real   | `[u64; 12]`                  | `Frame` (`u64`)   | long: packed leaves of 13 slots; a newtype that is packed |
//! | real   | `u32`                        | `u128`            | long: wide keys, 4-byte values                           |
//! | real   | `[u64; 40]`                  | `Small` (`u32`)   | leaves of 5 slots; a newtype that is never packed        |
//! | tiny   | `u32`                        | `u64`             | long: tall trees of packed leaves, 4-byte values         |
//! | tiny   | `Tracked`                    | `usize`           | tall trees, values that are dropped, each counted        |
//! | tiny   | `()`                         | `u32`             | long: tall trees of leaves that are never packed, no value |
//! | compact | `u32`                       | `u64`             | small nodes of programs with many maps                   |
//! | real   | `u32`                        | `u8`              | long: few keys: all of them, and all of them with entries |
//! | tiny   | `u32`                        | `u16`             | long: tall trees of narrow keys                          |
//!
//! Other pairs are met by the fuzz target. Leaves of `u64` keys that are wide come of themselves,
//! in the universes that have both ends or a border of packed leaves. The search path in force is
//! the processor's best; `other_searches` does the tests of real nodes with 64-bit keys over again
//! with each lower one, in a process of its own. Tiny nodes have the portable search only.
//!
//! Each test prints its first seed and how many operations it did. `SAMARA_SEED=N` repeats a run,
//! `SAMARA_OPS=N` sets how many operations each test does, `SAMARA_SEARCH=portable` (or `avx2`,
//! `avx512`) which search it uses.

use std::process::Command;

use samara::search::{Level, force};
use samara::testing::Tiny;
use samara::{Compact, Normal, Shape};
#[cfg(feature = "long")]
use samara_testkit::Frame;
use samara_testkit::{Campaign, Ledger, Small, TestKey, Tracked, Universe, Value, campaign, ops_wanted};

/// The variable that asks for a search path.
const SEARCH: &str = "SAMARA_SEARCH";

/// The most operations of a test without the feature `long`.
const SHORT: usize = 20_000;

/// Puts the search path that is asked for in force. Every test of a process asks for the same.
fn force_wanted() {
    let wanted = match std::env::var(SEARCH).as_deref() {
        Err(_) => return,
        Ok("portable") => Level::Portable,
        Ok("avx2") => Level::Avx2,
        Ok("avx512") => Level::Avx512,
        Ok(other) => panic!("{SEARCH} must be `portable`, `avx2` or `avx512`, is {other:?}"),
    };
    assert_eq!(force(wanted), wanted, "this processor, or this build, has no such search: unset {SEARCH}");
}

/// One pair in one universe.
#[inline(never)]
fn property<K: TestKey, V: Value, S: Shape>(name: &'static str, universe: Universe, ops: usize, script: usize) {
    force_wanted();
    let ops = ops_wanted(if cfg!(feature = "long") { ops } else { ops.min(SHORT) });
    let script = if cfg!(miri) { 200 } else { script.min(ops) };
    // For the values that are counted; the others leave it empty.
    let ledger = Ledger::open();
    let stats = campaign::<K, V, S>(Campaign { name, universe, ops, script, filled: 0 });
    ledger.assert_clean();
    assert_eq!(stats.ops, ops as u64);
    // Scripts that displace nothing and find no gap prove nothing. Miri's are too short to say.
    assert!(cfg!(miri) || stats.displaced > stats.ops / 50 && stats.gaps_found > stats.ops / 200, "{stats:?}");
}

/// One test a line: `name: shape, value, key, universe, operations, operations of one script`.
macro_rules! properties {
    ($($name:ident: $shape:ty, $value:ty, $key:ty, $universe:expr, $ops:expr, $script:expr;)*) => {$(
        #[test]
        fn $name() {
            property::<$key, $value, $shape>(stringify!($name), $universe, $ops, $script);
        }
    )*};
}

properties! {
    real_u64_low: Normal, u64, u64, Universe::Low(255), 900_000, 2_000;
    real_u64_high: Normal, u64, u64, Universe::High(255), 600_000, 2_000;
    real_u64_both: Normal, u64, u64, Universe::Both(100), 600_000, 2_000;
    real_u64_pages: Normal, u64, u64, Universe::Pages(32768), 300_000, 50_000;
    real_u64_middle: Normal, u64, u64, Universe::Middle(400), 600_000, 2_000;
    real_u64_whole: Normal, u64, u64, Universe::Whole, 800_000, 2_000;
    real_huge_low: Normal, [u64; 40], Small, Universe::Low(255), 100_000, 2_000;
    real_huge_whole: Normal, [u64; 40], Small, Universe::Whole, 100_000, 2_000;
    tiny_dropped_low: Tiny, Tracked, usize, Universe::Low(255), 200_000, 2_000;
    tiny_dropped_high: Tiny, Tracked, usize, Universe::High(255), 200_000, 2_000;
    tiny_dropped_whole: Tiny, Tracked, usize, Universe::Whole, 200_000, 2_000;
    compact_u64_low: Compact, u32, u64, Universe::Low(255), 200_000, 2_000;
    compact_u64_pages: Compact, u32, u64, Universe::Pages(32768), 200_000, 20_000;
    compact_u64_whole: Compact, u32, u64, Universe::Whole, 200_000, 2_000;
}

#[cfg(feature = "long")]
properties! {
    real_dropped_low: Normal, Box<Tracked>, u64, Universe::Low(255), 200_000, 2_000;
    real_dropped_high: Normal, Box<Tracked>, u64, Universe::High(255), 200_000, 2_000;
    real_dropped_middle: Normal, Box<Tracked>, u64, Universe::Middle(400), 200_000, 2_000;
    real_large_low: Normal, [u64; 12], Frame, Universe::Low(255), 200_000, 2_000;
    real_large_both: Normal, [u64; 12], Frame, Universe::Both(100), 200_000, 2_000;
    real_large_whole: Normal, [u64; 12], Frame, Universe::Whole, 200_000, 2_000;
    real_u128_high: Normal, u32, u128, Universe::High(200), 300_000, 2_000;
    real_u128_whole: Normal, u32, u128, Universe::Whole, 300_000, 2_000;
    tiny_u64_low: Tiny, u32, u64, Universe::Low(255), 900_000, 2_000;
    tiny_u64_high: Tiny, u32, u64, Universe::High(255), 600_000, 2_000;
    tiny_u64_middle: Tiny, u32, u64, Universe::Middle(60), 300_000, 2_000;
    tiny_u64_both: Tiny, u32, u64, Universe::Both(100), 600_000, 2_000;
    tiny_u64_few_keys: Tiny, u32, u64, Universe::Low(9), 300_000, 500;
    tiny_u64_pages: Tiny, u32, u64, Universe::Pages(32768), 300_000, 50_000;
    tiny_u64_whole: Tiny, u32, u64, Universe::Whole, 600_000, 2_000;
    tiny_u32_low: Tiny, (), u32, Universe::Low(100), 300_000, 2_000;
    tiny_u32_both: Tiny, (), u32, Universe::Both(100), 200_000, 2_000;
    real_u8_low: Normal, u32, u8, Universe::Low(255), 100_000, 2_000;
    real_u8_whole: Normal, u32, u8, Universe::Whole, 100_000, 2_000;
    tiny_u16_high: Tiny, u32, u16, Universe::High(255), 100_000, 2_000;
    tiny_u16_whole: Tiny, u32, u16, Universe::Whole, 100_000, 2_000;
}

/// The search paths that this processor would not choose: the tests with 64-bit keys once more, in
/// processes of their own, for the choice holds for a whole process.
#[test]
fn other_searches() {
    if cfg!(miri) || cfg!(not(target_arch = "x86_64")) {
        println!("skipped: there is the portable search only, and the other tests run it");
        return;
    }
    if std::env::var_os(SEARCH).is_some() {
        println!("skipped: {SEARCH} says which search to use");
        return;
    }
    // The best one there is, which is in force already.
    let best = force(Level::Avx512);
    for (level, name) in [(Level::Portable, "portable"), (Level::Avx2, "avx2")] {
        if (level as u8) < best as u8 {
            with_search(name);
        } else if level == best {
            println!("skipped: {name} is the best search of this processor: the other tests run it");
        } else {
            println!("skipped: this processor has no search {name}");
        }
    }
}

fn with_search(name: &str) {
    let kinds: &[&str] =
        if cfg!(feature = "long") { &["real_u64", "real_dropped", "real_large"] } else { &["real_u64", "real_huge"] };
    let done = Command::new(std::env::current_exe().unwrap())
        .args(kinds)
        .args(["--nocapture", "--test-threads=1"])
        .env(SEARCH, name)
        .env("SAMARA_OPS", ops_wanted(if cfg!(feature = "long") { 50_000 } else { 10_000 }).to_string())
        .output()
        .unwrap();
    let (said, why) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("with the {name} search:\n{said}");
    assert!(done.status.success(), "with the {name} search: {}\n{said}\n{why}", done.status);
    // A filter that no test answers to would succeed too.
    for kind in kinds {
        assert!(said.contains(&format!(" {kind}")), "no test of the kind {kind} ran:\n{said}");
    }
}
