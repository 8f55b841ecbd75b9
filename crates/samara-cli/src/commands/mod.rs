//! The commands, one file each, and their shared functions.

mod check;
mod command_sink;
mod completions;
mod diff;
mod early;
mod events;
mod export;
mod files;
mod fleet;
mod inspect;
mod man;
mod replay;
mod report;
mod run;
mod show;
mod summary;
pub mod testing;
mod top;
mod trace;
mod watch;
mod who;
mod why;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, CommandFactory, FromArgMatches};
use nix::sys::resource::{Resource, getrlimit};
use samara_trace::file::{Fault, FileError, Header, Printable, Replay, Stacks, TraceReader, name_bytes, name_text};

use crate::cli::{Cli, Command, Only};
use crate::fail_if::FailIf;
use crate::moment::Moment;
use crate::output::{self, error, short, shown, waiting};
use crate::{exit, output::clean};

/// Bytes of stack that every command needs.
const STACK: u64 = 256 << 10;

/// Why a command that needs this much stack cannot run: it would be killed.
fn too_small(least: u64) -> Option<String> {
    let (most, _) = getrlimit(Resource::RLIMIT_STACK).ok().filter(|(most, _)| *most < least)?;
    let [most, least] = [most, least].map(|bytes| bytes >> 10);
    Some(format!("the stack may have {most} KiB (ulimit -s), and samara needs {least}: ulimit -s {least}"))
}

/// Runs the command of the command line. If standard output was closed when the program was
/// started, printing is an error.
pub fn run(stdout_was_closed: bool) -> ExitCode {
    output::set_closed(stdout_was_closed);
    if let Some(why) = too_small(STACK) {
        return failed(why);
    }
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(wrong) => return usage_error(wrong),
    };
    match cli.command {
        Command::Trace(args) => trace::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Summary(args) => summary::run(&args),
        Command::Who(args) => who::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Fleet(args) => fleet::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Parses the command line. A negative number after an option is its value, which the option then
/// refuses, and not another option.
fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let has_value = |arg: &Arg| arg.get_long().is_some() && arg.get_action().takes_values();
    let takes = |arg: Arg| if has_value(&arg) { arg.allow_negative_numbers(true) } else { arg };
    let mut command = Cli::command().mut_subcommands(|command| command.mut_args(takes));
    let mut matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|wrong| wrong.format(&mut command))
}

/// Prints the output of the command-line parser: help, the version, or an error.
fn usage_error(wrong: clap::Error) -> ExitCode {
    if !wrong.use_stderr() {
        let text = wrong.render().ansi().to_string();
        return match output::styled_stdout(|out| out.write_all(text.as_bytes())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(format!("cannot write to standard output: {error}")),
        };
    }
    // The message repeats the arguments, which may be file names that the shell expanded.
    let typed: Vec<String> = std::env::args_os().map(|arg| name_text(arg.as_bytes())).collect();
    let harmless = typed.iter().all(|arg| arg.chars().all(Printable::is_plain));
    let wrong = match harmless {
        true => wrong,
        false => match parse(typed.iter().map(|arg| OsString::from(clean(arg)))) {
            Err(same) if same.kind() == wrong.kind() => same,
            // The command line is wrong only because of characters that were escaped.
            _ => clap::Error::raw(
                wrong.kind(),
                "an argument contains control characters or others that cannot be shown: remove them\n",
            ),
        },
    };
    // A closed standard error cannot show the message.
    let _ = wrong.print();
    exit::USAGE.into()
}

/// Opens a trace; prints why if that fails.
fn open(path: &Path) -> Result<TraceReader<File>, ExitCode> {
    open_as(path, |file| file)
}

/// Opens a trace, with its reader made by `how`.
fn open_as<R: Read>(path: &Path, how: impl FnOnce(File) -> R) -> Result<TraceReader<R>, ExitCode> {
    let file = waiting(path, "a writer", || File::open(path));
    let file = file.map_err(|e| failed(format!("cannot open {}: {e}", shown(path))))?;
    TraceReader::new(how(file)).map_err(|e| unreadable(path, &e))
}

/// The program of a trace and its arguments.
fn words(header: &Header) -> Vec<OsString> {
    let words = std::iter::once(&header.program).chain(&header.args);
    words.map(|word| OsStr::from_bytes(&name_bytes(word)).to_owned()).collect()
}

/// Opens a trace, and turns the wanted moment into an event or time. Prints why if that fails.
fn open_at(path: &Path, at: Option<Moment>, whose: Whose) -> Result<(Option<Moment>, TraceReader<File>), ExitCode> {
    let at = if at == Some(Moment::Peak) { Some(peak(path, whose)?) } else { at };
    let reader = open(path)?;
    let at = at.map(|at| on(path, at, reader.header())).transpose()?;
    Ok((at, reader))
}

/// A moment as one of this trace. Prints why if that fails.
fn on(path: &Path, at: Moment, header: &Header) -> Result<Moment, ExitCode> {
    let why = || failed(format!("{} does not say when it began: give a time since then (1.5s)", shown(path)));
    at.on(header).ok_or_else(why)
}

/// The selection of events, with moments of this trace. Prints why if that fails.
fn only_of(only: &Only, path: &Path, header: &Header) -> Result<Only, ExitCode> {
    if [only.from, only.to].contains(&Some(Moment::Peak)) {
        let why = "--from and --to take an event's number or a time: samara show FILE --at peak";
        return Err(failed(why.to_owned()));
    }
    let reversed = match (only.from, only.to) {
        (Some(Moment::Time(from)), Some(Moment::Time(to))) | (Some(Moment::Clock(from)), Some(Moment::Clock(to))) => {
            from > to
        }
        (Some(Moment::Event(from)), Some(Moment::Event(to))) => from > to,
        _ => false,
    };
    if reversed {
        return Err(failed("--from is after --to: nothing is between them".to_owned()));
    }
    let on_trace = |at: Option<Moment>| at.map(|at| on(path, at, header)).transpose();
    Ok(Only { from: on_trace(only.from)?, to: on_trace(only.to)?, ..only.clone() })
}

/// The process that a peak belongs to.
#[derive(Clone, Copy)]
enum Whose {
    /// This process.
    One(u32),
    /// The first process of the trace.
    First,
    /// The process that had the most areas.
    Largest,
}

impl Whose {
    /// The given process, or else the first.
    fn or_first(pid: Option<u32>) -> Whose {
        pid.map_or(Whose::First, Whose::One)
    }

    /// The given process, or else the largest.
    fn or_largest(pid: Option<u32>) -> Whose {
        pid.map_or(Whose::Largest, Whose::One)
    }
}

/// The event at which the process had the most areas. Prints why if it cannot be found. A trace is
/// opened again afterwards.
fn peak(path: &Path, whose: Whose) -> Result<Moment, ExitCode> {
    if path.metadata().is_ok_and(|file| !file.is_file()) {
        return Err(failed(format!("{}: the peak is found by reading the trace twice: give a file", shown(path))));
    }
    let (mut first, mut replay, mut most) = (None, Replay::default(), (0, 0));
    for event in open(path)?.map_while(Result::ok) {
        let first = *first.get_or_insert(event.pid);
        let pid = match whose {
            Whose::One(pid) => pid,
            Whose::First => first,
            Whose::Largest => event.pid,
        };
        if replay.apply(&event).is_err() {
            break;
        }
        let areas = replay.space_of(pid).map_or(0, |space| space.len());
        if areas > most.0 {
            most = (areas, event.seq);
        }
    }
    Ok(Moment::Event(most.1))
}

/// The stacks of a trace, which is opened again afterwards. Prints why if that fails.
fn stacks_of(path: &Path) -> Result<Stacks, ExitCode> {
    if path.metadata().is_ok_and(|file| !file.is_file()) {
        return Err(failed(format!("{}: --stacks reads the trace twice: give a file", shown(path))));
    }
    let mut stacks = Stacks::default();
    for event in open(path)? {
        let event = match event {
            Ok(event) => event,
            // The second reading meets the damage again, and reports it.
            Err(_) if !stacks.is_empty() => break,
            Err(damage) => return Err(unreadable(path, &damage)),
        };
        if let Err(why) = stacks.note(&event) {
            error(format!("{}: {why}", shown(path)));
            return Err(exit::DAMAGED.into());
        }
    }
    if stacks.is_empty() {
        return Err(failed(format!("{} has no stacks: record it with samara trace --stacks", shown(path))));
    }
    Ok(stacks)
}

/// Prints why a trace cannot be read further, and returns the exit code for it.
fn unreadable(path: &Path, why: &FileError) -> ExitCode {
    error(format!("{}: {why}", shown(path)));
    match why.fault {
        Fault::NotATrace(_) | Fault::Format(_) | Fault::Io(_) => exit::FAILED.into(),
        _ => exit::DAMAGED.into(),
    }
}

/// Prints why an output cannot be written; `-` is standard output.
fn cannot_write(path: &Path, why: &io::Error) -> ExitCode {
    let name = if path == Path::new("-") { "standard output".to_owned() } else { shown(path) };
    failed(format!("cannot write to {name}: {why}"))
}

fn failed(why: String) -> ExitCode {
    error(why);
    exit::FAILED.into()
}

/// Prints the conditions that hold. Returns whether one does.
fn says_failure(fail_if: &[FailIf], summary: &serde_json::Value) -> bool {
    let mut fails = false;
    for condition in fail_if {
        if let Some(why) = condition.unknown(summary) {
            fails = true;
            error(format!("--fail-if '{condition}' cannot be decided: {why}"));
        } else if let Some(value) = condition.holds(summary) {
            fails = true;
            error(format!("--fail-if '{condition}' holds: it is {value}"));
        }
    }
    fails
}

/// The program's words as a line, cut if it is long.
fn command_line(words: &[OsString]) -> String {
    // A process that has changed its title leaves empty ones.
    let told = words.iter().filter(|word| !word.is_empty());
    let line: Vec<_> = told.map(|word| clean(&crate::summary::quoted(&name_text(word.as_bytes())))).collect();
    short(&line.join(" "))
}

/// The command to run samara again: its path, if it was run by a path.
fn own_name() -> String {
    match std::env::args_os().next() {
        Some(name) if name.as_bytes().contains(&b'/') => crate::summary::quoted(&name_text(name.as_bytes())),
        _ => "samara".to_owned(),
    }
}
