//! The sink of `trace`: passes events on to the file, and early signals to the recorder. Says on
//! standard error when the recording begins: how the process is recorded, and with `--start-on` or
//! `--stop-on` the signals to send, and when they came.

use std::io::Write as _;

use samara_record::Signal;
use samara_trace::FileSink;
use samara_trace::event::Event;
use samara_trace::{Sink, SinkError};

use super::early::Early;
use crate::output::{BOLD, styled};

pub(super) struct CommandSink<'a> {
    pub(super) sink: &'a mut FileSink,
    pub(super) early: &'a Early,
    pub(super) start_on: Option<Signal>,
    pub(super) stop_on: Option<Signal>,
    pub(super) quiet: bool,
    /// Called when the recording begins, unless it is quiet.
    pub(super) ready: Option<&'a dyn Fn()>,
}

impl CommandSink<'_> {
    /// The same sink, which calls `ready` when the recording begins.
    pub(super) fn with_ready<'b>(&'b mut self, ready: &'b dyn Fn()) -> CommandSink<'b> {
        let CommandSink { early, start_on, stop_on, quiet, .. } = *self;
        CommandSink { sink: self.sink, early, start_on, stop_on, quiet, ready: Some(ready) }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            // A closed standard error cannot show the message.
            let _ = writeln!(anstream::stderr(), "{} {text}", styled(BOLD, "samara:"));
        }
    }
}

impl Sink for CommandSink<'_> {
    fn ready(&mut self) {
        if let Some(ready) = self.ready.filter(|_| !self.quiet) {
            ready();
        }
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
