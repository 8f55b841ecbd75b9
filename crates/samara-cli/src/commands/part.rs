//! Prints messages on standard error when a part of a run is recorded (`--start-on`, `--stop-on`):
//! the signals to send, and their target; the start and the end of the recording.

use std::io::Write as _;

use samara_record::Signal;
use samara_trace::FileSink;
use samara_trace::event::Event;
use samara_trace::{Sink, SinkError};

use super::early::Early;
use crate::output::{BOLD, styled};

/// Passes everything on to the file.
pub(super) struct Part<'a> {
    pub(super) sink: &'a mut FileSink,
    pub(super) early: &'a Early,
    pub(super) start_on: Option<Signal>,
    pub(super) stop_on: Option<Signal>,
    pub(super) quiet: bool,
}

impl Part<'_> {
    fn say(&self, text: &str) {
        if !self.quiet {
            // A closed standard error cannot show the message.
            let _ = writeln!(anstream::stderr(), "{} {text}", styled(BOLD, "samara:"));
        }
    }
}

impl Sink for Part<'_> {
    fn ready(&mut self) {
        self.early.pass_on();
        let pid = std::process::id();
        let start = self.start_on.map(|signal| format!("records nothing until kill -{signal} {pid}"));
        let stop = self.stop_on.map(|signal| format!("records until kill -{signal} {pid}"));
        let text: Vec<String> = start.into_iter().chain(stop).collect();
        if !text.is_empty() {
            self.say(&text.join(", then "));
        }
    }

    fn started(&mut self) {
        if let Some(signal) = self.start_on {
            self.say(&format!("{signal} came: records from now on"));
        }
    }

    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.sink.event(event)
    }

    fn complete(&mut self) {
        self.sink.complete();
        if let Some(signal) = self.stop_on {
            self.say(&format!("{signal} came: records no more, and the program goes on"));
        }
    }
}
