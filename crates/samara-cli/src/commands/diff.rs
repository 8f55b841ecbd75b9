//! `samara diff A B`: the growth from one recording to another, or from one moment to another.

use std::path::Path;
use std::process::ExitCode;

use samara_trace::survey::{Known, Survey};
use serde_json::Value;

use crate::cli::DiffOf;
use crate::commands::why::{Looked, look};
use crate::diff::{Diff, Side};
use crate::exit;
use crate::moment::Moment;
use crate::output::{self, clean_json, error, shown};

pub(crate) fn run(args: &DiffOf) -> ExitCode {
    let second = args.after.as_ref().unwrap_or(&args.before);
    if args.after.is_none() && args.before.exists() && !args.before.is_file() {
        return super::failed(format!("{} is read twice, so it must be a file", shown(&args.before)));
    }
    let sides = match Sides::look((&args.before, args.from), (second, args.to), args.pid) {
        Ok(sides) => sides,
        Err(code) => return code,
    };
    let diff = sides.diff(args.over, args.pid);
    let title = match &args.after {
        Some(after) => format!("from {} to {}", shown(&args.before), shown(after)),
        None => format!("{}, from one moment to another", shown(&args.before)),
    };
    let printed = output::styled_stdout(|out| match args.json {
        true => writeln!(out, "{}", clean_json(&format!("{:#}", diff.json()))),
        false => out.write_all(diff.screen(&title).as_bytes()),
    });
    if let Err(error) = printed {
        return super::failed(format!("cannot write to standard output: {error}"));
    }
    if let Some(damage) = &sides.before.space.damage {
        return super::unreadable(&args.before, damage);
    }
    if let Some(damage) = &sides.after.space.damage {
        return super::unreadable(second, damage);
    }
    if args.fail && diff.has_grown() {
        error(format!("--fail: the areas, or those of one place, grew by more than {}", args.over));
        return exit::CONDITION.into();
    }
    ExitCode::SUCCESS
}

/// What grew from one file to the other, as `samara diff --json` prints it. Prints why if that
/// fails.
pub(super) fn between(before: &Path, after: &Path) -> Result<Value, ExitCode> {
    Ok(Sides::look((before, None), (after, None), None)?.diff(0, None).json())
}

/// What is compared.
struct Sides {
    before: Looked,
    after: Looked,
    surveys: [Survey; 2],
}

impl Sides {
    /// Reads both traces, each at its moment; by default when a process had the most areas. An
    /// input that can be read only once is compared near that moment, as by `samara why`.
    fn look(
        before: (&Path, Option<Moment>),
        after: (&Path, Option<Moment>),
        pid: Option<u32>,
    ) -> Result<Sides, ExitCode> {
        let look = |(path, at): (&Path, Option<Moment>)| {
            let default = path.is_file().then_some(Moment::Peak);
            look(path, at.or(default), pid)
        };
        let (before, after) = (look(before)?, look(after)?);
        let surveys = [&before, &after].map(|looked| Survey::of(&looked.space.areas, Known::All));
        Ok(Sides { before, after, surveys })
    }

    fn diff(&self, over: u64, pid: Option<u32>) -> Diff<'_> {
        let [before, after] = &self.surveys;
        let mut diff = Diff::of(Side::at(&self.before.space, before), Side::at(&self.after.space, after), over);
        diff.of_all = pid.is_none();
        diff
    }
}
