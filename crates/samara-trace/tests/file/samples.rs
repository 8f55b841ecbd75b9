//! Made-up events and helpers for the tests of the trace file, and for the fuzz targets.

// The fuzz targets use a part of this.
#![allow(dead_code)]

use samara_mm::Features;
use samara_trace::event::{AreaRecord, Event, EventKind, Resident, Step, StepKind};
use samara_trace::file::{Fault, FileError, Header, TraceReader, TraceWriter};

pub(crate) fn header() -> Header {
    Header {
        program: "prog".into(),
        args: vec!["-c".into(), "a \"b\"\n".into(), String::new()],
        args_left_out: 0,
        kernel: "6.1.0".into(),
        profile: "6.1 +seals".into(),
        features: Some(Features::LINUX_6_1 | Features::SEALS),
        presumed: Features::REMAP_NEEDS_FOUR | Features::LIMIT_IS_EAGAIN,
        arch: "x86_64".into(),
        page_size: 4096,
        start_time: "2026-01-02T03:04:05.678Z".into(),
        recorder: "0.1.0".into(),
        max_map_count: Some(65_530),
        overcommit: Some(0),
        limits: [("as".to_owned(), u64::MAX), ("memlock".to_owned(), 8 << 20)].into(),
        gate: "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]".into(),
    }
}

pub(crate) fn area(start: u64, end: u64, name: &str) -> AreaRecord {
    AreaRecord {
        start,
        end,
        perms: 0b0011,
        offset: 0,
        dev: (8, 1),
        inode: u64::from(name.starts_with('/')),
        name: name.into(),
        apart: String::new(),
    }
}

/// Event `seq` of a trace that uses every column, and every kind in turn.
pub(crate) fn event(seq: u64) -> Event {
    use EventKind as K;
    let kinds = [
        K::Exec,
        K::Call,
        K::Call,
        K::Learnt,
        K::Fork,
        K::Share,
        K::Difference,
        K::Checked,
        K::Exit,
        K::Module,
        K::Stack,
        K::Symbol,
        K::Thread,
    ];
    let kind = kinds[seq as usize % kinds.len()];
    let base = 0x10000 + seq * 0x1000;
    Event {
        seq,
        kind,
        entry_ns: seq * 1000,
        exit_ns: seq * 1000 + 7,
        space: seq % 3,
        pid: 100 + (seq % 3) as u32,
        tid: 100 + seq as u32,
        nr: (kind == K::Call).then_some(if seq.is_multiple_of(2) { 9 } else { 4000 }),
        args: [base, 1, 2, u64::MAX, 4, seq],
        result: if seq.is_multiple_of(4) { -12 } else { base as i64 },
        overlapped: seq.is_multiple_of(5),
        plan: (0..seq % 3)
            .map(|i| Step { kind: if i == 0 { StepKind::Mapped } else { StepKind::Split }, start: base, end: base + i })
            .collect(),
        window: (!seq.is_multiple_of(3)).then_some((base, base + 0x3000)),
        areas: (0..seq % 4)
            .map(|i| AreaRecord {
                perms: (seq % 16) as u8,
                apart: if i == 1 { "protection+name".into() } else { String::new() },
                ..area(base + i * 0x1000, base + (i + 1) * 0x1000, ["", "/lib/ü.so", "[heap]"][i as usize % 3])
            })
            .collect(),
        text: if seq.is_multiple_of(2) { "/bin/π".into() } else { String::new() },
        stack: (seq % 3 == 1).then_some(seq as u32),
        ip: (seq % 5 == 2).then_some(base + 77),
        resident: (seq % 7 == 3).then_some(Resident {
            private: base,
            files: seq,
            private_change: -(seq as i64),
            files_change: i64::MAX,
        }),
    }
}

/// A finished file of `batches` batches of `each` events.
pub(crate) fn file(batches: u64, each: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, &header()).unwrap();
    for b in 0..batches {
        let events: Vec<_> = (b * each..(b + 1) * each).map(event).collect();
        writer.write(&events).unwrap();
    }
    writer.finish().unwrap();
    file
}

/// Everything that can be read, and the error that reading ended with, if any. Checks what must
/// hold for any input.
pub(crate) fn read(bytes: &[u8]) -> (Vec<Event>, Option<FileError>) {
    let mut reader = match TraceReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut events, mut error) = (Vec::new(), None);
    for next in reader.by_ref() {
        assert!(error.is_none(), "nothing follows an error");
        match next {
            Ok(event) => {
                assert_eq!(event.seq, events.len() as u64);
                events.push(event);
            }
            Err(e) => error = Some(e),
        }
    }
    assert_eq!(reader.complete(), error.is_none());
    if let Some(error) = &error {
        assert!(error.offset <= bytes.len() as u64, "{error}");
        assert_eq!(error.events, events.len() as u64);
    }
    (events, error)
}

pub(crate) fn ends_early(error: &Option<FileError>) -> bool {
    matches!(error, Some(FileError { fault: Fault::EndsEarly, .. }))
}

/// Whether all places and cases are tried: with SAMARA_ALL_BYTES, which `ci/long.sh tests` sets.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SAMARA_ALL_BYTES").is_some()
}

/// Places in a file: one of 61, or each.
pub(crate) fn places(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(if is_long() { 1 } else { 61 })
}
