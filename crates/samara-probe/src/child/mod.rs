//! The kernel's side: makes ops in a sacrificial process, and notes the result of each.
//!
//! - `process`: the process; `verbs`: the code of each op; `limits`: its limits;
//! - `threads`: ops of several threads at the same time;
//! - `areas`: its areas;
//! - `files`: the files and segments that its calls find;
//! - `outcome`: the results that the parent reads.
//!
//! Neighbours: `harness` forks the process, and waits for it.
//!
//! - **CHILD-1** The arena holds, in words: `HEAD` words of head, then the areas at first, then for
//!   each op its result and the areas after it; then, if there are threads, three words for each of
//!   their ops (result, beginning, end), and the areas after all of them. Areas are a count and
//!   four words for each. The text of smaps lies behind `WORDS` words. Only the newest process of a
//!   run writes to it.
#![allow(unsafe_code)]

mod areas;
mod files;
mod limits;
mod outcome;
mod process;
mod threads;
mod verbs;

pub use crate::harness::QueriedArea;
pub use outcome::{Areas, Ended, Event, Events, Frames, Outcome, Scope};
pub use threads::{Pause, THREADS, Timed};

use crate::harness::{self, Arena, bytes_mut};
use crate::op::Op;
use crate::proc::during;
use files::Given;
use process::Child;
use samara_mm::Personality;
use std::io;

/// Seconds after which a process is killed: long before, it is at its end, or has forked.
const LIMIT_S: u64 = 60;
const HEAD: usize = 4;
/// Words of the head: number of ops done, wait status of a descendant, bytes of smaps, number of
/// the setup step that failed.
const DONE: usize = 0;
const STATUS: usize = 1;
const TEXT_LEN: usize = 2;
const TROUBLE: usize = 3;
const WORDS: usize = 1 << 19;
const TEXT: usize = 1 << 20;
/// An address above the lowest that a process may have.
const LOW: u64 = 1 << 20;
/// The most areas that are read.
const MOST: usize = 4096;

/// The resources of runs: the arena, and the files and segments that calls find.
#[derive(Debug)]
pub struct Kernel {
    arena: Arena,
    given: Given,
    pub limit_s: u64,
    /// Areas are queried one by one, if the kernel can do that; else their text is read.
    pub queries: bool,
}

impl Kernel {
    /// Memory and files are made once, for many runs.
    pub fn new() -> io::Result<Kernel> {
        Ok(Kernel { given: Given::new()?, arena: Arena::new(WORDS + TEXT / 8)?, limit_s: LIMIT_S, queries: true })
    }

    /// `vm.max_map_count`.
    pub fn max_map_count(&self) -> u64 {
        self.given.max_map_count
    }

    /// Files are too short for calls that use them: there is a limit.
    pub fn has_short_files(&self) -> bool {
        self.given.short
    }

    /// The personality of this process, which its children inherit.
    pub fn personality(&self) -> Personality {
        // If the query is refused: the usual one.
        let bits = u32::try_from(call(libc::SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]));
        Personality::from_bits_retain(bits.unwrap_or(0))
    }

    /// Runs the ops in a new process.
    pub fn run(&mut self, ops: &[Op], scope: Scope) -> io::Result<Outcome<'_>> {
        self.run_together(ops, &[], scope)
    }

    /// Runs the ops in a new process, and then, if there are threads, those of its threads at the
    /// same time.
    pub fn run_together(&mut self, ops: &[Op], threads: &[Vec<Timed>], scope: Scope) -> io::Result<Outcome<'_>> {
        let Kernel { arena, given, limit_s, queries } = self;
        let (limit_s, queries) = (*limit_s, *queries);
        arena.words_mut()[..HEAD].fill(0);
        let child = |words: &mut [u64]| {
            let (words, text) = words.split_at_mut(WORDS);
            let (text, fds) = (bytes_mut(text), [0; 4]);
            let [maps, zero, sink, uffd] = fds;
            Child { words, text, at: HEAD, maps, queries, zero, sink, uffd, scope, own_data: 0, limit_s }
                .go(ops, threads, given);
        };
        // SAFETY: the child makes system calls, writes to the words, and allocates nothing. It
        // waits for what it forks (`verbs`).
        let status = unsafe { arena.run(limit_s, child) }.map_err(during(A_PROCESS))?;
        let words = &arena.words()[..WORDS];
        let status = match status {
            // A descendant's end is the run's end.
            0 => words[STATUS] as i32,
            status => status,
        };
        if words[TROUBLE] != 0 {
            let what = TROUBLES.get(words[TROUBLE] as usize - 1).unwrap_or(&"");
            return Err(io::Error::other(format!("{A_PROCESS}: {what}")));
        }
        let ended = match status {
            0 => Ended::Done,
            status if libc::WIFSIGNALED(status) => Ended::Killed(libc::WTERMSIG(status)),
            status => Ended::Status(libc::WEXITSTATUS(status)),
        };
        Ok(Outcome { ended, done: words[DONE] as usize, words, text: arena.bytes(WORDS) })
    }
}

/// Context of an error before the first op.
const A_PROCESS: &str = "a process in which to make calls";

/// What can go wrong before the first op; numbered from 1 in the arena.
const TROUBLES: [&str; 8] = [
    "its files, which have numbers up to 111 (ulimit -n)",
    "its window: something is there",
    "/proc/self/maps",
    "a userfaultfd",
    "space for its report",
    "areas elsewhere, up to the limit",
    "limits, and fewer capabilities",
    "its threads, and their stacks",
];

/// Makes a system call. A negative result is an errno.
fn call(nr: i64, a: [u64; 6]) -> i64 {
    // SAFETY: made in the sacrificial process, on addresses where no Rust object lives, but for
    // those that are given for the call to write to; or on files and segments of this crate's own.
    unsafe { harness::call(nr, a) }
}
