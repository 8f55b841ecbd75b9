//! `samara check`: short runs against the running kernel. That a difference is found is a test of samara-oracle's.

mod samples;

use std::path::Path;
use std::process::Output;

use samples::{run, said, stdout};
use serde_json::Value;

fn check(args: &[&str]) -> Output {
    run(Path::new("."), &[&["check"], args].concat())
}

/// The object that is printed; `None` where this kernel cannot be compared with, or is older than what the model follows, which is said.
fn json(args: &[&str]) -> Option<Value> {
    let output = check(&[&["--json"], args].concat());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    if value["compared"] == 0 {
        println!("skipped: {}", value["skipped"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        return None;
    }
    if !value["features"].as_array().unwrap().contains(&"move-many".into()) {
        println!("skipped: this kernel is older than Linux 6.17");
        return None;
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    Some(value)
}

#[test]
fn a_short_run_of_all_mixes() {
    let Some(value) = json(&["--ops", "12000", "--seed", "3"]) else { return };
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["ops", "compared", "divergences", "kernel", "features", "seed", "mixes", "skipped", "tests"]);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!((&value["kernel"], &value["seed"]), (&release.trim().into(), &3.into()));
    assert_eq!((&value["divergences"], value["tests"].as_array().unwrap().len()), (&0.into(), 0));
    let mixes = value["mixes"].as_array().unwrap();
    let keys: Vec<_> = mixes[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["mix", "ops", "compared", "sequences", "divergences", "time_ns"]);
    assert_eq!(mixes[0]["mix"], "basic");
    let sum = |key: &str| mixes.iter().map(|mix| mix[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("ops"), sum("compared")), (value["ops"].as_u64().unwrap(), value["compared"].as_u64().unwrap()));
    for mix in mixes {
        assert!(mix["ops"] == 1000 && mix["compared"] == 1000, "{mix}");
    }
    // What is missing says why.
    for skipped in value["skipped"].as_array().unwrap() {
        assert!(!skipped["why"].as_str().unwrap().is_empty());
        println!("{skipped}");
    }
}

#[test]
fn mixes_that_are_asked_for() {
    let Some(value) = json(&["--ops", "301", "--mix", "remap", "--mix", "basic"]) else { return };
    let mixes: Vec<_> = value["mixes"].as_array().unwrap().iter().map(|m| (&m["mix"], &m["ops"])).collect();
    assert_eq!(mixes, [(&"remap".into(), &151.into()), (&"basic".into(), &150.into())]);
}

#[test]
fn as_text() {
    let output = check(&["--ops", "300", "--mix", "basic", "--seed", "9"]);
    let text = stdout(&output);
    if text.contains("left out") || !text.contains("move-many") {
        println!("skipped: {text}");
        return;
    }
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert!(text.starts_with("basic    300 calls compared in "), "{text}");
    assert!(text.ends_with(", seed 9: no difference\n"), "{text}");
}
