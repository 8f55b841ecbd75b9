//! `show` and `events` on any bytes and with any output, for tests of memory and for fuzz targets.
//! Not a public interface.
#![doc(hidden)]

use std::io::{self, Read, Write};

use samara_trace::file::{FileError, Stacks, TraceReader};

use super::events::How;
use super::show::{Stop, Wanted};
use super::{events, show};
use crate::cli::Only;
use crate::moment::Moment;

/// Writes what `samara show` prints. The error is its message.
///
/// # Errors
/// The trace cannot be read, or does not contain what is asked for.
pub fn show(
    input: impl Read,
    (pid, event): (Option<u32>, Option<u64>),
    reasons: bool,
    terminal: bool,
    out: &mut dyn Write,
) -> Result<(), String> {
    let reader = TraceReader::new(input).map_err(|error| error.to_string())?;
    let wanted = Wanted { pid, at: event.map(Moment::Event), reasons, summary: false, terminal };
    show::show(reader, wanted, out).map_err(|stop| match stop {
        Stop::Nothing(why) => why,
        Stop::Unreadable(why, error) => format!("{}{error}", why.unwrap_or_default()),
        Stop::Output(error) => error.to_string(),
    })
}

/// Writes what `samara events` or `samara events --json` prints.
///
/// # Errors
/// The trace cannot be read.
pub fn events(input: impl Read, json: bool, out: &mut dyn Write) -> Result<(), String> {
    let reader = TraceReader::new(input).map_err(|error| error.to_string())?;
    let only = Only::default();
    said(events::print(
        reader,
        How { json, flush: false, stacks: None, callers: true, began_ns: Some(1), only: &only },
        out,
    ))
}

fn said(printed: io::Result<Result<(), FileError>>) -> Result<(), String> {
    printed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Writes what `samara events --stacks` and `samara events --folded` print, as far as the trace
/// defines its stacks.
///
/// # Errors
/// The trace cannot be read.
pub fn stacks(input: impl Read + Clone, out: &mut dyn Write) -> Result<(), String> {
    let open = || TraceReader::new(input.clone()).map_err(|error| error.to_string());
    let mut stacks = Stacks::default();
    for event in open()?.map_while(Result::ok) {
        stacks.note(&event).map_err(|error| error.to_string())?;
    }
    let only = Only::default();
    said(events::print(
        open()?,
        How { json: false, flush: false, stacks: Some(&stacks), callers: false, began_ns: None, only: &only },
        out,
    ))?;
    said(events::fold(open()?, &stacks, &only, out))
}

/// The line that `trace` prints for a program's words, and the words as file names in its messages.
pub fn words(words: &[std::ffi::OsString]) -> (String, Vec<String>) {
    (super::trace::shown(words), words.iter().map(crate::output::shown).collect())
}
