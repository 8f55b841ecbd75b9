//! The cases of `shared`. A timed case compares its own answers, so these tests run the cases and
//! ignore the times. Maps with one wrong operation prove that the comparison detects it.

use crate::programs::{objects, rivals};
use clap::ValueEnum;
use samara_bench::data::{Data, Item};
use samara_rivals::loaded::Scene;
use samara_rivals::shared::cases::Case;
use samara_rivals::shared::kinds::Kind;
use samara_rivals::shared::loaded::{Shared, Subject, Turn};
use samara_rivals::shared::map::{Guard, Reader, SharedMap};
use samara_rivals::shared::subjects::locks::ParkingLot;
use samara_rivals::suite_args::Named;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn turn(case: Case, round: u64, threads: usize, effort: usize) -> Turn {
    Turn { round, effort, limit: Duration::from_millis(50), threads: case.threads(threads) }
}

#[test]
fn every_subject_answers_every_case() {
    for n in [1, 2, 3, 9, 100, 2000] {
        let scene = Scene::new(n);
        // If all threads store to few places, spinning threads take long on a busy machine.
        let effort = if n < 100 { 200 } else { 3_000 };
        for kind in Kind::value_variants() {
            let mut subject = kind.load(&scene);
            for case in Case::value_variants().iter().copied().filter(|case| kind.does(*case)) {
                let mut rows = Vec::new();
                for round in 0..3 {
                    let at = format!("{} {} {n}", kind.name(), case.name());
                    let figures = subject.time(case, &scene, turn(case, round, 1 + round as usize, effort));
                    assert_eq!(figures[0].row, case.name(), "{at}");
                    assert!(figures.iter().all(|figure| figure.value.is_finite()), "{at}: {figures:?}");
                    let missed = case == Case::FalseMisses && kind.is_whole() && figures[0].value > 0.0;
                    assert!(!missed, "{at}: {figures:?}");
                    let these: Vec<&str> = figures.iter().map(|figure| figure.row).collect();
                    assert!(round == 0 || rows == these, "{at}: {rows:?} {these:?}");
                    rows = these;
                }
            }
        }
    }
}

#[test]
fn maps_of_points_miss_what_is_there_all_the_time() {
    // The maps do not guarantee this, but if it is never seen, the case measures nothing.
    let scene = Scene::new(3);
    let missed = |kind: &Kind| {
        let mut subject = kind.load(&scene);
        let turn = Turn { limit: Duration::from_secs(1), ..turn(Case::FalseMisses, 0, 2, 1_000_000) };
        subject.time(Case::FalseMisses, &scene, turn)[0].value
    };
    let kinds = Kind::value_variants().iter().filter(|kind| kind.does(Case::FalseMisses) && !kind.is_whole());
    let misses: Vec<f64> = kinds.map(missed).collect();
    assert!(misses.iter().any(|misses| *misses > 0.0), "{misses:?}");
}

#[test]
fn every_case_has_a_subject() {
    for case in Case::value_variants() {
        assert!(Kind::value_variants().iter().any(|kind| kind.does(*case)), "{} is measured nowhere", case.name());
    }
    let does = |case| Kind::value_variants().iter().filter(|kind| kind.does(case)).count();
    assert_eq!([Case::LookupExclusive, Case::ReplaceExclusive].map(does), [2, 2]);
    // Readers lock the writer out, or hold nothing.
    assert_eq!(does(Case::ReadPinned) - does(Case::WriterBesideStalledReader), 3);
}

/// The wrong operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// One lookup in 50 finds another value.
    Lookup = 1,
    /// One lookup in 50 finds nothing.
    Miss,
    /// A replace does nothing.
    Replace,
    /// A replace leaves an older version.
    Version,
}

/// A map that does one thing wrong.
struct Wrong<const FAULT: u8> {
    map: ParkingLot,
    lookups: AtomicUsize,
}

impl<const FAULT: u8> SharedMap for Wrong<FAULT> {
    const WHOLE: bool = true;
    type Reader<'a> = &'a Self;

    fn filled(data: &Data) -> Self {
        Wrong { map: ParkingLot::filled(data), lookups: AtomicUsize::new(0) }
    }
    fn reader(&self) -> &Self {
        self
    }
    fn replace(&self, item: Item) {
        if FAULT == Fault::Version as u8 {
            self.map.replace((item.0, item.1, item.2 & 0xff_ffff_ffff));
        } else if FAULT != Fault::Replace as u8 {
            self.map.replace(item);
        }
    }
}

impl<const FAULT: u8> Reader for Wrong<FAULT> {
    type Guard<'a> = &'a Self;

    fn pin(&self) -> &Self {
        self
    }
}

impl<const FAULT: u8> Guard for &Wrong<FAULT> {
    fn at(&self, key: u64) -> u64 {
        let value = self.map.pin().at(key);
        let wrong = self.lookups.fetch_add(1, Ordering::Relaxed) % 50 == 49;
        match FAULT {
            fault if wrong && fault == Fault::Lookup as u8 => value + 1,
            fault if wrong && fault == Fault::Miss as u8 => 0,
            _ => value,
        }
    }
}

/// The cases that detect a map with this fault.
fn detected<const FAULT: u8>() -> Vec<Case> {
    let scene = Scene::new(100);
    let cases = Case::value_variants().iter().copied().filter(|case| Kind::RwlockBtreemap.does(*case));
    cases
        .chain([Case::WriterBesideStalledReader])
        .filter(|case| {
            let run = || {
                let mut subject = Shared(Wrong::<FAULT>::filled(&scene.data));
                for round in 0..2 {
                    let figures = subject.time(*case, &scene, turn(*case, round, 2, 3_000));
                    // This case counts.
                    assert!(*case != Case::FalseMisses || figures[0].value == 0.0);
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
    assert_eq!(detected::<0>(), [], "a right map is right");
    let writes =
        [ReplaceShared, WriteScaling, WriteScalingApart, ReadBesideWriter, FalseMisses, WriterBesideStalledReader];
    let all = [&[ReadPinned, ReadPinEach, ReadScaling], &writes[..]].concat();
    assert_eq!(detected::<{ Fault::Lookup as u8 }>(), all);
    assert_eq!(detected::<{ Fault::Miss as u8 }>(), all);
    assert_eq!(detected::<{ Fault::Replace as u8 }>(), writes);
    assert_eq!(detected::<{ Fault::Version as u8 }>(), writes);
    drop(std::panic::take_hook());
}

#[test]
fn the_program_prints_one_object_a_line() {
    let lines = objects(
        "shared --quick --json --n 50,60 --case read_scaling,read_beside_writer,lookup_exclusive \
         --subject btreemap,scc,rwlock_btreemap --threads 2,3",
    );
    let count = |case: &str, threads: usize| {
        lines.iter().filter(|line| line["case"] == case && line["threads"] == threads).count()
    };
    assert_eq!([2, 3].map(|threads| count("read_scaling", threads)), [4, 4]);
    assert_eq!(["read_beside_writer_p999", "write_beside_reader"].map(|case| count(case, 2)), [4, 4]);
    assert_eq!(count("lookup_exclusive", 1), 2);
    assert_eq!(lines.len(), 8 + 16 + 2);
    assert!(lines.iter().all(|line| line["suite"] == "shared" && line["rounds"] == 3 && line["value"].is_number()));
    for wrong in ["--n 0", "--threads 0"] {
        assert!(rivals(&format!("shared {wrong}")).is_err(), "{wrong}");
    }
}
