//! Help texts, usage errors and completions, compared with snapshots.

use std::path::Path;

use crate::samples::{assert_documented, page, run, said, stderr, stdout};

fn here(args: &[&str]) -> std::process::Output {
    run(Path::new("."), args)
}

#[test]
fn help_texts() {
    for command in [
        &["--help"][..],
        &["trace", "--help"],
        &["run", "--help"],
        &["show", "--help"],
        &["events", "--help"],
        &["summary", "--help"],
        &["who", "--help"],
        &["why", "--help"],
        &["diff", "--help"],
        &["report", "--help"],
        &["export", "--help"],
        &["fleet", "--help"],
        &["replay", "--help"],
        &["top", "--help"],
        &["inspect", "--help"],
        &["watch", "--help"],
        &["check", "--help"],
        &["completions", "--help"],
        &["man", "--help"],
    ] {
        let output = here(command);
        assert!(output.status.success() && output.stderr.is_empty());
        insta::assert_snapshot!(format!("help-{}", command[0].trim_start_matches("--")), stdout(&output));
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for (name, args) in [
        ("nothing", &[][..]),
        ("no program", &["trace"]),
        ("pid and program", &["trace", "--pid", "1", "true"]),
        ("no such pid", &["trace", "--pid", "one"]),
        ("time without pid", &["trace", "--for", "1s", "true"]),
        ("no such time", &["trace", "--pid", "1", "--for", "soon"]),
        ("no such signal", &["trace", "--start-on", "TERM", "true"]),
        ("no such command", &["trase"]),
        ("no such option", &["events", "--jsno", "x"]),
        ("top of nothing", &["top"]),
        ("top of both", &["top", "t.samara", "--", "true"]),
        ("no such moment", &["show", "x", "--at", "soon"]),
        ("no such weight", &["why", "x", "--folded", "--by", "size"]),
        ("one trace", &["diff", "x"]),
        ("no such mix", &["check", "--mix", "bsic"]),
        ("no ops", &["check", "--ops", "0"]),
        ("no such policy", &["run", "--policy", "worst-fit", "true"]),
        ("no such fault", &["run", "--fail", "mmap", "true"]),
        ("no such call to fail", &["run", "--fail", "fork:ENOMEM", "true"]),
        ("no such error", &["run", "--fail", "mmap:ENOMEN@3", "true"]),
        ("no such occurrence", &["run", "--fail", "mmap:ENOMEM@0", "true"]),
        ("no such rate", &["run", "--fail-rate", "1.5", "true"]),
        ("no such size", &["run", "--limit-as", "4 apples", "true"]),
        ("run to output", &["run", "-o", "-", "true"]),
        ("trace to output", &["trace", "-o", "-", "--", "true"]),
        ("summary to output", &["trace", "--summary-json", "-", "--", "true"]),
    ] {
        let output = here(args);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let failing: Vec<&str> = samara_trace::calls::failing().map(|call| call.1).collect();
        let text = stderr(&output).replace(&failing.join(", "), "[the calls that can fail]");
        insta::assert_snapshot!(format!("usage-{}", name.replace(' ', "-")), text);
    }
}

#[test]
fn version() {
    assert_eq!(stdout(&here(&["--version"])), format!("samara {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = here(&["completions", shell]);
        assert!(output.status.success(), "{}", said(&output));
        for word in [
            "trace",
            "run",
            "max-map-count",
            "show",
            "events",
            "summary",
            "inspect",
            "check",
            "reasons",
            "summary-json",
            "output-of-program",
        ] {
            assert!(stdout(&output).contains(word), "{shell}: {word}");
        }
    }
}

/// A page for samara, and one for each command, with all options and examples.
#[test]
fn man_pages_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let output = here(&["man", dir.path().to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    let help = stdout(&here(&["--help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    commands.retain(|command| *command != "help");
    assert!(commands.len() >= 16, "{commands:?}");
    for command in &commands {
        let page = std::fs::read_to_string(dir.path().join(format!("samara-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{command}: {page}");
    }
    let trace = std::fs::read_to_string(dir.path().join("samara-trace.1")).unwrap();
    for word in ["fail\\-if", "summary\\-json", "Examples:"] {
        assert!(trace.contains(word), "{word}: {trace}");
    }
    assert!(dir.path().join("samara.1").exists());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), commands.len() + 1);
    let nowhere = here(&["man", "/nonexistent"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("cannot write man pages to /nonexistent"), "{}", stderr(&nowhere));
}

/// The book has a row for every exit code of samara's own.
#[test]
fn the_book_lists_every_exit_code() {
    let codes = include_str!("../../src/exit.rs").lines().filter_map(|line| line.strip_prefix("pub(crate) const "));
    let codes: Vec<&str> = codes.map(|line| line.split_once("= ").unwrap().1.trim_end_matches(';')).collect();
    assert_eq!(codes.len(), 8);
    for code in codes {
        assert!(page("reference/exit-codes.md").contains(&format!("\n| {code} |")), "the book lacks {code}");
    }
}

/// The book explains every rule of the kernel that refuses calls.
#[test]
fn the_book_names_every_rule_that_refuses() {
    assert_documented(&["reference/verdicts.md"], samara_trace::RefusedBy::ALL.iter().map(|(_, name)| name));
}

/// The book explains every reason why two areas are not merged.
#[test]
fn the_book_names_every_reason() {
    let docs = page("reference/verdicts.md");
    for reason in samara_mm::Reason::ALL {
        let reason = reason.name();
        assert!(docs.contains(&format!("| `{reason}` |")), "the book lacks {reason}");
    }
}
