//! The commands, a file each, and what they share.

mod check;
mod completions;
mod events;
mod files;
mod run;
mod show;
mod trace;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use samara_trace::file::{Fault, FileError, TraceReader};

use crate::cli::{Cli, Command};
use crate::exit;
use crate::output::error;

/// Runs what was typed.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(wrong) => {
            // Help and version come this way too. Where the output is closed there is nobody to tell.
            let _ = wrong.print();
            return if wrong.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match cli.command {
        Command::Trace(args) => trace::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}

/// Opens a trace; on failure says why.
fn open(path: &Path) -> Result<TraceReader<File>, ExitCode> {
    let file = File::open(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
    TraceReader::new(file).map_err(|e| unreadable(path, &e))
}

/// Says why a trace cannot be read (further), and gives the exit code for it.
fn unreadable(path: &Path, why: &FileError) -> ExitCode {
    error(format!("{}: {why}", path.display()));
    match why.fault {
        Fault::NotATrace(_) | Fault::Format(_) | Fault::Io(_) => exit::FAILED.into(),
        _ => exit::DAMAGED.into(),
    }
}

fn failed(why: String) -> ExitCode {
    error(why);
    exit::FAILED.into()
}
