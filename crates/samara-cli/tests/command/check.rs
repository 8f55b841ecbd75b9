//! `samara check`: short runs against the running kernel. The tests of samara-oracle prove that it
//! finds differences.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::samples::{run, said, samara, stdout};
use crate::skip::skipped;
use serde_json::Value;

fn check(args: &[&str]) -> Output {
    run(Path::new("."), &[&["check"], args].concat())
}

/// The printed object. `None`, with a message, if nothing can be compared here.
fn json(args: &[&str]) -> Option<Value> {
    let output = check(&[&["--json"], args].concat());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    if value["compared"] == 0 {
        skipped(format_args!("`samara check` compares nothing here: {}", value["skipped"]));
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        return None;
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    Some(value)
}

#[test]
fn a_short_run_of_all_mixes() {
    let Some(value) = json(&["--ops", "15000", "--seed", "3"]) else { return };
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "ops",
            "compared",
            "divergences",
            "kernel",
            "profile",
            "tested",
            "features",
            "presumed",
            "seed",
            "mixes",
            "skipped",
            "stopped",
            "tests"
        ]
    );
    let running = samara_oracle::Profile::running();
    assert_eq!(
        (&value["profile"], &value["tested"]),
        (&running.to_string().into(), &running.tested().to_string().into())
    );
    // With this few calls none comes near the limit of areas, where two more rules show.
    assert_eq!(value["presumed"], serde_json::json!(running.presumed.names()));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!((&value["kernel"], &value["seed"]), (&release.trim().into(), &3.into()));
    assert_eq!((&value["divergences"], value["tests"].as_array().unwrap().len()), (&0.into(), 0));
    let mixes = value["mixes"].as_array().unwrap();
    let keys: Vec<_> = mixes[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["mix", "ops", "compared", "sequences", "divergences", "overlapped", "time_ns"]);
    assert_eq!(mixes[0]["mix"], "basic");
    let sum = |key: &str| mixes.iter().map(|mix| mix[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("ops"), sum("compared")), (value["ops"].as_u64().unwrap(), value["compared"].as_u64().unwrap()));
    for mix in mixes {
        assert!(mix["ops"] == 1000 && mix["compared"] == 1000, "{mix}");
    }
    // Calls overlap only where there are threads.
    for mix in mixes {
        assert!(mix["mix"] == "threads" || mix["overlapped"] == 0, "{mix}");
    }
    // A skipped mix has a reason.
    for skipped in value["skipped"].as_array().unwrap() {
        assert!(!skipped["why"].as_str().unwrap().is_empty());
        crate::skip::skipped(format_args!("a mix of `samara check`: {skipped}"));
    }
}

#[test]
fn mixes_that_are_asked_for() {
    // Each once, however often it is named.
    for names in [&["--mix", "remap", "--mix", "basic"][..], &["--mix", "remap,basic,remap", "--mix", "basic"]] {
        let Some(value) = json(&[&["--ops", "3_01"], names].concat()) else { return };
        let mixes: Vec<_> = value["mixes"].as_array().unwrap().iter().map(|m| (&m["mix"], &m["ops"])).collect();
        assert_eq!(mixes, [(&"remap".into(), &151.into()), (&"basic".into(), &150.into())]);
    }
}

/// A mix without calls reports no differences.
#[test]
fn fewer_calls_than_mixes() {
    let Some(value) = json(&["--ops", "2", "--mix", "all"]) else { return };
    let mixes: Vec<_> = value["mixes"].as_array().unwrap().iter().map(|m| (&m["mix"], &m["compared"])).collect();
    assert_eq!(mixes, [(&"basic".into(), &1.into()), (&"remap".into(), &1.into())]);
    let none = |mix: &Value| mix["why"].as_str().unwrap().contains("no call falls to it");
    assert!(value["skipped"].as_array().unwrap().iter().filter(|mix| none(mix)).count() > 5, "{value}");
}

/// Limits that the process itself has: the model has them too, or nothing is compared.
#[test]
fn under_limits() {
    if json(&["--ops", "1", "--mix", "limits"]).is_none() {
        return;
    }
    let limited = |limits: &str| {
        let (program, script) = (env!("CARGO_BIN_EXE_samara"), format!("{limits} && exec \"$0\" \"$@\""));
        let args = ["-c", &script, program, "check", "--json", "--ops", "6000", "--mix", "limits,stacks,locks"];
        Command::new("sh").args(args).output().unwrap()
    };
    let output = limited("ulimit -l 0 && ulimit -s 600");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert_eq!((&value["compared"], &value["divergences"]), (&6000.into(), &0.into()), "{value}");
    let output = limited("ulimit -v 1000000");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert!(value["skipped"][0]["why"].as_str().unwrap().contains("ulimit -v"), "{value}");
    assert_eq!((output.status.code(), &value["compared"]), (Some(1), &0.into()));
    // Of any command, and of this one: no overflow of the stack.
    for (limit, needed) in [("ulimit -s 100", 256), ("ulimit -s 300", 512)] {
        let output = limited(limit);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(&format!("samara needs {needed}: ulimit -s {needed}")), "{}", said(&output));
    }
    // No signal ends it; the kernel is asked all the same.
    let output = limited("ulimit -f 8");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert!(value["skipped"][0]["why"].as_str().unwrap().contains("ulimit -f"), "{value}");
    assert_eq!(value["presumed"], serde_json::json!(samara_oracle::Profile::running().presumed.names()));
}

/// Interrupted by a signal, it reports the comparisons so far, ends by that signal, and leaves no
/// process.
#[test]
fn ended_early() {
    if json(&["--ops", "1", "--mix", "forks"]).is_none() {
        return;
    }
    for (signal, name) in [(2, "-INT"), (15, "-TERM")] {
        let args = ["check", "--ops", "1000000000", "--mix", "forks", "--mix", "basic", "--json"];
        let child = samara().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id().to_string();
        // It forks its first child when it is ready; a while later it compares.
        let children = format!("/proc/{pid}/task/{pid}/children");
        while std::fs::read_to_string(&children).unwrap_or_default().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(300));
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal), "{}", said(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&value["stopped"], &value["divergences"]), (&true.into(), &0.into()), "{value}");
        assert_eq!(value["compared"], value["ops"]);
        assert_eq!(value["skipped"].as_array().unwrap().last().unwrap()["mix"], "basic");
    }
}

#[test]
fn as_text() {
    let output = check(&["--ops", "300", "--mix", "basic", "--seed", "9"]);
    let text = stdout(&output);
    if text.contains("left out") {
        skipped(format_args!("`samara check` leaves mixes out: {text}"));
        return;
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert!(text.starts_with("basic    300 calls compared in "), "{text}");
    assert!(text.ends_with(", seed 9: no difference\n"), "{text}");
    assert!(text.contains(&format!(", profile {}, seed 9", samara_oracle::Profile::running())), "{text}");
    let text = stdout(&check(&["--ops", "2000", "--mix", "threads"]));
    assert!(text.starts_with("threads  2,000 calls compared in ") && text.contains(" overlapped, "), "{text}");
}
