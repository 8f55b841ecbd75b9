//! Records what programs on x86-64 Linux do to their address spaces.
//!
//! [`record`] runs a program under ptrace and hands every [`Event`](samara_trace::event::Event) to
//! a [`Sink`]. A model of each address space (`samara_mm`) follows every call and is compared with
//! the kernel. With [`Options::engine`] the model decides what the program's memory calls get.
//! `samara_trace` has a sink that writes a trace file, and all that reads one:
//!
//! ```no_run
//! use samara_record::{Options, record};
//! use samara_trace::FileSink;
//!
//! let options = Options::new("python3").args(["-c", "import json"]);
//! let mut sink = FileSink::create("t.samara", &options.header())?;
//! let outcome = record(&options, &mut sink)?;
//! let written = sink.finish();
//! println!("{:?}, at most {} areas", outcome.status, written.summary.areas_peak);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`again`] makes the calls of a trace once more on the model, under other rules; [`inspect`]
//! reads the areas of a process without tracing it.
#![deny(unsafe_code)]

pub mod again;
pub mod inspect;
pub mod nostop;
pub mod processes;

mod api;
mod arch;
mod budget;
mod header;
mod journal;
mod sync;

mod blame;
mod engine;
mod os;
mod space;
mod stacks;
mod tracer;

pub use api::{
    BadFault, BadSignal, Cause, Counters, Decisions, Engine, Fault, Follow, LetGo, Options, Outcome, Policy,
    RecordError, Refusal, Running, Signal, Status, When,
};

use samara_trace::Sink;

/// Runs a program to its end and records what it and its children do to their address spaces.
///
/// The program keeps its standard streams, signals, job control and exit status: see
/// [`Outcome::status`]. The recording lasts until the last process that descends from the program
/// has ended.
///
/// Signals: during the recording the calling process ignores SIGINT, SIGQUIT, SIGTSTP, SIGTTIN and
/// SIGTTOU, which the terminal sends to the program too. It passes SIGTERM, SIGHUP and SIGCONT on
/// to the program. The former dispositions are restored at the end. If the calling process is a job
/// of a shell and the program stops, the calling process stops too. With [`Options::apart`] nothing
/// of this holds: signals are left to the caller.
///
/// Threads: call this from one thread at a time. Children of other threads are left alone. Children
/// of the calling thread are reaped, but the recording does not wait for them.
///
/// With [`Options::start_on`] and [`Options::stop_on`] a part of the run is recorded: see
/// [`Signal`].
///
/// A traced program may notice that:
///
/// - nobody else can trace it or its children: a debugger in it is refused;
/// - set-user-ID programs, and programs with file capabilities, run without their privileges unless
///   the recorder is root. Notes say so.
///
/// A single task that does little but make calls in quick succession is bound to one processor with
/// the calling thread, which saves the wakeup of another processor at every stop. So are threads
/// that do the same and wait for one another's calls. The binding ends before the program could ask
/// for it, and when the program pauses.
///
/// If the recorder is killed, the kernel kills the program: nobody could answer its filtered calls
/// any more.
///
/// # Errors
/// See [`RecordError`]. The program has not run, except after an error of waiting.
pub fn record(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    tracer::run(options, sink)
}

/// Records what a process that runs already does to its address space, and lets go of it.
///
/// It is let go after [`Running::duration`], or when SIGINT, SIGTERM, SIGHUP or SIGQUIT comes to
/// the calling process (one that was ignored before stays so, except SIGTERM), or by
/// [`Running::let_go`] instead of these signals, or by [`Running::stop_on`]. Otherwise the
/// recording lasts until the process has ended, and the children that it has made meanwhile. The
/// first event ([`Found`](samara_trace::event::EventKind::Found)) has the areas that it has at the
/// beginning, or when [`Running::start_on`] comes.
///
/// The process goes on as if nobody had looked, also if the calling process is killed. Every system
/// call of it stops while it is recorded, because it has no filter that chooses. Recorded are its
/// threads, and the children that it makes from now on, except those that ask not to be traced
/// (CLONE_UNTRACED). What another process does that shares its memory is not seen.
///
/// A thread whose call cannot be interrupted may be let go only when the calling thread ends; a
/// note says so. Signals and threads of the caller: as for [`record`].
///
/// # Errors
/// See [`RecordError`]. The process goes on in any case.
///
/// # Examples
/// ```no_run
/// use samara_record::{Running, attach};
/// let mut running = Running::find(4711)?;
/// running.duration = Some(std::time::Duration::from_secs(10));
/// let mut events = Vec::new();
/// let outcome = attach(&running, &mut events)?;
/// println!("{}: {} events", outcome.status, outcome.counters.events);
/// # Ok::<(), samara_record::RecordError>(())
/// ```
pub fn attach(running: &Running, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    tracer::attach::run(running, sink)
}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
