//! An address space over an index of the caller's: each call answers as over Samara's own.

mod sorted_list;

#[path = "../support/rng.rs"]
mod rng;
#[allow(dead_code)]
#[path = "../shared/world.rs"]
mod world;

use rng::Rng;
use samara_mm::{AddressSpace, FileId};
use sorted_list::SortedList;
use world::{Call, narrow, shown, space_with};

type Listed = AddressSpace<FileId, SortedList<FileId>>;

#[test]
fn a_list_answers_as_the_tree_does() {
    let seed = std::env::var("SAMARA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for round in 0..if cfg!(feature = "long") { 300 } else { 100 } {
        let seed = u64::wrapping_add(seed, round);
        let bases = narrow(&mut Rng(seed), 24);
        let mut tree: AddressSpace<FileId> = space_with(&mut Rng(seed), bases);
        let mut list: Listed = space_with(&mut Rng(seed), bases);
        let mut r = Rng(seed ^ 0x1d_e8);
        for step in 0..200 {
            let call = if r.one_in(2) { Call::random(&mut r, 24) } else { Call::searching(&mut r, 24) };
            assert_eq!(call.on_space(&mut tree), call.on_space(&mut list), "SAMARA_SEED={seed} step {step}: {call:?}");
            assert_eq!(shown(&tree), shown(&list), "SAMARA_SEED={seed} step {step}: {call:?}");
            if r.one_in(20) {
                match (tree.fork(), list.fork()) {
                    (Ok(child), Ok(other)) => (tree, list) = (child, other),
                    (child, other) => assert_eq!(child.map(drop), other.map(drop), "SAMARA_SEED={seed} step {step}"),
                }
            }
            if r.one_in(20) {
                let config = tree.config().clone();
                (tree, list) = (tree.snapshot(config.clone()).unwrap(), list.snapshot(config).unwrap());
            }
        }
        tree.check().unwrap();
        list.check().unwrap();
    }
}
