//! Prints lines on a thread of its own, so a pipe that is full holds up no reading of processes.
//! Does not know what the lines say.

use std::io::{self, Write};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines that wait for the reader; further ones are left out.
const WAITING: usize = 64;
/// At the end, the reader has this long for the lines that wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Standard output.
#[derive(Debug)]
pub(crate) struct Lines {
    /// `None`: it cannot be written any more.
    to: Option<SyncSender<String>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl Lines {
    /// # Errors
    /// No thread can be made.
    pub(crate) fn new() -> io::Result<Lines> {
        let (to, lines) = mpsc::sync_channel::<String>(WAITING);
        let writer = std::thread::Builder::new().name("samara-lines".into()).spawn(move || {
            lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush()))
        })?;
        Ok(Lines { to: Some(to), writer: Some(writer) })
    }

    /// Prints a line. False: the line is left out, because 64 lines wait already.
    ///
    /// # Errors
    /// An earlier line could not be written. Only the first call after that returns the error;
    /// later lines are left out.
    pub(crate) fn print(&mut self, line: String) -> io::Result<bool> {
        let Some(to) = &self.to else { return Ok(true) };
        match to.try_send(line) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => {
                self.to = None;
                let ended = self.writer.take().and_then(|writer| writer.join().ok());
                ended.unwrap_or(Ok(())).map(|()| true)
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.to = None;
        let began = Instant::now();
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && began.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
