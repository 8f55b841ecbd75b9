//! Refused calls: the reason, and what the call did before.

use crate::errno::Errno;
use crate::space::plan::Plan;
use core::fmt;

/// A refused call: the reason, and what the call did before it was refused.
///
/// Linux leaves partial effects behind in a few cases, such as a hole in the middle of `mprotect`'s
/// range. The model reproduces them, and `done` lists them. In all other cases `done` is empty and
/// the space is as it was, except for the anonymous identities of memory that the call wrote to
/// before the refusal. A [`Plan`] does not list these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The reason.
    pub errno: Errno,
    /// The steps that were done before the refusal.
    pub done: Plan,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.done.len() {
            0 => fmt::Display::fmt(&self.errno, f),
            n => write!(f, "{} (after {n} steps had been done)", self.errno),
        }
    }
}

impl core::error::Error for Error {}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error { errno, done: Plan::new() }
    }
}
