//! `samara report`: its data compared with other commands' output, and its page.

use std::path::Path;
use std::process::Output;

use samara_trace::event::{Event, EventKind};
use serde_json::Value;

use crate::samples::{assert_documented, events, run, said, stdout, trace, trace_of};

/// Writes a trace in a new directory.
fn with_trace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    dir
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// The data in a page.
fn data(page: &str) -> Value {
    let (_, after) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_data_agrees_with_other_commands() {
    let dir = with_trace();
    let all = json(&run(dir.path(), &["report", "t.samara", "--json"]));
    let one = &all["traces"][0];
    let mut summary = json(&run(dir.path(), &["summary", "t.samara", "--json"]));
    assert!(summary["largest_space"].as_object_mut().unwrap().remove("why").is_some());
    assert_eq!(one["summary"], summary);
    let why = json(&run(dir.path(), &["why", "t.samara", "--json"]));
    assert_eq!(one["boundaries"], why["boundaries"]);
    for field in ["pid", "areas", "bytes", "others", "ns"] {
        assert_eq!(one["why"][field], why[field], "{field}");
    }
    // Columns have a length each.
    for part in ["sites", "tree", "lives", "map"] {
        let lengths = one[part].as_object().unwrap().iter().filter(|(name, _)| *name != "spaces");
        let mut lengths: Vec<_> = lengths.filter_map(|(_, column)| Some(column.as_array()?.len())).collect();
        lengths.dedup();
        assert_eq!(lengths.len(), 1, "{part}");
    }
    let sum = |value: &Value| value.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    let calls: u64 = one["summary"]["calls"].as_object().unwrap().values().filter_map(|c| c["count"].as_u64()).sum();
    let of_calls = |part: &Value| part.as_object().unwrap().values().map(sum).sum::<u64>();
    assert_eq!((of_calls(&one["time"]["calls"]), of_calls(&one["durations"])), (calls, calls));
    // The ends of two processes, and the comparison of a space, have no site.
    assert_eq!(sum(&one["sites"]["calls"]), one["summary"]["events"].as_u64().unwrap() - 3);
    // The most areas at one moment, of all kinds together.
    let series = one["time"]["series"][0]["areas"].as_array().unwrap();
    let moments = series[0].as_array().unwrap().len();
    let most = (0..moments).map(|at| series.iter().filter_map(|kind| kind[at].as_u64()).sum::<u64>()).max();
    assert_eq!(most, one["summary"]["areas_peak"].as_u64());
    // Every area was born once: those of the program, of the fork, and of calls.
    assert_eq!(sum(&one["lives"]["areas"]), 9);
    assert_eq!(one["map"]["exact"], true);
    assert_eq!(sum(&one["map"]["areas"]), one["map"]["areas"].as_array().unwrap().len() as u64);
    let processes = one["processes"].as_array().unwrap();
    assert_eq!(processes.len() as u64, one["summary"]["processes"].as_u64().unwrap());
    assert_eq!((&processes[1]["pid"], &processes[1]["parent"]), (&101.into(), &100.into()));
    let fields = one.as_object().unwrap().iter().flat_map(|(name, value)| {
        let inner = match value {
            Value::Array(all) => all.first().and_then(Value::as_object),
            Value::Object(all) if !["summary", "why", "durations"].contains(&&**name) => Some(all),
            _ => None,
        };
        std::iter::once(name).chain(inner.into_iter().flat_map(|all| all.keys()))
    });
    assert_documented(
        &["reference/report-page.md", "reference/json.md"],
        fields.chain(all.as_object().unwrap().keys()),
    );
}

#[test]
fn a_page_is_written_whole() {
    let dir = with_trace();
    let output = run(dir.path(), &["report", "t.samara"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(data(&page), json(&run(dir.path(), &["report", "t.samara", "--json"])));
    let shown = run(dir.path(), &["report", "t.samara", "-o", "-"]);
    assert_eq!(stdout(&shown), page);
    // Nothing else is in the directory, and nothing is written where there is no directory.
    let names = |dir: &Path| std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names(dir.path()).len(), 2);
    // No trace is replaced, whatever its name is.
    std::os::unix::fs::symlink("t.samara", dir.path().join("link")).unwrap();
    for name in ["t.samara", "link", "./t.samara"] {
        let output = run(dir.path(), &["report", "t.samara", "-o", name]);
        assert!(output.status.code() == Some(1) && said(&output).contains("would replace"), "{}", said(&output));
    }
    std::fs::remove_file(dir.path().join("link")).unwrap();
    assert_eq!(run(dir.path(), &["summary", "t.samara"]).status.code(), Some(0));
    let output = run(dir.path(), &["report", "t.samara", "-o", "none/r.html"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("cannot write to none/r.html"), "{}", said(&output));
    let output = run(dir.path(), &["report", "t.samara", "-o", "."]);
    assert_eq!((output.status.code(), names(dir.path()).len()), (Some(1), 2), "{}", said(&output));
}

/// A page runs its own script and nothing else, whatever the names are.
#[test]
fn names_are_only_text() {
    let dir = with_trace();
    let names = [
        "</script><script>alert(1)</script>",
        "<!--",
        "<img src=x onerror=alert(1)>",
        "{{ 7 * 7 }}",
        "]]>&amp;\u{2028}",
    ];
    let mut all = events();
    let named = all.iter_mut().flat_map(|event| event.areas.iter_mut().map(|area| &mut area.name));
    named.zip(names.iter().cycle()).for_each(|(name, hostile)| *name = format!("/{hostile}"));
    let texts = all.iter_mut().map(|event| &mut event.text).filter(|text| !text.is_empty());
    texts.zip(names.iter().cycle()).for_each(|(text, hostile)| *text = format!("/{hostile}"));
    trace_of(dir.path(), &all);
    let output = run(dir.path(), &["report", "t.samara"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    let (head, _) = page.split_once("<!--\n").unwrap();
    for (element, count) in [("<script", 2), ("</script", 2), ("<img", 0), ("<!--", 0), ("\u{2028}", 0)] {
        assert_eq!(head.matches(element).count(), count, "{element}");
    }
    let text = data(&page).to_string();
    assert!(names[..4].iter().all(|name| text.contains(&format!("/{name}"))), "{text}");
}

/// `samara trace --report` writes the page too; if it cannot, the exit code is still the program's.
#[test]
fn a_recording_with_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["trace", "--report", "--quiet", "-o", "r.samara", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let page = std::fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert_eq!(data(&page)["traces"][0]["summary"]["exit_code"], 3);
    assert!(!said(&output).contains("wrote"), "it is quiet: {}", said(&output));
    // Only the ending of a trace is replaced, and nothing that is written at the same time.
    let output = run(dir.path(), &["trace", "--report", "--quiet", "-o", "u.html", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(dir.path().join("u.html.html").exists());
    assert_eq!(run(dir.path(), &["summary", "u.html"]).status.code(), Some(0));
    let both = ["trace", "--report", "--summary-json", "x.html", "-o", "x.samara", "--", "touch", "ran"];
    let output = run(dir.path(), &both);
    assert_eq!((output.status.code(), dir.path().join("ran").exists()), (Some(2), false), "{}", said(&output));
    let output = run(dir.path(), &["trace", "--report", "--quiet", "-o", "/dev/null", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("there is no page"), "{}", said(&output));
    assert!(!Path::new("/dev/null.html").exists());
}

#[test]
fn two_traces_and_what_grew() {
    let dir = with_trace();
    std::fs::copy(dir.path().join("t.samara"), dir.path().join("u.samara")).unwrap();
    let all = json(&run(dir.path(), &["report", "t.samara", "u.samara", "--json"]));
    assert_eq!(all["traces"].as_array().unwrap().len(), 2);
    assert_eq!(all["diff"], json(&run(dir.path(), &["diff", "t.samara", "u.samara", "--json"])));
    assert_eq!(all["traces"][0]["lives"], all["traces"][1]["lives"]);
}

/// A page that cannot be written leaves no file, a limit of file sizes is an error like any other,
/// and a reader that goes away is no error.
#[test]
fn pages_that_nobody_gets() {
    let dir = with_trace();
    let shell = |script: &str| {
        let script = script.replace("SAMARA", env!("CARGO_BIN_EXE_samara"));
        std::process::Command::new("sh").current_dir(dir.path()).args(["-c", &script]).output().unwrap()
    };
    let output = shell("ulimit -f 20; SAMARA report t.samara -o limit.html");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("cannot write to limit.html: File too large"), "{}", said(&output));
    let output = shell("ulimit -f 0; SAMARA export --firefox limit.json t.samara");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("File too large"), "{}", said(&output));
    for print in ["events", "show", "why", "summary --json", "export --csv -"] {
        let output = shell(&format!("ulimit -f 0; SAMARA {print} t.samara >printed"));
        assert_eq!(output.status.code(), Some(1), "{print}: {}", said(&output));
        assert!(said(&output).contains("File too large"), "{print}: {}", said(&output));
    }
    std::fs::remove_file(dir.path().join("printed")).unwrap();
    let output = shell("ulimit -f 20; SAMARA trace --report --quiet -o u.samara -- sh -c 'exit 5'");
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let mut names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["t.samara", "u.samara"]);
    let output = shell("{ SAMARA report t.samara -o -; echo $? >code; } | head -c 1 >/dev/null; cat code");
    assert_eq!(stdout(&output), "0\n", "{}", said(&output));
    let output = shell("mkfifo f; head -c 1 f >/dev/null & SAMARA report t.samara -o f");
    assert!(output.status.success() && !said(&output).contains("wrote"), "{}", said(&output));
}

/// A child has its parent however many spaces there were before.
#[test]
fn every_process_has_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let first = events().remove(0);
    let mut all = vec![first.clone()];
    for child in 0..1500_u32 {
        let space = u64::from(child) + 10;
        let of_child = Event { pid: 1000 + child, tid: 1000 + child, space, ..first.clone() };
        all.push(Event { kind: EventKind::Fork, args: [first.space, 0, 0, 0, 0, 0], ..of_child.clone() });
        // Each has a child of its own, which ends before it.
        let grandchild = Event { pid: 10_000 + child, tid: 10_000 + child, space: space + 10_000, ..of_child.clone() };
        all.push(Event { kind: EventKind::Fork, args: [space, 0, 0, 0, 0, 0], ..grandchild.clone() });
        for event in [grandchild, of_child] {
            all.push(Event { kind: EventKind::Exit, window: None, areas: vec![], ..event });
        }
    }
    for (seq, event) in (0..).zip(&mut all) {
        (event.seq, event.entry_ns, event.exit_ns) = (seq, seq * 10, seq * 10 + 5);
    }
    trace_of(dir.path(), &all);
    let all = json(&run(dir.path(), &["report", "t.samara", "--json"]));
    let processes = all["traces"][0]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 3001);
    for process in processes {
        let expected = match process["pid"].as_u64().unwrap() {
            100 => Value::Null,
            pid if pid >= 10_000 => (pid - 9_000).into(),
            _ => 100.into(),
        };
        assert_eq!(process["parent"], expected, "{process}");
    }
}

/// JSON has a thousand places with memory, and the number of further ones.
#[test]
fn places_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (first, call) = (events().remove(0), events().remove(1));
    let mut all = vec![first];
    for seq in 1..=1500_u64 {
        let at = 0x7f00_0000_0000 + seq * 0x4000;
        let mut event = Event { seq, window: Some((at, at + 0x1000)), ..call.clone() };
        // Flags that no other call has.
        event.args[3] |= seq << 32;
        event.areas.iter_mut().for_each(|area| (area.start, area.end) = (at, at + 0x1000));
        event.plan.iter_mut().for_each(|step| (step.start, step.end) = (at, at + 0x1000));
        all.push(event);
    }
    trace_of(dir.path(), &all);
    let why = json(&run(dir.path(), &["why", "t.samara", "--json"]));
    let areas: u64 = why["sites"].as_array().unwrap().iter().filter_map(|site| site["areas"].as_u64()).sum();
    assert_eq!((why["sites"].as_array().unwrap().len(), &why["sites_left_out"]), (1000, &501.into()));
    // The program's start has two areas, every call one.
    assert_eq!(areas, 1001);
}

#[test]
fn traces_that_have_little() {
    let dir = with_trace();
    // It ends early: there is a page, and the exit code says it.
    let whole = std::fs::read(dir.path().join("t.samara")).unwrap();
    std::fs::write(dir.path().join("cut.samara"), &whole[..whole.len() - 20]).unwrap();
    let output = run(dir.path(), &["report", "cut.samara"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(data(&page)["traces"][0]["damage"].is_string());
    // No events at all.
    trace_of(dir.path(), &[]);
    let all = json(&run(dir.path(), &["report", "t.samara", "--json"]));
    assert_eq!((&all["traces"][0]["why"], &all["traces"][0]["summary"]["events"]), (&Value::Null, &0.into()));
    let output = run(dir.path(), &["report", "missing.samara"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = run(dir.path(), &["report", "t.samara", "--json", "-o", "x"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
