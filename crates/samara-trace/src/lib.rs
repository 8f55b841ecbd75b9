//! Recording what Linux programs do to their address spaces.
//!
//! [`record`] runs a program under ptrace and hands every [`event::Event`] to a [`Sink`].
#![deny(unsafe_code)]

pub mod event;
pub mod file;

mod api;
mod apply;
mod arch;
mod calls;
mod check;
mod explain;
mod filter;
mod journal;
mod kernel;
mod launch;
mod model;
mod pair;
mod reach;
mod space;
mod sys;
mod tell;
mod tracer;

pub use api::{Counters, Options, Outcome, RecordError, Sink, SinkError};

/// Runs a program to its end and records what it and its children do to their address spaces.
///
/// The program's standard streams, signals, job control and exit status are its own: see [`Outcome::status`]. Recording
/// lasts until the last process that came of it has ended. While it lasts, SIGINT and SIGQUIT are ignored in the calling
/// process (the terminal sends them to the program too), and SIGTERM and SIGHUP are passed on to the program; their former
/// dispositions come back. Call it from one thread at a time; children that other threads made are left alone.
///
/// What a traced program may notice: nobody else can trace it or its children (a debugger in it is refused); set-user-ID programs
/// run without their privileges unless the recorder is root; a child made with `CLONE_UNTRACED` cannot change its space.
///
/// If the recorder is killed, the program is killed with it: its filtered calls could not be answered any more.
///
/// # Errors
/// See [`RecordError`]: in each case the program has not run.
pub fn record(options: &Options, sink: &mut dyn Sink) -> Result<Outcome, RecordError> {
    tracer::run(options, sink)
}
