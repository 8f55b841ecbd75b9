//! `samara top -- PROGRAM ARGS...`, `samara top --pid PID` and `samara top TRACE`: a live view of
//! address spaces.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use samara_record::inspect::max_map_count;
use samara_record::{LetGo, Options, Outcome, Running, Status, attach, record};
use samara_trace::file::Header;
use samara_trace::output::{OutputFile, OutputName};
use samara_trace::{FileSink, Written};

use super::early::Early;
use super::files::{self, Files, Name, OutputFiles};
use super::trace::{LEFT_ALONE, not_run, say_cost};
use super::{command_line, own_name};
use crate::cli::Top;
use crate::format::{bytes, plural};
use crate::output::{self, BOLD, DIM, clean, error, shown, styled};
use crate::top::live::{Live, Recorded};
use crate::top::player::{Content, Player};
use crate::top::{self, Left, Signals, Source};
use crate::{exit, summary};

/// Time limit for the end of the recording after the view was left.
const END: Duration = Duration::from_secs(10);

/// How the view was left, and what was recorded.
type ViewEnd = (io::Result<Left>, Option<Recorded>);

pub(crate) fn run(args: &Top) -> ExitCode {
    if !output::to_terminal() {
        return super::failed(
            "top shows a live view, and standard output is no terminal: run it in a terminal (samara summary and samara why print)"
                .to_owned(),
        );
    }
    match (&args.trace, args.pid) {
        (Some(path), _) => play(args, path),
        (None, Some(pid)) => watch_running(args, pid),
        (None, None) => watch(args),
    }
}

/// Plays a trace.
fn play(args: &Top, path: &Path) -> ExitCode {
    if path.metadata().is_ok_and(|file| !file.is_file()) {
        return super::failed(format!("{}: top reads the trace several times: give a file", shown(path)));
    }
    let content = match super::open(path) {
        Ok(reader) => Content::of(reader),
        Err(code) => {
            if path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0) {
                error(format!("to run it, write -- before it: {} top -- {}", clean(&own_name()), shown(path)));
            }
            return code;
        }
    };
    if content.events == 0 {
        return match &content.damage {
            Some(damage) => super::unreadable(path, damage),
            None => super::failed(format!("{} has no events", shown(path))),
        };
    }
    let (at, reader) = match super::open_at(path, args.at, super::Whose::Largest) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let title = command_line(&super::words(&content.header));
    let mut source = Source::Trace(Box::new(Player::new(path, reader, content, at)));
    let left = match Signals::watch().and_then(|signals| top::run(&mut source, &signals, title, None)) {
        Ok(left) => left,
        Err(why) => return no_terminal(&why),
    };
    if let Source::Trace(player) = &source
        && let Some(damage) = &player.content().damage
    {
        return super::unreadable(path, damage);
    }
    code(left)
}

/// Runs a program, and shows it live.
fn watch(args: &Top) -> ExitCode {
    let Some((program, rest)) = args.words.split_first() else { return exit::USAGE.into() };
    let mut options = Options::new(program).args(rest.iter().cloned());
    // From here on, dropping an uncommitted output leaves everything as it was.
    let name = match name_of_printed(args) {
        Ok(name) => name,
        Err(code) => return code,
    };
    let Files { trace, early, .. } = match trace(args, &|| options.header(), name.as_ref(), files::NOT_RUN) {
        Ok(files) => files,
        Err(code) => return code,
    };
    let (path, mut file) = match printed(args, name) {
        Ok(printed) => printed,
        Err(code) => return code,
    };
    options.stacks = args.stacks;
    options.apart = match file.file().try_clone() {
        Ok(file) => Some(Arc::new(file)),
        Err(why) => return cannot_start(&why, files::NOT_RUN),
    };
    let (left, recorded) = match show(move |sink| record(&options, sink), &args.words, (trace, early), None) {
        Ok(shown) => shown,
        Err(why) => return cannot_start(&why, files::NOT_RUN),
    };
    let length = file.file().metadata().map_or(0, |file| file.len());
    // A file that the user did not ask for is kept only if it is not empty.
    let ran = !matches!(recorded, Some(Recorded { outcome: Err(_), .. }));
    if length > 0 || ran && args.output_of_program.is_some() {
        // It has its name already: this removes an older one, and cannot fail.
        let _ = file.commit();
    }
    let printed = (length > 0).then(|| format!("{} ({})", shown(&path), bytes(length)));
    match recorded {
        Some(Recorded { outcome: Err(why), .. }) => return not_run(&why),
        Some(Recorded { outcome: Ok(outcome), written }) => report(args, &args.words, &outcome, written, printed),
        None => {
            let printed = printed.map_or_else(String::new, |file| format!("; what it printed is in {file}"));
            error(format!("the program does not end; it is killed{printed}"));
        }
    }
    ended(left)
}

/// Shows a running process live, and lets go of it.
fn watch_running(args: &Top, pid: u32) -> ExitCode {
    let mut running = match Running::find(pid) {
        Ok(running) => running,
        Err(why) => return not_run(&why),
    };
    let (words, let_go) = (running.words(), LetGo::default());
    running.stacks = args.stacks;
    running.let_go = Some(let_go.clone());
    let Files { trace, early, .. } = match trace(args, &|| running.header(), None, LEFT_ALONE) {
        Ok(files) => files,
        Err(code) => return code,
    };
    say_cost(&running, "q lets go of it");
    let (left, recorded) = match show(move |sink| attach(&running, sink), &words, (trace, early), Some(let_go)) {
        Ok(shown) => shown,
        Err(why) => return cannot_start(&why, LEFT_ALONE),
    };
    match recorded {
        Some(Recorded { outcome: Err(why), .. }) => return not_run(&why),
        Some(Recorded { outcome: Ok(outcome), written }) => report(args, &words, &outcome, written, None),
        None => error(format!("process {pid} is not let go in time; it goes on when samara ends, which is now")),
    }
    ended(left)
}

/// Records, and shows the recording until the user leaves. Returns how the view was left, and the
/// result of the recording, if it has ended. `early`: signals that came before; `let_go`: as for
/// [`Live::start`].
fn show<R>(
    record: R,
    words: &[OsString],
    (trace, early): (Option<FileSink>, Early),
    let_go: Option<LetGo>,
) -> io::Result<ViewEnd>
where
    R: FnOnce(&mut dyn samara_trace::Sink) -> Result<Outcome, samara_record::RecordError> + Send + 'static,
{
    let signals = Signals::watch()?;
    early.take().into_iter().for_each(|signal| signals.note(signal));
    let mut source = Source::Live(Live::start(record, trace, let_go)?);
    let left = top::run(&mut source, &signals, command_line(words), max_map_count());
    let recorded = match &source {
        Source::Live(live) => live.wait(END),
        Source::Trace(_) => None,
    };
    Ok((left, recorded))
}

/// The trace, if it is asked for. `printed`: the file of the program's output.
fn trace(args: &Top, header: &dyn Fn() -> Header, printed: Option<&Named>, left: &str) -> Result<Files, ExitCode> {
    let trace = args.output.as_deref().map(Name::Given);
    let other = printed.map(|(path, name)| (path.as_path(), name));
    let asked = OutputFiles { trace, summary: None, page: false, other, access: args.readers.access(), header };
    files::open(asked, left)
}

fn cannot_start(why: &io::Error, left: &str) -> ExitCode {
    error(format!("cannot start to record: {why}; {left}"));
    exit::CANNOT_TRACE.into()
}

/// A name as the user gave it, and where it leads.
type Named = (PathBuf, OutputName);

/// The name of the file for the program's output, if the user gave one.
fn name_of_printed(args: &Top) -> Result<Option<Named>, ExitCode> {
    let Some(path) = &args.output_of_program else { return Ok(None) };
    match output::waiting(path, "a reader", || OutputName::resolve(path)) {
        Ok(name) => Ok(Some((path.clone(), name))),
        Err(why) => Err(cannot_print(path, &why)),
    }
}

/// The file for the program's output: a new temporary file, unless the user named one.
fn printed(args: &Top, name: Option<Named>) -> Result<(PathBuf, OutputFile), ExitCode> {
    let access = args.readers.access();
    let Some((path, name)) = name else {
        let path = std::env::temp_dir().join(format!("samara-top-{}.txt", std::process::id()));
        return match OutputFile::create_new(&path, access) {
            Ok((file, path)) => Ok((path, file)),
            Err(why) => Err(cannot_print(&std::env::temp_dir(), &why)),
        };
    };
    name.replace(access).map_err(|why| cannot_print(&path, &why)).map(|file| (path, file))
}

fn cannot_print(path: &Path, why: &io::Error) -> ExitCode {
    error(format!(
        "cannot write what the program prints to {}: {why}; the program was not run (--output-of-program FILE names another file)",
        shown(path)
    ));
    exit::CANNOT_TRACE.into()
}

/// Prints how the program ended, and the names of the files.
fn report(args: &Top, words: &[OsString], outcome: &Outcome, written: Option<Written>, printed: Option<String>) {
    let ended = match outcome.status {
        Status::Ended(status) => summary::ended(status, outcome.program_ns, outcome.counters.wall_ns),
        Status::LetGo => summary::detached(outcome.counters.wall_ns),
        Status::Gone => summary::gone(outcome.program_ns, outcome.counters.wall_ns),
    };
    let mut out = format!("{} {} {ended}\n", styled(BOLD, "samara:"), command_line(words));
    let mut row =
        |name: &str, text: String| out.push_str(&format!("  {} {text}\n", styled(DIM, format!("{name:<10}"))));
    printed.into_iter().for_each(|file| row("printed", file));
    if let (Some(path), Some(written)) = (&args.output, &written) {
        row("trace", format!("{} ({}, {})", shown(path), plural(written.events, "event"), bytes(written.bytes)));
        row("next", format!("{} why {}", clean(&own_name()), clean(&summary::quoted(&path.to_string_lossy()))));
    }
    outcome.counters.notes.iter().for_each(|note| row("note", clean(note)));
    // A closed standard error cannot show the message.
    let _ = write!(anstream::stderr(), "{out}");
    if let Some(why) = written.and_then(|written| written.error) {
        error(format!("the trace ends early: {why}; the program was not disturbed"));
    }
}

fn no_terminal(why: &io::Error) -> ExitCode {
    super::failed(format!("the terminal cannot be used: {why}"))
}

/// Ends as the view was left, if it could be shown.
fn ended(left: io::Result<Left>) -> ExitCode {
    match left {
        Ok(left) => code(left),
        Err(why) => no_terminal(&why),
    }
}

/// Ends as the view was left: by a signal, as that signal would have ended it.
fn code(left: Left) -> ExitCode {
    match left {
        Left::Quit => ExitCode::SUCCESS,
        Left::Signal(signal) => {
            // It returns only for signals that it does not know.
            let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
            ExitCode::from((128 + signal as i32) as u8)
        }
    }
}
