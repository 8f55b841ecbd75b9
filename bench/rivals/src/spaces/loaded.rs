//! A filled space, and the measurement that each case of `spaces` runs on it.

use crate::shared::writes::Done;
use crate::spaces::beside::beside;
use crate::spaces::cases::Case;
use crate::spaces::space::{Apply, Space};
use crate::spaces::updates::{Plan, part};
use crate::spaces::{breaks, faults, forks, maps_readers, updates};
use samara_bench::data::Data;
use samara_bench::workloads::threads::READERS;
use std::time::{Duration, Instant};

/// One number of a round, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The row: the case, or another figure of the case.
    pub row: &'static str,
    /// The number.
    pub value: f64,
    /// Number of threads.
    pub threads: usize,
}

/// The work of a round.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The number of the round.
    pub round: u64,
    /// Operations of each thread.
    pub effort: usize,
    /// When an unfinished round ends, or a part of it.
    pub limit: Duration,
    /// Number of threads, if the case has a choice.
    pub threads: usize,
}

/// A space of some kind, filled.
pub trait Subject {
    /// Runs one round of `case`; its figures, always the same rows in the same order.
    fn time(&mut self, case: Case, data: &Data, turn: Turn) -> Vec<Figure>;
}

/// A filled space.
#[derive(Debug)]
pub struct Loaded<S>(pub S);

impl<S: Space> Subject for Loaded<S> {
    fn time(&mut self, case: Case, data: &Data, turn: Turn) -> Vec<Figure> {
        let figures = self.figures(case, data, turn);
        updates::check(&self.0, data);
        figures
    }
}

impl<S: Space> Loaded<S> {
    fn figures(&self, case: Case, data: &Data, turn: Turn) -> Vec<Figure> {
        let (space, Turn { round, effort, limit, threads }) = (&self.0, turn);
        let disjoint = |apply| updates::disjoint(space, data, round, apply, threads, effort, limit);
        let fork = |[plain, with_writes]: [&'static str; 2]| {
            let how = case.fork().expect("a case that forks");
            [(plain, false), (with_writes, true)]
                .map(|(row, writes)| (row, forks::time(space, data, how, writes, effort, limit), 1))
                .to_vec()
        };
        let rows = match case {
            Case::Fault => {
                let addresses = faults::addresses(&data.items, round, effort);
                vec![("fault", faults::run(&mut space.thread(), &addresses, limit).nanos(), 1)]
            }
            Case::FaultOneArea => {
                let nanos = faults::in_one_area(space, &data.items, round, threads, effort, limit);
                vec![("fault_one_area", nanos, threads)]
            }
            Case::FaultBesideUpdates => {
                const ROWS: [&str; 8] = [
                    "fault_beside_updates",
                    "fault_beside_updates_p999",
                    "fault_beside_updates_longest",
                    "fault_beside_updates_alone",
                    "fault_beside_updates_alone_p999",
                    "fault_beside_updates_alone_longest",
                    "update_beside_faults",
                    "update_beside_faults_alone",
                ];
                let update = || {
                    let mut plan = Plan::new(part(data, 1, 2), round, Apply::NOTHING);
                    let mut thread = space.thread();
                    move || plan.pair(&mut thread)
                };
                self.faults_beside(ROWS, data, turn, update)
            }
            Case::FaultBesideFork => {
                const ROWS: [&str; 8] = [
                    "fault_beside_fork",
                    "fault_beside_fork_p999",
                    "fault_beside_fork_longest",
                    "fault_beside_fork_alone",
                    "fault_beside_fork_alone_p999",
                    "fault_beside_fork_alone_longest",
                    "fork_beside_faults",
                    "fork_beside_faults_alone",
                ];
                let fork = || {
                    move || {
                        drop(space.fork(S::FORKS[0]));
                        1
                    }
                };
                self.faults_beside(ROWS, data, turn, fork)
            }
            Case::UpdatesDisjoint => vec![("updates_disjoint", disjoint(Apply::NOTHING), threads)],
            Case::UpdatesDisjoint1us => {
                vec![("updates_disjoint_1us", disjoint(Apply(Duration::from_micros(1))), threads)]
            }
            Case::ForkInsert => fork(["fork_insert", "fork_insert_writes"]),
            Case::ForkDup => fork(["fork_dup", "fork_dup_writes"]),
            Case::ForkSnapshot => fork(["fork_snapshot", "fork_snapshot_writes"]),
            Case::MapsReaders => {
                let found = maps_readers::time(space, data, round, effort, limit);
                let threads = 1 + READERS;
                vec![
                    ("maps_readers", found.beside.mean, threads),
                    ("maps_readers_longest", found.beside.longest, threads),
                    ("maps_readers_alone", found.alone.mean, 1),
                    ("maps_readers_alone_longest", found.alone.longest, 1),
                    ("maps_walk", found.walk, threads),
                ]
            }
            Case::BrkThreads => vec![("brk_threads", breaks::time(&[space], threads, effort, limit), threads)],
            Case::ExecUnlink | Case::ForkLink | Case::ImageMap | Case::RmapScaling => {
                unreachable!("a space without reverse maps (`Kind::does`)")
            }
            Case::BrkProcesses => {
                let others: Vec<S> = (1..threads).map(|_| S::filled(data)).collect();
                let spaces: Vec<&S> = std::iter::once(space).chain(&others).collect();
                vec![("brk_processes", breaks::time(&spaces, threads, effort, limit), threads)]
            }
        };
        rows.into_iter().map(|(row, value, threads)| Figure { row, value, threads }).collect()
    }

    /// Faults in the lower half of the areas while another thread does its work, and each alone:
    /// the mean and, in a separate pass that times every fault, the 99.9th percentile and the
    /// longest; then the mean of the other work.
    fn faults_beside<W: FnMut() -> usize>(
        &self,
        rows: [&'static str; 8],
        data: &Data,
        Turn { round, effort, limit, .. }: Turn,
        prepare: impl Fn() -> W + Sync,
    ) -> Vec<(&'static str, f64, usize)> {
        let space = &self.0;
        let addresses = faults::addresses(part(data, 0, 2), round, effort);
        let fault = || faults::run(&mut space.thread(), &addresses, limit);
        let single = || faults::single(&mut space.thread(), &addresses, limit);
        let (alone, alone_single) = (fault(), single());
        let alone_work = repeat(prepare(), limit);
        let (together, work) = beside(1, |_| prepare(), fault);
        let (together_single, _) = beside(1, |_| prepare(), single);
        let values = [
            (together.nanos(), 2),
            (together_single.p999, 2),
            (together_single.longest, 2),
            (alone.nanos(), 1),
            (alone_single.p999, 1),
            (alone_single.longest, 1),
            (work[0].nanos(), 2),
            (alone_work.nanos(), 1),
        ];
        rows.into_iter().zip(values).map(|(row, (value, threads))| (row, value, threads)).collect()
    }
}

/// Repeats the work until a tenth of the time is up, at least once.
fn repeat(mut work: impl FnMut() -> usize, limit: Duration) -> Done {
    let (start, mut count) = (Instant::now(), 0);
    loop {
        count += work();
        let elapsed = start.elapsed();
        if elapsed >= limit / 10 {
            return Done { count, elapsed };
        }
    }
}
