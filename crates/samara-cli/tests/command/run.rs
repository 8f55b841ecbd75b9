//! `samara run`: its output, its files, and its exit codes.

use std::path::Path;

use crate::samples::{run, said, stderr, stdout};
use serde_json::Value;

fn json(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("s.json")).unwrap()).unwrap()
}

/// Runs a shell script with the engine in charge.
fn decided(dir: &Path, options: &[&str], script: &str) -> std::process::Output {
    run(dir, &[&["run", "--summary-json", "s.json"], options, &["--", "sh", "-c", script]].concat())
}

#[test]
fn streams_and_exit_code_are_the_program_s() {
    let dir = tempfile::tempdir().unwrap();
    let output = decided(dir.path(), &[], "echo out; exit 3");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), "out\n"), "{}", said(&output));
    let s = json(dir.path());
    assert_eq!((&s["exit_code"], &s["differences"]), (&3.into(), &0.into()), "{s:#}");
    assert!(s["decided"].as_u64() > Some(10) && s["placed"].as_u64() > Some(3) && s["failed"] == 0, "{s:#}");
    let text = stderr(&output);
    for part in ["ended with 3", "decided", "places chosen", "no difference"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn what_fails_is_reported_and_the_program_sees_it() {
    let dir = tempfile::tempdir().unwrap();
    let output = decided(dir.path(), &["--fail", "mmap:ENOMEM@1+"], "echo never");
    // The loader may handle the failure in any way.
    assert!(!output.status.success(), "{}", said(&output));
    assert!(stdout(&output).is_empty() && stderr(&output).contains("by --fail"), "{}", said(&output));
    assert!(json(dir.path())["failed"].as_u64() > Some(0));
}

#[test]
fn each_call_that_failed_is_named_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let output = decided(dir.path(), &["-o", "t.samara", "--fail", "mlock:EPERM", "--fail", "brk:ENOMEM@2"], "true");
    let (s, text) = (json(dir.path()), stderr(&output));
    let one = &s["refusals"][0];
    assert_eq!((&one["call"], &one["number"], &one["by"]), (&"brk".into(), &2.into(), &"fault".into()), "{s:#}");
    assert!(text.contains(&format!("brk:ENOMEM@2 in process {}", one["pid"])), "{text}");
    assert_eq!((s["failed"].as_u64(), &s["seed"]), (Some(1), &Value::Null), "{s:#}");
    let shown = stdout(&run(dir.path(), &["events", "t.samara"]));
    let marked: Vec<_> =
        shown.lines().filter(|l| l.contains("[refused: by samara, for --fail or --fail-rate]")).collect();
    assert!(matches!(marked[..], [line] if line.contains("brk(")), "{shown}");
    decided(dir.path(), &["-o", "u.samara", "--fail", "munmap:EINVAL"], "true");
    let summary = stdout(&run(dir.path(), &["summary", "u.samara"]));
    let failed = summary.lines().find(|line| line.contains("with EINVAL")).unwrap_or(&summary);
    assert!(failed.ends_with(": by samara, for --fail or --fail-rate"), "{failed}");
    let told: Value = serde_json::from_str(&stdout(&run(dir.path(), &["summary", "u.samara", "--json"]))).unwrap();
    assert_eq!(told["failures"][0]["refused"]["by"], "run-fault", "{told:#}");
}

#[test]
fn a_seed_that_nobody_gave_is_reported_and_repeats_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let refusals = |seed: &[&str]| {
        decided(dir.path(), &[&["--fail-rate", "0.5", "--fail", "mprotect:ENOMEM"], seed].concat(), "true");
        let s = json(dir.path());
        let numbers: Vec<_> = s["refusals"].as_array().unwrap().iter().map(|r| r["number"].clone()).collect();
        (s["seed"].to_string(), numbers)
    };
    let first = refusals(&[]);
    assert_eq!(first, refusals(&["--seed", &first.0]));
    let output = decided(dir.path(), &["--policy", "random"], "true");
    let seed = json(dir.path())["seed"].to_string();
    assert!(stderr(&output).contains(&format!("--seed {seed} repeats")), "{}", said(&output));
}

#[test]
fn the_same_seed_gives_the_same_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let maps = |seed: &str| {
        let output = decided(dir.path(), &["--seed", seed, "--quiet"], "exec cat /proc/self/maps");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        stdout(&output)
    };
    assert_eq!(maps("1"), maps("1"));
    assert_ne!(maps("1"), maps("2"));
}

#[test]
fn limits_are_the_program_s() {
    let dir = tempfile::tempdir().unwrap();
    let output = decided(dir.path(), &["--limit-as", "64MiB", "--limit-data", "32MiB"], "ulimit -v; ulimit -d");
    assert_eq!(stdout(&output), "65536\n32768\n", "{}", said(&output));
    let output = decided(dir.path(), &["--max-map-count", "99999999"], "echo never");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("vm.max_map_count=99999999") && stdout(&output).is_empty(), "{}", said(&output));
}

#[test]
fn a_run_is_recorded_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let output = decided(dir.path(), &["-o", "t.samara", "--policy", "random"], "true");
    assert!(output.status.success() && stderr(&output).contains("t.samara ("), "{}", said(&output));
    let shown = run(dir.path(), &["events", "t.samara"]);
    assert!(shown.status.success() && stdout(&shown).contains("mmap(NULL, "), "{}", said(&shown));
    // No file is left if the program does not exist.
    let output = run(dir.path(), &["run", "-o", "u.samara", "--summary-json", "u.json", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    assert!(!dir.path().join("u.samara").exists() && !dir.path().join("u.json").exists());
    let output = run(dir.path(), &["run", "-o", "v", "--summary-json", "v", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
