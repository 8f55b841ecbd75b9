//! Reads events from a trace file and trusts nothing in it. Knows nothing of how columns are
//! encoded.

use std::io::Read;
use std::sync::Arc;

use arrow_ipc::{Field, Type};
use arrow_schema::DataType;

use super::decode::Batch;
use super::error::{Fault, FileError, shown};
use super::message::{Messages, Next};
use super::schema::{FORMAT_KEY, Header, columns, count_of};
use crate::event::Event;

/// Reads a trace file, event by event.
///
/// It is an iterator over the events of all whole batches, in order. Then it ends, or returns one
/// error that says where and why the file cannot be read further; after that error it ends. A file
/// without its end marker gives [`Fault::EndsEarly`].
///
/// Memory: one batch, which has at most [`MAX_BATCH_BYTES`](super::MAX_BATCH_BYTES) compressed and
/// as many uncompressed; with the event that it returns, at most
/// [`MAX_READER_MEMORY`](super::MAX_READER_MEMORY). It reads large pieces, so the input needs no
/// buffer.
///
/// ```no_run
/// # use samara_trace::file::{Replay, TraceReader};
/// let mut replay = Replay::default();
/// for event in TraceReader::new(std::fs::File::open("t.samara")?)? {
///     replay.apply(&event?)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TraceReader<R> {
    messages: Messages<R>,
    header: Header,
    /// Number of columns.
    columns: usize,
    batch: Batch,
    row: usize,
    events: u64,
    /// Whether the end, or an error, has been returned.
    over: bool,
    complete: bool,
    /// Whether the input may continue after the trace.
    goes_on: bool,
}

impl<R: Read> TraceReader<R> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file is not a trace file, has another version of the format, or its header is damaged.
    /// A file that ends within its header, an empty one too, gives [`Fault::EndsEarly`]: its
    /// recorder was killed before it had written the header.
    pub fn new(input: R) -> Result<Self, FileError> {
        let mut messages = Messages::new(input);
        let (header, columns) =
            read_header(&mut messages).map_err(|fault| FileError { offset: 0, events: 0, fault })?;
        let batch = Batch::default();
        let (over, complete, goes_on) = (false, false, false);
        Ok(TraceReader { messages, header, columns, batch, row: 0, events: 0, over, complete, goes_on })
    }

    /// Reads nothing behind the end marker, for an input that continues or waits there. Without
    /// this, the input must end there, so that joined files are not mistaken for the first of them.
    #[must_use]
    pub fn within(mut self) -> Self {
        self.goes_on = true;
        self
    }

    /// What was recorded, where and when.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the end marker was read: the recording ended well, and every event has been
    /// returned.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Number of events returned so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn advance(&mut self) -> Result<Option<Event>, Fault> {
        while self.row == self.batch.rows() {
            if self.messages.next()? == Next::EndMarker {
                if !self.goes_on {
                    self.messages.ends()?;
                }
                self.complete = true;
                return Ok(None);
            }
            let message = self.messages.message()?;
            let batch = message
                .header_as_record_batch()
                .ok_or_else(|| Fault::Damaged("a message that is no batch of events".into()))?;
            // Frees the former batch first, so that only one is in memory.
            (self.batch, self.row) = (Batch::default(), 0);
            self.batch = Batch::decode(batch, &self.messages.body, self.events, self.columns)?;
            self.messages.forget_body();
        }
        let event = self.batch.event(self.row);
        self.row += 1;
        self.events += 1;
        Ok(Some(event))
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Event, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance();
        self.over = !matches!(next, Ok(Some(_)));
        let (offset, events) = (self.messages.start, self.events);
        next.map_err(|fault| FileError { offset, events, fault }).transpose()
    }
}

fn read_header<R: Read>(messages: &mut Messages<R>) -> Result<(Header, usize), Fault> {
    let not = |why: &str| Fault::NotATrace(why.to_owned());
    match messages.next() {
        Ok(Next::Message) => {}
        Ok(Next::EndMarker) => return Err(not("it has no header")),
        Err(other) => return Err(other),
    }
    let message = messages.message()?;
    let schema = message.header_as_schema().ok_or_else(|| not("it does not begin with a schema"))?;
    if schema.endianness() != arrow_ipc::Endianness::Little {
        return Err(not("its numbers are not little endian"));
    }
    // The version comes first: another version may have other columns.
    let find = |key: &str| schema.custom_metadata()?.iter().find(|entry| entry.key() == Some(key))?.value();
    let header = Header::read(find)?;
    let count = find(FORMAT_KEY).and_then(count_of).unwrap_or_default();
    columns_match(schema, count)?;
    Ok((header, count))
}

/// Checks that a schema has this format's columns. It is read in place: nothing is allocated by
/// what a file claims.
fn columns_match(schema: arrow_ipc::Schema<'_>, count: usize) -> Result<(), Fault> {
    let mut expected = columns();
    expected.truncate(count);
    let found: Vec<_> = schema.fields().into_iter().flatten().take(expected.len() + 1).collect();
    for (i, field) in expected.iter().enumerate() {
        match found.get(i) {
            Some(found) if found.name() == Some(field.name()) && is(found, field.data_type()) => {}
            Some(found) => {
                return Err(Fault::NotATrace(format!(
                    "column {i} is `{}` ({}), where `{}` ({}) is due",
                    shown(found.name().unwrap_or_default()),
                    found.type_type().variant_name().unwrap_or("unknown"),
                    field.name(),
                    field.data_type()
                )));
            }
            None => return Err(Fault::NotATrace(format!("the column `{}` is missing", field.name()))),
        }
    }
    if found.len() > expected.len() {
        return Err(Fault::NotATrace("it has columns that this format does not have".into()));
    }
    Ok(())
}

/// Whether a column has this type, including its fields.
fn is(found: &Field<'_>, expected: &DataType) -> bool {
    let number =
        |bits, signed| found.type_as_int().is_some_and(|int| (int.bitWidth(), int.is_signed()) == (bits, signed));
    let fields = |expected: &[Arc<arrow_schema::Field>]| {
        let Some(children) = found.children().filter(|children| children.len() == expected.len()) else { return false };
        children.iter().zip(expected).all(|(found, expected)| is(&found, expected.data_type()))
    };
    let named = |expected: &[Arc<arrow_schema::Field>]| {
        found.children().into_iter().flatten().zip(expected).all(|(found, e)| found.name() == Some(e.name()))
    };
    found.dictionary().is_none()
        && match expected {
            DataType::UInt64 => number(64, false),
            DataType::UInt32 => number(32, false),
            DataType::Int64 => number(64, true),
            DataType::Boolean => found.type_type() == Type::Bool,
            DataType::Utf8 => found.type_type() == Type::Utf8,
            // Other tools give the only field of a list another name.
            DataType::List(item) => found.type_type() == Type::List && fields(std::slice::from_ref(item)),
            DataType::Struct(inner) => found.type_type() == Type::Struct_ && fields(inner) && named(inner),
            _ => false,
        }
}
