//! The engine decides the results of calls: injected faults, limits, placement policies and seeds,
//! calls that are left to the kernel, and registers that the program finds unchanged.

use std::os::fd::AsRawFd;

use libtest_mimic::Failed;
use samara_record::{Cause, Decisions, Engine, Fault, Options, Policy, RecordError, record};
use samara_trace::event::EventKind;

use crate::recorder::Body;
use crate::syscalls::*;
use crate::{Recording, check, exited, expect};

const PAGE: u64 = 4096;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("decided_faults", faults),
    ("decided_fault_of_brk", fault_of_brk),
    ("decided_faults_at_random", faults_at_random),
    ("decided_map_count", map_count),
    ("decided_map_count_above_the_kernels", too_many),
    ("decided_limits", limits),
    ("decided_by_seed", by_seed),
    ("decided_by_policy", by_policy),
    ("decided_registers", registers),
    ("decided_where_a_stack_grew", stack_grew),
    ("decided_where_a_stack_grew_by_moves", stack_grew_under_a_move),
    ("decided_under_a_filter", known_flags),
    ("decided_many_areas", many_areas),
    ("decided_without_execution", mdwe),
    ("decided_huge_pages", huge_pages),
    ("decided_huge_segments", huge_segments),
    ("decided_segments_are_kept", segments_are_kept),
    ("decided_places_that_are_refused", refused_places),
    ("decided_moves_beside_maps", moves_beside_maps),
];

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    match name {
        "three-maps" => three_maps(),
        "break" => move_break(),
        "until-refused" => until_refused(1),
        "until-refused-large" => until_refused(64),
        "registers" => keep_registers(),
        "grow-then-map" => grow_then_map(false),
        "grow-then-move" => grow_then_map(true),
        "known-flags" => map_known_flags(),
        "ten-thousand" => ten_thousand(),
        "mdwe" => deny_execution(),
        "huge-segment" => attach_huge_segment(),
        "segment" => attach_segment(),
        "moves-beside-maps" => move_beside_maps(),
        "segment-apart" => {
            assert_eq!(call(libc::SYS_unshare, [libc::CLONE_NEWIPC as u64, 0, 0, 0, 0, 0]), 0);
            number_next_segment();
            attach_segment();
        }
        _ => return false,
    }
    true
}

fn charge(name: &str, engine: Engine) -> Result<(Recording, Decisions), Failed> {
    let mut options = Options::new(std::env::current_exe()?).args(["--program", name]);
    options.engine = Some(engine);
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    check(&events, &outcome)?;
    let done = outcome.counters.decisions.clone().ok_or("nothing said of what was decided")?;
    Ok((Recording { outcome, events }, done))
}

/// A thread's maps take long in the kernel, which places them (the engine does not know the file),
/// while another thread's memory is moved to places that the engine chooses.
fn move_beside_maps() {
    const LONG: u64 = 1 << 18;
    let file = std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        // It takes a processor, so one of the others is interrupted in its call.
        threads.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        threads.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
                let at = mmap(0, LONG, RW, flags, file.as_raw_fd(), 0) as u64;
                let ends = [at, at + LONG - PAGE];
                ends.iter().for_each(|end| write_words(*end, &[66; 8]));
                (0..2000).for_each(|_| std::hint::spin_loop());
                assert_eq!(ends.map(read_words), [[66; 8]; 2]);
                assert_eq!(munmap(at, LONG), 0);
            }
        });
        for _ in 0..MOVES {
            let from = mmap(0, 16 * PAGE, RW, ANON, -1, 0) as u64;
            let below = mmap(0, PAGE, R, ANON, -1, 0) as u64;
            let to = call(libc::SYS_mremap, [from, 16 * PAGE, LONG, libc::MREMAP_MAYMOVE as u64, 0, 0]);
            assert!(to > 0);
            assert_eq!((munmap(to as u64, LONG), munmap(below, PAGE)), (0, 0));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// How often the program moves memory.
const MOVES: u64 = 500;

fn moves_beside_maps() -> Result<(), Failed> {
    let (r, done) = charge("moves-beside-maps", Engine::default())?;
    exited(&r, 0)?;
    expect(&format!("places were chosen: {}", done.placed), done.placed > MOVES)
}

/// The engine decides memory in huge pages too, by any policy.
fn huge_pages() -> Result<(), Failed> {
    for (name, policy) in Policy::ALL {
        let (r, done) = charge("huge", with(|e| e.policy = policy))?;
        if r.outcome.status.code() == Some(7) {
            println!("skipped: decided_huge_pages: this kernel has no huge pages");
            return Ok(());
        }
        exited(&r, 0)?;
        expect(&format!("{name}: all maps are decided: {:?}", done.left), !done.left.contains_key("mmap"))?;
        expect(&format!("{name}: nothing is beyond the engine: {}", done.beyond), done.beyond == 0)?;
    }
    Ok(())
}

/// Exit code 7: there is no free huge page of 2 MiB.
fn attach_huge_segment() {
    const HUGE: u64 = 2 << 20;
    let id = call(libc::SYS_shmget, [0, HUGE, 0o1600 | libc::SHM_HUGETLB as u64 | 21 << 26, 0, 0, 0]);
    if id < 0 {
        exit(7);
    }
    // At a place that the kernel chooses, and at one that suits the segment, or does not.
    let attach = |at: u64| call(libc::SYS_shmat, [id as u64, at, 0, 0, 0, 0]);
    let free = crate::programs::window(4 * HUGE / PAGE);
    let at = attach(0);
    let given = free.next_multiple_of(HUGE) + HUGE;
    let given = if at as u64 == given { given + HUGE } else { given };
    let all = [at, attach(given), attach(given - HUGE + PAGE)];
    assert_eq!(call(libc::SYS_shmctl, [id as u64, 0, 0, 0, 0, 0]), 0); // IPC_RMID
    assert!(at > 0 && (at as u64).is_multiple_of(HUGE), "{all:x?}");
    assert_eq!(all, [at, given as i64, -i64::from(libc::EINVAL)]);
    assert_eq!(call(libc::SYS_shmdt, [at as u64, 0, 0, 0, 0, 0]), 0);
}

/// A segment in huge pages is placed by its own page size.
fn huge_segments() -> Result<(), Failed> {
    for (name, policy) in Policy::ALL {
        let (r, done) = charge("huge-segment", with(|e| e.policy = policy))?;
        if r.outcome.status.code() == Some(7) {
            println!("skipped: decided_huge_segments: no free huge page of 2 MiB (vm.nr_hugepages)");
            return Ok(());
        }
        exited(&r, 0)?;
        let by_it = !done.left.contains_key("shmat") && done.beyond == 0 && done.places_refused == 0;
        expect(&format!("{name}: {done:?}"), by_it && done.refused.get("EINVAL") == Some(&1))?;
    }
    Ok(())
}

/// Attaches a new segment twice.
fn attach_segment() {
    let id = call(libc::SYS_shmget, [0, 5 * PAGE, 0o1600, 0, 0, 0]);
    let attach = || call(libc::SYS_shmat, [id as u64, 0, 0, 0, 0, 0]);
    let all = [attach(), attach()];
    assert!(id >= 0 && all.iter().all(|at| *at > 0), "segment {id}: {all:x?}");
}

/// Gives the next segment of this namespace a number, where the kernel lets us.
fn number_next_segment() {
    let _ = std::fs::write("/proc/sys/kernel/shm_next_id", "7");
}

/// With `kernel.shm_rmid_forced` the kernel removes a segment when its last user detaches it. The
/// recorder's questions remove none: neither the program's segment, nor one of the recorder's own
/// that has the same number.
fn segments_are_kept() -> Result<(), Failed> {
    let own = call(libc::SYS_unshare, [libc::CLONE_NEWIPC as u64, 0, 0, 0, 0, 0]);
    if own != 0 || std::fs::write("/proc/sys/kernel/shm_rmid_forced", "1").is_err() {
        println!("skipped: decided_segments_are_kept: no IPC namespace of our own here");
        return Ok(());
    }
    let (r, done) = charge("segment", Engine::default())?;
    exited(&r, 0)?;
    let left = |done: &Decisions| done.left.get("shmat").copied();
    expect(&format!("left until it is attached: {:?}", done.left), left(&done) == Some(1))?;
    number_next_segment();
    let id = call(libc::SYS_shmget, [0, 5 * PAGE, 0o1600, 0, 0, 0]);
    let (r, done) = charge("segment-apart", Engine::default())?;
    exited(&r, 0)?;
    expect(&format!("left in another namespace: {:?}", done.left), left(&done) == Some(2))?;
    let at = call(libc::SYS_shmat, [id as u64, 0, 0, 0, 0, 0]);
    expect(&format!("our segment {id} is still there: {at:x}"), at > 0)
}

/// A filter around samara refuses the flag by which calls are made at the engine's places: the
/// program gets places all the same, and each refusal is reported.
fn refused_places() -> Result<(), Failed> {
    let mut recorder = std::process::Command::new(std::env::current_exe()?);
    let output = recorder.args(["--record-without-noreplace", "three-maps"]).output()?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let right = matches!(numbers[..], [refused, differences, ..] if refused >= 3 && refused == differences);
    expect(&format!("{told:?}"), right && told.ends_with("exit status: 0\n"))
}

fn with(set: impl FnOnce(&mut Engine)) -> Engine {
    let mut engine = Engine::default();
    set(&mut engine);
    engine
}

fn fault(text: &str) -> Result<Fault, Failed> {
    Ok(text.parse::<Fault>()?)
}

/// Three times mmap, mprotect, munmap of a page; the exit code has a bit for each that failed.
fn three_maps() {
    let mut failed = 0;
    for round in 0..3 {
        let at = mmap(0, PAGE, RW, ANON, -1, 0);
        let protected = at > 0 && mprotect(at as u64, PAGE, R) == 0;
        // A refused call must have changed nothing.
        if at > 0 && !protected {
            touch(at as u64, PAGE);
        }
        let unmapped = at > 0 && munmap(at as u64, PAGE) == 0;
        if at > 0 && !unmapped {
            while munmap(at as u64, PAGE) != 0 {}
        }
        failed |= (i32::from(at < 0) | i32::from(!protected) << 1 | i32::from(!unmapped) << 2) << (2 * round);
    }
    exit(failed);
}

/// The number of the call of this kind that made the test program's first page.
fn first_of(r: &Recording, nr: i64, count: usize) -> u64 {
    (r.calls(nr).count() - count) as u64 + 1
}

fn faults() -> Result<(), Failed> {
    let (r, done) = charge("three-maps", Engine::default())?;
    exited(&r, 0)?;
    expect("all were decided", done.decided >= 9 && done.failed == 0 && done.limited == 0 && done.placed >= 3)?;
    let nth = |nr, i: u64| first_of(&r, nr, 3) + i;
    let (second, third) = (nth(libc::SYS_munmap, 1), nth(libc::SYS_mprotect, 2));
    let (r, done) = charge(
        "three-maps",
        with(|e| {
            e.faults = vec![
                fault(&format!("munmap:EIO@{second}")).unwrap(),
                fault(&format!("mprotect:EACCES@{third}")).unwrap(),
            ];
        }),
    )?;
    exited(&r, 1 << 4 | 2 << 4)?;
    expect(&format!("two failed, {}", done.failed), done.failed == 2)?;
    let errors: Vec<i64> =
        r.of(EventKind::Call).filter(|e| e.result < 0 && e.result > -4096).map(|e| e.result).collect();
    expect(&format!("the program got {errors:?}"), errors.ends_with(&[-5, -13]))?;
    let told: Vec<_> = done.refusals.iter().map(|r| (r.nr, r.count, r.errno, r.cause)).collect();
    let all = [(libc::SYS_munmap, second, libc::EIO), (libc::SYS_mprotect, third, libc::EACCES)];
    expect(&format!("{told:x?}"), told == all.map(|(nr, n, errno)| (nr as u32, n, errno, Cause::Fault)))?;
    let marked: Vec<_> = r.of(EventKind::Call).filter(|e| e.text == "fault").map(|e| (e.pid, e.result)).collect();
    let pid = done.refusals[0].pid;
    expect(&format!("marked: {marked:?}"), marked == [(pid, -5), (pid, -13)])
}

/// The one refusal, and that its event says why.
fn refused_once(r: &Recording, done: &Decisions, cause: Cause) -> Result<(), Failed> {
    let marked = r.of(EventKind::Call).filter(|e| e.text == cause.word()).count();
    let once = done.refusals.len() == 1 && done.refusals[0].cause == cause && done.refusals[0].errno == libc::ENOMEM;
    expect(&format!("{cause:?} once: {:?}, {marked} marked", done.refusals), once && marked == 1)
}

fn move_break() {
    let brk = |at: u64| call(libc::SYS_brk, [at, 0, 0, 0, 0, 0]) as u64;
    let now = brk(0);
    exit(i32::from(brk(now + PAGE) == now));
}

fn fault_of_brk() -> Result<(), Failed> {
    let (r, _) = charge("break", Engine::default())?;
    exited(&r, 0)?;
    let last = r.calls(libc::SYS_brk).count();
    let (r, done) = charge("break", with(|e| e.faults = vec![fault(&format!("brk:ENOMEM@{last}")).unwrap()]))?;
    expect("one failed", done.failed == 1)?;
    exited(&r, 1)?;
    let (r, done) = charge("break", with(|e| e.faults = vec![fault("brk:ENOMEM@9999").unwrap()]))?;
    let told = r.outcome.counters.notes.iter().any(|n| n.contains("never came"));
    expect("a fault that never came is reported", done.failed == 0 && told)?;
    exited(&r, 0)
}

fn faults_at_random() -> Result<(), Failed> {
    let engine = |seed| {
        with(|e| {
            e.seed = Some(seed);
            e.fail_rate = Some(0.5);
            e.faults = vec![fault("munmap:EAGAIN").unwrap()];
        })
    };
    let failed = |seed| -> Result<Vec<bool>, Failed> {
        let (r, done) = charge("three-maps", engine(seed))?;
        let failed: Vec<bool> = r.calls(libc::SYS_munmap).map(|e| e.result == -11).collect();
        expect("reported as often as seen", done.failed == failed.iter().filter(|f| **f).count() as u64)?;
        Ok(failed)
    };
    let runs = (0..8).map(failed).collect::<Result<Vec<_>, _>>()?;
    expect("some fail, others do not", runs.iter().flatten().any(|f| *f) && runs.iter().flatten().any(|f| !f))?;
    expect("another seed, other faults", runs.iter().any(|r| *r != runs[0]))?;
    expect("the same seed, the same faults", (0..8).zip(&runs).all(|(seed, run)| failed(seed).is_ok_and(|f| f == *run)))
}

/// Maps pages that cannot merge until one is refused; the exit code is how many there were.
fn until_refused(pages: u64) {
    for i in 0..200 {
        let at = mmap(0, pages * PAGE, if i % 2 == 0 { RW } else { R }, ANON, -1, 0);
        if at < 0 {
            assert_eq!(at, -i64::from(libc::ENOMEM));
            exit(i);
        }
    }
    exit(200);
}

fn map_count() -> Result<(), Failed> {
    let (r, done) = charge("until-refused", Engine::default())?;
    exited(&r, 200)?;
    expect("nothing was limited", done.limited == 0)?;
    let (r, done) = charge("until-refused", with(|e| e.max_map_count = Some(100)))?;
    expect("one was refused", done.limited >= 1)?;
    // Linux counts one more than it says: 101 areas, then no more.
    let most = r.outcome.counters.areas_peak;
    let one = (r.outcome.counters.process_areas_peak, r.outcome.counters.process_areas_peak_pid);
    expect(&format!("{most} areas at most, {one:?}"), most == 101 && one == (101, r.events[0].pid))?;
    let by_it = done.refusals.iter().all(|r| r.cause == Cause::MapCount);
    expect("and said", by_it && done.refusals.len() as u64 == done.limited)?;
    expect("refused before the 200th", r.outcome.status.code().is_some_and(|n| (1..100).contains(&n)))
}

fn too_many() -> Result<(), Failed> {
    let mut options = Options::new("true");
    options.engine = Some(with(|e| e.max_map_count = Some(usize::MAX)));
    match record(&options, &mut ()) {
        Err(why @ RecordError::MapCount(..)) => expect(&why.to_string(), why.to_string().contains("sysctl")),
        other => Err(format!("{other:?}").into()),
    }
}

fn limits() -> Result<(), Failed> {
    let (r, done) = charge("until-refused", Engine::default())?;
    let bytes = r.outcome.counters.mapped_bytes_peak;
    expect("no refusal", !done.refused.contains_key("ENOMEM"))?;
    let (r, done) = charge("until-refused", with(|e| e.limit_as = Some(bytes - 50 * PAGE)))?;
    let n = r.outcome.status.code().unwrap_or(-1);
    expect(&format!("{n} pages"), (100..=151).contains(&n))?;
    expect("the kernel confirmed it", done.refused.get("ENOMEM") == Some(&1) && done.over_limit == 1)?;
    refused_once(&r, &done, Cause::LimitAs)?;
    // More than the program has at its start, however it was compiled: memory that becomes
    // read-only later counts then.
    let (r, done) = charge("until-refused-large", with(|e| e.limit_data = Some(16 << 20)))?;
    expect("pages that can be written are data", r.outcome.status.code().is_some_and(|n| n < 200))?;
    refused_once(&r, &done, Cause::LimitData)
}

fn by_seed() -> Result<(), Failed> {
    let results = |seed, policy| -> Result<Vec<i64>, Failed> {
        let (r, _) = charge("until-refused", with(|e| (e.seed, e.policy) = (Some(seed), policy)))?;
        Ok(r.calls(libc::SYS_mmap).map(|e| e.result).collect())
    };
    for policy in [Policy::Linux, Policy::BottomUp, Policy::Random] {
        let one = results(1, policy)?;
        expect("the same seed, the same places", one == results(1, policy)?)?;
        expect("another seed, other places", one != results(2, policy)?)?;
    }
    Ok(())
}

fn by_policy() -> Result<(), Failed> {
    let places = |policy| -> Result<Vec<i64>, Failed> {
        let (r, done) = charge("until-refused", with(|e| e.policy = policy))?;
        exited(&r, 200)?;
        expect("places were chosen", done.placed >= 200)?;
        let all: Vec<i64> = r.calls(libc::SYS_mmap).map(|e| e.result).collect();
        Ok(all[all.len() - 100..].to_vec())
    };
    let ascends = |places: &[i64]| places.is_sorted();
    let down = places(Policy::Linux)?;
    expect("Linux goes down", down.iter().rev().is_sorted())?;
    expect("bottom-up goes up", ascends(&places(Policy::BottomUp)?))?;
    let first = places(Policy::FirstFit)?;
    expect("first fit goes up, from the lowest address", ascends(&first) && first[0] < 1 << 32)?;
    places(Policy::BestFit)?;
    let random = places(Policy::Random)?;
    expect("anywhere", !ascends(&random) && !random.iter().rev().is_sorted())
}

/// A call that gets other arguments in the kernel, and one that is not made.
fn keep_registers() {
    let args = [0, PAGE, RW as u64, ANON as u64, u64::MAX, 0];
    let (at, after) = call_and_look(libc::SYS_mmap, args);
    assert!(at > 0);
    assert_eq!(after, args);
    let args = [at as u64, PAGE, 1 << 30, libc::MREMAP_MAYMOVE as u64, 77, 88];
    // Something is mapped above it.
    mmap(at as u64 + PAGE, PAGE, R, FIXED, -1, 0);
    let (to, after) = call_and_look(libc::SYS_mremap, args);
    assert!(to > 0 && to != at);
    assert_eq!(after, args);
    let args = [to as u64, PAGE, 5, 6, 7, 8];
    let (refused, after) = call_and_look(libc::SYS_mlock, args);
    assert_eq!((refused, after), (-i64::from(libc::EPERM), args));
}

fn registers() -> Result<(), Failed> {
    let (r, done) = charge("registers", with(|e| e.faults = vec![fault("mlock:EPERM@1+").unwrap()]))?;
    exited(&r, 0)?;
    expect("mlock was not made", done.failed == 1)
}

/// A stack that grows on a fault to where the next map would have gone.
fn grow_then_map(moves: bool) {
    // Not whole huge pages, which would be aligned.
    const BIG: u64 = (4 << 30) + PAGE;
    let grows = ANON | libc::MAP_GROWSDOWN | libc::MAP_NORESERVE;
    // Below all others, and above the next big one.
    let big = mmap(0, BIG, R, ANON | libc::MAP_NORESERVE, -1, 0) as u64;
    let at = mmap(big - (16 << 20), PAGE, RW, grows, -1, 0);
    assert_eq!(at as u64, big - (16 << 20));
    // Not page by page, which the kernel would allow too.
    touch(at as u64 - 400 * PAGE, 1);
    let below = if moves {
        // The next area keeps it from growing in place.
        let small = mmap(0, 2 * PAGE, R, ANON, -1, 0) as u64;
        mremap(small, PAGE, BIG, libc::MREMAP_MAYMOVE, 0)
    } else {
        mmap(0, BIG, R, ANON | libc::MAP_NORESERVE, -1, 0)
    };
    assert!(below > 0, "{below}");
    assert!((below as u64) + BIG <= at as u64 - 400 * PAGE);
    touch(at as u64 - 400 * PAGE, 1);
}

fn stack_grew() -> Result<(), Failed> {
    let (r, _) = charge("grow-then-map", with(|e| e.seed = Some(1)))?;
    exited(&r, 0)?;
    expect("the growth was learnt", r.of(EventKind::Learnt).any(|e| e.text.contains("no call made")))
}

/// mremap has no flag that spares the memory there.
fn stack_grew_under_a_move() -> Result<(), Failed> {
    let (r, _) = charge("grow-then-move", with(|e| e.seed = Some(1)))?;
    exited(&r, 0)?;
    expect("the growth was learnt", r.of(EventKind::Learnt).any(|e| e.text.contains("no call made")))
}

/// Under a filter that knows no flags but the program's.
fn map_known_flags() {
    allow_map_flags(ANON | libc::MAP_FIXED | libc::MAP_SHARED);
    let at = anon(PAGE);
    assert_eq!(mmap(0, PAGE, R, ANON | libc::MAP_POPULATE, -1, 0), -i64::from(libc::EPERM));
    let child = fork();
    if child == 0 {
        assert_ne!(anon(PAGE), at);
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
}

fn known_flags() -> Result<(), Failed> {
    // The call that the filter refuses is decided, and reported as refused by the filter.
    let mut options = Options::new(std::env::current_exe()?).args(["--program", "known-flags"]);
    options.engine = Some(Engine::default());
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    check(&events, &outcome)?;
    exited(&Recording { outcome, events }, 0)
}

/// Ten thousand areas, each of them a decision: no copy of them all.
fn ten_thousand() {
    let at = mmap(0, 20_000 * PAGE, R, ANON | libc::MAP_NORESERVE, -1, 0) as u64;
    (0..20_000).step_by(2).for_each(|i| assert_eq!(mprotect(at + i * PAGE, PAGE, RW), 0));
    assert_eq!(munmap(at, 20_000 * PAGE), 0);
}

fn many_areas() -> Result<(), Failed> {
    let (r, done) = charge("ten-thousand", with(|e| e.max_map_count = Some(50_000)))?;
    exited(&r, 0)?;
    expect("all decided", done.decided > 10_000 && done.limited == 0 && r.outcome.counters.areas_peak > 20_000)
}

/// Exit code 7: the kernel has no PR_SET_MDWE.
fn deny_execution() {
    if call(libc::SYS_prctl, [65, 1, 0, 0, 0, 0]) != 0 {
        exit(7);
    }
    let executable = RW | libc::PROT_EXEC;
    assert_eq!(mmap(0, PAGE, executable, ANON, -1, 0), -i64::from(libc::EACCES));
    let at = anon(PAGE);
    assert_eq!(mprotect(at, PAGE, R | libc::PROT_EXEC), -i64::from(libc::EACCES));
}

fn mdwe() -> Result<(), Failed> {
    let (r, done) = charge("mdwe", Engine::default())?;
    if r.outcome.status.code() == Some(7) {
        eprintln!("skipped: decided_without_execution: no PR_SET_MDWE here");
        return Ok(());
    }
    exited(&r, 0)?;
    expect("refused by the rules, and by the kernel", done.refused.get("EACCES") == Some(&2))
}
