//! The output files of a recording. They are opened before the program runs, so that a wrong name
//! costs nothing.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use samara_trace::file::Header;
use samara_trace::output::{Access, OutputFile, OutputName};
use samara_trace::{FileSink, Written};

use super::early::Early;
use crate::exit;
use crate::output::{clean_json, error, said_late, shown, waiting};
use crate::output_file::Output;

/// The end of a message if the program is not run.
pub(crate) const NOT_RUN: &str = "the program was not run";

/// The files that are asked for.
pub(crate) struct OutputFiles<'a> {
    pub(crate) trace: Option<Name<'a>>,
    pub(crate) summary: Option<&'a Path>,
    /// Whether a page of the trace is written, beside it.
    pub(crate) page: bool,
    /// Another output, which the trace may not be.
    pub(crate) other: Option<(&'a Path, &'a OutputName)>,
    pub(crate) access: Access,
    /// Gives the header of the trace.
    pub(crate) header: &'a dyn Fn() -> Header,
}

/// The name of a trace.
pub(crate) enum Name<'a> {
    /// A name that the user gave; it may be a link or an older file.
    Given(&'a Path),
    /// A name that samara chose: an unused one, or else one with a number.
    Chosen(PathBuf),
}

/// The files, open.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) trace: Option<FileSink>,
    pub(crate) summary: Option<(PathBuf, Output)>,
    pub(crate) page: Option<(PathBuf, OutputName)>,
    /// Signals that came while the files were opened, and until a recorder handles signals.
    pub(crate) early: Early,
}

impl Files {
    /// Leaves everything as it was.
    pub(crate) fn discard(self) {
        self.trace.into_iter().for_each(FileSink::discard);
        drop((self.summary, self.page));
    }
}

/// Opens the files. If one cannot be opened, prints why, with `left` as the end of the message, and
/// leaves everything as it was.
pub(crate) fn open(asked: OutputFiles<'_>, left: &str) -> Result<Files, ExitCode> {
    let given = match &asked.trace {
        Some(Name::Given(path)) => Some(*path),
        _ => None,
    };
    if [given, asked.summary].contains(&Some(Path::new("-"))) {
        error("standard output belongs to the program: give a file name instead of - (./- for a file with that name)");
        return Err(exit::USAGE.into());
    }
    let cannot_write = |what: &str, path: &Path, why: &dyn Display| {
        error(format!("cannot write {what} to {}: {why}; {left}", shown(path)));
        ExitCode::from(exit::CANNOT_TRACE)
    };
    let one_file = |what: &str, names: &str| {
        error(format!("{what} cannot be written to one file ({names}): give two files; {left}"));
        ExitCode::from(exit::USAGE)
    };
    let resolve = |path: &Path| waiting(path, "a reader", || OutputName::resolve(path));
    let trace = match given {
        None => None,
        Some(path) => {
            let name = resolve(path).map_err(|why| cannot_write("the trace", path, &why))?;
            if name.existing().is_some_and(is_output) {
                let name = shown(path);
                error(format!(
                    "{name} is the program's output: give another file name (to pipe the trace into a command: -o >(COMMAND))"
                ));
                return Err(exit::USAGE.into());
            }
            Some((path, name))
        }
    };
    if let (Some((trace, of)), Some((other, name))) = (&trace, asked.other)
        && of.is_same(name)
    {
        let what = "the trace and what the program prints";
        return Err(one_file(what, &format!("{} and {}", shown(trace), shown(other))));
    }
    let mut summary = None;
    if let Some(path) = asked.summary {
        let name = resolve(path).map_err(|why| cannot_write("the summary", path, &why))?;
        if let Some((trace, of)) = &trace
            && of.is_same(&name)
        {
            return Err(one_file("the trace and the summary", &format!("{} and {}", shown(trace), shown(path))));
        }
        summary = Some((path, name));
    }
    // From here on files are made, and nothing blocks.
    let early = Early::watch();
    let access = asked.access;
    let output = match (trace, asked.trace) {
        (Some((path, name)), _) => Some((path.to_owned(), name.replace(access))),
        (None, Some(Name::Chosen(path))) => Some(match OutputFile::create_new(&path, access) {
            Ok((output, path)) => (path, Ok(output)),
            Err(why) => (path, Err(why)),
        }),
        (None, _) => None,
    };
    let sink = output.map(|(path, output)| {
        let sink = output.and_then(|output| FileSink::with_output(output, &path, &(asked.header)()));
        sink.map_err(|why| cannot_write("the trace", &path, &why))
    });
    let mut files = Files { trace: sink.transpose()?, early, ..Files::default() };
    if let Some(trace) = files.trace.as_ref().filter(|_| asked.page) {
        let path = page_of(trace.path());
        match OutputName::choose(&path) {
            Ok((name, path)) => files.page = Some((path, name)),
            Err(why) => {
                files.discard();
                return Err(cannot_write("the page", &path, &why));
            }
        }
    }
    if let Some((path, name)) = summary {
        if let Some((page, of)) = &files.page
            && of.is_same(&name)
        {
            let code = one_file("the page and the summary", &shown(page));
            files.discard();
            return Err(code);
        }
        match name.whole(access) {
            Ok(file) => files.summary = Some((path.to_owned(), Output::of(file))),
            Err(why) => {
                files.discard();
                return Err(cannot_write("the summary", path, &why));
            }
        }
    }
    if files.early.has_come() {
        let early = std::mem::take(&mut files.early);
        files.discard();
        return Err(early.end());
    }
    Ok(files)
}

/// Ends a trace. Prints a message if that takes long after the end of the recording.
pub(crate) fn finished(trace: FileSink) -> Written {
    const PATIENCE: Duration = Duration::from_secs(1);
    said_late(PATIENCE, || "the recording has ended; its events are still being written".to_owned(), || trace.finish())
}

/// Writes the summary, if it was asked for.
pub(crate) fn write(summary: Option<(PathBuf, Output)>, value: &serde_json::Value) {
    let Some((path, mut out)) = summary else { return };
    let written = out.write_all(clean_json(&format!("{value:#}\n")).as_bytes()).and_then(|()| out.finish());
    if let Err(why) = written {
        error(format!("cannot write the summary to {}: {why}", shown(&path)));
    }
}

/// Where the page of a trace is written: beside it.
fn page_of(trace: &Path) -> PathBuf {
    let name = trace.file_name().unwrap_or_default().as_bytes();
    let mut page = OsStr::from_bytes(name.strip_suffix(b".samara").unwrap_or(name)).to_owned();
    page.push(".html");
    trace.with_file_name(page)
}

/// Whether a trace would go to the program's output, or to a terminal.
fn is_output(file: &File) -> bool {
    let Ok(theirs) = file.metadata() else { return false };
    let same = |ours: io::Result<Metadata>| {
        ours.is_ok_and(|ours| (ours.dev(), ours.ino(), ours.rdev()) == (theirs.dev(), theirs.ino(), theirs.rdev()))
    };
    match theirs.file_type() {
        kind if kind.is_char_device() => file.is_terminal(),
        kind if kind.is_fifo() || kind.is_file() => {
            ["/dev/fd/1", "/dev/fd/2"].iter().any(|fd| same(std::fs::metadata(fd)))
        }
        _ => false,
    }
}
