//! Recordings without stops that lose events: forks, calls, ends, and all events at the program's
//! end. The trace must be right, or say what it does not know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;
use samara_record::Options;
use samara_record::nostop::{self, EventSource};
use samara_trace::event::{Event, EventKind};
use samara_trace::file::Replay;
use samara_trace::{Sink, SinkError};

use crate::expect;
use crate::nostop::{MARK, allowed, by_bpf, is_marked_map, settings};
use crate::recorder::Body;
use crate::syscalls::*;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("nostop_loses_forks_and_ends", lost_processes),
    ("nostop_loses_forks_and_ends_by_bpf", || by_bpf(lost_processes)),
    ("nostop_loses_the_last_calls", lost_at_the_end),
    ("nostop_loses_the_last_calls_by_bpf", || by_bpf(lost_at_the_end)),
];

/// Children that the program makes one after the other.
const CHILDREN: i32 = 240;

/// `mortals FOLDER`: children that map memory, have a child, or load a program, and end with codes
/// of their own. `ends` has their numbers and codes; the program goes on until there is `go`.
pub(crate) fn mortals(folder: &str) {
    let folder = Path::new(folder);
    let work = |n: u64| (0..n).for_each(|_| assert_eq!(munmap(anon(MARK), MARK), 0));
    let mut ends = String::new();
    for i in 0..CHILDREN {
        let code = 1 + i % 100;
        if i % 8 == 7 {
            let mut child = Command::new("/bin/sh").args(["-c", &format!("exit {code}")]).spawn().unwrap();
            ends += &format!("{} {code} sh\n", child.id());
            assert_eq!(child.wait().unwrap().code(), Some(code));
            continue;
        }
        let child = fork();
        if child == 0 {
            work(10);
            if i % 3 == 0 {
                let grandchild = fork();
                if grandchild == 0 {
                    work(5);
                    exit(101);
                }
                assert_eq!(wait(grandchild, 0), 101 << 8);
            }
            exit(code);
        }
        ends += &format!("{child} {code}\n");
        assert_eq!(wait(child, 0), code << 8);
        work(3);
        // Child 36 of 40 is alone between two pauses, in which the recorder reads everything.
        if matches!(i % 40, 35 | 36) {
            std::thread::sleep(Duration::from_millis(250));
        }
    }
    std::fs::write(folder.join("ends"), ends).unwrap();
    for _ in 0..12_000 {
        if folder.join("go").exists() {
            break;
        }
        work(1);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Keeps the events. The program may end after two comparisons that follow its last child.
struct Compared {
    events: Vec<Event>,
    folder: PathBuf,
    times: u32,
}

impl Sink for Compared {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        let is_first = self.events.first().is_some_and(|first| first.pid == event.pid);
        if is_first && event.kind == EventKind::Checked && self.folder.join("ends").exists() {
            self.times += 1;
            if self.times == 2 {
                let _ = std::fs::write(self.folder.join("go"), "");
            }
        }
        self.events.push(event);
        Ok(())
    }
}

/// Events of births, calls and ends are lost. Each process ends in the trace, with its exit code or
/// without one, and its parent's areas stay right.
fn lost_processes() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let mut sink = Compared { events: Vec::new(), folder: dir.path().to_owned(), times: 0 };
    let options = Options::new(std::env::current_exe()?).args(["--program", "mortals", &dir.path().to_string_lossy()]);
    let mut settings = settings();
    // BPF has one ring for all processors, with this size times their number.
    settings.ring = if settings.source == EventSource::Bpf { 16 << 10 } else { 32 << 10 };
    settings.lag = Duration::from_millis(30);
    let Some(watched) = allowed(nostop::record(&options, &settings, &mut sink))? else { return Ok(()) };
    let seen = &watched.seen;
    expect(&format!("it ended well: {}", watched.outcome.status), watched.outcome.status.success())?;
    expect(&format!("much was lost: {seen}"), seen.lost_in_all() > 100)?;
    let of = |kind: EventKind| sink.events.iter().filter(move |event| event.kind == kind);
    let differences: Vec<_> = of(EventKind::Difference).map(|event| &event.text).collect();
    expect(&format!("nothing is told wrongly: {differences:?}; {seen}"), differences.is_empty())?;
    let printed = std::fs::read_to_string(dir.path().join("ends"))?;
    let ended = |line: &str| -> Option<(u32, (i64, bool))> {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, (words.next()?.parse().ok()?, words.next().is_none())))
    };
    let ended: BTreeMap<u32, (i64, bool)> = printed.lines().filter_map(ended).collect();
    expect("the program wrote the ends of its children", ended.len() == CHILDREN as usize)?;
    expect(&format!("losses explain the numbers of areas: {seen}"), seen.uncounted == 0)?;
    let whole = complete_children(&sink.events, |pid| ended.get(&pid).is_some_and(|(_, copy)| *copy))?;
    let (mut known, mut unknown) = (0, 0);
    for end in of(EventKind::Exit) {
        let Some((code, _)) = ended.get(&end.pid) else { continue };
        let is_told = end.text.is_empty();
        expect(
            &format!("process {} ended with {:x}, not {code}", end.pid, end.result),
            !is_told || end.result == code << 8,
        )?;
        *(if is_told { &mut known } else { &mut unknown }) += 1;
    }
    println!("{known} ends known, {unknown} not, {whole} children complete, of {CHILDREN}; {seen}");
    let ends: Vec<u32> = of(EventKind::Exit).map(|event| event.pid).collect();
    let begun = of(EventKind::Fork).chain(of(EventKind::Share)).chain(of(EventKind::Found)).map(|event| event.pid);
    let endless: Vec<u32> = begun.filter(|pid| !ends.contains(pid)).collect();
    expect(&format!("processes {endless:?} never end: {seen}"), endless.is_empty())?;
    let compared = of(EventKind::Checked).filter(|event| event.result == 0 && event.text.is_empty()).count();
    expect(&format!("{compared} comparisons: {seen}"), compared >= 2)
}

/// Checks the children that the trace calls complete at their end: it has all ten maps of each.
/// Returns their number. Those that loaded a program are left out (`is_copy`).
fn complete_children(events: &[Event], is_copy: impl Fn(u32) -> bool) -> Result<usize, Failed> {
    let (mut replay, mut maps, mut complete) = (Replay::default(), BTreeMap::<u64, usize>::new(), 0);
    for event in events {
        let space = replay.process(event.pid).map(|process| process.space);
        if event.kind == EventKind::Exit
            && is_copy(event.pid)
            && let Some(space) = space
            && replay.space(space).is_some_and(|space| !space.is_incomplete())
        {
            let maps = maps.get(&space).copied().unwrap_or(0);
            expect(&format!("process {} is called complete, with {maps} of 10 maps", event.pid), maps == 10)?;
            complete += 1;
        }
        replay.apply(event)?;
        if is_marked_map(event) {
            *maps.entry(event.space).or_default() += 1;
        }
    }
    Ok(complete)
}

/// A program that ends while the rings are full: no record comes after the lost ones.
fn lost_at_the_end() -> Result<(), Failed> {
    const PAIRS: usize = 3_000;
    let dir = tempfile::tempdir()?;
    let go = dir.path().join("go");
    std::fs::write(&go, "")?;
    let options = Options::new(std::env::current_exe()?).args([
        "--program",
        "pairs",
        "1",
        &PAIRS.to_string(),
        &go.to_string_lossy(),
    ]);
    let mut settings = settings();
    (settings.ring, settings.lag) = (32 << 10, Duration::from_secs(1));
    let mut events: Vec<Event> = Vec::new();
    let Some(watched) = allowed(nostop::record(&options, &settings, &mut events))? else { return Ok(()) };
    let seen = &watched.seen;
    expect(&format!("it ended well: {}", watched.outcome.status), watched.outcome.status.success())?;
    expect(&format!("much was lost: {seen}"), seen.lost_in_all() > 1_000)?;
    let counts = |event: &&Event| matches!(event.kind, EventKind::Learnt | EventKind::Checked);
    let lost = events.iter().filter(counts).map(|event| event.args[2]).max();
    expect(&format!("{lost:?} events were lost by the trace: {seen}"), lost == Some(seen.lost_in_all()))?;
    let mut replay = Replay::default();
    let maps = events.iter().filter(|event| is_marked_map(event)).count();
    let (_, before) = events.split_last().ok_or("no events")?;
    before.iter().try_for_each(|event| replay.apply(event))?;
    let is_incomplete = replay.space(events[0].space).is_some_and(|space| space.is_incomplete());
    expect(&format!("the trace says that {} maps are missing: {seen}", PAIRS - maps), is_incomplete)
}
