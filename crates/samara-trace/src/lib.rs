//! Recording what programs on x86-64 Linux do to their address spaces.
//!
//! [`record`] runs a program under ptrace and hands every [`event::Event`] to a [`Sink`].
//! [`mod@file`] has a sink that writes a trace file, and what reads such a file again:
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

mod api;
mod arch;
mod calls;
mod journal;
mod sync;

mod engine;
mod os;
mod space;
mod tracer;

pub use api::{Counters, Options, Outcome, RecordError, Sink, SinkError};
pub use engine::{BadFault, Cause, Decisions, Engine, Fault, Policy, Refusal, When};

/// Runs a program to its end and records what it and its children do to their address spaces.
///
/// The program's standard streams, signals, job control and exit status are its own: see
/// [`Outcome::status`]. Recording lasts until the last process that came of it has ended. While it
/// lasts, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN and SIGTTOU are ignored in the calling process (the
/// terminal sends them to the program too), and SIGTERM, SIGHUP and SIGCONT are passed on to
/// the program; their former dispositions come back. Where the calling process is a shell's job and
/// the program stops, it stops too. Call it from one thread at a time; children that other threads
/// made are left alone, and those of the calling thread are reaped and not waited for.
///
/// What a traced program may notice: nobody else can trace it or its children (a debugger in it is
/// refused); set-user-ID programs and those with file capabilities run without their privileges
/// unless the recorder is root (notes say so). While a single task, or threads that wait for one
/// another's calls, do little but make calls in quick succession, they and the calling thread are
/// bound to one processor, which saves waking the other one at every stop; the binding ends before
/// the program could ask for it, and when it pauses.
///
/// If the recorder is killed, the program is killed with it: its filtered calls could not be
/// answered any more.
///
/// # Errors
/// See [`RecordError`]: except for errors of waiting, the program has not run.
pub fn record(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    tracer::run(options, sink)
}
