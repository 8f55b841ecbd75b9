//! A trace as CSV: one row for each event. `book/src/reference/exports.md` describes the columns.

use std::io;

use csv::{Writer, WriterBuilder};
use samara_trace::file::kind_name;

use super::{EventRow, Format, effect, prefix};
use crate::output::clean;
use crate::output_file::Output;
use crate::why::Sites;
use crate::{call_arguments, line};

const COLUMNS: [&str; 31] = [
    "seq",
    "kind",
    "entry_ns",
    "exit_ns",
    "duration_ns",
    "pid",
    "tid",
    "program",
    "space",
    "call",
    "arg0",
    "arg1",
    "arg2",
    "arg3",
    "arg4",
    "arg5",
    "result",
    "error",
    "overlapped",
    "splits",
    "merges",
    "mapped_bytes",
    "unmapped_bytes",
    "areas",
    "bytes",
    "resident_private_change",
    "resident_files_change",
    "caller",
    "stack",
    "functions",
    "text",
];

/// Writes rows.
pub(crate) struct Csv(Writer<Output>);

impl Csv {
    pub(crate) fn new(output: Output) -> io::Result<Csv> {
        let mut rows = WriterBuilder::new().from_writer(output);
        rows.write_record(COLUMNS).map_err(failed)?;
        Ok(Csv(rows))
    }
}

impl Format for Csv {
    fn event(&mut self, seen: &EventRow<'_>) -> io::Result<()> {
        let event = seen.event;
        let stack = event.stack.and_then(|number| seen.sites.stacks().stack(number));
        let functions = stack.map_or_else(String::new, |stack| line::folded(seen.sites.stacks(), stack));
        let error = call_arguments::errno(event.result).filter(|_| event.nr.is_some()).map(|error| error.0);
        let [splits, merges, mapped, unmapped] = effect(event);
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        let change = |change: Option<i64>| change.map_or_else(String::new, |change| change.to_string());
        let mut row = vec![
            event.seq.to_string(),
            kind_name(event.kind).to_owned(),
            event.entry_ns.to_string(),
            event.exit_ns.to_string(),
            event.exit_ns.saturating_sub(event.entry_ns).to_string(),
            event.pid.to_string(),
            event.tid.to_string(),
            cell(seen.program),
            event.space.to_string(),
            event.nr.map(line::name).unwrap_or_default(),
        ];
        row.extend(event.args.iter().map(u64::to_string));
        row.extend([
            event.result.to_string(),
            error.unwrap_or_default(),
            event.overlapped.to_string(),
            splits.to_string(),
            merges.to_string(),
            mapped.to_string(),
            unmapped.to_string(),
            number(seen.space.map(|space| space.0)),
            number(seen.space.map(|space| space.1)),
            change(event.resident.map(|now| now.private_change)),
            change(event.resident.map(|now| now.files_change)),
            seen.caller.as_ref().map_or_else(String::new, |caller| cell(&line::place(caller))),
            number(event.stack.map(u64::from)),
            cell(functions.trim_end_matches(';')),
            cell(prefix(&event.text)),
        ]);
        self.0.write_record(row).map_err(failed)
    }

    fn finish(self: Box<Self>, _: Sites<'_>) -> io::Result<()> {
        self.0.into_inner().map_err(|error| error.into_error())?.finish()
    }
}

/// A text as a cell: escaped as on a terminal, and no formula.
///
/// Spreadsheets run a cell that begins with one of these characters; after `'` they show it.
fn cell(text: &str) -> String {
    let text = clean(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

fn failed(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
