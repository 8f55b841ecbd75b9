//! The rule that refused a call, in the output of all commands.

use samara_trace::file::Header;
use serde_json::Value;

use crate::samples::{events, header, run, said, stdout, trace_of, trace_with};

const RULE: &str = "RLIMIT_AS is 256 MiB, and the address space would have 257 MiB";

#[test]
fn a_refused_call_is_told_with_its_rule_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = events();
    let failed = &mut events[3];
    (failed.nr, failed.args, failed.result) = (Some(9), [0, 1 << 20, 3, 0x22, u64::MAX, 0], -12);
    failed.text = "kernel:rlimit-as limit=268435456 would_be=269484032".into();
    failed.ip = Some(0x40_1234);
    trace_with(dir.path(), &Header { max_map_count: Some(500), ..header() }, &events);
    let told = |args: &[&str]| stdout(&run(dir.path(), args));
    let json = |args: &[&str]| -> Value { serde_json::from_str(&told(args)).unwrap() };

    let all = told(&["events", "t.samara"]);
    assert!(all.lines().any(|line| line.ends_with(&format!(" [refused: {RULE}]"))), "{all}");
    let lines = told(&["events", "t.samara", "--json", "--failed"]);
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&line["refused"]["by"], &line["refused"]["limit"]), (&"rlimit-as".into(), &(256_u64 << 20).into()));
    assert_eq!(line["refused"]["text"], RULE);

    let summary = told(&["summary", "t.samara"]);
    let row = summary.lines().nth(1).unwrap();
    assert!(row.starts_with("  failed     mmap 1 time with ENOMEM"), "directly below the first line: {summary}");
    assert!(row.ends_with(&format!(" from prog+0x1234: {RULE}")), "{summary}");
    let summary = json(&["summary", "t.samara", "--json"]);
    let failure = &summary["failures"][0];
    assert_eq!((&failure["event"], &failure["caller"]), (&3.into(), &"prog+0x1234".into()));
    assert_eq!((&failure["refused"]["would_be"], &summary["max_map_count"]), (&269_484_032.into(), &500.into()));

    assert!(told(&["why", "t.samara"]).contains(RULE));
    assert_eq!(json(&["why", "t.samara", "--json"])["failures"], summary["failures"]);
    let page = json(&["report", "t.samara", "--json"]);
    assert_eq!(
        (&page["traces"][0]["summary"]["failures"], &page["traces"][0]["limit"]),
        (&summary["failures"], &500.into())
    );
}

/// Many early harmless refusals, and one by a limit: all lists have the same order.
#[test]
fn what_a_limit_refused_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = events();
    let template = events[3].clone();
    let end = events.pop().unwrap();
    let rules = ["kernel:huge-pages limit=0", "", "", "kernel:hole start=4096 end=8192", "kernel:rlimit-as limit=4096"];
    for (rule, nr, error) in
        rules.into_iter().zip([9, 28, 28, 10, 9]).map(|(rule, nr)| (rule, nr, if rule.is_empty() { -22 } else { -12 }))
    {
        let args = [0, 1 << 20, 3, 0x22, u64::MAX, 0];
        let failed =
            samara_trace::event::Event { nr: Some(nr), args, result: error, text: rule.into(), ..template.clone() };
        events.push(samara_trace::event::Event { plan: Vec::new(), window: None, areas: Vec::new(), ..failed });
    }
    // A break that stays where it is.
    let brk = samara_trace::event::Event {
        nr: Some(12),
        args: [0x9000, 0, 0, 0, 0, 0],
        result: 0x5000,
        ..events.last().unwrap().clone()
    };
    events.push(samara_trace::event::Event { text: "kernel:rlimit-data limit=4096".into(), ..brk });
    events.push(end);
    (0..).zip(&mut events).for_each(|(seq, event)| event.seq = seq);
    trace_of(dir.path(), &events);
    let told = |args: &[&str]| stdout(&run(dir.path(), args));
    let json = |args: &[&str]| -> Value { serde_json::from_str(&told(args)).unwrap() };
    let failures = json(&["summary", "t.samara", "--json"])["failures"].clone();
    let rows = |all: &Value| -> Vec<String> {
        let row = |f: &Value| {
            format!("{} {} {}", f["call"].as_str().unwrap(), f["error"].as_str().unwrap(), f["refused"]["by"])
        };
        all.as_array().unwrap().iter().map(row).collect()
    };
    let expected = [
        "mmap ENOMEM \"rlimit-as\"",
        "brk ENOMEM \"rlimit-data\"",
        "mprotect ENOMEM \"hole\"",
        "madvise EINVAL null",
        "munmap EINVAL null",
        "mmap ENOMEM \"huge-pages\"",
    ];
    assert_eq!(rows(&failures), expected);
    assert_eq!(json(&["why", "t.samara", "--json"])["failures"], failures);
    assert_eq!(json(&["report", "t.samara", "--json"])["traces"][0]["summary"]["failures"], failures);
    for command in ["summary", "why"] {
        let told = told(&[command, "t.samara"]);
        let at = |row: &str| told.find(row).unwrap_or_else(|| panic!("{row}: {told}"));
        assert!(
            at("RLIMIT_AS is") < at("RLIMIT_DATA is") && at("RLIMIT_DATA is") < at("a hole in the range"),
            "{told}"
        );
    }
    assert_eq!(told(&["events", "t.samara", "--failed"]).lines().count(), 7);
}

/// For calls that the areas would have allowed.
#[test]
fn a_replay_counts_the_rules() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = events();
    let failed = &mut events[3];
    (failed.nr, failed.args, failed.result) = (Some(10), [0x60_0000, 0x1000, 1, 0, 0, 0], -12);
    failed.text = "kernel:rlimit-data limit=4096".into();
    trace_of(dir.path(), &events);
    let replay = run(dir.path(), &["replay", "t.samara"]);
    let told = stdout(&replay);
    assert!(told.contains("    1 by RLIMIT_DATA\n"), "{}", said(&replay));
    let all: Value = serde_json::from_str(&stdout(&run(dir.path(), &["replay", "t.samara", "--json"]))).unwrap();
    assert_eq!(all["agreement"]["refused_by"]["rlimit-data"], 1);
}

/// Calls of one kind that failed by two rules are two kinds; a rule of a later version is none.
#[test]
fn rules_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = events();
    let failed = all[3].clone();
    for text in ["kernel:hole start=4096 end=8192", "kernel:hole start=0 end=4096", "kernel:no-length", "kernel:later"]
    {
        all.insert(4, samara_trace::event::Event { text: text.into(), ..failed.clone() });
    }
    (0..).zip(&mut all).for_each(|(seq, event)| event.seq = seq);
    trace_of(dir.path(), &all);
    let summary = stdout(&run(dir.path(), &["summary", "t.samara", "--json"]));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let of = |failure: &Value| (failure["refused"]["by"].as_str().map(str::to_owned), failure["count"].as_u64());
    let found: Vec<_> = summary["failures"].as_array().unwrap().iter().map(of).collect();
    let by = |name: &str| Some(name.to_owned());
    assert_eq!(found, [(by("hole"), Some(2)), (None, Some(2)), (by("no-length"), Some(1))]);
}

/// The recorder's rule, from a program to its summary.
#[test]
fn a_limit_of_the_shell_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ulimit -v 300000; exec dd if=/dev/zero of=/dev/null bs=1G count=1";
    let output = run(dir.path(), &["trace", "-o", "t.samara", "--", "sh", "-c", script]);
    let told = crate::samples::stderr(&output);
    assert!(told.contains("RLIMIT_AS is 293 MiB, and the address space would have 1."), "{}", said(&output));
    let row = told.lines().position(|line| line.starts_with("  failed "));
    let first = told.lines().position(|line| line.starts_with("samara: "));
    assert_eq!(row, first.map(|first| first + 1), "{}", said(&output));
}
