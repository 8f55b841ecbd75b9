//! The output files of a recording. They are opened before the program runs, so that a wrong name
//! costs nothing.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::IsTerminal;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::ExitCode;

use samara_trace::file::{FileSink, Header};

use crate::exit;
use crate::output::{clean_json, error, shown, waiting};
use crate::target::Target;

/// What becomes of a program that is not run.
pub(crate) const NOT_RUN: &str = "the program was not run";

/// Opens the trace and the summary, if they are asked for. `left`: what becomes of the program
/// otherwise. If one cannot be opened, prints why and
/// leaves everything as it was.
pub(crate) fn open(
    trace: Option<&Path>,
    summary: Option<&Path>,
    program: &[OsString],
    left: &str,
) -> Result<(Option<FileSink>, Option<Target>), ExitCode> {
    // clap requires at least one word.
    let Some((name, rest)) = program.split_first() else { return Err(exit::USAGE.into()) };
    if [trace, summary].contains(&Some(Path::new("-"))) {
        error("standard output belongs to the program: give a file name instead of - (./- for a file with that name)");
        return Err(exit::USAGE.into());
    }
    if let Some(path) = trace.filter(|path| is_output(path)) {
        let name = shown(path);
        error(format!(
            "{name} is the program's output: give another file name (to pipe the trace into a command: -o >(COMMAND))"
        ));
        return Err(exit::USAGE.into());
    }
    let cannot_write = |what: &str, path: &Path, why: &dyn Display| {
        error(format!("cannot write {what} to {}: {why}; {left}", shown(path)));
        ExitCode::from(exit::CANNOT_TRACE)
    };
    let make = |path: &Path| {
        let sink = waiting(path, "a reader", || FileSink::create(path, &Header::now(name, rest)));
        sink.map_err(|why| cannot_write("the trace", path, &why))
    };
    let sink = trace.map(make).transpose()?;
    let discard = |sink: Option<FileSink>| sink.into_iter().for_each(FileSink::discard);
    let json = match summary.map(|path| {
        waiting(path, "a reader", || Target::open(path)).map_err(|why| cannot_write("the summary", path, &why))
    }) {
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
        let both = format!("{} and {}", shown(path), shown(json.path()));
        error(format!("the trace and the summary cannot be written to one file ({both}): give two files; {left}"));
        discard(sink);
        return Err(exit::USAGE.into());
    }
    Ok((sink, json))
}

/// Writes the summary, if it was asked for.
pub(crate) fn write(json: Option<Target>, value: &serde_json::Value) {
    let Some(json) = json else { return };
    let path = json.path().to_owned();
    if let Err(why) = json.write(&clean_json(&format!("{value:#}\n"))) {
        error(format!("cannot write the summary to {}: {why}", shown(&path)));
    }
}

/// Whether a trace would go to the program's output, or to a terminal.
fn is_output(path: &Path) -> bool {
    let Ok(theirs) = path.metadata() else { return false };
    let same = |ours: std::io::Result<Metadata>| {
        ours.is_ok_and(|ours| (ours.dev(), ours.ino(), ours.rdev()) == (theirs.dev(), theirs.ino(), theirs.rdev()))
    };
    let terminal = || File::options().write(true).open(path).is_ok_and(|file| file.is_terminal());
    match theirs.file_type() {
        kind if kind.is_char_device() => terminal(),
        kind if kind.is_fifo() || kind.is_file() => {
            ["/dev/fd/1", "/dev/fd/2"].iter().any(|fd| same(std::fs::metadata(fd)))
        }
        _ => false,
    }
}
