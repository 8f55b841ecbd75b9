//! `samara trace -- PROGRAM ARGS...`: runs a program, records it, and prints a summary.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use samara_trace::file::{Written, name_text};
use samara_trace::inspect::max_map_count;
use samara_trace::{Options, Outcome, RecordError, record};

use super::files;
use crate::cli::{Program, Trace};
use crate::fail_if::FailIf;
use crate::json::{self, Recorded};
use crate::output::{clean, error, short};
use crate::target::Target;
use crate::{exit, line, summary};

pub(crate) fn run(args: &Trace) -> ExitCode {
    let (fail_if, stacks) = (&args.fail_if, args.stacks);
    // clap requires at least one word.
    let args = &args.program;
    let Some((program, rest)) = args.words.split_first() else { return exit::USAGE.into() };
    let path = args.output.clone().unwrap_or_else(|| default_path(program));
    let (sink, json) = match files::open(Some(&path), args.summary_json.as_deref(), &args.words) {
        Ok(files) => files,
        Err(code) => return code,
    };
    let Some(mut sink) = sink else { return exit::USAGE.into() };
    let mut options = Options::new(program).args(rest.iter().cloned());
    options.stacks = stacks;
    let outcome = match record(&options, &mut sink) {
        Ok(outcome) => outcome,
        Err(why) => {
            sink.discard();
            json.into_iter().for_each(Target::discard);
            return not_run(&why);
        }
    };
    let written = sink.finish();
    let fails = report(args, fail_if, &path, &outcome, written, json);
    if fails && outcome.status.success() {
        return exit::CONDITION.into();
    }
    exit::like(outcome.status)
}

/// Prints the summary. Returns whether a condition holds by which the recording fails.
fn report(
    args: &Program,
    fail_if: &[FailIf],
    path: &Path,
    outcome: &Outcome,
    written: Written,
    json: Option<Target>,
) -> bool {
    let counters = &outcome.counters;
    let complete = written.error.is_none() && !counters.ended_early;
    let why = written.error.as_ref().map_or_else(|| "the recorder stopped".to_owned(), ToString::to_string);
    let name = name_text(path.as_os_str().as_bytes());
    let mut totals = written.summary;
    totals.differences = totals.differences.max(counters.differences);
    if counters.ended_early {
        // The thread that wrote the file and summed up has died, but the recorder kept counting.
        totals.events = counters.events;
        totals.processes = counters.processes;
        totals.areas_peak = counters.areas_peak;
        totals.areas_final = counters.areas_final;
        totals.mapped_bytes_peak = counters.mapped_bytes_peak;
        totals.splits = counters.splits;
        totals.merges = counters.merges;
    }
    let command = own_name();
    let recorded = Recorded {
        command: &command,
        checks: Some(counters.checks),
        limit: max_map_count(),
        wall_ns: counters.wall_ns,
        program_ns: Some(outcome.program_ns),
        exit_code: Some(exit::code(outcome.status)),
        notes: &counters.notes,
        file: &name,
        events_in_file: written.events,
        file_bytes: written.bytes,
        early: (!complete).then_some(&*why),
    };
    if !args.quiet {
        let title = format!(
            "{} ended {} {}",
            shown(&args.words),
            line::how(outcome.status),
            summary::lasted(outcome.program_ns, counters.wall_ns)
        );
        // If standard error is closed, nobody can be informed.
        let _ = write!(anstream::stderr(), "{}", summary::screen(&title, &totals, &recorded));
    }
    if args.quiet && !complete {
        let events = written.events;
        error(format!("{name}: the trace ends early, after {events} events: {why}; the program was not disturbed"));
    }
    let summary = json::summary(&totals, &recorded);
    let fails = says_failure(fail_if, &summary);
    files::write(json, &summary);
    fails
}

/// Says which conditions hold. Returns whether one does.
pub(super) fn says_failure(fail_if: &[FailIf], summary: &serde_json::Value) -> bool {
    let mut fails = false;
    for condition in fail_if {
        if let Some(value) = condition.holds(summary) {
            fails = true;
            error(format!("--fail-if '{condition}' holds: it is {value}"));
        }
    }
    fails
}

/// The program's words as a line, cut if it is long.
pub(super) fn shown(words: &[OsString]) -> String {
    let line: Vec<_> = words.iter().map(|word| clean(&summary::quoted(&name_text(word.as_bytes())))).collect();
    short(&line.join(" "))
}

/// What the user types to run samara again: its path, if it was run by a path.
pub(super) fn own_name() -> String {
    match std::env::args_os().next() {
        Some(name) if name.as_bytes().contains(&b'/') => summary::quoted(&name_text(name.as_bytes())),
        _ => "samara".to_owned(),
    }
}

/// `PROGRAM-PID.samara` in the current directory.
fn default_path(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("trace")).to_owned();
    name.push(format!("-{}.samara", std::process::id()));
    PathBuf::from(name)
}

pub(super) fn not_run(why: &RecordError) -> ExitCode {
    error(why);
    ExitCode::from(match why {
        RecordError::NotFound(_) => exit::NOT_FOUND,
        RecordError::NotExecutable(..) => exit::CANNOT_RUN,
        _ => exit::CANNOT_TRACE,
    })
}
