//! The command line of this package; `samara-bench` passes its arguments on to it.

use clap::{Parser, Subcommand};
use samara_rivals::figures::suite as figures;
use samara_rivals::shared::suite;
use samara_rivals::spaces::suite as spaces;
use samara_rivals::{index, plot};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    name = "samara-bench",
    bin_name = "samara-bench",
    about = "samara's maps against those that one would use instead"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Range maps against one another: medians of interleaved rounds in one process.
    Index(index::Args),
    /// Maps that threads read while one writes: medians of interleaved rounds in one process.
    Shared(suite::Args),
    /// Address spaces that threads share: medians of interleaved rounds in one process.
    Spaces(spaces::Args),
    /// The workloads of published figures, on an engine with each index in turn, and on the running
    /// kernel.
    Figures(figures::Args),
    /// The kernel's side of one workload, which `figures` runs in a separate process.
    #[command(hide = true)]
    Kernel(figures::KernelArgs),
    /// Draws cost against size, or against threads, from the JSON lines of `index --json` and
    /// `shared --json`.
    Plot(plot::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Index(args) => index::run(&args),
        Command::Shared(args) => suite::run(&args),
        Command::Spaces(args) => spaces::run(&args),
        Command::Figures(args) => figures::run(&args),
        Command::Kernel(args) => figures::run_kernel(&args),
        Command::Plot(args) => plot::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("samara-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
