//! The benchmark runner's command line.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use samara_bench::mm;
use samara_bench::{instructions, overhead, rivals};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "samara-bench", about = "Benchmarks of samara against other maps, the running kernel and strace")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Range maps against one another: medians of interleaved rounds in one process.
    Index(rivals::Args),
    /// Maps that threads read while one writes: medians of interleaved rounds in one process.
    Shared(rivals::Args),
    /// Address spaces that threads share: medians of interleaved rounds in one process.
    Spaces(rivals::Args),
    /// The workloads of published figures, on an engine with each index in turn, and on the running
    /// kernel.
    Figures(rivals::Args),
    /// Address spaces of samara-mm against the running kernel, call by call (x86-64 Linux).
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Mm(mm::Args),
    /// Draws cost against size, or against threads, from the JSON lines of `index --json` and
    /// `shared --json`.
    Plot(rivals::Args),
    /// The cost of recording a program, and of deciding its memory calls, against strace.
    Overhead(overhead::Args),
    /// Instructions of each operation of the tree, counted by valgrind and compared with the
    /// record.
    Instructions(instructions::Args),
    /// One counted operation (run by `instructions` under valgrind).
    #[command(hide = true)]
    Count(instructions::CountArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Index(args) => rivals::run("index", &args),
        Command::Shared(args) => rivals::run("shared", &args),
        Command::Spaces(args) => rivals::run("spaces", &args),
        Command::Figures(args) => rivals::run("figures", &args),
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Command::Mm(args) => mm::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Plot(args) => rivals::run("plot", &args),
        Command::Overhead(args) => overhead::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Instructions(args) => instructions::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Count(args) => instructions::count(&args).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("samara-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
