//! `samara events FILE`: prints every event, as lines or as JSON.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use samara_trace::file::{FileError, TraceReader};

use crate::cli::Events;
use crate::{json, line, output};

pub(crate) fn run(args: &Events) -> ExitCode {
    let reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let mut damage = Ok(());
    let printed = output::styled_stdout(|out| {
        damage = print(reader, args.json, out)?;
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
    out: &mut dyn Write,
) -> io::Result<Result<(), FileError>> {
    for event in reader {
        match event {
            Ok(event) if as_json => json::event(out, &event)?,
            Ok(event) => line::line(out, &event)?,
            Err(error) => return Ok(Err(error)),
        }
        out.write_all(b"\n")?;
    }
    Ok(Ok(()))
}
