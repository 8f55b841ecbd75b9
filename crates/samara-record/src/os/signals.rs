//! The recorder's own signals while it records: requests to end, the timer that interrupts waits,
//! and the recorder's own stop as a job of a shell.
//!
//! - **SIGNALS-1** no signal is lost between a call of [`Signals::asked`] and the wait that
//!   follows: the handler starts the timer, which interrupts waits until the next call of `asked`.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Interval at which waits are interrupted while a signal has not been handled, in nanoseconds.
const NAG_NS: u64 = 5_000_000;

/// Longest time between interruptions of waits of an attached recorder, in nanoseconds. It must let
/// go of the process in time.
const PULSE_NS: u64 = 20_000_000;

/// Signals that came, one bit each (all are below 32). Relaxed: lone flags that guard no other
/// data.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// Whether the timer has fired since the last check. Relaxed: it guards no other data.
static TICKED: AtomicI32 = AtomicI32::new(0);
/// Whether the timer must end the present ptrace request. Relaxed: the handler runs on the thread
/// that stores it.
static ENDS: AtomicI32 = AtomicI32::new(0);
/// The timer, for the handler.
static TIMER: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());
/// Whether [`TIMER`] holds a timer, whose id may be 0. The Release store in `install` pairs with
/// the Acquire load in `on_ask`: a handler that sees 1 sees the timer.
static HAS_TIMER: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_ask(signal: c_int) {
    ASKED.fetch_or(1 << signal, Ordering::Relaxed);
    if HAS_TIMER.load(Ordering::Acquire) != 0 {
        arm(TIMER.load(Ordering::Relaxed), NAG_NS);
    }
}

extern "C" fn on_tick(_: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    TICKED.store(1, Ordering::Relaxed);
    if ENDS.load(Ordering::Relaxed) != 0 {
        // SAFETY: the kernel passes a ucontext_t to a handler with SA_SIGINFO.
        unsafe { end_request(&mut *context.cast::<libc::ucontext_t>()) };
    }
}

/// Makes a ptrace request that may wait for another task. The timer ends it, with EINTR.
/// PTRACE_SEIZE waits while the process loads a program (ptrace(2), BUGS), and the kernel restarts
/// it after every signal.
pub(crate) fn ending<T>(request: impl FnOnce() -> T) -> T {
    ENDS.store(1, Ordering::Relaxed);
    let done = request();
    ENDS.store(0, Ordering::Relaxed);
    done
}

/// Makes the interrupted thread skip the ptrace request that it is about to make, as if the request
/// had failed with EINTR.
///
/// # Safety
/// The context is that of an interrupted thread.
unsafe fn end_request(context: &mut libc::ucontext_t) {
    /// The instruction `syscall`.
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let registers = &mut context.uc_mcontext.gregs;
    let (at, number) = (libc::REG_RIP as usize, libc::REG_RAX as usize);
    // SAFETY: the thread was about to execute the bytes there. A one-byte instruction may end a
    // page, so the number is checked first: it shows that a call is next.
    if registers[number] == libc::SYS_ptrace && unsafe { *(registers[at] as *const [u8; 2]) } == SYSCALL {
        registers[at] += SYSCALL.len() as i64;
        registers[number] = -i64::from(libc::EINTR);
    }
}

/// Sets the timer's period; 0 stops it. Async-signal-safe.
fn arm(timer: libc::timer_t, period_ns: u64) {
    let every = libc::timespec { tv_sec: 0, tv_nsec: period_ns.min(999_999_999) as i64 };
    let spec = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the timer is ours, `timer_settime` is async-signal-safe and reports a wrong timer
    // only as an error, and errno is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::timer_settime(timer, 0, &spec, ptr::null_mut());
        *libc::__errno_location() = errno;
    }
}

/// The signal that the timer sends to the recording thread, to interrupt a wait.
fn tick_signal() -> c_int {
    libc::SIGRTMAX() - 1
}

/// Requests to the recorder since the last check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    /// A signal that asks the recorder to end: SIGTERM or SIGHUP; when attached also SIGINT or
    /// SIGQUIT.
    pub(crate) end: Option<c_int>,
    /// Whether the recorder was continued (SIGCONT).
    pub(crate) continued: bool,
    /// All signals that came, one bit each.
    bits: i32,
}

impl Requests {
    /// Whether this signal arrived. [`Signals::install`] must have been told to handle it.
    pub(crate) fn has(&self, signal: c_int) -> bool {
        self.bits & (1 << signal) != 0
    }
}

/// The recorder's signal dispositions during the recording. Dropping it restores the former ones.
pub(crate) struct Signals {
    old: Vec<(c_int, libc::sigaction)>,
    /// The thread's former mask. The timer's signal and the handled ones must not be blocked.
    mask: Option<libc::sigset_t>,
    timer: Option<libc::timer_t>,
    period_ns: u64,
    /// The timer's longest period; 0: unlimited.
    pulse_ns: u64,
}

impl Signals {
    /// Ignores SIGINT, SIGQUIT and the terminal's stop signals, which are for the program. The
    /// recorder stops after the program has (see [`stop_self`]). Collects SIGTERM, SIGHUP and
    /// SIGCONT for [`Signals::asked`].
    ///
    /// `attached`: the recorder was not started with the program, and the terminal's signals are
    /// for the recorder. SIGINT and SIGQUIT ask it to end, unless they were ignored before (as
    /// SIGHUP is under `nohup`). The stop signals stay ignored, because a stopped recorder would
    /// stop the program too. Waits are interrupted at least every [`PULSE_NS`].
    ///
    /// `left`: signals are left to the caller, except the stop signals of an attached recorder.
    ///
    /// `taken`: further signals, below 32, that are always collected for [`Signals::asked`].
    pub(crate) fn install(attached: bool, left: bool, taken: &[c_int]) -> Signals {
        ASKED.store(0, Ordering::Relaxed);
        TICKED.store(0, Ordering::Relaxed);
        let mut signals = Signals { old: Vec::new(), mask: None, timer: None, period_ns: 0, pulse_ns: 0 };
        let tick: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_tick;
        signals.set_with(tick_signal(), tick as libc::sighandler_t, libc::SA_SIGINFO);
        signals.timer = timer();
        if let Some(timer) = signals.timer {
            TIMER.store(timer, Ordering::Relaxed);
            HAS_TIMER.store(1, Ordering::Release);
        }
        let ask: extern "C" fn(c_int) = on_ask;
        let ask = ask as libc::sighandler_t;
        for signal in taken {
            signals.set(*signal, ask);
        }
        // A pending signal now reaches its handler.
        signals.mask = unblock(taken.iter().copied().chain([tick_signal()]));
        if attached || !left {
            for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
                signals.set(signal, libc::SIG_IGN);
            }
        }
        if !left {
            for signal in [libc::SIGINT, libc::SIGQUIT] {
                signals.set(signal, if attached { ask } else { libc::SIG_IGN });
            }
            for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGCONT] {
                signals.set(signal, ask);
            }
        }
        if attached {
            signals.keep_ignored(&[libc::SIGINT, libc::SIGQUIT, libc::SIGHUP]);
            signals.pulse_ns = PULSE_NS;
            signals.tick(PULSE_NS);
        }
        signals
    }

    fn set(&mut self, signal: c_int, handler: libc::sighandler_t) {
        self.set_with(signal, handler, 0);
    }

    fn set_with(&mut self, signal: c_int, handler: libc::sighandler_t, flags: c_int) {
        // SAFETY: both structures are valid, and the handlers are async-signal-safe. (Without
        // SA_RESTART a signal interrupts a wait.)
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            let mut old: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = handler;
            new.sa_flags = flags;
            if libc::sigaction(signal, &new, &mut old) == 0 {
                self.old.push((signal, old));
            }
        }
    }

    /// Restores "ignored" for those of these signals that were ignored before.
    fn keep_ignored(&mut self, signals: &[c_int]) {
        let ignored = |(signal, old): &(c_int, libc::sigaction)| {
            (signals.contains(signal) && old.sa_sigaction == libc::SIG_IGN).then_some(*signal)
        };
        let kept: Vec<c_int> = self.old.iter().filter_map(ignored).collect();
        kept.into_iter().for_each(|signal| self.set(signal, libc::SIG_IGN));
    }

    /// Whether a signal came, or the timer fired, since the last call of [`Signals::asked`].
    pub(crate) fn waiting(&self) -> bool {
        ASKED.load(Ordering::Relaxed) != 0 || TICKED.load(Ordering::Relaxed) != 0
    }

    /// The interval at which to poll instead of blocking in a wait, if waits must be interrupted
    /// and there is no timer (`ulimit -i` allows none).
    pub(crate) fn pause(&self) -> Option<Duration> {
        (self.timer.is_none() && self.period_ns != 0).then(|| Duration::from_nanos(self.period_ns))
    }

    /// Returns the requests since the last check. The timer keeps the handler's period: call
    /// [`Signals::tick`] next.
    pub(crate) fn asked(&mut self) -> Requests {
        TICKED.store(0, Ordering::Relaxed);
        let bits = ASKED.swap(0, Ordering::Relaxed);
        if bits == 0 {
            return Requests::default();
        }
        self.period_ns = NAG_NS;
        let came = |signal: &c_int| bits & (1 << signal) != 0;
        let ends = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];
        Requests { end: ends.into_iter().find(came), continued: came(&libc::SIGCONT), bits }
    }

    /// Interrupts waits every `period_ns`; 0: never, or only by the pulse.
    pub(crate) fn tick(&mut self, period_ns: u64) {
        let period_ns = match (period_ns, self.pulse_ns) {
            (period, 0) => period,
            (0, pulse) => pulse,
            (period, pulse) => period.min(pulse),
        };
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

/// Unblocks signals in this thread, and returns the former mask.
fn unblock(signals: impl Iterator<Item = c_int>) -> Option<libc::sigset_t> {
    // SAFETY: both sets are valid structures to write to, and all signals are valid ones.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut all);
        for signal in signals {
            libc::sigaddset(&mut all, signal);
        }
        (libc::pthread_sigmask(libc::SIG_UNBLOCK, &all, &mut mask) == 0).then_some(mask)
    }
}

/// Creates a timer that interrupts this thread. It is not started.
fn timer() -> Option<libc::timer_t> {
    // SAFETY: all structures are valid for the call, and the timer is deleted when `Signals` is
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
        // SAFETY: the timer is ours, and the mask is the one that `install` found, in the same
        // thread.
        unsafe {
            if let Some(timer) = self.timer {
                libc::timer_delete(timer);
            }
            if let Some(mask) = &self.mask {
                libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
            }
        }
        restore(&self.old);
    }
}

/// Restores the dispositions of signals, in reverse order.
fn restore(all: &[(c_int, libc::sigaction)]) {
    for (signal, old) in all.iter().rev() {
        // SAFETY: `old` is the kernel's former disposition of this signal in this process.
        unsafe { libc::sigaction(*signal, old, ptr::null_mut()) };
    }
}

/// Stops this process with `signal` (a stop signal). Returns when it has been continued, or at once
/// if it cannot stop.
///
/// The stop is cancelled if `still` returns false, which is called after the signal was sent (for
/// SIGSTOP: before), or if a SIGCONT comes meanwhile.
pub(crate) fn stop_self(signal: c_int, still: impl FnOnce() -> bool) {
    // SAFETY: all structures are valid and the other arguments are numbers; the thread's mask is
    // restored and the signal is ignored again, as `install` left it. (SIGSTOP can be neither
    // blocked nor ignored, so it takes the short path.)
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
        // While the signal is blocked it is pending, and a SIGCONT to this process discards it.
        libc::pthread_sigmask(libc::SIG_BLOCK, &one, &mut mask);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        if !still() {
            libc::signal(signal, libc::SIG_IGN); // discards the pending one
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, ptr::null_mut());
        libc::signal(signal, libc::SIG_IGN);
    }
}
