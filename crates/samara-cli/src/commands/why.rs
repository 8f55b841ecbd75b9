//! `samara why TRACE`: explains the number of areas of a process, and names the calls that made
//! them.

use std::path::Path;
use std::process::ExitCode;

use samara_trace::{SpaceAt, SpaceError, Trace};
use serde_json::json;

use super::Whose;
use crate::cli::WhyOf;
use crate::format::time;
use crate::moment::Moment;
use crate::output::{self, clean_json, shown};
use crate::why::{self, At, Sites};
use crate::{refused, survey};

pub(crate) fn run(args: &WhyOf) -> ExitCode {
    let Looked { space, limit } = match look(&args.file, args.at, args.pid) {
        Ok(looked) => looked,
        Err(code) => return code,
    };
    let (sites, at) = (Sites::at(&space), At::of(&space));
    let title = match args.at {
        // Areas that `samara watch` kept have only this moment.
        None if at.ns == 0 => format!("process {} ({}), at the beginning of the trace", at.pid, at.program),
        None => format!("process {} ({}), close to its peak", at.pid, at.program),
        Some(_) => format!("process {} ({}), after {}", at.pid, at.program, time(at.ns)),
    };
    let printed = output::styled_stdout(|out| match (args.json, args.folded) {
        (true, _) => {
            let mut all = why::json(at, &space.why, sites);
            survey::extend(&mut all, json!({"failures": refused::failures(&space.failures, sites.whole())}));
            writeln!(out, "{}", clean_json(&format!("{all:#}")))
        }
        (_, true) => {
            let lines = why::folded(&space.why, sites, args.by);
            lines.iter().try_for_each(|(line, n)| writeln!(out, "{line} {n}"))
        }
        _ => {
            let failed = why::failed(&space.failures, limit, sites);
            out.write_all(why::screen(&title, at, &space.why, sites, &failed).as_bytes())
        }
    });
    match (printed, &space.damage) {
        (Err(error), _) => super::failed(format!("cannot write to standard output: {error}")),
        (Ok(()), Some(damage)) => super::unreadable(&args.file, damage),
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

/// A space of a trace, and the data to explain it.
pub(super) struct Looked {
    pub(super) space: SpaceAt,
    /// `vm.max_map_count` of the recording, if the trace has it.
    limit: Option<u64>,
}

/// Reads a trace and looks at one space: at a moment, or close to its peak; of one process, or the
/// largest. Prints why if no space is found, and a line if only one process could be followed.
pub(super) fn look(file: &Path, at: Option<Moment>, pid: Option<u32>) -> Result<Looked, ExitCode> {
    let (at, reader) = super::open_at(file, at, Whose::or_largest(pid))?;
    let limit = reader.header().max_map_count;
    let trace = Trace::new(reader).with_path(file);
    let moment = at.map_or(samara_trace::Moment::Peak, Moment::of_trace);
    let space = match pid {
        Some(pid) => trace.space_of(pid, moment),
        None => trace.space(moment),
    };
    let space = space.map_err(|why| match why {
        SpaceError::File(damage) => super::unreadable(file, &damage),
        SpaceError::NoAreas(Some(pid)) => {
            super::failed(format!("{}: {why}: samara show FILE --pid {pid} says when it ended", shown(file)))
        }
        SpaceError::NoAreas(None) if at.is_some() => {
            super::failed(format!("{}: {why}: samara summary FILE says how long it is", shown(file)))
        }
        why => super::failed(format!("{}: {why}", shown(file))),
    })?;
    if let Some(alone) = space.alone {
        output::error(format!(
            "{}: all processes together take more memory than is allowed: only process {alone} was followed",
            shown(file)
        ));
    }
    Ok(Looked { space, limit })
}
