//! Recordings without stops: the kernel's order, exact losses, clean readings, and the same events
//! as with stops.
//!
//! Programs go on until the sink makes a file, when it has got the events that the trial waits for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::Failed;
use samara_record::nostop::{self, EventSource, NotWatched, Settings, Watched};
use samara_record::{LetGo, Options, RecordError, Running, Status, record};
use samara_trace::calls::{name, signature};
use samara_trace::event::{Event, EventKind, StepKind};
use samara_trace::file::StackEnd;
use samara_trace::{Sink, SinkError};

use crate::races::{VERBS, from_environment, print, random_program};
use crate::recorder::Body;
use crate::stacks::{made, missing};
use crate::syscalls::*;
use crate::{expect, replay};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("nostop_order_is_the_kernels", order),
    ("nostop_losses_are_exact", losses),
    ("nostop_sees_what_a_recorder_sees_that_stops", same),
    ("nostop_finds_the_same_stacks", stacks),
    ("nostop_follows_forks_and_programs", followed),
    ("nostop_finds_a_program_that_runs", found),
    ("nostop_finds_it_by_the_events_of_all", found_among_all),
    ("nostop_finds_a_space_that_never_rests", restless_found),
    ("nostop_leaves_the_program_unharmed", unharmed),
    ("nostop_knows_what_no_call_says", uncalled),
    ("nostop_races", races),
    ("nostop_order_is_the_kernels_by_bpf", || by_bpf(order)),
    ("nostop_joins_are_counted_by_bpf", || by_bpf(joins_counted)),
    ("nostop_losses_are_exact_by_bpf", || by_bpf(losses)),
    ("nostop_sees_what_a_recorder_sees_that_stops_by_bpf", || by_bpf(same)),
    ("nostop_finds_the_same_stacks_by_bpf", || by_bpf(stacks)),
    ("nostop_follows_forks_and_programs_by_bpf", || by_bpf(followed)),
    ("nostop_finds_a_program_that_runs_by_bpf", || by_bpf(found)),
    ("nostop_reads_a_process_without_its_first_thread", leaderless_found),
    ("nostop_finds_it_by_the_areas_of_all_by_bpf", || by_bpf(found_among_all)),
    ("nostop_finds_a_space_that_never_rests_by_bpf", || by_bpf(restless_found)),
    ("nostop_knows_what_no_call_says_by_bpf", || by_bpf(uncalled)),
    ("nostop_waits_for_no_long_call_by_bpf", || by_bpf(long_calls)),
    ("nostop_waits_for_no_long_call", long_calls),
    ("nostop_races_by_bpf", || by_bpf(races)),
];

/// Where the events of a trial come from, which has a process of its own.
static SOURCE: OnceLock<EventSource> = OnceLock::new();

/// The same trial with BPF.
pub(crate) fn by_bpf(trial: Body) -> Result<(), Failed> {
    SOURCE.get_or_init(|| EventSource::Bpf);
    trial()
}

/// A length that no other call has.
pub(crate) const MARK: u64 = 0x7000;

/// Whether a call maps memory of that length.
pub(crate) fn is_marked_map(event: &Event) -> bool {
    event.kind == EventKind::Call && event.nr == Some(libc::SYS_mmap as u32) && event.args[1] == MARK
}

/// The programs of these trials. `pairs THREADS PAIRS FILE`: each thread maps, protects a part of
/// and unmaps memory, so often; the program ends when the file is there.
pub(crate) fn pairs(args: &[String]) {
    let (threads, pairs): (u64, u64) = (args[0].parse().unwrap(), args[1].parse().unwrap());
    let work = move || {
        for i in 0..pairs {
            let at = anon(MARK);
            touch(at, MARK);
            assert_eq!(mprotect(at + 0x1000, 0x1000, libc::PROT_READ), 0);
            if i % 64 != 0 {
                assert_eq!(munmap(at, MARK), 0);
            }
        }
    };
    let all: Vec<_> = (0..threads).map(|_| std::thread::spawn(work)).collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
    while !Path::new(&args[2]).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `busy FILE`: two threads change their memory until the file is there, or for some minutes. They
/// make fewer calls than a recorder follows that is not optimised.
pub(crate) fn busy(file: &str) {
    let file = PathBuf::from(file);
    let work = |file: PathBuf| {
        move || {
            let own = anon(64 * 0x1000);
            for i in 0u64..250_000 {
                let at = own + i * 7 % 60 * 0x1000;
                assert_eq!(mprotect(at, 0x2000, if i % 3 == 0 { libc::PROT_READ } else { libc::PROT_NONE }), 0);
                if i.is_multiple_of(5) {
                    std::thread::sleep(Duration::from_millis(2));
                    if file.exists() {
                        break;
                    }
                }
            }
        }
    };
    let all = [file.clone(), file].map(|file| std::thread::spawn(work(file)));
    all.into_iter().for_each(|thread| thread.join().unwrap());
}

/// `leaderless FILE`: the first thread ends, and others map memory until the file is there.
pub(crate) fn leaderless(file: &str) -> ! {
    let file = file.to_owned();
    std::thread::spawn(move || {
        busy(&file);
        std::process::exit(0)
    });
    loop {
        call(libc::SYS_exit, [0; 6]);
    }
}

/// `waits FILE`: a child changes the memory that it shares until the file is there, and the parent
/// waits in `clone` all the time.
pub(crate) fn waits(file: &str) {
    let file = PathBuf::from(file);
    let status = vfork_on_own_stack(&|| {
        for i in 0u64..50_000 {
            let at = anon(MARK);
            assert_eq!(munmap(at, MARK), 0);
            if i.is_multiple_of(100) {
                std::thread::sleep(Duration::from_millis(20));
                if file.exists() {
                    break;
                }
            }
        }
    });
    assert_eq!(status, 0);
}

/// `restless FILE`: a space of thousands of areas that changes a thousand times a second, each time
/// in another place, until the file is there, or for some minutes.
pub(crate) fn restless(file: &str) {
    let pages = 20_000;
    // Only smaps shows this flag.
    let own = mmap(0, pages * 0x1000, RW, ANON | libc::MAP_NORESERVE, -1, 0) as u64;
    (0..pages).step_by(2).for_each(|page| assert_eq!(mprotect(own + page * 0x1000, 0x1000, libc::PROT_NONE), 0));
    for i in 0u64..100_000 {
        let (at, is_odd) = (own + i % (pages / 2) * 0x2000, i / (pages / 2) % 2 == 1);
        let prot = if is_odd { libc::PROT_NONE } else { libc::PROT_READ };
        assert_eq!(mprotect(at, 0x1000, prot), 0);
        std::thread::sleep(Duration::from_millis(1));
        if i.is_multiple_of(64) && Path::new(file).exists() {
            break;
        }
    }
}

/// The first thread's stack grows by faults, also between calls; memory that can be read can be
/// executed from a call on that is not recorded.
pub(crate) fn deep() {
    fn fill(levels: usize) -> u8 {
        let mut page = [0_u8; 4096];
        std::hint::black_box(&mut page)[levels % 4096] = 1;
        if levels == 0 { page[0] } else { fill(levels - 1).wrapping_add(page[levels % 4096]) }
    }
    std::hint::black_box(fill(100));
    let _ = anon(MARK);
    std::hint::black_box(fill(400));
    // They lock the areas and change none, whether they do something or are refused.
    for (nr, args) in [
        (libc::SYS_prctl, [libc::PR_SET_THP_DISABLE as u64, 1, 0, 0, 0, 0]),
        (libc::SYS_prctl, [libc::PR_SET_THP_DISABLE as u64, 0, 0, 0, 0, 0]),
        (libc::SYS_pkey_alloc, [0; 6]),
        (libc::SYS_pkey_free, [9, 0, 0, 0, 0, 0]),
    ] {
        call(nr, args);
    }
    let changed = anon(DEEP_CHANGED);
    call(libc::SYS_personality, [libc::READ_IMPLIES_EXEC as u64, 0, 0, 0, 0, 0]);
    assert_eq!(mprotect(changed, DEEP_CHANGED, R), 0);
    assert!(mmap(0, DEEP_MARK, R, ANON, -1, 0) > 0);
}

/// Lengths of the areas that [`deep`] leaves: of its stack at least, and of what it may only read.
const DEEP: u64 = 500 * 0x1000;
const DEEP_MARK: u64 = 0x2_3000;
/// The length of an area that may only be read later.
const DEEP_CHANGED: u64 = 0x2_7000;

/// `joins FILE`: two areas that were written while they were apart, and two that were not, get the
/// same flags again. The program ends when the file is there.
pub(crate) fn joins(file: &str) {
    let advise = |at: u64, advice: i32| call(libc::SYS_madvise, [at, 0x2000, advice as u64, 0, 0, 0]);
    for writes in [true, false] {
        let at = anon(0x4000);
        assert_eq!(advise(at + 0x2000, libc::MADV_DONTDUMP), 0);
        if writes {
            touch(at, 0x4000);
        }
        assert_eq!(advise(at + 0x2000, libc::MADV_DODUMP), 0);
        // Its range is in memory that no event shows, but the advice changes no area.
        let (own, range) = (call(libc::SYS_pidfd_open, [u64::from(std::process::id()), 0, 0, 0, 0, 0]), [at, 0x1000]);
        let cold = [own as u64, range.as_ptr() as u64, 1, libc::MADV_COLD as u64, 0, 0];
        assert!(matches!(call(libc::SYS_process_madvise, cold), 0x1000 | -38), "or ENOSYS before Linux 5.10");
    }
    while !Path::new(file).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Keeps the events, and makes a file after a comparison that follows a number of calls.
pub(crate) struct Until {
    events: Vec<Event>,
    file: PathBuf,
    calls: usize,
    seen: usize,
}

impl Until {
    pub(crate) fn new(dir: &Path, calls: usize) -> Until {
        Until { events: Vec::new(), file: dir.join("go"), calls, seen: 0 }
    }

    pub(crate) fn of(&self, kind: EventKind) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.kind == kind)
    }
}

impl Sink for Until {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.seen += usize::from(event.kind == EventKind::Call);
        if event.kind == EventKind::Checked && self.seen >= self.calls {
            let _ = std::fs::write(&self.file, "");
        }
        self.events.push(event);
        Ok(())
    }
}

/// `None`: this machine does not allow it; prints so.
pub(crate) fn allowed(result: Result<Watched, RecordError>) -> Result<Option<Watched>, Failed> {
    match result {
        Err(RecordError::NotWatched(why @ (NotWatched::NoTracefs { .. } | NotWatched::Refused { .. }))) => {
            println!("skipped: nostop: {why}");
            Ok(None)
        }
        Err(RecordError::NotWatched(why @ NotWatched::NoTracepoints)) => {
            println!("skipped: nostop: {why}");
            Ok(None)
        }
        Err(RecordError::NotWatched(why @ NotWatched::NoBpf(_))) => {
            println!("skipped: bpf: {why}");
            // Where it is built in, CI must see it run, unless it is told otherwise.
            let is =
                |name: &str, word: &str| std::env::var(name).is_ok_and(|all| all.split(' ').any(|one| one == word));
            let must = cfg!(feature = "bpf") && is("CI", "true") && !is("SAMARA_MAY_SKIP", "bpf");
            expect(&format!("SAMARA_MAY_SKIP=bpf allows it: {why}"), !must)?;
            Ok(None)
        }
        Ok(watched) => {
            let by_bpf = SOURCE.get() == Some(&EventSource::Bpf);
            expect(&format!("the source that was asked for: {}", watched.seen), watched.seen.by_bpf == by_bpf)?;
            Ok(Some(watched))
        }
        other => Ok(Some(other?)),
    }
}

fn options(words: &[&str]) -> Result<Options, Failed> {
    Ok(Options::new(std::env::current_exe()?).args(["--program"]).args(words))
}

/// Compares often.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    (settings.every, settings.source) = (Duration::from_millis(200), *SOURCE.get().unwrap_or(&EventSource::Perf));
    settings
}

fn order() -> Result<(), Failed> {
    const THREADS: usize = 4;
    const PAIRS: usize = 2_000;
    let dir = tempfile::tempdir()?;
    let mut sink = Until::new(dir.path(), THREADS * PAIRS * 2);
    let (threads, pairs) = (THREADS.to_string(), PAIRS.to_string());
    let options = options(&["pairs", &threads, &pairs, &sink.file.to_string_lossy()])?;
    let mut settings = settings();
    settings.ring = 64 << 20; // nothing is lost, however busy the machine is
    let Some(watched) = allowed(nostop::record(&options, &settings, &mut sink))? else { return Ok(()) };
    let seen = &watched.seen;
    expect(&format!("it ended well: {}", watched.outcome.status), watched.outcome.status.success())?;
    let marked = |nr: i64, len: u64| {
        sink.of(EventKind::Call).filter(|e| e.nr == Some(nr as u32) && e.args[1] == len && e.error().is_none()).count()
    };
    let (maps, unmaps) = (marked(libc::SYS_mmap, MARK), marked(libc::SYS_munmap, MARK));
    let left = THREADS * PAIRS.div_ceil(64);
    expect(&format!("{maps} maps, {unmaps} unmaps: {seen}"), maps == THREADS * PAIRS && unmaps == maps - left)?;
    expect(
        &format!("no section overlaps another, nothing is lost: {seen}"),
        seen.disordered == 0 && seen.lost_in_all() == 0,
    )?;
    expect(&format!("{} sections", seen.sections), seen.sections as usize >= 3 * maps - left)?;
    expect(&format!("{seen}"), !seen.ordered || seen.to_string().contains("order exact,"))?;
    let overlapped = sink.of(EventKind::Call).filter(|e| e.overlapped).count();
    expect("calls overlapped", overlapped > 0)?;
    let differences: Vec<_> = sink.of(EventKind::Difference).map(|e| &e.text).collect();
    expect(&format!("in this order the model has what the kernel has: {differences:?}"), differences.is_empty())?;
    // Which memory was written decides what joins: only that is unsure.
    let joins = |e: &&Event| e.plan.iter().any(|step| step.kind == StepKind::Merged);
    let is_unsure = |e: &&Event| e.text == samara_trace::event::UNSURE;
    let unsure = sink.of(EventKind::Call).filter(is_unsure).filter(|e| !joins(e)).count();
    expect(&format!("{unsure} calls unsure"), unsure == 0 || !seen.ordered)?;
    expect("compared", sink.of(EventKind::Checked).any(|e| e.result == 0))
}

/// The kernel's numbers of areas decide what was joined, so nothing is unsure.
fn joins_counted() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let mut sink = Until::new(dir.path(), 8);
    let options = options(&["joins", &sink.file.to_string_lossy()])?;
    let Some(watched) = allowed(nostop::record(&options, &settings(), &mut sink))? else { return Ok(()) };
    let advice = |e: &&Event| e.nr == Some(libc::SYS_madvise as u32) && e.args[2] == libc::MADV_DODUMP as u64;
    let joined: Vec<bool> = sink
        .of(EventKind::Call)
        .filter(advice)
        .map(|e| e.plan.iter().any(|step| step.kind == StepKind::Merged && step.start == e.args[0]))
        .collect();
    expect(&format!("written memory stays apart: {joined:?}"), joined == [false, true])?;
    let unsure = sink.of(EventKind::Call).filter(|e| e.text == samara_trace::event::UNSURE).count();
    expect(&format!("{unsure} calls unsure: {}", watched.seen), unsure == 0 && watched.seen.uncounted == 0)?;
    // What a comparison learnt was unknown before.
    let learnt: Vec<_> = sink.of(EventKind::Learnt).map(|e| &e.text).collect();
    expect(&format!("nothing is learnt afterwards: {learnt:?}"), learnt.is_empty())?;
    expect("no difference", sink.of(EventKind::Difference).count() == 0)?;
    expect("compared", sink.of(EventKind::Checked).any(|e| e.result == 0))
}

/// Delivered records and losses reported by the kernel add up to all records.
fn losses() -> Result<(), Failed> {
    let run = |ring: usize, lag: u64| -> Result<Option<(Watched, Until)>, Failed> {
        let dir = tempfile::tempdir()?;
        let mut sink = Until::new(dir.path(), 1);
        let options = options(&["pairs", "2", "3000", &sink.file.to_string_lossy()])?;
        let mut settings = settings();
        (settings.ring, settings.lag) = (ring, Duration::from_millis(lag));
        Ok(allowed(nostop::record(&options, &settings, &mut sink))?.map(|watched| (watched, sink)))
    };
    let Some((all, _)) = run(64 << 20, 0)? else { return Ok(()) };
    let Some((some, sink)) = run(32 << 10, 40)? else { return Ok(()) };
    // A few of the seldom calls are the program's.
    let lost = some.seen.lost_in_all() - some.seen.lost_seldom;
    let (known, received) = (all.seen.received, some.seen.received);
    expect(&format!("nothing was lost of {known}: {}", all.seen), all.seen.lost_in_all() == 0)?;
    expect(&format!("much was lost: {}", some.seen), lost > known / 10)?;
    // Each sleep of the threads' ends, and each fault of a stack, may be one more or less.
    expect(&format!("{received} received + {lost} lost of {known}"), (received + lost).abs_diff(known) < 40)?;
    expect("the program is unharmed", some.outcome.status.success())?;
    let told = |e: &&Event| e.text.starts_with("events were lost");
    expect("the trace says where", sink.events.iter().any(Event::is_loss))?;
    expect("what was lost was learnt", sink.of(EventKind::Learnt).any(|e| told(&e)))?;
    expect("it is no difference", sink.of(EventKind::Difference).count() == 0)?;
    let at = sink.events.iter().rposition(|e| told(&e)).unwrap_or_default();
    expect("and compared", sink.events[at..].iter().any(|e| e.kind == EventKind::Checked && e.result == 0))
}

/// Calls of the first process, without their times, and its areas at the end.
type Told = (Vec<(Option<u32>, Vec<u64>, i64)>, BTreeMap<u64, u64>);

fn told(events: &[Event]) -> Told {
    let calls = events.iter().filter(|e| e.kind == EventKind::Call && e.space == 1);
    // Registers of arguments that a call does not have may hold anything.
    let own = |e: &Event| {
        let (kinds, _) = signature(e.nr.and_then(name).unwrap_or_default());
        e.args.iter().copied().take(kinds.len()).collect()
    };
    (calls.map(|e| (e.nr, own(e), e.result)).collect(), replay(events))
}

/// The memory that areas cover.
fn joined(areas: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, end) in areas {
        match all.last_mut() {
            Some(last) if last.1 == *start => last.1 = *end,
            _ => all.push((*start, *end)),
        }
    }
    all
}

/// Without random places both recorders give the same events for a program of one thread, also
/// during its load.
fn same() -> Result<(), Failed> {
    if Command::new("setarch").args(["-R", "true"]).stderr(Stdio::null()).status().is_err() {
        println!("skipped: nostop: setarch is not there");
        return Ok(());
    }
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    // Behind its first segment is a gap.
    let dir = tempfile::tempdir()?;
    let apart = dir.path().join("apart").to_string_lossy().into_owned();
    std::fs::write(dir.path().join("apart.c"), "int main(void) { return 0; }")?;
    if !made(dir.path(), "gcc", &["-o", "apart", "apart.c", "-Wl,-z,max-page-size=0x200000"]) {
        return missing("gcc");
    }
    let own = |program| [me.as_str(), "--program", program];
    for words in [&["true"][..], &["ls", "/usr"], &[&apart], &own("fixed"), &own("remaps")] {
        let options = Options::new("setarch").args(["-R"]).args(words);
        let (mut stopped, mut watched) = (Vec::new(), Vec::new());
        record(&options, &mut stopped)?;
        let Some(outcome) = allowed(nostop::record(&options, &settings(), &mut watched))? else { return Ok(()) };
        expect(&format!("{words:?}: {}", outcome.seen), outcome.seen.lost_in_all() == 0)?;
        let (lasted, program) = (outcome.outcome.counters.wall_ns, outcome.outcome.program_ns);
        expect(&format!("{words:?} left nothing behind: {lasted} and {program} ns"), lasted == program)?;
        // setarch itself is at random places: the events after it are compared.
        let after = |events: &[Event]| -> Vec<Event> {
            let at = events.iter().rposition(|e| e.kind == EventKind::Exec).unwrap_or_default();
            let own = events[at..].iter().filter(|e| e.space == events[at].space);
            own.map(|e| Event { space: 1, ..e.clone() }).collect()
        };
        let (stopped, watched) = (after(&stopped), after(&watched));
        let bounds =
            |e: &Event| e.areas.iter().map(|a| (a.start, a.end, a.perms, a.inode, a.name.clone())).collect::<Vec<_>>();
        expect(&format!("{words:?}: the same areas when it was loaded"), bounds(&stopped[0]) == bounds(&watched[0]))?;
        let (stopped, watched) = (told(&stopped), told(&watched));
        // Addresses on the stack and results of loaders are the same too.
        let unlike = stopped.0.iter().zip(&watched.0).find(|(one, other)| one != other);
        let counts = (stopped.0.len(), watched.0.len());
        expect(&format!("{words:?}: {counts:?} calls, {unlike:x?}"), stopped.0 == watched.0)?;
        expect(&format!("{words:?}: the same memory at the end"), joined(&stopped.1) == joined(&watched.1))?;
        // Faults decide which areas are one: the recorder does not see faults, and reports the
        // doubt.
        let told = stopped.1 == watched.1 || (outcome.seen.unsure > 0 && !outcome.seen.by_bpf);
        expect(&format!("{words:?}: the same areas at the end, or it is said: {}", outcome.seen), told)?;
    }
    Ok(())
}

/// A thread waits in a call for as long as the others work: what they do is known meanwhile.
fn long_calls() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let mut sink = Until::new(dir.path(), 200);
    let options = options(&["waits", &sink.file.to_string_lossy()])?;
    let Some(watched) = allowed(nostop::record(&options, &settings(), &mut sink))? else { return Ok(()) };
    let seen = &watched.seen;
    expect(&format!("it ended well: {}", watched.outcome.status), watched.outcome.status.success())?;
    expect(&format!("the order is known: {seen}"), seen.disordered == 0 && seen.lost_in_all() == 0)?;
    let marked = sink.of(EventKind::Call).filter(|e| e.args[1] == MARK).count();
    expect(&format!("known before all 100,000 were made: {marked} calls"), (200..99_000).contains(&marked))?;
    let differences: Vec<_> = sink.of(EventKind::Difference).map(|e| &e.text).collect();
    expect(&format!("no difference: {differences:?}"), differences.is_empty())
}

/// Which functions made a call of [`MARK`] bytes, each by its module and address, and how often.
fn callers(events: &[Event]) -> BTreeMap<(u32, Vec<String>), usize> {
    let of = |kind: EventKind| events.iter().filter(move |e| e.kind == kind);
    let module = |e: &Event| (e.args[0], e.text.split_once(' ').map(|(_, name)| name.to_owned()));
    let modules: BTreeMap<u64, Option<String>> = of(EventKind::Module).map(module).collect();
    let named = |frame: &str| {
        let (module, at) = frame.split_once('+').unwrap_or_default();
        let number = module.trim_start_matches('?').parse::<u64>().unwrap_or(u64::MAX);
        format!("{:?}+{at}", modules.get(&number))
    };
    let stacks: BTreeMap<u64, Vec<String>> =
        of(EventKind::Stack).map(|e| (e.args[0], e.text.split(' ').map(named).collect())).collect();
    let mut all = BTreeMap::new();
    for event in of(EventKind::Call).filter(|e| e.args[1] == MARK) {
        let stack = event.stack.and_then(|number| stacks.get(&u64::from(number))).cloned().unwrap_or_default();
        *all.entry((event.nr.unwrap_or(0), stack)).or_insert(0) += 1;
    }
    all
}

/// The functions that made each call, found in a copy of the stack, are those that a recorder finds
/// that stops the task.
fn stacks() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let options = options(&["pairs", "2", "50", &dir.path().to_string_lossy()])?;
    let mut with_stacks = options.clone();
    with_stacks.stacks = true;
    let (mut stopped, mut watched) = (Vec::new(), Vec::new());
    record(&with_stacks, &mut stopped)?;
    let mut settings = settings();
    (settings.stack_bytes, settings.ring) = (16 << 10, 32 << 20);
    let Some(outcome) = allowed(nostop::record(&options, &settings, &mut watched))? else { return Ok(()) };
    expect(&format!("nothing is lost: {}", outcome.seen), outcome.seen.lost_in_all() == 0)?;
    // Those of the loader too: its first function has no caller.
    let unfollowed = |events: &[Event]| {
        let ends = events.iter().filter(|e| e.kind == EventKind::Stack).map(|e| e.args[1]);
        ends.filter(|end| *end != StackEnd::First as u64).count()
    };
    expect("every stack is followed to its first function", [&stopped, &watched].map(|e| unfollowed(e)) == [0, 0])?;
    let (stopped, watched) = (callers(&stopped), callers(&watched));
    let depth = stopped.keys().map(|(_, frames)| frames.len()).min().unwrap_or(0);
    expect(&format!("stacks of {depth} functions at least"), depth > 4)?;
    expect(&format!("{watched:#?} instead of {stopped:#?}"), watched == stopped)
}

/// Forks, programs that are loaded from any thread, and children that share memory.
fn followed() -> Result<(), Failed> {
    for name in ["forks", "spawn", "exec-from-thread"] {
        let (mut stopped, mut watched) = (Vec::new(), Vec::new());
        record(&options(&[name])?, &mut stopped)?;
        let result = allowed(nostop::record(&options(&[name])?, &settings(), &mut watched))?;
        let Some(outcome) = result else { return Ok(()) };
        let counted = |events: &[Event]| -> Vec<usize> {
            let kinds = [EventKind::Exec, EventKind::Fork, EventKind::Share, EventKind::Exit];
            kinds.map(|kind| events.iter().filter(|e| e.kind == kind).count()).to_vec()
        };
        let (with, without) = (counted(&stopped), counted(&watched));
        expect(&format!("{name}: {without:?}, {with:?} with stops; {}", outcome.seen), with == without)?;
        let differences: Vec<_> = watched.iter().filter(|e| e.kind == EventKind::Difference).map(|e| &e.text).collect();
        expect(&format!("{name}: {differences:?}"), differences.is_empty())?;
    }
    Ok(())
}

pub(crate) fn start(words: &[&str]) -> Result<Child, Failed> {
    Ok(Command::new(std::env::current_exe()?).arg("--program").args(words).stdin(Stdio::null()).spawn()?)
}

/// A process that changes its memory all the time is read at its beginning while it stands still
/// for a moment; every later reading agrees, and so do the events with the last one.
fn found() -> Result<(), Failed> {
    found_by(&settings())
}

/// The same with the events of all processes, as for one of many threads.
fn found_among_all() -> Result<(), Failed> {
    let mut settings = settings();
    settings.apart = 0;
    found_by(&settings)
}

/// No reading of its areas is clean. What changes during one is known by the next one.
fn restless_found() -> Result<(), Failed> {
    let Some((sink, watched)) = attached("restless", &settings())? else { return Ok(()) };
    let seen = &watched.seen;
    let notes = &watched.outcome.counters.notes;
    // What the last calls joined may be unsure.
    let missed = notes.iter().any(|note| note.contains("while it was read"));
    expect(&format!("readings in part: {seen}; {notes:?}"), seen.partial_readings >= 2 && !missed)?;
    // Only flags were learnt: what was there is not new.
    let is_new = |event: &&Event| event.plan.iter().any(|step| step.kind == StepKind::Mapped);
    let made: Vec<_> = sink.of(EventKind::Learnt).filter(is_new).map(|event| &event.text).collect();
    expect(&format!("no memory without a call: {made:?}"), made.is_empty())?;
    // The first reading lacks what changed meanwhile, until the next one.
    let at = |is: &dyn Fn(&Event) -> bool| sink.events.iter().position(is);
    let (lacks, whole) = (at(&|event| event.is_loss()), at(&|event| event.goes_on()));
    let few: Vec<_> = sink.of(EventKind::Learnt).map(|event| &event.text).collect();
    expect(&format!("known in the end: {lacks:?} {whole:?} {few:?}"), lacks == Some(1) && whole > lacks)
}

/// Nothing can be read by the number of a process whose first thread has ended.
fn leaderless_found() -> Result<(), Failed> {
    let Some((_, watched)) = attached("leaderless", &settings())? else { return Ok(()) };
    let seen = &watched.seen;
    expect(&format!("readings: {seen}"), seen.readings + seen.partial_readings >= 2)
}

fn found_by(settings: &Settings) -> Result<(), Failed> {
    let Some((_, watched)) = attached("busy", settings)? else { return Ok(()) };
    let seen = &watched.seen;
    expect(&format!("readings: {seen}"), seen.readings + seen.partial_readings >= 2)
}

/// A recording of this program, which runs already.
fn attached(program: &str, settings: &Settings) -> Result<Option<(Until, Watched)>, Failed> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("end");
    let mut child = start(&[program, &file.to_string_lossy()])?;
    std::thread::sleep(Duration::from_millis(50));
    let mut running = Running::find(child.id())?;
    let let_go = LetGo::default();
    running.let_go = Some(let_go.clone());
    let mut sink = Asks { until: Until::new(dir.path(), 200), let_go };
    let result = allowed(nostop::attach(&running, settings, &mut sink));
    std::fs::write(&file, "")?;
    let ended = child.wait()?;
    let Some(watched) = result? else { return Ok(None) };
    let (sink, seen) = (sink.until, &watched.seen);
    expect(&format!("it goes on and ends well: {ended}"), ended.success() && watched.outcome.status == Status::LetGo)?;
    expect("first what was found", sink.events.first().map(|e| e.kind) == Some(EventKind::Found))?;
    expect(&format!("the order is known: {seen}"), seen.disordered == 0)?;
    let differences: Vec<_> = sink.of(EventKind::Difference).map(|e| &e.text).collect();
    expect(&format!("no difference: {differences:?}"), differences.is_empty())?;
    let last = watched.outcome.counters.areas_final;
    let areas = replay(&sink.events);
    expect(&format!("{} areas by the events, {last} at the end", areas.len()), areas.len() as u64 == last)?;
    // Comparisons in between end nothing.
    let end = crate::rerun::reproduces(program, &sink.events)?.plain.areas_end;
    expect(&format!("{end} areas by its calls run again, {last} at the end"), end == last)?;
    Ok(Some((sink, watched)))
}

/// Lets go after the first comparison that follows enough calls.
pub(crate) struct Asks {
    pub(crate) until: Until,
    pub(crate) let_go: LetGo,
}

impl Sink for Asks {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.until.event(event)?;
        if self.until.file.exists() {
            self.let_go.ask();
        }
        Ok(())
    }
}

/// A stack that faults grow, and a protection that the personality changes.
fn uncalled() -> Result<(), Failed> {
    let mut watched = Vec::new();
    let Some(outcome) = allowed(nostop::record(&options(&["deep"])?, &settings(), &mut watched))? else {
        return Ok(());
    };
    let areas = || watched.iter().flat_map(|event| &event.areas);
    let stack = areas().filter(|area| area.name == "[stack]").map(|area| area.end - area.start).max();
    let fits = stack.is_some_and(|len| (DEEP * 3 / 4..DEEP * 2).contains(&len));
    expect(&format!("{stack:?} bytes of stack: {}", outcome.seen), fits)?;
    let call = |nr: libc::c_long, len| watched.iter().find(|e| e.nr == Some(nr as u32) && e.args[1] == len);
    let perms = |call: &Event, at: u64| {
        call.areas.iter().find(|area| area.start <= at && area.end > at).map(|area| area.perms & 7)
    };
    let mapped = call(libc::SYS_mmap, DEEP_MARK).and_then(|call| perms(call, call.result as u64));
    let changed = call(libc::SYS_mprotect, DEEP_CHANGED).and_then(|call| perms(call, call.args[0]));
    let both = [mapped, changed];
    expect(&format!("{both:?}: what can be read can be executed"), both == [Some(0b101); 2])?;
    let doubt = outcome.outcome.counters.notes.iter().find(|note| note.contains("outside"));
    expect(&format!("no doubt of it: {doubt:?}"), doubt.is_none())?;
    expect(&format!("all is explained: {}", outcome.seen), outcome.seen.unexplained == 0)
}

/// A recorder that is killed leaves nothing behind in the program.
fn unharmed() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let (file, began) = (dir.path().join("end"), dir.path().join("began"));
    let mut child = start(&["busy", &file.to_string_lossy()])?;
    let mut recorder = start(&["watch", &child.id().to_string(), &began.to_string_lossy()])?;
    while !began.exists() && recorder.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    recorder.kill()?;
    recorder.wait()?;
    let traced = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    std::fs::write(&file, "")?;
    let ended = child.wait()?;
    expect(&format!("it ends well: {ended}"), ended.success())?;
    expect("no process traces it", traced.lines().any(|line| line == "TracerPid:\t0"))
}

/// `watch PID FILE`: records a process, and makes the file once it has found it.
pub(crate) fn watch(pid: &str, file: &str) {
    struct Began(PathBuf);
    impl Sink for Began {
        fn event(&mut self, _: Event) -> Result<(), SinkError> {
            Ok(std::fs::write(&self.0, "")?)
        }
    }
    let running = Running::find(pid.parse().unwrap()).unwrap();
    let _ = nostop::attach(&running, &Settings::default(), &mut Began(file.into()));
}

/// Makes a file when nothing has happened between two comparisons.
struct Quiet {
    events: Vec<Event>,
    file: PathBuf,
    calls: bool,
    checks: u32,
}

impl Sink for Quiet {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        match event.kind {
            EventKind::Call => self.calls = true,
            EventKind::Checked => {
                self.checks = if std::mem::take(&mut self.calls) { 0 } else { self.checks + 1 };
                if self.checks >= 2 {
                    let _ = std::fs::write(&self.file, "");
                }
            }
            _ => {}
        }
        self.events.push(event);
        Ok(())
    }
}

/// Random programs whose threads race. What the recorder does not know it says: no comparison finds
/// a difference.
fn races() -> Result<(), Failed> {
    let (seed, programs) = (from_environment("SAMARA_SEED", 1), from_environment("SAMARA_RACES", 6));
    let verbs = std::env::var("SAMARA_RACES_VERBS").unwrap_or_else(|_| VERBS.to_owned());
    let (mut calls, mut unsure, mut unlike, mut failed) = (0, 0, 0, Vec::new());
    for i in 0..programs {
        let dir = tempfile::tempdir()?;
        let args = random_program(seed, i, &verbs);
        let file = dir.path().join("end");
        let mut words = vec!["racing"];
        words.extend(args.iter().map(String::as_str));
        let last = file.to_string_lossy().into_owned();
        words.push(&last);
        let mut sink = Quiet { events: Vec::new(), file, calls: true, checks: 0 };
        let mut settings = settings();
        settings.ring = 32 << 20;
        let Some(watched) = allowed(nostop::record(&options(&words)?, &settings, &mut sink))? else { return Ok(()) };
        let count = |is: fn(&Event) -> bool| sink.events.iter().filter(|e| is(e)).count();
        calls += count(|e| e.kind == EventKind::Call);
        unsure += count(|e| e.text == samara_trace::event::UNSURE);
        unlike += watched.seen.unsure;
        let wrong = |e: &Event| e.kind == EventKind::Difference || (e.kind == EventKind::Checked && e.result != 0);
        let good = watched.outcome.status.success() && watched.seen.lost_in_all() == 0 && count(wrong) == 0;
        if !good {
            let at = sink.events.iter().position(wrong).map_or(sink.events.len(), |at| at + 1);
            sink.events[at.saturating_sub(60)..at].iter().for_each(print);
            println!("nostop_races: {args:?} {}: {} wrong; {}", watched.outcome.status, count(wrong), watched.seen);
            failed.push(i);
        }
    }
    println!("nostop_races: {programs} programs, {calls} calls, {unsure} unsure, {unlike} spaces unsure at their end");
    expect(&format!("programs {failed:?} were told wrongly"), failed.is_empty())
}
