//! Traces small programs, each in all modes of recording. They behave as untraced, the models agree
//! with the kernel after every call and at every exit, and the expected events are there.
//!
//! The programs are part of this binary: `traced_programs --program NAME` runs one. Long tests are
//! ignored, and run by `ci/long.sh tests`: most programs in modes other than the normal one, and
//! races.
//!
//! The harness is custom: a recording sets the signal dispositions of the whole process, so each
//! trial runs in a new process, `traced_programs --alone NAME`.
#![deny(unsafe_code)]

mod attaching;
mod concurrent_calls;
mod edge_cases;
mod engine;
mod following;
mod hidden_state;
mod inspecting;
mod nostop;
mod nostop_group;
mod nostop_losses;
mod nostop_replaced;
mod placement;
mod programs;
mod races;
mod rare_calls;
mod recorder;
mod refusals;
mod rerun;
mod scheduling;
mod signalled;
mod stacks;
mod stacks_compiled;
mod stacks_unusual;
mod switching;
mod syscalls;
mod waiting_calls;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use inspecting::Inspecting;
use libtest_mimic::{Arguments, Failed, Trial};
use samara_record::{Counters, Engine, Options, Outcome, RecordError, record};
use samara_trace::event::{Event, EventKind, StepKind};
use samara_trace::summary::Tally;
use samara_trace::{Sink, SinkError};

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|a| a == "--program") {
        programs::run(&args[2], &args[3..]);
        return std::process::ExitCode::SUCCESS;
    }
    if let Some(code) = recorder::mode(&args).or_else(|| attaching::mode(&args)) {
        return code;
    }
    if args.get(1).is_some_and(|a| a == "--alone") {
        let bodies = bodies().into_iter().filter(|(name, ..)| Some(name) == args.get(2));
        let failed = |(_, _, body): Named| body().err().inspect(|e| eprintln!("{}", e.message().unwrap_or_default()));
        return std::process::ExitCode::from(u8::from(bodies.filter_map(failed).count() > 0));
    }
    let trial = |(name, long, _): Named| Trial::test(name.clone(), move || alone(&name)).with_ignored_flag(long);
    libtest_mimic::run(&Arguments::from_args(), bodies().into_iter().map(trial).collect()).exit_code()
}

/// A trial's name, whether it takes long, and its function.
type Named = (String, bool, Box<dyn FnOnce() -> Result<(), Failed>>);

/// Runs a trial in a new process, and shows its output.
fn alone(name: &str) -> Result<(), Failed> {
    let trial = Command::new(std::env::current_exe()?).args(["--alone", name]).stdin(Stdio::null()).output()?;
    print!("{}", String::from_utf8_lossy(&trial.stdout));
    if trial.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", trial.status, String::from_utf8_lossy(&trial.stderr)).into())
}

/// How to record.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Normal,
    NoFilter,
    NoQuery,
    /// The engine decides the results of calls.
    InCharge,
}

struct Recording {
    outcome: Outcome,
    events: Vec<Event>,
}

impl Recording {
    fn of(&self, kind: EventKind) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |e| e.kind == kind)
    }

    fn calls(&self, nr: i64) -> impl Iterator<Item = &Event> {
        self.of(EventKind::Call).filter(move |e| e.nr == Some(nr as u32))
    }
}

type Body = fn(Mode) -> Result<(), Failed>;

/// Programs that are recorded in each way. The others are recorded in the normal one, and in all of
/// them by `ci/long.sh tests`.
const EACH_WAY: &[&str] =
    &["forks", "spawn", "remaps", "errors", "half_way", "unseen", "grown_and_changed", "apart_when_back"];

/// Trials that take seconds each: ignored, unless they are asked for (`ci/long.sh tests`).
const LONG: &[&str] = &[
    "affinity",
    "attached_and_killed_while_loading",
    "attached_beside_a_call_that_cannot_be_interrupted",
    "attached_while_loading_all_the_time",
    "attached_while_threads_come_and_go",
    "attached_with_stacks",
    "crowd",
    "decided_many_areas",
    "ends",
    "kept",
    "many",
    "pidfds",
    "places_are_the_kernels",
    "races",
    "refused_by_the_number_of_areas",
    "signals",
    "stacks_of_code_that_is_replaced_otherwise",
    "stacks_of_java",
    "stacks_of_more_builds",
    "stacks_of_node",
    "stacks_of_other_languages_built_otherwise",
    "stacks_of_split_debug_information_4",
    "turns_calls",
    "turns_faults",
    "turns_threads",
];

fn bodies() -> Vec<Named> {
    let all: &[(&str, Body)] = &[
        ("threads", threads),
        ("forks", forks),
        ("spawn", spawn),
        ("exec_from_thread", exec_from_thread),
        ("daemon", daemon),
        ("killed", killed),
        ("sigtrap", sigtrap),
        ("stops", |m| simple(m, "stops")),
        ("stack", stack),
        ("grows_down", grows_down),
        ("grown_and_changed", |m| simple(m, "grown-and-changed")),
        ("remaps", remaps),
        ("fixed", |m| simple(m, "fixed")),
        ("brk", |m| simple(m, "brk")),
        ("locks", |m| simple(m, "locks")),
        ("many", many),
        ("errors", |m| simple(m, "errors")),
        ("odd", |m| simple(m, "odd")),
        ("learn", learn),
        ("kill_busy", |m| simple(m, "kill-busy")),
        ("exit_busy", |m| simple(m, "exit-busy")),
        ("ends", ends),
        ("brk_busy", |m| simple(m, "brk-busy")),
        ("fork_busy", |m| simple(m, "fork-busy")),
        ("populate", |m| simple(m, "populate")),
        ("int80", int80),
        ("signals", |m| simple(m, "signals")),
        ("affinity", |m| simple(m, "affinity")),
        ("renamed", renamed),
        ("untraced_children", untraced_children),
        ("untraced_threads", |m| simple(m, "untraced-threads")),
        ("own_filter", |m| simple(m, "own-filter")),
        ("unseen", unseen),
        ("moves_of_several_areas", |m| simple(m, "moves-of-several-areas")),
        ("orphans", |m| simple(m, "orphans")),
        ("big_fork", |m| simple(m, "big-fork")),
        ("odd_name", odd_name),
        ("huge", huge),
        ("zeros", zeros),
        ("crowd", crowd),
        ("filtered_thread", |m| simple(m, "filtered-thread")),
        ("kept", |m| simple(m, "kept")),
        ("registered", |m| decided(m, "registered", &[])),
        ("many_moved", |m| decided(m, "many-moved", &["mmap", "mremap"])),
        ("turns_calls", |m| simple(m, "turns-calls")),
        ("turns_faults", |m| simple(m, "turns-faults")),
        ("turns_threads", |m| simple(m, "turns-threads")),
        ("pidfds", pidfds),
        ("reads_execute", |m| decided(m, "reads-execute", &["mmap", "mprotect", "mremap", "brk"])),
        ("file_pages", |m| decided(m, "file-pages", &["remap_file_pages"])),
        ("policies", |m| decided(m, "policies", &["mbind"])),
        ("advice", advice),
        ("locks_later", |m| overlapped(m, "locks-later")),
        ("charged", |m| overlapped(m, "charged")),
        ("locked_apart", |m| overlapped(m, "locked-apart")),
        ("moved_beside", |m| overlapped(m, "moved-beside")),
        ("heap_of_a_child", |m| overlapped(m, "heap-of-a-child")),
        ("policy_of_a_child", |m| overlapped(m, "policy-of-a-child")),
        ("apart_when_back", |m| apart_when_back(m, "apart-when-back")),
        ("apart_when_back_unknown", |m| apart_when_back(m, "apart-when-back-unknown")),
        ("ring", |m| decided(m, "ring", &[])),
        ("half_way", |m| decided(m, "half-way", &["mmap", "mprotect", "mremap", "remap_file_pages"])),
        ("no_stack", |m| decided(m, "no-stack", &["madvise", "mprotect"])),
        ("not_to_be_read", |m| decided(m, "not-to-be-read", &[])),
        ("merged_pages", |m| decided(m, "merged-pages", &["mmap"])),
        ("secret", |m| decided(m, "secret", &["mmap", "mprotect", "mlock", "munlock", "madvise", "mremap"])),
    ];
    let modes = [
        (Mode::Normal, ""),
        (Mode::NoFilter, "_without_filter"),
        (Mode::NoQuery, "_without_query"),
        (Mode::InCharge, "_decided"),
    ];
    let in_mode = |(name, body): &(&str, Body), (mode, suffix)| -> Named {
        let body = *body;
        let long = LONG.contains(name) || mode != Mode::Normal && !EACH_WAY.contains(name);
        (format!("{name}{suffix}"), long, Box::new(move || body(mode)))
    };
    let mut bodies: Vec<Named> = all.iter().flat_map(|program| modes.map(|mode| in_mode(program, mode))).collect();
    let others: &[(&str, recorder::Body)] = &[
        ("not_found", not_found),
        ("not_executable", not_executable),
        ("script_without_interpreter_line", script),
        ("races", races::races),
        ("faults_are_found", races::faults_are_found),
        ("places_are_taken_for_a_moment", races::places_are_taken_for_a_moment),
        ("comparisons_are_put_off", put_off),
        ("what_is_explained_is_not_put_off", explained_at_once),
        ("sink_fails", sink_fails),
        ("events_lead_to_the_final_maps", replayed),
    ];
    let own = [
        others,
        attaching::TRIALS,
        engine::TRIALS,
        following::TRIALS,
        nostop::TRIALS,
        nostop_group::TRIALS,
        nostop_losses::TRIALS,
        nostop_replaced::TRIALS,
        placement::TRIALS,
        recorder::TRIALS,
        refusals::TRIALS,
        signalled::TRIALS,
        stacks::TRIALS,
        stacks_compiled::TRIALS,
        stacks_unusual::TRIALS,
        switching::TRIALS,
    ];
    for (name, body) in own.into_iter().flatten() {
        bodies.push(((*name).to_owned(), LONG.contains(name), Box::new(body)));
    }
    bodies
}

/// Records a program of ours that the model can follow.
fn trace(mode: Mode, name: &str, args: &[&str]) -> Result<Recording, Failed> {
    let r = trace_any(mode, name, args)?;
    check(&r.events, &r.outcome)?;
    Ok(r)
}

fn trace_any(mode: Mode, name: &str, args: &[&str]) -> Result<Recording, Failed> {
    let mut options = Options::new(std::env::current_exe()?).args(["--program", name]).args(args.iter().copied());
    options.seccomp = mode != Mode::NoFilter;
    options.procmap_query = mode != Mode::NoQuery;
    options.engine = (mode == Mode::InCharge).then(Engine::default);
    let mut seen = Inspecting::default();
    let outcome = record(&options, &mut seen)?;
    expect(&format!("what inspect sees: {:?}", seen.wrong.first()), seen.wrong.is_empty())?;
    let equal = seen.events.iter().filter(|e| e.kind == EventKind::Checked && e.result == 0).count() as u64;
    expect(&format!("inspect saw {} of {equal} spaces", seen.looked), seen.looked == equal)?;
    let events = seen.events;
    rerun::replays(name, &events)?;
    let said = |what: &str| outcome.counters.notes.iter().any(|n| n.contains(what));
    expect("the slower path is reported", said("PROCMAP_QUERY") == (mode == Mode::NoQuery))?;
    expect("the slower path is reported", said("no seccomp filter") == (mode == Mode::NoFilter))?;
    Ok(Recording { outcome, events })
}

/// The checks for every recording.
fn check(events: &[Event], outcome: &Outcome) -> Result<(), Failed> {
    let bad = |text: String| Err(Failed::from(text));
    for event in events {
        let checked = event.kind == EventKind::Checked && event.result != 0;
        if event.kind == EventKind::Difference || checked {
            return bad(format!("{event:?}"));
        }
        if event.exit_ns < event.entry_ns
            || event.seq != events.iter().position(|e| e.seq == event.seq).unwrap_or(0) as u64
        {
            return bad(format!("out of order: {event:?}"));
        }
    }
    let counters = &outcome.counters;
    if counters.differences != 0 || counters.events != events.len() as u64 || counters.checks == 0 {
        return bad(format!("{counters:?}"));
    }
    // Every process that began has ended.
    let mut open: BTreeMap<u32, i64> = BTreeMap::new();
    for event in events {
        match event.kind {
            EventKind::Fork | EventKind::Share => drop(open.insert(event.pid, 1)),
            EventKind::Exec => drop(open.insert(event.pid, 1)),
            EventKind::Exit => drop(open.remove(&event.pid)),
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { bad(format!("processes without an end: {open:?}")) }
}

fn expect(what: &str, is: bool) -> Result<(), Failed> {
    if is { Ok(()) } else { Err(what.to_owned().into()) }
}

/// The recorder's totals are those of the events. Calls that overlap are counted after all of them
/// by the recorder, and one after the other in the events.
fn totals(counters: &Counters, events: &[Event]) -> Result<(), Failed> {
    let mut tally = Tally::default();
    events.iter().for_each(|event| tally.add(event));
    let (summary, overlapped) = (tally.summary(), events.iter().any(|event| event.overlapped));
    expect(&format!("{} events: {counters:?} {summary:?}", events.len()), {
        (counters.events, counters.processes, counters.execs, counters.areas_final, counters.splits)
            == (events.len() as u64, summary.processes, summary.execs, summary.areas_final, summary.splits)
            && (counters.areas_peak == summary.areas_peak || overlapped)
    })
}

fn exited(recording: &Recording, code: i32) -> Result<(), Failed> {
    let status = recording.outcome.status;
    expect(&format!("exit code {code}, is {status}"), status.code() == Some(code))
}

fn simple(mode: Mode, name: &str) -> Result<(), Failed> {
    let r = trace(mode, name, &[])?;
    exited(&r, 0)?;
    expect("each process that was not killed is compared at its end", r.of(EventKind::Checked).count() > 0)
}

/// A program: the engine in charge decides every call of these names, and no result differs from
/// its decision.
fn decided(mode: Mode, name: &str, calls: &[&str]) -> Result<(), Failed> {
    let r = trace(mode, name, &[])?;
    if r.outcome.status.code() == Some(7) {
        println!("skipped: {name}: this kernel has no such calls");
        return Ok(());
    }
    exited(&r, 0)?;
    let Some(done) = &r.outcome.counters.decisions else { return expect("recorded only", mode != Mode::InCharge) };
    let left: Vec<_> = calls.iter().filter(|call| done.left.contains_key(*call)).collect();
    expect(&format!("left to the kernel: {left:?}"), left.is_empty())
}

/// A program whose calls overlap, with nothing that the model cannot follow.
fn overlapped(mode: Mode, name: &str) -> Result<(), Failed> {
    let r = trace(mode, name, &[])?;
    if r.outcome.status.code() == Some(7) {
        println!("skipped: {name}: no userfaultfd that holds calls, or no leave to lock memory");
        return Ok(());
    }
    exited(&r, 0)?;
    expect("calls overlapped", r.of(EventKind::Call).any(|e| e.overlapped))
}

/// A call is settled while another one that has returned too is not applied yet: each effect is
/// reported with its own call.
fn apart_when_back(mode: Mode, name: &str) -> Result<(), Failed> {
    let r = trace(mode, name, &[])?;
    if r.outcome.status.code() == Some(7) {
        println!("skipped: {name}: no userfaultfd that holds calls");
        return Ok(());
    }
    exited(&r, 0)?;
    let moved =
        |e: &&Event| e.overlapped && e.plan.iter().any(|s| s.kind == StepKind::Mapped && s.start == e.result as u64);
    let moves: Vec<&Event> = r.calls(libc::SYS_mremap).collect();
    expect(&format!("the move is reported with its call: {moves:?}"), moves.iter().filter(|e| moved(e)).count() == 1)
}

/// Unknown advice, or advice that is not for other processes, is left to the kernel.
fn advice(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "advice", &[])?;
    exited(&r, 0)?;
    let Some(done) = &r.outcome.counters.decisions else { return expect("recorded only", mode != Mode::InCharge) };
    let left = |name: &str| done.left.get(name).copied().unwrap_or(0);
    let both = (left("madvise"), left("process_madvise"));
    expect(&format!("{both:?} left to the kernel"), both == (1, 2))
}

fn threads(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "threads", &[])?;
    exited(&r, 0)?;
    let tids: std::collections::BTreeSet<u32> = r.calls(libc::SYS_munmap).map(|e| e.tid).collect();
    expect("calls of four threads and more", tids.len() >= 4)?;
    expect("all calls of the threads", r.calls(libc::SYS_munmap).count() >= 800)?;
    expect("one space", r.events.iter().all(|e| e.space == r.events[0].space))?;
    expect("overlaps are marked", r.of(EventKind::Call).any(|e| e.overlapped))
}

fn forks(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "forks", &[])?;
    exited(&r, 0)?;
    expect("14 children", r.of(EventKind::Fork).count() == 14)?;
    expect("15 processes", r.outcome.counters.processes == 15)?;
    expect("all compared at their ends", r.of(EventKind::Checked).count() == 15)?;
    expect("children know their parent's space", r.of(EventKind::Fork).all(|e| e.args[0] > 0 && e.args[0] < e.space))?;
    expect("children have areas", r.of(EventKind::Fork).all(|e| e.areas.len() > 5))
}

fn spawn(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "spawn", &[])?;
    exited(&r, 0)?;
    expect("children that share", r.of(EventKind::Share).count() >= 2)?;
    expect("programs loaded", r.of(EventKind::Exec).count() == 3)?;
    let codes: Vec<i64> = r.of(EventKind::Exit).map(|e| e.result >> 8).collect();
    expect(&format!("codes {codes:?}"), codes.contains(&3))
}

fn exec_from_thread(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "exec-from-thread", &[])?;
    exited(&r, 0)?;
    expect("two programs", r.of(EventKind::Exec).count() == 2)?;
    expect("one process", r.outcome.counters.processes == 1 && r.of(EventKind::Exit).count() == 1)?;
    expect("two spaces", r.of(EventKind::Exec).map(|e| e.space).collect::<Vec<_>>() == [1, 2])
}

/// However a process of several threads ends, its space is compared then, unless every thread of it
/// was killed at once.
fn ends(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "ends", &["40"])?;
    exited(&r, 0)?;
    let forks = r.of(EventKind::Fork).count();
    let compared = r.of(EventKind::Checked).count();
    let killed = r.of(EventKind::Exit).filter(|e| e.result == i64::from(libc::SIGKILL)).count();
    expect(&format!("{forks} children, {killed} killed"), forks == 160 && killed == 40)?;
    expect(&format!("{compared} of {} compared", forks + 1), compared > forks - killed)?;
    let told = r.outcome.counters.notes.iter().any(|n| n.contains("could not be compared"));
    expect("those that were not are reported", told == (compared < forks + 1))
}

/// A parent never sees a child's end later than others do; and each child's own status is recorded.
fn pidfds(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "pidfds", &[])?;
    exited(&r, 0)?;
    let ended = |status: i32| r.of(EventKind::Exit).filter(|e| e.result == i64::from(status)).count();
    for (status, n) in [(7 << 8, 40), (libc::SIGKILL, 40), (6 << 8, 40), (0, 41), (5 << 8, 40), (libc::SIGSEGV, 40)] {
        expect(&format!("{} of {n} ended with {status:x}", ended(status)), ended(status) == n)?;
    }
    expect("one end each", r.of(EventKind::Exit).count() == 241)
}

fn daemon(mode: Mode) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("daemon");
    let r = trace(mode, "daemon", &[&file.to_string_lossy()])?;
    exited(&r, 0)?;
    expect("the daemon's file", std::fs::read_to_string(&file)? == "the daemon was here")?;
    let last = r.of(EventKind::Exit).last().map(|e| e.result);
    expect("the daemon's end is recorded", last == Some(5 << 8))
}

fn untraced_children(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "untraced-children", &[])?;
    exited(&r, 0)?;
    expect("the children are recorded", r.of(EventKind::Fork).count() == 2 && r.outcome.counters.processes == 3)
}

fn killed(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "kill-self", &[])?;
    expect("SIGKILL", r.outcome.status.signal() == Some(libc::SIGKILL))?;
    let r = trace(mode, "segv", &[])?;
    expect("SIGSEGV", r.outcome.status.signal() == Some(libc::SIGSEGV))?;
    let faults = |r: &Recording| r.of(EventKind::Exit).map(|e| (e.fault(), e.ip.is_some())).collect::<Vec<_>>();
    expect(&format!("the fault's address: {:?}", faults(&r)), faults(&r) == [(Some(8192), true)])?;
    for (name, signal) in
        [("segv-aborts", libc::SIGABRT), ("segv-raises", libc::SIGSEGV), ("segv-raises-within", libc::SIGSEGV)]
    {
        let r = trace(mode, name, &[])?;
        expect(name, r.outcome.status.signal() == Some(signal) && faults(&r) == [(Some(8192), true)])?;
        expect(name, r.of(EventKind::Exit).all(|e| e.args[2] == libc::SIGSEGV as u64 && e.args[3] != 0))?;
    }
    let sent = trace(mode, "segv-sent", &[])?;
    expect("SIGSEGV, sent", sent.outcome.status.signal() == Some(libc::SIGSEGV))?;
    expect(&format!("no fault: {:?}", faults(&sent)), faults(&sent) == [(None, false)])?;
    expect("compared at its end", r.of(EventKind::Checked).count() == 1)
}

fn sigtrap(mode: Mode) -> Result<(), Failed> {
    exited(&trace(mode, "sigtrap", &[])?, 43)
}

fn stack(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "stack", &[])?;
    exited(&r, 0)?;
    expect("growth is learnt", r.of(EventKind::Learnt).any(|e| e.text.contains("stack grew")))
}

fn grows_down(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "grows-down", &[])?;
    exited(&r, 0)?;
    let grew: Vec<_> = r.of(EventKind::Learnt).filter(|e| e.text.contains("stack grew")).collect();
    expect("three pages down, by two faults", grew.iter().any(|e| e.plan.iter().any(|s| s.end - s.start == 3 * 4096)))
}

fn remaps(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "remaps", &[])?;
    exited(&r, 0)?;
    let moved = r.calls(libc::SYS_mremap).filter(|e| e.plan.iter().any(|s| s.kind == StepKind::Moved)).count();
    expect(&format!("moves are reported: {moved}"), moved >= 4)
}

fn many(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "many", &[])?;
    exited(&r, 0)?;
    expect("10000 areas at the peak", r.outcome.counters.areas_peak >= 10_000)?;
    expect("splits", r.outcome.counters.splits >= 9_998)
}

/// Without PROCMAP_QUERY, calls far in a large space are compared together: none is left out, a
/// difference is found, and a note reports it.
fn put_off() -> Result<(), Failed> {
    for forgets in [None, Some(libc::SYS_munmap as u32)] {
        let mut options = Options::new(std::env::current_exe()?).args(["--program", "some"]);
        (options.procmap_query, options.hasty, options.forgets) = (false, true, forgets);
        let mut events = Vec::new();
        let outcome = record(&options, &mut events)?;
        let counters = &outcome.counters;
        let note = counters.notes.iter().find_map(|n| n.strip_prefix("no PROCMAP_QUERY, large spaces: "));
        let note = note.ok_or_else(|| format!("no note of what was put off: {:?}", counters.notes))?;
        let calls: u64 = note.split(' ').next().and_then(|n| n.parse().ok()).ok_or("a number")?;
        let all = events.iter().filter(|e| e.kind == EventKind::Call).count() as u64;
        expect(&format!("of {all}: {note}"), calls > 400 && calls < all && note.contains("but 1 time together"))?;
        expect(&format!("none is left out: {note}"), !note.contains("never"))?;
        let text = format!("after {calls} calls that were compared together: ");
        let found = events.iter().filter(|e| e.kind == EventKind::Difference && e.text.starts_with(&text)).count();
        expect(&format!("{found} differences in the end"), found == usize::from(forgets.is_some()))?;
        let expected = if forgets.is_some() { counters.differences > 1 } else { counters.differences == 0 };
        expect(&format!("{} differences", counters.differences), expected)?;
        let (replayed, last) = (replay(&events).len() as u64, counters.areas_final);
        expect(&format!("{replayed} areas replayed, {last} at the end"), replayed == last)?;
    }
    Ok(())
}

/// A call that agrees after a stack's growth was learnt has been compared, and does not wait.
fn explained_at_once() -> Result<(), Failed> {
    let mut options = Options::new(std::env::current_exe()?).args(["--program", "grown-far-away"]);
    (options.procmap_query, options.hasty) = (false, true);
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    check(&events, &outcome)?;
    let note = outcome.counters.notes.iter().find(|n| n.contains("large spaces"));
    expect(&format!("nothing is put off: {note:?}"), note.is_none())?;
    let far = events.iter().any(|e| e.kind == EventKind::Learnt && e.text.contains("grew"));
    expect("the growth was learnt", far)
}

fn learn(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "learn", &[])?;
    exited(&r, 0)?;
    let reasons: Vec<&str> = r.events.iter().flat_map(|e| &e.areas).map(|a| &*a.apart).collect();
    expect("the reason of a learnt boundary", reasons.iter().any(|a| a.contains("anonymous-identity")))
}

fn int80(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "int80", &[])?;
    exited(&r, 0)?;
    let low = r.calls(libc::SYS_mmap).find(|e| e.result == 0x3000_0000);
    match low {
        Some(e) => expect("translated", e.args[1] == 0x3000 && r.calls(libc::SYS_munmap).any(|e| e.result == -22)),
        None => {
            println!("skipped: int80: this kernel has no i386 calls");
            Ok(())
        }
    }
}

fn renamed(mode: Mode) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let r = trace(mode, "renamed", &[&dir.path().join("file").to_string_lossy()])?;
    exited(&r, 0)?;
    expect("reported", r.of(EventKind::Learnt).any(|e| e.text.contains("renamed or removed")))
}

/// After a difference the events still have the call's effect, and lead to the kernel's areas.
fn unseen(mode: Mode) -> Result<(), Failed> {
    let r = trace_any(mode, "unseen", &[])?;
    if r.outcome.status.code() == Some(7) {
        println!("skipped: unseen: this kernel has no seccomp user notification");
        return Ok(());
    }
    exited(&r, 0)?;
    let differences = r.outcome.counters.differences;
    expect(&format!("{differences} differences"), (differences == 0) == (mode == Mode::NoFilter))?;
    let Some(place) = r.calls(libc::SYS_munmap).filter(|e| e.args[1] == 4096).last().map(|e| e.args[0]) else {
        return Err("the last munmap is there".into());
    };
    let areas = replay(&r.events);
    let hit = areas.range(..=place).next_back().filter(|(_, end)| **end > place);
    expect(&format!("{place:x} was unmapped, the events have {hit:x?}"), hit.is_none())?;
    let last = r.outcome.counters.areas_final;
    expect(&format!("{} areas replayed, {last} at the end", areas.len()), areas.len() as u64 == last)?;
    let unmapped = |e: &&Event| {
        e.args[0] == place
            && e.plan.iter().any(|s| s.kind == StepKind::Unmapped && (s.start, s.end) == (place, place + 4096))
    };
    expect("the call's own effect is reported", r.calls(libc::SYS_munmap).any(|e| unmapped(&e)))
}

fn odd_name(mode: Mode) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let r = trace(mode, "odd-name", &[&dir.path().to_string_lossy()])?;
    exited(&r, 0)
}

fn huge(mode: Mode) -> Result<(), Failed> {
    let r = trace(mode, "huge", &[])?;
    if r.outcome.status.code() == Some(7) {
        println!("skipped: huge: this kernel has no huge pages");
        return Ok(());
    }
    exited(&r, 0)
}

fn crowd(mode: Mode) -> Result<(), Failed> {
    if mode == Mode::NoQuery {
        println!("skipped: crowd_without_query: its calls overlap, so that each is compared at once: minutes");
        return Ok(());
    }
    simple(mode, "crowd")
}

/// The kernel's whole view is not read after each map.
fn zeros(mode: Mode) -> Result<(), Failed> {
    let read = || -> Result<u64, Failed> {
        let io = std::fs::read_to_string("/proc/thread-self/io")?;
        let bytes = io.lines().find_map(|line| line.strip_prefix("rchar: ")).ok_or("no rchar")?;
        Ok(bytes.parse()?)
    };
    let before = read()?;
    let r = trace(mode, "zeros", &[])?;
    exited(&r, 0)?;
    let bytes = read()? - before;
    expect(&format!("{bytes} bytes read"), mode == Mode::NoQuery || bytes < 20 << 20)
}

fn not_found() -> Result<(), Failed> {
    let one = record(&Options::new("samara-no-such-program"), &mut Vec::new());
    expect("not found", matches!(one, Err(RecordError::NotFound(p)) if p.as_os_str() == "samara-no-such-program"))?;
    let two = record(&Options::new("/nonexistent/x"), &mut Vec::new());
    expect("not found by path", matches!(two, Err(RecordError::NotFound(p)) if p.as_os_str() == "/nonexistent/x"))
}

fn not_executable() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("plain");
    std::fs::write(&file, "x")?;
    let one = record(&Options::new(file.as_os_str()), &mut Vec::new());
    expect(&format!("EACCES: {one:?}"), matches!(one, Err(RecordError::NotExecutable(p, libc::EACCES)) if p == file))?;
    let two = record(&Options::new("/"), &mut Vec::new());
    expect("a directory", matches!(two, Err(RecordError::NotExecutable(_, libc::EACCES))))
}

fn script() -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("script");
    std::fs::write(&file, "exit $1\n")?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    let outcome = record(&Options::new(file).args(["12"]), &mut Vec::new())?;
    expect("run by the shell, as execvp does", outcome.status.code() == Some(12))
}

struct Full(u32);

impl Sink for Full {
    fn event(&mut self, _: Event) -> Result<(), SinkError> {
        self.0 += 1;
        if self.0 == 5 { Err(SinkError::new("the disk is full")) } else { Ok(()) }
    }
}

fn sink_fails() -> Result<(), Failed> {
    let mut sink = Full(0);
    let options = Options::new(std::env::current_exe()?).args(["--program", "forks"]);
    let outcome = record(&options, &mut sink)?;
    expect("the program went on unharmed", outcome.status.success())?;
    expect("not called again", sink.0 == 5)?;
    expect("said", outcome.counters.ended_early && outcome.counters.notes.iter().any(|n| n.contains("disk is full")))
}

/// Lays the events' areas over one another, without any rule of Linux, and compares bounds with the
/// counters.
fn replayed() -> Result<(), Failed> {
    for name in ["remaps", "fixed", "locks", "learn", "errors"] {
        let r = trace(Mode::Normal, name, &[])?;
        let areas = replay(&r.events);
        let last = r.outcome.counters.areas_final;
        expect(&format!("{name}: {} areas replayed, {last} at the end", areas.len()), areas.len() as u64 == last)?;
    }
    Ok(())
}

/// The first space's areas at the end, start to end, from its events.
fn replay(events: &[Event]) -> BTreeMap<u64, u64> {
    let mut areas: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events.iter().filter(|e| e.space == 1) {
        let Some((low, high)) = event.window else { continue };
        // Areas in the window are removed, and so are older areas under the new ones. Parts beyond
        // both stay.
        let cut: Vec<(u64, u64)> = event.areas.iter().map(|a| (a.start, a.end)).chain([(low, high)]).collect();
        for (start, end) in cut {
            let hit: Vec<(u64, u64)> =
                areas.range(..end).rev().take_while(|(_, e)| **e > start).map(|(s, e)| (*s, *e)).collect();
            for (s, e) in hit {
                areas.remove(&s);
                if s < start {
                    areas.insert(s, start);
                }
                if e > end {
                    areas.insert(end, e);
                }
            }
        }
        areas.extend(event.areas.iter().map(|a| (a.start, a.end)));
    }
    areas
}
