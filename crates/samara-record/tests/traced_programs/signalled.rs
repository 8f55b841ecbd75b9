//! Signals that come while a process is let go: its calls return EINTR exactly when they would
//! without a recorder.
//!
//! Each thread of the program waits for ever in a different call, and counts its interruptions.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI64, Ordering};

use libtest_mimic::Failed;
use samara_record::{LetGo, Running, attach};
use samara_trace::event::{Event, EventKind};
use samara_trace::{Sink, SinkError};

use crate::attaching::{Subject, answer, wait_until};
use crate::expect;
use crate::recorder::Body;
use crate::syscalls::*;

pub(crate) const TRIALS: &[(&str, Body)] = &[("attached_and_signalled_while_let_go", while_let_go)];

const THREADS: usize = 9;
/// Of the calls, those that the kernel makes again after a handler with SA_RESTART: the last ones.
const RESTARTED: usize = 2;
const INTERRUPTED: i64 = -(libc::EINTR as i64);

static TIDS: [AtomicI64; THREADS] = [const { AtomicI64::new(0) }; THREADS];
/// Signals that each thread has handled.
static HANDLED: [AtomicI64; THREADS] = [const { AtomicI64::new(0) }; THREADS];
/// How often its call returned EINTR.
static EINTR: [AtomicI64; THREADS] = [const { AtomicI64::new(0) }; THREADS];
/// How often it returned anything else.
static ELSE: AtomicI64 = AtomicI64::new(0);

/// Runs the program of this name, if it is this one.
pub(crate) fn run(name: &str) -> bool {
    if name != "attach-interrupted" {
        return false;
    }
    on_signal_with(libc::SIGUSR1, handle, libc::SA_RESTART);
    on_signal_with(libc::SIGUSR2, handle, 0);
    let waits: [fn() -> i64; THREADS] = [epoll, sleep, poll, receive, receive_several, read_vector, write, read, futex];
    for (i, wait) in waits.into_iter().enumerate() {
        std::thread::spawn(move || {
            TIDS[i].store(call(libc::SYS_gettid, [0; 6]), Ordering::Relaxed);
            loop {
                let counter = if wait() == INTERRUPTED { &EINTR[i] } else { &ELSE };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    answer(|| TIDS.iter().chain(&HANDLED).chain(&EINTR).chain([&ELSE]).map(|n| n.load(Ordering::Relaxed)).collect());
    exit(3);
}

extern "C" fn handle(_: c_int) {
    let tid = call(libc::SYS_gettid, [0; 6]);
    if let Some(i) = TIDS.iter().position(|t| t.load(Ordering::Relaxed) == tid) {
        HANDLED[i].fetch_add(1, Ordering::Relaxed);
    }
}

fn pair(nr: libc::c_long, args: [u64; 3]) -> u64 {
    let mut pair = [0i32; 2];
    let at = pair.as_mut_ptr() as u64;
    let made = match nr {
        libc::SYS_pipe2 => call(nr, [at, 0, 0, 0, 0, 0]),
        _ => call(nr, [args[0], args[1], args[2], at, 0, 0]),
    };
    assert_eq!(made, 0);
    pair[0] as u64
}

fn pipe() -> u64 {
    pair(libc::SYS_pipe2, [0; 3])
}

fn epoll() -> i64 {
    let mut event = [0u8; 12];
    let epoll = call(libc::SYS_epoll_create1, [0; 6]) as u64;
    let waited = call(libc::SYS_epoll_wait, [epoll, event.as_mut_ptr() as u64, 1, u64::MAX, 0, 0]);
    call(libc::SYS_close, [epoll, 0, 0, 0, 0, 0]);
    waited
}

fn sleep() -> i64 {
    call(libc::SYS_nanosleep, [[100_000u64, 0].as_ptr() as u64, 0, 0, 0, 0, 0])
}

fn poll() -> i64 {
    call(libc::SYS_poll, [0, 0, u64::MAX, 0, 0, 0])
}

/// A socket with this time limit, for receiving or sending.
fn limited(kind: c_int, limited: c_int) -> u64 {
    let socket = pair(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind as u64, 0]);
    let limit = [100_000u64, 0];
    let set = [socket, libc::SOL_SOCKET as u64, limited as u64, limit.as_ptr() as u64, 16, 0];
    assert_eq!(call(libc::SYS_setsockopt, set), 0);
    socket
}

fn receive() -> i64 {
    let (socket, mut byte) = (limited(libc::SOCK_DGRAM, libc::SO_RCVTIMEO), [0u8]);
    call(libc::SYS_recvfrom, [socket, byte.as_mut_ptr() as u64, 1, 0, 0, 0])
}

fn read_vector() -> i64 {
    let (socket, mut byte) = (limited(libc::SOCK_STREAM, libc::SO_RCVTIMEO), [0u8]);
    call(libc::SYS_readv, [socket, [byte.as_mut_ptr() as u64, 1].as_ptr() as u64, 1, 0, 0, 0])
}

fn receive_several() -> i64 {
    let (socket, mut byte) = (limited(libc::SOCK_DGRAM, libc::SO_RCVTIMEO), [0u8]);
    let buffer = [byte.as_mut_ptr() as u64, 1];
    // A `struct mmsghdr`.
    let mut message = [0, 0, buffer.as_ptr() as u64, 1, 0, 0, 0, 0];
    call(libc::SYS_recvmmsg, [socket, message.as_mut_ptr() as u64, 1, 0, 0, 0])
}

/// To a socket that is full.
fn write() -> i64 {
    let (socket, bytes) = (limited(libc::SOCK_STREAM, libc::SO_SNDTIMEO), [0u8; 4096]);
    let (at, len) = (bytes.as_ptr() as u64, bytes.len() as u64);
    while call(libc::SYS_sendto, [socket, at, len, libc::MSG_DONTWAIT as u64, 0, 0]) > 0 {}
    call(libc::SYS_write, [socket, at, len, 0, 0, 0])
}

fn read() -> i64 {
    let mut byte = [0u8];
    call(libc::SYS_read, [pipe(), byte.as_mut_ptr() as u64, 1, 0, 0, 0])
}

fn futex() -> i64 {
    let word = 0u32;
    call(libc::SYS_futex, [&raw const word as u64, libc::FUTEX_WAIT as u64, 0, 0, 0, 0])
}

fn send(pid: u32, tids: &[i64], signal: c_int) {
    for tid in tids {
        call(libc::SYS_tgkill, [pid.into(), *tid as u64, signal as u64, 0, 0, 0]);
    }
}

/// Sends signals when all threads are stopped and were compared: right before they are let go.
struct Sends<'a> {
    pid: u32,
    tids: &'a [i64],
    signal: c_int,
    sent: bool,
}

impl Sink for Sends<'_> {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        if event.kind == EventKind::Checked && self.signal != 0 {
            send(self.pid, self.tids, self.signal);
            self.sent = true;
        }
        Ok(())
    }
}

fn while_let_go() -> Result<(), Failed> {
    let mut subject = Subject::start("attach-interrupted", &[])?;
    let pid = subject.pid();
    // The counters: tids, handled signals, interruptions, other results.
    let mut counts = || -> Result<Vec<i64>, Failed> { Ok(subject.ask()?.split_off(8)) };
    wait_until("all threads begin", || Ok(counts()?[..THREADS].iter().all(|tid| *tid != 0)))?;
    let tids = counts()?[..THREADS].to_vec();
    let asleep = |tid: &i64| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, tail)| tail.starts_with('S'))
    };
    let traced = || std::fs::read_to_string(format!("/proc/{pid}/status")).map(|s| !s.contains("TracerPid:\t0\n"));
    let (mut handled, mut interrupted, mut meanwhile) = (0, [0; THREADS], 0);
    for round in 0..30 {
        let signal = [0, libc::SIGUSR1, libc::SIGUSR2][round % 3];
        wait_until("all threads wait", || Ok(tids.iter().all(asleep)))?;
        // The first rounds have no recorder.
        let sent = if round < 6 {
            send(pid, &tids, signal);
            signal != 0
        } else {
            let (mut running, let_go) = (Running::find(pid)?, LetGo::default());
            running.let_go = Some(let_go.clone());
            let mut sink = Sends { pid, tids: &tids, signal, sent: false };
            std::thread::scope(|scope| -> Result<_, Failed> {
                let recorder = scope.spawn(|| attach(&running, &mut sink));
                let all_wait = wait_until("all threads wait again", || Ok(traced()? && tids.iter().all(asleep)));
                let_go.ask();
                recorder.join().map_err(|_| "panic")??;
                all_wait
            })?;
            meanwhile += u64::from(sink.sent);
            sink.sent
        };
        if sent {
            handled += 1;
            let restarted = if signal == libc::SIGUSR1 { THREADS - RESTARTED } else { THREADS };
            interrupted[..restarted].iter_mut().for_each(|n| *n += 1);
        }
        wait_until("all signals are handled", || {
            Ok(counts()?[THREADS..2 * THREADS].iter().all(|n| *n >= handled) && tids.iter().all(asleep))
        })?;
        let told = counts()?.split_off(THREADS);
        let want: Vec<i64> = [handled; THREADS].into_iter().chain(interrupted).chain([0]).collect();
        expect(&format!("round {round}: {told:?}, should be {want:?}"), told == want)?;
    }
    expect("signals came while it was let go", meanwhile > 0)?;
    subject.end()
}
