//! `samara events FILE`: prints every event, as lines or as JSON.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use samara_trace::event::Event;
use samara_trace::file::{FileError, Stacks, TraceReader};

use crate::cli::Events;
use crate::{json, line, output};

pub(crate) fn run(args: &Events) -> ExitCode {
    let stacks = match (args.stacks || args.folded).then(|| super::stacks_of(&args.file)).transpose() {
        Ok(stacks) => stacks,
        Err(code) => return code,
    };
    let reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let mut damage = Ok(());
    let printed = output::styled_stdout(|out| {
        damage = match &stacks {
            Some(stacks) if args.folded => fold(reader, stacks, out)?,
            stacks => print(reader, args.json, stacks.as_ref(), out)?,
        };
        Ok(())
    });
    match (printed, damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Err(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
    }
}

/// Prints every event on a line. The inner result is that of reading the trace.
pub(crate) fn print<R: Read>(
    reader: TraceReader<R>,
    as_json: bool,
    stacks: Option<&Stacks>,
    out: &mut dyn Write,
) -> io::Result<Result<(), FileError>> {
    for event in reader {
        match event {
            Ok(event) if as_json => json::event(out, &event, stacks)?,
            // They say what others refer to.
            Ok(event) if event.kind.defines() => continue,
            Ok(event) => {
                line::line(out, &event)?;
                if let Some(stacks) = stacks
                    && let Some(stack) = event.stack.and_then(|number| stacks.stack(number))
                {
                    line::stack(out, stacks, stack)?;
                }
            }
            Err(error) => return Ok(Err(error)),
        }
        out.write_all(b"\n")?;
    }
    Ok(Ok(()))
}

/// Prints a line for each stack and call. The inner result is that of reading the trace.
pub(crate) fn fold<R: Read>(
    reader: TraceReader<R>,
    stacks: &Stacks,
    out: &mut dyn Write,
) -> io::Result<Result<(), FileError>> {
    let (mut calls, mut damage) = (BTreeMap::new(), Ok(()));
    for event in reader {
        match event {
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
