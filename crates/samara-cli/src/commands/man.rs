//! `samara man DIRECTORY`: writes the man pages, which are made of the help texts.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Man};

pub(crate) fn run(args: &Man) -> ExitCode {
    // `samara help COMMAND` has the same text as its page.
    match clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), &args.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::failed(format!("cannot write man pages to {}: {error}", args.directory.display())),
    }
}
