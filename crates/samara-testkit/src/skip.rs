//! Reports a test, or a part of one, that cannot run on this machine.
//!
//! `cargo test` shows what a passing test prints only with `--nocapture`, so a skipped test would
//! look like one that ran. libtest captures the print macros alone; [`skipped`] writes to standard
//! error itself. Test programs of other crates include this file by its path: a dependency on the
//! test kit would build `samara` with its test features.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The reasons that this process has reported.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says on the terminal what is skipped and why. Each reason appears once per process, with the
/// name of the first test that had it.
pub fn skipped(why: impl Display) {
    let why = why.to_string();
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !reported.insert(why.clone()) {
        return;
    }
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").map(|name| format!("{name}: ")).unwrap_or_default();
    // One write, so that the lines of several threads do not mix. Without a standard error there
    // is no reader.
    let _ = std::io::stderr().write_all(format!("\nskipped: {test}{why}\n").as_bytes());
}
