//! `samara events FILE`: prints every event, as lines or as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use samara_trace::event::Event;
use samara_trace::file::{FileError, Replay, Stacks};

use crate::cli::{Events, Only};
use crate::line::Beside;
use crate::{json, line, moment, output};

/// Interval at which a growing trace is checked.
const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Events) -> ExitCode {
    let stacks = match (args.stacks || args.folded).then(|| super::stacks_of(&args.file)).transpose() {
        Ok(stacks) => stacks,
        Err(code) => return code,
    };
    let input = |file: File| -> Box<dyn Read> {
        match args.follow {
            true => Box::new(Following(file)),
            false => Box::new(file),
        }
    };
    let reader = match super::open_as(&args.file, input) {
        Ok(reader) if args.follow => reader.within(),
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let only = match super::only_of(&args.only, &args.file, reader.header()) {
        Ok(only) => only,
        Err(code) => return code,
    };
    let began_ns = if args.clock { moment::began(reader.header()) } else { None };
    if args.clock && began_ns.is_none() {
        return super::failed(format!("{} does not say when it began: leave out --clock", output::shown(&args.file)));
    }
    let how = How {
        json: args.json,
        flush: args.follow,
        stacks: stacks.as_ref(),
        callers: args.callers,
        began_ns,
        only: &only,
    };
    let (mut damage, mut missing) = (Ok(()), BTreeSet::from_iter(only.pid.iter().copied()));
    let (mut reader, mut is_whole) = (reader, false);
    let events = std::iter::from_fn(|| {
        let next = reader.next();
        is_whole |= next.is_none();
        if let Some(Ok(event)) = &next {
            missing.remove(&event.pid);
        }
        next
    });
    let printed = output::styled_stdout(|out| {
        damage = match &stacks {
            Some(stacks) if args.folded => fold(events, stacks, &only, out)?,
            _ => print(events, how, out)?,
        };
        Ok(())
    });
    match (printed, damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Err(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), Ok(())) => match missing.first().filter(|_| is_whole) {
            None => ExitCode::SUCCESS,
            Some(pid) => super::failed(format!("{} has no event of process {pid}", output::shown(&args.file))),
        },
    }
}

/// A file that grows: at its end it waits for more.
struct Following(File);

impl Read for Following {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Ok(0) if !bytes.is_empty() => std::thread::sleep(INTERVAL),
                other => return other,
            }
        }
    }
}

/// How to print events, and which.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) json: bool,
    /// Whether each line is written at once.
    pub(crate) flush: bool,
    pub(crate) stacks: Option<&'a Stacks>,
    /// Whether each line ends with the instruction that made the call.
    pub(crate) callers: bool,
    /// When the recording began, where times of day are printed.
    pub(crate) began_ns: Option<u64>,
    pub(crate) only: &'a Only,
}

/// Prints events, each on a line. The inner result is that of reading the trace.
pub(crate) fn print(
    events: impl Iterator<Item = Result<Event, FileError>>,
    how: How<'_>,
    out: &mut dyn Write,
) -> io::Result<Result<(), FileError>> {
    // If the spaces take too much memory, the numbers of areas are left out from there on.
    let mut replay = Some(Replay::default());
    for event in events {
        let event = match event {
            Ok(event) => event,
            Err(error) => return Ok(Err(error)),
        };
        replay = replay.and_then(|mut replay| replay.apply(&event).is_ok().then_some(replay));
        if !how.only.includes(&event) {
            continue;
        }
        let space = replay.as_ref().and_then(|replay| replay.space(event.space));
        let areas = space.map(|space| space.len() as u64);
        let caller = event.ip.zip(space).and_then(|(ip, space)| space.place(ip));
        if how.json {
            json::event(out, &event, areas, caller.as_ref(), how.stacks)?;
        } else if event.kind.defines() {
            // These are definitions.
            continue;
        } else {
            let caller = caller.filter(|_| how.callers);
            line::line(out, &event, &Beside { areas, caller, began_ns: how.began_ns })?;
            if let Some(stacks) = how.stacks
                && let Some(stack) = event.stack.and_then(|number| stacks.stack(number))
            {
                line::stack(out, stacks, stack, event.entry_ns)?;
            }
        }
        out.write_all(b"\n")?;
        if how.flush {
            out.flush()?;
        }
    }
    Ok(Ok(()))
}

/// Prints a line for each stack and call. The inner result is that of reading the trace.
pub(crate) fn fold(
    events: impl Iterator<Item = Result<Event, FileError>>,
    stacks: &Stacks,
    only: &Only,
    out: &mut dyn Write,
) -> io::Result<Result<(), FileError>> {
    let (mut calls, mut damage) = (BTreeMap::new(), Ok(()));
    for event in events {
        match event {
            Ok(event) if !only.includes(&event) => {}
            Ok(Event { stack: Some(stack), nr: Some(nr), .. }) => *calls.entry((stack, nr)).or_insert(0_u64) += 1,
            Ok(_) => {}
            Err(error) => {
                damage = Err(error);
                break;
            }
        }
    }
    // Stacks that differ only within their functions are one.
    let mut lines = BTreeMap::new();
    for ((stack, nr), count) in calls {
        let Some(stack) = stacks.stack(stack) else { continue };
        let names = line::folded(stacks, stack);
        *lines.entry(names + &line::name(nr)).or_insert(0) += count;
    }
    for (line, count) in lines {
        writeln!(out, "{line} {count}")?;
    }
    Ok(damage)
}
