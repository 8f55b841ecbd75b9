//! `samara export TRACE`: writes a trace in the formats of other tools.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use samara_trace::file::{FileError, Header, name_text};
use samara_trace::output::OutputName;

use crate::cli::ExportOf;
use crate::exit;
use crate::export::{self, About, Csv, Firefox, Format, Named, Parquet, Perfetto, Pprof, Target};
use crate::moment::{self, Moment};
use crate::output::{self, error, shown};
use crate::output_file::{Output, is_same, is_stdout};
use crate::why::{self, Sites};

pub(crate) fn run(args: &ExportOf) -> ExitCode {
    let done = check(args).and_then(|mut names| {
        let folded = args.folded.as_deref().map_or(Ok(None), |path| fold(args, path, &mut names))?;
        Ok(stream(args, &mut names)?.or(folded))
    });
    match done {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(damage)) => super::unreadable(&args.file, &damage),
        Err(code) => code,
    }
}

/// The outputs, and whether each is text.
fn outputs(args: &ExportOf) -> impl Iterator<Item = (&Path, bool)> {
    let text = [&args.csv, &args.folded].into_iter().flatten().map(|path| (&**path, true));
    let others = [&args.pprof, &args.firefox, &args.perfetto].into_iter().flatten().map(|path| (&**path, false));
    text.chain(others)
}

/// The names of outputs, resolved; none for standard output.
type Names<'a> = Vec<(&'a Path, Option<OutputName>)>;

/// Resolves the names of outputs, and refuses those that would spoil one another, the trace or a
/// terminal.
fn check(args: &ExportOf) -> Result<Names<'_>, ExitCode> {
    let usage = |why: String| {
        error(why);
        Err(exit::USAGE.into())
    };
    let mut names: Names<'_> = Vec::new();
    for (path, is_text) in outputs(args) {
        if is_same(path, &args.file) {
            return usage(format!("{} is the trace itself: give another file", shown(path)));
        }
        let twice = || usage(format!("two formats cannot be written to {}: give a file for each", shown(path)));
        if names.iter().any(|(other, _)| *other == path) {
            return twice();
        }
        let no_text = || usage("this format is no text: give a file, or a pipe".to_owned());
        if !is_text && Output::is_terminal(path) {
            return no_text();
        }
        let name = match path == Path::new("-") {
            true => output::check_stdout().map(|()| None),
            false => OutputName::resolve(path).map(Some),
        };
        let name = name.map_err(|why| super::cannot_write(path, &why))?;
        let is_taken =
            |name: &OutputName| names.iter().any(|(_, other)| other.as_ref().is_some_and(|o| o.is_same(name)));
        let is_here = |name: &Option<OutputName>| name.as_ref().is_none_or(is_stdout);
        if name.as_ref().is_some_and(is_taken) || is_here(&name) && names.iter().any(|(_, other)| is_here(other)) {
            return twice();
        }
        if !is_text && name.as_ref().and_then(OutputName::existing).is_some_and(IsTerminal::is_terminal) {
            return no_text();
        }
        names.push((path, name));
    }
    match args.file.metadata() {
        Ok(file) if !file.is_file() => {
            Err(super::failed(format!("{}: export reads the trace twice: give a file", shown(&args.file))))
        }
        _ => Ok(names),
    }
}

/// Opens an output whose name was resolved.
fn open(args: &ExportOf, path: &Path, names: &mut Names<'_>) -> Result<Output, ExitCode> {
    let name = names.iter_mut().find(|(other, _)| *other == path).and_then(|(_, name)| name.take());
    Output::resolved(name, args.readers.access()).map_err(|why| super::cannot_write(path, &why))
}

/// Writes the lines of `samara why --folded`. Returns why the trace cannot be read further.
fn fold(args: &ExportOf, path: &Path, names: &mut Names<'_>) -> Result<Option<FileError>, ExitCode> {
    let mut out = open(args, path, names)?;
    let looked = super::why::look(&args.file, args.at, args.pid)?;
    let lines = why::folded(&looked.space.why, Sites::at(&looked.space), args.by);
    let written = lines.iter().try_for_each(|(line, n)| writeln!(out, "{line} {n}")).and_then(|()| out.finish());
    match written {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(super::cannot_write(path, &why)),
        _ => Ok(looked.space.damage),
    }
}

/// Writes all other formats. Returns why the trace cannot be read further.
fn stream(args: &ExportOf, names: &mut Names<'_>) -> Result<Option<FileError>, ExitCode> {
    let wanted = [&args.csv, &args.pprof, &args.firefox, &args.perfetto, &args.parquet];
    if wanted.iter().all(|path| path.is_none()) {
        return Ok(None);
    }
    let (at, reader) = super::open_at(&args.file, args.at, super::Whose::or_first(args.pid))?;
    let header: Header = reader.header().clone();
    let began_ns = moment::began(&header).unwrap_or(0);
    let about = |resident| About { header: &header, began_ns, resident };
    // A wrong name is reported before the trace is read.
    let access = args.readers.access();
    let mut open = |path: &Option<PathBuf>| path.as_deref().map(|path| open(args, path, names)).transpose();
    let (csv, pprof) = (open(&args.csv)?, open(&args.pprof)?);
    let (firefox, perfetto) = (open(&args.firefox)?, open(&args.perfetto)?);
    let mut targets: Vec<Target<'_>> = Vec::new();
    if let Some(dir) = &args.parquet {
        if dir.as_os_str() == "-" {
            return Err(super::failed("--parquet writes several files: give a folder (./- for one named -)".into()));
        }
        let host = args.host.clone().unwrap_or_else(hostname);
        targets.push(target(dir, Parquet::new(dir, access, &host, about(false)))?);
    }
    let Named { stacks, resident } = export::named(super::open(&args.file)?).map_err(|why| {
        error(format!("{}: {why}", shown(&args.file)));
        ExitCode::from(exit::DAMAGED)
    })?;
    if let Some((path, out)) = args.csv.as_deref().zip(csv) {
        targets.push(target(path, Csv::new(out))?);
    }
    if let Some((path, out)) = args.pprof.as_deref().zip(pprof) {
        targets.push(target(path, Pprof::new(out, about(resident), at.is_some()))?);
    }
    if let Some((path, out)) = args.firefox.as_deref().zip(firefox) {
        targets.push(target(path, Firefox::new(out, path, about(resident)))?);
    }
    if let Some((path, out)) = args.perfetto.as_deref().zip(perfetto) {
        targets.push(target(path, Perfetto::new(out, about(resident)))?);
    }
    let walked = export::walk(reader, &stacks, at, args.pid, &mut targets)
        .map_err(|(path, why)| super::cannot_write(path, &why))?;
    // No event has this number. (If all readers went away, the trace was not read to its end.)
    if let Some(Moment::Event(seq)) = at
        && walked.damage.is_none()
        && !targets.is_empty()
        && walked.last.is_none_or(|last| last < seq)
    {
        let why = format!("{}: it has fewer events: give a lower number or a time", shown(&args.file));
        return Err(super::failed(why));
    }
    if let Some(pid) = args.pid.filter(|_| !walked.found && walked.damage.is_none() && !targets.is_empty()) {
        let until = if at.is_some() { " until then" } else { "" };
        let why = format!("{}: there was no process {pid}{until}", shown(&args.file));
        return Err(super::failed(format!("{why}: samara show FILE --pid {pid} lists the trace's processes")));
    }
    let sites = Sites::new(walked.origins.sites(), &stacks);
    for Target { path, format } in targets {
        match format.finish(sites) {
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe => return Err(super::cannot_write(path, &why)),
            _ => {}
        }
    }
    if let Some(lost) = walked.lost {
        error(format!("{}: {lost}: areas are missing from there on", shown(&args.file)));
    }
    Ok(walked.damage)
}

fn target(path: &Path, made: io::Result<impl Format + 'static>) -> Result<Target<'_>, ExitCode> {
    let format = made.map_err(|why| super::cannot_write(path, &why))?;
    Ok(Target { path, format: Box::new(format) })
}

/// The name of this machine.
fn hostname() -> String {
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    name_text(name.trim_ascii())
}
