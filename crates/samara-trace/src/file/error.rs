//! Errors of reading a trace file. Knows nothing of Arrow.

use std::fmt;
use std::io;

use super::name_text::Printable;

/// Reading stopped: where, after how many events, and why. All events before that have been
/// returned.
#[derive(Debug)]
pub struct FileError {
    /// Byte offset in the file of the message that could not be read.
    pub offset: u64,
    /// Number of events read before it.
    pub events: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a trace file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It does not begin like a trace file; says why.
    NotATrace(String),
    /// It was written in another version of the format; says which.
    Format(String),
    /// It has no end marker: the recorder was killed, the disk was full, or the file is still being
    /// written.
    EndsEarly,
    /// Its content is invalid; says how.
    Damaged(String),
    /// It exceeds a limit of the reader: of what, how much, and the limit.
    TooLarge(&'static str, u64, u64),
    /// The operating system reported an error.
    Io(io::Error),
}

/// Text from a file, made safe for a message: escaped, and cut if it is long.
pub(crate) fn shown(text: &str) -> String {
    const LIMIT: usize = 60;
    match text.char_indices().nth(LIMIT) {
        None => Printable(text).to_string(),
        Some((end, _)) => format!("{}... ({} bytes)", Printable(&text[..end]), text.len()),
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, events) = (self.offset, self.events);
        match &self.fault {
            Fault::NotATrace(why) => write!(f, "not a trace file (byte {at}): {why}"),
            Fault::Format(found) => {
                write!(
                    f,
                    "trace format {found} cannot be read (byte {at}): this samara reads format {}; use the version that recorded it",
                    super::FORMAT
                )
            }
            Fault::EndsEarly => write!(
                f,
                "the file ends early, at byte {at} after {events} events: the recorder was killed, its disk was full, \
                 --max-size was reached, or it is still writing"
            ),
            Fault::Damaged(what) => {
                write!(f, "the file is damaged at byte {at}: {what}; the {events} events before it are whole")
            }
            Fault::TooLarge(what, size, limit) => write!(
                f,
                "the file exceeds a limit at byte {at}: {size} {what}, of at most {limit}; the {events} events before it are \
                 whole. Samara never records that much: record again, or use another reader of Arrow"
            ),
            Fault::Io(error) => write!(f, "reading failed at byte {at} after {events} events: {error}"),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Io(error) => Some(error),
            _ => None,
        }
    }
}
