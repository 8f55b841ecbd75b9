//! `samara why TRACE`: why a process has as many areas as it has, and which calls made them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use samara_trace::event::{Event, EventKind};
use samara_trace::file::FileError;
use samara_trace::summary::{Largest, Summary, Tally};
use samara_trace::why::Why;
use serde_json::json;

use super::Whose;
use crate::cli::WhyOf;
use crate::exit;
use crate::format::time;
use crate::moment::Moment;
use crate::output::{self, clean_json, shown};
use crate::why::{self, Sites};
use crate::{refused, survey};

/// Most forks whose parents are kept.
const FORKS: usize = 1 << 18;

pub(crate) fn run(args: &WhyOf) -> ExitCode {
    let Looked { summary, limit, damage } = match look(&args.file, args.at, args.pid) {
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
        (true, _) => {
            let mut all = why::json(largest, found, sites);
            survey::extend(&mut all, json!({"failures": refused::failures(&summary.failures, sites.whole())}));
            writeln!(out, "{}", clean_json(&format!("{all:#}")))
        }
        (_, true) => why::folded(found, sites, args.by).iter().try_for_each(|(line, n)| writeln!(out, "{line} {n}")),
        _ => {
            let failed = why::failed(&summary.failures, limit, sites);
            out.write_all(why::screen(&title, largest, found, sites, &failed).as_bytes())
        }
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
    /// `vm.max_map_count` of the recording, if the trace tells it.
    limit: Option<u64>,
    /// Why the trace cannot be read further.
    pub(super) damage: Option<FileError>,
}

/// The space, and why it has its areas. [`look`] makes sure that both are there.
pub(super) fn found(summary: &Summary) -> Option<(&Largest, &Why)> {
    let largest = summary.largest.as_ref()?;
    Some((largest, largest.why.as_ref()?))
}

/// Reads a trace and looks at one space: at a moment, or near its most areas; of one process, or
/// the largest. Where that takes more memory than is allowed for all spaces, the trace is read
/// again for the process with the most areas alone, and a line says so. Prints why if there is
/// none.
pub(super) fn look(file: &Path, at: Option<Moment>, pid: Option<u32>) -> Result<Looked, ExitCode> {
    let (at, reader) = super::open_at(file, at, Whose::or_largest(pid))?;
    let limit = reader.header().max_map_count;
    let mut walk = Walk::new(reader, at, pid, None, limit);
    if (!walk.explains() || walk.summary.lost.is_some())
        && file.metadata().is_ok_and(|file| file.is_file())
        && let Some((most, spaces)) = walk.most.take()
    {
        let alone = Walk::new(super::open(file)?, at, Some(most), Some(&spaces), limit);
        if alone.explains() {
            output::error(format!(
                "{}: all processes together take more memory than is allowed: only process {most} was followed",
                shown(file)
            ));
            walk = alone;
        }
    }
    let Walk { passed, last, summary, damage, .. } = walk;
    let failed = |why: String| Err(super::failed(format!("{}: {why}", shown(file))));
    // A number that no event has.
    if let Some(Moment::Event(seq)) = at.filter(|_| !passed && damage.is_none())
        && last.is_none_or(|last| last < seq)
    {
        return failed("it has fewer events: give a lower number or a time".to_owned());
    }
    match (&summary.largest, &summary.lost, damage, pid) {
        (Some(largest), _, damage, _) if largest.why.is_some() => Ok(Looked { summary, limit, damage }),
        (Some(_), ..) => failed("there is more memory than can be followed".to_owned()),
        (None, _, Some(damage), _) => Err(super::unreadable(file, &damage)),
        (None, Some(lost), ..) => failed(format!("the areas cannot be followed: {lost}")),
        (None, None, None, Some(pid)) => failed(format!(
            "process {pid} has no areas in this trace, or none at that moment: samara show FILE --pid {pid} says when it ended"
        )),
        (None, None, None, None) => failed("no process has areas in this trace, or at that moment".to_owned()),
    }
}

/// A trace that was read up to a moment, or to its end.
struct Walk {
    /// Whether there are events after the moment.
    passed: bool,
    /// The last event that is no definition.
    last: Option<u64>,
    /// Its largest space is the one at the moment.
    summary: Summary,
    damage: Option<FileError>,
    /// The process that had the most areas where the replay ended, with its space and those that
    /// this one was forked from.
    most: Option<(u32, BTreeSet<u64>)>,
}

impl Walk {
    /// `alone`: no other spaces are followed.
    fn new(
        reader: impl Iterator<Item = Result<Event, FileError>>,
        at: Option<Moment>,
        pid: Option<u32>,
        alone: Option<&BTreeSet<u64>>,
        limit: Option<u64>,
    ) -> Walk {
        let mut tally = pid.map_or_else(Tally::default, |pid| Tally::default().only(pid));
        tally.set_limit(limit);
        let (mut damage, mut passed, mut now, mut last) = (None, false, None, None);
        let mut parents = BTreeMap::new();
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
            if event.kind == EventKind::Fork && parents.len() < FORKS {
                parents.insert(event.space, event.args[0]);
            }
            let is_asked = alone.is_none_or(|spaces| spaces.contains(&event.space));
            if event.kind.defines() || (!passed && is_asked) {
                tally.add(&event);
            }
        }
        if at.is_some() && !passed {
            now = tally.now(pid);
        }
        let most = Walk::most(&tally, pid, &parents);
        let mut summary = tally.summary();
        if at.is_some() {
            summary.largest = now;
        }
        Walk { passed, last, summary, damage, most }
    }

    fn most(tally: &Tally, pid: Option<u32>, parents: &BTreeMap<u64, u64>) -> Option<(u32, BTreeSet<u64>)> {
        let live = tally.replay().live().filter(|(one, ..)| pid.is_none_or(|pid| *one == pid));
        let (pid, process, _) = live.max_by_key(|(_, _, space)| space.len())?;
        let (mut spaces, mut space) = (BTreeSet::new(), Some(process.space));
        // A file may claim a circle.
        while let Some(one) = space.filter(|one| spaces.insert(*one)) {
            space = parents.get(&one).copied();
        }
        Some((pid, spaces))
    }

    /// Whether there is a space, and why it has its areas is known.
    fn explains(&self) -> bool {
        self.summary.largest.as_ref().is_some_and(|largest| largest.why.is_some())
    }
}
