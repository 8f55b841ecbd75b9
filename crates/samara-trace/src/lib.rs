//! Records what programs on x86-64 Linux do to their address spaces.
//!
//! [`record`] runs a program under ptrace and hands every [`event::Event`] to a [`Sink`]. A model
//! of each address space (`samara_mm`) follows every call and is compared with the kernel. With
//! [`Options::engine`] the model decides what the program's memory calls get. [`mod@file`] has a
//! sink that writes a trace file, a reader for that file, and a replay of its address spaces:
//!
//! ```no_run
//! use samara_trace::file::{FileSink, Header, Replay, TraceReader};
//! use samara_trace::{Options, record};
//!
//! // Record a program.
//! let options = Options::new("python3").args(["-c", "import json"]);
//! let mut sink = FileSink::create("t.samara", &Header::now(&options.program, &options.args))?;
//! let outcome = record(&options, &mut sink)?;
//! let written = sink.finish();
//! println!("{:?}, at most {} areas", outcome.status, written.summary.areas_peak);
//!
//! // Move its spaces on, event by event, and see how the first process's grows.
//! let (mut replay, mut first) = (Replay::default(), None);
//! for event in TraceReader::new(std::fs::File::open("t.samara")?)? {
//!     let event = event?;
//!     replay.apply(&event)?;
//!     if let Some(space) = replay.space_of(*first.get_or_insert(event.pid)) {
//!         println!("{} ns: {} areas, {} bytes", event.exit_ns, space.len(), space.bytes());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod event;
pub mod file;
pub mod inspect;
pub mod survey;
pub mod why;

mod api;
mod arch;
#[doc(hidden)]
pub mod calls;
mod journal;
mod sync;

mod engine;
mod os;
mod space;
mod stacks;
mod tracer;

pub use api::{Counters, Options, Outcome, RecordError, Sink, SinkError};
pub use engine::{BadFault, Cause, Decisions, Engine, Fault, Policy, Refusal, When};

/// Runs a program to its end and records what it and its children do to their address spaces.
///
/// The program keeps its standard streams, signals, job control and exit status: see
/// [`Outcome::status`]. The recording lasts until the last process that descends from the program
/// has ended.
///
/// Signals: during the recording the calling process ignores SIGINT, SIGQUIT, SIGTSTP, SIGTTIN and
/// SIGTTOU, which the terminal sends to the program too. It passes SIGTERM, SIGHUP and SIGCONT on
/// to the program. The former dispositions are restored at the end. If the calling process is a job
/// of a shell and the program stops, the calling process stops too.
///
/// Threads: call this from one thread at a time. Children of other threads are left alone. Children
/// of the calling thread are reaped, but the recording does not wait for them.
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

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
