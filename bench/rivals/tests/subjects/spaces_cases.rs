//! The cases of `spaces`. A timed case compares its own answers, so these tests run the cases and
//! ignore the times. Spaces with one wrong operation prove that the comparison detects it.

use crate::programs::{objects, rivals};
use clap::ValueEnum;
use samara_bench::data::{Data, PAGE};
use samara_rivals::spaces::area_locks::AreaLocks;
use samara_rivals::spaces::cases::Case;
use samara_rivals::spaces::kinds::Kind;
use samara_rivals::spaces::loaded::{Loaded, Subject, Turn};
use samara_rivals::spaces::rwlock::Locked;
use samara_rivals::spaces::samara::Samara;
use samara_rivals::spaces::skiplist::Skiplist;
use samara_rivals::spaces::space::{Allocate, Apply, Fork, HEAP, Space, Thread};
use samara_rivals::suite_args::Named;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn turn(round: u64, threads: usize, effort: usize) -> Turn {
    Turn { round, effort, limit: Duration::from_millis(20), threads }
}

/// Number of subjects of a case.
fn does(case: Case) -> usize {
    Kind::value_variants().iter().filter(|kind| kind.does(case)).count()
}

#[test]
fn every_subject_answers_every_case() {
    for n in [3, 9, 100, 2000] {
        let data = Data::new(n);
        for kind in Kind::value_variants() {
            let mut subject = kind.load(&data);
            for case in Case::value_variants().iter().copied().filter(|case| kind.does(*case)) {
                let mut rows = Vec::new();
                for round in 0..3 {
                    let at = format!("{} {} {n}", kind.name(), case.name());
                    let effort = if case.fork().is_some() || case.links() { 3 } else { 500 };
                    let figures = subject.time(case, &data, turn(round, 1 + round as usize, effort));
                    let named = figures[0].row == case.name() || *kind == Kind::SamaraMap;
                    assert!(named, "{at}: {figures:?}");
                    assert!(figures.iter().all(|figure| figure.value.is_finite()), "{at}: {figures:?}");
                    let these: Vec<&str> = figures.iter().map(|figure| figure.row).collect();
                    assert!(round == 0 || rows == these, "{at}: {rows:?} {these:?}");
                    rows = these;
                }
            }
        }
    }
}

#[test]
fn every_case_has_the_subjects_that_it_should() {
    assert_eq!([Case::Fault, Case::FaultOneArea, Case::ForkDup, Case::ForkSnapshot].map(does), [5, 4, 4, 3]);
    assert_eq!([Case::ExecUnlink, Case::RmapScaling].map(does), [3, 2]);
    for case in Case::value_variants() {
        assert!(does(*case) > 0 && !case.sizes().is_empty(), "{} is measured nowhere", case.name());
    }
}

/// The areas of a space.
fn areas<S: Space>(space: &S) -> Vec<(u64, u64)> {
    let mut areas = Vec::new();
    space.thread().read_all(|start, end| areas.push((start, end)));
    areas
}

#[test]
fn the_spaces_agree() {
    agree::<AreaLocks>();
    agree::<Samara>();
    agree::<Skiplist>();
}

/// Compares a space with [`Locked`], call by call.
fn agree<S: Space>() {
    const PAGES: u64 = 60;
    let seed =
        std::env::var("SAMARA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("SAMARA_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (one, other) = (<Locked>::empty(), S::empty());
    let (mut cut, mut hits) = (0, 0);
    for _ in 0..5_000 {
        let mut threads = (one.thread(), other.thread());
        let (start, len) = (rng.u64(1..PAGES) * PAGE, rng.u64(1..6) * PAGE);
        match rng.u32(0..10) {
            0..3 => assert!(
                threads.0.map_fixed(start, len, Apply::NOTHING) && threads.1.map_fixed(start, len, Apply::NOTHING)
            ),
            3..6 => {
                let before = areas(&one).len();
                assert!(threads.0.unmap(start, len, Apply::NOTHING) && threads.1.unmap(start, len, Apply::NOTHING));
                cut += usize::from(areas(&one).len() > before);
            }
            6 => {
                let to = HEAP + rng.u64(0..3 * PAGE);
                assert_eq!([threads.0.brk(to), threads.1.brk(to)], [to; 2]);
            }
            _ => {
                let addr = rng.u64(0..(PAGES + 6) * PAGE);
                let served = threads.0.fault(addr, false);
                assert_eq!(served, threads.1.fault(addr, false), "a fault at {addr:#x}");
                hits += usize::from(served > 0);
            }
        }
        assert_eq!(areas(&one), areas(&other));
        one.check();
        other.check();
    }
    assert!(cut > 20 && hits > 200, "{cut} {hits}");
    for fork in S::FORKS {
        let children = (one.fork(*fork), other.fork(*fork));
        children.1.check();
        assert_eq!((areas(&children.0), areas(&children.1)), (areas(&one), areas(&one)));
        assert!(children.1.thread().unmap(0, (PAGES + 6) * PAGE, Apply::NOTHING));
        assert!(areas(&children.1).len() <= 1 && areas(&other) == areas(&one), "the parent is as it was");
    }
}

#[test]
fn faults_meanwhile_are_served_by_areas_that_are_there() {
    fault_beside_cuts(&AreaLocks::empty());
    fault_beside_cuts(&Skiplist::empty());
}

/// One thread cuts a hole into an area and closes it; the other faults on both sides of it.
fn fault_beside_cuts<S: Space>(space: &S) {
    let (start, len) = (64 * PAGE, 9 * PAGE);
    assert!(space.thread().map_fixed(start, len, Apply::NOTHING));
    let (low, high, hole) = (start, start + len - PAGE, start + 4 * PAGE);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let mut thread = space.thread();
            while !stop.load(Ordering::Relaxed) {
                assert!(thread.unmap(hole, PAGE, Apply::NOTHING) && thread.map_fixed(hole, PAGE, Apply::NOTHING));
            }
        });
        let (mut thread, mut faults, mut cut) = (space.thread(), 0, 0);
        // It goes on until some have met the hole, whatever the scheduler does.
        while (faults < 20_000 || cut < 5) && !updates.is_finished() {
            let found = [low, hole, high].map(|addr| thread.fault(addr, true));
            let right = found[0] == start && [0, start].contains(&found[1]) && [hole + PAGE, start].contains(&found[2]);
            if !right {
                stop.store(true, Ordering::Relaxed);
                panic!("wrong areas: {found:x?}");
            }
            (faults, cut) = (faults + 1, cut + usize::from(found[2] != start));
        }
        stop.store(true, Ordering::Relaxed);
        updates.join().expect("updates");
    });
    space.check();
    assert_eq!(areas(space), [(start, start + len)]);
}

#[test]
fn places_cover_all_addresses_whatever_threads_do() {
    let space = Skiplist::empty();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let space = &space;
            scope.spawn(move || {
                let (mut rng, mut thread) = (fastrand::Rng::with_seed(seed), space.thread());
                for _ in 0..5_000 {
                    let (start, len) = (rng.u64(0..40) * PAGE, rng.u64(1..9) * PAGE);
                    match rng.u32(0..6) {
                        0 | 1 => assert!(thread.map_fixed(start, len, Apply::NOTHING)),
                        2 | 3 => assert!(thread.unmap(start, len, Apply::NOTHING)),
                        4 => {
                            let at = thread.allocate(len);
                            assert_ne!(thread.fault(at + len - 1, true), 0, "what this thread has mapped");
                            thread.make_read_only(at, len);
                            assert_eq!(thread.fault(at, true), 0, "what this thread has protected");
                            assert!(thread.unmap(at, len, Apply::NOTHING));
                        }
                        _ => {
                            let at = thread.fault(start, false);
                            assert!(at <= start, "an area that holds {start:#x}: {at:#x}");
                            thread.read_all(|start, end| assert!(start < end));
                        }
                    }
                }
            });
        }
    });
    space.check();
    assert!(areas(&space).iter().all(|(_, end)| *end <= 49 * PAGE), "each allocation was unmapped");
}

/// The wrong operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// One fault in 50 is refused.
    Refuse = 1,
    /// One fault in 50 is served by another area.
    Serve,
    /// A map does nothing.
    Map,
    /// An unmap does nothing.
    Unmap,
    /// The break stays where it is.
    Brk,
    /// A walk leaves out the first area.
    Walk,
    /// A child lacks an area.
    Fork,
}

/// A space that does one thing wrong, once it is filled.
struct Wrong<const FAULT: u8>(Locked);

struct WrongThread<'a, const FAULT: u8> {
    thread: &'a Locked,
    faults: Cell<usize>,
}

impl<const FAULT: u8> Space for Wrong<FAULT> {
    const FORKS: &'static [Fork] = <Locked>::FORKS;
    type Thread<'a> = WrongThread<'a, FAULT>;

    fn empty() -> Self {
        Wrong(<Locked>::empty())
    }
    fn thread(&self) -> Self::Thread<'_> {
        WrongThread { thread: &self.0, faults: Cell::new(0) }
    }
    fn fork(&self, fork: Fork) -> Self {
        let child = self.0.fork(fork);
        if FAULT == Fault::Fork as u8 {
            let (start, end) = areas(&child)[0];
            assert!((&child).unmap(start, end - start, Apply::NOTHING));
        }
        Wrong(child)
    }
    fn filled(data: &Data) -> Self {
        Wrong(<Locked>::filled(data))
    }
}

impl<const FAULT: u8> Thread for WrongThread<'_, FAULT> {
    fn fault(&mut self, addr: u64, write: bool) -> u64 {
        let served = self.thread.fault(addr, write);
        let wrong = self.faults.replace(self.faults.get() + 1) % 50 == 49;
        match FAULT {
            fault if wrong && fault == Fault::Refuse as u8 => 0,
            fault if wrong && fault == Fault::Serve as u8 => served + PAGE,
            _ => served,
        }
    }
    fn map_fixed(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        FAULT == Fault::Map as u8 || self.thread.map_fixed(start, len, apply)
    }
    fn unmap(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        FAULT == Fault::Unmap as u8 || self.thread.unmap(start, len, apply)
    }
    fn brk(&mut self, to: u64) -> u64 {
        if FAULT == Fault::Brk as u8 { HEAP + PAGE } else { self.thread.brk(to) }
    }
    fn read_all(&mut self, mut visit: impl FnMut(u64, u64)) {
        let mut skip = FAULT == Fault::Walk as u8;
        self.thread.read_all(|start, end| {
            if !std::mem::take(&mut skip) {
                visit(start, end);
            }
        });
    }
}

/// The cases of spaces without reverse maps.
fn spaces_alone() -> impl Iterator<Item = Case> {
    Case::value_variants().iter().copied().filter(|case| !case.links())
}

/// The cases that detect a space with this fault.
fn detected<const FAULT: u8>() -> Vec<Case> {
    let data = Data::new(100);
    let cases = spaces_alone();
    let is_detected = |case: &Case| {
        let run = || {
            let mut subject = Loaded(Wrong::<FAULT>::filled(&data));
            let effort = if case.fork().is_some() { 3 } else { 500 };
            subject.time(*case, &data, turn(0, 2, effort));
        };
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    cases.filter(is_detected).collect()
}

#[test]
fn wrong_answers_are_detected() {
    std::panic::set_hook(Box::new(|_| ()));
    use Case::*;
    let all: Vec<Case> = spaces_alone().collect();
    assert_eq!(detected::<0>(), [], "a right space is right");
    let faults = [Case::Fault, FaultOneArea, FaultBesideUpdates, FaultBesideFork];
    assert_eq!(detected::<{ self::Fault::Refuse as u8 }>(), faults);
    assert_eq!(detected::<{ self::Fault::Serve as u8 }>(), faults);
    assert_eq!(detected::<{ self::Fault::Map as u8 }>(), all);
    assert_eq!(detected::<{ self::Fault::Unmap as u8 }>(), all);
    assert_eq!(detected::<{ self::Fault::Brk as u8 }>(), [BrkThreads, BrkProcesses]);
    assert_eq!(detected::<{ self::Fault::Walk as u8 }>(), all);
    assert_eq!(detected::<{ self::Fault::Fork as u8 }>(), [ForkInsert, ForkDup, ForkSnapshot]);
    drop(std::panic::take_hook());
}

#[test]
fn the_program_prints_one_object_a_line() {
    let lines = objects("spaces --quick --rounds 1 --json --n 40 --threads 1,2");
    let mut counted = 0;
    let mut is = |row: &str, threads: &[usize], subjects: usize| {
        for threads in threads {
            let of_row = |line: &&serde_json::Value| line["case"] == row && line["threads"] == *threads;
            assert_eq!(lines.iter().filter(of_row).count(), subjects, "{row}, {threads} threads");
            counted += subjects;
        }
    };
    let spaces = does(Case::FaultOneArea);
    is("fault", &[1], spaces);
    is("lookup_pinned", &[1], does(Case::Fault) - spaces); // a map alone
    for row in ["fault_one_area", "updates_disjoint", "updates_disjoint_1us", "brk_threads", "brk_processes"] {
        is(row, &[1, 2], spaces);
    }
    for row in ["fault_beside_updates", "fault_beside_fork"] {
        for of in ["", "_p999", "_longest"] {
            is(&format!("{row}{of}"), &[2], spaces);
            is(&format!("{row}_alone{of}"), &[1], spaces);
        }
    }
    for (row, threads) in [("update_beside_faults", 2), ("fork_beside_faults", 2), ("maps_readers", 3)] {
        is(row, &[threads], spaces);
        is(&format!("{row}_alone"), &[1], spaces);
    }
    for row in ["maps_readers_longest", "maps_walk"] {
        is(row, &[3], spaces);
    }
    is("maps_readers_alone_longest", &[1], spaces);
    for (row, case) in
        [("fork_insert", Case::ForkInsert), ("fork_dup", Case::ForkDup), ("fork_snapshot", Case::ForkSnapshot)]
    {
        is(row, &[1], does(case));
        is(&format!("{row}_writes"), &[1], does(case));
    }
    for case in [Case::ExecUnlink, Case::ForkLink, Case::ImageMap, Case::RmapScaling] {
        is(&case.name(), &[1, 2], does(case));
    }
    assert_eq!(lines.len(), counted);
    let whole = |line: &serde_json::Value| {
        line["suite"] == "spaces" && line["unit"] == "ns" && line["rounds"] == 1 && line["value"].is_number()
    };
    assert!(lines.iter().all(whole), "{lines:?}");
    for wrong in ["--n 1", "--threads 0", "--rounds 0", "--threads 9 --n 8"] {
        assert!(rivals(&format!("spaces {wrong}")).is_err(), "{wrong}");
    }
}
