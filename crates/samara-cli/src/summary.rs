//! The summary of a recording: one screen. Knows nothing of where it goes.

use std::fmt::Write;

use samara_trace::file::{Group, Summary, reasons};

use crate::format::{bytes, count, plural, sparkline, time};
use crate::json::Recorded;
use crate::output::{BOLD, DIM, GREEN, RED, clean, styled};

/// Kinds of calls that are listed; the others are summed up.
const CALLS: usize = 8;
/// Columns of the sparkline.
const COLUMNS: usize = 40;

/// The summary as lines. `title` names the program and how it ended.
pub(crate) fn screen(title: &str, s: &Summary, r: &Recorded<'_>) -> String {
    let mut out = String::new();
    let mut row = |name: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {} {text}", styled(DIM, format!("{name:<10}")));
    };
    row("processes", format!("{}, {}", count(s.processes), plural(s.execs, "program")));
    let mut calls: Vec<_> = s.calls.iter().collect();
    calls.sort_by_key(|(name, c)| (std::cmp::Reverse(c.total_ns), *name));
    let width = calls.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let list = |name: &str, n: u64, failed: u64, ns: u64| {
        let failed = if failed == 0 { String::new() } else { format!(", {} failed", count(failed)) };
        format!("{name:<width$} {:>9}  {:>8}{failed}", count(n), time(ns))
    };
    for (i, (name, c)) in calls.iter().take(CALLS).enumerate() {
        row(if i == 0 { "calls" } else { "" }, list(name, c.count, c.failed, c.total_ns));
    }
    if let Some(rest) = calls.get(CALLS..).filter(|rest| !rest.is_empty()) {
        let sum = |f: fn(&samara_trace::file::CallTotals) -> u64| rest.iter().map(|(_, c)| f(c)).sum();
        let name = format!("{} more", rest.len());
        row("", list(&name, sum(|c| c.count), sum(|c| c.failed), sum(|c| c.total_ns)));
    }
    row("areas", format!("{} at most, {} at the end", count(s.areas_peak), count(s.areas_final)));
    row("", sparkline(&s.timeline.columns(COLUMNS)));
    row("mapped", format!("{} at most, {} at the end", bytes(s.mapped_bytes_peak), bytes(s.mapped_bytes_final)));
    row("changes", format!("{}, {}", plural(s.splits, "split"), plural(s.merges, "merge")));
    for (i, group) in s.groups.iter().enumerate() {
        row(if i == 0 { "not merged" } else { "" }, could_be_one(group));
    }
    let differences = if s.differences == 0 {
        styled(GREEN, "no difference")
    } else {
        styled(RED, plural(s.differences, "unexplained difference"))
    };
    let equal = if r.complete {
        let compared = plural(s.compared.0, "space");
        format!("; {} of {compared} equal to /proc/PID/maps at the end", count(s.compared.1))
    } else {
        String::new()
    };
    row("checks", format!("{}, {differences}{equal}", count(r.checks)));
    if let Some(why) = &s.lost {
        row("note", format!("the figures about areas are incomplete: {}", clean(why)));
    }
    for note in r.notes {
        row("note", clean(note));
    }
    let early = if r.complete { String::new() } else { styled(RED, " (it ends early)") };
    row("trace", format!("{} ({}, {}){early}", r.file, plural(r.events_in_file, "event"), bytes(r.file_bytes)));
    let file = file_name(r.file);
    row("next", format!("samara show {file} --reasons"));
    row("", format!("samara events {file} | less"));
    format!("{} {title}\n{out}", styled(BOLD, "samara:"))
}

fn could_be_one(group: &Group) -> String {
    let why: Vec<_> = reasons(&group.apart).map(clean).collect();
    let why = if why.is_empty() {
        "and nothing keeps them apart".to_owned()
    } else {
        format!("but for {}", why.join(" and "))
    };
    let areas = plural(group.areas, "area");
    let runs = count(group.runs);
    let (start, end, pid) = (group.start, group.end, group.pid);
    format!("{areas} could be {runs}, {why}: {} of them at {start:x}-{end:x} of process {pid}", count(group.longest))
}

/// A word as it can be typed into a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+,@%:=".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A file's name as it can be typed where options may stand.
fn file_name(name: &str) -> String {
    if name.starts_with('-') { quoted(&format!("./{name}")) } else { quoted(name) }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
