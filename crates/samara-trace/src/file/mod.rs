//! The trace file: written while a program runs, read afterwards, replayed.
//!
//! The container is an Arrow IPC stream, one row an event, compressed with LZ4: other people's
//! tools open it as it is. `docs/trace-format.md` describes every column. The parts, each in its
//! own file:
//!
//! - `schema`: the columns and the header (what was recorded, where, when);
//! - `encode`, `frame`, [`TraceWriter`]: events to bytes; [`FileSink`] does it on a thread of its
//!   own;
//! - `message`, `decode`, [`TraceReader`]: bytes to events, trusting nothing;
//! - [`Replay`]: events to address spaces; [`MapsLine`]: an area as `/proc/PID/maps` shows it;
//! - [`Tally`], [`Summary`]: events to totals;
//! - [`name_text`], [`name_bytes`], [`Printable`]: names to the byte, and for a person.
//!
//! It knows nothing of ptrace and prints nothing.
//!
//! Invariants:
//!
//! - **FILE-1** a batch reaches the file in one piece, and the end marker only after every event:
//!   what stands before the first incomplete batch is readable, and a file without the marker is
//!   known to end early.
//! - **FILE-2** no length from a file is believed before it has been compared with a limit and with
//!   the bytes that are there: reading takes at most [`MAX_READER_MEMORY`], replaying at most
//!   [`MAX_REPLAY_MEMORY`].
//! - **FILE-3** every message carries a checksum, and none is believed whose checksum is wrong.
//! - **FILE-4** event numbers in a file are 0, 1, 2, ... without a gap.

#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
mod frame;
mod groups;
mod maps;
mod message;
mod names;
mod older;
mod reader;
mod replay;
mod schema;
mod sink;
mod summary;
mod text;
mod timeline;
mod writer;

pub use error::{Fault, FileError};
pub use groups::Group;
pub use maps::MapsLine;
pub use names::{call_name, kind_name, reasons, step_name};
pub use reader::TraceReader;
pub use replay::{Process, Replay, ReplayError, Space};
pub use schema::{FORMAT, Header};
pub use sink::{FileSink, Written};
pub use summary::{CallTotals, Summary, Tally};
pub use text::{Printable, name_bytes, name_text};
pub use timeline::Timeline;
pub use writer::{TraceWriter, WriteError};

/// Most bytes that one batch of a trace file may have, as stored and after decompression (256 MiB).
pub const MAX_BATCH_BYTES: u64 = 256 << 20;

/// Most memory that a [`TraceReader`] takes, whatever is in the file, the event that it has just
/// handed out included (1 GiB).
///
/// It follows from the other limits: a batch as stored and decompressed, or a batch decompressed
/// and an event of it.
pub const MAX_READER_MEMORY: u64 = 1 << 30;

/// Most memory that a [`Replay`] takes before it gives up, whatever the events are (512 MiB).
pub const MAX_REPLAY_MEMORY: u64 = 512 << 20;

/// Most areas that an event may have (2,097,152), and twice as many steps. The writer makes no
/// larger ones: they would be too heavy.
pub(crate) const MAX_AREAS: usize = 1 << 21;

/// Most bytes of an area's name, and of its reasons (64 KiB). Linux shows 4096 at most.
pub(crate) const MAX_NAME_BYTES: usize = 64 << 10;

/// Most bytes of description before a batch (16 MiB). The header with the program's arguments is
/// the largest.
pub(crate) const MAX_META_BYTES: u64 = 16 << 20;
