//! `samara events FILE`: every event, as lines or as JSON.

use std::process::ExitCode;

use crate::cli::Events;
use crate::{json, line, output};

pub(crate) fn run(args: &Events) -> ExitCode {
    let mut reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let mut damage = None;
    let printed = output::styled_stdout(|out| {
        for event in &mut reader {
            match event {
                Ok(event) if args.json => writeln!(out, "{}", json::event(&event))?,
                Ok(event) => writeln!(out, "{}", line::line(&event))?,
                Err(error) => damage = Some(error),
            }
        }
        Ok(())
    });
    match (printed, damage) {
        (Err(error), _) => super::failed(format!("standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}
