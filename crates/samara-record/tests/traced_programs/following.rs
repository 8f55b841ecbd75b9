//! Choice of recorded processes: the others leave no events, and the recording is complete.

use std::ffi::{OsString, c_int};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::Failed;
use samara_record::{Follow, LetGo, Options, Outcome, Running, attach, record};
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{MapsLine, Replay};

use crate::recorder::Body;
use crate::syscalls::*;
use crate::{check, expect, rerun, totals};

const PAGE: u64 = 4096;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("follow_none", none),
    ("follow_none_of_those_that_share_memory", sharing),
    ("follow_programs", programs),
    ("follow_a_program_until_it_loads_another", loses_sight),
    ("follow_a_script", script),
    ("follow_a_program_that_nobody_loads", nobody),
    ("follow_while_attached", attached),
];

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    if name != "follow-sharing" {
        return false;
    }
    static AT: AtomicU64 = AtomicU64::new(0);
    extern "C" fn child(_: *mut libc::c_void) -> c_int {
        AT.store(anon(4 * PAGE), Ordering::Relaxed);
        mprotect(AT.load(Ordering::Relaxed) + PAGE, PAGE, libc::PROT_READ) as c_int
    }
    assert_eq!(wait(sharing_child(child), 0), 0);
    let forked = fork();
    if forked == 0 {
        anon(8 * PAGE);
        exit(0);
    }
    assert_eq!(wait(forked, 0), 0);
    assert_eq!(munmap(AT.load(Ordering::Relaxed), 4 * PAGE), 0);
    exit(3)
}

/// Records a program, and makes the checks for every recording.
fn follow(follow: Follow, words: &[&str]) -> Result<(Outcome, Vec<Event>), Failed> {
    let mut options = Options::new(words[0]).args(&words[1..]);
    options.follow = follow;
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    check(&events, &outcome)?;
    rerun::replays("followed", &events)?;
    totals(&outcome.counters, &events)?;
    Ok((outcome, events))
}

fn named(names: &[&str]) -> Follow {
    Follow::Programs(names.iter().map(OsString::from).collect())
}

fn count(events: &[Event], kind: EventKind) -> usize {
    events.iter().filter(|e| e.kind == kind).count()
}

fn none() -> Result<(), Failed> {
    let script = "/bin/true; (/bin/true) & wait; /bin/true | cat; exit 3";
    let (outcome, events) = follow(Follow::First, &["sh", "-c", script])?;
    let first = events[0].pid;
    expect("only the first process", events.iter().all(|e| e.pid == first))?;
    let kinds = [EventKind::Exec, EventKind::Checked, EventKind::Exit].map(|kind| count(&events, kind));
    expect(&format!("{kinds:?}"), kinds == [1, 1, 1])?;
    expect(&format!("{outcome:?}"), outcome.status.code() == Some(3) && outcome.counters.processes == 1)?;
    // Another program of the first process is recorded.
    let (outcome, events) = follow(Follow::First, &["sh", "-c", "/bin/true; exec /bin/true"])?;
    expect(&format!("{:?}", outcome.counters), outcome.counters.execs == 2 && count(&events, EventKind::Exec) == 2)
}

/// Their calls on the memory are recorded as calls of the process that they share it with.
fn sharing() -> Result<(), Failed> {
    let exe = std::env::current_exe()?;
    let words = [exe.to_str().ok_or("no name")?, "--program", "follow-sharing"];
    let (outcome, events) = follow(Follow::First, &words)?;
    let first = events[0].pid;
    expect("only the first process", events.iter().all(|e| e.pid == first))?;
    let of_child = events.iter().filter(|e| e.tid != first && e.kind == EventKind::Call).count();
    expect(&format!("{of_child} calls of the child: {events:?}"), of_child == 2)?;
    expect(&format!("{outcome:?}"), outcome.status.code() == Some(3) && outcome.counters.processes == 1)?;
    expect("no fork", count(&events, EventKind::Fork) + count(&events, EventKind::Share) == 0)?;
    // With all of them, the same calls are those of processes.
    let (outcome, events) = follow(Follow::All, &words)?;
    let processes = count(&events, EventKind::Fork) + count(&events, EventKind::Share);
    expect(&format!("{outcome:?}"), processes == 2 && outcome.counters.processes == 3)
}

fn programs() -> Result<(), Failed> {
    let script = "/bin/true; /bin/true & cat /dev/null; wait; sh -c 'exec /bin/true'; exit 4";
    let (outcome, events) = follow(named(&["no-such", "true"]), &["sh", "-c", script])?;
    expect(&format!("{outcome:?}"), outcome.status.code() == Some(4) && outcome.counters.notes.is_empty())?;
    expect(&format!("{:?}", outcome.counters), (outcome.counters.processes, outcome.counters.execs) == (3, 3))?;
    let mut begun = Vec::new();
    for event in &events {
        if !begun.contains(&event.pid) {
            begun.push(event.pid);
            let begins = event.kind == EventKind::Exec && event.areas.len() > 5;
            expect(&format!("it begins with its program: {event:?}"), begins)?;
        }
    }
    expect("their ends", count(&events, EventKind::Exit) == 3 && count(&events, EventKind::Checked) == 3)?;
    expect("areas of the first", outcome.counters.areas_final > 5)
}

fn loses_sight() -> Result<(), Failed> {
    let (outcome, events) = follow(named(&["sh"]), &["sh", "-c", "(exec /bin/true); exec /bin/true"])?;
    expect(&format!("{outcome:?}"), outcome.counters.processes == 2 && outcome.status.success())?;
    let loads: Vec<_> = events.iter().filter(|e| e.kind == EventKind::Exec).collect();
    let areas = loads.iter().map(|e| e.areas.is_empty()).collect::<Vec<_>>();
    expect(&format!("the shell has areas, the others not: {areas:?}"), areas == [false, true, true])?;
    expect(&loads[1].text, loads[1].text.ends_with("true") || loads[1].text.ends_with("coreutils"))?;
    for load in &loads[1..] {
        let later = events.iter().filter(|e| e.pid == load.pid && e.seq > load.seq).map(|e| e.kind).collect::<Vec<_>>();
        expect(&format!("nothing but its end follows: {later:?}"), later == [EventKind::Exit])?;
    }
    let mut replay = Replay::default();
    for event in &events {
        replay.apply(event)?;
        let gone = event.kind == EventKind::Exec && event.areas.is_empty();
        let left = replay.space_of(event.pid).map_or(0, |space| space.len());
        expect("its areas are gone", !gone || left == 0)?;
    }
    Ok(())
}

fn script() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let tool = dir.path().join("a-tool-with-a-long-name");
    std::fs::write(&tool, "#!/bin/sh\n/bin/true\n")?;
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755))?;
    let command = format!("{}; /bin/true", tool.display());
    let (outcome, events) = follow(named(&["a-tool-with-a-long-name"]), &["sh", "-c", &command])?;
    let begins = events.first().is_some_and(|e| e.kind == EventKind::Exec && !e.areas.is_empty());
    expect(&format!("{outcome:?} {:?}", events.first()), begins)?;
    expect("the shell that runs it", count(&events, EventKind::Checked) >= 1)
}

fn nobody() -> Result<(), Failed> {
    let mut options = Options::new("sh").args(["-c", "/bin/true; exit 5"]);
    options.follow = named(&["no-such", "neither"]);
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    let counters = &outcome.counters;
    expect(&format!("{counters:?}"), (counters.processes, counters.execs, counters.checks) == (0, 0, 0))?;
    expect(&format!("{events:?}"), events.is_empty() && outcome.status.code() == Some(5))?;
    let told = ["nothing was recorded: no process has loaded no-such or neither"];
    expect(&format!("{:?}", counters.notes), counters.notes == told)
}

/// The recording gives the areas that `/proc` shows when the process was let go.
fn attached() -> Result<(), Failed> {
    let script = "while read line; do /bin/true; (a=$(/bin/true)); echo did $line; done";
    for (follow, recorded) in [(Follow::First, true), (named(&["sh"]), true), (named(&["true"]), false)] {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pid = child.id();
        let input = child.stdin.as_mut().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut does = |what: &str| -> Result<(), Failed> {
            writeln!(input, "{what}")?;
            let said = output.next().ok_or("it has ended")??;
            expect(&said, said == format!("did {what}"))
        };
        // It is the shell by now.
        does("before")?;
        let mut running = Running::find(pid)?;
        let let_go = LetGo::default();
        (running.follow, running.let_go) = (follow.clone(), Some(let_go.clone()));
        let recorder = std::thread::spawn(move || {
            let mut events = Vec::new();
            attach(&running, &mut events).map(|outcome| (outcome, events))
        });
        let traced = || std::fs::read_to_string(format!("/proc/{pid}/status")).map(|s| !s.contains("TracerPid:\t0\n"));
        while !traced()? {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        does("one")?;
        does("two")?;
        let_go.ask();
        let (outcome, events) = recorder.join().map_err(|_| "panic")??;
        expect(&format!("{outcome:?}"), outcome.counters.differences == 0 && !traced()?)?;
        rerun::replays("followed", &events)?;
        let numbers = events.iter().zip(0..).all(|(event, number)| event.seq == number);
        expect("numbers without a gap", numbers && outcome.counters.events == events.len() as u64)?;
        let is_first = |e: &Event| (e.kind, e.pid) == (EventKind::Found, pid);
        expect(&format!("{follow:?}: {:?}", events.first()), events.first().is_some_and(is_first) == recorded)?;
        let others = events.iter().filter(|e| e.pid != pid).count();
        expect(&format!("{follow:?}: {others} of others"), (others == 0) == (follow == Follow::First))?;
        let mut replay = Replay::default();
        events.iter().try_for_each(|event| replay.apply(event))?;
        if recorded {
            let areas: Vec<_> = replay.space_of(pid).ok_or("no space")?.areas().collect();
            let shown: Vec<String> = areas.iter().map(|area| MapsLine(area).to_string()).collect();
            let all = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
            let has: Vec<&str> = all.lines().filter(|line| !line.contains("[vsyscall]")).collect();
            expect(&format!("{shown:#?} {has:#?}"), shown == has)?;
        }
        drop(child.stdin.take());
        expect("it goes on", child.wait()?.success())?;
    }
    Ok(())
}
