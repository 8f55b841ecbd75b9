//! `samara who TRACE ADDRESS`: the history of one address of a process.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use samara_trace::event::{AreaRecord, Event};
use samara_trace::file::{FileError, MapsLine, Printable, Replay, TraceReader, name_text};
use serde_json::json;

use crate::cli::{Only, Who};
use crate::format::plural;
use crate::moment::Moment;
use crate::output::{self, BOLD, DIM, clean_json, styled};
use crate::summary::reasons_text;
use crate::why::Sites;
use crate::{crash, json, line};

pub(crate) fn run(args: &Who) -> ExitCode {
    let (at, reader) = match super::open_at(&args.file, args.at, super::Whose::or_first(args.pid)) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let args = &Who { at, file: args.file.clone(), ..*args };
    let mut heading = Vec::new();
    let (pid, address) = match args.address {
        Some(address) => (args.pid, address),
        None => match fault(args) {
            Ok((pid, address, rows)) => {
                heading = rows;
                (Some(pid), address)
            }
            Err(code) => return code,
        },
    };
    let asked = &Query { args, pid, address };
    let mut end = Ok(End::default());
    let printed = output::styled_stdout(|out| {
        if !args.json {
            heading.iter().try_for_each(|row| writeln!(out, "{row}"))?;
        }
        end = history(reader, asked, out)?;
        Ok(())
    });
    let end = match (printed, end) {
        (Err(error), _) => return super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Err(why)) => return super::failed(format!("{}: {why}", output::shown(&args.file))),
        (Ok(()), Ok(end)) => end,
    };
    if let Some(damage) = end.damage {
        return super::unreadable(&args.file, &damage);
    }
    if end.told == 0 {
        let (name, until) = (output::shown(&args.file), if args.at.is_some() { " up to that moment" } else { "" });
        let why = match end.pid {
            None => "the trace has no events".to_owned(),
            Some(pid) if !end.known => {
                format!("there was no process {pid}{until}: samara show FILE --pid {pid} lists the trace's processes")
            }
            Some(pid) => format!(
                "nothing was mapped at {:x} in process {pid}{until}: give another address, or another process (--pid)",
                asked.address
            ),
        };
        return super::failed(format!("{name}: {why}"));
    }
    ExitCode::SUCCESS
}

/// The request: the process and the address.
struct Query<'a> {
    args: &'a Who,
    pid: Option<u32>,
    address: u64,
}

/// The process that a fault ended (the first one, or the given one), and the fault's address, or
/// that of memory that was replaced before. Returns a description too. Prints why if no fault is
/// found. The trace is read twice more.
fn fault(args: &Who) -> Result<(u32, u64, Vec<String>), ExitCode> {
    let name = output::shown(&args.file);
    if args.file.metadata().is_ok_and(|file| !file.is_file()) {
        return Err(super::failed(format!("{name}: a fault is found by reading the trace twice: give a file")));
    }
    let only = Only { pid: args.pid.into_iter().collect(), ..Only::default() };
    let summary = super::summary::read(super::open(&args.file)?, &only, |_, _| ()).summary;
    let Some(told) = crash::of(&summary, &args.file).into_iter().next() else {
        let whom = args.pid.map_or_else(|| "no process was".to_owned(), |pid| format!("process {pid} was not"));
        return Err(super::failed(format!(
            "{name}: {whom} ended by a fault whose address is in the trace: give an address"
        )));
    };
    Ok((told.pid(), told.looked_for(), crash::rows(&told, Sites::of(&summary))))
}

/// The result of printing a history.
#[derive(Default)]
struct End {
    /// Number of events that were printed.
    told: u64,
    /// The process, and whether the trace has one with this number.
    pid: Option<u32>,
    known: bool,
    damage: Option<FileError>,
}

/// Prints each event after which a different area, or none, holds the address. The inner error says
/// why the trace cannot be followed.
fn history<R: Read>(
    mut reader: TraceReader<R>,
    asked: &Query<'_>,
    out: &mut dyn Write,
) -> io::Result<Result<End, String>> {
    let args = asked.args;
    let (mut replay, mut end, mut before) = (Replay::default(), End { pid: asked.pid, ..End::default() }, None);
    let mut reached = !matches!(args.at, Some(Moment::Event(_)));
    for event in &mut reader {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                end.damage = Some(error);
                break;
            }
        };
        if args.at.is_some_and(|at| !at.includes(&event)) {
            reached = true;
            break;
        }
        let pid = *end.pid.get_or_insert(event.pid);
        if let Err(error) = replay.apply(&event) {
            return Ok(Err(format!("event {}: {error}: give an earlier moment (--at)", event.seq)));
        }
        reached |= args.at == Some(Moment::Event(event.seq));
        let lives = replay.process(pid).is_some_and(|process| process.ended_ns.is_none());
        let now = replay.space_of(pid).filter(|_| lives).and_then(|space| space.at(asked.address));
        if before.as_ref().map(shape) != now.as_ref().map(shape) {
            end.told += 1;
            tell(out, &event, now.as_ref(), args.json)?;
            before = now;
        }
    }
    if !reached && end.damage.is_none() {
        let has = plural(reader.events(), "event");
        return Ok(Err(format!("it has only {has}, numbered from 0: give a lower number or a time (--at)")));
    }
    end.known = end.pid.is_some_and(|pid| replay.process(pid).is_some());
    Ok(Ok(end))
}

/// The identity of an area: everything except the reasons that keep it apart from the one before
/// it.
fn shape(area: &AreaRecord) -> (u64, u64, u8, u64, (u32, u32), u64, &str) {
    (area.start, area.end, area.perms, area.offset, area.dev, area.inode, &area.name)
}

fn tell(out: &mut dyn Write, event: &Event, now: Option<&AreaRecord>, as_json: bool) -> io::Result<()> {
    if as_json {
        write!(out, "{{\"area\":")?;
        write!(out, "{}", clean_json(&now.map_or_else(|| json!(null), json::area).to_string()))?;
        write!(out, ",\"event\":")?;
        json::event(out, event, None, None, None)?;
        return out.write_all(b"}\n");
    }
    line::line(out, event, &line::Beside::default())?;
    match now {
        Some(area) => {
            let text = name_text(&MapsLine(area).to_bytes());
            writeln!(out, "\n    {}", styled(BOLD, Printable(&text)))?;
            let apart: Vec<&str> = samara_trace::file::reasons(&area.apart).collect();
            if !apart.is_empty() {
                writeln!(
                    out,
                    "    {}",
                    styled(DIM, format!("apart from the one before it: {}", reasons_text(&apart, ", ")))
                )?;
            }
            Ok(())
        }
        None => writeln!(out, "\n    {}", styled(DIM, "nothing is mapped there")),
    }
}
