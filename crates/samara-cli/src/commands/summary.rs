//! `samara summary TRACE`: prints the summary of a recording again, from its file.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use samara_trace::event::EventKind;
use samara_trace::file::{FileError, Header, Summary, Tally, TraceReader, name_text};

use crate::cli::SummaryOf;
use crate::exit;
use crate::json::{self, Recorded};
use crate::output::{self, clean_json};

pub(crate) fn run(args: &SummaryOf) -> ExitCode {
    let reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let header = reader.header().clone();
    let read = read(reader);
    let name = name_text(args.file.as_os_str().as_bytes());
    let early = read.damage.as_ref().map(ToString::to_string);
    let command = super::trace::own_name();
    let recorded = Recorded {
        command: &command,
        checks: None,
        limit: None,
        wall_ns: read.summary.wall_ns,
        program_ns: read.ended.map(|(_, ns)| ns),
        exit_code: read.ended.map(|(status, _)| exit::code(status)),
        notes: &[],
        file: &name,
        events_in_file: read.summary.events,
        file_bytes: std::fs::metadata(&args.file).map_or(0, |file| file.len()),
        early: early.as_deref(),
    };
    let title = title(&header, &read);
    let summary = json::summary(&read.summary, &recorded);
    let printed = output::styled_stdout(|out| match args.json {
        true => writeln!(out, "{}", clean_json(&format!("{summary:#}"))),
        false => write!(out, "{}", crate::summary::screen(&title, &read.summary, &recorded)),
    });
    match (printed, read.damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), None) if super::trace::says_failure(&args.fail_if, &summary) => exit::CONDITION.into(),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

/// What a trace says.
pub(super) struct Told {
    pub(super) summary: Summary,
    /// How the first process ended, and when.
    ended: Option<(ExitStatus, u64)>,
    /// It ran already when the recording began.
    found: bool,
    pub(super) damage: Option<FileError>,
}

/// Sums up the events, as far as they can be read.
pub(super) fn read<R: Read>(mut reader: TraceReader<R>) -> Told {
    let (mut tally, mut first, mut ended, mut damage) = (Tally::default(), None, None, None);
    let mut found = false;
    for event in &mut reader {
        match event {
            Ok(event) => {
                let is_first = *first.get_or_insert(event.pid) == event.pid;
                if is_first && event.kind == EventKind::Exit && ended.is_none() {
                    ended = Some((ExitStatus::from_raw(event.result as i32), event.exit_ns));
                }
                found |= event.kind == EventKind::Found;
                tally.add(&event);
            }
            Err(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    Told { summary: tally.summary(), ended, found, damage }
}

/// The program, how it ended, and when it was recorded.
pub(super) fn title(header: &Header, read: &Told) -> String {
    let program = super::trace::shown(&super::words(header));
    let ended = match read.ended {
        Some((status, ns)) => crate::summary::ended(status, ns, read.summary.wall_ns),
        None if read.found && read.damage.is_none() => crate::summary::detached(read.summary.wall_ns),
        None => "did not end in this trace".to_owned(),
    };
    format!("{program} {ended}; recorded at {}", output::clean(&header.start_time))
}
