//! Arrow IPC framing: reads one message after the other, with limits. Knows nothing of columns.
//!
//! A message is the marker `ff ff ff ff`, the length of its description (4 bytes, little endian),
//! the description (a flatbuffer), and its body, whose length is in the description. A length of 0
//! is the end marker. Buffers grow with the bytes that arrive, not by the length that is claimed
//! (FILE-2).

use std::io::{self, Read};

use arrow_ipc::{Message, root_as_message_with_opts};
use flatbuffers::VerifierOptions;

use super::{Fault, MAX_BATCH_BYTES, MAX_META_BYTES, frame};

/// Reads messages. The bytes of the last one stay until the next is read.
#[derive(Debug)]
pub(crate) struct Messages<R> {
    input: R,
    /// Offset of the last message.
    pub(crate) start: u64,
    offset: u64,
    meta: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What comes next in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Message,
    EndMarker,
}

impl<R: Read> Messages<R> {
    pub(crate) fn new(input: R) -> Self {
        Messages { input, start: 0, offset: 0, meta: Vec::new(), body: Vec::new() }
    }

    /// Reads the next message whole, into `self`.
    pub(crate) fn next(&mut self) -> Result<Next, Fault> {
        self.start = self.offset;
        let mut head = [0; 8];
        self.fill(&mut head)?;
        let [a, b, c, d, length @ ..] = head;
        if [a, b, c, d] != frame::END[..4] {
            if self.start == 0 {
                return Err(not_arrow());
            }
            return Err(Fault::Damaged("no message starts here".into()));
        }
        let length = u64::from(u32::from_le_bytes(length));
        if length == 0 {
            return Ok(Next::EndMarker);
        }
        if length % 8 != 0 {
            return Err(Fault::Damaged(format!("a message's description of {length} bytes")));
        }
        if length > MAX_META_BYTES {
            return Err(Fault::TooLarge("bytes of a message's description", length, MAX_META_BYTES));
        }
        let mut meta = std::mem::take(&mut self.meta);
        let read = self.take(length, &mut meta);
        self.meta = meta;
        read?;
        let body_length = parse(&self.meta)?.bodyLength();
        let length = u64::try_from(body_length).ok().filter(|length| length % 8 == 0);
        let length = length.ok_or_else(|| Fault::Damaged(format!("a message's body of {body_length} bytes")))?;
        if length > MAX_BATCH_BYTES {
            return Err(Fault::TooLarge("bytes of a batch", length, MAX_BATCH_BYTES));
        }
        let mut body = std::mem::take(&mut self.body);
        let read = self.take(length, &mut body);
        self.body = body;
        read?;
        if !frame::verify(&self.meta, &self.message()?, &self.body) {
            return Err(Fault::Damaged("a message's checksum is wrong".into()));
        }
        Ok(Next::Message)
    }

    /// The description of the last message.
    pub(crate) fn message(&self) -> Result<Message<'_>, Fault> {
        parse(&self.meta)
    }

    fn fill(&mut self, head: &mut [u8; 8]) -> Result<(), Fault> {
        let mut got = 0;
        while got < head.len() {
            match self.input.read(&mut head[got..]) {
                // The recorder was killed, perhaps before it wrote anything.
                Ok(0) if self.offset > 0 || frame::END[..4].starts_with(&head[..got.min(4)]) => {
                    return Err(Fault::EndsEarly);
                }
                Ok(0) => return Err(not_arrow()),
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Io(error)),
            }
        }
        self.offset += got as u64;
        Ok(())
    }

    fn take(&mut self, length: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        into.clear();
        let length = length as usize; // at most one of the limits
        while into.len() < length {
            // As many as have come, at least `STEP`, and no more than are due.
            let step = into.len().max(STEP).min(length - into.len());
            into.try_reserve_exact(step).map_err(|_| Fault::Io(io::ErrorKind::OutOfMemory.into()))?;
            let got = (&mut self.input).take(step as u64).read_to_end(into).map_err(Fault::Io)?;
            self.offset += got as u64;
            if got < step {
                return Err(Fault::EndsEarly);
            }
        }
        Ok(())
    }

    /// Frees a large body once the batch has been decoded and its bytes are no longer needed.
    pub(crate) fn forget_body(&mut self) {
        if self.body.capacity() > STEP {
            self.body = Vec::new();
        }
    }
}

fn not_arrow() -> Fault {
    Fault::NotATrace("samara did not write it: give a file made by samara trace".into())
}

/// Bytes to allocate before any byte has come.
const STEP: usize = 1 << 20;

/// Parses and verifies a description. Every offset in it points inside it. Data that several
/// offsets point to counts each time, and the sum is at most twice the limit of bytes.
fn parse(meta: &[u8]) -> Result<Message<'_>, Fault> {
    let limits = VerifierOptions {
        max_tables: 10_000,
        max_apparent_size: 2 * MAX_META_BYTES as usize,
        ..VerifierOptions::default()
    };
    root_as_message_with_opts(&limits, meta)
        .map_err(|error| Fault::Damaged(format!("a message's description is invalid: {error}")))
}
