//! A command that is run at each alert. It is the user's text, given to `sh`; data about the
//! process is in the environment, never in the text. Does not know the causes of alerts.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::alert::Alert;

/// Commands that run at the same time.
const MOST: usize = 8;
/// A command that takes longer is ended.
const LONGEST: Duration = Duration::from_secs(300);

/// The command, and where it runs.
#[derive(Debug)]
pub(crate) struct Exec {
    command: OsString,
    running: Vec<(Child, Instant)>,
    /// The status of the last one that failed, until it is asked for.
    failed: Option<ExitStatus>,
}

impl Exec {
    pub(crate) fn new(command: OsString) -> Exec {
        Exec { command, running: Vec::new(), failed: None }
    }

    /// Runs it. Nothing waits for it.
    pub(crate) fn run(&mut self, alert: &Alert) -> io::Result<()> {
        self.forget();
        if self.running.len() >= MOST {
            return Err(io::Error::other(format!("{MOST} of them run already: let it end sooner")));
        }
        let text = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
        let child = Command::new("/bin/sh")
            .arg("-c")
            .arg(&self.command)
            .env("SAMARA_REASON", alert.reason.to_string())
            .env("SAMARA_PID", alert.pid.to_string())
            .env("SAMARA_NAME", &alert.name)
            .env("SAMARA_AREAS", alert.areas.to_string())
            .env("SAMARA_LIMIT", alert.limit.to_string())
            .env("SAMARA_AREAS_PER_SECOND", text(alert.per_second))
            .env("SAMARA_LIMIT_IN_SECONDS", text(alert.left.map(|left| left.as_secs_f64())))
            .env("SAMARA_FILE", alert.file.as_deref().unwrap_or("".as_ref()))
            .stdin(Stdio::null())
            .stdout(io::stderr()) // standard output has the readings
            .spawn()?;
        self.running.push((child, Instant::now()));
        Ok(())
    }

    /// Forgets those that have ended, and ends those that take too long. Returns the status of one
    /// that failed since the last call.
    pub(crate) fn reap(&mut self) -> Option<ExitStatus> {
        self.forget();
        self.failed.take()
    }

    fn forget(&mut self) {
        self.running.retain_mut(|(child, began)| {
            let ended = child.try_wait();
            let runs = matches!(ended, Ok(None));
            self.failed = ended.ok().flatten().filter(|status| !status.success()).or(self.failed);
            if runs && began.elapsed() > LONGEST {
                // It may have ended by itself.
                let _ = child.kill();
            }
            runs
        });
    }

    /// Waits for those that run. Returns the status of one that failed.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        for (child, _) in &mut self.running {
            self.failed = child.wait().ok().filter(|status| !status.success()).or(self.failed);
        }
        self.running.clear();
        self.failed.take()
    }
}
