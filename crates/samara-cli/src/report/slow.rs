//! The slowest calls, and the distribution of durations, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use samara_mm::Advice;
use samara_trace::calls::row_of;
use samara_trace::event::Event;

/// Most calls that are kept.
const CALLS: usize = 500;

/// A call that took long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slow {
    pub(super) ns: u64,
    pub(super) event: Reverse<u64>,
    pub(super) begin_ns: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) nr: u32,
    pub(super) args: [u64; 6],
    pub(super) result: i64,
    pub(super) site: u32,
    pub(super) overlapped: bool,
}

/// The kept calls and durations.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slowest: BinaryHeap<Reverse<Slow>>,
    /// By name: number of calls that took from 2^(i-1) to less than 2^i nanoseconds.
    pub(super) durations: BTreeMap<&'static str, [u64; 65]>,
}

impl Calls {
    pub(super) fn add(&mut self, event: &Event, nr: u32, name: &'static str, site: u32) {
        let ns = event.exit_ns.saturating_sub(event.entry_ns);
        self.durations.entry(name).or_insert([0; 65])[64 - ns.leading_zeros() as usize] += 1;
        let is_slow = self.slowest.peek().is_none_or(|Reverse(least)| ns > least.ns);
        if self.slowest.len() >= CALLS {
            if !is_slow {
                return;
            }
            self.slowest.pop();
        }
        self.slowest.push(Reverse(Slow {
            ns,
            event: Reverse(event.seq),
            begin_ns: event.entry_ns,
            pid: event.pid,
            tid: event.tid,
            nr,
            args: event.args,
            result: event.result,
            site,
            overlapped: event.overlapped,
        }));
    }

    /// The slowest first.
    pub(super) fn slowest(&self) -> Vec<&Slow> {
        let mut all: Vec<&Slow> = self.slowest.iter().map(|Reverse(slow)| slow).collect();
        all.sort_by(|a, b| b.cmp(a));
        all
    }
}

/// The lock that Linux takes for a call, by its documentation, not measured. Advice that changes
/// areas takes it for writing.
pub(super) fn lock(name: &str, args: &[u64; 6]) -> Option<&'static str> {
    const WRITE: &str = "mmap_lock, write";
    const READ: &str = "mmap_lock, read";
    let row = row_of(name)?;
    match row.advice {
        Some(i) => Some(if Advice::from_raw(args[i] as u32).is_some_and(Advice::only_sets) { WRITE } else { READ }),
        None => row.takes_lock().then_some(WRITE),
    }
}
