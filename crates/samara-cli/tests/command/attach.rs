//! `samara trace --pid`: the process goes on, exit codes, messages, the summary, wrong usage.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::samples::{run, said, samara, stderr, stdout};

/// Maps and unmaps, for as long as it has an input; then it ends with 7.
const PROGRAM: &str = "while read -t 0.01 line; test $? -gt 128; do /bin/true; done; exit 7";

pub(crate) struct Subject(Child);

impl Subject {
    pub(crate) fn start() -> Subject {
        let mut command = Command::new("bash");
        let subject = Subject(command.args(["-c", PROGRAM]).stdin(Stdio::piped()).spawn().unwrap());
        // It may have its name a moment later.
        while std::fs::read_to_string(format!("/proc/{}/comm", subject.pid())).unwrap() != "bash\n" {
            std::thread::sleep(Duration::from_millis(1));
        }
        subject
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }

    pub(crate) fn is_traced(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    }

    /// Takes its input away: it ends soon.
    pub(crate) fn hang_up(&mut self) {
        drop(self.0.stdin.take());
    }

    /// Ends it: it must not have ended otherwise before.
    pub(crate) fn end(mut self) {
        self.hang_up();
        assert_eq!(self.0.wait().unwrap().code(), Some(7));
    }
}

fn json(dir: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.join("s.json")).unwrap()).unwrap()
}

#[test]
fn a_process_is_recorded_for_a_time() {
    let (dir, subject) = (tempfile::tempdir().unwrap(), Subject::start());
    let pid = subject.pid();
    let output = run(dir.path(), &["trace", "--exact", "--pid", &pid, "--for", "300ms", "--summary-json", "s.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!subject.is_traced());
    let text = stderr(&output);
    assert!(
        text.starts_with(&format!(
            "samara: attaching to process {pid} (bash), 1 thread: this slows down each of its system calls greatly,"
        )),
        "{text}"
    );
    assert!(text.contains(&format!("inspect --every 1s {pid}\n")), "the way without that cost: {text}");
    assert!(text.contains("let go after 300ms, or by ^C"), "{text}");
    assert!(text.contains("detached after ") && text.contains("; the process goes on"), "{text}");
    let told = json(dir.path());
    assert_eq!((&told["exit_code"], &told["differences"]), (&serde_json::Value::Null, &0.into()), "{told}");
    assert!(told["processes"].as_u64().is_some_and(|n| n > 1) && told["execs"].as_u64().is_some_and(|n| n > 0));
    // The file by its default name, read by the other commands.
    let file = format!("bash-{pid}.samara");
    let summary = run(dir.path(), &["summary", &file]);
    assert!(stdout(&summary).contains("; what came later is not in the trace; recorded at"), "{}", said(&summary));
    let events = stdout(&run(dir.path(), &["events", &file]));
    assert!(events.lines().next().is_some_and(|line| line.contains("  found ") && line.contains("bash: ")), "{events}");
    let first = stdout(&run(dir.path(), &["show", &file, "--at", "0"]));
    let now = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert_eq!(first.lines().next(), now.lines().next());
    let address = now.split('-').next().unwrap();
    let who = stdout(&run(dir.path(), &["who", &file, address]));
    assert!(who.contains("found"), "{who}");
    subject.end();
}

#[test]
fn a_signal_lets_go_of_it() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["TERM", "HUP", "TERM"] {
        let subject = Subject::start();
        // A signal that was ignored when the tests started, as SIGHUP under `nohup`, does not end a
        // recorder.
        let mut command = Command::new("env");
        let recorder = command.current_dir(dir.path()).stdin(Stdio::null()).args([
            "--default-signal",
            env!("CARGO_BIN_EXE_samara"),
            "trace",
            "--exact",
            "--pid",
            &subject.pid(),
            "--fail-if",
            "calls.mmap.count > 99999",
        ]);
        let recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
        while !subject.is_traced() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sent = Command::new("kill").args([&format!("-{signal}"), &recorder.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = recorder.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(
            stderr(&output).contains("or by ^C") || stderr(&output).contains("\n  ^C lets go of it"),
            "{}",
            said(&output)
        );
        assert!(!subject.is_traced());
        subject.end();
    }
}

#[test]
fn its_end_is_told_and_no_failure() {
    let (dir, mut subject) = (tempfile::tempdir().unwrap(), Subject::start());
    let mut command = samara();
    let recorder =
        command.current_dir(dir.path()).args(["trace", "--exact", "--pid", &subject.pid(), "--summary-json", "s.json"]);
    let recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    while !subject.is_traced() {
        std::thread::sleep(Duration::from_millis(1));
    }
    subject.hang_up();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!((output.status.code(), json(dir.path())["exit_code"].as_i64()), (Some(0), Some(7)), "{}", said(&output));
    assert!(stderr(&output).contains(" ended with 7 after "), "{}", said(&output));
    subject.end();
    // A condition.
    let subject = Subject::start();
    let pid = subject.pid();
    let output =
        run(dir.path(), &["trace", "-q", "--exact", "--pid", &pid, "--for", "1ms", "--fail-if", "areas_peak > 3"]);
    assert_eq!(output.status.code(), Some(123), "{}", said(&output));
    subject.end();
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let (dir, subject) = (tempfile::tempdir().unwrap(), Subject::start());
    for (pid, text) in [
        ("4294967295", "there is no process 4294967295"),
        ("0", "there is no process 0"),
        ("2", "thread of the kernel"),
    ] {
        let output = run(dir.path(), &["trace", "--pid", pid]);
        // In a container process 2 may be an ordinary one, or none.
        if pid == "2" && !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            continue;
        }
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        assert!(stderr(&output).contains(text) && stderr(&output).lines().count() == 1, "{}", said(&output));
    }
    // Nothing is written, and the process is left alone.
    let output = run(dir.path(), &["trace", "--pid", &subject.pid(), "-o", "/no/such/directory/t.samara"]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(stderr(&output).contains("the process was left alone"), "{}", said(&output));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    subject.end();
}
