//! The command `samara`. A file per command; see `docs/cli.md`.
#![forbid(unsafe_code)]

mod args;
mod calls;
mod cli;
mod commands;
mod exit;
mod format;
mod json;
mod line;
mod moment;
mod output;
mod summary;
mod target;

fn main() -> std::process::ExitCode {
    commands::run()
}
