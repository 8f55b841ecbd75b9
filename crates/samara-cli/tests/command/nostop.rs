//! `samara trace --no-stop`: the command as users run it, and what it says where it may not.

use std::process::{Command, Output};

use crate::samples::{run, samara, stderr, stdout};
use crate::skip::skipped;

/// Whether this machine lets samara record without stops. Said if not.
fn allowed(output: &Output) -> bool {
    let text = stderr(output);
    let may = output.status.code() != Some(125) || !text.contains("Without --no-stop");
    if !may {
        skipped(text.trim());
    }
    may
}

#[test]
fn a_program_is_recorded_without_stops() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["trace", "--no-stop", "-o", "t.samara", "--summary-json", "s.json", "--", "sh", "-c", "ls /; exit 7"];
    let output = run(dir.path(), &words);
    if !allowed(&output) {
        return;
    }
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(stdout(&output).contains("proc"));
    assert!(text.contains("note       without stops: ") && text.contains(" events lost, "), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("s.json")).unwrap()).unwrap();
    assert_eq!((&json["processes"], &json["execs"], &json["differences"]), (&2.into(), &2.into(), &0.into()), "{json}");
    // All that reads traces reads this one.
    for words in [&["events", "t.samara"][..], &["why", "t.samara"], &["summary", "t.samara"], &["show", "t.samara"]] {
        let read = run(dir.path(), words);
        assert!(read.status.success(), "{words:?}: {}", stderr(&read));
    }
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    assert!(events.contains("exec /") && events.contains("mmap(NULL, "), "{events}");
    let missing = run(dir.path(), &["trace", "--no-stop", "--", "./no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));
}

#[test]
fn a_process_that_runs_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id().to_string();
    let output = run(dir.path(), &["trace", "--no-stop", "--pid", &pid, "--for", "500ms", "-o", "t.samara"]);
    let runs = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    if !allowed(&output) {
        return;
    }
    let text = stderr(&output);
    assert!(output.status.success() && runs, "{text}");
    assert!(text.contains("it does not stop") && text.contains("0 spaces unsure"), "{text}");
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    assert!(events.contains("found ") && events.contains("are equal"), "{events}");
}

#[test]
fn what_needs_stops_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for option in [&["--stacks"][..], &["--resident"], &["--start-on", "USR1"], &["--follow", "none"]] {
        let words = [&["trace", "--no-stop"][..], option, &["--", "true"]].concat();
        let output = run(dir.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

/// The message names what is missing, and the way without it.
#[test]
fn a_missing_right_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = samara().get_program().to_owned();
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(path)
        .args(["trace", "--no-stop", "--", "true"])
        .current_dir(dir.path())
        .output();
    let Ok(output) = output else { return skipped("there is no setpriv") };
    let text = stderr(&output);
    if text.starts_with("setpriv") {
        return skipped(format!("setpriv is refused: {}", text.trim()));
    }
    assert_eq!(output.status.code(), Some(125), "{text}");
    let named = ["mount -t tracefs", "CAP_PERFMON is missing", "CONFIG_FTRACE_SYSCALLS"];
    assert!(named.iter().any(|what| text.contains(what)), "{text}");
    assert!(text.contains("Without --no-stop samara needs none of this"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no trace is left");
}
