//! `samara why TRACE`: why a process has as many areas as it has, and which calls made them.

use std::process::ExitCode;

use samara_trace::file::{Largest, Tally};

use crate::cli::WhyOf;
use crate::format::time;
use crate::moment::Moment;
use crate::output::{self, clean_json, shown};
use crate::why::{self, Sites};

pub(crate) fn run(args: &WhyOf) -> ExitCode {
    let reader = match super::open(&args.file) {
        Ok(reader) => reader,
        Err(code) => return code,
    };
    let mut tally = match args.pid {
        Some(pid) => Tally::default().only(pid),
        None => Tally::default(),
    };
    let (mut damage, mut passed, mut now) = (None, false, None);
    let mut last = None;
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
            if args.at.is_some_and(|at| !at.includes(&event)) && !passed {
                (passed, now) = (true, tally.now(args.pid));
            }
            last = Some(event.seq);
        }
        if !passed || event.kind.defines() {
            tally.add(&event);
        }
    }
    // A number that no event has.
    if let Some(Moment::Event(seq)) = args.at.filter(|_| !passed && damage.is_none())
        && last.is_none_or(|last| last < seq)
    {
        let why = "it has fewer events: give a lower number or a time (--at)";
        return super::failed(format!("{}: {why}", shown(&args.file)));
    }
    if args.at.is_some() && !passed {
        now = tally.now(args.pid);
    }
    let mut summary = tally.summary();
    if args.at.is_some() {
        summary.largest = now;
    }
    let sites = Sites::of(&summary);
    let none = || match (args.pid, &summary.lost) {
        (_, Some(lost)) => format!("the areas cannot be followed: {lost}"),
        (Some(pid), None) => {
            format!(
                "process {pid} has no areas in this trace, or none at that moment: samara show FILE lists processes"
            )
        }
        (None, None) => "no process has areas in this trace, or at that moment".to_owned(),
    };
    let Some(largest @ Largest { why: found, .. }) = &summary.largest else {
        return match damage {
            Some(damage) => super::unreadable(&args.file, &damage),
            None => super::failed(format!("{}: {}", shown(&args.file), none())),
        };
    };
    let Some(found) = found else {
        return super::failed(format!("{}: there is more memory than can be followed", shown(&args.file)));
    };
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
