//! Hostile names: JSON has them unchanged, `--raw` prints them to the byte, and all other output is
//! escaped, on terminals and in pipes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use crate::samples::{run, said, samara, stderr, stdout};
use fastrand::Rng;
use samara_cli::testing;
use samara_record::Options;
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{Header, Printable, TraceReader, TraceWriter, name_bytes, name_text};

/// Pieces of names that forge lines, control a terminal, turn or hide text, are not text, or look
/// like an escape.
const PIECES: [&[u8]; 22] = [
    b"a",
    b"/",
    b" ",
    b"\n",
    b"\r",
    b"\x1b[31m",
    b"\x1b]0;x\x07",
    b"\x7f",
    b"\xc2\x9b2J",
    b"\xe2\x80\xae",
    b"\xe2\x81\xa6",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x8f\xbf\xbf",
    b"\\012",
    b"\\",
    b"'\"$`",
    b"\xc3\xbc",
    b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0",
];

fn hostile(rng: &mut Rng) -> Vec<u8> {
    (0..rng.usize(1..8)).flat_map(|_| PIECES[rng.usize(..PIECES.len())].to_vec()).collect()
}

fn seed() -> u64 {
    let seed = std::env::var("SAMARA_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("SAMARA_SEED={seed}");
    seed
}

fn harmless(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.chars().all(|c| c == '\n' || Printable::is_plain(c)))
}

/// Output of events with random names everywhere: to a terminal, to a file, and as JSON.
#[test]
fn random_names_do_no_harm() {
    let mut rng = Rng::with_seed(seed());
    let (mut escaped, mut apart) = (0, 0);
    for round in 0..60 {
        let mut name = || hostile(&mut rng);
        let (file, text, gate, why) = (name(), name(), name(), name());
        let mut events = crate::samples::events();
        for event in &mut events {
            event.text = name_text(&text);
            event.areas.iter_mut().for_each(|area| {
                area.name = name_text(&file);
                area.apart = String::from_utf8_lossy(&why).into_owned();
            });
        }
        let header = Header {
            gate: name_text(&gate),
            ..Options::new(OsStr::from_bytes(&file)).args([OsStr::from_bytes(&text)]).header()
        };
        let mut bytes = Vec::new();
        TraceWriter::new(&mut bytes, &header).unwrap().write(&events).unwrap();
        let printed = |show: &dyn Fn(&mut Vec<u8>) -> Result<(), String>| {
            let mut out = Vec::new();
            // The trace ends early: a message says so, and all events are shown.
            assert!(show(&mut out).unwrap_err().contains("ends early"));
            out
        };
        let lines = printed(&|out| testing::events(&*bytes, false, out));
        assert!(harmless(&anstream::adapter::strip_bytes(&lines).into_vec()), "round {round}");
        let plain = anstream::adapter::strip_bytes(&lines).into_vec();
        assert_eq!(plain.iter().filter(|byte| **byte == b'\n').count(), events.len(), "round {round}: a line an event");
        let json = printed(&|out| testing::events(&*bytes, true, out));
        assert!(harmless(&json), "round {round}");
        for (line, event) in String::from_utf8(json).unwrap().lines().zip(&events) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(&line["text"], &event.text);
            for area in line["areas"].as_array().unwrap() {
                assert_eq!(*name_bytes(area["name"].as_str().unwrap()), *file);
            }
        }
        let shown = printed(&|out| testing::show(&*bytes, (None, None), true, false, out));
        assert!(harmless(&shown), "round {round}");
        // Raw: the kernel's bytes, with only newlines escaped, and one line for each area.
        let shown = printed(&|out| testing::show(&*bytes, (Some(100), None), false, true, out));
        let expected = String::from_utf8_lossy(&file).replace('\n', "\\012").len();
        let lines: Vec<_> = shown.split(|byte| *byte == b'\n').collect();
        let replaced: Vec<u8> = file.split(|b| *b == b'\n').collect::<Vec<_>>().join(&b"\\012"[..]);
        assert!(lines.iter().filter(|line| line.ends_with(&replaced)).count() >= 5, "round {round}: {expected}");
        assert!((7..=8).contains(&lines.len()), "round {round}: {} lines", lines.len());
        // The program's words, and a file's name in messages.
        let word: OsString = OsStr::from_bytes(&file).to_owned();
        let (line, names) = testing::words(&[word.clone(), word]);
        assert!(line.chars().chain(names.concat().chars()).all(Printable::is_plain), "round {round}: {line:?}");
        escaped += usize::from(line.contains('\\'));
        apart += usize::from(!why.is_empty());
        // And it all comes back from the file.
        let mut reader = TraceReader::new(&*bytes).unwrap();
        assert_eq!(*name_bytes(&reader.header().program), *file);
        let first: Event = reader.next().unwrap().unwrap();
        assert_eq!((first.kind, &*name_bytes(&first.text)), (EventKind::Exec, &*text));
    }
    assert!(escaped > 20 && apart > 20);
}

/// The whole way: a program of a hostile name shows its own maps, and the trace shows the same
/// bytes; samara's output on a terminal and its messages are harmless.
#[test]
fn a_hostile_program_is_shown_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(seed());
    let cat = ["/bin/cat", "/usr/bin/cat"].into_iter().find(|path| std::path::Path::new(path).exists()).unwrap();
    let mut names: Vec<Vec<u8>> = vec![b"a\nb\r".to_vec(), b"\xff\x1b[31m\xe2\x80\xae".to_vec()];
    names.extend((0..4).map(|_| hostile(&mut rng)));
    for name in names {
        let name: Vec<u8> = name.into_iter().filter(|byte| *byte != b'/').take(200).chain(*b"z").collect();
        let program = dir.path().join(OsStr::from_bytes(&name));
        std::fs::copy(cat, &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut word = OsString::from("./");
        word.push(OsStr::from_bytes(&name));
        for command in ["trace", "run"] {
            let mut trace = name.clone();
            trace.extend_from_slice(b".samara");
            let trace = OsStr::from_bytes(&trace);
            let output = samara()
                .current_dir(dir.path())
                .args([OsStr::new(command), "--summary-json".as_ref(), "s.json".as_ref(), "-o".as_ref()])
                .args([OsString::from_iter([OsStr::new("./"), trace]).as_os_str(), "--".as_ref()])
                .args([word.as_os_str(), "/proc/self/maps".as_ref()])
                .output()
                .unwrap();
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{name:?}: {err:?}");
            assert!(harmless(&output.stderr), "{name:?}: {err:?}");
            assert!(err.contains("no difference") && !err.contains("renamed"), "{err:?}");
            assert!(harmless(&std::fs::read(dir.path().join("s.json")).unwrap()));
            let show = |args: &[&OsStr]| samara().current_dir(dir.path()).args(args).output().unwrap();
            let path = OsString::from_iter([OsStr::new("./"), trace]);
            let events = show(&["events".as_ref(), &path]);
            assert!(events.status.success() && harmless(&events.stdout), "{name:?}");
            let count = stdout(&events).lines().count();
            let moments = (0..count).rev().map(|at| at.to_string());
            let found = moments.clone().any(|at| {
                show(&["show".as_ref(), &path, "--raw".as_ref(), "--at".as_ref(), at.as_ref()]).stdout == output.stdout
            });
            let maps = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(found, "{command} {name:?}: no moment shows\n{maps:?}");
            let shown = show(&["show".as_ref(), &path]);
            assert!(shown.status.success() && harmless(&shown.stdout), "{name:?}");
            // Messages about a file of this name.
            for args in [
                &["show".as_ref(), path.as_os_str(), "--pid".as_ref(), "1".as_ref()][..],
                &["show".as_ref(), word.as_os_str()],
            ] {
                let output = show(args);
                assert!(
                    !output.status.success() && harmless(&output.stderr),
                    "{:?}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
}

/// The output of every command in a pipe, for a trace with hostile names of files, programs,
/// functions and places in the source.
#[test]
fn no_output_does_harm_in_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(seed());
    let mut name =
        || b"/\x1b]0;x\x07\xe2\x80\xae\xff\n\r".iter().copied().chain(hostile(&mut rng)).collect::<Vec<u8>>();
    let (file, text, function) =
        (name_text(&name()), name_text(&name()), name_text(&name()).replace(['\n', '\t'], " "));
    let define = |kind, args: [u64; 3], text: String| Event {
        kind,
        args: [args[0], args[1], args[2], 0, 0, 0],
        text,
        ..Event::new(0, kind)
    };
    let mut events: Vec<Event> = crate::samples::events();
    for event in &mut events {
        event.areas.iter_mut().for_each(|area| area.name = file.clone());
        event.text = text.clone();
        event.stack = event.nr.map(|_| 0);
    }
    events.insert(1, define(EventKind::Module, [0, 0, 0], format!("- {function}")));
    events.insert(2, define(EventKind::Stack, [0, 0, 0], "0+10 0+20".to_owned()));
    events.push(define(EventKind::Symbol, [0, 0x10, 0], format!("{function}\t{function}:4\nmain")));
    (0..).zip(&mut events).for_each(|(seq, event)| event.seq = seq);
    let header = Header { gate: file.clone(), ..Options::new(OsStr::from_bytes(&name_bytes(&text))).header() };
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, &header).unwrap();
    writer.write(&events).unwrap();
    writer.finish().unwrap();
    std::fs::write(dir.path().join("t.samara"), &bytes).unwrap();
    // A maps file as another machine may send it.
    let maps = run(dir.path(), &["show", "t.samara", "--raw"]);
    assert!(maps.status.success() && !harmless(&maps.stdout), "{:?}", maps.stderr);
    std::fs::write(dir.path().join("maps"), maps.stdout).unwrap();
    for args in [
        &["show", "t.samara"][..],
        &["show", "t.samara", "--reasons"],
        &["show", "t.samara", "--summary"],
        &["events", "t.samara"],
        &["events", "t.samara", "--callers", "--clock"],
        &["events", "t.samara", "--stacks"],
        &["events", "t.samara", "--folded"],
        &["events", "t.samara", "--stacks", "--json"],
        &["summary", "t.samara"],
        &["summary", "t.samara", "--json"],
        &["summary", "t.samara", "--fail-if", "events > 1"],
        &["who", "t.samara", "600000"],
        &["who", "t.samara", "600000", "--json"],
        &["why", "t.samara"],
        &["why", "t.samara", "--json"],
        &["why", "t.samara", "--folded"],
        &["diff", "t.samara", "--from", "2", "--to", "6"],
        &["diff", "t.samara", "t.samara", "--json"],
        &["report", "t.samara", "--json"],
        &["report", "t.samara", "-o", "-"],
        &["replay", "t.samara"],
        &["replay", "t.samara", "--json"],
        &["export", "t.samara", "--csv"],
        &["export", "t.samara", "--folded"],
        &["export", "t.samara", "--firefox", "-"],
        &["inspect", "maps"],
        &["inspect", "maps", "--json"],
        &["show", "t.samara", "--pid", "7"],
    ] {
        let output = run(dir.path(), args);
        let printed = [&output.stdout[..], &output.stderr].concat();
        assert!(!printed.is_empty() && harmless(&printed), "{args:?}: {:?}", String::from_utf8_lossy(&printed));
    }
}

/// A message on wrong usage repeats the arguments, which may be names that the shell expanded.
#[test]
fn wrong_usage_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    for word in [&b"--\x1b[31m"[..], b"-\xe2\x80\xae", b"\x1b]0;x\x07", b"--at=\n\xff"] {
        for args in [&[OsStr::from_bytes(word)][..], &["show".as_ref(), "x".as_ref(), OsStr::from_bytes(word)]] {
            let output = samara().current_dir(dir.path()).args(args).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{word:?}");
            assert!(
                harmless(&output.stderr) && !output.stderr.is_empty(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    let output = run(dir.path(), &["trace", "-o", "\u{202e}/x", "--", "true"]);
    assert!(stderr(&output).contains("\\342\\200\\256/x") && output.status.code() == Some(125), "{}", said(&output));
}
