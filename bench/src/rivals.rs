//! `index`, `shared` and `plot`: handed on to the program in `bench/rivals`, which holds the rivals
//! and what draws.
//!
//! That package is a workspace of its own, for a member of this one would be built by every
//! `--workspace`, and an optional dependency would still stand in its lock file and be fetched by
//! everyone. So it is built here, when it is wanted, into this workspace's target directory. Cargo
//! tells of it on standard error; the network is needed the first time only.

use crate::build;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Arguments that the other program knows.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// See `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Builds the program and runs it with these arguments: its exit status. It has said itself why it
/// failed, if it did.
///
/// # Errors
/// Where it cannot be built or run, or a signal ended it.
pub fn run(command: &str, args: &Args) -> Result<ExitCode, String> {
    let program = build::apart(&Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals"), "samara-rivals")?;
    let status = Command::new(program)
        .arg(command)
        .args(&args.args)
        .status()
        .map_err(|error| format!("samara-rivals cannot be run: {error}"))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(code.into()),
        None => Err(format!("samara-rivals {command} ended with {status}")),
    }
}
