//! `samara summary TRACE`: prints the summary of a recording again, from its file.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use samara_trace::event::{Event, EventKind};
use samara_trace::file::{FileError, Header, TraceReader, name_text};
use samara_trace::summary::{Summary, Tally};

use crate::cli::{Only, SummaryOf};
use crate::exit;
use crate::format::time;
use crate::json::{self, Recorded};
use crate::kernel::Kernel;
use crate::output::{self, clean_json, shown};

pub(crate) fn run(args: &SummaryOf) -> ExitCode {
    let reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let header = reader.header().clone();
    let only = match super::only_of(&args.only, &args.file, &header) {
        Ok(only) => only,
        Err(code) => return code,
    };
    let read = read(reader, &only, |_, _| ());
    let name = name_text(args.file.as_os_str().as_bytes());
    let early = read.damage.as_ref().map(ToString::to_string);
    let command = super::own_name();
    let empty = read.events == 0 && read.damage.is_none();
    let notes = if empty { vec!["nothing was recorded: the trace has no events".to_owned()] } else { Vec::new() };
    let crashes = crate::crash::of(&read.summary, &args.file);
    let only_some = (!only.is_all()).then_some(&only);
    let bytes = std::fs::metadata(&args.file).map_or(0, |file| file.len());
    let base = Recorded {
        command: &command,
        notes: &notes,
        file: &name,
        file_bytes: bytes,
        only: only_some,
        crashes: &crashes,
        kernel: Some(Kernel::of(&header)),
        limit: header.max_map_count,
        ..Recorded::default()
    };
    let recorded = recorded(&read, early.as_deref(), base);
    if !only.pid.is_empty() && read.first.is_none() && read.damage.is_none() {
        return super::failed(format!(
            "{}: no event of process {} in that time: samara show says which there are",
            shown(&args.file),
            or(&only.pid)
        ));
    }
    let title = title(&header, &read, &only);
    // With many call stacks it is large.
    let wanted = args.json || !args.fail_if.is_empty();
    let summary = if wanted { json::summary(&read.summary, &recorded) } else { serde_json::Value::Null };
    let printed = output::styled_stdout(|out| match args.json {
        true => writeln!(out, "{}", clean_json(&format!("{summary:#}"))),
        false => write!(out, "{}", crate::summary::screen(&title, &read.summary, &recorded)),
    });
    match (printed, read.damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), None) if super::says_failure(&args.fail_if, &summary) => exit::CONDITION.into(),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

/// The facts of a recording in its file, in addition to `base`.
pub(super) fn recorded<'a>(read: &ReadTrace, early: Option<&'a str>, base: Recorded<'a>) -> Recorded<'a> {
    Recorded {
        wall_ns: read.summary.wall_ns,
        program_ns: read.ended.map(|(_, ns)| ns),
        exit_code: read.ended.and_then(|(status, _)| status.map(exit::code)),
        events_in_file: read.events,
        early,
        ..base
    }
}

/// The result of reading a trace.
pub(super) struct ReadTrace {
    pub(super) summary: Summary,
    /// The first selected process.
    first: Option<u32>,
    /// Events in the file, as far as it can be read.
    events: u64,
    /// How the first process ended, if that is known, and when. `None` for a group of processes.
    ended: Option<(Option<ExitStatus>, u64)>,
    /// It was running when the recording began.
    found: bool,
    pub(super) damage: Option<FileError>,
}

/// Sums up the selected events, as far as they can be read. `beside` gets each selected event after
/// it was added.
pub(super) fn read<R: Read>(
    mut reader: TraceReader<R>,
    only: &Only,
    mut beside: impl FnMut(&Event, &Tally),
) -> ReadTrace {
    let mut tally = only.pid.iter().fold(Tally::default(), |tally, pid| tally.only(*pid));
    tally.set_limit(reader.header().max_map_count);
    let (mut first, mut ended, mut damage) = (None, None, None);
    let (during, is_all, mut events, mut found) = (only.during(), only.is_all(), 0, false);
    let is_group = is_of_group(reader.header()) && only.pid.is_empty();
    // Times in a file may be in any order: the selected time begins once, and ends once.
    let (mut has_begun, mut has_ended) = (false, false);
    for event in &mut reader {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                damage = Some(error);
                break;
            }
        };
        events += 1;
        // Definitions are at the end of a trace.
        if !event.kind.defines() {
            has_begun |= during.has_begun(&event);
            has_ended |= during.has_ended(&event);
            if has_ended {
                continue;
            }
            if first.is_none() && (only.pid.is_empty() || only.pid.contains(&event.pid)) {
                first = Some(event.pid);
            }
            let is_first = first == Some(event.pid);
            if is_first && !is_group && event.kind == EventKind::Exit && ended.is_none() {
                let status = event.text.is_empty().then(|| ExitStatus::from_raw(event.result as i32));
                ended = Some((status, event.exit_ns));
            }
            found |= event.kind == EventKind::Found;
            if !has_begun {
                tally.skip(&event);
                continue;
            }
        }
        match is_all || (!event.kind.defines() && only.chooses(&event)) {
            true => tally.add(&event),
            false => tally.pass(&event),
        }
        beside(&event, &tally);
    }
    ReadTrace { summary: tally.summary(), first, events, ended, found, damage }
}

/// The program, how it ended, and when it was recorded.
pub(super) fn title(header: &Header, read: &ReadTrace, only: &Only) -> String {
    let program = super::command_line(&super::words(header));
    let program = match (&only.pid[..], read.first) {
        ([], _) | (_, None) => program,
        ([pid], _) => format!("process {pid} of {program}"),
        (all, Some(first)) => format!("processes {} of {program}: the first, {first},", or(all)),
    };
    let wall_ns = read.summary.wall_ns;
    let ended = match read.ended {
        Some((Some(status), ns)) => crate::summary::ended(status, ns, wall_ns),
        Some((None, ns)) => crate::summary::gone(ns, wall_ns),
        None if is_of_group(header) && only.pid.is_empty() => format!("recorded for {}", time(wall_ns)),
        None if read.found && read.damage.is_none() && only.to.is_none() => {
            format!("was recorded until {}; what came later is not in the trace", time(wall_ns))
        }
        None if only.to.is_some() => "had not ended".to_owned(),
        None => "did not end in this trace".to_owned(),
    };
    format!("{program} {ended}; recorded at {}", output::clean(&header.start_time))
}

/// Whether it is a recording of all processes, or of a control group.
fn is_of_group(header: &Header) -> bool {
    matches!(&*header.program, "--all" | "--cgroup")
}

fn or(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
}
