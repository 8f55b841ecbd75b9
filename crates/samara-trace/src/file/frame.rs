//! Messages of an Arrow IPC stream, each with a checksum. Knows nothing of events.
//!
//! Arrow has no checksums, and a flipped bit in a column gives a valid number. So each message
//! carries a CRC-32 in its custom metadata, which other readers skip. It covers the message's
//! description (with eight zeros in the checksum's place), followed by its body.

use arrow_array::RecordBatch;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, CompressionType, KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader,
    MetadataVersion, RecordBatchArgs, root_as_message,
};
use arrow_schema::{ArrowError, Schema};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

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

/// Whether a message's checksum is right. True if it has none (another tool wrote it).
pub(crate) fn verify(meta: &[u8], message: &Message<'_>, body: &[u8]) -> bool {
    checksum(meta, message).is_none_or(|(at, sum)| u32::from_str_radix(sum, 16) == Ok(compute(meta, at, body)))
}
