//! Everything that reads a trace, on hostile files: reader, replay, summary, `show` in its forms,
//! `events` and `events --json`, the page of `report`. Nothing panics, no output harms a terminal
//! or a browser, and memory stays within a bound that follows from the file's length, measured by a
//! counting allocator.
//!
//! A file is made of events that the input describes (many processes, areas, long texts, extreme
//! numbers), or is a valid one. Then a few of its bytes are changed, and the checksums corrected.
#![no_main]

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use peak_memory::peak;
use samara_cli::testing;
use samara_trace::event::{AreaRecord, Event, EventKind, Resident, Step, StepKind};
use samara_trace::file::{
    Header, MAX_READER_MEMORY, MAX_REPLAY_MEMORY, MAX_STACKS_MEMORY, Printable, Replay, TraceReader, TraceWriter,
};
use samara_trace::summary::Tally;
use samara_trace::why::MAX_ORIGINS_MEMORY;

#[path = "../../crates/samara-trace/tests/file/samples.rs"]
mod file_samples;
#[allow(dead_code)] // One thread runs the target, and needs no lock.
#[path = "../../crates/samara-cli/tests/support/peak_memory.rs"]
mod peak_memory;
#[path = "../../crates/samara-trace/tests/file/seal.rs"]
mod seal;

static RIGHT: LazyLock<Vec<u8>> = LazyLock::new(|| file_samples::file(3, 9));

/// A text: of the input, or one piece of it very often.
fn text(u: &mut Unstructured<'_>, most: usize) -> Result<String> {
    let piece: &str = u.arbitrary()?;
    let times = if u.ratio(1, 8)? { u.int_in_range(0..=most / piece.len().max(1))? } else { 1 };
    Ok(piece.repeat(times))
}

fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(u.arbitrary::<u64>()? >> u.int_in_range(0..=63_u32)?)
}

fn events(u: &mut Unstructured<'_>) -> Result<Vec<Event>> {
    use EventKind as K;
    let mut events: Vec<Event> = Vec::new();
    let kinds = [K::Exec, K::Call, K::Learnt, K::Fork, K::Share, K::Thread, K::Difference, K::Checked, K::Exit];
    // A few mebibytes in all, which take little time.
    let mut weight = 0;
    while !u.is_empty() && weight < 4 << 20 {
        let kind = *u.choose(&kinds)?;
        let (pid, space, start) = (u.int_in_range(0..=4_u32)?, u.int_in_range(0..=4_u64)?, number(u)?);
        let area = AreaRecord {
            start: start.min(1 << 62),
            end: start.min(1 << 62) + 1 + (number(u)? >> 2),
            perms: u.arbitrary()?,
            offset: number(u)?,
            dev: u.arbitrary()?,
            inode: number(u)?,
            name: text(u, 1 << 16)?,
            apart: text(u, 1 << 12)?,
        };
        let many = if u.ratio(1, 8)? { u.int_in_range(0..=4000_u64)? } else { 1 };
        let many = many.min((1 << 20) / (1 + area.name.len() + area.apart.len()) as u64);
        let moved = |i: u64| {
            let by = i.wrapping_mul(0x1000);
            AreaRecord {
                start: area.start.wrapping_add(by) >> 1,
                end: (area.end.wrapping_add(by) >> 1) + 1,
                ..area.clone()
            }
        };
        let step = Step { kind: StepKind::Split, start, end: number(u)? };
        let event = Event {
            seq: 0,
            kind,
            entry_ns: number(u)?,
            exit_ns: number(u)?,
            space,
            pid,
            tid: pid,
            nr: u.arbitrary()?,
            args: [start; 6],
            result: number(u)? as i64,
            overlapped: u.arbitrary()?,
            plan: vec![step; many as usize % 1000],
            window: Some((start, start.saturating_add(number(u)?))),
            areas: (0..many).map(moved).filter(|area| area.start < area.end).collect(),
            text: text(u, 1 << 20)?,
            stack: u.arbitrary::<Option<u8>>()?.map(u32::from),
            ip: u.arbitrary::<bool>()?.then_some(start),
            resident: u.arbitrary::<bool>()?.then_some(Resident {
                private: start,
                files: u64::from(pid),
                private_change: u.arbitrary()?,
                files_change: u.arbitrary()?,
            }),
        };
        // Many of a kind: processes and spaces that are new each time, or the same ones.
        let (times, fresh) = if u.ratio(1, 8)? { (u.int_in_range(1..=2000_u64)?, u.arbitrary()?) } else { (1, false) };
        let names: usize = event.areas.iter().map(|area| 64 + area.name.len() + area.apart.len()).sum();
        let each = 192 + names + event.text.len() + 32 * event.plan.len();
        for i in 0..times.min(1 + (1 << 20) / each as u64) {
            weight += each;
            let by = if fresh { i } else { 0 };
            let seq = events.len() as u64;
            events.push(Event { seq, pid: pid + by as u32, space: space + by, ..event.clone() });
        }
    }
    Ok(events)
}

/// Modules, stacks and symbols, and perhaps one that is wrong.
fn definitions(u: &mut Unstructured<'_>) -> Result<Vec<Event>> {
    let mut defined: Vec<Event> = Vec::new();
    let modules = u.int_in_range(1..=3_u64)?;
    let define = |kind, args: [u64; 2], text: String| Event {
        kind,
        args: [args[0], args[1], 0, 0, 0, 0],
        text,
        ..file_samples::event(0)
    };
    for number in 0..modules {
        defined.push(define(EventKind::Module, [number, 0], format!("- {}", text(u, 1 << 12)?)));
    }
    for number in 0..u.int_in_range(0..=20_u64)? {
        let mut frames = Vec::new();
        for _ in 0..u.int_in_range(1..=9)? {
            let guess = if u.arbitrary()? { "?" } else { "" };
            frames.push(format!("{guess}{}+{:x}", u.int_in_range(0..=modules - 1)?, number64(u)?));
        }
        defined.push(define(EventKind::Stack, [number, u.int_in_range(0..=2)?], frames.join(" ")));
    }
    for _ in 0..u.int_in_range(0..=20)? {
        let at = number64(u)?;
        let mut symbol = define(EventKind::Symbol, [u.int_in_range(0..=modules - 1)?, at], text(u, 1 << 12)?);
        symbol.args[2] = u.int_in_range(0..=1 << 12)?;
        defined.push(symbol);
    }
    if u.ratio(1, 8)? {
        let kind = *u.choose(&[EventKind::Module, EventKind::Stack, EventKind::Symbol])?;
        defined.push(define(kind, [u.int_in_range(0..=9)?, u.int_in_range(0..=9)?], text(u, 1 << 12)?));
    }
    Ok(defined)
}

/// One of a few addresses, so that symbols are those of frames.
fn number64(u: &mut Unstructured<'_>) -> Result<u64> {
    if u.ratio(1, 4)? { u.arbitrary() } else { u.int_in_range(0..=5) }
}

fn file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let header = Header { gate: text(u, 1 << 16)?, ..file_samples::header() };
    let size = u.int_in_range(1..=500_usize)?;
    let mut events = if u.arbitrary()? { definitions(u)? } else { Vec::new() };
    events.extend(self::events(u)?);
    (0..).zip(&mut events).for_each(|(seq, event)| event.seq = seq);
    let mut file = Vec::new();
    let Ok(mut writer) = TraceWriter::new(&mut file, &header) else { return Ok(file) };
    for batch in events.chunks(size) {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    Ok(file)
}

fn changed(u: &mut Unstructured<'_>, mut file: Vec<u8>) -> Result<Vec<u8>> {
    while !u.is_empty() && file.len() >= 8 {
        let at = u.int_in_range(0..=file.len() - 1)?;
        let end = (at / 8 * 8 + 8).min(file.len());
        match u.int_in_range(0..=3_u8)? {
            0 => file[at] = u.arbitrary()?,
            1 => file[end - 8..end].copy_from_slice(&number(u)?.to_le_bytes()),
            2 => file[end - 4..end].copy_from_slice(&(number(u)? as u32).to_le_bytes()),
            _ => file.truncate(file.len() - at % 64),
        }
    }
    seal::seal(&mut file);
    Ok(file)
}

fn harmless(printed: &[u8]) {
    let text = std::str::from_utf8(printed).expect("what a person reads is text");
    assert!(text.chars().all(|c| c == '\n' || Printable::is_plain(c)), "{text:?}");
}

/// Does all that can be done with a file, within its bound.
fn all(bytes: &[u8]) {
    let kept = MAX_REPLAY_MEMORY + MAX_ORIGINS_MEMORY + MAX_STACKS_MEMORY;
    let documented = (MAX_READER_MEMORY + kept + (16 << 20)) as usize;
    // LZ4 makes 255 bytes of one, and nothing needs more than a few times what it decompresses to.
    // The output counts too.
    let bound = documented.min((24 << 20) + 4096 * bytes.len());
    let held =
        |what: &str, took: usize| assert!(took <= bound, "{what}: {took} bytes of memory for {} of file", bytes.len());
    let ((), took) = peak(|| drop(file_samples::read(bytes).1));
    held("reader", took);
    let ((), took) = peak(|| {
        let Ok(reader) = TraceReader::new(bytes) else { return };
        let (mut replay, mut tally) = (Replay::default(), Tally::default());
        for event in reader.map_while(std::result::Result::ok) {
            tally.add(&event);
            if replay.apply(&event).is_err() {
                break;
            }
        }
        drop(tally.summary());
    });
    held("replay and summary", took);
    for (at, reasons, raw) in [
        ((None, None), false, true),
        ((None, None), true, false),
        ((Some(3), None), true, true),
        ((None, Some(2)), false, false),
    ] {
        let mut out = Vec::new();
        let (said, took) = peak(|| testing::show(bytes, at, reasons, raw, &mut out));
        held("show", took);
        if !raw {
            harmless(&out);
        }
        drop(said);
    }
    for json in [false, true] {
        let mut out = Vec::new();
        let (said, took) = peak(|| testing::events(bytes, json, &mut out));
        held("events", took);
        harmless(&anstream::adapter::strip_bytes(&out).into_vec());
        drop(said);
    }
    let mut out = Vec::new();
    let (said, took) = peak(|| testing::explained(bytes, &mut out));
    held("summary, why and diff", took);
    harmless(&anstream::adapter::strip_bytes(&out).into_vec());
    drop(said);
    let (page, took) = peak(|| testing::page(bytes));
    // What the page shows, and its text, are bounded for themselves.
    assert!(took <= bound + (160 << 20), "page: {took} bytes of memory for {} of file", bytes.len());
    if let Ok(page) = page {
        assert!(page.len() <= 8 << 20, "{} bytes of page", page.len());
        let (head, _) = page.split_once("\n<!--\n").expect("the page's own comment");
        let count = |element: &str| head.matches(element).count();
        assert_eq!((count("<script"), count("</script"), count("<!--")), (2, 2, 0), "names are only text");
    }
    let mut out = Vec::new();
    drop(testing::stacks(bytes, &mut out));
    harmless(&anstream::adapter::strip_bytes(&out).into_vec());
    let dir = std::env::temp_dir().join(format!("samara-fuzz-{}", std::process::id()));
    let (said, took) = peak(|| std::fs::create_dir_all(&dir).map(|()| testing::exported(bytes, &dir)));
    held("export", took);
    drop((said, std::fs::remove_dir_all(&dir)));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let mut u = Unstructured::new(rest);
    let made = match choice % 4 {
        0 => file(&mut u),
        1 => changed(&mut u, RIGHT.clone()),
        2 => Ok(rest.to_vec()),
        _ => {
            // Half of the input makes the file, the other half changes it.
            let (first, second) = rest.split_at(rest.len() / 2);
            file(&mut Unstructured::new(first)).and_then(|file| changed(&mut Unstructured::new(second), file))
        }
    };
    if let Ok(file) = made {
        all(&file);
    }
});
