//! Damaged and forged files: the reader does not panic, keeps within its memory limits, gives the
//! whole batches before the damage, and reports one error with its offset.

use crate::samples::{area, event, file, header, places, read};
use crate::seal::seal;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, root_as_message};
use proptest::prelude::*;
use samara_trace::event::Event;
use samara_trace::file::{Fault, TraceReader, TraceWriter};

/// Where the messages of a file start: the header, the batches, the end marker.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut starts) = (0, vec![]);
    while at < bytes.len() {
        starts.push(at);
        let meta = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        if meta == 0 {
            break;
        }
        at += 8 + meta + root_as_message(&bytes[at + 8..at + 8 + meta]).unwrap().bodyLength() as usize;
    }
    starts
}

#[test]
fn a_changed_byte_is_noticed_and_costs_its_batch() {
    let bytes = file(3, 4);
    let starts = starts(&bytes);
    assert_eq!(starts.len(), 5);
    let all: Vec<_> = (0..12).map(event).collect();
    let mut unnoticed = 0;
    for at in places(bytes.len()) {
        for change in [0x05, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= change;
            let (events, error) = read(&bad);
            assert_eq!(events[..], all[..events.len()], "byte {at} ^ {change:#x}");
            // Batches that end before the changed byte are as they were.
            let whole = starts[1..].iter().filter(|start| **start <= at).count().saturating_sub(1) * 4;
            assert!(events.len() >= whole, "byte {at} ^ {change:#x}: {} events", events.len());
            match error {
                Some(error) => {
                    // Where it shows is the changed message, or one after it where a length is
                    // wrong.
                    assert!(error.offset as usize >= starts.iter().copied().filter(|s| *s <= at).max().unwrap_or(0));
                    assert!(events.len() < 12 || at >= starts[3], "{error}");
                }
                // The checksum's own key: then there is no checksum, and the events are right
                // (asserted above).
                None => {
                    assert_eq!(events.len(), 12);
                    unnoticed += 1;
                }
            }
        }
    }
    println!("{} changes, {unnoticed} unnoticed and without effect", bytes.len() * 3);
    assert!(unnoticed < 300);
}

/// The same with right checksums: only limits and plausibility checks find the damage.
#[test]
fn any_byte_forged_does_no_harm() {
    let bytes = file(3, 4);
    let starts = starts(&bytes);
    let all: Vec<_> = (0..12).map(event).collect();
    let mut kinds = [0; 6];
    for at in places(bytes.len()) {
        for change in [0x05, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= change;
            seal(&mut bad);
            let (events, error) = read(&bad);
            let whole = starts[1..].iter().filter(|start| **start <= at).count().saturating_sub(1) * 4;
            assert!(events.len() >= whole && events.len() <= 12, "byte {at} ^ {change:#x}: {} events", events.len());
            assert_eq!(events[..whole], all[..whole], "byte {at} ^ {change:#x}");
            kinds[match error.map(|error| error.fault) {
                None => 0,
                Some(Fault::NotATrace(_)) => 1,
                Some(Fault::Format(_)) => 2,
                Some(Fault::EndsEarly) => 3,
                Some(Fault::Damaged(_)) => 4,
                Some(Fault::TooLarge(..)) => 5,
                Some(other) => panic!("{other:?}"),
            }] += 1;
        }
    }
    println!("{} changes: {kinds:?}", bytes.len() * 3);
    // A sample of the bytes meets the frequent kinds only.
    assert!(
        kinds.iter().filter(|n| **n > 0).count() >= if crate::samples::is_long() { 6 } else { 4 },
        "kinds of errors: {kinds:?}"
    );
}

#[test]
fn bytes_put_in_or_taken_out_do_no_harm() {
    let bytes = file(2, 2);
    for at in places(bytes.len()) {
        for byte in [0x00, 0xff] {
            let mut bad = bytes.clone();
            bad.insert(at, byte);
            read(&bad);
        }
        let mut bad = bytes.clone();
        bad.remove(at);
        read(&bad);
        bad.splice(at..at, bytes[..at].to_vec());
        read(&bad);
    }
}

/// The place of the 64-bit number `value` in the description of message `index`.
fn find(bytes: &[u8], index: usize, value: i64) -> Vec<usize> {
    let start = starts(bytes)[index] + 8;
    let meta = u32::from_le_bytes(bytes[start - 4..start].try_into().unwrap()) as usize;
    (start..start + meta - 8).filter(|at| bytes[*at..at + 8] == value.to_le_bytes()).collect()
}

/// 64-bit numbers in a batch's description and claimed sizes in its body, replaced by large and odd
/// ones: in one of seven places, or in all.
#[test]
fn claims_are_not_believed() {
    let bytes = file(1, 4);
    let start = starts(&bytes)[1];
    let end = starts(&bytes)[2];
    let claims = [i64::MAX, i64::MIN, -1, -2, 0, 1, 1 << 28, (1 << 28) + 1, 1 << 31, 1 << 40, 1 << 62];
    for at in (start..end - 8).step_by(if crate::samples::is_long() { 4 } else { 28 }) {
        for claim in claims {
            let mut bad = bytes.clone();
            bad[at..at + 8].copy_from_slice(&claim.to_le_bytes());
            seal(&mut bad);
            let (events, error) = read(&bad);
            assert!(events.len() <= 4);
            if let Some(error) = error {
                assert!(error.offset as usize >= start, "{error}");
            }
        }
    }
}

/// Each buffer of a batch is left out: that is an error, or loses only optional content.
#[test]
fn a_buffer_that_is_left_out_is_noticed() {
    let bytes = file(1, 4);
    let start = starts(&bytes)[1] + 8;
    let message = root_as_message(&bytes[start..starts(&bytes)[2]]).unwrap();
    let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
    let first = buffers.bytes().as_ptr().addr() - bytes.as_ptr().addr();
    let certain = |e: Event| Event { nr: None, window: None, stack: None, ip: None, resident: None, ..e };
    let (all, mut noticed): (Vec<_>, _) = ((0..4).map(|seq| certain(event(seq))).collect(), 0);
    for i in 0..buffers.len() {
        let mut bad = bytes.clone();
        // An offset and a length.
        bad[first + 16 * i + 8..][..8].fill(0);
        seal(&mut bad);
        let (events, error) = read(&bad);
        noticed += u32::from(error.is_some());
        assert!(error.is_some() || events.into_iter().map(certain).eq(all.iter().cloned()), "buffer {i}");
    }
    assert!(noticed > 20, "{noticed} of {}", buffers.len());
}

#[test]
fn a_length_beyond_the_limit_is_named() {
    let bytes = file(1, 4);
    let body = (starts(&bytes)[2] - starts(&bytes)[1]) as i64;
    // The body's length is in the description, as a 64-bit number less than the message's.
    let meta = u32::from_le_bytes(bytes[starts(&bytes)[1] + 4..][..4].try_into().unwrap());
    let places = find(&bytes, 1, body - 8 - i64::from(meta));
    assert!(!places.is_empty());
    let mut bad = bytes.clone();
    bad[places[0]..places[0] + 8].copy_from_slice(&(1i64 << 40).to_le_bytes());
    let (events, error) = read(&bad);
    assert!(events.is_empty());
    assert!(matches!(error.unwrap().fault, Fault::TooLarge("bytes of a batch", size, _) if size == 1 << 40));
}

/// A buffer of a batch that claims to have 1 TiB once decompressed, and one that has more than it
/// claims.
#[test]
fn a_decompressed_size_is_not_believed() {
    let bytes = file(1, 200);
    // The LZ4 frame's magic number follows each claim.
    let claims: Vec<usize> =
        (8..bytes.len() - 4).filter(|at| bytes[*at..at + 4] == 0x184d_2204u32.to_le_bytes()).map(|at| at - 8).collect();
    assert!(claims.len() > 10, "{}", claims.len());
    for at in claims {
        let was = i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        for claim in [1 << 40, was + 1, was - 1, 0] {
            let mut bad = bytes.clone();
            bad[at..at + 8].copy_from_slice(&i64::to_le_bytes(claim));
            seal(&mut bad);
            let (events, error) = read(&bad);
            assert!(events.is_empty());
            let error = error.expect("a wrong size is an error");
            let too_large = matches!(error.fault, Fault::TooLarge(..));
            assert_eq!(too_large, claim == 1 << 40, "{error}");
        }
    }
}

#[test]
fn other_arrow_files_are_no_traces() {
    use std::sync::Arc;
    let fields = vec![arrow_schema::Field::new("x", arrow_schema::DataType::Int64, false)];
    let schema = Arc::new(arrow_schema::Schema::new(fields));
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.finish().unwrap();
    let bytes = writer.into_inner().unwrap();
    let error = TraceReader::new(bytes.as_slice()).unwrap_err();
    assert!(error.to_string().contains("no `samara.format`"), "{error}");
    for other in
        [&b"\x7fELF"[..], b"#", b"\xff\xfe", b"ARROW1\0\0", b"PK\x03\x04 and so on and on", &[0xff; 64], &[0; 64]]
    {
        let error = TraceReader::new(other).unwrap_err();
        let begins_like_one = other.starts_with(&[0xff; 4]);
        assert_eq!(matches!(error.fault, Fault::NotATrace(_)), !begins_like_one, "{other:?}: {error}");
        assert_eq!((error.offset, error.events), (0, 0));
    }
}

/// Messages contain a file's text escaped and truncated, however long it is.
#[test]
fn text_of_a_file_is_echoed_short_and_escaped() {
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;
    let long = "\u{1b}[31m\n".repeat(20_000);
    let bytes = file(1, 4);
    let mut reader = arrow_ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
    let schema = reader.schema();
    let batch = reader.next().unwrap().unwrap();
    let with_schema = |schema: Schema| StreamWriter::try_new(Vec::new(), &schema).unwrap().into_inner().unwrap();
    let mut format = schema.metadata().clone();
    format.insert("samara.format", long.clone());
    let other_columns = |field: Field| {
        let fields: Vec<_> = [field].into_iter().chain(schema.fields()[1..].iter().map(|f| (**f).clone())).collect();
        Schema::new_with_metadata(fields, schema.metadata().clone())
    };
    let nested = DataType::Struct(vec![Field::new(&long, DataType::Int8, false)].into());
    let words: Arc<dyn arrow_array::Array> = Arc::new(arrow_array::StringArray::from(vec![&*long; batch.num_rows()]));
    let mut columns = batch.columns().to_vec();
    columns[1] = words;
    let batch = arrow_array::RecordBatch::try_new(schema.clone(), columns).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    for (bytes, expected) in [
        (with_schema(Schema::new_with_metadata(schema.fields().clone(), format)), "trace format \\033[31m\\012"),
        (with_schema(other_columns(Field::new(&long, DataType::UInt64, false))), "column 0 is `\\033"),
        (with_schema(other_columns(Field::new("seq", nested, false))), "(Struct_), where `seq` (UInt64) is due"),
        (writer.into_inner().unwrap(), "no such word: `\\033"),
    ] {
        let error = read(&bytes).1.unwrap().to_string();
        assert!(error.contains(expected), "{error:.500}");
        assert!(error.len() < 500 && !error.contains(char::is_control), "{} bytes: {error:.500}", error.len());
    }
}

/// Readers may rely on the order of areas.
#[test]
fn areas_that_overlap_are_refused() {
    let pages = |start: u64, end: u64| area(start << 12, end << 12, "");
    for (areas, is_right) in [
        (vec![pages(1, 2), pages(2, 3), pages(5, 6)], true),
        (vec![pages(1, 3), pages(2, 4)], false),
        (vec![pages(1, 9), pages(2, 3)], false),
        (vec![pages(5, 6), pages(1, 2)], false),
        (vec![pages(1, 2), pages(1, 2)], false),
    ] {
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file, &header()).unwrap();
        writer.write(&[event(0), Event { areas, ..event(1) }]).unwrap();
        writer.finish().unwrap();
        let (events, error) = read(&file);
        let why = error.map_or_else(String::new, |error| error.to_string());
        assert_eq!((events.len() == 2, why.contains("event 1: its areas overlap")), (is_right, !is_right), "{why}");
    }
}

/// Files that another tool wrote again, without compression, can be read too.
#[test]
fn an_uncompressed_file_is_read() {
    let bytes = file(2, 10);
    let reader = arrow_ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &reader.schema()).unwrap();
    for batch in reader {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let (events, error) = read(&writer.into_inner().unwrap());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events, (0..20).map(event).collect::<Vec<_>>());
    // The option exists so that this test notices if the default becomes a compression.
    assert!(IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if crate::samples::is_long() { 3000 } else { 300 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes);
    }

    #[test]
    fn random_damage_does_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..9)), 1..8)
    ) {
        let mut bytes = file(2, 6);
        for (at, with) in changes {
            let at = at.index(bytes.len());
            let end = (at + with.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&with[..end - at]);
        }
        seal(&mut bytes);
        let (events, _) = read(&bytes);
        prop_assert!(events.len() <= 12);
    }
}
