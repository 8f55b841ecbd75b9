//! `samara trace --start-on`, `--stop-on`: a part of a run is recorded, and the program goes on.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::attach::Subject;
use crate::samples::{run, said, samara, stderr, stdout};

/// Notes signals that it gets, and ends with 5 when there is a file `go`.
const PROGRAM: &str = "trap 'touch got' USR1 USR2; touch ready; while ! test -e go; do sleep 0.01; done; exit 5";

fn start(dir: &Path, args: &[&str]) -> Child {
    let mut command = samara();
    let command = command.current_dir(dir).arg("trace").args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(signal: &str, to: &Child) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &to.id().to_string()]).status().unwrap().success());
}

/// Waits as long as a busy machine needs, and not for ever.
fn until(is: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(600), "what was waited for did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the trace has an event of this kind.
fn has(dir: &Path, word: &str) -> bool {
    stdout(&run(dir, &["events", "t.samara"])).lines().any(|line| line.contains(&format!("  {word} ")))
}

#[test]
fn a_part_of_a_run_is_recorded() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let signals = ["--start-on", "USR1", "--stop-on", "SIGUSR2"];
    let to = ["-o", "t.samara", "--summary-json", "s.json", "--", "sh", "-c", PROGRAM];
    let samara = start(dir, &[&signals[..], &to].concat());
    until(|| dir.join("ready").exists());
    assert_eq!(stdout(&run(dir, &["events", "t.samara"])), "");
    send("USR1", &samara);
    until(|| has(dir, "found") && has(dir, "exec"));
    send("USR2", &samara);
    // The trace is whole while the program goes on.
    until(|| run(dir, &["summary", "t.samara"]).status.success());
    let trace = std::fs::read(dir.join("t.samara")).unwrap();
    let replay = run(dir, &["replay", "t.samara"]);
    assert!(replay.status.success() && stdout(&replay).contains(" have the effect of the trace"), "{}", said(&replay));
    assert!(stdout(&run(dir, &["show", "t.samara"])).contains("[stack]"));
    let pid = samara.id();
    std::fs::write(dir.join("go"), "").unwrap();
    let output = samara.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let text = stderr(&output);
    let first = format!("samara: records nothing until kill -USR1 {pid}, then records until kill -USR2 {pid}\n");
    assert!(text.starts_with(&first), "{text}");
    let second = "samara: USR1 came: records from now on\n";
    let third = "samara: USR2 came: records no more, and the program goes on\n";
    assert!(text[first.len()..].starts_with(&[second, third].concat()), "{text}");
    assert!(text.contains(" s on, when USR1 came\n") && text.contains(" s, when USR2 came\n"), "{text}");
    assert!(text.contains(" ended with 5 after ") && !text.contains("ends early"), "{text}");
    assert_eq!(std::fs::read(dir.join("t.samara")).unwrap(), trace);
    assert!(!dir.join("got").exists(), "the program got a signal");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.join("s.json")).unwrap()).unwrap();
    assert_eq!((&json["exit_code"], &json["differences"]), (&5.into(), &0.into()), "{json}");
    assert!(json["processes"].as_u64().is_some_and(|n| n > 1), "{json}");
}

/// A signal that comes right after the message that names it starts the recording.
#[test]
fn a_signal_counts_from_the_line_on() {
    for _ in 0..20 {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let mut samara = start(dir, &["-o", "t.samara", "--start-on", "USR1", "--", "sh", "-c", "sleep 0.2"]);
        let mut line = String::new();
        let mut stderr = BufReader::new(samara.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        send("USR1", &samara);
        assert!(line.contains("records nothing until kill -USR1"), "{line}");
        stderr.read_to_string(&mut line).unwrap();
        assert_eq!(samara.wait().unwrap().code(), Some(0), "{line}");
        assert!(line.contains("USR1 came: records from now on\n"), "{line}");
    }
}

/// The other one of the two signals does nothing, before the start and after it; nor does the start
/// once more.
#[test]
fn a_signal_that_is_not_asked_for_does_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let samara = start(dir, &["-o", "t.samara", "--start-on", "USR1", "--", "sh", "-c", PROGRAM]);
    until(|| dir.join("ready").exists());
    ["USR2", "USR1"].iter().for_each(|signal| send(signal, &samara));
    until(|| has(dir, "found"));
    ["USR2", "USR1"].iter().for_each(|signal| send(signal, &samara));
    std::fs::write(dir.join("go"), "").unwrap();
    let output = samara.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(!dir.join("got").exists(), "the program got a signal that was samara's");
    let events = stdout(&run(dir, &["events", "t.samara"]));
    // Each process is found once.
    let found = events.lines().filter(|line| line.contains(" found "));
    let mut pids: Vec<_> = found.filter_map(|line| line.split_whitespace().nth(2)).collect();
    pids.sort_unstable();
    assert!(!pids.is_empty() && pids.windows(2).all(|pair| pair[0] != pair[1]), "{events}");
}

#[test]
fn a_start_that_never_comes_leaves_an_empty_trace() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["trace", "-o", "t.samara", "--start-on", "USR2", "--", "sh", "-c", "exit 6"];
    let output = run(dir.path(), &args);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(stderr(&output).contains("nothing was recorded: USR2 did not come"), "{}", said(&output));
    let summary = run(dir.path(), &["summary", "t.samara"]);
    assert!(summary.status.success() && stdout(&summary).contains("nothing was recorded"), "{}", said(&summary));
}

#[test]
fn a_part_of_a_process_that_runs_is_recorded() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, subject) = (temp.path(), Subject::start());
    let signals = ["--start-on", "USR1", "--stop-on", "USR2"];
    let samara = start(dir, &[&signals[..], &["-o", "t.samara", "--pid", &subject.pid()]].concat());
    until(|| subject.is_traced());
    send("USR1", &samara);
    until(|| has(dir, "found") && has(dir, "exec"));
    send("USR2", &samara);
    let output = samara.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(stderr(&output).contains("; the process goes on\n"), "{}", said(&output));
    assert!(!subject.is_traced());
    subject.end();
    let summary = run(dir, &["summary", "t.samara"]);
    assert!(summary.status.success(), "{}", said(&summary));
}
