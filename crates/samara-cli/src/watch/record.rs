//! Records a process that came near the limit, without stopping it, for a while. A second samara
//! process does it, so that its failure does not end the watch. One at a time. Knows nothing of
//! alerts.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Records processes, one at a time.
#[derive(Debug)]
pub(crate) struct Recorder {
    duration: Duration,
    running: Option<(Child, PathBuf)>,
}

impl Recorder {
    pub(crate) fn new(duration: Duration) -> Recorder {
        Recorder { duration, running: None }
    }

    /// Whether a process is recorded.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Begins to record a process to a new file of at most this many bytes, and returns at once. No
    /// other recording may run.
    pub(crate) fn start(&mut self, pid: u32, file: &Path, most_bytes: u64) -> io::Result<()> {
        let child = Command::new("/proc/self/exe")
            .args(["trace", "--no-stop", "--quiet", "--pid", &pid.to_string()])
            .args(["--for", &humantime::format_duration(self.duration).to_string()])
            .args(["--max-size", &most_bytes.to_string(), "-o"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        self.running = Some((child, file.to_owned()));
        Ok(())
    }

    /// The result of a recording that has ended: its file, or why no file exists.
    pub(crate) fn ended(&mut self) -> Option<Result<PathBuf, String>> {
        let (child, _) = self.running.as_mut()?;
        match child.try_wait() {
            Ok(None) => None,
            _ => self.result(),
        }
    }

    /// Ends a recording that is under way, and waits for its file.
    pub(crate) fn stop(&mut self) -> Option<Result<PathBuf, String>> {
        let (child, _) = self.running.as_mut()?;
        if let Ok(pid) = i32::try_from(child.id()) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        self.result()
    }

    fn result(&mut self) -> Option<Result<PathBuf, String>> {
        let (mut child, file) = self.running.take()?;
        let mut said = String::new();
        // If its output cannot be read, its status is reported.
        let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
        let ended = child.wait();
        if !matches!(&ended, Ok(status) if status.success()) {
            // A failed recording has no complete trace.
            let _ = std::fs::remove_file(&file);
        }
        match ended {
            Ok(status) if status.success() => Some(Ok(file)),
            Ok(status) if said.is_empty() => Some(Err(format!("the recorder ended with {status}"))),
            Ok(_) => Some(Err(said.lines().last().unwrap_or_default().trim_start_matches("samara: ").to_owned())),
            Err(why) => Some(Err(why.to_string())),
        }
    }
}
