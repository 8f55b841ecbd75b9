//! The stacks that a trace defines, also where a file defines what cannot be; and traces of the
//! version that had none.

use crate::samples::{event, file, read};
use arrow_ipc::writer::StreamWriter;
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{Frame, Function, Stack, StackEnd, Stacks};

fn defines(kind: EventKind, args: [u64; 2], text: &str) -> Event {
    Event { kind, args: [args[0], args[1], 0, 0, 0, 0], text: text.into(), pid: 7, ..event(0) }
}

fn module(number: u64) -> Event {
    defines(EventKind::Module, [number, 0], "- /usr/lib/lib a.so")
}

#[test]
fn stacks_are_read() {
    let mut stacks = Stacks::default();
    for event in [
        module(0),
        defines(EventKind::Module, [1, 0], "ab12 [anon]"),
        defines(EventKind::Stack, [0, 0], "0+ffffffffffffffff ?1+10"),
        defines(EventKind::Stack, [1, 2], "1+10"),
        defines(EventKind::Symbol, [1, 0x10], "inlined\tb.c:3\nouter"),
        event(1),
    ] {
        stacks.note(&event).unwrap();
    }
    let frames = [Frame { module: 0, at: u64::MAX, guessed: false }, Frame { module: 1, at: 16, guessed: true }];
    assert_eq!(stacks.stack(0), Some(&Stack { frames: frames.to_vec(), end: StackEnd::First }));
    assert_eq!((stacks.len(), stacks.stack(1).unwrap().end, stacks.stack(2)), (2, StackEnd::Lost, None));
    let [file, anon] = frames.map(|frame| stacks.module(&frame).unwrap());
    assert_eq!((file.name.as_str(), &file.build_id), ("/usr/lib/lib a.so", &None));
    assert_eq!((anon.name.as_str(), anon.build_id.as_deref(), anon.pid), ("[anon]", Some("ab12"), 7));
    let function = |name: &str, place: &str| Function { name: name.into(), place: place.into() };
    assert_eq!(stacks.functions(&frames[1]), [function("inlined", "b.c:3"), function("outer", "")]);
    assert_eq!(stacks.shown(&frames[0]).to_string(), "lib a.so+0xffffffffffffffff");
    assert_eq!(stacks.shown(&frames[1]).to_string(), "? inlined at b.c:3 < outer");
    assert_eq!(stacks.names(&frames[1]), ["outer", "inlined"]);
    assert_eq!(frames.map(|frame| stacks.names(&frame).swap_remove(0)), ["lib a.so+0xffffffffffffffff", "outer"]);
}

/// Compiled code that was replaced, in whichever order a file has its names.
#[test]
fn an_address_has_names_one_after_another() {
    let mut stacks = Stacks::default();
    stacks.note(&module(0)).unwrap();
    let symbol = |since: u64, name: &str| {
        let mut event = defines(EventKind::Symbol, [0, 16], name);
        event.args[2] = since;
        event
    };
    for event in [symbol(200, "second"), symbol(300, "overwritten"), symbol(100, "first"), symbol(300, "third")] {
        stacks.note(&event).unwrap();
    }
    let frame = Frame { module: 0, at: 16, guessed: false };
    let at = |ns| stacks.shown_at(&frame, ns).to_string();
    let names = [0, 100, 199, 200, 299, 300, u64::MAX].map(at);
    assert_eq!(names, ["first", "first", "first", "second", "second", "third", "third"]);
    assert_eq!(stacks.functions_at(&frame, 200), [Function { name: "second".into(), place: String::new() }]);
    assert_eq!((stacks.shown(&frame).to_string(), stacks.names(&frame)), ("third".into(), vec!["third".into()]));
    let more = (4..).find(|n| stacks.note(&symbol(n * 100, "more")).is_err());
    assert_eq!(more, Some(65), "64 names");
}

#[test]
fn what_cannot_be_is_refused() {
    let stack = |text: &str| defines(EventKind::Stack, [0, 0], text);
    for (wrong, why) in [
        (module(1), "not the next one"),
        (defines(EventKind::Module, [0, 0], "-"), "without a name"),
        (defines(EventKind::Stack, [1, 0], "0+1"), "not the next one"),
        (defines(EventKind::Stack, [0, 3], "0+1"), "unknown end"),
        (defines(EventKind::Symbol, [1, 0], "f"), "not defined"),
        (defines(EventKind::Symbol, [u64::MAX, 0], "f"), "not defined"),
        (stack(""), "cannot be read"),
        (stack("0+"), "cannot be read"),
        (stack("0+1 "), "cannot be read"),
        (stack("0+1 1+1"), "cannot be read"),
        (stack("4294967296+1"), "cannot be read"),
        (stack("0+10000000000000000"), "cannot be read"),
        (stack("??0+1"), "cannot be read"),
    ] {
        let mut stacks = Stacks::default();
        if !matches!(wrong.kind, EventKind::Module) {
            stacks.note(&module(0)).unwrap();
        }
        let error = stacks.note(&wrong).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("event 0"), "{error}");
    }
    let mut stacks = Stacks::default();
    stacks.note(&module(0)).unwrap();
    let many = |n| vec!["0+1"; n].join(" ");
    assert!(stacks.note(&stack(&many(513))).unwrap_err().to_string().contains("more frames"));
    let name = |n| defines(EventKind::Symbol, [0, 1], &"x".repeat(n));
    stacks.note(&name(4096)).unwrap();
    assert!(stacks.note(&name(4097)).unwrap_err().to_string().contains("longer name"));
    let lines = defines(EventKind::Symbol, [0, 2], &"f\n".repeat(1000));
    stacks.note(&lines).unwrap();
    assert_eq!(stacks.functions(&Frame { module: 0, at: 2, guessed: false }).len(), 64);
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn frames_have_a_limit() {
    let mut stacks = Stacks::default();
    stacks.note(&module(0)).unwrap();
    let most = ["0+1"; 512].join(" ");
    let first = (0..20_000).find(|n| stacks.note(&defines(EventKind::Stack, [*n, 0], &most)).is_err());
    assert_eq!(first, Some(1 << 14), "8 Mi frames");
}

/// A version is what later ones are without their last columns.
#[test]
fn older_versions_are_read() {
    for (version, columns, last) in [("1", 22, "text"), ("2", 23, "stack")] {
        let bytes = file(2, 12);
        let mut reader = arrow_ipc::reader::StreamReader::try_new(bytes.as_slice(), None).unwrap();
        let mut metadata = reader.schema().metadata().clone();
        assert_eq!(metadata.insert("samara.format".to_owned(), version.to_owned()).as_deref(), Some("3"));
        assert_eq!(reader.schema().field(columns - 1).name(), last);
        let fields = reader.schema().fields()[..columns].to_vec();
        let schema = std::sync::Arc::new(arrow_schema::Schema::new_with_metadata(fields, metadata));
        let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
        for batch in &mut reader {
            let columns = batch.unwrap().columns()[..columns].to_vec();
            writer.write(&arrow_array::RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        let (events, error) = read(&writer.into_inner().unwrap());
        assert!(error.is_none(), "{error:?}");
        let stack = |event: &Event| event.stack.filter(|_| version == "2");
        let older = |event: Event| Event { stack: stack(&event), ip: None, resident: None, ..event };
        assert_eq!(events, (0..24).map(|seq| older(event(seq))).collect::<Vec<_>>());
    }
}
