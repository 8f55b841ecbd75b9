//! `samara report TRACE`: one page that shows what a program did to its address space, and why.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use samara_trace::file::{FileError, TraceReader, name_text};
use samara_trace::output::{Access, OutputName};

use crate::cli::{Only, ReportOf};
use crate::commands::summary;
use crate::diff::{Diff, Side};
use crate::json::{self, Recorded};
use crate::kernel::Kernel;
use crate::output::{self, clean_json, shown};
use crate::output_file::{Output, is_same};
use crate::report::{self, Picture, Trace};

pub(crate) fn run(args: &ReportOf) -> ExitCode {
    let files: Vec<&Path> = std::iter::once(&*args.file).chain(args.second.as_deref()).collect();
    let access = args.readers.access();
    let page = match &args.output {
        _ if args.json => None,
        Some(path) => Some(Page::Given(path.clone())),
        None => match OutputName::choose(Path::new("report.html")) {
            Ok((name, path)) => Some(Page::Chosen(path, name)),
            Err(why) => return super::cannot_write(Path::new("report.html"), &why),
        },
    };
    report(&files, page, access, false)
}

/// The output of a page.
pub(super) enum Page {
    /// A name that the user gave; `-` is standard output.
    Given(PathBuf),
    /// A name that samara chose.
    Chosen(PathBuf, OutputName),
}

impl Page {
    fn path(&self) -> &Path {
        match self {
            Page::Given(path) | Page::Chosen(path, _) => path,
        }
    }
}

/// Writes the page of one or two traces, or prints its data, and reports errors.
pub(super) fn report(files: &[&Path], page: Option<Page>, access: Access, quiet: bool) -> ExitCode {
    if let Some(output) = page.as_ref().map(Page::path)
        && let Some(trace) = files.iter().find(|file| is_same(file, output))
    {
        return super::failed(format!("the page would replace the trace {}: give another file by -o", shown(trace)));
    }
    let (mut traces, mut damaged) = (Vec::new(), Vec::new());
    for file in files {
        match gather(file) {
            Ok((trace, damage)) => {
                traces.push(trace);
                damaged.extend(damage.map(|damage| (*file, damage)));
            }
            Err(code) => return code,
        }
    }
    let diff = match (&traces[..], files) {
        ([before, after], [a, b]) => match Side::largest(&before.summary).zip(Side::largest(&after.summary)) {
            // An input that cannot be read again is compared near its peak.
            Some(_) if a.is_file() && b.is_file() => match super::diff::between(a, b) {
                Ok(diff) => Some(diff),
                Err(code) => return code,
            },
            sides => sides.map(|(before, after)| Diff::of(before, after, 0).json()),
        },
        _ => None,
    };
    let data = report::json(&traces, diff);
    let written = match page {
        None => output::styled_stdout(|out| writeln!(out, "{}", clean_json(&data.to_string())))
            .map_err(|why| super::cannot_write(Path::new("-"), &why)),
        Some(to) => {
            report::html(&traces, &data).map_err(super::failed).and_then(|page| write(to, access, &page, quiet))
        }
    };
    if let Err(code) = written {
        return code;
    }
    let mut code = ExitCode::SUCCESS;
    for (file, damage) in &damaged {
        code = super::unreadable(file, damage);
    }
    code
}

/// Reads a trace, as far as possible, and returns the damage, if any.
fn gather(file: &Path) -> Result<(Trace, Option<FileError>), ExitCode> {
    let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
    Ok(gather_from(super::open(file)?, name_text(file.as_os_str().as_bytes()), bytes))
}

/// The same of a reader, whose file has this name and size.
pub(super) fn gather_from<R: Read>(reader: TraceReader<R>, name: String, bytes: u64) -> (Trace, Option<FileError>) {
    let header = reader.header().clone();
    let (all, mut picture) = (Only::default(), Picture::default());
    let mut read = summary::read(reader, &all, |event, tally| picture.add(event, tally));
    let early = read.damage.as_ref().map(ToString::to_string);
    let base = Recorded {
        command: "samara",
        file: &name,
        file_bytes: bytes,
        kernel: Some(Kernel::of(&header)),
        limit: header.max_map_count,
        ..Recorded::default()
    };
    // The places, with every call stack, are in the data once.
    let why = read.summary.largest.as_mut().and_then(|largest| largest.why.take());
    let mut summary_json = json::summary(&read.summary, &summary::recorded(&read, early.as_deref(), base));
    if let Some(largest) = read.summary.largest.as_mut() {
        largest.why = why;
    }
    if let Some(largest) = summary_json["largest_space"].as_object_mut() {
        largest.remove("why");
    }
    let title = summary::title(&header, &read, &all);
    let trace = Trace {
        program: super::command_line(&super::words(&header)),
        title,
        began: header.start_time,
        damage: early,
        picture: picture.finish(read.summary.wall_ns),
        summary: read.summary,
        summary_json,
        file: name,
    };
    (trace, read.damage)
}

/// Writes the page completely or not at all.
fn write(to: Page, access: Access, page: &str, quiet: bool) -> Result<(), ExitCode> {
    let path = &to.path().to_owned();
    let ready = if path == Path::new("-") { output::check_stdout() } else { Ok(()) };
    let output = ready.and_then(|()| match to {
        Page::Given(path) => Output::create(&path, access),
        Page::Chosen(_, name) => name.whole(access).map(Output::of),
    });
    let written = output.and_then(|mut out| {
        out.write_all(page.as_bytes())?;
        out.finish()
    });
    match written {
        Ok(()) if path != Path::new("-") && !quiet => {
            // A closed standard error cannot show the message.
            let _ = writeln!(anstream::stderr(), "samara: wrote {}: open it in a browser", shown(path));
        }
        // A reader that closes a pipe has read enough.
        Err(why) if why.kind() != ErrorKind::BrokenPipe => return Err(super::cannot_write(path, &why)),
        _ => {}
    }
    Ok(())
}
