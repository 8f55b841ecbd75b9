//! Each rule and the plain run on made-up traces, and traces that no recorder wrote.

use samara_mm::linux::{self, Host};
use samara_mm::{Errno, Features, Linux, Overcommit};
use samara_trace::event::{AreaRecord, UNSURE};
use samara_trace::file::name_text;

use super::places::searching;
use super::*;
use crate::api::Policy;
use crate::space::model::{self, Inode, Model};

const PAGE: u64 = 4096;
const RW: u64 = 3;
const PRIVATE: u64 = 0x22;
const STACK: (u64, u64) = (0x7fff_0000_0000, 0x7fff_0010_0000);

/// The program's memory: each page holds a name, which is the letter of the page's number.
struct Memory;

impl Host<Inode> for Memory {
    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        to.fill(0);
        if let Some(first) = to.first_mut().filter(|_| addr.is_multiple_of(PAGE)) {
            *first = b'a' + (addr / PAGE % 26) as u8;
        }
        Ok(())
    }
}

/// A program whose calls the model answers, and the trace of it.
struct Program {
    model: Model,
    events: Vec<Event>,
}

impl Program {
    fn new() -> Program {
        let mut empty = model::promising(Overcommit::Always, Features::default());
        let stack = AreaRecord { name: "[stack]".into(), ..record(STACK.0, STACK.1, 3) };
        take::fill(&mut empty, &[stack], PAGE);
        let model = empty.snapshot(searching(&empty, false)).unwrap();
        let mut program = Program { model, events: Vec::new() };
        program.event(EventKind::Exec, None, [0; 6], 0, &[], Some((0, 1 << 63)));
        program
    }

    fn event(
        &mut self,
        kind: EventKind,
        nr: Option<u32>,
        args: [u64; 6],
        result: i64,
        plan: &[Step],
        window: Option<(u64, u64)>,
    ) -> &mut Event {
        let areas = window.map(|(start, end)| model::records(&self.model, start, end)).unwrap_or_default();
        let seq = self.events.len() as u64;
        self.events.push(Event {
            entry_ns: seq,
            exit_ns: seq,
            space: 1,
            pid: 7,
            tid: 7,
            nr,
            args,
            result,
            plan: plan.to_vec(),
            window,
            areas,
            ..Event::new(seq, kind)
        });
        self.events.last_mut().unwrap()
    }

    fn call(&mut self, nr: u64, args: &[u64]) -> i64 {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let called = linux::call(&mut self.model, &mut Memory, &mut Linux, nr, all).unwrap();
        let plan = model::steps(called.plan.steps());
        let low = plan.iter().map(|step| step.start - PAGE).min();
        let window = low.zip(plan.iter().map(|step| step.end + PAGE).max());
        self.event(EventKind::Call, Some(nr as u32), all, called.result, &plan, window);
        called.result
    }

    fn map(&mut self, len: u64, prot: u64) -> u64 {
        self.call(linux::MMAP, &[0, len, prot, PRIVATE, u64::MAX, 0]) as u64
    }

    fn protect(&mut self, start: u64, len: u64, prot: u64) {
        assert_eq!(self.call(linux::MPROTECT, &[start, len, prot]), 0);
    }

    fn unmap(&mut self, start: u64, len: u64) {
        assert_eq!(self.call(linux::MUNMAP, &[start, len]), 0);
    }

    /// The figures under these rules. Checks that the plain run agrees everywhere.
    fn with(&self, rules: &[Rule]) -> (Figures, Figures, Changes) {
        let report = rerun(&self.events, rules).unwrap();
        let calls = report.agreement.calls;
        assert_eq!((report.agreement.agree, &report.agreement.others), (calls, &BTreeMap::new()), "{report:?}");
        let (changed, changes) = report.changed.unwrap();
        (report.plain, changed, changes)
    }
}

fn record(start: u64, end: u64, perms: u8) -> AreaRecord {
    let (name, apart) = (String::new(), String::new());
    AreaRecord { start, end, perms, offset: 0, dev: (0, 0), inode: 0, name, apart }
}

fn rerun(events: &[Event], rules: &[Rule]) -> Result<Report, RerunError> {
    let mut rerun = Rerun::new(PAGE, rules, None)?;
    events.iter().try_for_each(|event| rerun.apply(event))?;
    Ok(rerun.report())
}

#[test]
fn rules_are_read_and_printed() {
    for text in ["no-guard-pages", "same-name", "align=2M", "align=64K", "align=1G", "batch=16", "limit=0"] {
        assert_eq!(text.parse::<Rule>().map(|rule| rule.to_string()), Ok(text.to_owned()));
    }
    for (name, policy) in Policy::ALL {
        assert_eq!(format!("policy={name}").parse(), Ok(Rule::Policy(policy)));
        assert_eq!(Rule::Policy(policy).to_string(), format!("policy={name}"));
    }
    assert_eq!("align=4096".parse(), Ok(Rule::Align(4096)));
    let wrong =
        ["", "guards", "align", "align=3M", "align=2K", "align=2G", "align=M", "batch=0", "batch=5000", "limit=-1"];
    for text in wrong.into_iter().chain(["no-guard-pages=1", "policy=none", "align=99999999999G", "align=é"]) {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}

#[test]
fn a_limit_that_nothing_meets_changes_nothing() {
    let mut program = Program::new();
    let at = program.map(8 * PAGE, RW);
    program.protect(at + PAGE, PAGE, 1);
    assert_eq!(program.call(linux::MUNMAP, &[at + 1, PAGE]), -22);
    let moved = program.call(linux::MREMAP, &[at + 4 * PAGE, PAGE, 4 * PAGE, 1]) as u64;
    program.unmap(moved, 4 * PAGE);
    let (plain, changed, changes) = program.with(&[Rule::Limit(65530)]);
    assert_eq!((plain, changes), (changed, Changes::default()));
    assert_eq!((plain.calls, plain.failed), (5, 1));
}

/// A comparison in the middle of a space's life, as in a recording without stops, does not end the
/// space.
#[test]
fn a_space_goes_on_after_a_comparison() {
    let mut program = Program::new();
    let at = program.map(9 * PAGE, RW);
    program.event(EventKind::Checked, None, [0, 1, 0, 0, 0, 0], 0, &[], None);
    (0..4).for_each(|i| program.protect(at + (2 * i + 1) * PAGE, PAGE, 1));
    program.event(EventKind::Checked, None, [0, 1, 0, 0, 0, 0], 0, &[], None);
    let (plain, changed, changes) = program.with(&[Rule::Limit(6)]);
    assert_eq!((plain.areas_peak, plain.areas_end, plain.bytes_end), (10, 10, 9 * PAGE + STACK.1 - STACK.0));
    assert_eq!((changed.areas_end, changes.first.unwrap().areas), (6, 6));
}

#[test]
fn the_first_call_that_a_limit_refuses() {
    let mut program = Program::new();
    let at: Vec<u64> = (0..10).map(|i| program.map(PAGE, 1 + 2 * (i % 2))).collect();
    program.protect(at[9], PAGE, 0);
    let (plain, changed, changes) = program.with(&[Rule::Limit(4)]);
    assert_eq!((plain.areas_peak, changed.areas_peak), (11, 5));
    let first = changes.first.unwrap();
    assert_eq!((first.event, first.call, first.errno, first.areas), (5, "mmap", libc::ENOMEM, 5));
    assert_eq!(changes.fail_now, [(("mmap", libc::ENOMEM), 6)].into());
    // The memory that the call protects does not exist.
    assert_eq!(changes.not_followed, 1);
}

#[test]
fn stacks_without_guards_are_one_area() {
    let mut program = Program::new();
    for _ in 0..4 {
        let at = program.map((2 << 20) + PAGE, 0);
        program.protect(at + PAGE, 2 << 20, RW);
    }
    let (plain, changed, changes) = program.with(&[Rule::NoGuardPages]);
    assert_eq!((plain.areas_end, changed.areas_end), (9, 2));
    assert_eq!((plain.bytes_end, changes), (changed.bytes_end, Changes::default()));
}

#[test]
fn a_guard_within_memory_is_left_out() {
    let mut program = Program::new();
    let at = program.map(16 * PAGE, RW);
    program.protect(at + 4 * PAGE, PAGE, 0);
    let over = [at + 8 * PAGE, PAGE, 0, PRIVATE | 0x10, u64::MAX, 0];
    program.call(linux::MMAP, &over);
    // Larger than a guard.
    let large = program.map(4 << 20, RW);
    program.protect(large, 2 << 20, 0);
    let (plain, changed, changes) = program.with(&[Rule::NoGuardPages]);
    assert_eq!((plain.areas_end, changed.areas_end), (8, 4));
    assert_eq!((changes.left_out, changed.calls), (1, plain.calls - 1));
}

#[test]
fn memory_without_names_is_one_area() {
    let mut program = Program::new();
    let at = program.map(4 * PAGE, RW);
    for page in 0..4 {
        let name = at + page * PAGE;
        program.call(linux::PRCTL, &[u64::from(linux::PR_SET_VMA), 0, at + page * PAGE, PAGE, name]);
    }
    let (plain, changed, changes) = program.with(&[Rule::SameName]);
    assert_eq!((plain.areas_end, changed.areas_end), (5, 2));
    assert_eq!((changes.left_out, plain.splits, changed.splits), (4, 3, 0));
}

/// A program that maps, cuts, moves and unmaps.
fn mixed() -> Program {
    let mut program = Program::new();
    let at: Vec<u64> = (1..6).map(|i| program.map(i * 3 * PAGE, RW)).collect();
    program.unmap(at[1], 6 * PAGE);
    program.protect(at[2] + PAGE, 2 * PAGE, 1);
    let moved = program.call(linux::MREMAP, &[at[3], 12 * PAGE, 40 * PAGE, 1]) as u64;
    program.protect(moved + 39 * PAGE, PAGE, 1);
    program.call(linux::MMAP, &[at[4] + PAGE, PAGE, 0, PRIVATE | 0x10, u64::MAX, 0]);
    program.unmap(at[4], 2 * PAGE);
    program
}

#[test]
fn the_policy_of_linux_gives_the_places_of_the_trace() {
    let program = mixed();
    let (plain, changed, changes) = program.with(&[Rule::Policy(Policy::Linux)]);
    assert_eq!(plain, changed);
    assert_eq!(changes, Changes { placed: 5, ..Changes::default() });
}

#[test]
fn calls_follow_memory_that_lies_elsewhere() {
    let program = mixed();
    for (_, policy) in Policy::ALL {
        let (plain, changed, changes) = program.with(&[Rule::Policy(policy)]);
        assert_eq!((plain.bytes_end, plain.bytes_peak), (changed.bytes_end, changed.bytes_peak), "{policy:?}");
        assert_eq!((changed.failed, changes.not_followed, changes.placed), (0, 0, 5), "{policy:?}");
        assert!(policy == Policy::Linux || changes.placed_elsewhere > 0, "{policy:?}");
    }
}

#[test]
fn aligned_memory_is_longer() {
    let mut program = Program::new();
    let at: Vec<u64> = (1..4).map(|i| program.map(i * PAGE, RW)).collect();
    program.protect(at[2], PAGE, 1);
    let stack = STACK.1 - STACK.0;
    let (plain, changed, changes) = program.with(&[Rule::Align(2 << 20)]);
    assert_eq!((plain.bytes_end, changed.bytes_end), (stack + 6 * PAGE, stack + (6 << 20)));
    assert_eq!(changes.not_followed, 0);
    // It grows, but to less than its length here, and is unmapped as a whole.
    program.call(linux::MREMAP, &[at[0], PAGE, 9 * PAGE, 1]);
    let moved = program.events.last().unwrap().result as u64;
    program.unmap(moved, 9 * PAGE);
    program.unmap(at[1], 2 * PAGE);
    program.unmap(at[2], 3 * PAGE);
    let (plain, changed, changes) = program.with(&[Rule::Align(2 << 20)]);
    assert_eq!((plain.bytes_end, changed.bytes_end), (stack, stack));
    assert_eq!((changed.failed, changes.not_followed), (0, 0));
}

#[test]
fn unmap_calls_are_made_together() {
    let mut program = Program::new();
    let at = program.map(16 * PAGE, RW);
    (0..4).for_each(|page| program.unmap(at + page * PAGE, PAGE));
    program.unmap(at + 8 * PAGE, PAGE);
    program.unmap(at + 10 * PAGE, PAGE);
    let (plain, changed, _) = program.with(&[Rule::Batch(4)]);
    assert_eq!((plain.calls, changed.calls), (7, 4));
    assert_eq!((plain.areas_end, plain.bytes_end), (changed.areas_end, changed.bytes_end));
    // A new map at the same place needs the unmap first.
    program.unmap(at + 12 * PAGE, PAGE);
    program.call(linux::MMAP, &[at + 12 * PAGE, PAGE, 1, PRIVATE | 0x10, u64::MAX, 0]);
    let (plain, changed, _) = program.with(&[Rule::Batch(100)]);
    assert_eq!((plain.areas_end, plain.bytes_end), (changed.areas_end, changed.bytes_end));
}

#[test]
fn what_differs_is_taken_from_the_trace() {
    let mut program = Program::new();
    let at = program.map(8 * PAGE, RW);
    // The call had more effect than its arguments name.
    program.protect(at, 2 * PAGE, 1);
    program.events.last_mut().unwrap().args[1] = PAGE;
    program.protect(at + PAGE, 3 * PAGE, RW);
    let report = rerun(&program.events, &[Rule::Limit(65530)]).unwrap();
    assert_eq!((report.agreement.agree, &report.agreement.others), (2, &[(Why::Differs, 1)].into()));
    assert_eq!((report.agreement.first[0].event, report.agreement.first[0].call), (2, "mprotect"));
    assert_eq!(Some(report.plain), report.changed.map(|(figures, _)| figures));
    // An attached program may have made calls before the trace.
    program.events[0].kind = EventKind::Found;
    let report = rerun(&program.events, &[Rule::Limit(65530)]).unwrap();
    assert_eq!((report.agreement.agree, &report.agreement.others), (2, &[(Why::Guessed, 1)].into()));
    // The trace's areas are taken if the call's effect is unknown.
    program.events.last_mut().unwrap().text = UNSURE.into();
    let report = rerun(&program.events, &[Rule::Limit(65530)]).unwrap();
    assert_eq!(report.agreement.others, [(Why::Unsure, 1), (Why::Guessed, 1)].into());
}

#[test]
fn a_stack_that_grew_and_a_child() {
    let mut program = Program::new();
    program.map(PAGE, RW);
    program.model.grow_down(STACK.0, STACK.0 - PAGE).unwrap();
    let plan = [Step { kind: StepKind::Mapped, start: STACK.0 - PAGE, end: STACK.0 }];
    program.event(EventKind::Learnt, None, [0; 6], 0, &plan, Some((STACK.0 - 2 * PAGE, STACK.0 + PAGE)));
    let child = program.event(EventKind::Fork, None, [1, 0, 0, 0, 0, 0], 0, &[], Some((0, 1 << 63)));
    (child.space, child.pid, child.tid) = (2, 8, 8);
    let (plain, changed, _) = program.with(&[Rule::Limit(65530), Rule::SameName]);
    assert_eq!((plain, plain.areas_peak, plain.areas_end), (changed, 4, 4));
    let mut only = Rerun::new(PAGE, &[Rule::SameName], Some(8)).unwrap();
    program.events.iter().for_each(|event| only.apply(event).unwrap());
    let report = only.report();
    assert_eq!((report.plain.calls, report.plain.areas_peak), (0, 2));
    assert_eq!(report.changed.unwrap().0, report.plain);
}

#[test]
fn other_pages_are_refused() {
    assert!(matches!(Rerun::new(16384, &[], None), Err(RerunError::PageSize(16384))));
}

/// RERUN-2: traces that no recorder wrote lead to figures or to an error.
#[test]
fn hostile_traces() {
    let calls: Vec<u32> = linux::CALLS.iter().map(|(nr, _)| *nr as u32).collect();
    let rules = [
        vec![Rule::NoGuardPages, Rule::SameName, Rule::Batch(3)],
        vec![Rule::Align(2 << 20), Rule::Policy(Policy::Random), Rule::Batch(2)],
        vec![Rule::Policy(Policy::BestFit), Rule::Limit(3), Rule::NoGuardPages],
    ];
    let odd = [0, 1, PAGE, u64::MAX, u64::MAX - 4095, 1 << 63, (1 << 63) - 1, (1 << 47) - PAGE, 1 << 56];
    for seed in 0..600 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let address = |rng: &mut fastrand::Rng| match rng.u8(..8) {
            0 => odd[rng.usize(..odd.len())],
            1 => rng.u64(..),
            _ => rng.u64(1..40) * PAGE,
        };
        let mut program = Program::new();
        for _ in 0..40 {
            let (window, result) = ((address(&mut rng), address(&mut rng)), address(&mut rng) as i64);
            let args = std::array::from_fn(|_| if rng.bool() { rng.u64(..64) } else { address(&mut rng) });
            let kinds = [EventKind::Call, EventKind::Call, EventKind::Call, EventKind::Learnt, EventKind::Difference];
            let kind = match rng.u8(..24) {
                0 => EventKind::Fork,
                1 => EventKind::Exec,
                2 => EventKind::Checked,
                3 => EventKind::Exit,
                4 => EventKind::Share,
                _ => kinds[rng.usize(..kinds.len())],
            };
            let nr = calls[rng.usize(..calls.len())];
            let event = program.event(kind, Some(nr), args, result, &[], rng.bool().then_some(window));
            let steps = [StepKind::Mapped, StepKind::Unmapped, StepKind::Split, StepKind::Merged, StepKind::Moved];
            event.plan = (0..rng.usize(..4))
                .map(|_| Step { kind: steps[rng.usize(..5)], start: address(&mut rng), end: address(&mut rng) })
                .collect();
            event.areas = (0..rng.usize(..4))
                .map(|_| {
                    let start = address(&mut rng);
                    let names = ["", "[heap]", "[stack]", "[anon:x]", "/a", "[vdso]", "/dev/zero", "/anon_hugepage"];
                    let name = names[rng.usize(..names.len())];
                    AreaRecord {
                        inode: u64::from(name.starts_with('/')),
                        offset: address(&mut rng),
                        name: name_text(name.as_bytes()),
                        apart: ["", "lock+seal", "flags+policy+uffd", "flags:dontdump:random", "accounting", "x"]
                            [rng.usize(..6)]
                        .into(),
                        ..record(start, start.saturating_add(rng.u64(1..9) * PAGE), rng.u8(..16))
                    }
                })
                .collect();
            (event.space, event.pid, event.tid) = (rng.u64(1..4), rng.u32(7..10), rng.u32(7..10));
            event.overlapped = rng.bool();
        }
        let _ = rerun(&program.events, &rules[rng.usize(..rules.len())]);
    }
}
