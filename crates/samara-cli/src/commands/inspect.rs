//! `samara inspect PID|FILE|-`: describes the areas of a process, without tracing.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use samara_record::inspect::{InspectError, Look};
use samara_trace::survey::Survey;
use serde_json::json;

use crate::cli::Inspect;
use crate::format::{bytes, count};
use crate::output::{self, BOLD, clean_json, shown, styled};
use crate::pace::{self, Pace};
use crate::{exit, survey};

pub(crate) fn run(args: &Inspect) -> ExitCode {
    let number = args.target.to_str().filter(|text| text.bytes().all(|c| c.is_ascii_digit()) && !text.starts_with('0'));
    let pid = number.and_then(|text| text.parse::<u32>().ok());
    let look = match pid {
        Some(pid) => Look::at_process(pid),
        None if args.every.is_some() => {
            output::error("--every looks again at a process: give a PID");
            return exit::USAGE.into();
        }
        None if args.target == Path::new("-") => Look::at_text(io::stdin().lock()),
        None => output::waiting(&args.target, "a writer", || File::open(&args.target))
            .map_err(InspectError::Io)
            .and_then(Look::at_text),
    };
    let look = match look {
        Ok(look) => look,
        // The message names the process.
        Err(error) if pid.is_some() => return super::failed(error.to_string()),
        Err(error) => return super::failed(format!("{}: {error}", name(args))),
    };
    match report(args, pid.zip(args.every), look) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(format!("cannot write to standard output: {error}")),
    }
}

/// The name of the inspected process or file.
fn name(args: &Inspect) -> String {
    if args.target == Path::new("-") { "standard input".to_owned() } else { shown(&args.target) }
}

/// Prints the first look, and later changes.
fn report(args: &Inspect, again: Option<(u32, Duration)>, look: Look) -> io::Result<()> {
    let began = Instant::now();
    let started = look.process.as_ref().map(|p| p.started);
    let mut before = Survey::of(&look.areas, look.known);
    let mut pace = Pace::default();
    pace.add(Duration::ZERO, before.areas, Duration::ZERO);
    let first = |out: &mut dyn Write, survey: &Survey| match args.json {
        true => json(out, survey, &look, Duration::ZERO, &Pace::default()),
        false => {
            write!(out, "{}", survey::screen(&survey::title(&look, &name(args)), survey, survey::Scope::of(&look)))
        }
    };
    let mut open = print(|out| first(out, &before))?;
    let Some((pid, every)) = again else { return Ok(()) };
    while open {
        std::thread::sleep(every);
        let look = match Look::at_process(pid) {
            Ok(look) if look.process.as_ref().map(|p| p.started) == started => look,
            // Another process may have its number by now.
            Ok(_) | Err(InspectError::NoProcess(_) | InspectError::NoSpace(_) | InspectError::Ended(_)) => {
                if !args.json {
                    print(|out| writeln!(out, "process {pid} has ended"))?;
                }
                return Ok(());
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let (now, elapsed) = (Survey::of(&look.areas, look.known), began.elapsed());
        pace.add(elapsed, now.areas, Duration::ZERO);
        let limit = look.process.as_ref().and_then(|p| p.limit);
        open = print(|out| match args.json {
            true => json(out, &now, &look, elapsed, &pace),
            false => changed(out, &before, &now, elapsed, pace.text(limit)),
        })?;
        before = now;
    }
    Ok(())
}

fn changed(
    out: &mut dyn Write,
    before: &Survey,
    now: &Survey,
    elapsed: Duration,
    pace: Option<String>,
) -> io::Result<()> {
    let after = styled(BOLD, format!("+{:.1}s", elapsed.as_secs_f64()));
    let areas = survey::change(before.areas, now.areas, count);
    let size = survey::change(before.bytes, now.bytes, bytes);
    writeln!(out, "{after} {} areas ({areas}), {} mapped ({size})", count(now.areas), bytes(now.bytes))?;
    pace.map_or(Ok(()), |pace| writeln!(out, "  {pace}"))?;
    survey::changes(before, now).iter().try_for_each(|row| writeln!(out, "  {row}"))
}

fn json(out: &mut dyn Write, now: &Survey, look: &Look, elapsed: Duration, pace: &Pace) -> io::Result<()> {
    let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let limit = look.process.as_ref().and_then(|p| p.limit);
    let mut all = survey::json(now, look, elapsed);
    let left = pace.left(limit).map(pace::whole_seconds);
    survey::extend(&mut all, json!({"areas_per_second": pace.per_second(), "limit_in_seconds": left}));
    writeln!(out, "{}", clean_json(&all.to_string()))
}

/// Prints to standard output. `false`: its reader has gone, so nothing more need be printed.
fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<bool> {
    output::check_stdout()?;
    let mut out = anstream::AutoStream::auto(io::stdout());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    }
}
