//! Checks verdicts on random programs: if the model makes the suggested change, as many areas go as
//! the verdict says. Areas and reasons come from the model. No memory is written, because that
//! would keep apart areas that do not touch yet.

use samara_mm::{
    AddressSpace, Advice, Config, Flags, LockKind, MapRequest, Plan, Prot, RemapMode, RemapRequest, Touches,
};
use samara_trace::event::{AreaRecord, Event, EventKind};
use samara_trace::file::{Replay, Stacks, reasons};
use samara_trace::why::{self, Origins, Role, Verdict, VerdictKind, Why};

use crate::space::model::{self, Model};

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;
/// Pages of a unit, and number of units of a program: enough for every verdict to be reported.
const UNIT: u64 = 12;
const UNITS: u64 = 24;

/// An action of a program on a run of a unit's pages.
#[derive(Clone, Copy, Debug)]
enum Act {
    Protect(Prot),
    Lock,
    DontDump,
    Unmap,
}

/// A program: a model, and its recording.
struct Program {
    model: Model,
    replay: Replay,
    origins: Origins,
    seq: u64,
}

impl Program {
    fn new() -> Program {
        let config = Config { touches: Touches::Told, task_size: 1 << 47, ..Config::default() };
        let (model, replay) = (AddressSpace::new(config), Replay::default());
        let mut program = Program { model, replay, origins: Origins::default(), seq: 0 };
        program.record(EventKind::Exec, None, [0; 6], &Plan::default(), (0, u64::MAX));
        program
    }

    fn record(&mut self, kind: EventKind, nr: Option<i64>, args: [u64; 6], plan: &Plan, (start, end): (u64, u64)) {
        let around = self.model.areas_in(start.saturating_sub(1), end.saturating_add(1));
        let window = around.fold((start, end), |(first, last), a| (first.min(a.start), last.max(a.end)));
        let event = Event {
            entry_ns: self.seq * 1000,
            exit_ns: self.seq * 1000 + 500,
            nr: nr.map(|nr| nr as u32),
            args,
            plan: model::steps(plan.steps()),
            window: Some(window),
            areas: model::records(&self.model, window.0, window.1),
            ..Event::new(self.seq, kind)
        };
        self.seq += 1;
        self.replay.apply(&event).unwrap();
        self.origins.apply(&event, &self.replay);
        assert!(self.origins.agrees(&self.replay), "after {event:?}");
    }

    fn map(&mut self, start: u64, len: u64) {
        let plan = self.model.map(&MapRequest::anonymous(start, len, Prot::RW)).unwrap();
        self.record(EventKind::Call, Some(libc::SYS_mmap), [0, len, 3, 0x22, 0, 0], &plan, (start, start + len));
    }

    fn act(&mut self, act: Act, start: u64, len: u64) {
        // A call on a hole is refused.
        let (nr, arg, done) = match act {
            Act::Protect(prot) => {
                (libc::SYS_mprotect, u64::from(prot.bits()), self.model.protect(start, len, prot, None))
            }
            Act::Lock => (libc::SYS_mlock2, 1, self.model.lock(start, len, LockKind::OnFault)),
            Act::DontDump => {
                let advice = Advice::DontDump;
                (libc::SYS_madvise, advice as u64, self.model.advise(start, len, advice))
            }
            Act::Unmap => (libc::SYS_munmap, 0, self.model.unmap(start, len)),
        };
        let plan = match done {
            Ok(plan) => plan,
            Err(error) => error.done,
        };
        self.record(EventKind::Call, Some(nr), [start, len, arg, 0, 0, 0], &plan, (start, start + len));
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let areas: Vec<AreaRecord> = self.replay.space(0).unwrap().areas().collect();
        Why::of(&areas, 0, &self.origins, &Stacks::default(), self.seq * 1000).unwrap().verdicts
    }

    /// The number of areas by which the model shrinks when `change` is made to each area.
    fn fewer(&self, change: impl Fn(&mut Model, u64, u64)) -> u64 {
        let mut model = self.model.snapshot(self.model.config().clone()).unwrap();
        let areas: Vec<(u64, u64)> = model.areas().map(|a| (a.start, a.end - a.start)).collect();
        areas.into_iter().for_each(|(start, len)| change(&mut model, start, len));
        (self.model.len() - model.len()) as u64
    }
}

impl Program {
    /// The areas without access that lie beside areas with access: first address, length, and the
    /// protections of those neighbours.
    fn closed(&self) -> Vec<(u64, u64, Vec<Prot>)> {
        let areas: Vec<AreaRecord> = self.replay.space(0).unwrap().areas().collect();
        let access = |at: u64| {
            let area = areas.iter().find(|area| area.start <= at && at < area.end)?;
            Some(Prot::from_bits_truncate(area.perms.into())).filter(|prot| !prot.is_empty())
        };
        let closed = areas.iter().filter(|area| area.perms & 7 == 0);
        let of = |area: &AreaRecord| {
            let prots: Vec<Prot> = [access(area.end), access(area.start - 1)].into_iter().flatten().collect();
            (!prots.is_empty()).then_some((area.start, area.end - area.start, prots))
        };
        closed.filter_map(of).collect()
    }

    /// The number of areas that the model loses if such areas become guards in memory with access.
    fn fewer_with_guards(&self) -> u64 {
        let mut model = self.model.snapshot(self.model.config().clone()).unwrap();
        for (start, len, prots) in self.closed() {
            // The neighbour that saves more.
            let areas = |prot: &Prot| {
                let mut tried = model.snapshot(model.config().clone()).unwrap();
                tried.protect(start, len, *prot, None).unwrap();
                tried.len()
            };
            let prot = prots.iter().min_by_key(|prot| areas(prot)).copied().unwrap();
            model.protect(start, len, prot, None).unwrap();
            // Locked memory keeps its guard.
            if model.advise(start, len, Advice::GuardInstall).is_err() {
                model.protect(start, len, Prot::empty(), None).unwrap();
            }
        }
        (self.model.len() - model.len()) as u64
    }
}

impl Program {
    /// The number of areas that the model loses if each hole gets memory like that below it.
    fn fewer_without_holes(&self) -> u64 {
        let mut model = self.model.snapshot(self.model.config().clone()).unwrap();
        let areas: Vec<(u64, Flags)> = model.areas().map(|a| (a.end, a.area.flags)).collect();
        let ends: Vec<u64> = model.areas().map(|a| a.start).skip(1).collect();
        for ((start, flags), end) in areas.into_iter().zip(ends).filter(|((start, _), end)| start < end) {
            let len = end - start;
            model.map(&MapRequest::anonymous(start, len, Prot::RW)).unwrap();
            let prot = flags.prot();
            model.protect(start, len, prot, None).unwrap();
            if flags.contains(Flags::LOCKED) {
                model.lock(start, len, LockKind::OnFault).unwrap();
            }
            if flags.contains(Flags::DONTDUMP) {
                model.advise(start, len, Advice::DontDump).unwrap();
            }
        }
        (self.model.len() - model.len()) as u64
    }
}

/// The number of areas that installed guards would save, by the verdicts.
fn guards(verdicts: &[Verdict]) -> u64 {
    let fewer = |advice: &why::Advice| match *advice {
        why::Advice::GuardInstall { fewer } => fewer,
        _ => 0,
    };
    verdicts.iter().flat_map(|v| &v.advice).map(fewer).sum()
}

fn protect(model: &mut Model, start: u64, len: u64) {
    model.protect(start, len, Prot::RW, None).unwrap();
}

fn unlock(model: &mut Model, start: u64, len: u64) {
    model.unlock(start, len).unwrap();
}

fn dump(model: &mut Model, start: u64, len: u64) {
    model.advise(start, len, Advice::DoDump).unwrap();
}

#[test]
fn what_would_go_goes() {
    let mut random = fastrand::Rng::with_seed(37);
    let (mut exact, mut guarded, mut mixed, mut saved, mut sure) = (0, 0, 0, 0, 0);
    for _ in 0..100 {
        let mut program = Program::new();
        // Each unit is a separate map, or all are one.
        let each = random.bool();
        match each {
            true => (0..UNITS).rev().for_each(|unit| program.map(BASE + unit * UNIT * PAGE, UNIT * PAGE)),
            false => program.map(BASE, UNITS * UNIT * PAGE),
        }
        let holes = random.u8(0..3) == 0;
        let acts: Vec<(Act, u64, u64)> = (0..random.usize(1..6))
            .map(|_| {
                let prots = [Prot::empty(), Prot::READ, Prot::RW, Prot::READ | Prot::EXEC];
                let act = match random.u8(0..6) {
                    0 => Act::Lock,
                    1 => Act::DontDump,
                    2 if holes => Act::Unmap,
                    _ => Act::Protect(prots[random.usize(0..4)]),
                };
                let at = random.u64(0..UNIT);
                (act, at * PAGE, random.u64(1..=UNIT - at) * PAGE)
            })
            .collect();
        for unit in 0..UNITS {
            for (act, at, len) in &acts {
                program.act(*act, BASE + unit * UNIT * PAGE + at, *len);
            }
        }
        let verdicts = program.verdicts();
        let told = |of: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|v| of(v)).map(|v| v.would_go).sum::<u64>();
        let has_guards = verdicts.iter().any(|v| v.pattern.is_some());
        let (protection, lock, flags) = (program.fewer(protect), program.fewer(unlock), program.fewer(dump));
        let told_all: Vec<_> = verdicts.iter().map(|v| (&*v.reason, v.pattern, v.would_go)).collect();
        let shown = || {
            format!(
                "{each} {acts:?} {told_all:?} {protection} {lock} {flags} {:?}",
                program.fewer(|m, s, l| {
                    protect(m, s, l);
                    unlock(m, s, l);
                })
            )
        };
        assert!(told(&|v| v.reason == "protection") <= protection, "{}", shown());
        assert!(told(&|v| v.reason == "lock") <= lock, "{}", shown());
        assert!(told(&|v| v.reason.starts_with("flags")) <= flags, "{}", shown());
        let (advised, installed) = (guards(&verdicts), program.fewer_with_guards());
        assert!(advised <= installed, "{advised} of {installed}: {}", shown());
        saved += advised;
        // All of them are reported, unless another verdict has them or they may be locked.
        let times = verdicts.iter().filter(|v| v.pattern.is_some()).map(|v| v.times).sum::<u64>();
        let locks = acts.iter().any(|(act, ..)| matches!(act, Act::Lock));
        if !locks && times == program.closed().len() as u64 {
            assert_eq!(advised, installed, "{}", shown());
            sure += 1;
        }
        let all = program.fewer(|model, start, len| {
            protect(model, start, len);
            unlock(model, start, len);
            dump(model, start, len);
        });
        let apart = |v: &Verdict| v.kind == VerdictKind::KeptApart;
        assert!(told(&apart) <= all, "{}", shown());
        assert_eq!(told(&|v| v.reason.contains('+')), 0, "{}", shown());
        if has_guards {
            guarded += 1;
            continue;
        }
        // Verdicts and boundaries correspond one to one.
        assert_eq!(told(&|v| v.reason == "protection"), protection, "{}", shown());
        assert_eq!(
            (told(&|v| v.reason == "lock"), told(&|v| v.reason.starts_with("flags"))),
            (lock, flags),
            "{}",
            shown()
        );
        let times = verdicts.iter().filter(|v| apart(v)).map(|v| v.times).sum::<u64>();
        assert_eq!(times, all, "{}", shown());
        exact += u64::from(all > 0);
        mixed += u64::from(verdicts.iter().any(|v| v.reason.contains('+')));
    }
    assert!(exact > 15 && guarded > 5 && mixed > 3, "{exact} {guarded} {mixed}");
    assert!(saved > 100 && sure > 3, "{saved} {sure}");
}

/// A verdict about holes gives the number of areas that filling each hole with memory like that
/// below it would save.
#[test]
fn what_holes_cut_would_be_one() {
    let mut random = fastrand::Rng::with_seed(47);
    let (mut exact, mut cut) = (0, 0);
    for _ in 0..100 {
        let mut program = Program::new();
        match random.bool() {
            true => (0..UNITS).rev().for_each(|unit| program.map(BASE + unit * UNIT * PAGE, UNIT * PAGE)),
            false => program.map(BASE, UNITS * UNIT * PAGE),
        }
        let mut kinds = vec![Act::Protect(Prot::empty()), Act::Protect(Prot::READ), Act::Lock, Act::DontDump];
        random.shuffle(&mut kinds);
        kinds.truncate(random.usize(0..3));
        kinds.insert(random.usize(0..=kinds.len()), Act::Unmap);
        // At the same pages of each unit, or at different ones.
        let mut draw = || {
            let at = random.u64(0..UNIT);
            (at * PAGE, random.u64(1..=UNIT - at) * PAGE)
        };
        let (places, varied): (Vec<_>, bool) = (kinds.iter().map(|_| draw()).collect(), draw().0 % (2 * PAGE) == 0);
        for unit in 0..UNITS {
            for (act, place) in kinds.iter().zip(&places) {
                let (at, len) = if varied { draw() } else { *place };
                program.act(*act, BASE + unit * UNIT * PAGE + at, len);
            }
        }
        let fewer = program.fewer_without_holes();
        let verdicts = program.verdicts();
        let told: u64 = verdicts.iter().filter(|v| v.kind == VerdictKind::Fragmented).map(|v| v.would_go).sum();
        let all: Vec<_> = verdicts.iter().map(|v| (v.kind, &*v.reason, v.times, v.would_go)).collect();
        assert!(told <= fewer, "{told} of {fewer}: {varied} {kinds:?} {places:?} {all:?}");
        exact += u64::from(told == fewer && told > 0);
        cut += u64::from(told > 0 && kinds.len() > 1);
    }
    assert!(exact > 25 && cut > 25, "{exact} {cut}");
}

/// If only a lock keeps areas apart, the locking call is the cause, whatever changed later.
#[test]
fn the_cause_of_a_lock_is_what_locks() {
    let mut program = Program::new();
    program.map(BASE, UNITS * UNIT * PAGE);
    for unit in 0..UNITS {
        let at = BASE + unit * UNIT * PAGE;
        program.act(Act::Lock, at, PAGE);
        program.act(Act::Protect(Prot::READ), at, 2 * PAGE);
        program.act(Act::Protect(Prot::RW), at, 2 * PAGE);
    }
    let verdicts = program.verdicts();
    let changed = verdicts[0].parts.iter().find(|part| part.role == Role::Changed).unwrap();
    let call = program.origins.sites()[changed.site as usize].nr;
    assert_eq!((&*verdicts[0].reason, call), ("lock", Some(libc::SYS_mlock2 as u32)));
}

/// A verdict names a call that set the attribute that keeps areas apart, whatever other calls
/// changed in the same memory before or after it.
#[test]
fn the_call_behind_a_verdict_gave_what_it_is_about() {
    let mut random = fastrand::Rng::with_seed(43);
    let (mut compared, all) = (0, UNITS * UNIT * PAGE);
    for _ in 0..200 {
        let mut program = Program::new();
        program.map(BASE, all);
        let mut acts = [Act::Protect(Prot::READ), Act::Lock, Act::DontDump];
        random.shuffle(&mut acts);
        // The first action cuts the memory, the second may cut it, and the last covers all of it.
        let cuts = random.usize(1..3);
        for unit in 0..UNITS {
            for act in &acts[..cuts] {
                program.act(*act, BASE + unit * UNIT * PAGE + random.u64(0..4) * PAGE, random.u64(1..5) * PAGE);
            }
        }
        program.act(acts[2], BASE, all);
        for verdict in program.verdicts() {
            let gives = |reason: &str| match reason {
                "protection" => vec![libc::SYS_mprotect],
                "lock" => vec![libc::SYS_mlock2],
                _ => vec![libc::SYS_madvise],
            };
            let given: Vec<i64> = reasons(&verdict.reason).flat_map(gives).collect();
            let blamed = verdict.parts.iter().filter(|part| part.role == Role::Changed);
            for part in blamed {
                let call = program.origins.sites()[part.site as usize].nr.unwrap();
                assert!(given.contains(&i64::from(call)), "{acts:?} {cuts}: {call} for {:?}", verdict.reason);
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Pages that are moved together, in any order, would be one area if they were copied instead:
/// written pages keep their offsets and their identity. (No other test here writes.)
#[test]
fn what_was_moved_would_be_one() {
    let mut random = fastrand::Rng::with_seed(41);
    let (to, pages) = (BASE + (1 << 30), UNITS);
    for round in 0..8 {
        let mut program = Program::new();
        program.map(BASE, pages * PAGE);
        if round % 2 == 0 {
            program.model.touch(BASE, BASE + pages * PAGE);
        }
        let mut order: Vec<u64> = (0..pages).collect();
        random.shuffle(&mut order);
        for (i, page) in order.iter().enumerate() {
            let (old, new) = (BASE + page * PAGE, to + i as u64 * PAGE);
            let mode = RemapMode::Fixed(new);
            let request = RemapRequest { old, old_len: PAGE, new_len: PAGE, mode, dontunmap: false };
            let plan = program.model.remap(&request).unwrap();
            let args = [old, PAGE, PAGE, 3, new, 0];
            program.record(EventKind::Call, Some(libc::SYS_mremap), args, &plan, (BASE, new + PAGE));
        }
        let verdicts = program.verdicts();
        let told: u64 = verdicts.iter().map(|v| v.would_go).sum();
        let mut copied = program.model.snapshot(program.model.config().clone()).unwrap();
        copied.unmap(to, pages * PAGE).unwrap();
        copied.map(&MapRequest::anonymous(to, pages * PAGE, Prot::RW)).unwrap();
        assert_eq!(told, (program.model.len() - copied.len()) as u64, "{verdicts:?}");
        assert!(verdicts.iter().all(|v| v.moved && v.reason == "offset"), "{verdicts:?}");
        // Memory that was never written gets the offset of its new place.
        assert_eq!(told > 0, round % 2 == 0, "{verdicts:?}");
    }
}

/// The cause of names is the naming call. (Not every kernel has names.)
#[test]
fn named_memory_is_apart_by_its_names() {
    let mut program = Program::new();
    program.map(BASE, UNITS * PAGE);
    for unit in 0..UNITS {
        let at = BASE + unit * PAGE;
        let plan = program.model.set_anon_name(at, PAGE, Some(format!("object {unit}").into())).unwrap();
        let args = [0x5356_4d41, 0, at, PAGE, 0, 0];
        program.record(EventKind::Call, Some(libc::SYS_prctl), args, &plan, (at, at + PAGE));
    }
    let verdicts = program.verdicts();
    let (one, part) = (&verdicts[0], verdicts[0].parts.iter().find(|part| part.role == Role::Changed).unwrap());
    let call = program.origins.sites()[part.site as usize].nr;
    assert_eq!((&*one.reason, one.areas, one.times, one.would_go), ("name", UNITS, UNITS - 1, UNITS - 1));
    assert_eq!((verdicts.len(), call), (1, Some(libc::SYS_prctl as u32)));
    let fewer = program.fewer(|model, start, len| {
        model.set_anon_name(start, len, None).unwrap();
    });
    assert_eq!(one.would_go, fewer);
}
