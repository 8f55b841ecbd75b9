//! Why a trace file cannot be read, or not further. Knows nothing of Arrow.

use std::fmt;
use std::io;

/// Reading stopped: where, after how many events, and why. Every event before it has been handed out.
#[derive(Debug)]
pub struct FileError {
    /// Byte offset in the file of the message that could not be read.
    pub offset: u64,
    /// Events read before it.
    pub events: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a trace file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It does not begin as a trace file does: why.
    NotATrace(String),
    /// It was written by another version of the format: which.
    Format(String),
    /// It stops without the end marker: the recorder was killed, the disk was full, or it is still being written.
    EndsEarly,
    /// Its bytes do not make sense: how.
    Damaged(String),
    /// It claims more than the limits allow: what, how much, and the limit.
    TooLarge(&'static str, u64, u64),
    /// The operating system could not read it.
    Io(io::Error),
}

/// Text out of a file, fit to stand in a message: escaped, and cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    const LIMIT: usize = 60;
    let short: String = text.chars().take(LIMIT).flat_map(char::escape_debug).collect();
    if text.chars().nth(LIMIT).is_none() { short } else { format!("{short}... ({} bytes)", text.len()) }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, events) = (self.offset, self.events);
        match &self.fault {
            Fault::NotATrace(why) => write!(f, "not a trace file (byte {at}): {why}"),
            Fault::Format(found) => {
                write!(
                    f,
                    "trace format {found} cannot be read (byte {at}): this version reads format {}",
                    super::FORMAT
                )
            }
            Fault::EndsEarly => write!(
                f,
                "the file ends early, at byte {at} after {events} events: the recorder was killed, its disk was full, \
                 or it is still writing"
            ),
            Fault::Damaged(what) => {
                write!(f, "the file is damaged at byte {at}: {what}; the {events} events before it are whole")
            }
            Fault::TooLarge(what, size, limit) => write!(
                f,
                "the file is damaged at byte {at}: {what} of {size} bytes, where the limit is {limit}; \
                 the {events} events before it are whole"
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
