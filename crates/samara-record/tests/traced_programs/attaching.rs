//! Attaching to running programs, and letting go of them: they go on as if they had not been
//! traced.
//!
//! The programs report their counters for each line of input, and end with their input.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use samara_record::{LetGo, Outcome, RecordError, Running, Status, attach};
use samara_trace::event::{Event, EventKind};
use samara_trace::file::Replay;
use samara_trace::why::Origins;
use samara_trace::{Sink, SinkError};

use crate::expect;
use crate::recorder::Body;
use crate::syscalls::*;
use crate::waiting_calls::Awaited;

const PAGE: u64 = 4096;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("attached_while_busy", busy),
    ("attached_while_blocked", blocked),
    ("attached_while_stopped", stopped),
    ("attached_and_signalled", signalled),
    ("attached_and_forking", forking),
    ("attached_while_threads_come_and_go", coming_and_going),
    ("attached_beside_a_call_that_cannot_be_interrupted", uninterrupted),
    ("attached_and_loading_a_program", loading),
    ("attached_while_loading_all_the_time", reloading),
    ("attached_and_killed_while_loading", killed_while_loading),
    ("attached_to_memory_that_forks_lose", kept),
    ("attached_until_another_thread_asks", until_asked),
    ("attached_to_its_end", to_its_end),
    ("attached_without_its_first_thread", without_first_thread),
    ("attached_with_stacks", with_stacks),
    ("attached_by_a_recorder_that_is_killed", recorder_killed),
    ("attached_many_times", many_times),
    ("what_cannot_be_attached_to", refused),
];

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str, args: &[String]) -> bool {
    match name {
        "attach-busy" => busy_program(args.iter().any(|a| a == "sleeps")),
        "attach-blocked" => blocked_program(),
        "attach-forking" => forking_program(),
        "attach-headless" => headless_program(),
        "attach-crowd" => crowd_program(),
        "attach-awaited" => awaited_program(),
        "attach-loading" => loading_program(),
        "attach-reloading" => reloading_program(args),
        "attach-kept" => kept_program(),
        _ => return false,
    }
    true
}

/// Runs as a recorder that attaches, if the arguments ask for it: its exit code.
pub(crate) fn mode(args: &[String]) -> Option<std::process::ExitCode> {
    if args.get(1).is_none_or(|a| a != "--attach") {
        return None;
    }
    let running = Running::find(args[2].parse().ok()?);
    let recorded = running.and_then(|running| attach(&running, &mut ()));
    Some(std::process::ExitCode::from(u8::from(recorded.is_err())))
}

/// Progress of the threads of a program.
static DONE: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];
/// Calls that failed.
static FAILED: AtomicU64 = AtomicU64::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

fn is_over() -> bool {
    OVER.load(Ordering::Relaxed)
}

/// Counts a failed call if the condition is false.
fn should(is: bool) {
    FAILED.fetch_add(u64::from(!is), Ordering::Relaxed);
}

/// Answers each line of the input with the counters, until the input ends.
pub(crate) fn answer(more: impl Fn() -> Vec<i64>) {
    println!("ready");
    for line in std::io::stdin().lines() {
        line.unwrap();
        let counters = DONE.iter().chain([&FAILED, &SIGNALS]).map(|c| c.load(Ordering::Relaxed) as i64);
        let all: Vec<String> = counters.chain(more()).map(|n| n.to_string()).collect();
        println!("{}", all.join(" "));
    }
}

extern "C" fn count_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Maps eight pages, protects one of the first six, moves the last two, and unmaps all. True if
/// each call succeeds. Other threads may do the same: the moved pages' old place is free, and may
/// be theirs.
pub(crate) fn maps_and_moves(protected: u64) -> bool {
    let at = anon(8 * PAGE);
    touch(at, 8 * PAGE);
    let protects = mprotect(at + PAGE * protected, PAGE, libc::PROT_READ) == 0;
    let moved = mremap(at + 6 * PAGE, 2 * PAGE, 4 * PAGE, libc::MREMAP_MAYMOVE, 0);
    protects && moved > 0 && munmap(moved as u64, 4 * PAGE) == 0 && munmap(at, 6 * PAGE) == 0
}

/// Threads that map, unmap, protect, move and compute; one that sleeps in short calls, if asked.
fn busy_program(sleeps: bool) {
    on_signal(libc::SIGRTMIN(), count_signal);
    let mut threads = Vec::new();
    for (i, done) in DONE[..4].iter().enumerate() {
        threads.push(std::thread::spawn(move || {
            while !is_over() {
                should(maps_and_moves(1 + i as u64));
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    threads.push(std::thread::spawn(|| {
        let mut hash = 1u64;
        while !is_over() {
            (0..1000).for_each(|i| hash = hash.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(i));
            DONE[4].fetch_add(1, Ordering::Relaxed);
        }
        should(hash != 0);
    }));
    if sleeps {
        threads.push(std::thread::spawn(|| {
            let epoll = call(libc::SYS_epoll_create1, [0; 6]) as u64;
            let (word, time, mut event) = (0u32, [0u64, 1_000_000], [0u8; 12]);
            while !is_over() {
                should(call(libc::SYS_nanosleep, [time.as_ptr() as u64, 0, 0, 0, 0, 0]) == 0);
                should(call(libc::SYS_poll, [0, 0, 1, 0, 0, 0]) == 0);
                should(call(libc::SYS_epoll_wait, [epoll, event.as_mut_ptr() as u64, 1, 1, 0, 0]) == 0);
                let futex = [&raw const word as u64, libc::FUTEX_WAIT as u64, 0, time.as_ptr() as u64, 0, 0];
                should(call(libc::SYS_futex, futex) == -i64::from(libc::ETIMEDOUT));
                DONE[5].fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    answer(Vec::new);
    OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    exit(if FAILED.load(Ordering::Relaxed) == 0 { 3 } else { 4 });
}

/// A call that has not returned.
const OPEN: i64 = 1 << 40;

/// Threads that wait in calls: their results.
fn blocked_program() {
    static RESULTS: [AtomicI64; 7] = [const { AtomicI64::new(OPEN) }; 7];
    let mut pipe = [0i32; 2];
    assert_eq!(call(libc::SYS_pipe2, [pipe.as_mut_ptr() as u64, 0, 0, 0, 0, 0]), 0);
    let (from, to) = (pipe[0] as u64, pipe[1] as u64);
    let epoll = call(libc::SYS_epoll_create1, [0; 6]) as u64;
    let event = [1u32, 0, 0]; // EPOLLIN
    let add = [epoll, 1, from, event.as_ptr() as u64, 0, 0];
    assert_eq!(call(libc::SYS_epoll_ctl, add), 0);
    block_signals();
    let wait = |i: usize, wait: fn(u64, u64) -> i64| {
        std::thread::spawn(move || RESULTS[i].store(wait(from, epoll), Ordering::Relaxed))
    };
    let threads = [
        wait(0, |_, _| call(libc::SYS_nanosleep, [[2u64, 0].as_ptr() as u64, 0, 0, 0, 0, 0])),
        wait(1, |_, _| call(libc::SYS_clock_nanosleep, [1, 0, [2u64, 0].as_ptr() as u64, 0, 0, 0])),
        wait(2, |from, _| call(libc::SYS_poll, [[from | 1 << 32].as_ptr() as u64, 1, u64::MAX, 0, 0, 0])),
        wait(3, |_, epoll| {
            let mut event = [0u8; 12];
            call(libc::SYS_epoll_wait, [epoll, event.as_mut_ptr() as u64, 1, u64::MAX, 0, 0])
        }),
        wait(4, |_, epoll| {
            let mut event = [0u8; 12];
            call(libc::SYS_epoll_pwait, [epoll, event.as_mut_ptr() as u64, 1, u64::MAX, 0, 8])
        }),
        wait(5, |from, _| {
            // At most two of the bytes that are written in the end.
            let mut bytes = [0u8; 2];
            let futex = [0u32];
            let time = [2u64, 0];
            let wait = [futex.as_ptr() as u64, libc::FUTEX_WAIT as u64, 0, time.as_ptr() as u64, 0, 0];
            let waited = call(libc::SYS_futex, wait);
            if waited != -i64::from(libc::ETIMEDOUT) {
                waited
            } else {
                call(libc::SYS_read, [from, bytes.as_mut_ptr() as u64, 1, 0, 0, 0])
            }
        }),
        wait(6, |_, _| {
            let set = 1u64 << (libc::SIGUSR2 - 1);
            call(libc::SYS_rt_sigtimedwait, [&raw const set as u64, 0, 0, 8, 0, 0])
        }),
    ];
    answer(|| RESULTS.iter().map(|result| result.load(Ordering::Relaxed)).collect());
    kill(pid(), libc::SIGUSR2);
    assert_eq!(call(libc::SYS_write, [to, b"abcd".as_ptr() as u64, 4, 0, 0, 0]), 4);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let results: Vec<i64> = RESULTS.iter().map(|result| result.load(Ordering::Relaxed)).collect();
    assert_eq!(results, [0, 0, 1, 1, 1, 1, libc::SIGUSR2.into()]);
    exit(3);
}

/// Makes children one after the other, by `fork` and by `vfork` with another program.
fn forking_program() {
    let threads: Vec<_> = [0, 1]
        .map(|i| {
            std::thread::spawn(move || {
                while !is_over() {
                    if i == 0 {
                        let child = fork();
                        if child == 0 {
                            let at = anon(4 * PAGE);
                            exit(if mprotect(at + PAGE, PAGE, libc::PROT_READ) == 0 { 5 } else { 6 });
                        }
                        should(wait(child, 0) == 5 << 8);
                    } else {
                        should(Command::new("/bin/true").status().is_ok_and(|status| status.success()));
                    }
                    DONE[i].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .into();
    answer(Vec::new);
    OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    exit(if FAILED.load(Ordering::Relaxed) == 0 { 3 } else { 4 });
}

/// Its first thread has ended, another one goes on.
fn headless_program() {
    std::thread::spawn(|| busy_program(false));
    // One that ends while it is recorded.
    let is_traced = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    };
    std::thread::spawn(move || {
        while !is_traced() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    end_thread();
}

/// Threads make threads that end soon, and processes.
fn crowd_program() {
    let threads: Vec<_> = DONE[..3]
        .iter()
        .map(|done| {
            std::thread::spawn(move || {
                while !is_over() {
                    let one = || {
                        let at = anon(4 * PAGE);
                        should(mprotect(at + PAGE, PAGE, libc::PROT_READ) == 0 && munmap(at, 4 * PAGE) == 0);
                    };
                    let two = [(); 2].map(|()| std::thread::spawn(one));
                    let child = fork();
                    if child == 0 {
                        exit(if munmap(anon(PAGE), PAGE) == 0 { 5 } else { 6 });
                    }
                    should(wait(child, 0) == 5 << 8);
                    two.into_iter().for_each(|thread| should(thread.join().is_ok()));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    answer(Vec::new);
    OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    exit(if FAILED.load(Ordering::Relaxed) == 0 { 3 } else { 4 });
}

/// A thread sets a policy of memory, and waits for the list of nodes until there are two lines of
/// input.
fn awaited_program() {
    let (page, at) = (Awaited::new(), anon(3 * PAGE) + PAGE);
    if call(libc::SYS_mbind, [at, PAGE, 0, 0, 0, 0]) != 0 {
        exit(7); // a kernel without memory nodes
    }
    let prefer_local = [at, PAGE, 1, page.at, 64, 0];
    let thread = std::thread::spawn(move || call(libc::SYS_mbind, prefer_local));
    page.wanted();
    let lines = AtomicU64::new(0);
    answer(|| {
        if lines.fetch_add(1, Ordering::Relaxed) == 1 {
            page.serve();
            wait_until("it returns", || Ok(thread.is_finished())).unwrap();
        }
        vec![i64::from(thread.is_finished())]
    });
    exit(if thread.join().unwrap() == 0 { 3 } else { 7 });
}

/// Loads another program when there is a line of input.
fn loading_program() {
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    std::thread::spawn(|| exec(c"/bin/sh", &[c"sh", c"-c", c"read line; exit 3"])).join().unwrap();
}

/// Loads itself all the time, from a thread that is not the first one.
fn reloading_program(args: &[String]) {
    let left: u64 = args[0].parse().unwrap();
    if args.len() > 1 {
        println!("ready");
    }
    for _ in 0..3 {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(1000)));
    }
    let reload = move || {
        std::thread::sleep(Duration::from_micros(left % 7 * 200));
        let left = std::ffi::CString::new((left - 1).to_string()).unwrap();
        exec(c"/proc/self/exe", &[c"program", c"--program", c"attach-reloading", &left])
    };
    let _ = std::thread::spawn(reload).join();
}

/// Has memory that a fork does not copy, or changes.
fn kept_program() {
    const LEN: u64 = 8 * 4096;
    let areas = [anon(LEN), anon(LEN), anon(LEN)];
    let advise = |at: u64, advice: i32| call(libc::SYS_madvise, [at, LEN, advice as u64, 0, 0, 0]);
    let lock = |nr: libc::c_long| call(nr, [areas[2], LEN / 2, 0, 0, 0, 0]);
    let done = [advise(areas[0], libc::MADV_DONTFORK), advise(areas[1], libc::MADV_WIPEONFORK), lock(libc::SYS_mlock)];
    assert_eq!(done, [0; 3]);
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!([advise(areas[0], libc::MADV_DOFORK), lock(libc::SYS_munlock)], [0; 2]);
    std::io::stdin().read_line(&mut line).unwrap();
}

/// A program that runs.
pub(crate) struct Subject {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Subject {
    pub(crate) fn start(name: &str, args: &[&str]) -> Result<Subject, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--program", name]).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        expect("it starts", line == "ready\n")?;
        Ok(Subject { child, out })
    }

    /// A program whose threads are all at work.
    fn busy(threads: usize) -> Result<Subject, Failed> {
        let mut subject = Subject::start("attach-busy", if threads == 6 { &["sleeps"] } else { &[] })?;
        subject.goes_on(threads)?;
        Ok(subject)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its counters: progress of each thread, failed calls, signals, results.
    pub(crate) fn ask(&mut self) -> Result<Vec<i64>, Failed> {
        let mut line = String::new();
        let asked = self.child.stdin.as_mut().ok_or("no input")?.write_all(b"\n");
        asked.and_then(|()| self.out.read_line(&mut line)).map_err(|why| {
            let ended = self.child.try_wait();
            format!("it answers no more: {why}; how it ended: {ended:?}")
        })?;
        Ok(line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Waits until each of its first threads has made progress.
    fn goes_on(&mut self, threads: usize) -> Result<(), Failed> {
        let before = self.ask()?;
        wait_until("every thread goes on", || Ok(self.ask()?.iter().zip(&before).take(threads).all(|(n, b)| n > b)))
    }

    /// Ends its input. The program then ends by itself, and none of its calls has failed.
    pub(crate) fn end(mut self) -> Result<(), Failed> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        expect(&format!("it ends well: {status}"), status.code() == Some(3))
    }

    /// Records it.
    fn attach(&self, duration: Option<Duration>) -> Result<(Outcome, Vec<Event>), Failed> {
        let (recorded, events) = attach_to(self.pid(), duration, false);
        Ok((recorded?, events))
    }

    /// The visible state of its threads.
    fn state(&self) -> Vec<String> {
        let fields = ["Tgid", "Uid", "Groups", "Threads", "TracerPid", "Sig", "Shd", "Cap", "NoNew", "Seccomp", "Cpus"];
        // The number of queued signals is that of the user.
        let kept = |line: &&str| fields.iter().any(|field| line.starts_with(field)) && !line.starts_with("SigQ");
        let mut tasks = self.tasks();
        tasks.sort_unstable();
        let read = |tid: &i32| std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        let texts = tasks.iter().map(read).filter(|text| !text.is_empty());
        texts.map(|text| text.lines().filter(kept).collect::<Vec<_>>().join("\n")).collect()
    }

    fn tasks(&self) -> Vec<i32> {
        let all = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    fn is_traced(&self) -> bool {
        self.state().iter().any(|state| !state.contains("TracerPid:\t0\n"))
    }

    /// Whether all its threads are stopped by a signal.
    fn is_stopped(&self) -> bool {
        let state = |tid: i32| std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        let stopped = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, tail)| tail.starts_with('T'));
        self.tasks().into_iter().all(|tid| stopped(state(tid)))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Records a process from a new thread, which is not the parent of the process.
fn attach_to(pid: u32, duration: Option<Duration>, stacks: bool) -> (Result<Outcome, RecordError>, Vec<Event>) {
    let record = || {
        let mut events = Vec::new();
        let recorded = Running::find(pid).and_then(|mut running| {
            (running.duration, running.stacks) = (duration, stacks);
            attach(&running, &mut events)
        });
        (recorded, events)
    };
    std::thread::scope(|scope| scope.spawn(record).join()).unwrap_or((Err(RecordError::NoProcess(pid)), Vec::new()))
}

pub(crate) fn wait_until(what: &str, mut is: impl FnMut() -> Result<bool, Failed>) -> Result<(), Failed> {
    let began = Instant::now();
    while !is()? {
        expect(what, began.elapsed() < Duration::from_secs(600))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Checks every recording: the models agree, and the first event is the space as found.
fn check(outcome: &Outcome, events: &[Event]) -> Result<(), Failed> {
    let wrong = events.iter().find(|e| {
        e.kind == EventKind::Difference || (e.kind == EventKind::Checked && e.result != 0) || e.exit_ns < e.entry_ns
    });
    expect(&format!("no difference: {wrong:?}"), wrong.is_none())?;
    let found = events.first().is_some_and(|e| e.kind == EventKind::Found && e.areas.len() > 5);
    expect("the space as it was found", found)?;
    crate::rerun::replays("attached", events)?;
    let (mut replay, mut origins) = (Replay::default(), Origins::default());
    for event in events {
        replay.apply(event)?;
        origins.apply(event, &replay);
    }
    expect("the origins are those of the areas", !origins.is_lost() && origins.agrees(&replay))?;
    expect(&format!("{:?}", outcome.counters), outcome.counters.notes.is_empty())
}

fn let_go(outcome: &Outcome, events: &[Event]) -> Result<(), Failed> {
    check(outcome, events)?;
    expect("it was let go", outcome.status == Status::LetGo)?;
    expect("it was compared", events.iter().any(|e| e.kind == EventKind::Checked))
}

const SHORT: Option<Duration> = Some(Duration::from_millis(100));

fn busy() -> Result<(), Failed> {
    let mut subject = Subject::busy(6)?;
    let before = subject.state();
    let mut threads = std::collections::HashSet::new();
    wait_until("calls of all threads are recorded", || {
        let (outcome, events) = subject.attach(SHORT)?;
        let_go(&outcome, &events)?;
        threads.extend(events.iter().filter(|e| e.nr.is_some()).map(|e| e.tid));
        Ok(threads.len() >= 4)
    })?;
    expect("nothing has changed", subject.state() == before)?;
    subject.goes_on(6)?;
    subject.end()
}

fn blocked() -> Result<(), Failed> {
    let began = Instant::now();
    let mut subject = Subject::start("attach-blocked", &[])?;
    for _ in 0..3 {
        let (outcome, events) = subject.attach(SHORT)?;
        let_go(&outcome, &events)?;
    }
    let results = subject.ask()?.split_off(8);
    expect(&format!("waiting calls go on: {results:?}"), results.iter().skip(2).all(|result| *result == OPEN))?;
    let mut slept = results;
    wait_until("sleeping calls return", || {
        slept = subject.ask()?.split_off(8);
        Ok(slept[..2].iter().all(|result| *result != OPEN))
    })?;
    expect(&format!("and were not disturbed: {slept:?}"), slept[..2] == [0, 0])?;
    expect("nor shortened", began.elapsed() >= Duration::from_secs(2))?;
    subject.end()
}

fn stopped() -> Result<(), Failed> {
    let mut subject = Subject::busy(5)?;
    kill(subject.pid() as i32, libc::SIGSTOP);
    wait_until("it stops", || Ok(subject.is_stopped()))?;
    let before = subject.state();
    let (outcome, events) = subject.attach(SHORT)?;
    let_go(&outcome, &events)?;
    expect("it made no call", !events.iter().any(|e| e.kind == EventKind::Call))?;
    wait_until("it is still stopped", || Ok(subject.is_stopped()))?;
    expect("nothing has changed", subject.state() == before)?;
    kill(subject.pid() as i32, libc::SIGCONT);
    subject.goes_on(5)?;
    // It stops and goes on while it is recorded, and is let go while it is stopped.
    std::thread::scope(|scope| {
        let recorded = scope.spawn(|| attach_to(subject.pid(), Some(Duration::from_millis(300)), false));
        for signal in [libc::SIGSTOP, libc::SIGCONT, libc::SIGSTOP] {
            std::thread::sleep(Duration::from_millis(50));
            kill(subject.pid() as i32, signal);
        }
        let (outcome, events) = recorded.join().map_err(|_| "panic")?;
        let_go(&outcome?, &events)
    })?;
    wait_until("it is stopped", || Ok(subject.is_stopped()))?;
    kill(subject.pid() as i32, libc::SIGCONT);
    subject.goes_on(5)?;
    subject.end()
}

/// Every signal arrives once, whenever it comes.
fn signalled() -> Result<(), Failed> {
    const MANY: i64 = 500;
    let mut subject = Subject::busy(5)?;
    std::thread::scope(|scope| -> Result<(), Failed> {
        let recorder = scope.spawn(|| (0..8).map(|_| attach_to(subject.pid(), Some(Duration::from_millis(25)), false)));
        for _ in 0..MANY {
            kill(subject.pid() as i32, libc::SIGRTMIN());
            std::thread::sleep(Duration::from_micros(500));
        }
        for (outcome, events) in recorder.join().map_err(|_| "panic")? {
            let_go(&outcome?, &events)?;
        }
        Ok(())
    })?;
    wait_until("all signals arrive", || Ok(subject.ask()?[7] == MANY))?;
    subject.end()
}

fn forking() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-forking", &[])?;
    let mut seen = [0; 3];
    wait_until("children are recorded", || {
        let (outcome, events) = subject.attach(Some(Duration::from_millis(200)))?;
        let_go(&outcome, &events)?;
        for (n, kind) in seen.iter_mut().zip([EventKind::Fork, EventKind::Exec, EventKind::Exit]) {
            *n += events.iter().filter(|e| e.kind == kind).count();
        }
        Ok(seen.iter().all(|n| *n > 3))
    })?;
    subject.goes_on(2)?;
    subject.end()
}

/// No thread escapes, and no process.
fn coming_and_going() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-crowd", &[])?;
    let (mut threads, mut forks) = (0, 0);
    for i in 0..40 {
        let (outcome, events) = subject.attach(Some(Duration::from_millis(i)))?;
        let_go(&outcome, &events)?;
        threads += events.iter().filter(|e| e.kind == EventKind::Thread).count();
        forks += events.iter().filter(|e| e.kind == EventKind::Fork).count();
        expect("it is traced no more", !subject.is_traced())?;
    }
    expect(&format!("{threads} threads, {forks} processes"), threads > 40 && forks > 20)?;
    subject.goes_on(3)?;
    subject.end()
}

/// A call that waits in the kernel from before the recording, beyond the time for which threads are
/// waited for. Its effect is learnt; or its thread is let go with the recorder.
fn uninterrupted() -> Result<(), Failed> {
    for again in [false, true] {
        let Ok(mut subject) = Subject::start("attach-awaited", &[]) else {
            println!("skipped: uninterrupted: no userfaultfd that holds calls, or no memory nodes");
            return Ok(());
        };
        if again {
            let (outcome, events) = subject.attach(Some(Duration::ZERO))?;
            let notes = &outcome.counters.notes;
            let told = notes.iter().any(|n| n.contains("cannot be interrupted")) && notes.len() == 2;
            expect(&format!("{notes:?}"), told && outcome.status == Status::LetGo)?;
            expect("nothing was compared", !events.iter().any(|e| e.kind == EventKind::Checked))?;
            expect("it is traced no more", !subject.is_traced())?;
        }
        expect("the call waits", subject.ask()?.last() == Some(&0))?;
        let pid = subject.pid();
        let (recorded, returned) = std::thread::scope(|scope| {
            let recorded = scope.spawn(|| attach_to(pid, Some(Duration::from_millis(2500)), false));
            std::thread::sleep(Duration::from_millis(1500));
            let returned = subject.ask().map(|all| all.last() == Some(&1));
            (recorded.join(), returned)
        });
        expect("the call returns", returned?)?;
        let (outcome, events) = recorded.map_err(|_| "panic")?;
        let_go(&outcome?, &events)?;
        // If it was interrupted before, it does not sleep any more, and cannot be identified.
        let learnt = |e: &&Event| e.text.contains("Mbind") || (again && e.text.contains("not known"));
        expect("its effect is learnt", events.iter().filter(|e| e.kind == EventKind::Learnt).any(|e| learnt(&e)))?;
        subject.end()?;
    }
    Ok(())
}

/// A thread of it loads another program.
fn loading() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-loading", &[])?;
    let pid = subject.pid();
    let mut input = subject.child.stdin.take().ok_or("no input")?;
    let (recorded, written) = std::thread::scope(|scope| {
        let recorded = scope.spawn(|| attach_to(pid, Some(Duration::from_millis(600)), false));
        std::thread::sleep(Duration::from_millis(200));
        let written = input.write_all(b"\n");
        (recorded.join(), written)
    });
    written?;
    let (outcome, events) = recorded.map_err(|_| "panic")?;
    let_go(&outcome?, &events)?;
    expect("it was loaded", events.iter().any(|e| e.kind == EventKind::Exec && e.pid == pid))?;
    let compared: Vec<_> = events.iter().filter(|e| e.kind == EventKind::Checked).map(|e| e.pid).collect();
    expect(&format!("the new space is compared: {compared:?}"), compared == [pid])?;
    drop(input);
    subject.end()
}

/// One thread ends all the others while they are being seized: there is no deadlock.
fn reloading() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-reloading", &["1000000000", "first"])?;
    for i in 0..100 {
        let (outcome, _) = attach_to(subject.pid(), Some(Duration::from_millis(i % 5)), false);
        let counters = outcome?.counters;
        expect("no difference", counters.differences == 0)?;
        // A note would say that a thread did not stop in time.
        expect(&format!("no notes: {:?}", counters.notes), counters.notes.is_empty())?;
        expect("it goes on", subject.child.try_wait()?.is_none())?;
    }
    Ok(())
}

/// A process that is killed at any moment while one of its threads loads a program ends by that
/// signal, and its recording does not fail.
fn killed_while_loading() -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(9);
    let mut ended = 0;
    for _ in 0..150 {
        let mut subject = Subject::start("attach-reloading", &["1000000000", "first"])?;
        let pid = subject.pid();
        let recorded = std::thread::scope(|scope| {
            let recorded = scope.spawn(|| attach_to(pid, Some(Duration::from_millis(60)), false));
            std::thread::sleep(Duration::from_micros(random.u64(3_000..30_000)));
            subject.child.kill().map(|()| recorded.join())
        });
        let (outcome, _) = recorded?.map_err(|_| "panic")?;
        match outcome {
            Ok(outcome) => {
                let by = outcome.status.ended().and_then(|status| status.signal());
                expect(&format!("{:?}", outcome.status), by == Some(libc::SIGKILL))?;
                ended += 1;
            }
            // It was killed before it was attached to.
            Err(RecordError::Ended(_) | RecordError::NoProcess(_)) => {}
            Err(why) => return Err(why.to_string().into()),
        }
        // The recorder, a thread of this process, may have waited for it.
        let _ = subject.child.wait();
    }
    expect(&format!("{ended} recorded"), ended > 75)
}

/// Memory with flags that a fork clears, or that a fork leaves out, is taken over with them.
fn kept() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-kept", &[])?;
    let pid = subject.pid();
    let mut input = subject.child.stdin.take().ok_or("no input")?;
    let recorded = std::thread::scope(|scope| {
        let recorded = scope.spawn(|| attach_to(pid, Some(Duration::from_millis(600)), false));
        std::thread::sleep(Duration::from_millis(200));
        let written = input.write_all(b"\n");
        recorded.join().map(|recorded| (recorded, written))
    });
    let ((outcome, events), written) = recorded.map_err(|_| "panic")?;
    written?;
    let_go(&outcome?, &events)?;
    let changed = events.iter().filter(|e| e.kind == EventKind::Call && !e.plan.is_empty()).count();
    expect(&format!("both calls changed areas: {events:?}"), changed >= 2)?;
    drop(input);
    expect("it ends well", subject.child.wait()?.success())
}

/// The process makes no call meanwhile. Signals to the recorder's process are its caller's.
fn until_asked() -> Result<(), Failed> {
    /// Tells of the first event, and which signals are caught then.
    struct First(std::sync::mpsc::Sender<u64>, Vec<Event>);
    impl Sink for First {
        fn event(&mut self, event: Event) -> Result<(), SinkError> {
            let status = std::fs::read_to_string("/proc/self/status")?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap_or_default();
            let _ = self.0.send(u64::from_str_radix(caught, 16).unwrap_or(u64::MAX));
            self.1.push(event);
            Ok(())
        }
    }
    let mut subject = Subject::start("attach-blocked", &[])?;
    let record = |before: bool| -> Result<(), Failed> {
        let mut running = Running::find(subject.pid())?;
        let let_go_of_it = LetGo::default();
        running.let_go = Some(let_go_of_it.clone());
        if before {
            let_go_of_it.ask();
        }
        let (told, tells) = std::sync::mpsc::channel();
        let recorder = std::thread::spawn(move || {
            let mut sink = First(told, Vec::new());
            attach(&running, &mut sink).map(|outcome| (outcome, sink.1))
        });
        let caught = tells.recv()?;
        let of_callers = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];
        expect("no signal is caught", of_callers.iter().all(|signal| caught & 1 << (signal - 1) == 0))?;
        if !before {
            std::thread::sleep(Duration::from_millis(100));
            expect("it is recorded until then", !recorder.is_finished() && subject.is_traced())?;
            let_go_of_it.ask();
        }
        let (outcome, events) = recorder.join().map_err(|_| "panic")??;
        expect("it is traced no more", !subject.is_traced())?;
        let_go(&outcome, &events)
    };
    record(false)?;
    record(true)?;
    let results = subject.ask()?.split_off(8);
    expect(&format!("waiting calls go on: {results:?}"), results.iter().skip(2).all(|result| *result == OPEN))?;
    wait_until("sleeping calls return", || Ok(subject.ask()?[8..10].iter().all(|result| *result != OPEN)))?;
    subject.end()
}

fn to_its_end() -> Result<(), Failed> {
    let mut subject = Subject::busy(6)?;
    let pid = subject.pid();
    let input = subject.child.stdin.take();
    let (outcome, events) = std::thread::scope(|scope| {
        let recorded = scope.spawn(|| attach_to(pid, None, false));
        std::thread::sleep(Duration::from_millis(100));
        drop(input);
        recorded.join().map_err(|_| "panic")
    })?;
    let outcome = outcome?;
    check(&outcome, &events)?;
    expect(&format!("{}", outcome.status), outcome.status.code() == Some(3))?;
    expect("its end", events.iter().any(|e| e.kind == EventKind::Exit && e.pid == pid && e.result == 3 << 8))?;
    subject.end()
}

fn without_first_thread() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-headless", &[])?;
    wait_until("its first thread ends", || {
        Ok(std::fs::read_to_string(format!("/proc/{}/status", subject.pid()))?.contains("State:\tZ"))
    })?;
    let (outcome, events) = subject.attach(Some(Duration::from_millis(400)))?;
    // Also where another thread ends, it is no end of the process.
    let_go(&outcome, &events)?;
    expect("one process", outcome.counters.processes == 1 && events.iter().all(|e| e.kind != EventKind::Exit))?;
    subject.goes_on(5)?;
    subject.end()
}

fn with_stacks() -> Result<(), Failed> {
    let subject = Subject::busy(5)?;
    let (outcome, events) = attach_to(subject.pid(), SHORT, true);
    let_go(&outcome?, &events)?;
    let calls = events.iter().filter(|e| e.kind == EventKind::Call);
    let (with, without): (Vec<_>, Vec<_>) = calls.partition(|e| e.stack.is_some());
    expect(&format!("{} of {} calls", with.len(), without.len()), !with.is_empty() && without.is_empty())?;
    let named = |e: &Event| e.kind == EventKind::Symbol && e.text.contains("busy_program");
    expect("functions are named", events.iter().any(named))?;
    subject.end()
}

/// A recorder that is killed at any moment leaves nothing behind.
fn recorder_killed() -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut subject = Subject::busy(6)?;
    let before = subject.state();
    for _ in 0..60 {
        let pid = subject.pid().to_string();
        let mut recorder = Command::new(std::env::current_exe()?).args(["--attach", &pid]).spawn()?;
        std::thread::sleep(Duration::from_micros(random.u64(0..40_000)));
        recorder.kill()?;
        recorder.wait()?;
        wait_until("it is traced no more", || Ok(!subject.is_traced()))?;
        let state = subject.state();
        expect(&format!("nothing has changed: {before:?} {state:?}"), state == before)?;
    }
    subject.goes_on(6)?;
    // Only an interrupted call that was not restarted may have failed.
    let failed = subject.ask()?[6];
    println!("{failed} calls were interrupted");
    drop(subject.child.stdin.take());
    let code = subject.child.wait()?.code();
    expect(&format!("it ends well: {code:?}"), code == Some(if failed == 0 { 3 } else { 4 }) && failed <= 60)
}

/// `SAMARA_ATTACHES` says how often.
fn many_times() -> Result<(), Failed> {
    let times = std::env::var("SAMARA_ATTACHES").ok().and_then(|n| n.parse().ok()).unwrap_or(15);
    let mut random = fastrand::Rng::with_seed(11);
    let mut subject = Subject::busy(6)?;
    let before = subject.state();
    let mut calls = 0;
    for i in 0..times {
        let (outcome, events) = subject.attach(Some(Duration::from_micros(random.u64(0..5000))))?;
        let_go(&outcome, &events)?;
        calls += events.iter().filter(|e| e.kind == EventKind::Call).count();
        let state = subject.state();
        expect(&format!("nothing has changed after {i}: {before:?} {state:?}"), state == before)?;
        let failed = subject.ask()?[6];
        expect(&format!("no call has failed after {i}: {failed}"), failed == 0)?;
    }
    println!("attached {times} times, {calls} calls recorded");
    subject.goes_on(6)?;
    subject.end()
}

fn refused() -> Result<(), Failed> {
    let refused = |pid: u32| match attach_to(pid, SHORT, false).0 {
        Err(why) => Ok(why),
        Ok(_) => Err(Failed::from(format!("{pid} was recorded"))),
    };
    expect("itself", matches!(refused(std::process::id())?, RecordError::Itself))?;
    expect("no such process", matches!(refused(u32::MAX)?, RecordError::NoProcess(_)))?;
    let subject = Subject::busy(5)?;
    let thread = subject.tasks().into_iter().max().unwrap_or(0) as u32;
    let why = refused(thread)?;
    expect("a thread", matches!(why, RecordError::NotAProcess(t, p) if (t, p) == (thread, subject.pid())))?;
    // Another recorder has it.
    let pid = subject.pid().to_string();
    let mut other = Command::new(std::env::current_exe()?).args(["--attach", &pid]).spawn()?;
    wait_until("it is traced", || Ok(subject.is_traced()))?;
    let why = refused(subject.pid())?;
    expect(&why.to_string(), matches!(why, RecordError::Traced { by: (by, _), .. } if by == other.id()))?;
    kill(other.id() as i32, libc::SIGTERM);
    expect("it lets go when it is asked to", other.wait()?.success())?;
    subject.end()?;
    // A zombie.
    let mut child = Command::new("/bin/true").spawn()?;
    wait_until("it ends", || {
        Ok(std::fs::read_to_string(format!("/proc/{}/status", child.id()))?.contains("State:\tZ"))
    })?;
    expect("a zombie", matches!(refused(child.id())?, RecordError::Ended(_)))?;
    child.wait()?;
    Ok(())
}
