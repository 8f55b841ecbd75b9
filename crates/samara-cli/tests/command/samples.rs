//! Runs the command, and writes made-up traces for it to read.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use samara_mm::{Features, FlagChange};
use samara_trace::event::{AreaRecord, Event, EventKind, Resident, Step, StepKind};
use samara_trace::file::{Header, TraceWriter};

/// A page of the book.
pub(crate) fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asserts that one of these pages of the book has each of the names as code.
pub(crate) fn assert_documented<N: std::fmt::Display>(pages: &[&str], names: impl IntoIterator<Item = N>) {
    let text: String = pages.iter().map(|name| page(name)).collect();
    for name in names {
        assert!(text.contains(&format!("`{name}`")), "{pages:?} do not document {name}");
    }
}

/// The command, with no terminal and a plain environment.
pub(crate) fn samara() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_samara"));
    command.stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// Runs it in `dir` with these arguments.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    samara().current_dir(dir).args(args).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The output of the command, as one text for a snapshot.
pub(crate) fn said(output: &Output) -> String {
    format!("exit code: {:?}\n--- stdout\n{}--- stderr\n{}", output.status.code(), stdout(output), stderr(output))
}

fn area(start: u64, end: u64, perms: u8, name: &str, apart: &str) -> AreaRecord {
    let inode = if name.starts_with('/') { 1234 } else { 0 };
    let dev = if name.starts_with('/') { (8, 1) } else { (0, 0) };
    AreaRecord { start, end, perms, offset: 0, dev, inode, name: name.into(), apart: apart.into() }
}

fn step(kind: StepKind, start: u64, end: u64) -> Step {
    Step { kind, start, end }
}

/// Two processes: 100 loads a program, maps, protects the middle and fails once; its child 101
/// unmaps the end of the heap; something goes wrong; both end.
pub(crate) fn events() -> Vec<Event> {
    use EventKind as K;
    let blank = Event { space: 1, pid: 100, tid: 100, ..Event::new(0, K::Call) };
    let text = || area(0x40_0000, 0x40_2000, 0b101, "/bin/prog", "");
    let heap = |end| area(0x60_0000, end, 0b011, "[heap]", "");
    let base = 0x7f00_0000_0000;
    let whole = Some((0, 1 << 47));
    let mut events = vec![
        Event {
            kind: K::Exec,
            window: whole,
            areas: vec![text(), heap(0x62_1000)],
            text: "/bin/prog".into(),
            ..blank.clone()
        },
        Event {
            nr: Some(9),
            args: [0, 0x3000, 3, 0x22, u64::MAX, 0],
            result: base as i64,
            plan: vec![step(StepKind::Mapped, base, base + 0x3000)],
            window: Some((base, base + 0x3000)),
            areas: vec![area(base, base + 0x3000, 3, "", "")],
            ip: Some(0x40_1234),
            ..blank.clone()
        },
        Event {
            nr: Some(10),
            args: [base + 0x1000, 0x1000, 1, 0, 0, 0],
            overlapped: true,
            tid: 103,
            plan: vec![
                step(StepKind::Split, base + 0x1000, base + 0x1000),
                step(StepKind::Split, base + 0x2000, base + 0x2000),
                step(StepKind::Changed(FlagChange::default()), base + 0x1000, base + 0x2000),
            ],
            window: Some((base, base + 0x3000)),
            areas: vec![
                area(base, base + 0x1000, 3, "", ""),
                area(base + 0x1000, base + 0x2000, 1, "", "protection"),
                area(base + 0x2000, base + 0x3000, 3, "", "protection+anonymous-identity"),
            ],
            ..blank.clone()
        },
        Event { nr: Some(11), args: [7, 1, 0, 0, 0, 0], result: -22, ip: Some(base + 0x20), ..blank.clone() },
        Event {
            kind: K::Fork,
            space: 2,
            pid: 101,
            tid: 101,
            args: [1, 0, 0, 0, 0, 0],
            window: whole,
            areas: vec![text(), heap(0x62_1000)],
            ..blank.clone()
        },
        Event {
            space: 2,
            pid: 101,
            tid: 101,
            nr: Some(11),
            args: [0x62_0000, 0x1000, 0, 0, 0, 0],
            plan: vec![step(StepKind::Unmapped, 0x62_0000, 0x62_1000)],
            window: Some((0x62_0000, 0x62_1000)),
            ip: Some(0x40_1240),
            resident: Some(Resident {
                private: 0x9000,
                files: 0x2_0000,
                private_change: -0x1000,
                files_change: 0x2000,
            }),
            ..blank.clone()
        },
        Event {
            kind: K::Difference,
            space: 2,
            pid: 101,
            tid: 101,
            window: Some((0x70_0000, 0x70_1000)),
            areas: vec![area(0x70_0000, 0x70_1000, 1, "/tmp/a\\012b\x1b[31m", "")],
            text: "an area that nobody \x1b[31mmapped".into(),
            ..blank.clone()
        },
        Event { kind: K::Exit, space: 2, pid: 101, tid: 101, result: 9, ..blank.clone() },
        Event {
            kind: K::Learnt,
            window: Some((0x7ffd_0000_0000, 0x7ffd_0002_0000)),
            areas: vec![area(0x7ffd_0000_0000, 0x7ffd_0002_0000, 3, "[stack]", "")],
            text: "the stack grew".into(),
            ..blank.clone()
        },
        Event { kind: K::Checked, ..blank.clone() },
        Event { kind: K::Exit, result: 3 << 8, ..blank },
    ];
    for (seq, event) in (0..).zip(&mut events) {
        event.seq = seq;
        event.entry_ns = seq * 1_000_000;
        event.exit_ns = seq * 1_000_000 + 1_500;
    }
    events
}

/// Writes a trace of [`events`], two a batch, and gives its path and its bytes.
pub(crate) fn trace(dir: &Path) -> (PathBuf, Vec<u8>) {
    trace_of(dir, &events())
}

/// [`trace`] of these events.
pub(crate) fn trace_of(dir: &Path, events: &[Event]) -> (PathBuf, Vec<u8>) {
    trace_with(dir, &header(), events)
}

pub(crate) fn header() -> Header {
    Header {
        program: "prog".into(),
        args: vec![],
        args_left_out: 0,
        kernel: "6.1.0".into(),
        profile: "6.1 +seals".into(),
        features: Some(Features::LINUX_6_1 | Features::SEALS),
        presumed: Features::REMAP_NEEDS_FOUR | Features::LIMIT_IS_EAGAIN,
        arch: "x86_64".into(),
        page_size: 4096,
        start_time: "2026-01-02T03:04:05.678Z".into(),
        recorder: "0.1.0".into(),
        max_map_count: None,
        overcommit: None,
        limits: [].into(),
        gate: "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]".into(),
    }
}

/// [`trace_of`] with this header.
pub(crate) fn trace_with(dir: &Path, header: &Header, events: &[Event]) -> (PathBuf, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, header).unwrap();
    for batch in events.chunks(2) {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    let path = dir.join("t.samara");
    std::fs::write(&path, &bytes).unwrap();
    (path, bytes)
}
