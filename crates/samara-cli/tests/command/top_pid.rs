//! `samara top --pid`, in a terminal: the process goes on, however the view is left.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Duration;

use nix::libc;

use crate::attach::Subject;
use crate::samples::{run, said, stderr, stdout};
use crate::terminal::{Terminal, run_in_closed};

const SIZE: (u16, u16) = (24, 80);

fn kill(pid: i32, signal: i32) {
    // SAFETY: both are numbers.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn a_process_is_watched_and_goes_on() {
    let (dir, subject) = (tempfile::tempdir().unwrap(), Subject::start());
    let pid = subject.pid();
    let args = ["top", "--pid", &pid, "--stacks", "-o", "t.samara"];
    let mut terminal = Terminal::run(dir.path(), (30, 110), &args, &[]);
    terminal.shows(&["samara top: attached for ", ": bash -c ", "calls/s", " mmap", &format!("process {pid} (bash)")]);
    terminal.types("2");
    terminal.shows(&["the start of the program", " in ld-linux-"]);
    terminal.types("\x1a");
    terminal.shows(&["samara does not stop"]);
    assert!(subject.is_traced());
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    assert!(!subject.is_traced());
    terminal.shows(&[
        &format!(
            "samara: attaching to process {pid} (bash), 1 thread: this slows down each of its system calls greatly,"
        ),
        &format!("inspect --every 1s {pid}"),
        "q lets go of it",
        "; the process goes on",
        "trace      t.samara",
        "why t.samara",
    ]);
    let summary = run(dir.path(), &["summary", "t.samara"]);
    assert!(stdout(&summary).contains("; what came later is not in the trace"), "{}", said(&summary));
    assert!(stdout(&summary).contains(" equal to /proc/PID/maps when last compared"), "{}", said(&summary));
    subject.end();
}

/// A process that does nothing. The test does not wait for its end.
struct Idle(Child);

impl Idle {
    fn start() -> Idle {
        Idle(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn status(&self, field: &str) -> String {
        let all = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        all.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim().to_owned()
    }

    /// Ends it: it must sleep, without a tracer.
    fn end(mut self) {
        assert_eq!(self.status("TracerPid:"), "0");
        while self.status("State:") != "S (sleeping)" {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.kill().unwrap();
        assert_eq!(self.0.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}

#[test]
fn an_idle_process_is_let_go_by_keys_and_signals() {
    let dir = tempfile::tempdir().unwrap();
    let leaves: [(&str, i32); 6] =
        [("q", 0), ("\x03", 0), ("", libc::SIGTERM), ("", libc::SIGHUP), ("", libc::SIGINT), ("", libc::SIGQUIT)];
    for (key, signal) in leaves {
        let idle = Idle::start();
        let pid = idle.0.id().to_string();
        let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--pid", &pid], &[]);
        terminal.shows(&["attached for ", "sleep 1000"]);
        if signal == 0 {
            terminal.types(key);
            assert_eq!(terminal.ends().code(), Some(0));
        } else {
            kill(terminal.pid(), signal);
            assert_eq!(terminal.ends().signal(), Some(signal));
        }
        terminal.shows(&["samara: sleep 1000 detached after ", "the process goes on"]);
        idle.end();
    }
}

#[test]
fn a_terminal_that_is_closed_lets_go_of_it() {
    let (dir, subject) = (tempfile::tempdir().unwrap(), Subject::start());
    // Before the view is there, and later.
    for later in [0, 1, 300] {
        let args = ["top", "--pid", &subject.pid(), "-o", "t.samara"];
        let status = run_in_closed(dir.path(), true, &args, || {
            while !subject.is_traced() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(later));
        });
        assert!(!subject.is_traced());
        // The terminal's end is seen by the signal, or by an error.
        assert_eq!(status.signal(), Some(libc::SIGHUP), "{status}");
        let summary = run(dir.path(), &["summary", "t.samara"]);
        assert!(stdout(&summary).contains("; what came later is not in the trace"), "{}", said(&summary));
    }
    subject.end();
}

#[test]
fn its_end_is_shown_and_told() {
    let (dir, mut subject) = (tempfile::tempdir().unwrap(), Subject::start());
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--pid", &subject.pid()], &[]);
    terminal.shows(&["attached for "]);
    subject.hang_up();
    terminal.shows(&["samara top: ended with 7 after"]);
    subject.end();
    terminal.types("2");
    terminal.shows(&["splits/s"]);
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.shows(&["samara: bash -c ", " ended with 7 after "]);
}

#[test]
fn what_cannot_be_watched_is_said() {
    let (dir, subject) = (tempfile::tempdir().unwrap(), Subject::start());
    let pid = subject.pid();
    let mut terminal = Terminal::run(dir.path(), SIZE, &["top", "--pid", "4294967295"], &[]);
    assert_eq!(terminal.ends().code(), Some(125));
    terminal.shows(&["there is no process 4294967295"]);
    let mut terminal =
        Terminal::run(dir.path(), SIZE, &["top", "--pid", &pid, "-o", "/no/such/directory/t.samara"], &[]);
    assert_eq!(terminal.ends().code(), Some(125));
    terminal.shows(&["the process was left alone"]);
    // Another recorder has it.
    let mut first = Terminal::run(dir.path(), SIZE, &["top", "--pid", &pid], &[]);
    first.shows(&["attached for "]);
    let mut second = Terminal::run(dir.path(), SIZE, &["top", "--pid", &pid], &[]);
    assert_eq!(second.ends().code(), Some(125));
    second.shows(&["is traced by process"]);
    first.types("q");
    assert_eq!(first.ends().code(), Some(0));
    for more in [&["t.samara"][..], &["--", "true"], &["--output-of-program", "out.txt"], &["--at", "1s"]] {
        let output = run(dir.path(), &[&["top", "--pid", &pid], more].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(stderr(&output).contains("cannot be used with"), "{}", said(&output));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    subject.end();
}
