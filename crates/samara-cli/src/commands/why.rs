//! `samara why TRACE`: why a process has as many areas as it has, and which calls made them.

use std::path::Path;
use std::process::ExitCode;

use samara_trace::file::{FileError, Largest, Summary, Tally};
use samara_trace::why::Why;

use crate::cli::WhyOf;
use crate::exit;
use crate::format::time;
use crate::moment::Moment;
use crate::output::{self, clean_json, shown};
use crate::why::{self, Sites};

pub(crate) fn run(args: &WhyOf) -> ExitCode {
    let Looked { summary, damage } = match look(&args.file, args.at, args.pid) {
        Ok(looked) => looked,
        Err(code) => return code,
    };
    let sites = Sites::of(&summary);
    let Some((largest, found)) = found(&summary) else { return exit::FAILED.into() };
    let title = match args.at {
        None => format!("process {} ({}), near its most areas", largest.pid, largest.program),
        Some(_) => format!("process {} ({}), after {}", largest.pid, largest.program, time(largest.ns)),
    };
    let printed = output::styled_stdout(|out| match (args.json, args.folded) {
        (true, _) => writeln!(out, "{}", clean_json(&format!("{:#}", why::json(largest, found, sites)))),
        (_, true) => why::folded(found, sites, args.by).iter().try_for_each(|(line, n)| writeln!(out, "{line} {n}")),
        _ => out.write_all(why::screen(&title, largest, found, sites).as_bytes()),
    });
    match (printed, damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, &damage),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

/// A space of a trace, and what is needed to explain it.
pub(super) struct Looked {
    /// Its largest space is the one that was asked for, and has its origins.
    pub(super) summary: Summary,
    /// Why the trace cannot be read further.
    pub(super) damage: Option<FileError>,
}

/// The space, and why it has its areas. [`look`] makes sure that both are there.
pub(super) fn found(summary: &Summary) -> Option<(&Largest, &Why)> {
    let largest = summary.largest.as_ref()?;
    Some((largest, largest.why.as_ref()?))
}

/// Reads a trace and looks at one space: at a moment, or near its most areas; of one process, or
/// the largest. Prints why if there is none.
pub(super) fn look(file: &Path, at: Option<Moment>, pid: Option<u32>) -> Result<Looked, ExitCode> {
    let (at, reader) = super::open_at(file, at, pid)?;
    let mut tally = pid.map_or_else(Tally::default, |pid| Tally::default().only(pid));
    let (mut damage, mut passed, mut now, mut last) = (None, false, None, None);
    for event in reader {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                damage = Some(error);
                break;
            }
        };
        // Names are defined at the end of a trace, so all of it is read.
        if !event.kind.defines() {
            if at.is_some_and(|at| !at.includes(&event)) && !passed {
                (passed, now) = (true, tally.now(pid));
            }
            last = Some(event.seq);
        }
        if !passed || event.kind.defines() {
            tally.add(&event);
        }
    }
    let failed = |why: String| Err(super::failed(format!("{}: {why}", shown(file))));
    // A number that no event has.
    if let Some(Moment::Event(seq)) = at.filter(|_| !passed && damage.is_none())
        && last.is_none_or(|last| last < seq)
    {
        return failed("it has fewer events: give a lower number or a time".to_owned());
    }
    if at.is_some() && !passed {
        now = tally.now(pid);
    }
    let mut summary = tally.summary();
    if at.is_some() {
        summary.largest = now;
    }
    match (&summary.largest, &summary.lost, damage, pid) {
        (Some(largest), _, damage, _) if largest.why.is_some() => Ok(Looked { summary, damage }),
        (Some(_), ..) => failed("there is more memory than can be followed".to_owned()),
        (None, _, Some(damage), _) => Err(super::unreadable(file, &damage)),
        (None, Some(lost), ..) => failed(format!("the areas cannot be followed: {lost}")),
        (None, None, None, Some(pid)) => failed(format!(
            "process {pid} has no areas in this trace, or none at that moment: samara show FILE --pid {pid} says when it ended"
        )),
        (None, None, None, None) => failed("no process has areas in this trace, or at that moment".to_owned()),
    }
}
