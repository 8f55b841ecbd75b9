//! The trace file: written while a program runs, read and replayed afterwards.
//!
//! The container is an Arrow IPC stream, one row per event, compressed with LZ4. Other tools open
//! it as it is. `book/src/reference/trace-format.md` describes every column. The parts, one file
//! each:
//!
//! - `schema`: the columns and the header (what was recorded, where, when);
//! - `encode`, `message`, [`TraceWriter`]: events to bytes;
//! - `message`, `decode`, [`TraceReader`]: bytes to events; the input is not trusted;
//! - [`Replay`]: events to address spaces; [`MapsLine`]: an area as `/proc/PID/maps` shows it;
//! - [`Stacks`]: the call stacks that events define; `caller`: which frames are the program's own;
//!   `short_places`: short names for their source files, all different;
//! - [`name_text`], [`name_bytes`], [`Printable`]: names as bytes, as UTF-8, and for a person.
//!
//! Knows nothing of ptrace and of what a trace means, and prints nothing. Neighbours:
//! [`FileSink`](crate::FileSink) writes files on its own thread; [`summary`](crate::summary) has
//! totals.
//!
//! Invariants:
//!
//! - **FILE-1** a batch is written to the file in one piece, and the end marker only after every
//!   event. So everything before the first incomplete batch is readable, and a missing marker shows
//!   that the file ends early.
//! - **FILE-2** no length in a file is used before it has been compared with a limit and with the
//!   bytes that are there. Reading takes at most [`MAX_READER_MEMORY`], replaying at most
//!   [`MAX_REPLAY_MEMORY`].
//! - **FILE-3** every message that is written carries a checksum, and a message with a wrong
//!   checksum is refused. A message without one was written by another tool and is read unverified.
//! - **FILE-4** event numbers in a file are 0, 1, 2, ... without a gap.

#![forbid(unsafe_code)]

mod caller;
mod decode;
mod encode;
mod error;
mod maps;
mod message;
mod name_text;
mod names;
mod reader;
mod replay;
mod schema;
mod short_places;
mod stacks;
mod writer;

#[cfg(target_os = "linux")]
pub(crate) use encode::weight;
pub use error::{Fault, FileError};
pub use maps::MapsLine;
pub use name_text::{Printable, name_bytes, name_text};
pub use names::{call_name, flag_words, kind_name, perms_name, reason_name, reasons, step_name};
#[doc(hidden)]
pub use names::{flags_from, flags_reason, recorded};
pub use reader::TraceReader;
pub(crate) use replay::span;
pub use replay::{Place, Process, Replay, ReplayError, Space};
pub use schema::{FORMAT, Header};
#[doc(hidden)]
pub use stacks::{FRAMES, FUNCTIONS, MAX_FRAMES, NAMES_AT};
pub use stacks::{Frame, Function, Module, Stack, StackEnd, StackError, Stacks};
pub use writer::{TraceWriter, WriteError};

/// Most bytes of a batch of a trace file, both as stored and after decompression (256 MiB).
pub const MAX_BATCH_BYTES: u64 = 256 << 20;

/// Most memory that a [`TraceReader`] takes, whatever the file contains. This includes the event
/// that it has just returned (1 GiB).
///
/// It follows from the other limits: a batch as stored and decompressed, or a decompressed batch
/// and one of its events.
pub const MAX_READER_MEMORY: u64 = 1 << 30;

/// Most memory that a [`Replay`] takes before it gives up, whatever the events are (512 MiB).
pub const MAX_REPLAY_MEMORY: u64 = 512 << 20;

/// Most memory that [`Stacks`] take (640 MiB).
pub const MAX_STACKS_MEMORY: u64 = 640 << 20;

/// Most areas of an event (2,097,152); it may have twice as many steps. The writer writes no larger
/// events, because they would exceed its limit of bytes.
pub(crate) const MAX_AREAS: usize = 1 << 21;

/// Most bytes of an area's name, and of its reasons (64 KiB). Linux shows at most 4096.
pub(crate) const MAX_NAME_BYTES: usize = 64 << 10;

/// Most bytes of a message's description (16 MiB). The largest is the header with the program's
/// arguments.
pub(crate) const MAX_META_BYTES: u64 = 16 << 20;
