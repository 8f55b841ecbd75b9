//! `samara show` and `samara events` on made-up traces: their output, and their messages on damaged
//! ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use samara_record::Options;
use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::file::{Header, TraceWriter};

use crate::samples::{assert_documented, events, run, said, samara, stderr, stdout, trace, trace_of};
use crate::skip::skipped;

#[test]
fn events_as_lines() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    insta::assert_snapshot!(said(&run(dir.path(), &["events", "t.samara"])));
    let callers = stdout(&run(dir.path(), &["events", "t.samara", "--callers"]));
    let from: Vec<&str> = callers.lines().filter_map(|line| line.split_once(" from ")).map(|(_, from)| from).collect();
    assert_eq!(from, ["prog+0x1234", "[anon]+0x7f0000000020", "prog+0x1240"]);
}

#[test]
fn events_as_json() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let output = run(dir.path(), &["events", "--json", "t.samara"]);
    assert!(output.status.success());
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), events().len());
    for (line, event) in lines.iter().zip(events()) {
        assert_eq!(line["seq"], event.seq);
        assert_eq!(line["args"], serde_json::json!(event.args));
        assert_eq!(line["areas"].as_array().unwrap().len(), event.areas.len());
    }
    assert_documented(&["reference/json.md"], lines[2].as_object().unwrap().keys());
    // One in full.
    insta::assert_snapshot!(format!("{:#}", lines[2]));
    assert_eq!((&lines[3]["error"], &lines[3]["call"]), (&"EINVAL".into(), &"munmap".into()));
}

#[test]
fn times_of_day() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    // The recording began at 2026-01-02T03:04:05.678Z.
    let printed = |args: &[&str]| {
        let output = run(dir.path(), args);
        assert!(output.status.success(), "{}", said(&output));
        stdout(&output)
    };
    for (clock, since) in
        [("2026-01-02T03:04:05.682Z", "4ms"), ("2026-01-02 03:04:06", "322ms"), ("2025-01-01T00:00:00Z", "0ns")]
    {
        if since != "0ns" {
            let show = |at| printed(&["show", "t.samara", "--at", at]);
            assert_eq!(show(clock), show(since));
        }
        for side in ["--from", "--to"] {
            let events = |at| printed(&["events", "t.samara", side, at]);
            assert_eq!(events(clock), events(since), "{side} {clock}");
        }
    }
    let events = printed(&["events", "t.samara", "--clock"]);
    let times: Vec<&str> = events.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let since = printed(&["events", "t.samara"]);
    let seconds = |text: &str| text.rsplit(':').next().unwrap().parse::<f64>().unwrap();
    for (clock, line) in times.iter().zip(since.lines()) {
        assert!(clock.starts_with("03:04:0"), "{clock}");
        let since: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!((seconds(clock) - 5.678 - since).abs() < 1e-5, "{clock} {line}");
    }
    assert_eq!(times.len(), since.lines().count());
    // A trace without its start time.
    let (path, bytes) = trace(dir.path());
    let mut reader = samara_trace::file::TraceReader::new(&*bytes).unwrap();
    let header = Header { start_time: "yesterday".into(), ..reader.header().clone() };
    let events: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), &header).unwrap();
    writer.write(&events).unwrap();
    writer.finish().unwrap();
    for args in [&["events", "t.samara", "--clock"][..], &["show", "t.samara", "--at", "2026-01-02 03:04:06"]] {
        let output = run(dir.path(), args);
        assert!(
            !output.status.success() && stderr(&output).contains("does not say when it began"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn show_at_moments() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut all = String::new();
    for args in [
        &["show", "t.samara"][..],
        &["show", "t.samara", "--reasons"],
        &["show", "t.samara", "--at", "0"],
        &["show", "t.samara", "--at", "1.0015ms"],
        &["show", "t.samara", "--at", "1001us"],
        &["show", "t.samara", "--at", "1h"],
        &["show", "t.samara", "--at", "99s"],
        &["show", "t.samara", "--at", "1ns"],
        &["show", "t.samara", "--at", "10"],
        &["show", "t.samara", "--at", "11"],
        &["show", "t.samara", "--pid", "101", "--at", "5"],
        &["show", "t.samara", "--pid", "101", "--at", "4"],
        &["show", "t.samara", "--pid", "101"],
        &["show", "t.samara", "--pid", "101", "--at", "3"],
        &["show", "t.samara", "--pid", "7"],
    ] {
        all.push_str(&format!("$ samara {}\n{}\n", args.join(" "), said(&run(dir.path(), args))));
    }
    insta::assert_snapshot!(all);
}

/// A name with control characters is escaped, in a pipe too, unless the kernel's bytes are asked
/// for.
#[test]
fn maps_are_shown_to_the_byte_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let output = run(dir.path(), &["show", "t.samara", "--pid", "101"]);
    assert!(stdout(&output).contains("/tmp/a\\012b\\033[31m\n"), "{}", said(&output));
    let output = run(dir.path(), &["show", "t.samara", "--pid", "101", "--raw"]);
    assert!(stdout(&output).contains("/tmp/a\\012b\x1b[31m\n"), "{}", said(&output));
}

/// A recorder that is killed before it has written its header leaves an empty file, or a part of a
/// header: every command that reads a trace says that it ends early.
#[test]
fn a_trace_without_its_header_ends_early() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = trace(dir.path());
    std::fs::copy(&path, dir.path().join("whole.samara")).unwrap();
    let header = (8..bytes.len()).find(|at| bytes[*at..*at + 4] == [0xff; 4]).unwrap();
    for cut in [0, 3, 8, header - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        for args in [
            &["show", "t.samara"][..],
            &["show", "t.samara", "--at", "peak"],
            &["events", "t.samara"],
            &["events", "t.samara", "--stacks"],
            &["summary", "t.samara"],
            &["who", "t.samara", "600000"],
            &["why", "t.samara"],
            &["diff", "whole.samara", "t.samara"],
            &["diff", "t.samara", "--from", "1"],
            &["report", "t.samara"],
            &["report", "t.samara", "whole.samara", "--json"],
            &["export", "t.samara", "--csv"],
            &["export", "t.samara", "--folded"],
            &["replay", "t.samara"],
        ] {
            let output = run(dir.path(), args);
            assert_eq!((output.status.code(), &*stdout(&output)), (Some(3), ""), "{args:?}: {}", said(&output));
            assert!(stderr(&output).contains("ends early, at byte 0 after 0 events"), "{args:?}: {}", said(&output));
        }
    }
    assert!(!dir.path().join("report.html").exists());
}

#[test]
fn a_trace_that_ends_early_gives_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = trace(dir.path());
    std::fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let output = run(dir.path(), &["events", "t.samara"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(stdout(&output).lines().count(), 6, "{}", said(&output));
    assert!(stderr(&output).contains("the file ends early, at byte "), "{}", said(&output));
    assert!(stderr(&output).contains("after 6 events"), "{}", said(&output));

    // The last state that is known, and the error.
    let output = run(dir.path(), &["show", "t.samara"]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(3), 6), "{}", said(&output));
    // A moment before the end is not concerned.
    let output = run(dir.path(), &["show", "t.samara", "--at", "2"]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(0), 6), "{}", said(&output));
    // No whole batch: the damage, and nothing else.
    let header = (8..bytes.len()).find(|at| bytes[*at..*at + 4] == [0xff; 4]).unwrap();
    std::fs::write(dir.path().join("h.samara"), &bytes[..header + 20]).unwrap();
    let output = run(dir.path(), &["show", "h.samara"]);
    assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(3), 1), "{}", said(&output));
    // A moment after it cannot be shown.
    let output = run(dir.path(), &["show", "t.samara", "--at", "9"]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(3), 0), "{}", said(&output));
}

#[test]
fn a_damaged_trace_is_reported_with_its_offset() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut bytes) = trace(dir.path());
    let at = bytes.len() / 2;
    bytes[at] ^= 0x10;
    std::fs::write(&path, &bytes).unwrap();
    let output = run(dir.path(), &["events", "--json", "t.samara"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let text = stderr(&output);
    let offset: usize = text.split("at byte ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(offset <= at && at - offset < 8192, "{text}");
    assert!(text.contains("checksum"), "{text}");
    assert_eq!(stdout(&output).lines().count() % 2, 0);
}

/// Hostile files under a limit on memory: every number of a batch replaced by large ones, with
/// right checksums, and a batch that decompresses to a hundred times its size.
#[test]
fn memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (_, plain) = trace(dir.path());
    let text = "x".repeat(100 << 20);
    let bomb = vec![samara_trace::event::Event { text, ..events().remove(0) }];
    let header = Options::new("x").header();
    let mut writer = samara_trace::file::TraceWriter::new(Vec::new(), &header).unwrap();
    writer.write(&bomb).unwrap();
    writer.finish().unwrap();
    let bomb = std::mem::take(writer.output());
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    let limited = |bytes: &[u8]| {
        std::fs::write(dir.path().join("h.samara"), bytes).unwrap();
        let script = format!("ulimit -v 700000; exec {} show h.samara", env!("CARGO_BIN_EXE_samara"));
        std::process::Command::new("bash").current_dir(dir.path()).args(["-c", &script]).output().unwrap()
    };
    assert_eq!(limited(&bomb).status.code(), Some(0));
    // Where the first batch starts: its marker follows the header's.
    let start = (8..plain.len()).find(|at| plain[*at..*at + 4] == [0xff; 4]).unwrap();
    let mut codes = std::collections::BTreeMap::new();
    for (bytes, step) in [(&plain, 24), (&bomb, 24)] {
        let start = if std::ptr::eq(bytes, &plain) {
            start
        } else {
            (8..bomb.len()).find(|at| bomb[*at..*at + 4] == [0xff; 4]).unwrap()
        };
        for at in (start + 8..start + 1600).step_by(step) {
            let mut bad = bytes.clone();
            bad[at..at + 8].copy_from_slice(&(1i64 << 40).to_le_bytes());
            crate::seal::seal(&mut bad);
            let output = limited(&bad);
            assert!(matches!(output.status.code(), Some(0 | 3)), "byte {at}: {}", said(&output));
            *codes.entry(output.status.code()).or_insert(0) += 1;
        }
    }
    assert!(codes[&Some(3)] > 20, "{codes:?}");
}

#[test]
fn files_that_are_no_traces() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), "The quick brown fox jumps over the lazy dog.\n").unwrap();
    let mut all = String::new();
    for file in ["text", "missing", "."] {
        let output = run(dir.path(), &["show", file]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{file}");
        all.push_str(&said(&output));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let header = Options::new("x").header();
    let mut bytes = Vec::new();
    let mut writer = samara_trace::file::TraceWriter::new(&mut bytes, &header).unwrap();
    // More than a pipe holds.
    let event = events().remove(1);
    let many: Vec<_> = (0..5000).map(|seq| samara_trace::event::Event { seq, ..event.clone() }).collect();
    writer.write(&many).unwrap();
    writer.finish().unwrap();
    std::fs::write(dir.path().join("t.samara"), &bytes).unwrap();
    let mut child = samara()
        .current_dir(dir.path())
        .args(["events", "t.samara"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    // The pipe is closed here.
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn a_full_output_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = samara().current_dir(dir.path()).args(["events", "t.samara"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("No space left"), "{}", said(&output));
}

/// Colours are for terminals; `CLICOLOR_FORCE` asks for them, `NO_COLOR` forbids them.
#[test]
fn colours_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let coloured = |set: &[(&str, &str)]| {
        let output =
            samara().current_dir(dir.path()).args(["events", "t.samara"]).envs(set.iter().copied()).output().unwrap();
        stdout(&output).contains('\x1b')
    };
    assert!(!coloured(&[]));
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "0")]));
}

/// On a terminal (made by `script`) there are colours, unless `NO_COLOR` is set, and names cannot
/// command it.
#[test]
fn a_terminal_gets_colours_and_no_commands() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let on_terminal = |args: &str, no_color: bool| {
        let mut command = std::process::Command::new("script");
        command.current_dir(dir.path()).stdin(Stdio::null()).env("TERM", "xterm").env_remove("NO_COLOR");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        command.args(["-qec", &format!("{} {args}", env!("CARGO_BIN_EXE_samara")), "/dev/null"]).output()
    };
    match on_terminal("events t.samara", false) {
        Ok(output) => assert!(stdout(&output).contains("\x1b["), "{}", said(&output)),
        Err(error) => return skipped(format_args!("`script` (util-linux) cannot be run: {error}")),
    }
    for (args, shown) in [("events t.samara", "mmap(NULL"), ("show t.samara --pid 101", "/tmp/a\\012b\\033[31m")] {
        let output = on_terminal(args, true).unwrap();
        assert!(stdout(&output).contains(shown) && !stdout(&output).contains('\x1b'), "{}", said(&output));
    }
}

#[test]
fn the_summary_again() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    insta::assert_snapshot!(
        said(&run(dir.path(), &["summary", "t.samara"])).replace(env!("CARGO_BIN_EXE_samara"), "samara")
    );
    // A trace that ends early.
    let whole = std::fs::read(dir.path().join("t.samara")).unwrap();
    std::fs::write(dir.path().join("cut.samara"), &whole[..whole.len() - 20]).unwrap();
    let output = run(dir.path(), &["summary", "cut.samara"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("the trace ends early"), "{}", said(&output));
}

/// A part of the trace. Figures about areas cover the processes and the time, whatever the other
/// selections.
#[test]
fn the_summary_of_a_part() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut all = String::new();
    for args in [
        &["--pid", "101"][..],
        &["--call", "mprotect", "--call", "munmap", "--name", "heap"],
        &["--from", "3"],
        &["--from", "1", "--to", "3", "--tid", "100"],
        &["--failed"],
        &["--to", "peak"],
    ] {
        let args: Vec<_> = ["summary", "t.samara"].iter().chain(args).copied().collect();
        let output = run(dir.path(), &args);
        all += &format!(
            "$ samara {}\n{}\n",
            args.join(" "),
            said(&output).replace(env!("CARGO_BIN_EXE_samara"), "samara")
        );
    }
    insta::assert_snapshot!(all);
    let of = |args: &[&str]| -> serde_json::Value {
        let args: Vec<_> = ["summary", "t.samara", "--json"].iter().chain(args).copied().collect();
        serde_json::from_str(&stdout(&run(dir.path(), &args))).unwrap()
    };
    assert_eq!(of(&[])["only"], serde_json::Value::Null);
    let some = of(&["--from", "1", "--to", "20ms", "--pid", "101", "--call", "mmap", "--name", "a"]);
    let only = serde_json::json!({
        "pid": [101], "tid": [], "call": ["mmap"], "name": ["a"], "failed": false, "from": {"event": 1},
        "to": {"ns": 20_000_000},
    });
    assert_eq!(some["only"], only);
    // The events of each process are all events.
    let counted = |args: &[&str]| of(args)["events"].as_u64().unwrap();
    assert_eq!(counted(&["--pid", "100"]) + counted(&["--pid", "101"]), counted(&[]));
    assert_eq!(counted(&["--to", "4"]) + counted(&["--from", "5"]), counted(&[]));
    assert_eq!(of(&["--pid", "101"])["events_in_file"], of(&[])["events_in_file"]);
    // The first of several processes is the first of the trace.
    let both = run(dir.path(), &["summary", "t.samara", "--pid", "101", "--pid", "100"]);
    let first = "samara: processes 101 or 100 of prog: the first, 100, ended with 3";
    assert!(stdout(&both).starts_with(first), "{}", said(&both));
    assert_eq!(
        (&of(&["--pid", "101", "--pid", "100"])["exit_code"], &of(&["--pid", "101"])["exit_code"]),
        (&3.into(), &137.into())
    );
    // A missing process or time is an error.
    for (args, why) in [
        (&["--pid", "7"][..], "no event of process 7"),
        (&["--pid", "101", "--to", "1"], "no event of process 101"),
        (&["--from", "5", "--to", "3"], "--from is after --to"),
        (&["--from", "2s", "--to", "1s"], "--from is after --to"),
    ] {
        let args: Vec<_> = ["summary", "t.samara"].iter().chain(args).copied().collect();
        let output = run(dir.path(), &args);
        assert!(output.status.code() == Some(1) && said(&output).contains(why), "{}", said(&output));
    }
    let limits = ["summary", "t.samara", "--pid", "101", "--fail-if", "calls.mmap.count > 9"];
    assert_eq!(run(dir.path(), &limits).status.code(), Some(0));
}

/// Times in a file may be in any order: a part begins once, and ends once, so no event is applied
/// after one that was left out.
#[test]
fn a_part_of_a_trace_with_times_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = crate::samples::events();
    let times = [10, 20, 50, 30, 40, 90, 60, 70, 80, 100, 110];
    all.iter_mut().zip(times).for_each(|(event, ns)| (event.entry_ns, event.exit_ns) = (ns, ns));
    crate::samples::trace_of(dir.path(), &all);
    let of = |args: &[&str]| -> serde_json::Value {
        let args: Vec<_> = ["summary", "t.samara", "--json"].iter().chain(args).copied().collect();
        serde_json::from_str(&stdout(&run(dir.path(), &args))).unwrap()
    };
    // Up to the first event that is later; from the first one that is not earlier.
    for (args, events) in
        [(["--to", "45ns"], 2), (["--to", "85ns"], 5), (["--from", "45ns"], 9), (["--from", "85ns"], 6)]
    {
        assert_eq!(of(&args)["events"], events, "{args:?}");
    }
    // The skipped time ends where the part begins.
    assert_eq!(of(&["--from", "45ns"])["from_ns"], 20);
}

#[test]
fn who_had_an_address() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut all = String::new();
    for args in [
        &["who", "t.samara", "7f0000001000"][..],
        &["who", "t.samara", "0x7f0000001000", "--at", "1"],
        &["who", "t.samara", "620000", "--pid", "101"],
        &["who", "t.samara", "1000"],
        &["who", "t.samara", "620000", "--pid", "7"],
        &["who", "t.samara", "g"],
    ] {
        all += &format!("$ samara {}\n{}\n", args.join(" "), said(&run(dir.path(), args)));
    }
    insta::assert_snapshot!(all);
    let output = run(dir.path(), &["who", "t.samara", "7f0000001000", "--json"]);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["event"]["call"], &lines[0]["area"]["start"]),
        (&"mmap".into(), &0x7f00_0000_0000_u64.into())
    );
    assert_eq!(lines[1]["area"]["perms"], "r--p");
    // A trace that ends early.
    let whole = std::fs::read(dir.path().join("t.samara")).unwrap();
    std::fs::write(dir.path().join("cut.samara"), &whole[..whole.len() - 20]).unwrap();
    assert_eq!(run(dir.path(), &["who", "cut.samara", "7f0000001000"]).status.code(), Some(3));
}

#[test]
fn why_and_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut all = String::new();
    for args in [
        &["why", "t.samara"][..],
        &["why", "t.samara", "--at", "0"],
        &["why", "t.samara", "--pid", "101"],
        &["why", "t.samara", "--folded", "--by", "calls"],
        &["why", "t.samara", "--folded", "--by", "populated"],
        &["why", "t.samara", "--pid", "7"],
        &["why", "t.samara", "--at", "999"],
        &["why", "t.samara", "--by", "calls"],
        &["diff", "t.samara", "--from", "0"],
        &["diff", "t.samara", "--from", "0", "--fail"],
        &["diff", "t.samara", "t.samara"],
        &["diff", "t.samara", "none.samara"],
    ] {
        all += &format!("$ samara {}\n{}\n", args.join(" "), said(&run(dir.path(), args)));
    }
    insta::assert_snapshot!(all);
    for args in [&["why", "t.samara", "--json"][..], &["diff", "t.samara", "--from", "0", "--json"]] {
        let json: serde_json::Value = serde_json::from_str(&stdout(&run(dir.path(), args))).unwrap();
        assert_eq!(json["format"], 1, "{args:?}");
    }
    // Two moments of one trace: it is read twice.
    let pipe = run(dir.path(), &["diff", "/dev/null", "--from", "0"]);
    assert!(!pipe.status.success() && stderr(&pipe).contains("is read twice, so it must be a file"), "{}", said(&pipe));
    // A trace that ends early is printed as far as possible, with a message.
    let whole = std::fs::read(dir.path().join("t.samara")).unwrap();
    std::fs::write(dir.path().join("cut.samara"), &whole[..whole.len() - 20]).unwrap();
    for args in [&["why", "cut.samara"][..], &["diff", "t.samara", "cut.samara"]] {
        let output = run(dir.path(), args);
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(stdout(&output).contains(" areas "), "{}", said(&output));
    }
}

/// A process that the trace has not is no success; a trace that ends before its stacks is damaged.
#[test]
fn events_say_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let events = |args: &[&str]| run(dir.path(), &[&["events"], args].concat());
    assert!(events(&["t.samara", "--pid", "101"]).status.success());
    let output = events(&["t.samara", "--pid", "101", "--pid", "7"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("has no event of process 7"), "{}", said(&output));
    assert_eq!(events(&["t.samara", "--stacks"]).status.code(), Some(1), "it has none");
    let whole = std::fs::read(dir.path().join("t.samara")).unwrap();
    std::fs::write(dir.path().join("cut.samara"), &whole[..whole.len() - 20]).unwrap();
    for args in [&["cut.samara", "--stacks"][..], &["cut.samara", "--folded"], &["cut.samara", "--pid", "7"]] {
        assert_eq!(events(args).status.code(), Some(3), "{args:?}");
    }
}

/// A child that shares its parent's areas has no history after its end, whatever the parent does.
#[test]
fn a_child_s_history_ends_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let [load, map] = [0, 1].map(|i| events()[i].clone());
    let child =
        |kind| Event { kind, pid: 200, tid: 200, window: None, areas: vec![], text: String::new(), ..load.clone() };
    let all = [load.clone(), child(EventKind::Share), child(EventKind::Exit), map];
    let all: Vec<Event> = (0..).zip(all).map(|(seq, event)| Event { seq, ..event }).collect();
    trace_of(dir.path(), &all);
    let output = run(dir.path(), &["who", "t.samara", "7f0000001000", "--pid", "200"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let parent = run(dir.path(), &["who", "t.samara", "7f0000001000"]);
    assert_eq!(stdout(&parent).matches("mmap(").count(), 1, "{}", said(&parent));
}

#[test]
fn events_are_chosen() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut all = String::new();
    for args in [
        &["--call", "mprotect", "--call", "mmap"][..],
        &["--pid", "101"],
        &["--name", "lib"],
        &["--failed"],
        &["--from", "2", "--to", "3"],
        &["--from", "9999s"],
        &["--call", "open"],
        &["--from", "peak"],
        &["--follow", "--stacks"],
    ] {
        let args: Vec<&str> = ["events", "t.samara"].into_iter().chain(args.iter().copied()).collect();
        all += &format!("$ samara {}\n{}\n", args.join(" "), said(&run(dir.path(), &args)));
    }
    for args in [&["show", "t.samara", "--at", "peak"][..], &["show", "t.samara", "--summary"]] {
        all += &format!("$ samara {}\n{}\n", args.join(" "), said(&run(dir.path(), args)));
    }
    insta::assert_snapshot!(all);
}

/// A trace that is still being written: present and later events are printed.
#[test]
fn a_trace_that_grows_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let lines = stdout(&run(dir.path(), &["events", "t.samara"]));
    // A batch for each event.
    let mut writer = TraceWriter::new(Vec::new(), &Options::new("prog").header()).unwrap();
    let mut parts = vec![];
    for event in events() {
        writer.write(&[event]).unwrap();
        parts.push(std::mem::take(writer.output()));
    }
    writer.finish().unwrap();
    parts.push(std::mem::take(writer.output()));
    let mut file = std::fs::File::create(dir.path().join("growing.samara")).unwrap();
    file.write_all(&parts[0]).unwrap();
    let mut child = samara()
        .args(["events", "growing.samara", "--follow"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut expected = lines.lines();
    for part in &parts[1..] {
        assert_eq!(printed.next().unwrap().unwrap(), expected.next().unwrap());
        let (a, b) = part.split_at(part.len() / 2);
        file.write_all(a).unwrap();
        file.write_all(b).unwrap();
    }
    assert!(printed.next().is_none() && expected.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_trace_has_at_most_the_size_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let many = "import mmap\nfor i in range(6000): mmap.mmap(-1, 4096).close()";
    if !std::process::Command::new("python3").arg("-c").arg("0").status().is_ok_and(|python| python.success()) {
        return crate::skip::skipped(format_args!("a_trace_has_at_most_the_size_that_was_asked_for: no python3"));
    }
    let args =
        ["trace", "--max-size", "64KiB", "-o", "t.samara", "--summary-json", "s.json", "--", "python3", "-c", many];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let screen = stderr(&output);
    assert!(screen.contains("the trace ends early") && screen.contains("limit of 65536 bytes"), "{screen}");
    let size = std::fs::metadata(dir.path().join("t.samara")).unwrap().len();
    assert!((65_536..4 << 20).contains(&size), "{size}");
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("s.json")).unwrap()).unwrap();
    assert_eq!(summary["complete"], false);
    assert!(summary["calls"]["mmap"]["count"].as_u64().unwrap() > 6000, "the summary has all of them: {summary}");
    assert_eq!(run(dir.path(), &["summary", "t.samara"]).status.code(), Some(3));
}

/// If all processes together take too much memory, `why` follows only the one with the most areas,
/// and the origins of its memory.
#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn the_process_with_the_most_areas_is_explained_alone() {
    let dir = tempfile::tempdir().unwrap();
    let area = |i: u64| AreaRecord {
        start: i << 16,
        end: (i << 16) + 0x1000,
        perms: 3,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: String::new(),
        apart: String::new(),
    };
    let event = |kind, pid: u32| Event {
        pid,
        tid: pid,
        space: u64::from(pid),
        window: Some((0, 1 << 47)),
        text: "/bin/parent".into(),
        ..Event::new(0, kind)
    };
    let mut all = vec![event(EventKind::Exec, 1)];
    for i in 1..=100 {
        let areas = vec![area(i)];
        let (start, end) = (areas[0].start, areas[0].end);
        let (window, plan) = (Some((start, end)), vec![Step { kind: StepKind::Mapped, start, end }]);
        let args = [0, 0x1000, 3, 0x22, 0, 0];
        all.push(Event { nr: Some(9), args, window, areas, plan, ..event(EventKind::Call, 1) });
    }
    let areas: Vec<_> = (1..=100).map(area).collect();
    all.push(Event { args: [1, 0, 0, 0, 0, 0], areas: areas.clone(), ..event(EventKind::Fork, 2) });
    all.push(Event { nr: Some(11), window: Some((1 << 16, 2 << 16)), ..event(EventKind::Call, 1) });
    // A process and its space keep the path of their program.
    let text = "p".repeat(16 << 10);
    all.extend((0..15_000).map(|i| Event {
        text: text.clone(),
        areas: vec![area(1)],
        ..event(EventKind::Exec, 10 + i)
    }));
    for (seq, event) in (0..).zip(&mut all) {
        (event.seq, event.entry_ns, event.exit_ns) = (seq, seq * 10, seq * 10 + 5);
    }
    let mut writer = TraceWriter::new(Vec::new(), &Options::new("prog").header()).unwrap();
    all.chunks(1000).for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    std::fs::write(dir.path().join("t.samara"), writer.output()).unwrap();
    let output = run(dir.path(), &["why", "t.samara"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(stderr(&output).contains("only process 2 was followed"), "{}", said(&output));
    let screen = stdout(&output);
    assert!(screen.contains("process 2 (/bin/parent)") && screen.contains("100 areas"), "{screen}");
    assert!(screen.contains("mmap"), "the parent's calls made them: {screen}");
}

/// The peak is that of the process with the most areas, if `why` explains that one.
#[test]
fn the_peak_of_the_largest_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = events();
    let start = 0x7000_0000;
    let areas: Vec<AreaRecord> = (0..20)
        .map(|i| AreaRecord {
            start: start + i * 0x2000,
            end: start + i * 0x2000 + 0x1000,
            perms: 3,
            ..all[1].areas[0].clone()
        })
        .collect();
    let end = areas[19].end;
    let plan = areas.iter().map(|a| Step { kind: StepKind::Mapped, start: a.start, end: a.end }).collect();
    let many = Event { window: Some((start, end)), areas, plan, nr: Some(9), resident: None, ..all[5].clone() };
    all.insert(6, many);
    for (seq, event) in (0..).zip(&mut all) {
        (event.seq, event.entry_ns, event.exit_ns) = (seq, seq * 1_000_000, seq * 1_000_000 + 1_500);
    }
    trace_of(dir.path(), &all);
    let pid = |args: &[&str]| {
        let output = run(dir.path(), &[&["why", "t.samara", "--json", "--at", "peak"], args].concat());
        let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
        value["pid"].as_u64()
    };
    assert_eq!((pid(&[]), pid(&["--pid", "100"])), (Some(101), Some(100)));
}

/// A process that faulted in memory that another call had replaced: the summary names the call, and
/// `who` prints the address's history.
#[test]
fn a_fault_in_memory_that_was_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = crate::samples::events();
    let at = 0x7f00_0000_1008_u64;
    let replaced = samara_trace::event::Event {
        args: [0x7f00_0000_0000, 0x2000, 1, 0x32, u64::MAX, 0],
        plan: [StepKind::Unmapped, StepKind::Mapped]
            .map(|kind| Step { kind, start: 0x7f00_0000_0000, end: 0x7f00_0000_2000 })
            .to_vec(),
        window: Some((0x7f00_0000_0000, 0x7f00_0000_2000)),
        areas: vec![samara_trace::event::AreaRecord {
            end: 0x7f00_0000_2000,
            perms: 1,
            apart: String::new(),
            ..all[1].areas[0].clone()
        }],
        ..all[1].clone()
    };
    let end = all.pop().unwrap();
    all.push(replaced);
    all.push(samara_trace::event::Event { result: 11, args: [at, 2, 0, 0, 0, 0], ip: Some(0x40_1240), ..end });
    for (seq, event) in (0..).zip(&mut all) {
        (event.seq, event.exit_ns) = (seq, seq * 1_000_000 + 1_500);
    }
    crate::samples::trace_of(dir.path(), &all);
    let summary = stdout(&run(dir.path(), &["summary", "t.samara"]));
    for row in [
        "crash      process 100 killed by SIGSEGV at 0x7f0000001008 from prog+0x1240: 7f0000000000-7f0000002000 r--p",
        "  writing is not allowed there, mapped so by mmap(0x7f0000000000, 8192, PROT_READ, ",
        "memory mapped there by mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) from",
        "was replaced by mmap(0x7f0000000000, 8192, PROT_READ, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS, -1, 0)",
        "1 ms before",
    ] {
        assert!(summary.contains(row), "{row}: {summary}");
    }
    let of = |args: &[&str]| stdout(&run(dir.path(), args));
    let json: serde_json::Value = serde_json::from_str(&of(&["summary", "t.samara", "--json"])).unwrap();
    let crash = &json["crashes"][0];
    assert_eq!(
        (&crash["address"], &crash["lost"]["near"], &crash["lost"]["event"]),
        (&at.into(), &"there".into(), &10.into())
    );
    assert_eq!((&crash["forbidden"]["how"], &crash["ended_by"]), (&"no-writing".into(), &"SIGSEGV".into()));
    let (said, asked) = (of(&["who", "t.samara"]), of(&["who", "t.samara", "7f0000001008"]));
    assert!(said.starts_with("process 100 killed by SIGSEGV") && said.ends_with(&asked), "{said}{asked}");
    assert_eq!(of(&["who", "t.samara", "--json"]), of(&["who", "t.samara", "7f0000001008", "--json"]));
    assert!(of(&["events", "t.samara"]).contains("exit by SIGSEGV at 0x7f0000001008"));
    // The handler ended the process, and the memory was there before the recording.
    let mut aborted = all.clone();
    aborted.last_mut().unwrap().result = 6;
    aborted.last_mut().unwrap().args[2] = 11;
    let found = samara_trace::event::Event {
        kind: EventKind::Found,
        window: Some((0, u64::MAX)),
        areas: vec![all[1].areas[0].clone()],
        ..all[0].clone()
    };
    aborted.splice(0..aborted.len() - 2, [found]);
    (0..).zip(&mut aborted).for_each(|(seq, event)| event.seq = seq);
    crate::samples::trace_of(dir.path(), &aborted);
    let summary = of(&["summary", "t.samara"]);
    for row in
        ["killed by SIGABRT in its handler of SIGSEGV at 0x7f0000001008", "memory there when the recording began was"]
    {
        assert!(summary.contains(row), "{row}: {summary}");
    }
    assert!(of(&["events", "t.samara"]).contains("exit by SIGABRT in the handler of SIGSEGV at 0x7f0000001008"));
    // The given process has no fault, nor has the trace.
    let none =
        |args: &[&str]| assert!(stderr(&run(dir.path(), args)).contains("ended by a fault whose address"), "{args:?}");
    none(&["who", "t.samara", "--pid", "101"]);
    trace(dir.path());
    none(&["who", "t.samara"]);
    assert!(!of(&["summary", "t.samara"]).contains("crash"));
}
