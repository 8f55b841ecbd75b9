//! A program for `overhead` that runs another program many times:
//! `samara-bench-spawn COUNT AT_ONCE PROGRAM [ARGUMENTS]`. Each run must succeed.
#![forbid(unsafe_code)]

use std::process::{Child, Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut number = || args.next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
    let (count, at_once) = (number(), number());
    let line: Vec<String> = args.collect();
    let mut running: Vec<Child> = Vec::new();
    for n in 0..count {
        running.push(Command::new(&line[0]).args(&line[1..]).spawn().expect("a program to run"));
        if running.len() == at_once || n + 1 == count {
            for mut child in running.drain(..) {
                if !child.wait().is_ok_and(|status| status.success()) {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
