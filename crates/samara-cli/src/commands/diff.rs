//! `samara diff A B`: the growth from one recording to another, or from one moment to another.

use std::path::Path;
use std::process::ExitCode;

use samara_trace::survey::{Known, Survey};
use serde_json::Value;

use crate::cli::DiffOf;
use crate::commands::why::look;
use crate::diff::{Diff, Side};
use crate::exit;
use crate::moment::Moment;
use crate::output::{self, clean_json, error, shown};

pub(crate) fn run(args: &DiffOf) -> ExitCode {
    let second = args.after.as_ref().unwrap_or(&args.before);
    if args.after.is_none() && args.before.exists() && !args.before.is_file() {
        return super::failed(format!("{} is read twice, so it must be a file", shown(&args.before)));
    }
    let look = |path: &Path, asked: Option<Moment>| look(path, asked.or_else(|| default_of(path)), args.pid);
    let both = look(&args.before, args.from).and_then(|a| Ok((a, look(second, args.to)?)));
    let (before, after) = match both {
        Ok(both) => both,
        Err(code) => return code,
    };
    let surveys = [&before, &after].map(|looked| Survey::of(&looked.space.areas, Known::All));
    let mut diff = Diff::of(Side::at(&before.space, &surveys[0]), Side::at(&after.space, &surveys[1]), args.over);
    diff.of_all = args.pid.is_none();
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
    if let Some(damage) = before.space.damage {
        return super::unreadable(&args.before, &damage);
    }
    if let Some(damage) = after.space.damage {
        return super::unreadable(second, &damage);
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
    let (before, after) = (look(before, default_of(before), None)?, look(after, default_of(after), None)?);
    let surveys = [&before, &after].map(|looked| Survey::of(&looked.space.areas, Known::All));
    let mut diff = Diff::of(Side::at(&before.space, &surveys[0]), Side::at(&after.space, &surveys[1]), 0);
    diff.of_all = true;
    Ok(diff.json())
}

/// The moment that is compared if none is given: that of the most areas, to the area. What can be
/// read only once is compared near it, as `samara why` does.
fn default_of(path: &Path) -> Option<Moment> {
    path.is_file().then_some(Moment::Peak)
}
