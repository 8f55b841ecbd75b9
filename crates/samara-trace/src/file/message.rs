//! Messages of an Arrow IPC stream: reads one after the other, with limits, and writes them, each
//! with a checksum. Knows nothing of columns and events.
//!
//! A message is the marker `ff ff ff ff`, the length of its description (4 bytes, little endian),
//! the description (a flatbuffer), and its body, whose length is in the description. A length of 0
//! is the end marker. Buffers grow with the bytes that arrive, not by the length that is claimed
//! (FILE-2).
//!
//! Arrow has no checksums, and a flipped bit in a column gives a valid number. So each message
//! carries a CRC-32 in its custom metadata, which other readers skip. It covers the message's
//! description (with eight zeros in the checksum's place), followed by its body.

use std::io::{self, Read};

use arrow_array::RecordBatch;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, CompressionType, KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader,
    MetadataVersion, RecordBatchArgs, root_as_message, root_as_message_with_opts,
};
use arrow_schema::{ArrowError, Schema};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, VerifierOptions, WIPOffset};

use super::{Fault, MAX_BATCH_BYTES, MAX_META_BYTES};

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
        if [a, b, c, d] != END[..4] {
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
        if !verify(&self.meta, &self.message()?, &self.body) {
            return Err(Fault::Damaged("a message's checksum is wrong".into()));
        }
        Ok(Next::Message)
    }

    /// Checks that nothing follows the end marker, as where files were joined.
    pub(crate) fn ends(&mut self) -> Result<(), Fault> {
        match (&mut self.input).take(1).read_to_end(&mut Vec::new()) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Fault::Damaged("more follows its end, which is not read".into())),
            Err(error) => Err(Fault::Io(error)),
        }
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
                Ok(0) if self.offset > 0 || END[..4].starts_with(&head[..got.min(4)]) => {
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
            // Doubles the buffer, by at least `STEP` and at most the missing bytes.
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

/// The metadata key of the checksum.
const KEY: &str = "samara.crc32";
/// Placeholder for the checksum while it is computed; as long as the checksum.
const BLANK: &str = "00000000";

/// The end marker of a stream.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The first message of a stream.
pub(crate) fn schema(schema: &Schema) -> Result<Vec<u8>, ArrowError> {
    let mut dictionaries = DictionaryTracker::new(false);
    let mut fbb = FlatBufferBuilder::new();
    let header =
        IpcSchemaEncoder::new().with_dictionary_tracker(&mut dictionaries).schema_to_fb_offset(&mut fbb, schema);
    message(fbb, MessageHeader::Schema, header.as_union_value(), &[])
}

/// Encodes batches as messages.
pub(crate) struct Encoder {
    options: IpcWriteOptions,
    context: IpcWriteContext,
    dictionaries: DictionaryTracker,
}

impl Encoder {
    pub(crate) fn new() -> Result<Self, ArrowError> {
        Ok(Encoder {
            options: IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?,
            context: IpcWriteContext::default(),
            dictionaries: DictionaryTracker::new(false),
        })
    }

    /// Encodes a batch as a message. Arrow encodes the columns; the description is written again
    /// with room for the checksum.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let (_, encoded) =
            IpcDataGenerator::default().encode(batch, &mut self.dictionaries, &self.options, &mut self.context)?;
        let parsed = root_as_message(&encoded.ipc_message).map_err(|e| ArrowError::IpcError(e.to_string()))?;
        let parsed =
            parsed.header_as_record_batch().ok_or_else(|| ArrowError::IpcError("not a record batch".to_owned()))?;
        let mut fbb = FlatBufferBuilder::new();
        let nodes: Vec<_> = parsed.nodes().into_iter().flatten().copied().collect();
        let buffers: Vec<_> = parsed.buffers().into_iter().flatten().copied().collect();
        let args = RecordBatchArgs {
            length: parsed.length(),
            nodes: Some(fbb.create_vector(&nodes)),
            buffers: Some(fbb.create_vector(&buffers)),
            compression: Some(BodyCompression::create(&mut fbb, &BodyCompressionArgs::default())),
            variadicBufferCounts: None,
        };
        let header = arrow_ipc::RecordBatch::create(&mut fbb, &args);
        message(fbb, MessageHeader::RecordBatch, header.as_union_value(), &encoded.arrow_data)
    }
}

/// Builds a whole message: marker, length, description, body.
fn message(
    mut fbb: FlatBufferBuilder<'_>,
    header_type: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body: &[u8],
) -> Result<Vec<u8>, ArrowError> {
    let (key, value) = (fbb.create_string(KEY), fbb.create_string(BLANK));
    let pair = KeyValue::create(&mut fbb, &KeyValueArgs { key: Some(key), value: Some(value) });
    let args = MessageArgs {
        version: MetadataVersion::V5,
        header_type,
        header: Some(header),
        bodyLength: body.len() as i64,
        custom_metadata: Some(fbb.create_vector(&[pair])),
    };
    let root = Message::create(&mut fbb, &args);
    fbb.finish(root, None);
    let meta = fbb.finished_data();
    // The body starts at a multiple of 64, as Arrow recommends.
    let length = (8 + meta.len()).next_multiple_of(64) - 8;
    let mut framed = Vec::with_capacity(8 + length + body.len());
    framed.extend_from_slice(&END[..4]);
    framed.extend_from_slice(&(length as u32).to_le_bytes());
    framed.extend_from_slice(meta);
    framed.resize(8 + length, 0);
    framed.extend_from_slice(body);
    let (meta, body) = framed[8..].split_at_mut(length);
    let parsed = root_as_message(meta).map_err(|e| ArrowError::IpcError(e.to_string()))?;
    if let Some((at, _)) = checksum(meta, &parsed) {
        let sum = format!("{:08x}", compute(meta, at, body));
        meta[at..at + BLANK.len()].copy_from_slice(sum.as_bytes());
    }
    Ok(framed)
}

/// The checksum of a message and its position in the description, if it has one.
fn checksum<'a>(meta: &[u8], message: &Message<'a>) -> Option<(usize, &'a str)> {
    let pair = message.custom_metadata()?.iter().find(|pair| pair.key() == Some(KEY))?;
    let value = pair.value().filter(|value| value.len() == BLANK.len())?;
    let at = (value.as_ptr() as usize).checked_sub(meta.as_ptr() as usize)?;
    (at + BLANK.len() <= meta.len()).then_some((at, value))
}

/// Computes the checksum of a message whose checksum is stored at `at`.
fn compute(meta: &[u8], at: usize, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&meta[..at]);
    crc.update(BLANK.as_bytes());
    crc.update(&meta[at + BLANK.len()..]);
    crc.update(body);
    crc.finalize()
}

/// Whether a message's checksum is right, or absent (another tool wrote the message).
fn verify(meta: &[u8], message: &Message<'_>, body: &[u8]) -> bool {
    checksum(meta, message).is_none_or(|(at, sum)| u32::from_str_radix(sum, 16) == Ok(compute(meta, at, body)))
}
