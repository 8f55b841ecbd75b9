use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use super::*;
use crate::watch::cause::Cause;
use crate::watch::reading::{Others, Own};

fn row(pid: u32, name: &str, areas: u64) -> Row {
    Row {
        pid,
        name: name.to_owned(),
        areas,
        per_second: Some(1.5),
        grew: false,
        left: None,
        mapped: 1 << 40,
        resident: 4096,
        largest_gap: 1 << 46,
        cause: Some(Cause { verdict: "kept-apart", pattern: Some("guard-pages"), areas: 40 }),
    }
}

fn reading(top: Vec<Row>) -> Reading {
    let began = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(3));
    let own = Own { began, alerts: BTreeMap::from([("at80".to_owned(), 2)]), ..Own::default() };
    let others = Others { processes: 9, areas: 900, mapped: 7, resident: 5 };
    Reading { time: SystemTime::UNIX_EPOCH + Duration::from_secs(5), limit: Some(100), top, others, unreadable: 3, own }
}

/// The families of a text in its order, with the lines of their samples. Panics if METRICS-1 does
/// not hold, or a line is not of the format.
fn families(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut lines = text.lines();
    assert!(text.ends_with('\n'));
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().unwrap();
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
            assert!(["gauge", "counter"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(found.iter().all(|(other, _)| other != name), "{name} comes twice");
            found.push((name.to_owned(), Vec::new()));
            continue;
        }
        let (name, samples) = found.last_mut().unwrap();
        let rest = line.strip_prefix(&**name).unwrap_or_else(|| panic!("{line} is no sample of {name}"));
        assert!(rest.starts_with(['{', ' ']), "{line}");
        assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
        samples.push(line.to_owned());
    }
    found
}

fn samples(text: &str, name: &str) -> Vec<String> {
    families(text).into_iter().find(|(family, _)| family == name).unwrap().1
}

#[test]
fn names_are_escaped() {
    let text = text(&reading(vec![row(7, "a\"b\\c\nd\u{1b}[31m", 50)]));
    let areas = samples(&text, "samara_process_areas");
    // The control characters are shown as octal escapes, whose backslash the format escapes.
    assert_eq!(areas, [r#"samara_process_areas{pid="7",name="a\"b\\c\\012d\\033[31m"} 50"#]);
    assert_eq!(escaped("a\n\"\\"), r#"a\n\"\\"#);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn series_are_bounded() {
    let text_of = |rows: u32| text(&reading((0..rows).map(|pid| row(pid, "x", 10)).collect()));
    let count = |text: &str| families(text).iter().map(|(_, samples)| samples.len()).sum::<usize>();
    let (none, twenty) = (count(&text_of(0)), count(&text_of(20)));
    assert!(none < 24, "{none}");
    assert!(twenty - none <= 20 * 8 && twenty - none >= 20 * 7, "{twenty}");
}

#[test]
fn every_value_has_its_family() {
    let mut one = row(7, "x", 50);
    one.left = Some(Duration::from_secs(90));
    let told = text(&reading(vec![one]));
    for (name, value) in [
        ("samara_process_areas_limit", "100"),
        ("samara_process_areas", "50"),
        ("samara_process_areas_ratio", "0.5"),
        ("samara_process_areas_per_second", "1.5"),
        ("samara_process_limit_seconds", "90"),
        ("samara_process_mapped_bytes", "1099511627776"),
        ("samara_process_resident_bytes", "4096"),
        ("samara_process_largest_gap_bytes", "70368744177664"),
        ("samara_process_cause_areas", "40"),
        ("samara_other_processes_areas", "900"),
        ("samara_unreadable_processes", "3"),
        ("samara_watch_reading_timestamp_seconds", "5"),
        ("samara_watch_alerts_total", "2"),
        ("samara_watch_start_time_seconds", "3"),
    ] {
        let found = samples(&told, name);
        assert!(found.len() == 1 && found[0].ends_with(&format!(" {value}")), "{name}: {found:?}");
    }
    assert!(told.contains(r#"verdict="kept-apart",pattern="guard-pages"} 40"#));
    let slow = text(&reading(vec![row(7, "x", 50)]));
    assert!(samples(&slow, "samara_process_limit_seconds").is_empty(), "it does not reach the limit");
    let unknown = text(&Reading { limit: None, ..reading(vec![row(7, "x", 50)]) });
    assert!(
        !unknown.contains("samara_process_areas_limit ") && samples(&unknown, "samara_process_areas_ratio").is_empty()
    );
}

/// The book's page and the files of `packaging` name no metric that is not there, and the page
/// names all of a process.
#[test]
fn documents_name_the_metrics() {
    let mut one = row(7, "x", 50);
    one.left = Some(Duration::from_secs(90));
    let told = text(&reading(vec![one]));
    let names: BTreeSet<String> = families(&told).into_iter().map(|(name, _)| name).collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["book/src/how-to/watch.md", "packaging/samara-rules.yml", "packaging/samara-dashboard.json"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: BTreeSet<&str> = words.filter(|word| word.starts_with("samara_")).collect();
        assert!(!named.is_empty(), "{file}");
        for name in &named {
            assert!(names.contains(*name), "{file} names {name}");
        }
        if file.ends_with(".md") {
            let missing: Vec<&String> = names.iter().filter(|name| !named.contains(&***name)).collect();
            assert!(missing.is_empty(), "{file} lacks {missing:?}");
        }
    }
}
