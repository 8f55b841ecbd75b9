//! `samara trace` on small programs that every system has: exit status, streams, signals, wrong
//! arguments, full disks, a killed recorder.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::samples::{assert_documented, run, said, samara, stderr, stdout};
use crate::skip::skipped;

/// Starts many programs: thousands of events.
const BUSY: &str = "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done; echo done; exit 5";

fn traced(dir: &Path, script: &str) -> std::process::Output {
    run(dir, &["trace", "-o", "t.samara", "--summary-json", "s.json", "--", "sh", "-c", script])
}

fn json(dir: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.join("s.json")).unwrap()).unwrap()
}

#[test]
fn streams_and_exit_code_are_the_program_s() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = samara()
        .current_dir(dir.path())
        .args(["trace", "--quiet", "--", "sh", "-c", "cat; echo oops >&2; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"to be copied").unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*stdout(&output), &*stderr(&output)), (Some(7), "to be copied", "oops\n"));
    // The default name.
    assert!(dir.path().join(format!("sh-{pid}.samara")).exists());
}

#[test]
fn death_by_a_signal_is_the_program_s() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["TERM", "KILL", "SEGV", "INT", "40"] {
        let output = traced(dir.path(), &format!("kill -{signal} $$"));
        let plain = Command::new("sh").args(["-c", &format!("kill -{signal} $$")]).output().unwrap();
        assert_eq!(output.status.signal(), plain.status.signal(), "{signal}: {}", said(&output));
        let Some(number) = plain.status.signal() else {
            // As where a shell started the tests in the background, with SIGINT ignored.
            assert_ne!(signal, "KILL");
            skipped(format_args!("death_by_a_signal: SIG{signal} is ignored here"));
            continue;
        };
        assert_eq!(json(dir.path())["exit_code"], 128 + number);
        let name = if signal == "40" { "signal 40".to_owned() } else { format!("SIG{signal}") };
        assert!(stderr(&output).contains(&format!("ended by {name}")), "{}", said(&output));
    }
    assert!(!dir.path().join("core").exists());
}

#[test]
fn a_condition_fails_a_program_that_did_not() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |conditions: &[&str], script: &str| {
        let conditions: Vec<&str> = conditions.iter().flat_map(|condition| ["--fail-if", condition]).collect();
        run(dir.path(), &[&["trace", "-q", "-o", "t.samara"], &conditions[..], &["--", "sh", "-c", script]].concat())
    };
    let output = fails(&["calls.mmap.count == 0", "areas_peak > 3"], "exit 0");
    assert_eq!(output.status.code(), Some(123), "{}", said(&output));
    assert!(stderr(&output).starts_with("samara: --fail-if 'areas_peak > 3' holds: it is "), "{}", said(&output));
    assert_eq!(fails(&["areas_peak > 100000"], "exit 0").status.code(), Some(0));
    // The exit status of a program that fails stays.
    let output = fails(&["areas_peak > 3"], "exit 7");
    assert_eq!((output.status.code(), stderr(&output).contains("holds")), (Some(7), true));
    let output = fails(&["areas_peak > 3"], "kill -TERM $$");
    assert_eq!((output.status.signal(), stderr(&output).contains("holds")), (Some(15), true));
    // From the file.
    let output = run(dir.path(), &["summary", "t.samara", "--fail-if", "processes >= 1", "--json"]);
    assert_eq!(output.status.code(), Some(123), "{}", said(&output));
    assert_eq!(run(dir.path(), &["summary", "t.samara", "--fail-if", "processes > 1"]).status.code(), Some(0));
    // Before anything runs.
    let output = run(dir.path(), &["trace", "--fail-if", "areas > 3", "touch", "ran"]);
    assert_eq!((output.status.code(), dir.path().join("ran").exists()), (Some(2), false), "{}", said(&output));
}

#[test]
fn the_summary_of_the_file_is_that_of_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let output = traced(dir.path(), "cat /proc/self/maps >/dev/null; exit 3");
    let mut recorded = json(dir.path());
    let again = run(dir.path(), &["summary", "--json", "t.samara"]);
    let mut read: serde_json::Value = serde_json::from_str(&stdout(&again)).unwrap();
    // Not in the file, or measured a moment later.
    for field in ["checks", "notes", "max_map_count", "wall_ns", "program_ns"] {
        for value in [&mut recorded, &mut read] {
            assert!(value.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
    }
    assert_eq!(read, recorded, "{}", said(&output));
    assert_documented(&["reference/json.md"], read.as_object().unwrap().keys());
}

#[test]
fn programs_that_cannot_run() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), "no program").unwrap();
    for (program, code, text) in [
        ("no-such-program-here", 127, "not found"),
        ("./missing", 127, "not found"),
        ("", 127, "name is empty"),
        ("./text", 126, "Permission denied"),
        ("/", 126, "cannot be run"),
    ] {
        let output = run(dir.path(), &["trace", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(stderr(&output).contains(text) && stderr(&output).lines().count() == 1, "{}", said(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no trace of nothing is left");
}

/// A word that looks like an option before the program is not an argument of the program.
#[test]
fn unknown_options_are_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["trace", "run"] {
        let output = run(dir.path(), &[command, "--no-such-option", "5", "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(stderr(&output).contains("unexpected argument '--no-such-option'"), "{}", said(&output));
        let output = run(dir.path(), &[command, "-q", "printf", "%s.", "--", "-q"]);
        assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "--.-q."), "{}", said(&output));
    }
}

#[test]
fn files_that_cannot_be_written_are_reported_before_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["-o", "/dev/full"][..], &["-o", "no/such/dir"], &["--summary-json", "no/such/dir"], &["-o", "."]] {
        let args = [&["trace"], args, &["--", "touch", "ran"]].concat();
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        let text = stderr(&output);
        assert!(text.contains("cannot write the ") && text.contains("the program was not run"), "{text}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// If the program does not run, older files stay, and no new file is left.
#[test]
fn files_are_as_they_were_where_the_program_does_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("old"), "an older trace").unwrap();
    std::fs::write(at("old.json"), "an older summary").unwrap();
    std::os::unix::fs::symlink("target", at("link")).unwrap();
    std::os::unix::fs::symlink("target.json", at("link.json")).unwrap();
    for [trace, summary] in [["old", "old.json"], ["link", "link.json"], ["new", "new.json"], ["old", "no/such/dir"]] {
        let output = run(dir.path(), &["trace", "-o", trace, "--summary-json", summary, "--", "no-such-program-here"]);
        let expected = if summary.contains('/') { 125 } else { 127 };
        assert_eq!(output.status.code(), Some(expected), "{}", said(&output));
        assert_eq!(std::fs::read_to_string(at("old")).unwrap(), "an older trace");
        assert_eq!(std::fs::read_to_string(at("old.json")).unwrap(), "an older summary");
        assert!(at("link").is_symlink() && at("link.json").is_symlink());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "nothing is left");
    }
    // If it runs they are replaced, through a symbolic link too.
    std::fs::write(at("old.json"), "x".repeat(100_000)).unwrap();
    for [trace, summary] in [["old", "old.json"], ["link", "link.json"]] {
        let output = run(dir.path(), &["trace", "-q", "-o", trace, "--summary-json", summary, "--", "true"]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
        assert_eq!(run(dir.path(), &["events", trace]).status.code(), Some(0));
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(at(summary)).unwrap()).unwrap();
        assert_eq!(json["complete"], true);
    }
    assert!(at("link").is_symlink() && at("target").is_file() && at("target.json").is_file());
}

#[test]
fn one_file_for_trace_and_summary_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("old"), "an older trace").unwrap();
    std::os::unix::fs::symlink("old", dir.path().join("link")).unwrap();
    for [trace, summary] in [["new", "new"], ["new", "./new"], ["old", "link"], ["link", "old"]] {
        let output = run(dir.path(), &["trace", "-o", trace, "--summary-json", summary, "--", "touch", "ran"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(stderr(&output).contains("cannot be written to one file"), "{}", said(&output));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing ran, nothing is left");
        assert_eq!(std::fs::read_to_string(dir.path().join("old")).unwrap(), "an older trace");
    }
    let output = run(dir.path(), &["trace", "-q", "-o", "/dev/null", "--summary-json", "/dev/null", "--", "true"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn the_summary_s_figures_agree() {
    let dir = tempfile::tempdir().unwrap();
    let output = traced(dir.path(), "/bin/true; (/bin/true); echo x | cat >/dev/null");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let s = json(dir.path());
    let events = run(dir.path(), &["events", "--json", "t.samara"]);
    assert!(events.status.success(), "{}", said(&events));
    let events: Vec<serde_json::Value> =
        stdout(&events).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&s["events"], &s["complete"]), (&events.len().into(), &true.into()));
    assert_eq!(s["differences"], 0, "{}", said(&output));
    assert_eq!(s["spaces_compared"], s["spaces_equal"]);
    assert!(s["checks"].as_u64().unwrap() > 20);
    assert!(s["processes"].as_u64().unwrap() >= 4);
    assert!(s["wall_ns"].as_u64().unwrap() > 0);
    let ended = events.iter().filter(|e| e["kind"] == "exit").count();
    assert_eq!(s["processes"], ended);
    for (name, call) in s["calls"].as_object().unwrap() {
        let made = events.iter().filter(|e| e["call"] == name.as_str()).count();
        assert_eq!(call["count"], made, "{name}");
    }
    assert!(s["areas_final"].as_u64().unwrap() > 5 && s["areas_peak"].as_u64() >= s["areas_final"].as_u64());
    assert!(s["mapped_bytes_peak"].as_u64().unwrap() > 100_000);
    let size = std::fs::metadata(dir.path().join("t.samara")).unwrap().len();
    assert_eq!(s["file_bytes"], size);
    // The last state of the first process has as many areas as the summary says, and the gate's
    // line.
    let shown = run(dir.path(), &["show", "t.samara"]);
    let lines = stdout(&shown).lines().filter(|line| !line.ends_with("[vsyscall]")).count();
    assert_eq!(s["areas_final"], lines);
    assert_documented(&["reference/json.md"], s.as_object().unwrap().keys());
    // One screen, with the commands to type next.
    let screen = stderr(&output);
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.contains(&format!("{} show t.samara --reasons", env!("CARGO_BIN_EXE_samara"))), "{screen}");
    let output = samara().arg0("samara").current_dir(dir.path()).args(["trace", "--", "true"]).output().unwrap();
    assert!(
        stderr(&output).contains("  samara show true-"),
        "found by its name, it prints its name: {}",
        said(&output)
    );
}

#[test]
fn a_child_that_outlives_the_program_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let output = traced(dir.path(), "(while kill -0 $$; do sleep 0.01; done; sleep 0.5) >/dev/null 2>&1 & exit 3");
    assert!(stderr(&output).contains("; recorded for ") && output.status.code() == Some(3), "{}", said(&output));
    let s = json(dir.path());
    assert!(s["program_ns"].as_u64().unwrap() + 100_000_000 < s["wall_ns"].as_u64().unwrap(), "{s}");
    let output = traced(dir.path(), "exit 3");
    assert!(!stderr(&output).contains("recorded for"), "{}", said(&output));
}

/// A tracer under a tracer is refused, and says why.
#[test]
fn a_traced_samara_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["trace", "-q", "--", env!("CARGO_BIN_EXE_samara"), "trace", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    let text = stderr(&output);
    assert!(text.starts_with("samara: tracing is refused: this process is itself traced") && text.lines().count() == 1);
}

/// A kernel without PTRACE_GET_SYSCALL_INFO, made by a seccomp filter that fails it with EIO:
/// nothing runs.
#[test]
fn a_kernel_that_is_too_old_is_reported_before_the_program_runs() {
    const OLD: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
code = [(0x20, 0, 0, 0), (0x15, 0, 3, 101), (0x20, 0, 0, 16), (0x15, 0, 1, 0x420e), (0x06, 0, 0, 0x50005), (0x06, 0, 0, 0x7fff0000)]
code_bytes = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in code))
class Program(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('code', ctypes.c_void_p)]
program = Program(len(code), ctypes.cast(code_bytes, ctypes.c_void_p))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0): sys.exit(99)
os.execv(sys.argv[1], sys.argv[1:])";
    let dir = tempfile::tempdir().unwrap();
    let samara = env!("CARGO_BIN_EXE_samara");
    let output = Command::new("python3")
        .current_dir(dir.path())
        .args(["-c", OLD, samara, "trace", "--", "touch", "ran"])
        .output();
    match output {
        Ok(output) if output.status.code() != Some(99) => {
            assert_eq!(output.status.code(), Some(125), "{}", said(&output));
            assert!(stderr(&output).contains("use Linux 5.3 or later"), "{}", said(&output));
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing ran and no trace is left");
        }
        other => skipped(format_args!("no python3 that may install a seccomp filter: {other:?}")),
    }
}

/// The maps that a process reads equal the trace's at that moment, to the byte.
#[test]
fn shown_maps_are_the_kernel_s() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["trace", "-q", "-o", "t.samara", "--", "cat", "/proc/self/maps"]);
    assert!(output.status.success(), "{}", said(&output));
    let maps = stdout(&output);
    let events = stdout(&run(dir.path(), &["events", "t.samara"])).lines().count();
    // `cat` may map a buffer before it reads, and give it back after: one of the moments is that of
    // the reading.
    let shown = |at: usize| stdout(&run(dir.path(), &["show", "t.samara", "--at", &at.to_string()]));
    assert!((0..events).rev().any(|at| shown(at) == maps), "{maps}\nat the end:\n{}", shown(events - 1));
}

/// The program starts with the signals as they would be without us. The C library keeps 32 and 33
/// for itself in every program that has threads; those are left out.
#[test]
fn signal_dispositions_are_those_of_an_untraced_program() {
    let dir = tempfile::tempdir().unwrap();
    let script = "grep Sig /proc/self/status | grep -v SigQ";
    let signals = |text: &str| -> Vec<(String, u64)> {
        let line = |line: &str| {
            let (name, mask) = line.split_once(":\t").unwrap();
            (name.to_owned(), u64::from_str_radix(mask, 16).unwrap() & !(3 << 31))
        };
        text.lines().map(line).collect()
    };
    let plain = signals(&stdout(&Command::new("sh").args(["-c", script]).output().unwrap()));
    assert_eq!(plain.len(), 4);
    assert_eq!(signals(&stdout(&traced(dir.path(), script))), plain);
}

#[test]
fn quiet_is_quiet() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["trace", "--quiet", "-o", "t.samara", "--", "true"]);
    assert_eq!((output.status.code(), stdout(&output), stderr(&output)), (Some(0), String::new(), String::new()));
}

/// `ulimit -f`: the file may not grow; the program is not disturbed, the file is cut back to whole
/// batches.
#[test]
fn a_file_that_may_not_grow_ends_early() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "ulimit -f 200; exec {} trace -o t.samara --summary-json s.json -- sh -c '{BUSY}'",
        env!("CARGO_BIN_EXE_samara")
    );
    // bash counts in units of 1024 bytes.
    let output = Command::new("bash").current_dir(dir.path()).args(["-c", &script]).output().unwrap();
    ends_early(dir.path(), &output, "File too large");
    assert!(std::fs::metadata(dir.path().join("t.samara")).unwrap().len() <= 200 * 1024);
}

/// A disk that is full: a small tmpfs in a mount namespace of our own, where we may make one.
#[test]
fn a_full_disk_ends_the_trace_early() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=200k samara-test . && cd \"$PWD\" || exit 99
         {} trace -o t.samara --summary-json ../s.json -- sh -c '{BUSY}'; code=$?
         cp t.samara ..; exit $code",
        env!("CARGO_BIN_EXE_samara")
    );
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let output = Command::new("unshare").current_dir(&disk).args(["-m", "sh", "-c", &script]).output();
    match output {
        Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => ends_early(dir.path(), &output, "No space left"),
        other => skipped(format_args!("no mount namespace of our own here: {other:?}")),
    }
}

fn ends_early(dir: &Path, output: &std::process::Output, why: &str) {
    assert_eq!((output.status.code(), &*stdout(output)), (Some(5), "done\n"), "{}", said(output));
    assert!(stderr(output).contains("the trace ends early") && stderr(output).contains(why), "{}", said(output));
    assert_eq!(stderr(output).matches(why).count(), 1, "said once: {}", said(output));
    let s = json(dir);
    assert_eq!(s["complete"], false);
    // The figures are of the whole run.
    assert_eq!((&s["processes"], &s["spaces_compared"]), (&151.into(), &151.into()), "{s}");
    assert_eq!(s["execs"], 151);
    let events = run(dir, &["events", "t.samara"]);
    assert_eq!(events.status.code(), Some(3), "{}", stderr(&events));
    let lines = stdout(&events).lines().count();
    assert_eq!(s["events_in_file"], lines);
    assert!(lines > 0 && s["events"].as_u64().unwrap() > lines as u64, "{lines} lines, {s}");
}

#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let mut child = samara()
        .current_dir(dir.path())
        .args(["trace", "-o", "t.samara", "--", "sh", "-c", "while :; do /bin/true; done"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let start = Instant::now();
    while std::fs::metadata(&path).map_or(0, |m| m.len()) < 60_000 && start.elapsed() < Duration::from_secs(600) {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let output = run(dir.path(), &["events", "t.samara"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stdout(&output).lines().count() > 100, "{}", stderr(&output));
    assert!(stderr(&output).contains("ends early"), "{}", stderr(&output));
    let shown = run(dir.path(), &["show", "t.samara"]);
    assert!(stdout(&shown).contains("[stack]"), "{}", said(&shown));
}

#[test]
fn only_what_is_followed_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let script = "/bin/true; /bin/true; cat /dev/null; exit 5";
    let follow = |what: &str| {
        let args = ["trace", "-o", "t.samara", "--summary-json", "s.json", "--follow", what, "--", "sh", "-c", script];
        let output = run(dir.path(), &args);
        assert_eq!(output.status.code(), Some(5), "{}", said(&output));
        let json = json(dir.path());
        let told = ["processes", "execs", "differences"].map(|name| json[name].as_u64().unwrap());
        let events = stdout(&run(dir.path(), &["events", "t.samara", "--json"])).lines().count() as u64;
        assert_eq!((json["events"].as_u64(), json["complete"].as_bool()), (Some(events), Some(true)), "{json}");
        let summary = run(dir.path(), &["summary", "t.samara"]);
        assert_eq!(summary.status.code(), Some(0), "{}", said(&summary));
        (told, stderr(&output))
    };
    assert_eq!(follow("all").0, [4, 4, 0]);
    assert_eq!(follow("none").0, [1, 1, 0]);
    assert_eq!(follow("true").0, [2, 2, 0]);
    assert_eq!(follow("true,cat").0, [3, 3, 0]);
    let (told, text) = follow("no-such");
    assert_eq!(told, [0, 0, 0]);
    assert!(text.contains("nothing was recorded: no process has loaded no-such"), "{text}");
    for (name, text) in [("", "give all, none, or names"), ("true,", "give all, none"), ("/bin/true", "file name")] {
        let output = run(dir.path(), &["trace", "--follow", name, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(stderr(&output).contains(text), "{}", said(&output));
    }
}
