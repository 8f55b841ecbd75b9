//! The cases of `index`. A timed case compares its own answers, so these tests run the cases and
//! ignore the times. Maps with one wrong operation prove that the comparison detects it.

use crate::programs::{objects, rivals, run};
use clap::ValueEnum;
use samara_bench::data::Item;
use samara_rivals::cases::{Case, Stage};
use samara_rivals::kinds::Kind;
use samara_rivals::loaded::{Built, Loaded, Scene, Subject};
use samara_rivals::map::Map;
use samara_rivals::suite_args::Named;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn timed() -> impl Iterator<Item = Case> {
    Case::value_variants().iter().copied().filter(|case| case.stage() != Stage::Counted)
}

#[test]
fn every_subject_answers_every_case() {
    for n in [1, 2, 3, 9, 100, 2000] {
        let scene = Scene::new(n);
        for kind in Kind::value_variants() {
            let mut subject = kind.load(&scene);
            for stage in Stage::ALL {
                if stage == Stage::Churned && kind.does(Case::IterateChurned) {
                    subject.churn(&scene, 10 * n);
                }
                for case in timed().filter(|case| case.stage() == stage && kind.does(*case)) {
                    for round in 0..2 {
                        let nanos = subject.time(case, &scene, round, 500);
                        assert!(nanos.is_finite() && nanos >= 0.0, "{} {} {n}: {nanos}", kind.name(), case.name());
                    }
                    subject.rest();
                }
            }
        }
    }
}

#[test]
fn every_case_has_a_subject_and_every_rival_looks_up() {
    for case in timed() {
        assert!(Kind::value_variants().iter().any(|kind| kind.does(case)), "{} is measured nowhere", case.name());
    }
    for kind in Kind::value_variants() {
        assert!(kind.does(Case::Lookup) && kind.does(Case::Overwrite));
        // The search method does not change a map's memory.
        assert_eq!(kind.does(Case::BytesPerRange), kind.search().is_none());
    }
    // Subjects that become equal by wearing or building are measured once.
    assert!(!Kind::SamaraBulk.does(Case::IterateChurned) && !Kind::BtreemapBulk.does(Case::Append));
}

type Tree = BTreeMap<u64, (u64, u64)>;

/// The wrong operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Lookup = 1,
    Before,
    Store,
    Erase,
    Overwrite,
    Each,
    EachRev,
    Gap,
    Copy,
    Snapshot,
    Bulk,
}

/// A map that does one thing wrong.
struct Wrong<const FAULT: u8>(Tree);

impl<const FAULT: u8> Wrong<FAULT> {
    const fn has(fault: Fault) -> bool {
        FAULT == fault as u8
    }
}

impl<const FAULT: u8> Map for Wrong<FAULT> {
    fn empty() -> Self {
        Wrong(Tree::empty())
    }
    fn bulk(items: &[Item]) -> Option<Self> {
        let less = usize::from(Self::has(Fault::Bulk));
        Tree::bulk(&items[less..]).map(Wrong)
    }
    fn lookups(&self, keys: &[u64]) -> u64 {
        self.0.lookups(keys) + u64::from(Self::has(Fault::Lookup))
    }
    fn befores(&self, keys: &[u64]) -> u64 {
        self.0.befores(keys) + u64::from(Self::has(Fault::Before))
    }
    fn store(&mut self, item: Item) {
        self.0.store((item.0, item.1, item.2 + u64::from(Self::has(Fault::Store))));
    }
    fn erase(&mut self, item: Item) -> Option<u64> {
        if Self::has(Fault::Erase) { Some(item.2) } else { self.0.erase(item) }
    }
    fn overwrite(&mut self, item: Item) {
        if Self::has(Fault::Overwrite) { self.0.store(item) } else { self.0.overwrite(item) }
    }
    fn each(&self, mut visit: impl FnMut(Item)) {
        let mut first = Self::has(Fault::Each);
        self.0.each(|item| {
            if !std::mem::take(&mut first) {
                visit(item)
            }
        });
    }
    fn each_rev(&self, mut visit: impl FnMut(Item)) {
        let mut first = Self::has(Fault::EachRev);
        self.0.each_rev(|item| {
            if !std::mem::take(&mut first) {
                visit(item)
            }
        });
    }
    fn walk(&self, from: u64, visit: impl FnMut(u64, u64) -> bool) {
        self.0.walk(from + u64::from(Self::has(Fault::Gap)), visit);
    }
    fn walk_rev(&self, from: u64, visit: impl FnMut(u64, u64) -> bool) -> bool {
        self.0.walk_rev(if Self::has(Fault::Gap) { from - 0x10000 } else { from }, visit)
    }
    fn gap(&self, want: &samara_rivals::gap::Gap) -> Option<u64> {
        want.scan(self).map(|first| first + u64::from(Self::has(Fault::Gap)))
    }
    fn copy(&self) -> Option<Self> {
        let mut copy = self.0.clone();
        if Self::has(Fault::Copy) {
            copy.pop_first();
        }
        Some(Wrong(copy))
    }
    fn snapshot(&self) -> Option<Self> {
        let mut copy = self.0.clone();
        if Self::has(Fault::Snapshot) {
            copy.pop_last();
        }
        Some(Wrong(copy))
    }
}

/// The cases that detect a map with this fault.
fn detected<const FAULT: u8>(built: Built) -> Vec<Case> {
    let scene = Scene::new(100);
    timed()
        .filter(|case| {
            let run = || {
                let mut subject = Loaded::<Wrong<FAULT>>::new(&scene, built);
                if case.stage() == Stage::Churned {
                    subject.churn(&scene, 100);
                }
                for round in 0..2 {
                    subject.time(*case, &scene, round, 200);
                }
            };
            catch_unwind(AssertUnwindSafe(run)).is_err()
        })
        .collect()
}

#[test]
fn wrong_answers_are_detected() {
    std::panic::set_hook(Box::new(|_| ()));
    use Case::*;
    let both = |cases: &[Case], detected: &[Case]| cases.iter().all(|case| detected.contains(case));
    assert_eq!(detected::<0>(Built::Insert), [], "a right map is right");
    assert!(both(&[Lookup, LookupHit, FirstWriteAfterSnapshot], &detected::<{ Fault::Lookup as u8 }>(Built::Insert)));
    assert_eq!(detected::<{ Fault::Before as u8 }>(Built::Insert), [AtOrBefore, RangeBefore]);
    let stored = detected::<{ Fault::Store as u8 }>(Built::Bulk);
    assert!(both(&[Replace, Overwrite, Split, Append, RandomFill, MunmapMmap, IterateChurned], &stored), "{stored:?}");
    let erased = detected::<{ Fault::Erase as u8 }>(Built::Insert);
    assert!(both(&[MunmapMmap], &erased), "{erased:?}");
    let over = detected::<{ Fault::Overwrite as u8 }>(Built::Insert);
    assert!(both(&[Overwrite, Split], &over), "{over:?}");
    let walked = detected::<{ Fault::Each as u8 }>(Built::Insert);
    assert!(both(&[Iterate, IterateChurned, Clone, Snapshot, Append, BulkBuild, Replace], &walked), "{walked:?}");
    assert_eq!(detected::<{ Fault::EachRev as u8 }>(Built::Insert), [IterateRev]);
    let gap = detected::<{ Fault::Gap as u8 }>(Built::Insert);
    assert!(both(&[GapLow, GapHigh, GapAligned, GapMisaligned, GapPadded, MunmapMmap], &gap), "{gap:?}");
    assert!(both(&[Clone, CloneChurned], &detected::<{ Fault::Copy as u8 }>(Built::Insert)));
    assert!(both(&[Snapshot], &detected::<{ Fault::Snapshot as u8 }>(Built::Insert)));
    assert!(both(&[BulkBuild], &detected::<{ Fault::Bulk as u8 }>(Built::Insert)));
    drop(std::panic::take_hook());
}

#[test]
fn bytes_are_counted_filled_and_worn() {
    for kind in Kind::value_variants() {
        let wear = if kind.does(Case::BytesPerRangeChurned) { "10000" } else { "0" };
        let text = run(env!("CARGO_BIN_EXE_samara-rivals-bytes"), &format!("{} 1000 {wear}", kind.name()));
        let numbers = text.expect("figures");
        let bytes: Vec<f64> = numbers.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        // A range is at least a first key, a last key as an offset, and a value.
        assert!(
            bytes.len() == 2 && bytes.iter().all(|bytes| (16.0..400.0).contains(bytes)),
            "{}: {bytes:?}",
            kind.name()
        );
    }
}

#[test]
fn the_program_prints_one_object_a_line() {
    let lines = objects("index --quick --json --n 50,60 --case lookup,bytes_per_range --subject btreemap,samara");
    assert_eq!(lines.len(), 8);
    assert_eq!(lines.iter().filter(|line| line["case"] == "lookup" && line["rounds"] == 3).count(), 4);
    assert!(lines.iter().all(|line| line["suite"] == "index" && line["value"].as_f64() > Some(0.0)));
    assert!(rivals("index --n 0").is_err());
}
