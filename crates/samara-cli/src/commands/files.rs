//! The files that a recording goes to: opened before the program runs, so that a wrong name costs nothing.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use samara_trace::file::{FileSink, Header};

use crate::exit;
use crate::output::error;
use crate::target::Target;

/// Opens the trace and the summary, as far as they are asked for. Where one cannot be opened, says why, and leaves everything as it was.
pub(crate) fn open(
    trace: Option<&Path>,
    summary: Option<&Path>,
    program: &[OsString],
) -> Result<(Option<FileSink>, Option<Target>), ExitCode> {
    // clap asks for at least one word.
    let Some((name, rest)) = program.split_first() else { return Err(exit::USAGE.into()) };
    if [trace, summary].contains(&Some(Path::new("-"))) {
        error("standard output is the program's: give a file's name instead of - (./- for a file that is called so)");
        return Err(exit::USAGE.into());
    }
    let cannot_write = |what: &str, path: &Path, why: &dyn Display| {
        error(format!("cannot write {what} to {}: {why}; the program was not run", path.display()));
        ExitCode::from(exit::CANNOT_TRACE)
    };
    let make = |path: &Path| {
        FileSink::create(path, &Header::now(name, rest)).map_err(|why| cannot_write("the trace", path, &why))
    };
    let sink = trace.map(make).transpose()?;
    let discard = |sink: Option<FileSink>| sink.into_iter().for_each(FileSink::discard);
    let json = match summary.map(|path| Target::open(path).map_err(|why| cannot_write("the summary", path, &why))) {
        None => None,
        Some(Ok(json)) => Some(json),
        Some(Err(code)) => {
            discard(sink);
            return Err(code);
        }
    };
    if let (Some(json), Some(path)) = (&json, trace)
        && json.is(path)
    {
        let both = format!("{} and {}", path.display(), json.path().display());
        error(format!("the trace and the summary cannot be written to one file: {both}; the program was not run"));
        discard(sink);
        return Err(exit::USAGE.into());
    }
    Ok((sink, json))
}

/// Writes the summary, if it was asked for.
pub(crate) fn write(json: Option<Target>, value: &serde_json::Value) {
    let Some(json) = json else { return };
    let path = json.path().to_owned();
    if let Err(why) = json.write(&format!("{value:#}\n")) {
        error(format!("cannot write the summary to {}: {why}", path.display()));
    }
}
