//! `samara replay TRACE`: runs the calls of a trace again on the model, as they were and by other
//! rules.

use std::fmt::Write;
use std::process::ExitCode;

use samara_record::rerun::{Agreement, Changes, Figures, Mismatch, Report, Rerun, Rule, Why};
use samara_trace::Refused;
use serde_json::{Value, json};

use crate::call_arguments::errno;
use crate::cli::ReplayOf;
use crate::format::{bytes, count, plural};
use crate::output::{self, BOLD, DIM, clean, clean_json, shown, styled};
use crate::refused::text;

/// Version of the JSON.
const FORMAT: u32 = 1;
/// Maximum number of disagreeing calls with separate lines.
const LINES: usize = 5;

pub(crate) fn run(args: &ReplayOf) -> ExitCode {
    let reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let stopped = |why: String| super::failed(format!("{}: {why}", shown(&args.file)));
    let mut rerun = match Rerun::new(reader.header().page_size, &args.what_if, args.pid) {
        Ok(rerun) => rerun.following(reader.header().rules()),
        Err(why) => return stopped(why.to_string()),
    };
    let (mut damage, mut known) = (None, args.pid.is_none());
    for event in reader {
        match event {
            Ok(event) => {
                known |= args.pid == Some(event.pid);
                if let Err(why) = rerun.apply(&event) {
                    return stopped(format!("event {}: {why}", event.seq));
                }
            }
            Err(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    if let Some(pid) = args.pid.filter(|_| !known) {
        return stopped(format!(
            "there was no process {pid}: samara show FILE --pid {pid} lists the trace's processes"
        ));
    }
    let report = rerun.report();
    let printed = output::styled_stdout(|out| match args.json {
        true => writeln!(out, "{}", clean_json(&format!("{:#}", as_json(&report, args)))),
        false => out.write_all(screen(&report, args).as_bytes()),
    });
    match (printed, damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

/// The text of a reason.
fn said(why: Why) -> &'static str {
    match why {
        Why::Told => "only the trace has their effect",
        Why::Refused => "refused, and the areas do not show why",
        Why::Unsure => "their effect is unknown: other calls overlapped them",
        Why::Overlapped => "differ, and other calls overlapped them",
        Why::Guessed => "differ, and some flags of areas are guessed",
        Why::Wide => "reach too many areas",
        _ => "differ",
    }
}

fn screen(report: &Report, args: &ReplayOf) -> String {
    let mut text = String::new();
    let mut line = |parts: String| {
        text.push_str(&parts);
        text.push('\n');
    };
    agreement(&report.agreement, &mut line);
    line(String::new());
    match &report.changed {
        None => figures(&report.plain, None, &mut line),
        Some((changed, changes)) => {
            let rules: Vec<String> = args.what_if.iter().map(Rule::to_string).collect();
            line(format!("what if: {}", styled(BOLD, rules.join(", "))));
            figures(&report.plain, Some(changed), &mut line);
            said_of(changes, &mut line);
            let limits = "a model: the program makes the calls of the trace, whatever their results; what only the trace \
                          shows is taken from it";
            line(styled(DIM, limits));
        }
    }
    text
}

fn agreement(all: &Agreement, line: &mut impl FnMut(String)) {
    let exact = all.agree + all.written;
    let share = match all.calls {
        0 => String::new(),
        // Never rounded up to 100 %.
        calls => {
            format!(" ({:.1} %)", (exact as f64 * 100.0 / calls as f64).min(if exact < calls { 99.9 } else { 100.0 }))
        }
    };
    line(format!(
        "{} of {} have the effect of the trace{share}",
        styled(BOLD, count(exact)),
        plural(all.calls, "call"),
    ));
    if all.written > 0 {
        line(format!(
            "  {} except for boundaries that depend on writes to memory or on how a file was opened",
            count(all.written)
        ));
    }
    for (why, n) in &all.others {
        line(format!("  {} {}", count(*n), said(*why)));
        for (by, n) in all.refused_by.iter().filter(|_| *why == Why::Refused) {
            let rule = text(&Refused::new(*by));
            line(format!("    {} by {}", count(*n), rule.strip_prefix("by ").unwrap_or(&rule)));
        }
    }
    for (n, one, what) in [
        (all.learnt, "time", "the trace has something that no call explains (a stack grew)"),
        (all.differences, "time", "the recorder found a difference"),
        (all.hidden, "more call", "of processes that the recorder could not read"),
    ] {
        if n > 0 {
            line(format!("  {} {what}", plural(n, one)));
        }
    }
    for Mismatch { event, pid, call, why, how, .. } in all.first.iter().take(LINES) {
        let how = if how.is_empty() { said(*why) } else { how };
        line(styled(DIM, format!("  event {event}: {call} of process {pid}: {}", clean(how))));
    }
}

/// The rows of figures, with their names in JSON.
fn rows(f: &Figures) -> [(&'static str, &'static str, u64, bool); 9] {
    [
        ("calls", "calls", f.calls, false),
        ("failed", "failed calls", f.failed, false),
        ("splits", "splits", f.splits, false),
        ("merges", "merges", f.merges, false),
        ("areas_peak", "areas at the peak", f.areas_peak, false),
        ("areas_largest", "in one process", f.areas_largest, false),
        ("areas_end", "areas at all ends", f.areas_end, false),
        ("bytes_peak", "mapped at the peak", f.bytes_peak, true),
        ("bytes_end", "mapped at all ends", f.bytes_end, true),
    ]
}

fn figures(plain: &Figures, changed: Option<&Figures>, line: &mut impl FnMut(String)) {
    let shown = |n: u64, size: bool| if size { bytes(n) } else { count(n) };
    if changed.is_some() {
        line(format!("{:<20}{:>14}{:>14}", "", "trace", "what if"));
    }
    let others = changed.map(rows);
    for (i, (_, name, n, size)) in rows(plain).into_iter().enumerate() {
        let mut text = format!("{name:<20}{:>14}", shown(n, size));
        if let Some(other) = others.and_then(|others| others.get(i).copied()) {
            let _ = write!(text, "{:>14}", shown(other.2, size));
            if other.2 != n {
                let more = other.2 > n;
                let _ = write!(text, "  {}{}", if more { "+" } else { "-" }, shown(other.2.abs_diff(n), size));
            }
        }
        line(text);
    }
}

fn error_name(number: i32) -> String {
    errno(-i64::from(number)).map_or_else(String::new, |error| error.0)
}

fn said_of(changes: &Changes, line: &mut impl FnMut(String)) {
    for ((call, number), n) in &changes.fail_now {
        line(format!(
            "{} of {call} now {} with {}",
            plural(*n, "call"),
            if *n == 1 { "fails" } else { "fail" },
            error_name(*number)
        ));
    }
    if let Some(first) = &changes.first {
        let (call, error) = (first.call, error_name(first.errno));
        let (event, pid, areas) = (first.event, first.pid, plural(first.areas, "area"));
        line(format!("the first: event {event}, {call} of process {pid}: {error}, with {areas}"));
    }
    if changes.placed > 0 {
        let elsewhere = count(changes.placed_elsewhere);
        line(format!("{elsewhere} of {} that had a place chosen lie elsewhere", plural(changes.placed, "map")));
    }
    for (n, what) in [
        (changes.succeed_now, "that failed in the trace now succeed"),
        (changes.left_out, "were left out"),
        (changes.not_followed, "could not be followed: their memory is gone, or other memory is there"),
    ] {
        if n > 0 {
            line(format!("{} {what}", plural(n, "call")));
        }
    }
}

fn as_json(report: &Report, args: &ReplayOf) -> Value {
    let all = &report.agreement;
    let figures = |f: &Figures| rows(f).into_iter().map(|(key, _, n, _)| (key.to_owned(), json!(n))).collect::<Value>();
    let others: serde_json::Map<String, Value> = Why::ALL
        .into_iter()
        .map(|why| (why.name().to_owned(), json!(all.others.get(&why).copied().unwrap_or(0))))
        .collect();
    let first: Vec<Value> = all
        .first
        .iter()
        .map(|m| json!({ "event": m.event, "pid": m.pid, "call": m.call, "why": m.why.name(), "how": m.how }))
        .collect();
    let what_if = report.changed.as_ref().map(|(changed, changes)| {
        let failing: Vec<Value> = changes
            .fail_now
            .iter()
            .map(|((call, number), n)| json!({ "call": call, "error": error_name(*number), "count": n }))
            .collect();
        let first = changes.first.as_ref().map(|first| {
            json!({
                "event": first.event, "pid": first.pid, "call": first.call, "error": error_name(first.errno),
                "areas": first.areas,
            })
        });
        json!({
            "rules": args.what_if.iter().map(Rule::to_string).collect::<Vec<_>>(),
            "figures": figures(changed),
            "fail_now": failing,
            "first_failure": first,
            "succeed_now": changes.succeed_now,
            "placed": changes.placed,
            "placed_elsewhere": changes.placed_elsewhere,
            "left_out": changes.left_out,
            "not_followed": changes.not_followed,
        })
    });
    json!({
        "format": FORMAT,
        "pid": args.pid,
        "agreement": {
            "calls": all.calls, "agree": all.agree, "written": all.written, "others": others,
            "refused_by": all.refused_by.iter().map(|(by, n)| (by.name().to_owned(), json!(n))).collect::<Value>(), "learnt": all.learnt,
            "differences": all.differences, "hidden": all.hidden, "first": first,
        },
        "figures": figures(&report.plain),
        "what_if": what_if,
    })
}
