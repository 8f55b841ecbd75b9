//! What the writer writes, the reader reads. A file that is cut at any byte gives its whole
//! batches.

use std::io::{self, Write};

use crate::samples::{ends_early, event, file, header, places, read};
use samara_trace::file::{TraceReader, TraceWriter, WriteError};

#[test]
fn what_is_written_is_read() {
    let bytes = file(3, 50);
    let (events, error) = read(&bytes);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events, (0..150).map(event).collect::<Vec<_>>());
    assert_eq!(*TraceReader::new(bytes.as_slice()).unwrap().header(), header());
}

#[test]
fn every_column_is_documented() {
    let docs = include_str!("../../../../book/src/reference/trace-format.md");
    let bytes = file(0, 0);
    let reader = arrow_ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
    let schema = reader.schema();
    assert!(schema.fields().len() > 20);
    for field in schema.fields().iter().filter(|f| !matches!(&**f.name(), "arg1" | "arg2" | "arg3" | "arg4")) {
        assert!(docs.contains(&format!("`{}`", field.name())), "{} is not documented", field.name());
    }
    for key in schema.metadata().keys() {
        assert!(docs.contains(&format!("`{key}`")), "{key} is not documented");
    }
}

#[test]
fn a_file_without_events_is_complete() {
    let (events, error) = read(&file(0, 0));
    assert!(events.is_empty() && error.is_none(), "{error:?}");
}

#[test]
fn cut_anywhere_it_gives_its_whole_batches() {
    let bytes = file(4, 5);
    // The offsets that batches end at, from the lengths of shorter files without their end marker
    // of 8 bytes.
    let ends: Vec<usize> = (0..=4).map(|n| file(n, 5).len() - 8).collect();
    for cut in places(bytes.len()) {
        let (events, error) = read(&bytes[..cut]);
        let whole = ends[1..].iter().filter(|end| **end <= cut).count();
        assert_eq!(events, (0..5 * whole as u64).map(event).collect::<Vec<_>>(), "cut at {cut}");
        let error = error.unwrap_or_else(|| panic!("cut at {cut} is not complete"));
        // Within the header too, and where there is none yet.
        assert_eq!(error.offset, if cut < ends[0] { 0 } else { ends[whole] as u64 }, "cut at {cut}");
        assert!(ends_early(&Some(error)), "cut at {cut}");
    }
}

#[test]
fn what_follows_the_end_marker_is_said() {
    let alone = file(1, 5);
    for more in [&b"junk"[..], &alone] {
        let (events, error) = read(&[&alone, more].concat());
        let error = error.unwrap();
        assert_eq!((events.len(), error.offset), (5, alone.len() as u64 - 8));
        assert!(error.to_string().contains("more follows its end"), "{error}");
        let (whole, rest) = ([&alone, more].concat(), more.len());
        let mut input = &whole[..];
        let reader = TraceReader::new(&mut input).unwrap().within();
        assert_eq!((reader.filter(Result::is_ok).count(), input.len()), (5, rest));
    }
}

#[test]
fn events_out_of_order_are_refused() {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    let error = writer.write(&[event(0), event(2)]).unwrap_err();
    assert!(matches!(error, WriteError::OutOfOrder(2, 1)), "{error}");
}

#[test]
fn a_batch_too_large_for_readers_becomes_several() {
    let big = |seq| samara_trace::event::Event { text: "x".repeat(50 << 20), ..event(seq) };
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    writer.write(&[big(0), big(1), big(2), big(3)]).unwrap();
    writer.finish().unwrap();
    let (events, error) = read(writer.output());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events.iter().map(|e| e.text.len()).collect::<Vec<_>>(), [50 << 20; 4]);
}

#[test]
fn an_event_too_large_for_any_batch_is_refused() {
    let huge = samara_trace::event::Event { text: "x".repeat(200 << 20), ..event(0) };
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    let error = writer.write(&[huge]).unwrap_err();
    assert!(matches!(error, WriteError::TooLarge(0, ..)), "{error}");
}

/// An output that is full after this many bytes.
struct Full {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let take = bytes.len().min(self.room - self.bytes.len());
        if take == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..take]);
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_whole_batches() {
    let all = file(3, 20).len();
    for room in (0..all).step_by(if crate::samples::is_long() { 97 } else { 389 }) {
        let written = TraceWriter::new(Full { bytes: Vec::new(), room }, &header()).and_then(|mut writer| {
            for b in 0..3 {
                if let Err(error) = writer.write(&(b * 20..(b + 1) * 20).map(event).collect::<Vec<_>>()) {
                    let (events, early) = read(&writer.output().bytes);
                    assert_eq!(events.len() as u64, writer.events(), "room for {room}");
                    assert!(ends_early(&early), "room for {room}: {early:?}");
                    assert!(writer.bytes() <= room as u64);
                    return Err(error);
                }
            }
            writer.finish()
        });
        assert!(
            matches!(&written, Err(WriteError::Io(e)) if e.kind() == io::ErrorKind::StorageFull),
            "{room}: {written:?}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_maps_line_is_the_kernel_s() {
    use samara_trace::file::MapsLine;
    // Parse our own maps and write every line again.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.lines().count() > 5);
    for line in maps.lines() {
        let mut words = line.splitn(6, ' ');
        let mut next = || words.next().unwrap();
        let hex = |s: &str| u64::from_str_radix(s, 16).unwrap();
        let (start, end) = next().split_once('-').unwrap();
        let perms = next().bytes().zip(0..).map(|(c, i)| u8::from(c != b'-' && c != b'p') << i).sum();
        let (offset, dev, inode) = (hex(next()), next().split_once(':').unwrap(), next().parse().unwrap());
        let area = samara_trace::event::AreaRecord {
            start: hex(start),
            end: hex(end),
            perms,
            offset,
            dev: (hex(dev.0) as u32, hex(dev.1) as u32),
            inode,
            name: words.next().unwrap_or_default().trim_start().into(),
            apart: String::new(),
        };
        assert_eq!(MapsLine(&area).to_string(), line);
    }
}
