//! Memory traces of programs on x86-64 Linux: a reader and a writer of the file, and analyses of
//! it.
//!
//! [`mod@file`] has the reader and the writer of trace files, and a replay of their address spaces.
//! A recorder (`samara-record`) hands every [`event::Event`] to a [`Sink`] such as [`FileSink`].
//! [`summary`] has the totals of a trace. [`survey`] groups the areas of a space. [`why`] explains
//! why they are not merged, and since which call. Nothing here traces a program or queries the
//! running kernel.
//!
//! ```no_run
//! use samara_trace::file::{Replay, TraceReader};
//!
//! // Apply a trace event by event, and print the growth of the first process's space.
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
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod calls;
pub mod event;
pub mod file;
#[cfg(target_os = "linux")]
pub mod output;
pub mod summary;
pub mod survey;
pub mod why;

mod held;
mod refused;
mod sink;
mod spaces;
#[cfg(target_os = "linux")]
mod sync;
mod trace;
mod uapi;

pub use refused::{NotRefused, Refused, RefusedBy};
#[cfg(target_os = "linux")]
pub use sink::{FileSink, Written};
pub use sink::{Sink, SinkError};
pub use trace::{Moment, SpaceAt, SpaceError, Trace};

/// Internal to `samara-record`; not a public interface.
#[doc(hidden)]
pub mod recorder {
    pub use crate::calls::failed_with;
    pub use crate::file::{FRAMES, FUNCTIONS, MAX_FRAMES, NAMES_AT, flags_from, flags_reason, recorded};
}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
