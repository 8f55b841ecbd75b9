//! Writes a trace file batch by batch, to any `Write`. Knows nothing of threads, time or paths.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_schema::{ArrowError, SchemaRef};

use super::MAX_BATCH_BYTES;
use super::encode;
use super::message::{self, Encoder};
use super::schema::{Header, schema};
use crate::event::Event;

/// Writes a trace file: the header, batches of events, and the end marker
/// ([`finish`](TraceWriter::finish)).
///
/// Each batch is encoded in memory and written to the output by one `write_all`, followed by a
/// `flush`.
///
/// ```
/// # use samara_trace::file::{Header, TraceReader, TraceWriter};
/// let header = Header::new("true".as_ref(), &[]);
/// let mut file = Vec::new();
/// TraceWriter::new(&mut file, &header)?.finish()?;
/// let reader = TraceReader::new(file.as_slice())?;
/// assert_eq!(reader.header().program, "true");
/// assert_eq!(reader.count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TraceWriter<W: Write> {
    output: W,
    schema: SchemaRef,
    encoder: Encoder,
    events: u64,
    bytes: u64,
}

/// Why events could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The output refused them: the disk is full, for example.
    Io(io::Error),
    /// One event is larger than a batch may be: its number, its size and the limit, in bytes.
    TooLarge(u64, u64, u64),
    /// An event's number does not follow that of the previous event: its number, and the expected
    /// number.
    OutOfOrder(u64, u64),
    /// The events could not be encoded.
    Encode(String),
    /// The file has reached its maximum size, in bytes.
    Limit(u64),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => error.fmt(f),
            WriteError::TooLarge(seq, size, limit) => {
                write!(f, "event {seq} has {size} bytes; a batch of a trace file has at most {limit}")
            }
            WriteError::OutOfOrder(seq, due) => write!(f, "event {seq} came where event {due} was due"),
            WriteError::Limit(bytes) => write!(f, "it has reached its limit of {bytes} bytes"),
            WriteError::Encode(why) => write!(f, "the events could not be encoded: {why}"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> Self {
        WriteError::Encode(error.to_string())
    }
}

impl<W: Write> TraceWriter<W> {
    /// Starts a file: writes the header.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output refuses it.
    pub fn new(output: W, header: &Header) -> Result<Self, WriteError> {
        let schema = Arc::new(schema(header));
        let first = message::schema(&schema)?;
        let mut writer = TraceWriter { output, schema, encoder: Encoder::new()?, events: 0, bytes: 0 };
        writer.hand_over(&first)?;
        Ok(writer)
    }

    /// Writes events as one batch and flushes. Writes several batches if one would be larger than
    /// readers accept.
    ///
    /// # Errors
    /// See [`WriteError`]. Batches that were written before the error are whole in the output
    /// (FILE-1).
    pub fn write(&mut self, events: &[Event]) -> Result<(), WriteError> {
        // Half of the limit leaves room for what `weight` does not count.
        const LIMIT: u64 = MAX_BATCH_BYTES / 2;
        let mut rest = events;
        while !rest.is_empty() {
            let (mut take, mut sum) = (0, 0);
            for event in rest {
                let due = self.events + take as u64;
                if event.seq != due {
                    return Err(WriteError::OutOfOrder(event.seq, due));
                }
                let size = encode::weight(event);
                if size > LIMIT {
                    return Err(WriteError::TooLarge(event.seq, size, LIMIT));
                }
                if sum + size > LIMIT {
                    break;
                }
                sum += size;
                take += 1;
            }
            let (now, later) = rest.split_at(take);
            let message = self.encoder.batch(&encode::batch(&self.schema, now)?)?;
            self.hand_over(&message)?;
            self.events += take as u64;
            rest = later;
        }
        Ok(())
    }

    /// Writes the end marker. Nothing can be written after it.
    ///
    /// # Errors
    /// [`WriteError::Io`] if the output refuses it. The file then ends early.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        Ok(self.hand_over(&message::END)?)
    }

    /// Number of events that are whole in the output.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Number of bytes of whole batches in the output.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The output.
    pub fn output(&mut self) -> &mut W {
        &mut self.output
    }

    fn hand_over(&mut self, message: &[u8]) -> io::Result<()> {
        self.output.write_all(message)?;
        self.output.flush()?;
        self.bytes += message.len() as u64;
        Ok(())
    }
}

impl<W: Write> fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceWriter").field("events", &self.events).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
