//! Each design as the index of an address space: all calls answer as over samara's own.

#[path = "../../../crates/samara-mm/tests/support/rng.rs"]
#[allow(dead_code)]
mod rng;
#[path = "../../../crates/samara-mm/tests/shared/world.rs"]
#[allow(dead_code)]
mod world;

use rng::Rng;
use samara_mm::{AddressSpace, AreaIndex, FileId};
use samara_rivals::designs::btreemap::ByFirst;
use samara_rivals::designs::design::Design;
use samara_rivals::designs::list::List;
use samara_rivals::designs::maple::Maple;
use samara_rivals::designs::rangemap::ByRange;
use samara_rivals::designs::rbtree::{ByPage, Hint, RbTree};
use samara_rivals::designs::splay::Splay;
use world::{Call, narrow, shown, space_with};

fn answers_as_samara<I: AreaIndex<FileId>>() {
    let seed = std::env::var("SAMARA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for round in 0..200 {
        let seed = u64::wrapping_add(seed, round);
        let pages = if round % 4 == 0 { 200 } else { 24 };
        let bases = narrow(&mut Rng(seed), pages);
        let mut samara: AddressSpace<FileId> = space_with(&mut Rng(seed), bases);
        let mut design: AddressSpace<FileId, I> = space_with(&mut Rng(seed), bases);
        let mut r = Rng(seed ^ 0xde_516);
        for step in 0..400 {
            let call = if r.one_in(2) { Call::random(&mut r, pages) } else { Call::searching(&mut r, pages) };
            let why = || format!("SAMARA_SEED={seed} step {step}: {call:?}");
            assert_eq!(call.on_space(&mut samara), call.on_space(&mut design), "{}", why());
            assert_eq!(shown(&samara), shown(&design), "{}", why());
        }
    }
}

#[test]
fn a_btreemap() {
    answers_as_samara::<Design<ByFirst<FileId>, FileId>>();
}

#[test]
fn a_list() {
    answers_as_samara::<Design<List<FileId>, FileId>>();
}

#[test]
fn a_red_black_tree() {
    answers_as_samara::<Design<RbTree<FileId, ByPage>, FileId>>();
}

#[test]
fn a_list_and_a_red_black_tree() {
    answers_as_samara::<Design<RbTree<FileId, Hint>, FileId>>();
}

#[test]
fn a_splay_tree() {
    answers_as_samara::<Design<Splay<FileId>, FileId>>();
}

#[test]
fn a_maple_tree() {
    answers_as_samara::<Maple<FileId>>();
}

#[test]
fn a_rangemap() {
    answers_as_samara::<Design<ByRange<FileId>, FileId>>();
}
