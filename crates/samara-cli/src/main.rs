//! The command `samara`. The library has all of it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    samara_cli::run()
}
