//! `index`, `shared`, `spaces` and `plot`: runs the program in `bench/rivals`, which depends on the
//! other maps and draws the plots.
//!
//! That package is a separate workspace. As a member of this one, every `--workspace` command would
//! build it; as an optional dependency, it would be in the lock file, and every build would fetch
//! it. So it is built here when it is needed, into this workspace's target directory. Cargo's
//! messages go to standard error; the network is needed the first time only.

use crate::cargo_build;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Arguments for the other program, which parses them.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// See `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Builds the program, runs it with these arguments, and returns its exit status. It prints its own
/// error messages.
///
/// # Errors
/// It cannot be built or run, or a signal ended it.
pub fn run(command: &str, args: &Args) -> Result<ExitCode, String> {
    let program =
        cargo_build::workspace_programs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals"), "samara-rivals")?;
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
