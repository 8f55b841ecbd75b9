//! The search paths that this processor would not choose, against the oracle.
//!
//! A program of its own, with one test: the choice holds for the whole process.

use samara::Normal;
use samara::testing::{Level, Tiny, force};
use samara_testkit::{Campaign, Universe, campaign, ops_wanted};

#[test]
fn every_search_path() {
    if cfg!(miri) {
        println!("skipped: under Miri there is the portable search only, and the other tests run it");
        return;
    }
    let best = force(Level::Avx512);
    for level in [Level::Portable, Level::Avx512] {
        if force(level) != level {
            println!("skipped: this processor, or this build, has no {level:?}, only {best:?}");
            continue;
        }
        let ops = ops_wanted(300_000);
        let low = Campaign { name: "every_search_path", universe: Universe::Low(255), ops, script: 2_000 };
        println!("search path {level:?}:");
        campaign::<u32, u64, Normal>(low);
        campaign::<u32, u64, Tiny>(Campaign { ops: ops / 3, ..low });
        campaign::<u64, u64, Normal>(Campaign { universe: Universe::Whole, ..low });
        campaign::<u64, u64, Normal>(Campaign { universe: Universe::Both(120), ..low });
        campaign::<u64, usize, Normal>(Campaign { universe: Universe::High(255), ops: ops / 3, ..low });
    }
}
