//! Recordings that start and stop by signals: the first event of each process has the areas that
//! the kernel shows, and nothing is recorded before and after.
//!
//! A program and its test exchange messages by files in a directory; the files' names are the
//! messages.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsString, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Failed;
use samara_record::{Follow, LetGo, Options, Outcome, RecordError, Running, Signal, Status, attach, record};
use samara_trace::FileSink;
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{FileError, MapsLine, Replay, TraceReader};
use samara_trace::{Sink, SinkError};

use crate::attaching::{maps_and_moves, wait_until};
use crate::recorder::Body;
use crate::syscalls::*;
use crate::waiting_calls::Awaited;
use crate::{check, expect, rerun, totals};

const PAGE: u64 = 4096;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("switch_on", on),
    ("switch_off", off),
    ("switch_on_and_off_in_a_file", in_a_file),
    ("switch_on_beside_calls", on_beside_calls),
    ("switch_off_beside_calls", off_beside_calls),
    ("switch_on_beside_a_child_that_shares_memory", beside_a_sharing_child),
    ("switch_on_and_off_in_the_middle_of_everything", busy),
    ("switch_never", never),
    ("switch_on_too_late", too_late),
    ("switch_in_any_order", orders),
    ("switch_on_programs", programs),
    ("switch_while_attached", attached),
    ("switch_on_starts_the_time", starts_the_time),
    ("switch_by_names", names),
];

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str, args: &[String]) -> bool {
    let program: fn(&Path) = match name {
        "switch-family" => family_program,
        "switch-awaited" => awaited_program,
        "switch-sharing" => sharing_program,
        "switch-busy" => busy_program,
        _ => return false,
    };
    program(Path::new(&args[0]));
    true
}

/// Sends a message, with the number of the process.
fn say(dir: &Path, word: &str) {
    std::fs::write(dir.join("new"), pid().to_string()).unwrap();
    std::fs::rename(dir.join("new"), dir.join(word)).unwrap();
}

/// Waits for a message.
fn hear(dir: &Path, word: &str) {
    while !dir.join(word).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A parent with two threads, and a child. It answers once, after calls that the recorder stops. In
/// the end each maps more, and the parent makes a thread and another child.
fn family_program(dir: &Path) {
    let work = || {
        let at = anon(8 * PAGE);
        assert_eq!(mprotect(at + PAGE, PAGE, R), 0);
        assert_eq!(munmap(at + 4 * PAGE, 2 * PAGE), 0);
    };
    work();
    let child = fork();
    if child == 0 {
        deep(400);
        work();
        say(dir, "child");
        hear(dir, "go");
        work();
        exit(4);
    }
    hear(dir, "child");
    deep(600);
    let thread = std::thread::spawn({
        let dir = dir.to_owned();
        move || {
            work();
            say(&dir, "thread");
            hear(&dir, "go");
            work();
        }
    });
    hear(dir, "thread");
    say(dir, "parent");
    while !dir.join("go").exists() {
        if dir.join("look").exists() && !dir.join("looked").exists() {
            work();
            say(dir, "looked");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    work();
    std::thread::spawn(work).join().unwrap();
    thread.join().unwrap();
    let other = fork();
    if other == 0 {
        work();
        exit(5);
    }
    assert_eq!([wait(child, 0), wait(other, 0)], [4 << 8, 5 << 8]);
    exit(3);
}

/// Uses at least `left` KiB of the stack.
fn deep(left: u64) -> u64 {
    let page = std::hint::black_box([left; 128]);
    if left == 0 { page[0] } else { deep(left - 1).wrapping_add(page[7]) }
}

/// A call waits in the kernel, and another one that touches it has returned. Both threads go on
/// after a message.
fn awaited_program(dir: &Path) {
    let page = Awaited::new();
    let at = page.at;
    let waits = [at - PAGE, 2 * PAGE, libc::MADV_POPULATE_READ as u64, 0, 0, 0];
    let first = std::thread::spawn(move || call(libc::SYS_madvise, waits));
    page.wanted();
    // It touches the range of the call that waits.
    assert_eq!(mprotect(at + PAGE, PAGE, R), 0);
    say(dir, "parent");
    hear(dir, "go");
    page.serve();
    if first.join().unwrap() != 0 {
        exit(7);
    }
    assert_eq!(munmap(at - PAGE, 4 * PAGE), 0);
    exit(3);
}

/// A child that shares the memory stands between two calls.
fn sharing_program(dir: &Path) {
    static DIR: Mutex<Option<PathBuf>> = Mutex::new(None);
    extern "C" fn child(_: *mut libc::c_void) -> c_int {
        let dir = DIR.lock().unwrap().clone().unwrap();
        let at = anon(4 * PAGE);
        say(&dir, "child");
        hear(&dir, "go");
        c_int::from(mprotect(at + PAGE, PAGE, R) != 0)
    }
    *DIR.lock().unwrap() = Some(dir.to_owned());
    assert_eq!(wait(sharing_child(child), 0), 0);
    assert_eq!(munmap(anon(8 * PAGE), PAGE), 0);
    exit(3);
}

/// Threads that map, make threads, fork and load programs all the time.
fn busy_program(dir: &Path) {
    static OVER: AtomicBool = AtomicBool::new(false);
    static DONE: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    let family = || {
        let child = fork();
        if child == 0 {
            let at = anon(4 * PAGE);
            exit(if mprotect(at + PAGE, PAGE, R) == 0 { 5 } else { 6 });
        }
        assert_eq!(wait(child, 0), 5 << 8);
    };
    let load = || assert!(Command::new("/bin/true").status().unwrap().success());
    let works: [fn(); 4] = [
        || assert!(maps_and_moves(1)),
        || assert_eq!(std::thread::spawn(|| munmap(anon(PAGE), PAGE)).join().unwrap(), 0),
        family,
        load,
    ];
    let threads: Vec<_> = works
        .into_iter()
        .zip(&DONE)
        .map(|(work, done)| {
            std::thread::spawn(move || {
                while !OVER.load(Ordering::Relaxed) {
                    work();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    while DONE.iter().any(|done| done.load(Ordering::Relaxed) == 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    say(dir, "parent");
    hear(dir, "go");
    OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    exit(3);
}

/// The events that a sink has got so far.
#[derive(Clone, Default)]
struct Heard {
    events: Arc<Mutex<Vec<Event>>>,
    complete: Arc<AtomicBool>,
}

impl Sink for Heard {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        if self.complete.load(Ordering::Relaxed) {
            return Err(SinkError::new("an event after the end"));
        }
        self.events.lock().map_err(|_| SinkError::new("a test has failed"))?.push(event);
        Ok(())
    }

    fn complete(&mut self) {
        self.complete.store(true, Ordering::Relaxed);
    }
}

impl Heard {
    fn events(&self) -> Vec<Event> {
        self.events.lock().map(|events| events.clone()).unwrap_or_default()
    }

    /// Waits until this many processes were found.
    fn finds(&self, processes: usize) -> Result<(), Failed> {
        wait_until("the processes are found", || Ok(count(&self.events(), EventKind::Found) >= processes))
    }

    fn completes(&self) -> Result<(), Failed> {
        wait_until("the recording is complete", || Ok(self.complete.load(Ordering::Relaxed)))
    }
}

/// A program that is being recorded.
struct Run<S> {
    dir: tempfile::TempDir,
    recorder: std::thread::JoinHandle<(Result<Outcome, RecordError>, S)>,
}

impl<S: Sink + Send + 'static> Run<S> {
    fn start(name: &str, mut sink: S, change: impl FnOnce(&mut Options)) -> Result<Run<S>, Failed> {
        catch_signals();
        let dir = tempfile::tempdir()?;
        let mut options = Options::new(std::env::current_exe()?).args(["--program", name]);
        options = options.args([dir.path()]);
        change(&mut options);
        let recorder = std::thread::spawn(move || (record(&options, &mut sink), sink));
        Ok(Run { dir, recorder })
    }

    /// Waits for a message of the program: the number of the sending process.
    fn hears(&self, word: &str) -> Result<u32, Failed> {
        let said = self.dir.path().join(word);
        wait_until(&format!("it says {word}"), || Ok(said.exists() || self.recorder.is_finished()))?;
        let number = std::fs::read_to_string(said).map_err(|e| format!("it ended before it said {word}: {e}"))?;
        Ok(number.parse()?)
    }

    fn say(&self, word: &str) {
        say(self.dir.path(), word);
    }

    fn end(self) -> Result<(Outcome, S), Failed> {
        let (outcome, sink) = self.recorder.join().map_err(|_| "panic")?;
        Ok((outcome?, sink))
    }
}

fn send(signal: c_int) {
    kill(pid(), signal);
}

/// Sends a signal to this thread, which has handled it when this returns.
fn send_here(signal: c_int) {
    let tid = call(libc::SYS_gettid, [0; 6]);
    assert_eq!(call(libc::SYS_tgkill, [pid() as u64, tid as u64, signal as u64, 0, 0, 0]), 0);
}

/// Ignores a signal that comes while there is no recording.
fn catch_signals() {
    extern "C" fn nothing(_: c_int) {}
    [libc::SIGUSR1, libc::SIGUSR2].into_iter().for_each(|signal| on_signal(signal, nothing));
}

fn count(events: &[Event], kind: EventKind) -> usize {
    events.iter().filter(|e| e.kind == kind).count()
}

/// The areas that the kernel shows, as lines.
fn kernel_has(pid: u32) -> Result<Vec<String>, Failed> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(all.lines().filter(|line| !line.contains("[vsyscall]")).map(str::to_owned).collect())
}

fn same(what: &str, ours: impl Iterator<Item = String>, theirs: &[String]) -> Result<(), Failed> {
    let ours: Vec<String> = ours.collect();
    expect(&format!("{what}: {ours:#?} {theirs:#?}"), ours == theirs)
}

/// The checks for every recorded part of a run.
fn whole(outcome: &Outcome, events: &[Event]) -> Result<(), Failed> {
    expect("numbers without a gap", events.iter().zip(0..).all(|(event, number)| event.seq == number))?;
    let (mut replay, mut first) = (Replay::default(), BTreeMap::new());
    for event in events {
        replay.apply(event)?;
        if !event.kind.defines() {
            first.entry(event.pid).or_insert((event.kind, event.areas.len()));
        }
    }
    let begins = |(kind, areas): &(EventKind, usize)| {
        *kind == EventKind::Share || ([EventKind::Found, EventKind::Fork, EventKind::Exec].contains(kind) && *areas > 5)
    };
    expect(&format!("each process begins with its areas: {first:?}"), first.values().all(begins))?;
    rerun::reproduces("switched", events)?;
    expect("events without a difference", outcome.counters.differences == 0)?;
    totals(&outcome.counters, events)
}

fn noted(outcome: &Outcome, text: &str) -> Result<(), Failed> {
    let notes = &outcome.counters.notes;
    expect(&format!("{text}: {notes:?}"), notes.iter().any(|note| note.contains(text)))
}

fn on() -> Result<(), Failed> {
    let heard = Heard::default();
    let run = Run::start("switch-family", heard.clone(), |options| options.start_on = Some(Signal::Usr1))?;
    let (parent, child) = (run.hears("parent")?, run.hears("child")?);
    expect("nothing was recorded", heard.events().is_empty())?;
    let has = [(parent, kernel_has(parent)?), (child, kernel_has(child)?)];
    (0..20).for_each(|_| send(libc::SIGUSR1));
    heard.finds(2)?;
    for ((pid, has), found) in has.iter().zip(heard.events()) {
        expect(&format!("the first comes first: {found:?}"), (found.pid, found.kind) == (*pid, EventKind::Found))?;
        expect(&found.text, found.text.contains("traced_programs"))?;
        same("found", found.areas.iter().map(|area| MapsLine(area).to_string()), has)?;
    }
    run.say("go");
    let (outcome, _) = run.end()?;
    let events = heard.events();
    check(&events, &outcome)?;
    whole(&outcome, &events)?;
    rerun::replays("switched", &events)?;
    noted(&outcome, "s on, when USR1 came")?;
    expect(&format!("{}", outcome.status), outcome.status.code() == Some(3))?;
    let kinds =
        [EventKind::Found, EventKind::Fork, EventKind::Thread, EventKind::Exec, EventKind::Checked, EventKind::Exit];
    let counts = kinds.map(|kind| count(&events, kind));
    expect(&format!("{counts:?}"), counts == [2, 1, 1, 0, 3, 3] && outcome.counters.processes == 3)?;
    expect("it was not the end", !heard.complete.load(Ordering::Relaxed))?;
    let tids: BTreeSet<u32> =
        events.iter().filter(|e| e.nr == Some(libc::SYS_mprotect as u32)).map(|e| e.tid).collect();
    expect(&format!("calls of all threads: {tids:?}"), tids.len() == 5)
}

fn off() -> Result<(), Failed> {
    let heard = Heard::default();
    let run = Run::start("switch-family", heard.clone(), |options| options.stop_on = Some(Signal::Usr2))?;
    let (parent, child) = (run.hears("parent")?, run.hears("child")?);
    (0..20).for_each(|_| send(libc::SIGUSR2));
    heard.completes()?;
    let events = heard.events();
    let mut replay = Replay::default();
    events.iter().try_for_each(|event| replay.apply(event))?;
    for pid in [parent, child] {
        let areas: Vec<_> = replay.space_of(pid).ok_or("no space")?.areas().collect();
        same("at the stop", areas.iter().map(|area| MapsLine(area).to_string()), &kernel_has(pid)?)?;
    }
    run.say("go");
    let (outcome, _) = run.end()?;
    expect(&format!("{}", outcome.status), outcome.status.code() == Some(3))?;
    expect("nothing came later", heard.events() == events && !outcome.counters.ended_early)?;
    whole(&outcome, &events)?;
    rerun::replays("switched", &events)?;
    noted(&outcome, "recorded until")?;
    let kinds = [EventKind::Exec, EventKind::Fork, EventKind::Thread, EventKind::Checked, EventKind::Exit];
    let counts = kinds.map(|kind| count(&events, kind));
    expect(&format!("{counts:?}"), counts == [1, 1, 1, 2, 0])?;
    expect("compared and equal", events.iter().filter(|e| e.kind == EventKind::Checked).all(|e| e.result == 0))
}

/// The file is whole when the recording has stopped, while the program goes on.
fn in_a_file() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("t.samara");
    let sink = FileSink::create(&file, &Options::new("program").header())?;
    let run = Run::start("switch-busy", sink, |options| {
        (options.start_on, options.stop_on, options.stacks) = (Some(Signal::Usr2), Some(Signal::Usr1), true);
    })?;
    run.hears("parent")?;
    let read = || -> Result<Result<Vec<Event>, FileError>, Failed> {
        Ok(TraceReader::new(std::fs::File::open(&file)?).and_then(|reader| reader.collect()))
    };
    expect("it is not whole", read()?.is_err())?;
    send(libc::SIGUSR2);
    let begun = || -> Result<usize, Failed> {
        let events = TraceReader::new(std::fs::File::open(&file)?)?.map_while(Result::ok);
        Ok(events.filter(|event| event.stack.is_some()).count())
    };
    wait_until("calls are recorded", || Ok(begun()? > 100))?;
    send(libc::SIGUSR1);
    wait_until("the trace is whole", || Ok(read()?.is_ok()))?;
    expect("the program goes on", !run.recorder.is_finished())?;
    let events = read()??;
    run.say("go");
    let (outcome, sink) = run.end()?;
    let written = sink.finish();
    expect(&format!("{:?}", written.error), written.error.is_none() && written.events == events.len() as u64)?;
    expect("nothing came later", read()?? == events)?;
    whole(&outcome, &events)?;
    expect("functions are named", events.iter().any(|e| e.kind == EventKind::Symbol && e.text.contains("busy_program")))
}

/// The program could not have a call wait.
fn cannot_wait(run: Run<Heard>) -> Result<(), Failed> {
    let (outcome, _) = run.end()?;
    expect(&format!("{}", outcome.status), outcome.status.code() == Some(7))?;
    println!("skipped: calls in progress: no userfaultfd that holds calls");
    Ok(())
}

/// Calls that are in progress at the start have their own events later.
fn on_beside_calls() -> Result<(), Failed> {
    let heard = Heard::default();
    let run = Run::start("switch-awaited", heard.clone(), |options| options.start_on = Some(Signal::Usr1))?;
    if run.hears("parent").is_err() {
        return cannot_wait(run);
    }
    send(libc::SIGUSR1);
    heard.finds(1)?;
    let before = heard.events();
    run.say("go");
    let (outcome, _) = run.end()?;
    let events = heard.events();
    check(&events, &outcome)?;
    whole(&outcome, &events)?;
    rerun::replays("switched", &events)?;
    expect(&format!("only what was found: {before:?}"), before.len() == 1)?;
    for nr in [libc::SYS_madvise, libc::SYS_mprotect] {
        let earlier = |e: &&Event| e.nr == Some(nr as u32) && e.entry_ns < before[0].entry_ns;
        expect(&format!("call {nr} is recorded when it returns"), events.iter().filter(earlier).count() == 1)?;
    }
    expect("it ends well", outcome.status.code() == Some(3) && count(&events, EventKind::Checked) == 1)
}

/// Calls that are in progress at the stop are not recorded, and their space cannot be compared.
fn off_beside_calls() -> Result<(), Failed> {
    let heard = Heard::default();
    let run = Run::start("switch-awaited", heard.clone(), |options| options.stop_on = Some(Signal::Usr1))?;
    if run.hears("parent").is_err() {
        return cannot_wait(run);
    }
    send(libc::SIGUSR1);
    heard.completes()?;
    let events = heard.events();
    run.say("go");
    let (outcome, _) = run.end()?;
    expect("nothing came later", heard.events() == events)?;
    whole(&outcome, &events)?;
    noted(&outcome, "1 space could not be compared with /proc/PID/maps: a call was in the kernel")?;
    expect("it ends well", outcome.status.code() == Some(3) && count(&events, EventKind::Checked) == 0)
}

fn beside_a_sharing_child() -> Result<(), Failed> {
    for follow in [Follow::All, Follow::First] {
        let heard = Heard::default();
        let run = Run::start("switch-sharing", heard.clone(), |options| {
            (options.start_on, options.follow) = (Some(Signal::Usr1), follow.clone());
        })?;
        let child = run.hears("child")?;
        let processes = if follow == Follow::All { 2 } else { 1 };
        send(libc::SIGUSR1);
        heard.finds(processes)?;
        let has = kernel_has(child)?;
        for found in heard.events() {
            same("found", found.areas.iter().map(|area| MapsLine(area).to_string()), &has)?;
        }
        run.say("go");
        let (outcome, _) = run.end()?;
        let events = heard.events();
        check(&events, &outcome)?;
        whole(&outcome, &events)?;
        expect("one space", events.iter().all(|event| event.space == events[0].space))?;
        let of_child: Vec<_> = events.iter().filter(|e| e.tid == child && e.kind == EventKind::Call).collect();
        let maker = if follow == Follow::All { child } else { events[0].pid };
        expect(&format!("{of_child:?}"), !of_child.is_empty() && of_child.iter().all(|e| e.pid == maker))?;
        let counts = (count(&events, EventKind::Found), count(&events, EventKind::Exit));
        expect(&format!("{counts:?}"), counts == (processes, processes))?;
    }
    Ok(())
}

/// At any moment: while threads begin, processes are forked and programs are loaded.
fn busy() -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut found = 0;
    for round in 0..12 {
        let heard = Heard::default();
        let run = Run::start("switch-busy", heard.clone(), |options| {
            (options.start_on, options.stop_on) = (Some(Signal::Usr1), Some(Signal::Usr2));
            options.seccomp = round % 4 != 3;
            options.patience = (round % 3 == 2).then_some(0);
        })?;
        run.hears("parent")?;
        std::thread::sleep(Duration::from_micros(random.u64(0..20_000)));
        let all = if round % 2 == 0 { 50 } else { 1 };
        (0..all).for_each(|_| send(libc::SIGUSR1));
        heard.finds(1)?;
        std::thread::sleep(Duration::from_micros(random.u64(0..100_000)));
        let stops = round % 6 < 4;
        (0..if stops { all } else { 0 }).for_each(|_| send(libc::SIGUSR2));
        if stops {
            heard.completes()?;
        }
        run.say("go");
        let (outcome, _) = run.end()?;
        let events = heard.events();
        let differs = events.iter().find(|e| e.kind == EventKind::Difference);
        expect(&format!("round {round}: {differs:?}"), differs.is_none())?;
        let unequal = events.iter().find(|e| e.kind == EventKind::Checked && e.result != 0);
        expect(&format!("round {round}: {unequal:?}"), unequal.is_none())?;
        whole(&outcome, &events)?;
        expect(&format!("{}", outcome.status), outcome.status.code() == Some(3))?;
        let ends = events.iter().any(|e| e.kind == EventKind::Exit && e.pid == events[0].pid);
        expect("its end is recorded unless the recording was stopped", ends != stops)?;
        found += count(&events, EventKind::Found);
    }
    expect(&format!("{found} processes were found"), found > 12)
}

fn never() -> Result<(), Failed> {
    let mut options = Options::new("sh").args(["-c", "/bin/true; exit 5"]);
    options.start_on = Some(Signal::Usr2);
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    let counters = &outcome.counters;
    expect(&format!("{counters:?}"), (counters.processes, counters.execs, counters.checks) == (0, 0, 0))?;
    expect(&format!("{events:?}"), events.is_empty() && outcome.status.code() == Some(5))?;
    expect(&format!("{:?}", counters.notes), counters.notes == ["nothing was recorded: USR2 did not come"])
}

/// The followed process has ended, and another one goes on.
fn too_late() -> Result<(), Failed> {
    let heard = Heard::default();
    let run = Run::start("switch-family", heard.clone(), |options| {
        let script = "(while ! test -e $0/go; do sleep 0.01; done) & echo $$ >$0/p; mv $0/p $0/parent; exit 6";
        let dir = options.args.pop().unwrap_or_default();
        (options.program, options.args) = ("sh".into(), vec!["-c".into(), script.into(), dir]);
        (options.start_on, options.follow) = (Some(Signal::Usr1), Follow::First);
    })?;
    let said = run.dir.path().join("parent");
    wait_until("it says its number", || Ok(said.exists()))?;
    let first = PathBuf::from(format!("/proc/{}", std::fs::read_to_string(said)?.trim()));
    wait_until("it ends", || Ok(!first.exists()))?;
    send(libc::SIGUSR1);
    run.say("go");
    let (outcome, _) = run.end()?;
    expect("nothing", heard.events().is_empty() && outcome.status.code() == Some(6))?;
    noted(&outcome, "nothing was recorded: the process had ended when USR1 came")
}

/// A stop before the start does nothing, nor does a start after the stop. One signal may be both.
fn orders() -> Result<(), Failed> {
    for both in [false, true] {
        let heard = Heard::default();
        let stop = if both { Signal::Usr1 } else { Signal::Usr2 };
        let run = Run::start("switch-family", heard.clone(), |options| {
            (options.start_on, options.stop_on) = (Some(Signal::Usr1), Some(stop));
        })?;
        run.hears("parent")?;
        if !both {
            send_here(libc::SIGUSR2);
            run.say("look");
            run.hears("looked")?; // the recorder has served its calls, and looked at signals before
        }
        send(libc::SIGUSR1);
        heard.finds(2)?;
        expect("it goes on", !heard.complete.load(Ordering::Relaxed))?;
        send(if both { libc::SIGUSR1 } else { libc::SIGUSR2 });
        heard.completes()?;
        send(libc::SIGUSR1);
        run.say("go");
        let (outcome, _) = run.end()?;
        let events = heard.events();
        whole(&outcome, &events)?;
        let kinds: Vec<_> = events.iter().map(|e| e.kind).collect();
        let all = [EventKind::Found, EventKind::Found, EventKind::Checked, EventKind::Checked];
        expect(&format!("{kinds:?}"), kinds == all && outcome.status.code() == Some(3))?;
    }
    Ok(())
}

fn programs() -> Result<(), Failed> {
    let heard = Heard::default();
    let run = Run::start("switch-family", heard.clone(), |options| {
        let script = "sleep 1000 & echo $! >$0/p; mv $0/p $0/parent; while ! test -e $0/go; do sleep 0.01; done; \
                      kill %1; wait; exec /bin/true";
        let dir = options.args.pop().unwrap_or_default();
        (options.program, options.args) = ("bash".into(), vec!["-c".into(), script.into(), dir]);
        let names = ["sleep", "true"].map(OsString::from).into();
        (options.start_on, options.follow) = (Some(Signal::Usr1), Follow::Programs(names));
    })?;
    let said = run.dir.path().join("parent");
    wait_until("it says a number", || Ok(said.exists()))?;
    let sleep: u32 = std::fs::read_to_string(said)?.trim().parse()?;
    let name = || std::fs::read_to_string(format!("/proc/{sleep}/comm"));
    wait_until("it is loaded", || Ok(name()? == "sleep\n"))?;
    send(libc::SIGUSR1);
    heard.finds(1)?;
    run.say("go");
    let (outcome, _) = run.end()?;
    let events = heard.events();
    whole(&outcome, &events)?;
    // Those that live for a moment are there or not.
    let found: Vec<_> = events.iter().filter(|e| e.kind == EventKind::Found).collect();
    expect(
        &format!("{found:?}"),
        found.iter().any(|e| e.pid == sleep) && found.iter().all(|e| !e.text.contains("bash")),
    )?;
    let last = events.iter().rfind(|e| e.kind == EventKind::Exec);
    expect(&format!("{last:?}"), last.is_some_and(|e| e.text.contains("true") || e.text.contains("coreutils")))
}

/// A running program of ours, and a recorder that attaches to it.
struct AttachedTo {
    dir: tempfile::TempDir,
    child: std::process::Child,
    recorder: std::thread::JoinHandle<Result<Outcome, RecordError>>,
}

impl AttachedTo {
    fn start(heard: &Heard, change: impl FnOnce(&mut Running)) -> Result<AttachedTo, Failed> {
        catch_signals();
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.args(["--program", "switch-family"]).arg(dir.path()).spawn()?;
        wait_until("it runs", || Ok(dir.path().join("parent").exists()))?;
        let mut running = Running::find(child.id())?;
        change(&mut running);
        let mut sink = heard.clone();
        let recorder = std::thread::spawn(move || attach(&running, &mut sink));
        let it = AttachedTo { dir, child, recorder };
        wait_until("it is traced", || it.is_traced())?;
        Ok(it)
    }

    fn is_traced(&self) -> Result<bool, Failed> {
        Ok(!std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?.contains("TracerPid:\t0\n"))
    }

    fn end(mut self) -> Result<Outcome, Failed> {
        let outcome = self.recorder.join().map_err(|_| "panic")??;
        say(self.dir.path(), "go");
        expect("it goes on", self.child.wait()?.code() == Some(3))?;
        Ok(outcome)
    }
}

fn attached() -> Result<(), Failed> {
    let heard = Heard::default();
    let it = AttachedTo::start(&heard, |running| {
        (running.start_on, running.stop_on) = (Some(Signal::Usr1), Some(Signal::Usr2));
    })?;
    let pid = it.child.id();
    send_here(libc::SIGUSR2);
    say(it.dir.path(), "look");
    wait_until("it makes calls", || Ok(it.dir.path().join("looked").exists()))?;
    let has = kernel_has(pid)?;
    expect("nothing happens before the start", heard.events().is_empty() && it.is_traced()?)?;
    send(libc::SIGUSR1);
    heard.finds(1)?;
    let found = heard.events().remove(0);
    same("found", found.areas.iter().map(|area| MapsLine(area).to_string()), &has)?;
    send(libc::SIGUSR2);
    let outcome = it.end()?;
    let events = heard.events();
    whole(&outcome, &events)?;
    expect(&format!("{}", outcome.status), outcome.status == Status::LetGo)?;
    let kinds: Vec<_> = events.iter().map(|e| e.kind).collect();
    expect(&format!("{kinds:?}"), kinds == [EventKind::Found, EventKind::Checked] && events[1].result == 0)?;
    // Let go before the start.
    let (heard, let_go) = (Heard::default(), LetGo::default());
    let it = AttachedTo::start(&heard, |running| {
        (running.start_on, running.let_go) = (Some(Signal::Usr1), Some(let_go.clone()));
    })?;
    let_go.ask();
    let outcome = it.end()?;
    expect("nothing", heard.events().is_empty() && outcome.status == Status::LetGo)?;
    noted(&outcome, "nothing was recorded: USR1 did not come")
}

/// The time for which a process is recorded begins with the start.
fn starts_the_time() -> Result<(), Failed> {
    let heard = Heard::default();
    let it = AttachedTo::start(&heard, |running| {
        (running.start_on, running.duration) = (Some(Signal::Usr1), Some(Duration::from_millis(1)));
    })?;
    std::thread::sleep(Duration::from_millis(200));
    expect("it is still attached to", it.is_traced()? && heard.events().is_empty())?;
    send(libc::SIGUSR1);
    let outcome = it.end()?;
    whole(&outcome, &heard.events())?;
    expect(&format!("{}", outcome.status), outcome.status == Status::LetGo)?;
    expect("it was recorded", count(&heard.events(), EventKind::Found) == 1)
}

fn names() -> Result<(), Failed> {
    for (text, signal) in [("USR1", Signal::Usr1), ("SIGUSR2", Signal::Usr2), ("sigusr1", Signal::Usr1)] {
        expect(text, text.parse() == Ok(signal))?;
        expect("as kill takes it", signal.to_string().parse() == Ok(signal))?;
    }
    for text in ["", "TERM", "SIG", "USR3", "SIGSIGUSR1", "HUP", "10", "USR1 "] {
        expect(text, text.parse::<Signal>().is_err())?;
    }
    Ok(())
}
