//! A process of several threads that comes into a recorded control group: it was born before, so
//! its records alone tell of it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Failed;
use samara_record::LetGo;
use samara_record::nostop::{self, Group};
use samara_trace::event::{Event, EventKind};
use samara_trace::{Sink, SinkError};

use crate::expect;
use crate::nostop::{Asks, MARK, Until, allowed, by_bpf, settings, start};
use crate::recorder::Body;
use crate::syscalls::{anon, munmap};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("nostop_finds_all_threads_by_their_records", found_by_records),
    ("nostop_finds_all_threads_by_their_records_by_bpf", || by_bpf(found_by_records)),
    ("nostop_records_what_comes_to_a_group_and_ends_soon", short_ones),
    ("nostop_records_what_comes_to_a_group_and_ends_soon_by_bpf", || by_bpf(short_ones)),
];

/// `steady FILE`: two threads map memory a few hundred times a second until the file is there.
pub(crate) fn steady(file: &str) {
    let work = |file: PathBuf| {
        move || {
            while !file.exists() {
                let at = anon(MARK);
                assert_eq!(munmap(at, MARK), 0);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    };
    let all = [file, file].map(|file| std::thread::spawn(work(file.into())));
    all.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A control group of version 2, which goes when this is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None`: this machine has none that may be made; prints so.
    fn new() -> Result<Option<ControlGroup>, Failed> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let at = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(at))
        });
        let Some(root) = root else {
            println!("skipped: nostop: there are no control groups of version 2");
            return Ok(None);
        };
        // Container engines mount the hierarchies of version 1 on some machines.
        if std::fs::read_to_string("/proc/self/cgroup")?.contains("perf_event") {
            println!("skipped: nostop: perf events are of control groups of version 1 here");
            return Ok(None);
        }
        let path = root.join(format!("samara-record-test-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Some(ControlGroup(path))),
            Err(why) => {
                println!("skipped: nostop: no control group can be made: {why}");
                Ok(None)
            }
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Moves a process into the group when it is recorded, between two lists of its members.
struct Moves {
    asks: Asks,
    to: PathBuf,
    pid: u32,
}

impl Sink for Moves {
    fn ready(&mut self) {
        let (to, pid) = (self.to.join("cgroup.procs"), self.pid.to_string());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::write(to, pid)
        });
    }

    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.asks.event(event)
    }
}

/// It is found once, all its threads are its own, and no comparison finds a difference.
fn found_by_records() -> Result<(), Failed> {
    let Some(control_group) = ControlGroup::new()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("end");
    let mut child = start(&["steady", &file.to_string_lossy()])?;
    let let_go = LetGo::default();
    let mut group = Group::control_group(&control_group.0)?;
    (group.let_go, group.duration) = (Some(let_go.clone()), Some(Duration::from_secs(60)));
    let asks = Asks { until: Until::new(dir.path(), 200), let_go };
    let mut sink = Moves { asks, to: control_group.0.clone(), pid: child.id() };
    let result = allowed(nostop::record_group(&group, &settings(), &mut sink));
    std::fs::write(&file, "")?;
    let ended = child.wait()?;
    let Some(watched) = result? else { return Ok(()) };
    let (sink, seen) = (sink.asks.until, &watched.seen);
    expect(&format!("it goes on and ends well: {ended}"), ended.success())?;
    let found: Vec<u32> = sink.of(EventKind::Found).map(|event| event.pid).collect();
    expect(&format!("found once: {found:?}"), found == [child.id()] && watched.outcome.counters.processes == 1)?;
    let callers: BTreeSet<(u32, u32)> = sink.of(EventKind::Call).map(|event| (event.pid, event.tid)).collect();
    expect(&format!("its two threads make calls: {callers:?}"), callers.len() == 2)?;
    expect(&format!("they are its own: {callers:?}"), callers.iter().all(|(pid, _)| *pid == child.id()))?;
    let differences: Vec<_> = sink.of(EventKind::Difference).map(|event| &event.text).collect();
    expect(&format!("no difference: {differences:?}; {seen}"), differences.is_empty() && seen.disordered == 0)?;
    let notes = &watched.outcome.counters.notes;
    let checks: Vec<_> = sink.of(EventKind::Checked).map(|event| event.result).collect();
    expect(&format!("compared: {checks:?}; {seen}; {notes:?}"), checks.contains(&0))
}

/// Runs short programs in the group, one after the other, and then asks for the end.
struct Runs {
    events: Vec<Event>,
    procs: PathBuf,
    let_go: LetGo,
}

const PROGRAMS: usize = 5;

impl Sink for Runs {
    fn ready(&mut self) {
        let (procs, let_go) = (self.procs.display().to_string(), self.let_go.clone());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            let script = format!("echo $$ > {procs} && exec /bin/true");
            for _ in 0..PROGRAMS {
                let _ = std::process::Command::new("/bin/sh").args(["-c", &script]).status();
            }
            std::thread::sleep(Duration::from_millis(100));
            let_go.ask();
        });
    }

    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.events.push(event);
        Ok(())
    }
}

/// They have ended before anybody could look at them: the programs that they load are known all the
/// same, and what these do.
fn short_ones() -> Result<(), Failed> {
    let Some(control_group) = ControlGroup::new()? else { return Ok(()) };
    let let_go = LetGo::default();
    let mut group = Group::control_group(&control_group.0)?;
    (group.let_go, group.duration) = (Some(let_go.clone()), Some(Duration::from_secs(60)));
    let procs = control_group.0.join("cgroup.procs");
    let mut sink = Runs { events: Vec::new(), procs, let_go };
    let Some(watched) = allowed(nostop::record_group(&group, &settings(), &mut sink))? else { return Ok(()) };
    let of = |kind: EventKind| sink.events.iter().filter(move |event| event.kind == kind);
    let loaded: BTreeSet<u32> = of(EventKind::Exec).map(|event| event.pid).collect();
    let calls = |pid: &u32| of(EventKind::Call).filter(|event| event.pid == *pid).count();
    let least = loaded.iter().map(calls).min();
    let seen = &watched.seen;
    // Where nothing is left in the group, the recording ends.
    expect(&format!("they are recorded: {loaded:?}, {least:?}; {seen}"), !loaded.is_empty() && least >= Some(5))?;
    expect(&format!("no difference; {seen}"), of(EventKind::Difference).next().is_none())
}
