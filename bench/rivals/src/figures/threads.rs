//! Workloads of threads on a space of each design. A design without support for threads is behind
//! one lock, as in former kernels. Knows no figure.

use crate::designs::design as index;
use crate::designs::splay::Splay;
use crate::figures::design::{Design, with_index};
use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::spaces::rwlock::{Locked, Number};
use crate::spaces::samara::Samara;
use crate::spaces::skiplist::Skiplist;
use crate::spaces::space::{Allocate, Space};
use crate::spaces::{allocations, breaks, faults, maps_readers, updates};
use samara_bench::data::Data;
use samara_bench::workloads::Effort;
use samara_bench::workloads::threads::Case;
use std::time::Duration;

/// Time limit of a round: threads may wait long for locks.
const LIMIT: Duration = Duration::from_millis(250);

/// The rows of one round ([`Case::rows`]) on a new space of n areas; `None` for the kernel, which
/// runs in a separate process.
pub fn run(design: Design, case: Case, n: usize, threads: usize, effort: Effort) -> Option<Vec<f64>> {
    let round = (case, n, threads, effort);
    match design {
        // Nothing is done with plans here: under a lock in each design.
        Design::Samara => Some(on::<Samara<true>>(round)),
        Design::RangeLockedSkiplist => Some(on::<Skiplist>(round)),
        // A lookup changes the tree.
        Design::Splay => Some(on::<Locked<index::Design<Splay<Number>, Number>, true>>(round)),
        _ => with_index!(design, Number, I => Some(on::<Locked<I>>(round)), None),
    }
}

fn on<S: Space>((case, n, threads, Effort { count, seed }): (Case, usize, usize, Effort)) -> Vec<f64>
where
    for<'a> S::Thread<'a>: Allocate,
{
    let data = Data::new(n);
    let space = S::filled(&data);
    let rows = match case {
        Case::BrkThreads => vec![breaks::time(&[&space], threads, count, LIMIT)],
        Case::MapsReaders => {
            let found = maps_readers::time(&space, &data, seed, count, LIMIT);
            vec![found.beside.mean, found.beside.longest, found.alone.mean, found.alone.longest]
        }
        Case::Query => {
            let (done, elapsed) = in_parallel(threads, |number| {
                let addresses = faults::addresses(&data.items, seed * threads as u64 + number as u64, count);
                let mut thread = space.thread();
                move || faults::run(&mut thread, &addresses, LIMIT).count
            });
            vec![each(elapsed, done.into_iter().sum())]
        }
        Case::Allocate => vec![allocations::time(&space, threads, false, count, LIMIT)],
        Case::AllocateFaultModify => vec![allocations::time(&space, threads, true, count, LIMIT)],
    };
    updates::check(&space, &data);
    rows
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
