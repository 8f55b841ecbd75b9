//! Runs commands on any bytes and with any output, for tests of memory and for fuzz targets. Not a
//! public interface.
#![doc(hidden)]

use std::io::{self, Read, Write};
use std::path::Path;

use clap::ValueEnum;
use samara_trace::file::{FileError, Stacks, TraceReader};
use samara_trace::output::Access;

use super::events::How;
use super::show::{Stop, Wanted};
use super::{events, show, summary};
use crate::cli::{Only, Weight};
use crate::diff::{Diff, Side};
use crate::export::{self, About, Csv, Firefox, Format, Parquet, Perfetto, Pprof, Target};
use crate::json::Recorded;
use crate::kernel::Kernel;
use crate::moment::Moment;
use crate::output::clean_json;
use crate::output_file::Output;
use crate::why::Sites;

/// Writes what `samara show` prints. The error is its message.
///
/// # Errors
/// The trace cannot be read, or does not contain what is asked for.
pub fn show(
    input: impl Read,
    (pid, event): (Option<u32>, Option<u64>),
    reasons: bool,
    raw: bool,
    out: &mut dyn Write,
) -> Result<(), String> {
    let reader = TraceReader::new(input).map_err(|error| error.to_string())?;
    let wanted = Wanted { pid, at: event.map(Moment::Event), reasons, summary: false, raw };
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

/// Writes what `samara summary`, `why`, `why --folded` by each weight, and `diff` of the trace with
/// itself print, as lines and as JSON.
///
/// # Errors
/// The trace cannot be read to its end.
pub fn explained(input: impl Read, out: &mut dyn Write) -> Result<(), String> {
    let reader = TraceReader::new(input).map_err(|error| error.to_string())?;
    let (header, read) = (reader.header().clone(), summary::read(reader, &Only::default(), |_, _| ()));
    let (summary, title) = (&read.summary, summary::title(&header, &read, &Only::default()));
    // There is no file that could be read again.
    let crashes = crate::crash::of(summary, std::path::Path::new(""));
    let recorded = Recorded {
        command: "samara",
        checks: None,
        limit: None,
        wall_ns: summary.wall_ns,
        program_ns: None,
        exit_code: None,
        notes: &[],
        file: "t.samara",
        events_in_file: summary.events,
        file_bytes: 0,
        early: None,
        only: None,
        crashes: &crashes,
        kernel: Some(Kernel::of(&header)),
    };
    let mut texts = vec![crate::summary::screen(&title, summary, &recorded)];
    let mut values = vec![crate::json::summary(summary, &recorded)];
    if let Some(side) = Side::largest(summary) {
        let Side { at, why: found, sites, .. } = side;
        texts.push(crate::why::screen("it", at, found, sites, &[]));
        values.push(crate::why::json(at, found, sites));
        for weight in Weight::value_variants() {
            let lines = crate::why::folded(found, sites, *weight);
            texts.extend(lines.iter().map(|(line, n)| format!("{line} {n}\n")));
        }
        let diff = Diff::of(side, side, 0);
        texts.push(diff.screen("from it to itself"));
        values.push(diff.json());
    }
    let values = values.iter().map(|value| clean_json(&format!("{value:#}")).to_string());
    texts.into_iter().chain(values).try_for_each(|text| out.write_all(text.as_bytes())).map_err(|e| e.to_string())?;
    read.damage.map_or(Ok(()), |damage| Err(damage.to_string()))
}

/// The page that `samara report` writes of a trace, as far as the trace can be read.
///
/// # Errors
/// It is no trace, or there can be no page.
pub fn page(input: impl Read) -> Result<String, String> {
    let reader = TraceReader::new(input).map_err(|error| error.to_string())?;
    let (trace, _) = super::report::gather_from(reader, "t.samara".to_owned(), 0);
    let traces = [trace];
    crate::report::html(&traces, &crate::report::json(&traces, None))
}

/// Writes what `samara export` writes in all formats, but for lines, to files in `dir`.
///
/// # Errors
/// The trace cannot be read to its end.
pub fn exported(input: impl Read + Clone, dir: &Path) -> Result<(), String> {
    let open = || TraceReader::new(input.clone()).map_err(|error| error.to_string());
    let reader = open()?;
    let header = reader.header().clone();
    let about = About { header: &header, began_ns: 1, resident: true };
    let named = export::named(open()?).map_err(|error| error.to_string())?;
    let paths = ["csv", "pprof", "json.gz", "perfetto", "parquet"].map(|name| dir.join(format!("t.{name}")));
    let make = |path: &Path| -> io::Result<Box<dyn Format>> {
        let output = || Output::create(path, Access::Owner);
        Ok(match path.extension().and_then(|name| name.to_str()) {
            Some("csv") => Box::new(Csv::new(output()?)?),
            Some("pprof") => Box::new(Pprof::new(output()?, about, false)?),
            Some("gz") => Box::new(Firefox::new(output()?, path, about)?),
            Some("perfetto") => Box::new(Perfetto::new(output()?, about)?),
            _ => Box::new(Parquet::new(path, Access::Owner, "host", about)?),
        })
    };
    let mut targets = Vec::new();
    for path in &paths {
        targets.push(Target { path, format: make(path).map_err(|error| error.to_string())? });
    }
    let walked =
        export::walk(reader, &named.stacks, None, None, &mut targets).map_err(|(_, error)| error.to_string())?;
    let sites = Sites::new(walked.origins.sites(), &named.stacks);
    for target in targets {
        target.format.finish(sites).map_err(|error| error.to_string())?;
    }
    walked.damage.map_or(Ok(()), |damage| Err(damage.to_string()))
}

/// The line that `trace` prints for a program's words, and the words as file names in its messages.
pub fn words(words: &[std::ffi::OsString]) -> (String, Vec<String>) {
    (super::command_line(words), words.iter().map(crate::output::shown).collect())
}
