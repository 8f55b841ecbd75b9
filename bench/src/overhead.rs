//! `overhead`: what recording costs a program, and what deciding its memory calls costs, against strace.
//!
//! Knows command lines and wall clocks. Runs are interleaved: each round runs every program plain, under `samara trace`,
//! under `samara run`, and under strace, beginning with another one each time.

use crate::build;
use crate::progress::progress;
use crate::stats::{Row, Sample, table};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Arguments of `overhead`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How often each program is run in each way.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Pairs of mmap and munmap in the loop.
    #[arg(long, default_value_t = 20_000)]
    pub pairs: usize,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

const WAYS: [&str; 4] = ["plain", "samara", "decided", "strace"];

/// Runs the suite and prints its rows.
///
/// # Errors
/// Where a program cannot be built, cannot be run, or fails.
pub fn run(args: &Args) -> Result<(), String> {
    let samara = build::program("samara-cli", "samara")?;
    let mmap_loop = build::program("samara-bench", "samara-bench-mmap-loop")?;
    let mut ways = WAYS[..3].to_vec();
    if runs("strace", "--version") {
        ways.push(WAYS[3]);
    } else {
        eprintln!("skipped: strace is not installed, so there is nothing to compare with");
    }
    let mut programs: Vec<(&str, usize, Vec<OsString>)> =
        vec![("mmap_loop", args.pairs, vec![mmap_loop.into(), args.pairs.to_string().into()])];
    if runs("java", "-version") {
        programs.push(("java_version", 1, vec!["java".into(), "-version".into()]));
    } else {
        eprintln!("skipped: java is not installed");
    }
    let dir = tempfile::tempdir().map_err(|error| format!("no directory for traces: {error}"))?;
    let bar = progress(u64::from(args.runs) * programs.len() as u64);
    let mut rows = Vec::new();
    for (name, n, program) in &programs {
        let mut times = vec![Vec::new(); ways.len()];
        bar.set_message(*name);
        // Round 0 warms up, and is not counted.
        for round in 0..=args.runs as usize {
            for turn in 0..ways.len() {
                let which = (turn + round) % ways.len();
                let millis = once(&command(ways[which], &samara, dir.path(), program))?;
                if round > 0 {
                    times[which].push(millis);
                }
            }
            bar.inc(u64::from(round > 0));
        }
        rows.extend(ways.iter().zip(times).map(|(way, times)| Row {
            suite: "overhead",
            case: (*name).to_owned(),
            n: *n,
            subject: (*way).to_owned(),
            sample: Sample::new(times),
            unit: "ms",
            threads: None,
        }));
    }
    bar.finish_and_clear();
    if args.json {
        rows.iter().for_each(|row| println!("{}", row.json()));
    } else {
        print!("{}", table(&rows, ways[ways.len() - 1]));
    }
    Ok(())
}

fn runs(program: &str, version: &str) -> bool {
    let done =
        Command::new(program).arg(version).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// The command line that runs `program` in this way.
fn command(way: &str, samara: &Path, dir: &Path, program: &[OsString]) -> Vec<OsString> {
    let mut line: Vec<OsString> = match way {
        "samara" => vec![
            samara.into(),
            "trace".into(),
            "--quiet".into(),
            "-o".into(),
            dir.join("trace.samara").into(),
            "--".into(),
        ],
        "decided" => vec![samara.into(), "run".into(), "--quiet".into(), "--".into()],
        "strace" => ["strace", "-f", "--seccomp-bpf", "-e", "trace=memory", "-o"]
            .into_iter()
            .map(OsString::from)
            .chain([dir.join("trace.strace").into()])
            .collect(),
        _ => Vec::new(),
    };
    line.extend(program.iter().cloned());
    line
}

/// Runs it once: milliseconds.
fn once(line: &[OsString]) -> Result<f64, String> {
    let start = Instant::now();
    let output = Command::new(&line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("{line:?} cannot be run: {error}"))?;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    if output.status.success() {
        Ok(millis)
    } else {
        Err(format!("{line:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}
