//! `samara top`, in a terminal.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use nix::libc;

use crate::samples::{run, said, stderr, trace};
use crate::skip::skipped;
use crate::terminal::{Terminal, run_in_closed};

const SIZE: (u16, u16) = (24, 80);
const LEFT: &str = "\x1b[D";
const RIGHT: &str = "\x1b[C";
const HOME: &str = "\x1b[H";
const END: &str = "\x1b[F";

fn kill(pid: i32, signal: i32) {
    // SAFETY: both are numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn without_a_terminal_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    for args in [&["top", "t.samara"][..], &["top", "--", "true"]] {
        let output = run(dir.path(), args);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(stderr(&output).contains("standard output is no terminal"), "{}", said(&output));
    }
}

#[test]
fn a_program_is_watched_beyond_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let script = "read line && echo read; tty; echo to stderr >&2; exit 3";
    let args = ["top", "--output-of-program", "out.txt", "-o", "t.samara", "--", "sh", "-c", script];
    let mut terminal = Terminal::run(dir.path(), SIZE, &args, &[]);
    terminal.shows(&["samara top: ended with 3 after", ": sh -c ", "calls/s", " mmap", "near its peak"]);
    terminal.types("2");
    terminal.shows(&["splits/s", "the start of the program", "areas are those of process"]);
    terminal.types("\t");
    terminal.shows(&["fewer why there are so many areas"]);
    terminal.types("4");
    terminal.shows(&["took", "process and call", "calls that returned in the last 10 seconds"]);
    terminal.types("5");
    terminal.shows(&["boundaries", "alone", "protection"]);
    terminal.types("\r");
    terminal.shows(&["samara show FILE --reasons"]);
    terminal.types("?");
    terminal.shows(&["everything about the row"]);
    terminal.types("?\x1b");
    terminal.until("the table", |screen| !screen.contains("--reasons") && screen.contains("alone"));
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.shows(&[
        "samara: sh -c ",
        "ended with 3 after",
        "printed    out.txt",
        "trace      t.samara",
        "why t.samara",
    ]);
    let printed = std::fs::read_to_string(dir.path().join("out.txt")).unwrap();
    assert_eq!(printed, "not a tty\nto stderr\n", "it has no terminal");
    for name in ["out.txt", "t.samara"] {
        let mode = dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}: {mode:o}");
    }
    let summary = run(dir.path(), &["summary", "t.samara"]);
    assert!(summary.status.success(), "{}", said(&summary));
}

/// Makes guards, prints, and waits for a signal.
const GUARDS: &str = "
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) static void guard(char *page) { if (mprotect(page, 4096, PROT_NONE)) exit(1); }
int main(void) {
    char *pool = mmap(0, 500 * 20480, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 500; i++) guard(pool + i * 20480 + 16384);
    puts(\"guarded\");
    fflush(stdout);
    for (;;) pause();
}
";

/// Compiles the program; `false` without a compiler.
fn guards(dir: &Path) -> bool {
    std::fs::write(dir.join("guards.c"), GUARDS).unwrap();
    let made = Command::new("cc").args(["-g", "-O1", "-o", "guards", "guards.c"]).current_dir(dir).status();
    made.is_ok_and(|made| made.success())
}

#[test]
fn a_program_that_runs_is_asked_to_end() {
    let dir = tempfile::tempdir().unwrap();
    if !guards(dir.path()) {
        return skipped(format_args!("a_program_that_runs_is_asked_to_end: no C compiler (cc)"));
    }
    let mut terminal = Terminal::run(dir.path(), (30, 110), &["top", "--stacks", "--", "./guards"], &[]);
    terminal.shows(&["running for ", "why       kept apart: 1,001 areas with 500 guards of 4 KiB"]);
    terminal.types("2");
    // Its functions have no names yet.
    let screen = terminal.until("the place", |screen| screen.contains("mprotect(0x") && screen.contains("guards+0x"));
    assert!(screen.contains("1,0"), "areas, of the limit: {screen}");
    terminal.types("3\r");
    terminal.shows(&["changed by  500 times mprotect(", "made by", "guards+0x"]);
    terminal.types("\x1bq");
    terminal.shows(&["SIGTERM was sent to the program; q again kills it"]);
    assert_eq!(terminal.ends().code(), Some(0));
    let screen = terminal.shows(&["./guards ended by SIGTERM after", "printed    "]);
    let path = screen.split("printed    ").nth(1).unwrap().split(" (").next().unwrap().trim();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "guarded\n");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_program_that_will_not_end_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM INT; echo $$ >pid; while :; do sleep 0.1; done";
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--", "sh", "-c", script], &[]);
    terminal
        .until("its number", |_| std::fs::read_to_string(dir.path().join("pid")).is_ok_and(|pid| pid.ends_with('\n')));
    terminal.types("\x03");
    terminal.shows(&["SIGINT was sent to the program"]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    // On a very busy machine its end may come too late, and samara ends before it.
    let told = |screen: &str| screen.contains("ended by SIGKILL") || screen.contains("it is killed");
    terminal.until("its end", told);
    assert!(!terminal.screen().contains("printed"), "nothing was printed, and no file is left");
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
    terminal.until("its death", |_| !Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--", "sleep", "1000"], &[]);
        terminal.shows(&["running for ", "mmap"]);
        kill(terminal.pid(), signal);
        assert_eq!(terminal.ends().signal(), Some(signal));
        terminal.shows(&["sleep 1000 ended by SIG"]);
    }
    trace(dir.path());
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "t.samara"], &[]);
    terminal.shows(&["mmap"]);
    kill(terminal.pid(), libc::SIGTERM);
    assert_eq!(terminal.ends().signal(), Some(libc::SIGTERM));
}

#[test]
fn a_program_that_stops_stops_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo >stopped; kill -STOP $$; echo went on >&2; exit 5";
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--", "sh", "-c", script], &[]);
    terminal.until("its stop", |_| dir.path().join("stopped").exists());
    terminal.types("5");
    terminal.shows(&["running for ", "boundaries     alone"]);
    terminal.types(" ");
    terminal.shows(&["the view is paused"]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.shows(&["ended by SIGTERM"]);
}

#[test]
fn it_stops_as_a_job_does_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "t.samara"], &[]);
    terminal.shows(&["11 of 11 events"]);
    terminal.types("\x1a");
    let stat = format!("/proc/{}/stat", terminal.pid());
    terminal.until("its stop", |_| std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")));
    assert!(terminal.is_as_before(), "the settings of the terminal");
    terminal.until("the first screen", |screen| !screen.contains("events"));
    kill(terminal.pid(), libc::SIGCONT);
    terminal.shows(&["11 of 11 events", "munmap"]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
}

#[test]
fn a_program_that_is_not_there_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "-o", "t.samara", "--", "no-such-program"], &[]);
    assert_eq!(terminal.ends().code(), Some(127));
    terminal.shows(&["no-such-program: program not found"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // Older files are put back.
    let files = ["out.txt", "t.samara"].map(|name| dir.path().join(name));
    files.iter().for_each(|file| std::fs::write(file, "older").unwrap());
    let args = ["top", "-o", "t.samara", "--output-of-program", "out.txt", "--", "no-such-program"];
    assert_eq!(Terminal::run(dir.path(), SIZE, &args, &[]).ends().code(), Some(127));
    files.iter().for_each(|file| assert_eq!(std::fs::read_to_string(file).unwrap(), "older"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    // Two names of one file, there or not.
    for (trace, printed) in [("new", "./new"), ("out.txt", "./out.txt")] {
        let args = ["top", "-o", trace, "--output-of-program", printed, "--", "true"];
        let mut terminal = Terminal::run(dir.path(), SIZE, &args, &[]);
        assert_eq!(terminal.ends().code(), Some(2));
        terminal.shows(&["cannot be written to one file"]);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// A FIFO is opened once: its reader gets the whole trace.
#[test]
fn a_trace_goes_to_a_pipe_beside_what_the_program_prints() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
    let args = ["top", "-o", "pipe", "--output-of-program", "out.txt", "--", "sh", "-c", "echo said; exit 3"];
    let mut terminal = Terminal::run(dir.path(), SIZE, &args, &[]);
    terminal.shows(&["samara top: ended with 3 after"]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    std::fs::write(dir.path().join("t.samara"), reader.join().unwrap()).unwrap();
    let output = run(dir.path(), &["summary", "t.samara"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(std::fs::read_to_string(dir.path().join("out.txt")).unwrap(), "said\n");
}

#[test]
fn a_trace_is_played_to_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "t.samara"], &[]);
    terminal.shows(&["paused, at 10.0 ms of 10.0 ms, 11 of 11 events"]);
    terminal.types(HOME);
    terminal.shows(&["at 1.50 us of", "2 areas", "1 of 11 events"]);
    for (key, shown) in [(".", "2 of 11"), (".", "3 of 11"), (",", "2 of 11"), (END, "11 of 11"), (LEFT, "10 of 11")] {
        terminal.types(key);
        terminal.shows(&[shown]);
    }
    terminal.types(&format!("{HOME}+"));
    terminal.types(RIGHT);
    terminal.shows(&["paused, at 202 us of"]);
    terminal.types(" ");
    terminal.shows(&["11 of 11 events"]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));

    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--at", "6", "t.samara"], &[]);
    terminal.shows(&["paused, at 6.00 ms of", "7 of 11 events"]);
    terminal.types("5");
    let screen = terminal.shows(&["protection", "anonymous-identity"]);
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("top-of-a-trace", lines.join("\n"));
    terminal.types("q");
    terminal.ends();
    assert!(!terminal.bytes().contains("\x1b[31mm"), "what a program chose does no harm");
}

#[test]
fn small_terminals_and_other_sizes() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    for size in [(1, 1), (2, 10), (5, 20), (10, 40), (24, 300)] {
        let mut terminal = Terminal::run(dir.path(), size, &["top", "t.samara"], &[]);
        terminal.until("anything", |screen| !screen.trim().is_empty());
        terminal.types("2\r?jjj??\x1b\x1b3\x1b[6~\x1b[5~srsr");
        terminal.resize(24, 80);
        terminal.shows(&[": prog", "3 verdicts", "q quit"]);
        terminal.resize(size.0, size.1);
        terminal.types_until_it_ends("q");
        assert_eq!(terminal.ends().code(), Some(0));
    }
}

#[test]
fn without_colours() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path());
    for (environment, has) in [(&[("NO_COLOR", "1")][..], false), (&[], true)] {
        let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "t.samara"], environment);
        terminal.shows(&["11 of 11 events", "mmap"]);
        terminal.types("q");
        terminal.ends();
        let bytes = terminal.bytes();
        assert_eq!(bytes.contains("\x1b[38;5;") || bytes.contains("\x1b[36"), has, "{bytes:?}");
    }
}

#[test]
fn a_damaged_trace_is_shown_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = trace(dir.path());
    std::fs::write(path, &bytes[..bytes.len() - 20]).unwrap();
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "t.samara"], &[]);
    terminal.shows(&["paused, at "]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(3));
    terminal.shows(&["t.samara: "]);
}

#[test]
fn a_terminal_that_is_closed_ends_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let pid = || std::fs::read_to_string(&file).ok().filter(|pid| pid.ends_with('\n'));
    // Samara gets a signal, or has only the error; the program ends by the signal, or will not.
    for (signal, script) in
        [(true, "echo $$ >pid; exec sleep 1000"), (false, "trap '' HUP; echo $$ >pid; while :; do sleep 0.1; done")]
    {
        let _ = std::fs::remove_file(&file);
        let args = ["top", "-o", "t.samara", "--", "sh", "-c", script];
        let status = run_in_closed(dir.path(), signal, &args, || {
            while pid().is_none() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(status.signal(), Some(libc::SIGHUP), "{status}");
        let process = Path::new("/proc").join(pid().unwrap().trim());
        while process.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let summary = run(dir.path(), &["summary", "t.samara"]);
        assert!(summary.status.success(), "the trace is whole: {}", said(&summary));
    }
}
