//! `samara export` and `samara fleet`: the content of each format for a small trace, outputs that
//! cannot be written, traces that end early, and hostile names. `ci/exports.sh` reads the formats
//! back with their tools.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use samara_trace::event::{Event, EventKind};
use serde_json::Value;

use crate::samples::{assert_documented, events, page, run, said, samara, stderr, stdout, trace, trace_of};

/// The formats of one file, and their names.
const FILES: [(&str, &str); 5] = [
    ("--csv", "t.csv"),
    ("--folded", "t.folded"),
    ("--pprof", "t.pb.gz"),
    ("--firefox", "t.json"),
    ("--perfetto", "t.pft"),
];

/// The sample's events with call stacks: the map in `grow`, which is inlined into `main`.
fn with_stacks() -> Vec<Event> {
    let sample = events();
    let define = |kind, args: [u64; 3], text: &str| Event {
        kind,
        args: [args[0], args[1], args[2], 0, 0, 0],
        text: text.into(),
        ..Event::new(0, kind)
    };
    let mut all = vec![
        define(EventKind::Module, [0, 0, 0], "00ff11 /bin/prog"),
        define(EventKind::Stack, [0, 0, 0], "0+10 0+20"),
    ];
    all.extend(sample.into_iter().map(|event| Event { stack: event.nr.filter(|nr| *nr == 9).map(|_| 0), ..event }));
    all.push(define(EventKind::Symbol, [0, 0x10, 0], "grow\tsrc/a.c:4\nmain\tsrc/a.c:9"));
    all.push(define(EventKind::Symbol, [0, 0x20, 0], "_start"));
    all.iter_mut().zip(0..).for_each(|(event, seq)| event.seq = seq);
    all
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn all_formats_at_once() {
    let dir = tempfile::tempdir().unwrap();
    trace_of(dir.path(), &with_stacks());
    let mut args = vec!["export", "t.samara", "--parquet", "all", "--host", "../a b"];
    args.extend(FILES.iter().flat_map(|(option, name)| [*option, *name]));
    let output = run(dir.path(), &args);
    assert_eq!(said(&output), "exit code: Some(0)\n--- stdout\n--- stderr\n");
    let file = |name: &str| fs::read(dir.path().join(name)).unwrap();

    let rows = String::from_utf8(file("t.csv")).unwrap();
    insta::assert_snapshot!("export-csv", rows);
    let folded = run(dir.path(), &["why", "t.samara", "--folded"]);
    assert_eq!(String::from_utf8(file("t.folded")).unwrap(), stdout(&folded));
    assert!(file("t.pb.gz").starts_with(&[0x1f, 0x8b]));
    assert!(!file("t.pft").is_empty());

    let profile = json(&dir.path().join("t.json"));
    let thread = &profile["threads"][0];
    let strings: Vec<&str> = thread["stringArray"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    for name in ["mmap", "_start", "main", "grow", "src/a.c", "prog"] {
        assert!(strings.contains(&name), "{name}: {strings:?}");
    }
    // From the outermost function to the call.
    let (stacks, frames) = (&thread["stackTable"], &thread["frameTable"]);
    let mut row = thread["markers"]["data"][1]["cause"]["stack"].clone();
    let mut names = Vec::new();
    while let Some(at) = row.as_u64() {
        let frame = stacks["frame"][at as usize].as_u64().unwrap() as usize;
        let function = frames["func"][frame].as_u64().unwrap() as usize;
        let name = thread["funcTable"]["name"][function].as_u64().unwrap() as usize;
        names.push((strings[name], frames["line"][frame].as_u64(), frames["inlineDepth"][frame].as_u64().unwrap()));
        row = stacks["prefix"][at as usize].clone();
    }
    assert_eq!(names, [("mmap", None, 0), ("grow", Some(4), 1), ("main", Some(9), 0), ("_start", None, 0)]);
    let parquet: Vec<_> = ["events", "stacks", "processes"]
        .iter()
        .map(|table| dir.path().join("all").join(table).join("day=2026-01-02/host=..%2Fa%20b/program=prog"))
        .flat_map(|dir| fs::read_dir(dir).unwrap())
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(parquet.len() == 3 && parquet.iter().all(|file| file.starts_with(b"PAR1") && file.ends_with(b"PAR1")));
    // Nothing else is left, and the same again replaces it.
    let left = || fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left(), FILES.len() + 2);
    assert!(run(dir.path(), &args).status.success());
    assert_eq!(left(), FILES.len() + 2);
}

/// Every format has the events and the areas of one process only.
#[test]
fn one_process() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let export = |more: &[&str]| {
        let mut args = vec!["export", "t.samara"];
        args.extend(FILES.iter().flat_map(|(option, name)| [*option, *name]));
        args.extend(more);
        let output = run(dir.path(), &args);
        assert!(output.status.success(), "{}", said(&output));
        let file = |name: &str| fs::read(dir.path().join(name)).unwrap();
        let rows = String::from_utf8(file("t.csv")).unwrap();
        let sizes = ["t.pb.gz", "t.json", "t.pft"].map(|name| file(name).len());
        (rows.lines().map(str::to_owned).collect::<Vec<_>>(), String::from_utf8(file("t.folded")).unwrap(), sizes)
    };
    let (all, _, sizes) = export(&[]);
    let mut of_both = 0;
    for pid in ["100", "101"] {
        let (rows, folded, fewer) = export(&["--pid", pid]);
        let column = rows[0].split(',').position(|name| name == "pid").unwrap();
        assert!(rows.len() > 1 && rows[1..].iter().all(|row| row.split(',').nth(column) == Some(pid)), "{rows:?}");
        assert!(rows.iter().all(|row| all.contains(row)), "{rows:?}");
        of_both += rows.len() - 1;
        assert!(fewer.iter().zip(&sizes).all(|(fewer, size)| fewer < size), "{fewer:?} {sizes:?}");
        assert_eq!(folded, stdout(&run(dir.path(), &["why", "t.samara", "--folded", "--pid", pid])));
    }
    assert_eq!(of_both, all.len() - 1);
}

/// The areas that a profile retains are those of the process at its end, however they were cut,
/// joined and replaced; at a moment they are those of that moment.
#[test]
fn allocations_balance() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    for (at, pid, expected) in [
        (None, "100", vec![(0x40_0000, 0x2000), (0x60_0000, 0x2_1000), (0x7ffd_0000_0000, 0x2_0000)]),
        (None, "101", vec![(0x40_0000, 0x2000), (0x60_0000, 0x2_0000), (0x70_0000, 0x1000)]),
        (Some("2"), "100", vec![(0x40_0000, 0x2000), (0x60_0000, 0x2_1000)]),
    ] {
        let mut args = vec!["export", "t.samara", "--firefox", "t.json"];
        args.extend(at.iter().flat_map(|at| ["--at", at]));
        let allocations = |args: &[&str]| {
            assert!(run(dir.path(), args).status.success());
            let profile = json(&dir.path().join("t.json"));
            let threads = profile["threads"].as_array().unwrap();
            let mut its = threads.iter().filter(|thread| thread["pid"] == pid && thread["isMainThread"] == true);
            let is_alone = threads.iter().all(|thread| thread["pid"] == pid);
            (its.next().unwrap()["nativeAllocations"].clone(), is_alone)
        };
        let (all, is_alone) = allocations(&args);
        args.extend(["--pid", pid]);
        let (of_one, is_alone_then) = allocations(&args);
        assert_eq!(of_one["weight"], all["weight"], "{pid} {at:?}");
        assert_eq!(of_one["memoryAddress"], all["memoryAddress"], "{pid} {at:?}");
        assert_eq!((is_alone, is_alone_then), (at.is_some(), true), "{pid} {at:?}");
        let mut there = std::collections::BTreeMap::new();
        for (address, weight) in all["memoryAddress"].as_array().unwrap().iter().zip(all["weight"].as_array().unwrap())
        {
            let (address, weight) = (address.as_u64().unwrap(), weight.as_i64().unwrap());
            match weight {
                1.. => assert_eq!(there.insert(address, weight), None),
                _ => assert_eq!(there.remove(&address), Some(-weight)),
            }
        }
        let mut expected = expected;
        if pid == "100" {
            let base = 0x7f00_0000_0000;
            expected.extend((0..3).map(|page| (base + page * 0x1000, 0x1000)));
            expected.sort_unstable();
        }
        assert_eq!(there.into_iter().collect::<Vec<_>>(), expected, "{pid} {at:?}");
    }
}

/// The profile has the same fields as that of the format's reference crate, and no others.
#[test]
fn the_firefox_profile_is_of_its_format() {
    use fxprof_processed_profile as fx;
    let mut theirs =
        fx::Profile::new("x", std::time::SystemTime::UNIX_EPOCH.into(), fx::SamplingInterval::from_millis(1));
    theirs.set_os_name("Linux");
    let start = fx::Timestamp::from_millis_since_reference(0.0);
    let process = theirs.add_process("x", 1, start);
    let thread = theirs.add_thread(process, 1, start, true);
    let category = theirs.add_category("c", fx::CategoryColor::Blue);
    let name = theirs.intern_string("f");
    let frame =
        fx::FrameInfo { frame: fx::Frame::Label(name), category_pair: category.into(), flags: fx::FrameFlags::empty() };
    let stack = theirs.intern_stack_frames(thread, std::iter::once(frame));
    theirs.add_sample(thread, start, stack, fx::CpuDelta::ZERO, 1);
    theirs.add_allocation_sample(thread, start, stack, 1, 1);
    let counter = theirs.add_counter(process, "n", "Memory", "d");
    theirs.add_counter_sample(counter, start, 1.0, 1);
    let theirs = serde_json::to_value(&theirs).unwrap();

    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    assert!(run(dir.path(), &["export", "t.samara", "--firefox", "t.json.gz"]).status.success());
    let mut text = String::new();
    let packed = fs::File::open(dir.path().join("t.json.gz")).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let ours: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(ours["meta"]["preprocessedProfileVersion"], theirs["meta"]["preprocessedProfileVersion"]);
    // Fields that we leave out, and fields that we add; all are optional in the format.
    let (less, more) =
        (["threadCPUDelta", "number"], ["initialVisibleThreads", "initialSelectedThreads", "importedFrom"]);
    let keys = |value: &Value| -> Vec<String> {
        let all = value.as_object().unwrap().keys().filter(|key| !less.contains(&&***key) && !more.contains(&&***key));
        let mut all: Vec<String> = all.cloned().collect();
        all.sort_unstable();
        all
    };
    let at = |value: &Value, pointer: &str| value.pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).clone();
    for place in [
        "",
        "/meta",
        "/meta/extensions",
        "/meta/sampleUnits",
        "/meta/categories/0",
        "/threads/0",
        "/threads/0/samples",
        "/threads/0/markers",
        "/threads/0/nativeAllocations",
        "/threads/0/stackTable",
        "/threads/0/frameTable",
        "/threads/0/funcTable",
        "/threads/0/resourceTable",
        "/threads/0/nativeSymbols",
        "/counters/0",
        "/counters/0/samples",
    ] {
        assert_eq!(keys(&at(&ours, place)), keys(&at(&theirs, place)), "{place}");
    }
}

#[test]
fn what_cannot_be_written_says_so_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = trace(dir.path());
    fs::write(dir.path().join("file"), "older").unwrap();
    fs::hard_link(dir.path().join("file"), dir.path().join("hard")).unwrap();
    for (args, code, why) in [
        (&["--csv", "no/such/dir"][..], 1, "cannot write to no/such/dir: No such file"),
        (&["--csv", "."], 1, "cannot write to .: Is a directory"),
        (&["--csv", "/dev/full"], 1, "cannot write to /dev/full: No space left"),
        (&["--firefox", "/dev/full"], 1, "cannot write to /dev/full: No space left"),
        (&["--perfetto", "/dev/full"], 1, "cannot write to /dev/full: No space left"),
        (&["--pprof", "/dev/full"], 1, "cannot write to /dev/full: No space left"),
        (&["--folded", "/dev/full"], 1, "cannot write to /dev/full: No space left"),
        (&["--parquet", "file"], 1, "cannot write to file: File exists"),
        (&["--csv", "t.samara"], 2, "t.samara is the trace itself"),
        (&["--csv", "-", "--folded", "-"], 2, "two formats cannot be written to -"),
        (&["--csv", "x", "--pprof", "x"], 2, "two formats cannot be written to x"),
        (&["--csv", "x", "--pprof", "./x"], 2, "two formats cannot be written to ./x"),
        (&["--folded", "file", "--perfetto", "hard"], 2, "two formats cannot be written to hard"),
        (&["--csv", "x", "--at", "99"], 1, "it has fewer events"),
        (&["--csv", "x", "--pid", "99"], 1, "there was no process 99"),
        (&["--csv", "x", "--pid", "101", "--at", "2"], 1, "there was no process 101 until then"),
        (&["--parquet", "x", "--pid", "100"], 2, "cannot be used with"),
        (&["--folded", "x", "--pid", "99"], 1, "process 99 has no areas in this trace"),
        (&["--csv", "x", "--by", "made"], 2, "--folded"),
        (&[], 2, "required arguments were not provided"),
    ] {
        let args: Vec<&str> = ["export", "t.samara"].into_iter().chain(args.iter().copied()).collect();
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", said(&output));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "{args:?}");
    }
    assert_eq!(fs::read(path).unwrap(), bytes);
    // Names of standard output: a pipe, and a file.
    for pair in [["--csv=-", "--pprof=/dev/stdout"], ["--folded=/dev/fd/1", "--csv=-"], ["--csv=-", "--firefox=out"]] {
        let args: Vec<&str> = ["export", "t.samara"].into_iter().chain(pair).collect();
        let mut command = samara();
        let command = command.current_dir(dir.path()).args(args).stdin(std::process::Stdio::null());
        if pair[1].ends_with("=out") {
            command.stdout(fs::File::create(dir.path().join("out")).unwrap());
        }
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{pair:?}");
        assert!(stderr(&output).contains("two formats cannot be written to "), "{pair:?}: {}", said(&output));
    }
    assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"");
    assert!(run(dir.path(), &["export", "t.samara", "--csv=-", "--folded=/dev/null"]).status.success());
    let output = run(dir.path(), &["export", "/dev/null", "--csv"]);
    assert!(stderr(&output).contains("reads the trace twice"), "{}", said(&output));
    // A reader that goes away is no error.
    let mut child = samara()
        .current_dir(dir.path())
        .args(["export", "t.samara", "--csv"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// The readable part of a trace that ends early is exported, and the message says where it ends.
#[test]
fn a_trace_that_ends_early_is_exported_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = trace(dir.path());
    fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let mut args = vec!["export", "t.samara", "--parquet", "all"];
    args.extend(FILES.iter().flat_map(|(option, name)| [*option, *name]));
    let output = run(dir.path(), &args);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(stderr(&output).contains("t.samara: the file ends early"), "{}", said(&output));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", said(&output));
    let rows = fs::read_to_string(dir.path().join("t.csv")).unwrap().lines().count() - 1;
    let events = stdout(&run(dir.path(), &["events", "t.samara"])).lines().count();
    assert!(rows == events && rows > 2 && rows < 11, "{rows} of {events}");
    let profile = json(&dir.path().join("t.json"));
    let markers = profile["threads"].as_array().unwrap().iter().map(|t| t["markers"]["length"].as_u64().unwrap());
    assert_eq!(markers.sum::<u64>(), events as u64);
}

/// Cells are not formulas and have no line breaks. Profiles have escaped names. Directories stay
/// below the output.
#[test]
fn hostile_names_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let name = "=cmd|' /C calc'!A0\n\"<script>\u{1b}[31m\u{10ffff}/../..";
    let mut all = with_stacks();
    for event in &mut all {
        if event.kind == EventKind::Symbol {
            event.text = name.replace(['\n', '\t'], " ");
        } else if event.kind == EventKind::Module {
            event.text = format!("- {name}");
        } else if event.kind != EventKind::Stack {
            event.text = name.into();
            event.areas.iter_mut().for_each(|area| area.name = name.into());
        }
    }
    trace_of(dir.path(), &all);
    let mut args = vec!["export", "t.samara", "--parquet", "all", "--host", "a/../../\n"];
    args.extend(FILES.iter().flat_map(|(option, name)| [*option, *name]));
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let rows = fs::read_to_string(dir.path().join("t.csv")).unwrap();
    assert_eq!(rows.lines().count(), 12, "{rows}");
    assert!(rows.contains(",\"'=cmd|' /C calc'!A0\\012\"\"<script>\\033[31m\\377/../..\""), "{rows}");
    for (_, file) in FILES {
        let bytes = fs::read(dir.path().join(file)).unwrap();
        assert!(file == "t.pb.gz" || !bytes.contains(&0x1b), "{file}");
    }
    let profile = json(&dir.path().join("t.json"));
    assert!(
        profile["threads"][0]["stringArray"]
            .as_array()
            .unwrap()
            .iter()
            .any(|s| { s.as_str().unwrap().contains("<script>\\033[31m\\377") })
    );
    let hosts: Vec<_> = fs::read_dir(dir.path().join("all/events/day=2026-01-02")).unwrap().collect();
    assert_eq!(hosts.len(), 1);
    assert_eq!(hosts[0].as_ref().unwrap().file_name(), "host=a%2F..%2F..%2F%5C012");
}

#[test]
fn a_fleet_without_duckdb_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let output = run(dir.path(), &["fleet", "all"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("samara export TRACE --parquet all"), "{}", said(&output));
    assert!(run(dir.path(), &["export", "t.samara", "--parquet", "all"]).status.success());
    let output = samara().current_dir(dir.path()).env("PATH", "").args(["fleet", "all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("pip install duckdb"), "{}", said(&output));
    let output = run(dir.path(), &["fleet", "all", "--duckdb", "/bin/false"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/bin/false does not answer as duckdb does"), "{}", said(&output));
    let sql = run(dir.path(), &["fleet", "no/such/dir", "--sql"]);
    insta::assert_snapshot!("fleet-sql", stdout(&sql));
    // Every question is in the book, and the SQL of the first one.
    let (docs, sql) = (page("how-to/fleets.md"), stdout(&sql));
    let questions: Vec<&str> = sql.split("-- ").skip(1).map(str::trim_end).collect();
    assert!(questions.len() == 3 && docs.contains(questions[0]), "the book lacks {}", questions[0]);
    for question in questions {
        let name = question.lines().next().unwrap();
        assert!(docs.contains(&format!("`{name}`: ")), "the book lacks {name}");
    }
}

/// Every column is in the book.
#[test]
fn the_book_names_every_column() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let rows = stdout(&run(dir.path(), &["export", "t.samara", "--csv"]));
    let columns: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
    assert_eq!(columns.len(), 31);
    let columns = columns.into_iter().map(|column| if column.starts_with("arg") { "arg0" } else { column });
    assert_documented(&["reference/exports.md"], columns);
}

/// A stand-in for the fleet's program: its input, and the output made from its answer.
#[test]
fn answers_of_a_fleet_are_shown_without_harm() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    assert!(run(dir.path(), &["export", "t.samara", "--parquet", "all"]).status.success());
    let program = dir.path().join("duckdb");
    fs::write(&program, "#!/bin/sh\necho '[{\"host\":\"a\\u001b[31m\",\"areas\":12}]'\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = run(dir.path(), &["fleet", "all", "--duckdb", "./duckdb", "--query", "grew"]);
    assert_eq!(
        said(&output),
        "exit code: Some(0)\n--- stdout\nprograms that grew, from one day to the next\n  host       areas\n  a\\033[31m     12\n\n--- stderr\n"
    );
    let json = run(dir.path(), &["fleet", "all", "--duckdb", "./duckdb", "--json"]);
    let answers: Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(answers.as_object().unwrap().keys().collect::<Vec<_>>(), ["grew", "new_stacks", "near_limit"]);
    assert_eq!(answers["near_limit"][0]["areas"], 12);
    assert_documented(&["reference/json.md"], answers.as_object().unwrap().keys());
}

/// A fleet's directory may belong to another user: neither programs nor modules are taken from it,
/// and no temporary files are put there.
#[test]
fn a_fleet_runs_nothing_of_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    assert!(run(dir.path(), &["export", "t.samara", "--parquet", "all"]).status.success());
    let all = dir.path().join("all");
    let ran = dir.path().join("ran");
    for module in ["duckdb.py", "json.py", "os.py", "site.py", "sitecustomize.py"] {
        fs::write(all.join(module), format!("open({ran:?}, 'w').write('{module}')\n")).unwrap();
    }
    // A stand-in that leaves its name, and answers nothing.
    let program = |path: &Path, script: &str| {
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in ["duckdb", "python3"] {
        program(&all.join(name), &format!("echo {name} >{}", ran.display()));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    for (cwd, fleet, path) in [
        (&*all, ".", format!(".::{path}")),
        (dir.path(), "all", format!(".::{path}")),
        (dir.path(), "all", format!("all:{path}")),
    ] {
        let mut command = samara();
        command.current_dir(cwd).env("PATH", path).env("PYTHONPATH", ".").env("PYTHONUSERBASE", ".");
        // With the module or without: the output depends on the machine.
        command.args(["fleet", fleet]).output().unwrap();
        assert!(!ran.exists(), "{cwd:?}, {fleet}: {} of the directory ran", fs::read_to_string(&ran).unwrap());
    }
    let output =
        samara().current_dir(&all).env("PATH", ".").args(["fleet", ".", "--duckdb", "duckdb"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("in no absolute directory of PATH") && !ran.exists(), "{}", said(&output));

    // The program's arguments.
    let words = dir.path().join("words");
    let script = format!("for word; do echo \"$word\"; done >>{}; echo '[]'", words.display());
    program(&dir.path().join("told"), &script);
    // A name that would end the string, and one that depends on where the program runs.
    for temporary in ["it's", "all"] {
        fs::create_dir_all(dir.path().join(temporary)).unwrap();
        let asked = ["fleet", "all", "--duckdb", "./told", "--query", "grew"];
        let output = samara().current_dir(dir.path()).env("TMPDIR", temporary).args(asked).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let told = fs::read_to_string(&words).unwrap();
        let set: Vec<&str> = told.lines().filter(|line| line.contains("temp_directory")).collect();
        let place = dir.path().canonicalize().unwrap().join(temporary).join("samara-fleet-");
        let begin = format!("SET temp_directory = '{}", place.display().to_string().replace('\'', "''"));
        assert!(set.len() == 2 && set.iter().all(|line| line.starts_with(&begin)), "{begin}: {told}");
        assert!(told.contains("-init\n/dev/null\n"), "{told}");
        fs::remove_file(&words).unwrap();
    }
    let left = |name: &str| fs::read_dir(dir.path().join(name)).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left("all").chain(left("it's")).any(|name| name.to_string_lossy().starts_with("samara-fleet-")));
}
