//! `samara replay` on made-up traces: its output, as text and as JSON.

use samara_mm::Features;
use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::file::Header;

use crate::samples::{assert_documented, header, run, said, stdout, trace, trace_of, trace_with};

const PAGE: u64 = 4096;
const AT: u64 = 0x7f00_0000_0000;

/// A program that maps three stacks with guards, and gives one of them back.
fn stacks() -> Vec<Event> {
    let area = |start: u64, end: u64, perms: u8| {
        let (name, apart) = (String::new(), String::new());
        AreaRecord { start, end, perms, offset: 0, dev: (0, 0), inode: 0, name, apart }
    };
    let mut events: Vec<Event> = Vec::new();
    let mut add = |nr: Option<u32>, args: [u64; 6], result: u64, window: (u64, u64), areas: Vec<AreaRecord>| {
        let step = |kind| Step { kind, start: window.0, end: window.1 };
        let plan = match nr {
            Some(9) => vec![step(StepKind::Mapped)],
            Some(11) => vec![step(StepKind::Unmapped)],
            _ => vec![],
        };
        let seq = events.len() as u64;
        events.push(Event {
            entry_ns: seq,
            exit_ns: seq,
            space: 1,
            pid: 100,
            tid: 100,
            nr,
            args,
            result: result as i64,
            plan,
            window: Some(window),
            areas,
            text: if nr.is_some() { String::new() } else { "/bin/app".into() },
            ..Event::new(seq, if nr.is_some() { EventKind::Call } else { EventKind::Exec })
        });
    };
    add(None, [0; 6], 0, (0, 1 << 63), vec![area(0x40_0000, 0x40_1000, 5)]);
    let (len, guard) = (64 * PAGE, PAGE);
    for i in 0..3 {
        let at = AT - i * len;
        add(Some(9), [at, len, 3, 0x22, u64::MAX, 0], at, (at, at + len), vec![area(at, at + len, 3)]);
        let parts = vec![area(at, at + guard, 0), area(at + guard, at + len, 3)];
        add(Some(10), [at, guard, 0, 0, 0, 0], 0, (at, at + len), parts);
    }
    add(Some(11), [AT, len, 0, 0, 0, 0], 0, (AT, AT + len), vec![]);
    events
}

#[test]
fn as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    trace_of(dir.path(), &stacks());
    insta::assert_snapshot!(said(&run(dir.path(), &["replay", "t.samara"])));
}

#[test]
fn what_differs() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    insta::assert_snapshot!(said(&run(dir.path(), &["replay", "t.samara"])));
}

#[test]
fn by_other_rules() {
    let dir = tempfile::tempdir().unwrap();
    trace_of(dir.path(), &stacks());
    let said = |rule: &str| said(&run(dir.path(), &["replay", "t.samara", "--what-if", rule]));
    insta::assert_snapshot!("replay-limit", said("limit=4"));
    insta::assert_snapshot!("replay-no-guard-pages", said("no-guard-pages"));
    insta::assert_snapshot!("replay-align", said("align=2M"));
}

#[test]
fn as_json() {
    let dir = tempfile::tempdir().unwrap();
    trace_of(dir.path(), &stacks());
    let args = ["replay", "t.samara", "--what-if", "limit=4", "--what-if", "batch=2", "--json"];
    let output = stdout(&run(dir.path(), &args));
    insta::assert_snapshot!(output);
    // Each field is documented.
    let mut open = vec![serde_json::from_str::<serde_json::Value>(&output).unwrap()];
    while let Some(value) = open.pop() {
        if let Some(fields) = value.as_object() {
            assert_documented(&["reference/json.md"], fields.keys());
            open.extend(fields.values().cloned());
        }
        open.extend(value.as_array().into_iter().flatten().cloned());
    }
}

/// MAP_STACK keeps memory apart from 6.7 on: the rules are those of the kernel that was recorded.
/// An old trace has its release only.
#[test]
fn by_the_rules_of_its_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = stacks();
    events.truncate(1);
    for (i, flags) in [(1, 0x32), (2, 0x2_0032)] {
        let area = AreaRecord { start: AT, end: AT + i * PAGE, perms: 3, ..events[0].areas[0].clone() };
        let at = area.end - PAGE;
        events.push(Event {
            seq: i,
            kind: EventKind::Call,
            nr: Some(9),
            args: [at, PAGE, 3, flags, u64::MAX, 0],
            result: at as i64,
            window: Some((AT, area.end)),
            areas: vec![area],
            text: String::new(),
            ..events[0].clone()
        });
    }
    for (features, differs) in
        [(Some(Features::LINUX_6_1), 0), (Some(Features::LINUX_6_18), 1), (None, 0), (Some(Features::LINUX_6_6), 0)]
    {
        trace_with(dir.path(), &Header { features, ..header() }, &events);
        let output = stdout(&run(dir.path(), &["replay", "t.samara", "--json"]));
        let value: serde_json::Value = serde_json::from_str(&output).unwrap();
        assert_eq!(value["agreement"]["others"]["differs"], differs, "{features:?}: {output}");
    }
}

#[test]
fn what_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    trace_of(dir.path(), &stacks());
    insta::assert_snapshot!("replay-no-process", said(&run(dir.path(), &["replay", "t.samara", "--pid", "5"])));
    insta::assert_snapshot!("replay-no-rule", said(&run(dir.path(), &["replay", "t.samara", "--what-if", "guards"])));
    let events = std::fs::read(dir.path().join("t.samara")).unwrap();
    std::fs::write(dir.path().join("t.samara"), &events[..events.len() - 8]).unwrap();
    assert_eq!(run(dir.path(), &["replay", "t.samara"]).status.code(), Some(3));
}

/// Linux's rules give each map the place that Linux gave it, at random places or not.
#[test]
fn by_the_places_of_linux() {
    let dir = tempfile::tempdir().unwrap();
    let has_setarch = std::process::Command::new("setarch").args(["-R", "true"]).status();
    if !has_setarch.is_ok_and(|status| status.success()) {
        return crate::skip::skipped("setarch -R does not work here");
    }
    let words = ["setarch", "-R", env!("CARGO_BIN_EXE_samara"), "trace", "--quiet", "-o", "fixed.samara", "--", "true"];
    let fixed = std::process::Command::new(words[0]).args(&words[1..]).current_dir(dir.path()).output().unwrap();
    assert!(fixed.status.success(), "{}", said(&fixed));
    let random = run(dir.path(), &["trace", "--quiet", "-o", "random.samara", "--", "true"]);
    assert!(random.status.success(), "{}", said(&random));
    for trace in ["fixed.samara", "random.samara"] {
        let output = run(dir.path(), &["replay", trace, "--what-if", "policy=linux"]);
        let told = stdout(&output);
        let line = told.lines().find(|line| line.ends_with("lie elsewhere")).unwrap_or_else(|| panic!("{told}"));
        assert!(line.starts_with("0 of ") && !line.starts_with("0 of 0 "), "{trace}: {line}");
    }
}
