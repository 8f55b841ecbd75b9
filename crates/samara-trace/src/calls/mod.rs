//! The table of system calls that matter to a recording.
//!
//! A row has everything about a call except its rules: numbers, name, arguments, what it does to
//! areas and how far it reaches, how the model follows it, whether the engine in charge decides it,
//! whether it may block, whether it leaves something behind when it fails. The filter, the decoder,
//! the names, the printed arguments and the calls that can be made to fail are read from here. The
//! rules are in `samara_mm::linux`; numbers and names of the calls in its table are taken from
//! there.
//!
//! - `row`: what a row can say;
//! - `table`: the rows;
//! - `names`: names and arguments, for printing;
//! - `numbers`: the three call tables of the kernel.
//!
//! Neighbours: `arch` decodes calls; `space` applies them.

mod names;
mod numbers;
mod row;
mod table;

use std::fmt;

pub use names::{Kind, option_name, signature};
pub use names::{failed_with, failing, fails_by_rate, name, row_of};
pub use numbers::{Abi, IPC, Number, count, numbers};
use row::Effect;
pub use row::{ModelFollows, Place, Reach, Reads, Row, Sets, When};
pub use table::Call;
use table::TABLE;

/// The name in texts of events.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::PrSetVma | Call::PrSetMm | Call::PrSetMdwe | Call::PrSetMemoryMerge => f.write_str("prctl"),
            Call::Seccomp | Call::PrSetSeccomp => f.write_str("seccomp"),
            other => f.write_str(other.row().name.unwrap_or("a call")),
        }
    }
}

impl Call {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Makes a process or a thread: reported by ptrace events, not by its return.
    pub fn makes_task(self) -> bool {
        matches!(self.row().effect, Effect::Task | Effect::TaskAndWait)
    }

    /// Its arguments do not show its range, so the recorder reads the whole space from the kernel.
    pub fn is_wide(self) -> bool {
        self.row().effect == Effect::Wide
    }

    /// It stops for reasons other than the space: it waits for no call, and no call waits for it.
    pub fn stays_out(self) -> bool {
        matches!(self.row().effect, Effect::Exec | Effect::TaskAndWait | Effect::None)
    }

    /// It loads a program.
    pub fn execs(self) -> bool {
        self.row().effect == Effect::Exec
    }

    /// It sets memory policies.
    pub fn sets_policies(self) -> bool {
        self.row().sets == Sets::Policy
    }

    /// It sets a seccomp filter of the program's own.
    pub fn sets_filter(self) -> bool {
        matches!(self, Call::Seccomp | Call::PrSetSeccomp)
    }

    /// It may wait for another thread of the program (page faults that a userfaultfd thread serves,
    /// a parent that waits for its vfork child), so no other thread is held while it runs.
    pub fn may_block(self, args: &[u64; 6]) -> bool {
        self.row().blocks.holds(args)
    }

    /// It brings pages in or moves them, which may fail for reasons other than the areas.
    pub fn needs_pages(self, args: &[u64; 6]) -> bool {
        self.row().pages.holds(args)
    }

    /// The place to which it maps or moves memory, as its arguments say it.
    pub fn place(self) -> Option<&'static Place> {
        match &self.row().reach {
            Reach::Maps(place) | Reach::Moves(place) => Some(place),
            _ => None,
        }
    }

    /// The program's memory that it reads: address and length.
    pub fn reads(self, args: &[u64; 6]) -> Option<(u64, u64)> {
        match self.row().reads {
            Reads::Nothing => None,
            Reads::Detail(at) | Reads::Request(at) => Some(at(args)),
        }
    }
}

#[cfg(test)]
mod tests;
