//! The summary of a recording, on one screen. Does not know where it is printed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitStatus;

use samara_trace::file::{Printable, flag_words, reason_name, reasons};
use samara_trace::summary::{CallTotals, Failure, Group, Largest, MAX_MAP_COUNT, ResidentPeak, StackTotals, Summary};
use samara_trace::survey::PatternKind;

use crate::format::{bytes, count, plural, sparkline, time};
use crate::json::Recorded;
use crate::output::{BOLD, DIM, GREEN, RED, clean, short, styled};
use crate::why::{self, Sites};
use crate::{call_arguments, crash, line, refused, survey};

/// Maximum number of kinds of calls with separate rows; the others share one row.
const CALLS: usize = 8;
/// Processes with a row, if there are several.
const PROCESSES: usize = 4;
/// Smallest number of areas for which the largest space is described.
const LARGE: u64 = 200;
/// Groups, and patterns, of the largest space with a row.
const KINDS: usize = 3;
/// Groups below 1/20 of the largest space's areas are omitted.
const SMALL_PART: u64 = 20;
/// Columns of the sparkline.
const COLUMNS: usize = 40;

/// Prefix of the note that sums up a recording without stops.
pub(crate) const WITHOUT_STOPS: &str = "without stops: ";

/// The summary as lines. `title` names the program and how it ended.
pub(crate) fn screen(title: &str, s: &Summary, r: &Recorded<'_>) -> String {
    let mut out = String::new();
    let mut row = |name: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {} {text}", styled(DIM, format!("{name:<10}")));
    };
    for (i, failed) in why::failed(&s.failures, r.limit, Sites::of(s)).into_iter().enumerate() {
        row(if i == 0 { "failed" } else { "" }, failed);
    }
    if let Some(only) = r.only {
        row("only", format!("{} of {}: {}", count(s.events), plural(r.events_in_file, "event"), only.words()));
    }
    let programs = if s.execs == 0 { String::new() } else { format!(", {}", plural(s.execs, "program")) };
    row("processes", count(s.processes) + &programs);
    for process in s.busiest.iter().filter(|_| s.processes > 1).take(PROCESSES) {
        let (areas, calls) = (plural(process.areas_peak, "area"), plural(process.calls, "call"));
        row("", format!("{} {}: at most {areas}, {calls}", process.pid, short(&clean(&process.program))));
    }
    let mut calls: Vec<_> = s.calls.iter().collect();
    calls.sort_by_key(|(name, c)| (std::cmp::Reverse(c.total_ns), *name));
    let width = calls.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let list = |name: &str, n: u64, failed: u64, ns: u64| {
        let failed = if failed == 0 { String::new() } else { format!(", {} failed", count(failed)) };
        format!("{name:<width$} {:>9}  {:>8}{failed}", count(n), time(ns))
    };
    for (i, (name, c)) in calls.iter().take(CALLS).enumerate() {
        // Printed once, because it holds for all rows.
        let scope = match r.notes.iter().find(|note| note.starts_with(WITHOUT_STOPS)) {
            // A trace does not say how it was recorded.
            _ if i > 0 || r.checks.is_none() => "",
            Some(note) if note.ends_with("BPF") => "  (times include some 2 microseconds of tracing each)",
            Some(_) => "  (times include some 8 microseconds of tracing each)",
            None => "  (times include the stops of tracing)",
        };
        row(if i == 0 { "calls" } else { "" }, list(name, c.count, c.failed, c.total_ns) + scope);
    }
    if let Some(rest) = calls.get(CALLS..).filter(|rest| !rest.is_empty()) {
        let sum = |f: fn(&samara_trace::summary::CallTotals) -> u64| {
            rest.iter().map(|(_, c)| f(c)).fold(0, u64::saturating_add)
        };
        let name = format!("{} more", rest.len());
        row("", list(&name, sum(|c| c.count), sum(|c| c.failed), sum(|c| c.total_ns)));
    }
    let most = match r.only.map_or(0, |only| only.pid.len()) {
        0 => "at most in all processes together",
        1 => "at most",
        _ => "at most in these processes together",
    };
    let end = if r.only.is_some_and(|only| only.to.is_some()) {
        "at the end of that time in the first"
    } else {
        "in the first process at the end"
    };
    // A space that can be read has at least one area. Without any, nothing is said of areas.
    let known = s.areas_peak > 0;
    if known {
        let one = match s.areas_largest {
            largest if largest < s.areas_peak => format!(", {} in one", count(largest)),
            _ => String::new(),
        };
        row("areas", format!("{} {most}{one}, {} {end}", count(s.areas_peak), count(s.areas_final)));
        row(
            "over time",
            format!("{} {}", sparkline(&s.timeline.columns(COLUMNS)), time(s.wall_ns.saturating_sub(s.from_ns))),
        );
        row("mapped", format!("{} {most}, {} {end}", bytes(s.mapped_bytes_peak), bytes(s.mapped_bytes_final)));
        if let Some(peak) = &s.resident {
            row("resident", resident(peak, &s.calls));
        }
        row("changes", format!("{}, {}", plural(s.splits, "split"), plural(s.merges, "merge")));
    }
    for (i, text) in largest(s).into_iter().enumerate() {
        row(if i == 0 { "largest" } else { "" }, text);
    }
    for (i, text) in reasons_why(s).into_iter().enumerate() {
        row(if i == 0 { "why" } else { "" }, text);
    }
    let crashed = r.crashes.iter().flat_map(|crash| crash::rows(crash, Sites::of(s)));
    for (i, text) in crashed.enumerate() {
        row(if i == 0 { "crash" } else { "" }, text);
    }
    // With many areas, the verdicts name the causes, with the calls behind them.
    let largest = s.largest.as_ref();
    let tells = |_: &&Group| largest.is_none_or(|largest| largest.survey.areas < LARGE || largest.why.is_none());
    for (i, group) in s.groups.iter().filter(tells).enumerate() {
        row(if i == 0 { "not merged" } else { "" }, could_be_one(group));
        let why = largest.filter(|largest| largest.pid == group.pid).and_then(|largest| largest.why.as_ref());
        if let Some(call) = why.and_then(|why| why::set_by(why, &group.apart, Sites::of(s))) {
            row("", format!("  set by {call}"));
        }
    }
    // Their number for a part of a trace is not known.
    if s.stacks.distinct > 0 && r.only.is_none() {
        row("stacks", stacks(&s.stacks));
    }
    let differences = if s.differences == 0 {
        styled(GREEN, "no difference")
    } else {
        styled(RED, plural(s.differences, "unexplained difference"))
    };
    let unsure = if s.unsure == 0 { String::new() } else { format!("; {} unsure", plural(s.unsure, "call")) };
    let compared = plural(s.compared.0, "space");
    let equal = match s.compared.0 {
        0 if r.only.is_some() => String::new(),
        _ => format!("; {} of {compared} equal to /proc/PID/maps when last compared", count(s.compared.1)),
    };
    let made = r.checks.map_or_else(String::new, |checks| format!("{} against the kernel, ", count(checks)));
    let is_compared = r.only.is_some() || s.compared.0 + s.differences + r.checks.unwrap_or_default() > 0;
    let checks = match known && is_compared {
        true => format!("{made}{differences}{unsure}{equal}"),
        false => format!("none: nothing could be compared{unsure}"),
    };
    row("checks", checks);
    if let Some(kernel) = &r.kernel {
        row("kernel", kernel.row());
    }
    if let Some(why) = &s.lost {
        row("note", format!("the figures about areas are incomplete: {}", clean(why)));
    }
    // A recording without stops says so in its own note.
    if s.lost_events > 0 && !r.notes.iter().any(|note| note.starts_with(WITHOUT_STOPS)) {
        row("note", format!("events that the kernel dropped: {}; calls are missing", count(s.lost_events)));
    }
    if s.losses > 0 {
        let times = plural(s.losses, "time");
        row("note", format!("the areas of a space were not all known, {times}, until its next reading or its end"));
    }
    for note in r.notes {
        row("note", clean(note));
    }
    row("trace", format!("{} ({}, {})", clean(r.file), plural(r.events_in_file, "event"), bytes(r.file_bytes)));
    if let Some(why) = r.early {
        let early = format!("the trace ends early, before event {}", r.events_in_file);
        row("", format!("{}: {}; the program was not disturbed", styled(RED, early), clean(why)));
    }
    let file = file_name(r.file);
    if !known {
        return format!("{} {title}\n{out}", styled(BOLD, "samara:")); // nothing to look at
    }
    row("next", format!("{} why {file}", r.command));
    if !s.crashes.is_empty() {
        row("", format!("{} who {file}", r.command));
    }
    row("", format!("{} show {file} --reasons", r.command));
    let stacks = if s.stacks.distinct > 0 { " --stacks" } else { "" };
    row("", format!("{} events {file}{stacks} | less", r.command));
    format!("{} {title}\n{out}", styled(BOLD, "samara:"))
}

/// How many calls have a stack, and how good it is.
fn stacks(s: &StackTotals) -> String {
    let missing = |n: u64, what: &str| if n == 0 { String::new() } else { format!(", {} {what}", count(n)) };
    format!(
        "{} of {}{}{}",
        plural(s.distinct, "stack"),
        plural(s.calls, "call"),
        missing(s.calls.saturating_sub(s.whole), "not followed to the first function"),
        missing(s.guessed, "partly guessed (?)"),
    )
}

/// Describes the space with the most areas: the groups with most areas, and their patterns.
fn largest(s: &Summary) -> Vec<String> {
    let Some(Largest { pid, program, ns, is_incomplete, survey, why, .. }) = &s.largest else { return Vec::new() };
    // A program that maps little has only its libraries.
    if survey.areas < LARGE {
        return Vec::new();
    }
    let name = short(&clean(program));
    let mut rows = vec![format!("{} areas of process {pid} ({name}), after {}", count(survey.areas), time(*ns))];
    rows.extend(is_incomplete.then(|| why::INCOMPLETE.to_owned()));
    let groups = survey.groups.iter().filter(|g| g.areas * SMALL_PART >= survey.areas);
    rows.extend(groups.take(KINDS).map(survey::group));
    // A pattern with a verdict is not repeated.
    let verdicts = why.as_ref().map_or(&[][..], |why| &why.verdicts);
    let is_said = |kind| verdicts.iter().any(|v| v.pattern == Some(kind) && v.areas * SMALL_PART >= survey.areas);
    // The calls may show that there were no such threads.
    let is_wrong =
        |kind| kind == PatternKind::ThreadStacks && why.is_some() && !verdicts.iter().any(|v| v.pattern == Some(kind));
    let is_told = |kind| !is_said(kind) && !is_wrong(kind);
    let alike = survey.patterns.iter().filter(|p| p.areas * SMALL_PART >= survey.areas && is_told(p.kind));
    rows.extend(alike.take(KINDS).map(|p| format!("look like {}", survey::pattern(p))));
    rows
}

/// The verdicts on the largest space, and the calls that made its areas.
fn reasons_why(s: &Summary) -> Vec<String> {
    let Some(Largest { survey, why: Some(why), .. }) = &s.largest else { return Vec::new() };
    if survey.areas < LARGE {
        return Vec::new();
    }
    let large = why.verdicts.iter().filter(|v| v.areas * SMALL_PART >= survey.areas);
    let mut rows = Vec::new();
    for verdict in large.take(KINDS) {
        let text = format!("{}: {}", why::word(verdict.kind), why::sentence(verdict));
        rows.push(styled(BOLD, text));
        rows.extend(why::behind(verdict, Sites::of(s)).map(|call| format!("  by {call}")));
        rows.extend(why::advice(verdict, Sites::of(s)).into_iter().map(|text| format!("  advice: {text}")));
    }
    rows
}

/// The most resident memory, and the calls that changed most of it.
fn resident(peak: &ResidentPeak, calls: &BTreeMap<String, CallTotals>) -> String {
    let (private, files, pid) = (bytes(peak.private), bytes(peak.files), peak.pid);
    let mut changed: Vec<_> = calls.iter().filter(|(_, c)| c.populated | c.released > 0).collect();
    changed.sort_by_key(|(name, c)| (std::cmp::Reverse(c.populated.max(c.released)), *name));
    let part = |(name, c): &(&String, &CallTotals)| {
        let sums = [("+", c.populated), ("-", c.released)];
        let sums: Vec<_> =
            sums.iter().filter(|(_, sum)| *sum > 0).map(|(s, sum)| format!("{s}{}", bytes(*sum))).collect();
        format!("{name} {}", sums.join(" "))
    };
    let changed: Vec<_> = changed.iter().take(KINDS).map(part).collect();
    let by = if changed.is_empty() { String::new() } else { format!("; by {}", changed.join(", ")) };
    format!("{private} private and {files} of files at most in process {pid}{by}")
}

/// Calls of one kind that failed: their number, the first of them, and why it failed.
pub(crate) fn failed(failure: &Failure, limit: Option<u64>, sites: Sites<'_>) -> String {
    let call = line::name(failure.nr);
    let (error, text) = call_arguments::errno(-i64::from(failure.errno)).unwrap_or_default();
    let at_limit = failure.is_at_limit(limit);
    let caller = refused::caller(failure, sites);
    let why = match (&failure.refused, limit) {
        (Some(refused), _) => styled(RED, format!(": {}", refused::text(refused))),
        (None, Some(limit)) if at_limit => styled(RED, format!(": vm.max_map_count is {}", count(limit))),
        (None, None) if at_limit => styled(RED, format!(": vm.max_map_count is {} by default", count(MAX_MAP_COUNT))),
        _ => String::new(),
    };
    let (times, areas) = (plural(failure.count, "time"), plural(failure.areas, "area"));
    format!("{call} {times} with {error} ({text}), first by process {} with {areas}{caller}{why}", failure.pid)
}

/// How the program ended, and when.
pub(crate) fn ended(status: ExitStatus, program_ns: u64, wall_ns: u64) -> String {
    format!("ended {} {}", line::how(status), lasted(program_ns, wall_ns))
}

/// The end of a program that ended in an unknown way, and when.
pub(crate) fn gone(program_ns: u64, wall_ns: u64) -> String {
    format!("ended in an unknown way {}", lasted(program_ns, wall_ns))
}

/// The end of the recording of several processes, when, and what the processes do.
pub(crate) fn no_more(wall_ns: u64, they: &str) -> String {
    format!("recorded for {}; its processes {they}", time(wall_ns))
}

/// The release of a process that ran already, and when.
pub(crate) fn detached(wall_ns: u64) -> String {
    format!("detached after {}; the process goes on", time(wall_ns))
}

/// How long the program ran; also how long the recording took, if it continued with processes that
/// the program left behind.
pub(crate) fn lasted(program_ns: u64, wall_ns: u64) -> String {
    // The recorder itself takes a moment to end.
    let over = program_ns.saturating_add(program_ns / 100).saturating_add(1_000_000);
    if wall_ns <= over {
        format!("after {}", time(program_ns))
    } else {
        format!("after {}; recorded for {}, with what it left behind", time(program_ns), time(wall_ns))
    }
}

fn could_be_one(group: &Group) -> String {
    let why: Vec<_> = reasons(&group.apart).collect();
    let why = match why.as_slice() {
        [] => "and nothing keeps them apart".to_owned(),
        [one] => format!("but for {}{}", reason_text(one), gloss(one)),
        more => format!("but for {}", reasons_text(more, " and ")),
    };
    let Group { areas, runs, start, end, pid, longest, .. } = group;
    let place = format!("{start:x}-{end:x}");
    let place = match runs {
        1 => format!("at {place}"),
        _ => format!("longest run: {} at {place}", count(*longest)),
    };
    let areas = format!("{} of process {pid}", plural(*areas, "area"));
    if group.apart == "not-recorded" {
        return format!("{areas} are apart by something that was not recorded{}; {place}", gloss("not-recorded"));
    }
    format!("{areas} could be {}, {why}; {place}", count(*runs))
}

/// A reason for a person: `flags: MADV_DONTFORK` for `flags:dontfork`.
pub(crate) fn reason_text(reason: &str) -> String {
    let words: Vec<String> = flag_words(reason).map(|(word, call)| call.unwrap_or(word).to_owned()).collect();
    let more = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
    clean(&(reason_name(reason).to_owned() + &more))
}

/// Several of them.
pub(crate) fn reasons_text(all: &[&str], between: &str) -> String {
    all.iter().map(|reason| reason_text(reason)).collect::<Vec<_>>().join(between)
}

/// The explanation of a reason, in brackets; empty for an unknown reason.
pub(crate) fn gloss(reason: &str) -> &'static str {
    match (reason_name(reason), flag_words(reason).count()) {
        // Since Linux 6.7.
        ("flags", 1) if reason == "flags:nohugepage" => return " (only one of the two has it; MAP_STACK gives it too)",
        ("flags", 1) => return " (only one of the two has it)",
        ("flags", 2..) => return " (only one of the two has each)",
        _ => {}
    }
    match reason {
        "protection" => " (protection keys differ)",
        "flags" => " (madvise or mmap flags differ)",
        "backing" => " (different files or objects)",
        "open-file" => " (the file was opened more than once)",
        "offset" => " (offsets do not continue)",
        "anonymous-identity" => " (written at different times, or before a fork)",
        "policy" => " (NUMA policies differ, by mbind or set_mempolicy_home_node)",
        "name" => " (names differ)",
        "uffd" => " (userfaultfd registrations differ)",
        "special" => " (device memory, or pages of the kernel)",
        "lock" => " (one is locked in memory, by mlock or MAP_LOCKED)",
        "accounting" => " (one was writable once, or was mapped with MAP_NORESERVE)",
        "seal" => " (one is sealed, by mseal)",
        "anonymous-offset" => " (written pages of a file moved)",
        "not-recorded" => " (for example a memory policy, or pages that were written or moved before)",
        _ => "",
    }
}

/// A word in the form to type into a shell. Bytes that cannot be shown are escaped as in bash, zsh
/// and others.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+,@%:=".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else if word.chars().all(Printable::is_plain) {
        format!("'{}'", word.replace('\'', "'\\''"))
    } else {
        format!("$'{}'", clean(&word.replace('\\', "\\\\").replace('\'', "\\'")))
    }
}

/// A file's name in the form to type where an option may stand.
fn file_name(name: &str) -> String {
    if name.starts_with('-') { quoted(&format!("./{name}")) } else { quoted(name) }
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
