//! `overhead`: the wall time of programs under `samara trace`, `samara trace --no-stop` and `samara
//! run`, against the same programs plain and under strace.
//!
//! `no_stop` has the wall time of the whole command. `no_stop_inside` has that of the program
//! alone, which does not wait for the recorder.
//!
//! Runs are interleaved: each round runs every program in each mode, and begins with another mode
//! each time.

use crate::cargo_build;
use crate::progress::progress;
use crate::stats::{Row, Sample, table};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Arguments of `overhead`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Number of runs of each program in each mode.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Pairs of mmap and munmap in the loop, in each of its threads, and ten times as many as in
    /// each of its processes.
    #[arg(long, default_value_t = 20_000)]
    pub pairs: usize,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Programs that `spawn_exec` runs, one after the other.
const SPAWNS: usize = 100;
/// C files of the project that `make_j2` builds, and functions in each.
const UNITS: usize = 8;
const FUNCTIONS: usize = 20;

/// `no_stop_inside` is another figure of the same run as `no_stop`.
const MODES: [&str; 6] = ["plain", "samara", "decided", "no_stop", "no_stop_inside", "strace"];

/// Runs the suite and prints its rows.
///
/// # Errors
/// A program cannot be built, cannot be run, or fails.
pub fn run(args: &Args) -> Result<(), String> {
    let samara = cargo_build::program("samara-cli", "samara")?;
    let mmap_loop = cargo_build::program("samara-bench", "samara-bench-mmap-loop")?;
    let spawn = cargo_build::program("samara-bench", "samara-bench-spawn")?;
    let dir = tempfile::tempdir().map_err(|error| format!("no directory for traces: {error}"))?;
    let mut modes = MODES.to_vec();
    if let Err(why) = once(&command("no_stop", &samara, dir.path(), &["true".into()])) {
        eprintln!("skipped: no_stop: {why}");
        modes.retain(|mode| !mode.starts_with("no_stop"));
    }
    if !runs("strace", "--version") {
        eprintln!("skipped: strace is not installed, so there is nothing to compare with");
        modes.retain(|mode| *mode != "strace");
    }
    let programs = programs(args, &mmap_loop, &spawn, dir.path())?;
    let bar = progress(u64::from(args.runs) * programs.len() as u64);
    let mut rows = Vec::new();
    for (name, n, program) in &programs {
        let mut times = vec![Vec::new(); modes.len()];
        bar.set_message(*name);
        // Round 0 warms up, and is not counted.
        for round in 0..=args.runs as usize {
            for turn in 0..modes.len() {
                let which = (turn + round) % modes.len();
                if modes[which] == "no_stop_inside" {
                    continue;
                }
                let millis = once(&command(modes[which], &samara, dir.path(), program))?;
                if round > 0 {
                    times[which].push(millis);
                }
                if round > 0 && modes[which] == "no_stop" {
                    times[which + 1].push(inside(dir.path())?);
                }
            }
            bar.inc(u64::from(round > 0));
        }
        rows.extend(modes.iter().zip(times).map(|(mode, times)| Row {
            suite: "overhead",
            case: (*name).to_owned(),
            n: *n,
            subject: (*mode).to_owned(),
            sample: Sample::new(times),
            unit: "ms",
            threads: None,
        }));
    }
    bar.finish_and_clear();
    if args.json {
        rows.iter().for_each(|row| println!("{}", row.json()));
    } else {
        print!("{}", table(&rows, modes[modes.len() - 1]));
    }
    Ok(())
}

/// A case: its name, its number of calls, programs or files, and its command line.
type Program = (&'static str, usize, Vec<OsString>);

/// The programs to run.
fn programs(args: &Args, mmap_loop: &Path, spawn: &Path, dir: &Path) -> Result<Vec<Program>, String> {
    let line = |words: &[&dyn AsRef<OsStr>]| words.iter().map(|word| word.as_ref().to_owned()).collect::<Vec<_>>();
    let pairs = args.pairs.to_string();
    // With fewer calls, the start of a process still costs little in comparison.
    let few = (args.pairs / 10).max(1);
    let mut programs = vec![
        ("mmap_loop", args.pairs, line(&[&mmap_loop, &pairs])),
        ("mmap_threads_8", 8 * args.pairs, line(&[&mmap_loop, &pairs, &"8"])),
        ("mmap_processes_16", 16 * few, line(&[&spawn, &"16", &"16", &mmap_loop, &few.to_string()])),
        ("spawn_exec", SPAWNS, line(&[&spawn, &SPAWNS.to_string(), &"1", &"true"])),
    ];
    if runs("make", "--version") && runs("cc", "--version") {
        let sources = dir.join("project");
        project(&sources).map_err(|error| format!("the C project cannot be written: {error}"))?;
        programs.push(("make_j2", UNITS, line(&[&"make", &"-B", &"-s", &"-j2", &"-C", &sources])));
    } else {
        eprintln!("skipped: make and a C compiler are not installed");
    }
    if runs("java", "-version") {
        programs.push(("java_version", 1, line(&[&"java", &"-version"])));
    } else {
        eprintln!("skipped: java is not installed");
    }
    Ok(programs)
}

/// Writes a small C project: [`UNITS`] files of some functions each, and a makefile that makes one
/// program of them.
fn project(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut main = String::from("int main(void) { int sum = 0;\n");
    let mut declared = String::new();
    for unit in 0..UNITS {
        let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
        for f in 0..FUNCTIONS {
            text += &format!(
                "int f{unit}_{f}(int n) {{ char s[64]; int sum = 0; for (int i = 0; i < n; i++) {{ \
                 snprintf(s, sizeof s, \"%d\", i * {f}); sum += (int)strlen(s); }} return sum; }}\n"
            );
        }
        std::fs::write(dir.join(format!("unit{unit}.c")), text)?;
        declared += &format!("int f{unit}_0(int);\n");
        main += &format!("sum += f{unit}_0(3);\n");
    }
    std::fs::write(dir.join("main.c"), format!("{declared}{main}return sum == 0; }}\n"))?;
    let objects: Vec<String> = (0..UNITS).map(|unit| format!("unit{unit}.o")).collect();
    let rules = format!("prog: main.o {}\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n", objects.join(" "));
    std::fs::write(dir.join("Makefile"), rules)
}

fn runs(program: &str, version: &str) -> bool {
    let done =
        Command::new(program).arg(version).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// The command line that runs `program` in this mode.
fn command(mode: &str, samara: &Path, dir: &Path, program: &[OsString]) -> Vec<OsString> {
    let mut line: Vec<OsString> = match mode {
        "samara" => vec![
            samara.into(),
            "trace".into(),
            "--quiet".into(),
            "-o".into(),
            dir.join("trace.samara").into(),
            "--".into(),
        ],
        "no_stop" => vec![
            samara.into(),
            "trace".into(),
            "--no-stop".into(),
            "--quiet".into(),
            "-o".into(),
            dir.join("trace.samara").into(),
            "--summary-json".into(),
            dir.join("summary.json").into(),
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

/// How long the program ran that was recorded last, in milliseconds.
fn inside(dir: &Path) -> Result<f64, String> {
    let text = std::fs::read(dir.join("summary.json")).map_err(|error| format!("no summary: {error}"))?;
    let summary: serde_json::Value = serde_json::from_slice(&text).map_err(|error| format!("the summary: {error}"))?;
    let nanos = summary["program_ns"].as_u64().ok_or("the summary has no program_ns")?;
    Ok(nanos as f64 / 1e6)
}

/// Runs a command line once, and returns the milliseconds.
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
