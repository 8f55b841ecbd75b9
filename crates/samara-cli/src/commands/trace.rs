//! `samara trace -- PROGRAM ARGS...`: runs a program, records it, and prints a summary.
//! `samara trace --pid PID`: the same for a process that runs already, which goes on afterwards.
//! `samara trace --cgroup PATH` and `--all`: the same for several.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use samara_oracle::Profile;
use samara_record::inspect::max_map_count;
use samara_record::nostop::{Group, NotWatched};
use samara_record::{Follow, Options, Outcome, RecordError, Running, Status, attach, nostop, record};
use samara_trace::Written;
use samara_trace::file::Header;
use samara_trace::file::name_text;

use super::command_sink::CommandSink;
use super::files::{self, Files, NOT_RUN, Name, OutputFiles};
use super::report::Page;
use crate::cli::Trace;
use crate::format::plural;
use crate::json::{self, Recorded};
use crate::kernel::Kernel;
use crate::output::{BOLD, clean, error, styled};
use crate::output_file::Output;
use crate::{exit, summary};

/// The end of a message if a process is not attached to.
pub(super) const LEFT_ALONE: &str = "the process was left alone";

pub(crate) fn run(args: &Trace) -> ExitCode {
    if let Some(pid) = args.pid {
        return attach_to(args, pid);
    }
    match &args.cgroup {
        Some(path) => match Group::control_group(path) {
            Ok(group) => return record_group(args, group),
            Err(why) => return not_run(&why.into()),
        },
        None if args.all => return record_group(args, Group::all()),
        None => {}
    }
    // clap requires at least one word.
    let Some((program, rest)) = args.words.split_first() else { return exit::USAGE.into() };
    let mut options = Options::new(program).args(rest.iter().cloned());
    options.stacks = args.stacks;
    options.resident = args.resident;
    options.follow = args.follow.clone();
    (options.start_on, options.stop_on) = (args.start_on, args.stop_on);
    let path = default_path(program, std::process::id());
    let recorded = recorded(args, (&args.words, &|| options.header()), path, NOT_RUN, |sink| match no_stop(args) {
        true => nostop::record(&options, &settings(args), sink).map(told),
        false => record(&options, sink),
    });
    match recorded.map(|(status, fails)| (status.ended().unwrap_or_default(), fails)) {
        Ok((status, true)) if status.success() => exit::CONDITION.into(),
        Ok((status, _)) => exit::like(status),
        Err(code) => code,
    }
}

/// Records a running process.
fn attach_to(args: &Trace, pid: u32) -> ExitCode {
    let mut running = match Running::find(pid) {
        Ok(running) => running,
        Err(why) => return not_run(&why),
    };
    running.duration = args.duration;
    running.stacks = args.stacks;
    running.resident = args.resident;
    running.follow = args.follow.clone();
    (running.start_on, running.stop_on) = (args.start_on, args.stop_on);
    let path = default_path(&running.name, pid);
    let (quiet, needs_stops) = (args.outputs.quiet, needs_stops(args));
    let recorded = recorded(args, (&running.words(), &|| running.header()), path, LEFT_ALONE, |sink| {
        let ends = match args.duration {
            None => "^C lets go of it".to_owned(),
            Some(duration) => format!("it is let go after {}, or by ^C", humantime::format_duration(duration)),
        };
        if !needs_stops {
            let ready = || say_no_stop(&running, &ends);
            match nostop::attach(&running, &settings(args), &mut sink.with_ready(&ready)) {
                // Nothing was recorded yet.
                Err(RecordError::NotWatched(why)) if !no_stop(args) => {
                    if !quiet {
                        say_why_stops(&why);
                    }
                }
                done => return done.map(told),
            }
        }
        if !quiet {
            say_cost(&running, &ends);
        }
        attach(&running, sink)
    });
    match recorded {
        Ok((_, true)) => exit::CONDITION.into(),
        Ok((_, false)) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

/// The settings of a recording without stops.
fn settings(args: &Trace) -> nostop::Settings {
    let mut settings = nostop::Settings::default();
    settings.source = args.source.unwrap_or_default();
    if args.stacks {
        // Records are larger, so the rings are too.
        (settings.stack_bytes, settings.ring) = (8 << 10, 16 << 20);
    }
    settings
}

/// Whether stops are forbidden.
fn no_stop(args: &Trace) -> bool {
    args.no_stop || args.source.is_some()
}

/// Whether the process must stop at its calls: it is asked for, or an option needs it.
fn needs_stops(args: &Trace) -> bool {
    let parts = args.start_on.is_some() || args.stop_on.is_some();
    args.exact || args.resident || parts || args.follow != Follow::All
}

/// Records processes that run already, without stopping them.
fn record_group(args: &Trace, mut group: Group) -> ExitCode {
    group.duration = args.duration;
    let words = group.words();
    let name = words.last().map(OsString::as_os_str).unwrap_or_default();
    let path = default_path(if args.all { OsStr::new("all") } else { name }, std::process::id());
    let recorded = recorded(args, (&words, &|| group.header()), path, NOT_RUN, |sink| {
        let ready = || say_group(&group);
        nostop::record_group(&group, &settings(args), &mut sink.with_ready(&ready)).map(told)
    });
    match recorded {
        Ok((_, true)) => exit::CONDITION.into(),
        Ok((_, false)) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

/// Prints the cost of attaching to a process, and when the recording `ends`.
pub(super) fn say_cost(running: &Running, ends: &str) {
    let (pid, threads) = (running.pid, plural(running.threads, "thread"));
    let name = clean(&running.name.to_string_lossy());
    // A closed standard error cannot show the message.
    let _ = writeln!(
        anstream::stderr(),
        "{} attaching to process {pid} ({name}), {threads}: this slows down each of its system calls greatly,\n  \
         as each stops twice: a busy server may lose nine tenths of its throughput. Without that cost:\n  \
         {} inspect --every 1s {pid}\n  {ends}",
        styled(BOLD, "samara:"),
        super::own_name()
    );
}

/// Prints how a process is recorded without stops, and when the recording `ends`.
fn say_no_stop(running: &Running, ends: &str) {
    let (pid, threads) = (running.pid, plural(running.threads, "thread"));
    let name = clean(&running.name.to_string_lossy());
    // A closed standard error cannot show the message.
    let _ = writeln!(
        anstream::stderr(),
        "{} watching process {pid} ({name}), {threads}: it does not stop; each of its memory calls takes some microseconds \
         longer\n  {ends}",
        styled(BOLD, "samara:"),
    );
}

/// Says how several processes are recorded, and when that ends.
fn say_group(group: &Group) {
    let words: Vec<String> = group.words().iter().map(|word| clean(&word.to_string_lossy())).collect();
    let ends = match group.duration {
        None => "until ^C".to_owned(),
        Some(duration) => format!("for {}, or until ^C", humantime::format_duration(duration)),
    };
    let empty = if group.is_empty() { ", which has no process yet" } else { "" };
    // A closed standard error cannot show the message.
    let _ = writeln!(
        anstream::stderr(),
        "{} watching {}{empty}, {ends}: no process stops; each memory call takes some microseconds longer",
        styled(BOLD, "samara:"),
        words.join(" "),
    );
}

/// Says why a process must be stopped.
fn say_why_stops(why: &NotWatched) {
    let text = why.to_string();
    let text = text.split_once(". ").map_or(&*text, |(first, _)| first);
    // A closed standard error cannot show the message.
    let _ = writeln!(
        anstream::stderr(),
        "{} cannot record without stops: {text}. Samara stops the process instead (samara trace --no-stop says more)",
        styled(BOLD, "samara:")
    );
}

/// The outcome of a recording without stops. Its first note says what was seen.
fn told(watched: nostop::Watched) -> Outcome {
    let mut outcome = watched.outcome;
    outcome.counters.notes.insert(0, format!("{}{}", summary::WITHOUT_STOPS, watched.seen));
    outcome
}

/// Records, and prints the summary. Returns the program's end, and whether a `--fail-if` condition
/// holds. `left`: the end of the message if nothing can be recorded.
fn recorded(
    args: &Trace,
    (words, header): (&[OsString], &dyn Fn() -> Header),
    default_path: PathBuf,
    left: &str,
    record: impl FnOnce(&mut CommandSink<'_>) -> Result<Outcome, RecordError>,
) -> Result<(Status, bool), ExitCode> {
    let asked = OutputFiles {
        trace: Some(args.outputs.output.as_deref().map_or(Name::Chosen(default_path), Name::Given)),
        summary: args.outputs.summary_json.as_deref(),
        page: args.report,
        other: None,
        access: args.outputs.readers.access(),
        header,
    };
    let Files { trace, summary, page, early } = files::open(asked, left)?;
    let mut sink = trace.ok_or(exit::USAGE)?;
    let path = &sink.path().to_owned();
    keep_signals(args);
    if let Some(bytes) = args.max_size {
        sink.limit(bytes);
    }
    if !args.outputs.quiet || keeps_summary(args) {
        sink.sum_up();
    }
    let (start_on, stop_on, quiet) = (args.start_on, args.stop_on, args.outputs.quiet);
    let outcome = record(&mut CommandSink { sink: &mut sink, early: &early, start_on, stop_on, quiet, ready: None });
    drop(early);
    match outcome {
        Ok(outcome) => {
            let written = files::finished(sink);
            let fails = report(args, words, path, &outcome, written, summary);
            if let Some((page, name)) = page {
                write_page(args, path, Page::Chosen(page, name));
            }
            Ok((outcome.status, fails))
        }
        Err(why) => {
            Files { trace: Some(sink), summary, page, ..Files::default() }.discard();
            Err(not_run(&why))
        }
    }
}

/// Whether the summary is written to a file, or decides the exit status.
fn keeps_summary(args: &Trace) -> bool {
    args.outputs.summary_json.is_some() || !args.fail_if.is_empty()
}

/// Prints the summary. Returns whether a `--fail-if` condition holds.
fn report(
    args: &Trace,
    words: &[OsString],
    path: &Path,
    outcome: &Outcome,
    written: Written,
    summary_to: Option<(PathBuf, Output)>,
) -> bool {
    let counters = &outcome.counters;
    let complete = written.error.is_none() && !counters.ended_early;
    let why = written.error.as_ref().map_or_else(|| "the recorder stopped".to_owned(), ToString::to_string);
    let name = name_text(path.as_os_str().as_bytes());
    // The totals are absent if no output shows them, or if the thread that sums up has died.
    let mut totals = written.summary.unwrap_or_default();
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
    let (command, profile) = (super::own_name(), Profile::running());
    let profile_name = profile.to_string();
    let crashes = crate::crash::of(&totals, path);
    let recorded = Recorded {
        command: &command,
        checks: Some(counters.checks),
        limit: max_map_count(),
        wall_ns: counters.wall_ns,
        program_ns: Some(outcome.program_ns),
        exit_code: outcome.status.ended().map(exit::code),
        notes: &counters.notes,
        file: &name,
        events_in_file: written.events,
        file_bytes: written.bytes,
        early: (!complete).then_some(&*why),
        only: None,
        crashes: &crashes,
        kernel: Some(Kernel::asked(profile, &profile_name)),
    };
    let quiet = args.outputs.quiet;
    if !quiet {
        let ended = match outcome.status {
            Status::Ended(status) => summary::ended(status, outcome.program_ns, counters.wall_ns),
            Status::LetGo if args.pid.is_none() => summary::no_more(counters.wall_ns, "go on"),
            Status::Gone if args.pid.is_none() => summary::no_more(counters.wall_ns, "have ended"),
            Status::LetGo => summary::detached(counters.wall_ns),
            Status::Gone => summary::gone(outcome.program_ns, counters.wall_ns),
        };
        let title = format!("{} {ended}", super::command_line(words));
        // A closed standard error cannot show the message.
        let _ = write!(anstream::stderr(), "{}", summary::screen(&title, &totals, &recorded));
    }
    if quiet && !complete {
        let events = written.events;
        error(format!("{name}: the trace ends early, after {events} events: {why}; the program was not disturbed"));
    }
    // With many call stacks it is large.
    if !keeps_summary(args) {
        return false;
    }
    let summary = json::summary(&totals, &recorded);
    let fails = super::says_failure(&args.fail_if, &summary);
    files::write(summary_to, &summary);
    fails
}

/// Writes the page of a trace. If that fails, prints why, and the exit code is still the program's.
/// The trace is read by its name. If another trace has the name by now, the page is of that one,
/// and no less private.
fn write_page(args: &Trace, trace: &Path, page: Page) {
    if trace.metadata().is_ok_and(|file| file.is_file()) {
        super::report::report(&[trace], Some(page), args.outputs.readers.access(), args.outputs.quiet);
    } else {
        error(format!("--report: {} is no file that can be read again: there is no page", crate::output::shown(trace)));
    }
}

/// Keeps signals that start or stop a recording from ending samara: one may come before samara has
/// printed that it waits for it, or after the end of the recording. The recorder has separate
/// handlers.
fn keep_signals(args: &Trace) {
    let asked = args.start_on.is_some() || args.stop_on.is_some();
    let all = [signal_hook::consts::SIGUSR1, signal_hook::consts::SIGUSR2];
    for signal in all.into_iter().filter(|_| asked) {
        // If that fails, the signals end samara as usual.
        let _ = signal_hook::flag::register(signal, std::sync::Arc::default());
    }
}

/// `PROGRAM-PID.samara` in the current directory, with a number if that is taken.
fn default_path(program: &OsStr, pid: u32) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("trace")).to_owned();
    name.push(format!("-{pid}.samara"));
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
