//! A refused call: why, and what it had done.

use crate::errno::Errno;
use crate::space::plan::Plan;
use core::fmt;

/// A refused call: why, and what it did before it was refused.
///
/// Linux leaves partial effects behind in a few cases (a hole in the middle of `mprotect`'s range,
/// for one); they are reproduced, and `done` says what they are. In all other cases `done` is empty
/// and the space is as it was, but for the anonymous identities of memory that the call wrote to
/// before it was refused: a [`Plan`] does not tell those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Why.
    pub errno: Errno,
    /// What was done all the same.
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
