//! `samara trace --stacks`, and the stacks in the output of `samara events`.

use std::process::Command;

use crate::samples::{events, run, said, stderr, stdout, trace, trace_of};
use crate::skip::skipped;
use samara_trace::event::{Event, EventKind};

const PROGRAM: &str = "
#include <sys/mman.h>
__attribute__((noinline)) static void *arena_grow(int n) {
    return mmap(0, n * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline)) static int work(int n) { return arena_grow(n) != 0; }
int main(void) { return work(2) + work(3) - 2; }
";

#[test]
fn each_call_has_its_stack() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), PROGRAM).unwrap();
    let made = Command::new("cc").args(["-g", "-O1", "-o", "a", "a.c"]).current_dir(dir.path()).status();
    if !made.is_ok_and(|made| made.success()) {
        return skipped(format_args!("each_call_has_its_stack: no C compiler (cc)"));
    }
    let output = run(dir.path(), &["trace", "--stacks", "-o", "t.samara", "--", "./a"]);
    assert!(output.status.success(), "{}", said(&output));
    // Its functions are named from the trace alone.
    std::fs::remove_file(dir.path().join("a")).unwrap();
    let lines = stdout(&run(dir.path(), &["events", "t.samara", "--stacks"]));
    let place = "arena_grow at a.c:4";
    let at = lines.find(place).unwrap_or_else(|| panic!("{lines}"));
    let callers: Vec<&str> = lines[at..].lines().skip(1).take(2).map(str::trim).collect();
    assert!(callers[0].starts_with("work at ") && callers[1].starts_with("main at "), "{callers:?}");
    assert_eq!(lines.matches(place).count(), 2, "{lines}");

    let folded = stdout(&run(dir.path(), &["events", "t.samara", "--folded"]));
    let ours: Vec<&str> = folded.lines().filter(|line| line.contains(";main;work;arena_grow;")).collect();
    assert!(matches!(ours[..], [line] if line.ends_with(";mmap 2")), "{folded}");

    let json = stdout(&run(dir.path(), &["events", "t.samara", "--stacks", "--json"]));
    let grows = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let names = |frame: &serde_json::Value| frame["functions"][0]["name"].as_str().map(str::to_owned);
        event["frames"].as_array().is_some_and(|frames| {
            event["stack"].is_u64()
                && event["stack_end"] == "first"
                && frames.iter().any(|frame| names(frame).as_deref() == Some("arena_grow"))
        })
    };
    assert_eq!(json.lines().filter(|line| grows(line)).count(), 2);
    // Definitions are no lines in the text output, and no process.
    let lines = stdout(&run(dir.path(), &["events", "t.samara"]));
    assert!(!lines.contains("arena_grow") && !lines.contains("Stack"), "{lines}");
    let summary = stdout(&run(dir.path(), &["summary", "t.samara"]));
    assert!(summary.contains("1, 1 program"), "{summary}");
    let row = summary.lines().find(|line| line.trim_start().starts_with("stacks ")).unwrap();
    assert!(row.contains(" stacks of ") && row.ends_with(" calls"), "all are whole: {row}");
    assert!(summary.contains("events t.samara --stacks | less"), "{summary}");
    let recorded = stderr(&output);
    assert!(recorded.contains(row), "the same when it is recorded: {recorded}");

    // The last events define names. They have numbers, too.
    let (_, of_trace) = summary.split_once("t.samara (").unwrap();
    let events: u64 = of_trace.split(' ').next().unwrap().parse().unwrap();
    let commands: [&[&str]; 4] = [
        &["show", "t.samara", "--at"],
        &["why", "t.samara", "--at"],
        &["export", "t.samara", "--csv", "c", "--at"],
        &["diff", "t.samara", "--from", "5", "--to"],
    ];
    for command in commands {
        for (number, there) in [(events - 1, true), (events, false)] {
            let output = run(dir.path(), &[command, &[&number.to_string()]].concat());
            let refused = stderr(&output).contains("lower number");
            assert!(refused != there, "{command:?} {number}: {}", said(&output));
        }
    }
}

/// Two source files of one name keep the folder that distinguishes them on each screen, and no
/// more. JSON has the whole names.
#[test]
fn source_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let sources = [
        ("alloc/list.c", "int grow(char *at) { return mprotect(at, 4096, PROT_NONE); }"),
        ("net/list.c", "void *take(void) { return mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }"),
        (
            "main.c",
            "int grow(char *); void *take(void);
             int main(void) {
                 char *at = mmap(0, 4096 << 8, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                 for (int i = 0; i < 128; i++) if (grow(at + 8192 * i)) return 1;
                 return take() != MAP_FAILED;
             }",
        ),
    ];
    let source = dir.path().canonicalize().unwrap().join("proj/src");
    for (name, text) in sources {
        std::fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
        std::fs::write(source.join(name), format!("#include <sys/mman.h>\n{text}\n")).unwrap();
    }
    let files = sources.map(|(name, _)| source.join(name));
    let options = ["-g", "-O1", "-fno-optimize-sibling-calls", "-o", "a"];
    let made = Command::new("cc").args(options).args(files).current_dir(dir.path()).status();
    if !made.is_ok_and(|made| made.success()) {
        return skipped(format_args!("source_files_are_told_apart: no C compiler (cc)"));
    }
    let output = run(dir.path(), &["trace", "--stacks", "-o", "t.samara", "--", "./a"]);
    assert!(output.status.success(), "{}", said(&output));
    let screen = |args: &[&str]| stdout(&run(dir.path(), args));
    let folder = source.to_str().unwrap();
    let (grow, take) = ("grow at alloc/list.c:2", "take at net/list.c:2");
    for (name, screen, told) in [
        ("trace", stderr(&output), [grow, take]),
        ("summary", screen(&["summary", "t.samara"]), [grow, take]),
        ("why", screen(&["why", "t.samara"]), [grow, take]),
        ("events", screen(&["events", "t.samara", "--stacks"]), [grow, take]),
    ] {
        for told in told {
            assert!(screen.contains(&format!("{told}\n")) || screen.contains(&format!("{told}:")), "{name}: {screen}");
        }
        assert!(!screen.contains(folder), "{name}: {screen}");
    }
    assert!(screen(&["events", "t.samara", "--stacks"]).contains("main at main.c:5\n"));
    run(dir.path(), &["report", "t.samara", "-o", "page.html"]);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains(grow) && page.contains("\"net/list.c:2\"") && !page.contains(folder));
    for args in [&["summary", "t.samara", "--json"][..], &["why", "t.samara", "--json"]] {
        let json = screen(args);
        assert!(json.contains(&format!("\"take at {folder}/net/list.c:2\"")), "{json}");
    }
    for args in [&["events", "t.samara", "--stacks", "--json"][..], &["why", "t.samara", "--json"]] {
        let json = screen(args);
        assert!(json.contains(&format!("{folder}/alloc/list.c:2\"")), "{json}");
    }
}

/// Code of a JIT compiler that was replaced: each call has the name of its time, a sum the last.
#[test]
fn a_call_has_the_names_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let call = events().into_iter().find(|event| event.nr == Some(9)).unwrap();
    let define = |kind, args: [u64; 3], text: &str| Event {
        kind,
        nr: None,
        args: [args[0], args[1], args[2], 0, 0, 0],
        text: text.into(),
        plan: vec![],
        window: None,
        areas: vec![],
        ..call.clone()
    };
    let mut all = vec![
        define(EventKind::Module, [0, 0, 0], "- [anon]"),
        define(EventKind::Stack, [0, 0, 0], "0+10"),
        Event { entry_ns: 1_000, exit_ns: 1_000, stack: Some(0), ..call.clone() },
        Event { entry_ns: 3_000, exit_ns: 3_000, stack: Some(0), ..call.clone() },
        define(EventKind::Symbol, [0, 16, 500], "first"),
        define(EventKind::Symbol, [0, 16, 2_000], "second"),
    ];
    all.iter_mut().zip(0..).for_each(|(event, seq)| event.seq = seq);
    trace_of(dir.path(), &all);
    let printed = |how: &[&str]| stdout(&run(dir.path(), &[&["events", "t.samara"], how].concat()));
    let lines = printed(&["--stacks"]);
    let names: Vec<&str> = lines.lines().map(str::trim).filter(|line| ["first", "second"].contains(line)).collect();
    assert_eq!(names, ["first", "second"], "{lines}");
    let json = printed(&["--stacks", "--json"]);
    let name = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["frames"][0]["functions"][0]["name"].as_str().map(str::to_owned)
    };
    assert_eq!(json.lines().filter_map(name).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(printed(&["--folded"]).trim(), "second;mmap 2");
}

#[test]
fn what_has_no_stacks_says_so() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let output = run(dir.path(), &["events", "t.samara", "--folded"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("record it with samara trace --stacks"), "{}", said(&output));
    assert_eq!(stdout(&output), "");

    let mut broken = events();
    (broken[0].kind, broken[0].text) = (EventKind::Stack, "0+1".into());
    trace_of(dir.path(), &broken);
    let output = run(dir.path(), &["events", "t.samara", "--stacks"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("event 0: "), "{}", said(&output));
}

/// A text that a program chose does no harm, and does not break a line for flame graphs.
#[test]
fn hostile_names_are_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = events();
    let first = all[0].clone();
    let of = |kind, args, text: &str| samara_trace::event::Event { kind, args, text: text.into(), ..first.clone() };
    let mut defined = vec![
        of(EventKind::Module, [0; 6], "- /a\u{1b}[31m"),
        of(EventKind::Stack, [0; 6], "0+1 0+2"),
        of(EventKind::Symbol, [0, 1, 0, 0, 0, 0], "f;\u{1b}[31m 7\tx"),
    ];
    // One that is cut off after a guess.
    defined.push(of(EventKind::Stack, [1, 2, 0, 0, 0, 0], "?0+3"));
    let mut calls = all.iter_mut().filter(|event| event.kind == EventKind::Call);
    calls.next().unwrap().stack = Some(0);
    calls.next().unwrap().stack = Some(1);
    defined.extend(all);
    for (seq, event) in (0..).zip(&mut defined) {
        event.seq = seq;
    }
    trace_of(dir.path(), &defined);
    let folded = run(dir.path(), &["events", "t.samara", "--folded"]);
    assert!(folded.status.success(), "{}", said(&folded));
    let folded = stdout(&folded);
    assert!(!folded.contains('\u{1b}') && folded.lines().count() == 2, "{folded:?}");
    let (lost, first) = folded.split_once('\n').unwrap();
    assert!(lost.starts_with("[unknown];? a\\033[31m+0x3;"), "{folded:?}");
    assert!(first.starts_with("a\\033[31m+0x2;f:\\033[31m 7;"), "{folded:?}");
    let lines = stdout(&run(dir.path(), &["events", "t.samara", "--stacks"]));
    assert!(!lines.contains('\u{1b}') && lines.contains("a\\033[31m+0x2"), "{lines:?}");
}

/// Other callers of the function that maps have nothing to do with the areas of one.
#[test]
fn counts_are_those_of_the_stacks_that_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <sys/mman.h>\nvolatile int s;
        __attribute__((noinline)) char *get() { char *p = mmap(0, 8192, 3, 0x22, -1, 0); s++; return p; }
        __attribute__((noinline)) void keeps() { mprotect(get(), 4096, 0); s++; }
        __attribute__((noinline)) void gives_back() { munmap(get(), 8192); s++; }
        int main() { for (int i = 0; i < 300; i++) { if (i % 3) gives_back(); else keeps(); s++; } }";
    std::fs::write(dir.path().join("a.c"), source).unwrap();
    let made = Command::new("cc").args(["-g", "-O1", "-o", "a", "a.c"]).current_dir(dir.path()).status();
    if !made.is_ok_and(|made| made.success()) {
        return skipped("no C compiler (cc)");
    }
    let output = run(dir.path(), &["trace", "--stacks", "-o", "t.samara", "--", "./a"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = stdout(&run(dir.path(), &["why", "t.samara"]));
    assert!(
        text.contains("made by     100 times mmap(") && text.contains("; 100 of 100 mappings still mapped"),
        "{text}"
    );
}
