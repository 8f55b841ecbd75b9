//! What threads did at the same time, for people. Knows no rules.

use crate::order::Event;
use samara_probe::op::Op;
use samara_probe::print::{Code, returned};
use std::fmt::{self, Display};

/// A call of a thread: what it returned, and when it was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The call, or the access.
    pub op: Op,
    /// A value, or a negative errno.
    pub answer: i64,
    /// The moment of its beginning, on a clock that all threads of the process share.
    pub began: u64,
    /// The moment of its end.
    pub ended: u64,
}

impl From<Event<(Op, i64)>> for Recorded {
    fn from(Event { what: (op, answer), began, ended }: Event<(Op, i64)>) -> Recorded {
        Recorded { op, answer, began, ended }
    }
}

/// What threads of one process did at the same time, as the kernel answered it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// What was done before, one after the other, and what it returned.
    pub first: Vec<(Op, i64)>,
    /// What each thread did.
    pub threads: Vec<Vec<Recorded>>,
    /// What was there in the end.
    pub end: String,
}

impl History {
    /// All ops, those of the threads in the order in which they began.
    pub(crate) fn ops(&self) -> Vec<Op> {
        let mut of_threads: Vec<&Recorded> = self.threads.iter().flatten().collect();
        of_threads.sort_by_key(|recorded| recorded.began);
        self.first.iter().map(|(op, _)| *op).chain(of_threads.into_iter().map(|recorded| recorded.op)).collect()
    }

    /// The calls as arguments of `agree_threads`.
    pub(crate) fn code(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    agree_threads(\n        &[")?;
        for (op, _) in &self.first {
            writeln!(f, "            // {op}\n            {},", Code(op))?;
        }
        writeln!(f, "        ],\n        &[")?;
        for thread in &self.threads {
            writeln!(f, "            &[")?;
            for Recorded { op, .. } in thread {
                writeln!(f, "                // {op}\n                {},", Code(op))?;
            }
            writeln!(f, "            ],")?;
        }
        writeln!(f, "        ],\n    );")
    }
}

/// A line for each call.
impl Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (op, answer) in &self.first {
            writeln!(f, "first: {op} = {}", returned(*answer))?;
        }
        for (i, thread) in self.threads.iter().enumerate() {
            for Recorded { op, answer, began, ended } in thread {
                writeln!(f, "thread {i}, {began} to {ended}: {op} = {}", returned(*answer))?;
            }
        }
        writeln!(f, "end: {}", self.end)
    }
}
