//! The recorder's own signals while it records: what asks it to end, the timer that interrupts a
//! wait, and its own stop as a job of a shell.
//!
//! - **SIGNALS-1** no signal is lost between a look at [`Signals::asked`] and the wait that
//!   follows: the handler starts the timer, which interrupts waits until the next look.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use crate::sync::{AtomicI32, AtomicPtr, Ordering};

/// How often a wait is interrupted while a signal has not been looked at, in nanoseconds.
const NAG_NS: u64 = 5_000_000;

/// The signals that came, one bit each (all are below 32). Relaxed: lone flags, they guard no other
/// data.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// The timer has fired since the last look. Relaxed: as above.
static TICKED: AtomicI32 = AtomicI32::new(0);
/// The timer, for the handler.
static TIMER: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());
/// Whether [`TIMER`] holds one (a timer's id may be 0).
static HAS_TIMER: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_ask(signal: c_int) {
    ASKED.fetch_or(1 << signal, Ordering::Relaxed);
    if HAS_TIMER.load(Ordering::Acquire) != 0 {
        arm(TIMER.load(Ordering::Relaxed), NAG_NS);
    }
}

extern "C" fn on_tick(_: c_int) {
    TICKED.store(1, Ordering::Relaxed);
}

/// Sets the timer's period; 0 stops it. Async-signal-safe.
fn arm(timer: libc::timer_t, period_ns: u64) {
    let every = libc::timespec { tv_sec: 0, tv_nsec: period_ns.min(999_999_999) as i64 };
    let spec = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the timer is ours; timer_settime is async-signal-safe and reports a wrong one by an error
    // only, which leaves errno as the one thing to put back for interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::timer_settime(timer, 0, &spec, ptr::null_mut());
        *libc::__errno_location() = errno;
    }
}

/// The signal that the timer sends to the recording thread. It interrupts a wait.
fn tick_signal() -> c_int {
    libc::SIGRTMAX() - 1
}

/// What others asked of the recorder since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The signal that asks it to end (SIGTERM, SIGHUP).
    pub(crate) end: Option<c_int>,
    /// It was continued (SIGCONT).
    pub(crate) continued: bool,
}

/// The recorder's own signal dispositions while it records; the former ones come back when it is
/// dropped.
pub(crate) struct Signals {
    old: Vec<(c_int, libc::sigaction)>,
    /// The thread's mask: the timer's signal must come through.
    mask: Option<libc::sigset_t>,
    timer: Option<libc::timer_t>,
    period_ns: u64,
}

impl Signals {
    /// SIGINT, SIGQUIT and the stops of the terminal are for the program, not for us: we stop when
    /// it has (see [`stop_self`]). SIGTERM, SIGHUP and SIGCONT are kept for [`Signals::asked`].
    pub(crate) fn install() -> Signals {
        ASKED.store(0, Ordering::Relaxed);
        TICKED.store(0, Ordering::Relaxed);
        let mut signals = Signals { old: Vec::new(), mask: None, timer: None, period_ns: 0 };
        let tick: extern "C" fn(c_int) = on_tick;
        signals.set(tick_signal(), tick as libc::sighandler_t);
        signals.mask = unblock(tick_signal());
        signals.timer = timer();
        if let Some(timer) = signals.timer {
            TIMER.store(timer, Ordering::Relaxed);
            HAS_TIMER.store(1, Ordering::Release);
        }
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
            signals.set(signal, libc::SIG_IGN);
        }
        let ask: extern "C" fn(c_int) = on_ask;
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGCONT] {
            signals.set(signal, ask as libc::sighandler_t);
        }
        signals
    }

    fn set(&mut self, signal: c_int, handler: libc::sighandler_t) {
        // SAFETY: both structures are valid; the handlers are async-signal-safe, and SA_RESTART is left out
        // so that a wait is interrupted.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            let mut old: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = handler;
            if libc::sigaction(signal, &new, &mut old) == 0 {
                self.old.push((signal, old));
            }
        }
    }

    /// Whether [`Signals::asked`] has something to say, or the timer has fired since.
    pub(crate) fn waiting(&self) -> bool {
        ASKED.load(Ordering::Relaxed) != 0 || TICKED.load(Ordering::Relaxed) != 0
    }

    /// Where there is no timer (`ulimit -i` allows none) and waits should be interrupted: how
    /// often. They must not block then.
    pub(crate) fn pause(&self) -> Option<Duration> {
        (self.timer.is_none() && self.period_ns != 0).then(|| Duration::from_nanos(self.period_ns))
    }

    /// What was asked since the last look. The timer goes on as the handler left it:
    /// [`Signals::tick`] is next.
    pub(crate) fn asked(&mut self) -> Asked {
        TICKED.store(0, Ordering::Relaxed);
        let bits = ASKED.swap(0, Ordering::Relaxed);
        if bits == 0 {
            return Asked::default();
        }
        self.period_ns = NAG_NS;
        let came = |signal: &c_int| bits & (1 << signal) != 0;
        Asked { end: [libc::SIGTERM, libc::SIGHUP].into_iter().find(came), continued: came(&libc::SIGCONT) }
    }

    /// Makes waits return every `period_ns`; 0 for never.
    pub(crate) fn tick(&mut self, period_ns: u64) {
        if period_ns == self.period_ns {
            return;
        }
        if let Some(timer) = self.timer {
            arm(timer, period_ns);
        }
        self.period_ns = period_ns;
        if ASKED.load(Ordering::Relaxed) != 0
            && let Some(timer) = self.timer
        {
            // A signal came meanwhile, and its handler's period was just overwritten (SIGNALS-1).
            arm(timer, NAG_NS);
            self.period_ns = NAG_NS;
        }
    }
}

/// Lets a signal through to this thread, whatever mask it was started with; that mask.
fn unblock(signal: c_int) -> Option<libc::sigset_t> {
    // SAFETY: valid structures and a valid signal.
    unsafe {
        let mut one: libc::sigset_t = std::mem::zeroed();
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut one);
        libc::sigaddset(&mut one, signal);
        (libc::pthread_sigmask(libc::SIG_UNBLOCK, &one, &mut mask) == 0).then_some(mask)
    }
}

/// A timer that interrupts this thread; not started yet.
fn timer() -> Option<libc::timer_t> {
    // SAFETY: all structures are valid for the call; the timer is ours and is deleted when `Signals` is
    // dropped.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = tick_signal();
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = ptr::null_mut();
        (libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) == 0).then_some(timer)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        HAS_TIMER.store(0, Ordering::Release);
        // SAFETY: the timer is ours; mask and dispositions are those that `install` found, in the same
        // thread.
        unsafe {
            if let Some(timer) = self.timer {
                libc::timer_delete(timer);
            }
            if let Some(mask) = &self.mask {
                libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
            }
            for (signal, old) in self.old.iter().rev() {
                libc::sigaction(*signal, old, ptr::null_mut());
            }
        }
    }
}

/// Stops this process by `signal` (a stop signal) and returns when it has been continued, or at
/// once where it cannot stop so. The stop is called off where `still` says no, or a SIGCONT comes,
/// after the signal was sent to ourselves.
pub(crate) fn stop_self(signal: c_int, still: impl FnOnce() -> bool) {
    // SAFETY: valid structures and numbers; the thread's mask and the signal's disposition are put
    // back. SIGSTOP can neither be blocked nor ignored: those two calls fail for it and change
    // nothing.
    unsafe {
        let mut one: libc::sigset_t = std::mem::zeroed();
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut one);
        libc::sigaddset(&mut one, signal);
        if signal == libc::SIGSTOP {
            if still() {
                libc::raise(signal);
            }
            return;
        }
        // Blocked, it is pending, and a SIGCONT to us would take it away again.
        libc::pthread_sigmask(libc::SIG_BLOCK, &one, &mut mask);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        if !still() {
            libc::signal(signal, libc::SIG_IGN); // which takes the pending one away
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut());
        libc::signal(signal, libc::SIG_IGN);
    }
}
