//! Files made to take much memory: reading, replaying, summing up and printing them stays within
//! the limits of book/src/reference/trace-format.md.
//!
//! A separate test program: its global allocator counts the memory of all threads.

#[path = "support/peak_memory.rs"]
mod peak_memory;
#[allow(dead_code)] // It uses the made-up events alone.
#[path = "command/samples.rs"]
mod samples;

use std::io::{self, Write};

use arrow_ipc::{KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader, MetadataVersion, SchemaArgs};
use peak_memory::peak;
use samara_cli::testing;
use samara_record::Options;
use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::file::{
    Fault, Header, MAX_READER_MEMORY, MAX_REPLAY_MEMORY, MAX_STACKS_MEMORY, Replay, ReplayError, TraceReader,
    TraceWriter,
};
use samara_trace::summary::Tally;
use samara_trace::why::MAX_ORIGINS_MEMORY;

const MIB: usize = 1 << 20;
const READER: usize = MAX_READER_MEMORY as usize;
const REPLAY: usize = MAX_REPLAY_MEMORY as usize;
const ORIGINS: usize = MAX_ORIGINS_MEMORY as usize;
const STACKS: usize = MAX_STACKS_MEMORY as usize;
/// Memory limit of the formats of an export: the bounds of all areas of an event, and rows.
const EXPORT: usize = 400 * MIB;
/// Memory limit of everything else: buffers of the output, a summary.
const REST: usize = 16 * MIB;
/// Memory limit of a page's data, as values and as text. (The areas of all spaces are kept a second
/// time.)
const PAGE: usize = 160 * MIB;

fn area(i: u64, name: &str) -> AreaRecord {
    let start = 0x1000 + i * 0x2000;
    let end = start + 0x1000;
    AreaRecord { start, end, perms: 3, offset: 0, dev: (0, 0), inode: 0, name: name.into(), apart: String::new() }
}

fn event(seq: u64, kind: EventKind, pid: u32, areas: Vec<AreaRecord>) -> Event {
    Event {
        seq,
        kind,
        pid,
        tid: pid,
        space: u64::from(pid),
        areas,
        plan: vec![],
        text: String::new(),
        ..samples::events().remove(1)
    }
}

/// A finished file of batches that are made one after the other.
fn file(batches: impl IntoIterator<Item = Vec<Event>>) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Options::new("x").header()).unwrap();
    for batch in batches {
        writer.write(&batch).unwrap();
    }
    writer.finish().unwrap();
    std::mem::take(writer.output())
}

/// Counts what is printed.
#[derive(Default)]
struct Printed(u64);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads, replays, sums up and prints a file in every way, and returns the final result of `show`.
fn bounded(what: &str, bytes: &[u8]) -> Result<(), String> {
    let events = |reader: TraceReader<_>| reader.map_while(Result::ok);
    let ((), reader) = peak(|| {
        if let Ok(reader) = TraceReader::new(bytes) {
            events(reader).for_each(drop);
        }
    });
    let (_, replay) = peak(|| -> Result<(), ReplayError> {
        let mut replay = Replay::default();
        let Ok(reader) = TraceReader::new(bytes) else { return Ok(()) };
        let kept: Result<(), _> = events(reader).try_for_each(|event| replay.apply(&event));
        kept
    });
    let (_, tally) = peak(|| {
        let mut tally = Tally::default();
        if let Ok(reader) = TraceReader::new(bytes) {
            events(reader).for_each(|event| tally.add(&event));
        }
        tally.summary()
    });
    let mut shown = Ok(());
    let mut most = 0;
    for (wanted, reasons, raw) in [
        ((None, None), false, false),
        ((None, None), true, true),
        ((Some(7), None), false, true),
        ((None, Some(1)), true, false),
    ] {
        let (said, took) = peak(|| testing::show(bytes, wanted, reasons, raw, &mut Printed::default()));
        most = most.max(took);
        if wanted == (None, None) {
            shown = said;
        }
    }
    let (_, lines) = peak(|| testing::events(bytes, false, &mut Printed::default()));
    let (_, json) = peak(|| testing::events(bytes, true, &mut Printed::default()));
    let (page, report) = peak(|| testing::page(bytes));
    let page = page.map_or(0, |page| page.len());
    let dir = tempfile::tempdir().unwrap();
    // Two million events in five formats take two minutes, and no more memory than others.
    let exports = !["processes", "programs"].contains(&what);
    let (_, export) = peak(|| exports.then(|| testing::exported(bytes, dir.path())));
    let mib = |bytes: usize| bytes / MIB;
    println!(
        "{what}: {} KiB of file; MiB at most: reader {}, replay {}, summary {}, show {}, events {}, events --json {}, report {} ({} KiB of page), export {}; {shown:.200?}",
        bytes.len() >> 10,
        mib(reader),
        mib(replay),
        mib(tally),
        mib(most),
        mib(lines),
        mib(json),
        mib(report),
        page >> 10,
        mib(export)
    );
    assert!(page <= 8 * MIB, "{what}: {page} bytes of page");
    assert!(report <= READER + 2 * REPLAY + ORIGINS + PAGE, "{what}: report took {report} bytes");
    assert!(reader <= READER, "{what}: reading took {reader} bytes");
    assert!(lines.max(json) <= READER + REPLAY + REST, "{what}: events took {lines} bytes, events --json {json}");
    assert!(replay.max(most) <= READER + REPLAY + REST, "{what}: {replay}, {most} bytes");
    assert!(tally <= READER + REPLAY + ORIGINS + REST, "{what}: {tally} bytes");
    assert!(export <= READER + REPLAY + ORIGINS + STACKS + EXPORT, "{what}: export took {export} bytes");
    shown
}

#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn whatever_a_file_holds_memory_is_bounded() {
    let _measuring = peak_memory::measuring();
    let text = |text: String| Event { kind: EventKind::Exec, text, ..event(0, EventKind::Exec, 1, vec![]) };
    let many = |n: u64, name: &str| (0..n).map(|i| area(i, name)).collect::<Vec<_>>();
    // The largest events that the writer takes.
    bounded("a text", &file([vec![text("\u{202e}\x1b\u{10ffff}x".repeat(12 * MIB))]])).unwrap();
    bounded("areas in one event", &file([vec![event(0, EventKind::Exec, 1, many(2_097_000, ""))]])).unwrap_err();
    bounded("areas with names", &file([vec![event(0, EventKind::Exec, 1, many(1_500_000, "/a/b/c/d/e/f"))]])).unwrap();
    let long = "\u{9b}n".repeat(20_000);
    bounded("long names", &file([vec![event(0, EventKind::Exec, 1, many(2_000, &long))]])).unwrap();
    let plan = vec![Step { kind: StepKind::Mapped, start: 1, end: 2 }; 4_194_000];
    bounded("steps", &file([vec![Event { plan, ..event(0, EventKind::Exec, 1, vec![]) }]])).unwrap();
    let apart = |mut a: AreaRecord| {
        a.apart = format!("{:x}+", a.start).repeat(3);
        AreaRecord { end: a.start + 0x2000, ..a }
    };
    let all = many(1_000_000, "").into_iter().map(apart).collect();
    bounded("reasons", &file([vec![event(0, EventKind::Exec, 1, all)]])).unwrap();
}

/// Endless spaces, processes and programs: beyond a limit, reading fails and says what to do.
#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn what_lives_at_once_is_bounded() {
    let _measuring = peak_memory::measuring();
    let each = |n: u64, make: fn(u64) -> Event| {
        file((0..n.div_ceil(4096)).map(move |b| (b * 4096..n.min((b + 1) * 4096)).map(make).collect()))
    };
    let too_much = |said: Result<(), String>| {
        let said = said.unwrap_err();
        assert!(said.contains("live at one moment take more than 512 MiB") && said.contains("--at"), "{said}");
    };
    let processes = |seq| Event { space: 1, ..event(seq, EventKind::Share, seq as u32 + 1, vec![]) };
    too_much(bounded("processes", &each(2_400_000, processes)));
    too_much(bounded("spaces", &each(130_000, |seq| event(seq, EventKind::Fork, seq as u32 + 1, vec![area(seq, "")]))));
    let programs = |seq| Event { text: "p".repeat(20_000), ..event(seq, EventKind::Exec, seq as u32 + 1, vec![]) };
    too_much(bounded("programs", &each(20_000, programs)));
    // Ended processes are forgotten, and their memory does not count for ever.
    let ending = |seq: u64| {
        let kind = if seq.is_multiple_of(2) { EventKind::Fork } else { EventKind::Exit };
        event(seq, kind, (seq / 2) as u32 + 1, vec![area(seq, "x")])
    };
    bounded("processes that end", &each(200_000, ending)).unwrap();
    let moving =
        |seq: u64| Event { space: seq, ..event(seq, EventKind::Fork, 1, (0..70).map(|i| area(i, "")).collect()) };
    bounded("spaces that are left", &each(20_000, moving)).unwrap();
}

/// Memory from many places, many short names, many stacks: beyond a limit they are skipped.
#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn origins_and_names_are_bounded() {
    let _measuring = peak_memory::measuring();
    let summed = |what: &str, limit: usize, events: &mut dyn Iterator<Item = Event>| {
        let (_, took) = peak(|| {
            let mut tally = Tally::default();
            events.for_each(|event| tally.add(&event));
            tally.summary().events
        });
        println!("{what}: {} MiB", took / MIB);
        assert!(took <= limit + REST, "{what}: {took} bytes");
    };
    let call = |seq: u64| {
        let one = area(seq, "");
        let plan = vec![Step { kind: StepKind::Mapped, start: one.start, end: one.end }];
        let window = Some((one.start, one.end));
        let args = [0, seq << 12, 3, 0x22, 0, 0];
        Event { nr: Some(9), args, plan, window, stack: None, ..event(seq, EventKind::Call, 1, vec![one]) }
    };
    summed("pieces", REPLAY + ORIGINS, &mut (0..1_500_000).map(call));
    let spaces = |seq: u64| Event { stack: None, ..event(seq, EventKind::Fork, seq as u32 % 20_000 + 1, vec![]) };
    let each = |seq: u64| Event { space: seq % 20_000 + 1, pid: (seq % 20_000) as u32 + 1, ..call(seq) };
    summed("sites of spaces", REPLAY + ORIGINS, &mut (0..20_000).map(spaces).chain((20_000..1_500_000).map(each)));
    // The names of the files that calls come from.
    let calls = |seq: u64| {
        let one = area(1, &format!("{seq:0>60000}"));
        Event { ip: Some(one.start), areas: vec![one], window: Some((0x1000, 0x8000)), ..call(seq) }
    };
    summed("callers", REPLAY + ORIGINS, &mut (0..20_000).map(calls));
    let define = |seq, kind, args: [u64; 2], text: String| Event {
        args: [args[0], args[1], 0, 0, 0, 0],
        text,
        ..event(seq, kind, 1, vec![])
    };
    let module = || define(0, EventKind::Module, [0, 0], "- x".into());
    let names = |seq: u64| define(seq, EventKind::Symbol, [0, seq], "\n".repeat(63));
    summed("names", STACKS, &mut std::iter::once(module()).chain((1..300_000).map(names)));
    let symbols = |seq: u64| define(seq, EventKind::Symbol, [0, seq], "x".into());
    summed("symbols", STACKS, &mut std::iter::once(module()).chain((1..1_200_000).map(symbols)));
    let stacks = |seq: u64| define(seq, EventKind::Stack, [seq - 1, 0], "0+1".into());
    summed("stacks", STACKS, &mut std::iter::once(module()).chain((1..4_500_000).map(stacks)));
    let long = "0+1 ".repeat(511) + "0+1";
    let deep = |seq: u64| define(seq, EventKind::Stack, [seq - 1, 0], long.clone());
    summed("frames", STACKS, &mut std::iter::once(module()).chain((1..20_000).map(deep)));
}

/// A page has 8 MiB at most, and 100 bytes for each call stack, however many places, stacks,
/// functions and names there are.
#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn a_page_is_bounded() {
    let _measuring = peak_memory::measuring();
    let sized = |what: &str, stacks: usize, bytes: &[u8]| {
        let (page, took) = peak(|| testing::page(bytes).unwrap().len());
        println!("{what}: {} KiB of file, {} KiB of page, {} MiB", bytes.len() >> 10, page >> 10, took / MIB);
        assert!(page <= 8 * MIB + 100 * stacks, "{what}: {page} bytes of page");
        assert!(took <= READER + 2 * REPLAY + ORIGINS + STACKS + PAGE, "{what}: {took} bytes");
    };
    let call = |seq: u64, name: &str| {
        let one = area(seq, name);
        let plan = vec![Step { kind: StepKind::Mapped, start: one.start, end: one.end }];
        let window = Some((one.start, one.end));
        Event {
            nr: Some(9),
            plan,
            window,
            entry_ns: seq * 100,
            exit_ns: seq * 100 + 50,
            ..event(seq, EventKind::Call, 1, vec![one])
        }
    };
    let batched = |events: Vec<Event>| file(events.chunks(1000).map(<[_]>::to_vec).collect::<Vec<_>>());
    // The maximum number of places, each with different arguments, file and name.
    let place = |seq: u64| Event {
        args: [0, 4096, 3, 0x22 | seq << 32, 0, 0],
        stack: None,
        ..call(seq, &format!("/{seq:0>300}"))
    };
    sized("places", 0, &batched((0..80_000).map(place).collect()));
    // As many stacks, of functions with long names, each with a different place.
    let define = |seq, kind, args: [u64; 2], text: String| Event {
        args: [args[0], args[1], 0, 0, 0, 0],
        text,
        ..event(seq, kind, 1, vec![])
    };
    const STACKS_HERE: u64 = 60_000;
    let mut all = vec![define(0, EventKind::Module, [0, 0], "- /bin/x".into())];
    let frames =
        |number: u64| (0..30).map(|depth| format!("0+{:x}", (number * 7 + depth * 13) % 40_000)).collect::<Vec<_>>();
    for number in 0..STACKS_HERE {
        let seq = all.len() as u64;
        all.push(define(seq, EventKind::Stack, [number, 0], frames(number).join(" ")));
        all.push(Event { stack: Some(number as u32), ..call(seq + 1, "") });
    }
    for at in 0..40_000_u64 {
        let seq = all.len() as u64;
        all.push(define(seq, EventKind::Symbol, [0, at], format!("f{at:0>190}\t/src/{at:0>180}.c:1")));
    }
    sized("stacks", STACKS_HERE as usize, &batched(all));
}

/// Areas laid and cut in any order, so that leaves are as empty as they get.
#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn a_replay_weighs_what_it_takes() {
    let _measuring = peak_memory::measuring();
    for (what, step) in [("ascending", 1), ("scattered", 514_229), ("descending", 1_999_999)] {
        let (end, took) = peak(|| {
            let mut replay = Replay::default();
            (0..2_000_000_u64).try_for_each(|seq| {
                let place = seq * step % 2_000_000;
                let name = if seq.is_multiple_of(2) { "" } else { "/n" };
                let event = Event { window: None, ..event(seq, EventKind::Call, 1, vec![area(place, name)]) };
                let cut = Event {
                    window: Some((area(place, "").start + 0x400, area(place, "").start + 0x800)),
                    areas: vec![],
                    ..event.clone()
                };
                replay.apply(&event)?;
                if seq.is_multiple_of(3) { replay.apply(&cut) } else { Ok(()) }
            })
        });
        println!("{what}: {} MiB", took / MIB);
        assert!(matches!(end, Err(ReplayError::TooLarge(_))), "{end:?}");
        assert!(took <= REPLAY, "{what}: {took} bytes");
    }
}

/// A header that repeats one long text, and one with more arguments than a program can have.
#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn a_header_is_bounded() {
    let _measuring = peak_memory::measuring();
    let framed = |fill: &dyn Fn(&mut flatbuffers::FlatBufferBuilder<'_>) -> Vec<(String, usize)>, long: &str| {
        let mut fbb = flatbuffers::FlatBufferBuilder::new();
        let entries = fill(&mut fbb);
        let shared = fbb.create_string(long);
        let pairs: Vec<_> = entries
            .iter()
            .flat_map(|(key, times)| std::iter::repeat_n(key, *times))
            .map(|key| {
                let key = fbb.create_string(key);
                KeyValue::create(&mut fbb, &KeyValueArgs { key: Some(key), value: Some(shared) })
            })
            .collect();
        let pairs = fbb.create_vector(&pairs);
        let schema =
            arrow_ipc::Schema::create(&mut fbb, &SchemaArgs { custom_metadata: Some(pairs), ..Default::default() });
        let args = MessageArgs {
            version: MetadataVersion::V5,
            header_type: MessageHeader::Schema,
            header: Some(schema.as_union_value()),
            ..Default::default()
        };
        let root = Message::create(&mut fbb, &args);
        fbb.finish(root, None);
        let mut meta = fbb.finished_data().to_vec();
        meta.resize(meta.len().next_multiple_of(8), 0);
        [&[0xff; 4][..], &(meta.len() as u32).to_le_bytes(), &meta].concat()
    };
    let keys = ["format", "program", "args", "kernel", "arch", "page_size", "start_time", "recorder", "gate"];
    let all = |_: &mut flatbuffers::FlatBufferBuilder<'_>| keys.map(|key| (format!("samara.{key}"), 15)).to_vec();
    for long in ["1", &"1".repeat(15 * MIB), &format!("[{}\"\"]", "\"\",".repeat(5_000_000))] {
        let bytes = framed(&all, long);
        bounded("a header", &bytes).unwrap_err();
    }
    // The same by the front door: as many arguments as fit, one too many for a list.
    let header = Header { args: vec!["a".into(); 400_000], ..Options::new("x").header() };
    let mut bytes = Vec::new();
    TraceWriter::new(&mut bytes, &header).unwrap();
    let (reader, took) = peak(|| TraceReader::new(bytes.as_slice()));
    let kept = reader.unwrap().header().clone();
    assert_eq!(kept.args.len() as u64 + kept.args_left_out, 400_000);
    assert!(kept.args_left_out > 100_000 && took < 64 * MIB, "{took}");
}

/// The message names what is too large, and the limit.
#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn too_much_is_reported() {
    let _measuring = peak_memory::measuring();
    let long = area(0, &"n".repeat(70_000));
    let bytes = file([vec![event(0, EventKind::Exec, 1, vec![long])]]);
    let error = TraceReader::new(bytes.as_slice()).unwrap().next().unwrap().unwrap_err();
    assert!(matches!(error.fault, Fault::TooLarge("bytes of an area's name", 70_000, 65_536)), "{error}");
    let said = error.to_string();
    assert!(said.contains("exceeds a limit") && said.contains("another reader of Arrow"), "{said}");
}
