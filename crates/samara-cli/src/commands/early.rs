//! Handles signals that ask samara to end during its start: from before an older file is moved
//! aside until a recorder handles signals. By default a signal would end samara in between, and the
//! older file would stay under another name.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::{Signal, raise};
use signal_hook::low_level::emulate_default_handler;

/// Watches these signals. Dropping it restores their defaults.
#[derive(Debug, Default)]
pub(crate) struct Early {
    /// The last signal that came; 0 for none. Relaxed, like the other: they guard no data.
    came: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Early {
    /// Watches from now on. Signals that are ignored stay ignored, for the program too.
    pub(super) fn watch() -> Early {
        let early = Early::default();
        let ends = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP].map(|signal| signal as i32);
        let ignored = ignored();
        for signal in ends.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            // If that fails, the signal ends samara as usual. The handler that notes it comes
            // first, so no signal is lost.
            let noted = signal_hook::flag::register_usize(signal, Arc::clone(&early.came), signal as usize);
            let Ok(noted) = noted else { continue };
            if signal_hook::flag::register_conditional_default(signal, Arc::clone(&early.is_over)).is_err() {
                signal_hook::low_level::unregister(noted);
            }
        }
        early
    }

    /// Whether one came.
    pub(super) fn has_come(&self) -> bool {
        self.came.load(Ordering::Relaxed) != 0
    }

    /// The signal that came, once.
    pub(crate) fn take(&self) -> Option<Signal> {
        Signal::try_from(i32::try_from(self.came.swap(0, Ordering::Relaxed)).ok()?).ok()
    }

    /// Ends samara by the signal that came.
    pub(super) fn end(self) -> ExitCode {
        let signal = self.take().map_or(0, |signal| signal as i32);
        drop(self);
        // It returns only for signals that it does not know.
        let _ = emulate_default_handler(signal);
        ExitCode::from((128 + signal) as u8)
    }

    /// Asks the recorder to end the recording, if a signal came. The recorder handles signals by
    /// now.
    pub(super) fn pass_on(&self) {
        if self.take().is_some() {
            // The terminal's signals are for the program, and are not passed on.
            let _ = raise(Signal::SIGTERM);
        }
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The signals that this process ignores, one bit each.
pub(super) fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
