//! `samara show FILE`: a process's areas at a moment.

use std::io::{self, Write};
use std::process::ExitCode;

use samara_trace::event::AreaRecord;
use samara_trace::file::{FileError, MapsLine, Replay, Space, reasons};

use crate::cli::Show;
use crate::format::{plural, time};
use crate::moment::Moment;
use crate::output::{self, clean, short};

pub(crate) fn run(args: &Show) -> ExitCode {
    let mut reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let mut pid = args.pid;
    let mut replay = Replay::default();
    let mut damage: Option<FileError> = None;
    // When the first event was over, where that is later than the moment.
    let mut before_all = None;
    let mut reached = args.at.is_none();
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
        if args.at.is_some_and(|at| !at.includes(&event)) {
            reached = true;
            before_all = (event.seq == 0).then_some(event.exit_ns);
            break;
        }
        let last = args.at == Some(Moment::Event(event.seq));
        if let Err(error) = replay.apply(&event) {
            return super::failed(format!("{}: {error}", args.file.display()));
        }
        if last {
            reached = true;
            break;
        }
    }
    let events = reader.events();
    if !reached {
        match (args.at, &damage) {
            (_, Some(damage)) => return super::unreadable(&args.file, damage),
            (Some(Moment::Event(_)), None) => {
                let has = plural(events, "event");
                return super::failed(format!("{} has only {has}, numbered from 0", args.file.display()));
            }
            // A time after the end: the end.
            _ => {}
        }
    }
    let Some(space) = pid.and_then(|pid| replay.space_of(pid)) else {
        if let (Some(damage), true) = (&damage, replay.processes().next().is_none()) {
            return super::unreadable(&args.file, damage); // not one whole batch
        }
        if let Some(ns) = before_all {
            let first = format!("the first event finished after {} ({ns} ns)", time(ns));
            return super::failed(format!("{}: {first}: nothing is known before it", args.file.display()));
        }
        let none = no_process(&replay, pid);
        let code = super::failed(format!("{}: {none}", args.file.display()));
        return damage.map_or(code, |damage| super::unreadable(&args.file, &damage));
    };
    match (output::stdout(|out| print(out, space, &reader.header().gate, args.reasons)), damage) {
        (Err(error), _) => super::failed(format!("standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

fn print(out: &mut dyn Write, space: &Space, gate: &str, with_reasons: bool) -> io::Result<()> {
    let terminal = output::to_terminal();
    // To the byte, except that a file's text does not command a terminal.
    let mut put = |line: &str| if terminal { writeln!(out, "{}", clean(line)) } else { writeln!(out, "{line}") };
    let mut before: Option<AreaRecord> = None;
    for area in space.areas() {
        if with_reasons && before.is_some_and(|before| before.end == area.start) {
            let why: Vec<_> = reasons(&area.apart).collect();
            let why = match why.as_slice() {
                [] => "nothing keeps these two apart".to_owned(),
                why => format!("apart: {}", why.join(", ")),
            };
            put(&format!("    | {why}"))?;
        }
        put(&MapsLine(&area).to_string())?;
        before = Some(area);
    }
    if gate.is_empty() { Ok(()) } else { put(gate) }
}

/// What to say when the process has no space at the moment.
fn no_process(replay: &Replay, pid: Option<u32>) -> String {
    let mut there: Vec<_> = replay.processes().filter(|(_, p)| p.ended_ns.is_none()).collect();
    let mut when = "at that moment; there are";
    if there.is_empty() {
        there = replay.processes().collect();
        when = "up to that moment; there were";
    }
    let Some(pid) = pid.filter(|_| !there.is_empty()) else { return "the trace has no events".to_owned() };
    there.sort_by_key(|(_, process)| process.first_event);
    let named: Vec<_> = there.iter().take(8).map(|(pid, p)| format!("{pid} ({})", short(&p.program))).collect();
    let more = if there.len() > 8 { format!(" and {} more", there.len() - 8) } else { String::new() };
    format!("no process {pid} {when}: {}{more}", named.join(", "))
}
