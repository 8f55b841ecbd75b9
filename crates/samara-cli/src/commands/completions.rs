//! `samara completions SHELL`: prints a completion script.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Completions};
use crate::output;

pub(crate) fn run(args: &Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "samara", &mut script);
    match output::stdout(|out| out.write_all(&script)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(format!("cannot write to standard output: {error}")),
    }
}
