//! A command that is run at each alert. It is the user's text, given to `sh`; data about the
//! process is in the environment, never in the text. Does not know the causes of alerts.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::alert::Alert;

/// Runs its second argument with its first one as the soft limit of descriptors.
const LIMITED: &str = "ulimit -S -n \"$0\"; exec /bin/sh -c \"$1\"";
/// Most commands that run at the same time.
const MOST: usize = 8;
/// Most alerts that wait until one of those commands has ended.
const WAITING: usize = 1000;
/// A command that takes longer is killed, with the processes that it started.
const LONGEST: Duration = Duration::from_secs(300);

/// The command, and where it runs.
#[derive(Debug)]
pub(crate) struct Exec {
    command: OsString,
    /// Its soft limit of descriptors; `samara watch` raises its own.
    descriptors: u64,
    running: Vec<(Child, Instant)>,
    waiting: VecDeque<Alert>,
    /// Why the last failed command failed, until `reap` returns it.
    failed: Option<String>,
}

impl Exec {
    pub(crate) fn new(command: OsString, descriptors: u64) -> Exec {
        Exec { command, descriptors, running: Vec::new(), waiting: VecDeque::new(), failed: None }
    }

    /// Runs the command now or, while eight run, later. Returns at once.
    pub(crate) fn run(&mut self, alert: Alert) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back(alert);
        } else {
            self.failed = Some(format!("was not run: {WAITING} alerts wait for it: let it end sooner"));
        }
        self.go_on();
    }

    /// Forgets ended commands, kills those that take too long, and starts waiting ones. Returns why
    /// one failed since the last call.
    pub(crate) fn reap(&mut self) -> Option<String> {
        self.go_on();
        self.failed.take()
    }

    /// Whether any run or wait.
    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    fn go_on(&mut self) {
        self.running.retain_mut(|(child, began)| {
            let ended = child.try_wait();
            let runs = matches!(ended, Ok(None));
            if let Some(status) = ended.ok().flatten().filter(|status| !status.success()) {
                self.failed = Some(format!("failed: {status}"));
            }
            if runs && began.elapsed() > LONGEST {
                end(child);
            }
            runs
        });
        while self.running.len() < MOST
            && let Some(alert) = self.waiting.pop_front()
        {
            match self.begin(&alert) {
                Ok(child) => self.running.push((child, Instant::now())),
                Err(why) => self.failed = Some(format!("was not run: {why}")),
            }
        }
    }

    fn begin(&self, alert: &Alert) -> io::Result<Child> {
        let text = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
        let descriptors = match self.descriptors {
            nix::sys::resource::RLIM_INFINITY => "unlimited".to_owned(),
            most => most.to_string(),
        };
        Command::new("/bin/sh")
            .args(["-c", LIMITED, &descriptors])
            .arg(&self.command)
            .env("SAMARA_REASON", alert.reason.to_string())
            .env("SAMARA_PID", alert.pid.to_string())
            .env("SAMARA_NAME", &alert.name)
            .env("SAMARA_AREAS", alert.areas.to_string())
            .env("SAMARA_LIMIT", alert.limit.to_string())
            .env("SAMARA_AREAS_PER_SECOND", text(alert.per_second))
            .env("SAMARA_LIMIT_IN_SECONDS", text(alert.left.map(|left| left.as_secs_f64())))
            .env("SAMARA_FILE", alert.file.as_deref().unwrap_or("".as_ref()))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(io::stderr()) // standard output has the readings
            .spawn()
    }
}

/// Kills a command and the processes that it started.
fn end(child: &Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // They may have ended by themselves.
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::alert::Reason;
    use std::path::Path;

    /// A limit that turns a hang into a message.
    const LONG: Duration = Duration::from_secs(60);

    fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(began.elapsed() < LONG, "there is no {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_command_has_the_limit_that_it_would_have_without_watch() {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let exec = Exec::new(format!("ulimit -S -n > '{}'; exit 3", said.display()).into(), 100);
        let status = exec.begin(&alert()).unwrap().wait().unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(std::fs::read_to_string(&said).unwrap().trim(), "100");
    }

    fn alert() -> Alert {
        let (name, file, rest) = (String::new(), None, None);
        Alert { reason: Reason::Growth, pid: 1, name, areas: 1, limit: 1, per_second: rest, left: None, file }
    }

    #[test]
    fn a_command_is_killed_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let exec = Exec::new(format!("sleep 1000 & echo $! > {}; wait", said.display()).into(), 1024);
        let mut child = exec.begin(&alert()).unwrap();
        let text = wait("process", || std::fs::read_to_string(&said).ok().filter(|text| text.ends_with('\n')));
        end(&child);
        assert!(!child.wait().unwrap().success());
        // It may stay as a zombie, whose memory is gone.
        let statm = Path::new("/proc").join(text.trim()).join("statm");
        wait("end of it", || std::fs::read_to_string(&statm).map_or(true, |text| text.starts_with("0 ")).then_some(()));
    }
}
