//! A small trace in the protocol buffer formats, read with the same messages that wrote it.

use std::path::Path;

use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::file::{Header, TraceWriter};

use crate::commands::testing;

fn area(start: u64, end: u64, perms: u8) -> AreaRecord {
    AreaRecord { start, end, perms, offset: 0, dev: (0, 0), inode: 0, name: String::new(), apart: String::new() }
}

/// A program with one area maps four pages, in `grow`, which is inlined into `main`, and protects
/// the second of them.
fn trace() -> Vec<u8> {
    let blank = Event { space: 1, pid: 7, tid: 7, ..Event::new(0, EventKind::Call) };
    let step = |kind, start, end| Step { kind, start, end };
    let define = |kind, at, text: &str| Event { kind, args: [0, at, 0, 0, 0, 0], text: text.into(), ..blank.clone() };
    let mut events = vec![
        define(EventKind::Module, 0, "ab /bin/x"),
        define(EventKind::Stack, 0, "0+10"),
        Event {
            kind: EventKind::Exec,
            text: "/bin/x".into(),
            window: Some((0, 1 << 47)),
            areas: vec![area(0x1000, 0x2000, 5)],
            ..blank.clone()
        },
        Event {
            nr: Some(9),
            args: [0, 0x4000, 3, 0x22, 0, 0],
            stack: Some(0),
            plan: vec![step(StepKind::Mapped, 0x10000, 0x14000)],
            window: Some((0x10000, 0x14000)),
            areas: vec![area(0x10000, 0x14000, 3)],
            ..blank.clone()
        },
        Event {
            nr: Some(10),
            args: [0x11000, 0x1000, 0, 0, 0, 0],
            plan: vec![
                step(StepKind::Split, 0x11000, 0x11000),
                step(StepKind::Split, 0x12000, 0x12000),
                step(StepKind::Changed(samara_mm::FlagChange::default()), 0x11000, 0x12000),
            ],
            window: Some((0x11000, 0x12000)),
            areas: vec![area(0x10000, 0x11000, 3), area(0x11000, 0x12000, 0), area(0x12000, 0x14000, 3)],
            ..blank.clone()
        },
        Event { kind: EventKind::Exit, ..blank.clone() },
        define(EventKind::Symbol, 0x10, "grow\ta.c:4\nmain\ta.c:9"),
    ];
    for (event, seq) in events.iter_mut().zip(0..) {
        (event.seq, event.entry_ns, event.exit_ns) = (seq, seq * 1000, seq * 1000 + 100);
    }
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, &Header::new("/bin/x".as_ref(), &[])).unwrap();
    writer.write(&events).unwrap();
    writer.finish().unwrap();
    bytes
}

/// The bytes of the file with this ending.
fn exported(ending: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    testing::exported(&*trace(), dir.path()).unwrap();
    std::fs::read(dir.path().join(Path::new("t").with_extension(ending))).unwrap()
}

#[test]
fn a_profile_has_each_process_and_stack() {
    let profile = super::pprof::tests::read(&exported("pprof"));
    let [exec, mmap, mprotect] = &profile[..] else { panic!("{profile:?}") };
    // The areas of a program's start, and its time.
    assert_eq!(
        (&*exec.stack, &exec.values[..5]),
        (&["the start of the program:0".to_owned()][..], &[1, 0x1000, 0, 0, 0][..])
    );
    // The mapping is three areas now, and all belong to the call that mapped it.
    assert_eq!(mmap.stack, ["mmap:0", "grow:4", "main:9"]);
    assert_eq!(mmap.values, [3, 0x4000, 1, 0x4000, 0, 1, 100, 0, 0]);
    assert_eq!(mprotect.stack, ["mprotect(0x11000, 4096, PROT_NONE):0"]);
    assert_eq!(mprotect.values, [0, 0, 0, 0, 2, 1, 100, 0, 0]);
    assert!(profile.iter().all(|sample| sample.pid == 7 && sample.process == "/bin/x"), "{profile:?}");
}

#[test]
fn perfetto_gets_slices_counters_and_the_areas_at_the_end() {
    let told = super::perfetto::tests::read(&exported("perfetto"));
    assert_eq!(told.slices, [("mmap", 3000, 3100), ("mprotect", 4000, 4100)].map(|(n, b, e)| (n.to_owned(), b, e)));
    assert_eq!(told.instants, ["exec", "exit"]);
    assert_eq!(told.counters["areas"], [1, 2, 4, 0]);
    assert_eq!(told.counters["mapped bytes"], [0x1000, 0x5000, 0]);
    assert_eq!(
        told.heap,
        [
            (vec!["the start of the program".to_owned()], 1, 0x1000),
            (vec!["main".to_owned(), "grow".to_owned(), "mmap".to_owned()], 3, 0x4000)
        ]
    );
    assert_eq!(told.listed, [(0x1000, 4, 5), (0x10000, 4, 6), (0x11000, 4, 0), (0x12000, 8, 6)]);
}
