//! All exit codes. The book's page `reference/exit-codes.md` lists them.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// All commands except `trace`, `run` and `top` (of a program): the command failed, for example
/// because a file or process does not exist.
pub(crate) const FAILED: u8 = 1;
/// All commands: wrong usage.
pub(crate) const USAGE: u8 = 2;
/// Commands that read a trace: it ends early or is damaged. Its whole batches were used.
pub(crate) const DAMAGED: u8 = 3;
/// `check`: the model and the kernel differ.
pub(crate) const DIFFERS: u8 = 4;
/// `trace`, `summary`: a `--fail-if` holds. `diff --fail`: something grew. `watch --once`: a
/// process is near the limit.
pub(crate) const CONDITION: u8 = 123;
/// `trace`, `run`: the program was not run, because samara could not trace it or write its files.
/// `watch`: a process that `--pid` names does not exist at the start.
pub(crate) const CANNOT_TRACE: u8 = 125;
/// `trace`, `run`: the program exists and cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// `trace`, `run`: the program was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// A program's end as a shell reports it: its exit code, or 128 + the number of its signal.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Ends as the traced program ended: with its exit code, or by its signal. So the parent of samara
/// gets the same status as without samara (a shell: 128 + the signal's number). Dumps no second
/// core.
pub(crate) fn like(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        return ExitCode::from(status.code().unwrap_or(0) as u8);
    };
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE) {
        // If this fails there may be a second core file; that does no harm.
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard);
    }
    // The first call returns only for signals that it does not know (real-time ones), which have no
    // handler here.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    let _ = signal_hook::low_level::raise(signal);
    ExitCode::from((128 + signal) as u8)
}
