//! `samara show FILE`: prints a process's areas at a moment.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use samara_trace::event::AreaRecord;
use samara_trace::file::{
    FileError, MapsLine, Printable, Process, Replay, TraceReader, name_bytes, name_text, reasons,
};
use samara_trace::survey::Survey;
use samara_trace::why::Origins;

use crate::cli::Show;
use crate::format::{plural, time};
use crate::moment::Moment;
use crate::output::{self, clean, short};
use crate::summary::reasons_text;
use crate::survey::{self, Scope};

/// Why nothing, or not everything, could be shown.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The trace does not have the process or the moment; the message.
    Nothing(String),
    /// The trace cannot be read further; with a message if the readable part does not have the
    /// process or the moment.
    Unreadable(Option<String>, FileError),
    /// The output could not be written.
    Output(io::Error),
}

/// The request: the process, the moment, and the form of output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) pid: Option<u32>,
    pub(crate) at: Option<Moment>,
    pub(crate) reasons: bool,
    /// Groups of areas instead of lines.
    pub(crate) summary: bool,
    /// The kernel's bytes, also those that control a terminal.
    pub(crate) raw: bool,
}

pub(crate) fn run(args: &Show) -> ExitCode {
    let (at, reader) = match super::open_at(&args.file, args.at, super::Whose::or_first(args.pid)) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let wanted = Wanted { pid: args.pid, at, reasons: args.reasons, summary: args.summary, raw: args.raw };
    let mut stop = None;
    let printed = output::stdout(|out| match show(reader, wanted, out) {
        Err(Stop::Output(error)) => Err(error),
        other => {
            stop = other.err();
            Ok(())
        }
    });
    match (printed, stop) {
        (Err(error), _) | (_, Some(Stop::Output(error))) => {
            super::failed(format!("cannot write to standard output: {error}"))
        }
        (_, Some(Stop::Nothing(why))) => super::failed(format!("{}: {why}", output::shown(&args.file))),
        (_, Some(Stop::Unreadable(why, damage))) => {
            why.into_iter().for_each(|why| output::error(format!("{}: {why}", output::shown(&args.file))));
            super::unreadable(&args.file, &damage)
        }
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

/// Prints the areas, as far as the trace can be read.
pub(crate) fn show<R: Read>(mut reader: TraceReader<R>, wanted: Wanted, out: &mut dyn Write) -> Result<(), Stop> {
    let mut pid = wanted.pid;
    let (mut replay, mut origins) = (Replay::default(), Origins::default());
    let mut damage: Option<FileError> = None;
    // When the first event finished, if that is later than the moment.
    let mut before_all = None;
    let mut reached = wanted.at.is_none();
    for event in &mut reader {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                damage = Some(error);
                break;
            }
        };
        if pid.is_none() || event.seq == 0 {
            replay = replay.keep(*pid.get_or_insert(event.pid));
        }
        if wanted.at.is_some_and(|at| !at.includes(&event)) {
            reached = true;
            before_all = (event.seq == 0).then_some(event.exit_ns);
            break;
        }
        let last = wanted.at == Some(Moment::Event(event.seq));
        if let Err(error) = replay.apply(&event) {
            return Err(Stop::Nothing(format!("event {}: {error}: give an earlier moment (--at)", event.seq)));
        }
        if wanted.reasons || wanted.summary {
            origins.apply(&event, &replay);
        }
        if last {
            reached = true;
            break;
        }
    }
    let events = reader.events();
    if !reached {
        match (wanted.at, damage) {
            (_, Some(damage)) => return Err(Stop::Unreadable(None, damage)),
            (Some(Moment::Event(_)), None) => {
                let has = plural(events, "event");
                return Err(Stop::Nothing(format!(
                    "it has only {has}, numbered from 0: give a lower number or a time (--at)"
                )));
            }
            // A time after the end means the end.
            (_, None) => damage = None,
        }
    }
    let process = pid.and_then(|pid| replay.process(pid));
    let Some((process, space)) = process.and_then(|process| Some((process, replay.space(process.space)?))) else {
        return Err(match (damage, before_all) {
            // The trace does not have a single whole batch.
            (Some(damage), _) if replay.processes().next().is_none() => Stop::Unreadable(None, damage),
            (Some(damage), _) => Stop::Unreadable(Some(no_process(&replay, pid)), damage),
            (None, Some(ns)) => {
                let first = format!("the first event finished after {} ({ns} ns)", time(ns));
                Stop::Nothing(format!("{first}, and nothing is known before that: give a later moment (--at)"))
            }
            (None, None) => Stop::Nothing(no_process(&replay, pid)),
        });
    };
    let areas = origins.recorded(process.space, space.areas());
    match wanted.summary {
        false => print(out, areas, &reader.header().gate, wanted),
        true => {
            let areas: Vec<AreaRecord> = areas.collect();
            let title = format!("process {} ({})", pid.unwrap_or(0), process.program);
            let known = origins.shown(process.space, &areas);
            let scope = Scope { known, limit: None, threads: None, notes: &[] };
            let text = survey::screen(&title, &Survey::of(&areas, known), scope);
            out.write_all(anstream::adapter::strip_str(&text).to_string().as_bytes())
        }
    }
    .map_err(Stop::Output)?;
    damage.map_or(Ok(()), |damage| Err(Stop::Unreadable(None, damage)))
}

fn print(out: &mut dyn Write, areas: impl Iterator<Item = AreaRecord>, gate: &str, wanted: Wanted) -> io::Result<()> {
    let maps_line = |out: &mut dyn Write, line: &[u8]| {
        match wanted.raw {
            true => out.write_all(line)?,
            false => write!(out, "{}", Printable(&name_text(line)))?,
        }
        out.write_all(b"\n")
    };
    let mut before: Option<AreaRecord> = None;
    for area in areas {
        if wanted.reasons && before.is_some_and(|before| before.end == area.start) {
            match &*area.apart {
                "" => writeln!(out, "    | nothing keeps these two apart")?,
                apart => {
                    let why: Vec<_> = reasons(apart).collect();
                    writeln!(out, "    | apart: {}", reasons_text(&why, ", "))?;
                }
            }
        }
        maps_line(out, &MapsLine(&area).to_bytes())?;
        before = Some(area);
    }
    match name_bytes(gate).split(|byte| *byte == b'\n').next() {
        None | Some([]) => Ok(()),
        Some(line) => maps_line(out, line),
    }
}

/// The message if the process has no space at the moment.
fn no_process(replay: &Replay, pid: Option<u32>) -> String {
    const NAMED: usize = 8;
    let lives = |p: &Process| p.ended_ns.is_none();
    let some = replay.processes().any(|(_, p)| lives(p));
    let when = if some { "at that moment; there are" } else { "up to that moment; there were" };
    // Only the first few are kept; a file may have millions.
    let (mut first, mut count) = (Vec::new(), 0);
    for (pid, process) in replay.processes().filter(|(_, p)| lives(p) || !some) {
        count += 1;
        first.push((process.first_event, pid, process));
        if first.len() > NAMED {
            first.sort_by_key(|(event, ..)| *event);
            first.truncate(NAMED);
        }
    }
    first.sort_by_key(|(event, ..)| *event);
    let Some(pid) = pid.filter(|_| count > 0) else { return "the trace has no events".to_owned() };
    let named: Vec<_> = first.iter().map(|(_, pid, p)| format!("{pid} ({})", short(&clean(&p.program)))).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    format!("no process {pid} {when}: {}{more}", named.join(", "))
}
