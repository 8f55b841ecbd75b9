//! Receivers of a recording's events: [`Sink`], and [`FileSink`], which writes a trace file. Knows
//! no recorder.

#[cfg(target_os = "linux")]
mod file_sink;

#[cfg(target_os = "linux")]
pub use file_sink::{FileSink, Written};

use std::fmt;

use crate::event::Event;

/// Receives the events in the order of [`Event::seq`].
///
/// The recorder calls it while the traced program is stopped: hand slow work to a thread.
pub trait Sink {
    /// The recorder handles its signals from now on: `Options::start_on` and `stop_on` of
    /// `samara-record`, and those that ask it to end. Before, they have their usual effect. Called
    /// once, before any event. A program that the recorder starts has not executed any of its code
    /// yet, and a running process is not attached to yet.
    fn ready(&mut self) {}

    /// The recording has begun, because the signal of `Options::start_on` came.
    fn started(&mut self) {}

    /// Takes one event.
    ///
    /// # Errors
    /// After an error the sink gets no further event. The program goes on unharmed, and
    /// `Counters::notes` of `samara-record` says why the recording ends early.
    fn event(&mut self, event: Event) -> Result<(), SinkError>;

    /// The recording is over, although the program goes on: no event comes any more. Called once,
    /// and only if the recording is stopped by `Options::stop_on`.
    fn complete(&mut self) {}
}

/// Keeps every event in memory.
impl Sink for Vec<Event> {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.push(event);
        Ok(())
    }
}

/// Drops every event, for callers that want only the recorder's totals.
impl Sink for () {
    fn event(&mut self, _: Event) -> Result<(), SinkError> {
        Ok(())
    }
}

/// The reason why a sink takes no more events.
#[derive(Debug)]
pub struct SinkError(String);

impl SinkError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        SinkError(text.into())
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SinkError {}

impl From<std::io::Error> for SinkError {
    fn from(error: std::io::Error) -> Self {
        SinkError(error.to_string())
    }
}
