//! Records what programs on x86-64 Linux do to their address spaces.
//!
//! [`record`] runs a program under ptrace and hands every [`Event`](samara_trace::event::Event) to
//! a [`Sink`]. A model of each address space (`samara_mm`) follows every call and is compared with
//! the kernel. With [`Options::engine`] the model decides the results of the program's memory
//! calls. `samara_trace` has a sink that writes a trace file, and readers of trace files:
//!
//! ```no_run
//! use samara_record::{Options, record};
//! use samara_trace::FileSink;
//!
//! let options = Options::new("python3").args(["-c", "import json"]);
//! let mut sink = FileSink::create("t.samara", &options.header())?;
//! let outcome = record(&options, &mut sink)?;
//! let written = sink.finish();
//! println!("{:?}, at most {} areas", outcome.status, outcome.counters.areas_peak);
//! println!("{} events in {} bytes", written.events, written.bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`rerun`] makes the calls of a trace once more on the model, under other rules; [`inspect`]
//! reads the areas of a process without tracing it.
#![deny(unsafe_code)]

pub mod inspect;
pub mod nostop;
pub mod processes;
pub mod rerun;

mod api;
mod arch;
mod header;
mod journal;
mod reading_time;

mod call_refused;
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
/// of a shell and the program stops, the calling process stops too. With [`Options::apart`] the
/// recorder changes no signals: they are left to the caller.
///
/// Threads: call this from one thread at a time. Children of other threads are left alone. Children
/// of the calling thread are reaped, but the recording does not wait for them.
///
/// With [`Options::start_on`] and [`Options::stop_on`] a part of the run is recorded: see
/// [`Signal`].
///
/// A traced program may notice that:
///
/// - no other process can trace it or its children: a debugger in it is refused;
/// - set-user-ID programs, and programs with file capabilities, run without their privileges unless
///   the recorder is root. Notes say so.
///
/// A single task that makes calls in quick succession and does little else is bound to one
/// processor with the calling thread. That saves the wakeup of another processor at every stop.
/// Threads that do the same and wait for one another's calls are bound too. The binding ends when
/// the program pauses, and before the program can query it.
///
/// If the recorder is killed, the kernel kills the program, because its filtered calls would get no
/// answer.
///
/// # Errors
/// See [`RecordError`]. The program has not run, except after an error of waiting.
pub fn record(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    tracer::run(options, sink)
}

/// Records what a running process does to its address space, then releases it.
///
/// The process is released after [`Running::duration`], by [`Running::stop_on`], or when the
/// calling process gets SIGINT, SIGTERM, SIGHUP or SIGQUIT (a signal that was ignored before stays
/// ignored, except SIGTERM). [`Running::let_go`] replaces these signals. Otherwise the recording
/// lasts until the process and the children that it made meanwhile have ended. The first event
/// ([`Found`](samara_trace::event::EventKind::Found)) has the areas at the beginning, or at
/// [`Running::start_on`].
///
/// The process goes on afterwards as if it had not been traced, also if the calling process is
/// killed. While it is recorded, each of its system calls stops, because no filter can be
/// installed. Its threads are recorded, and the children that it makes from now on, except those
/// that ask not to be traced (CLONE_UNTRACED). Calls of another process that shares its memory are
/// not seen.
///
/// A thread whose call cannot be interrupted may be released only when the calling thread ends. A
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
