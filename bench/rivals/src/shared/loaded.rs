//! A shared map with its ranges, and the measurement that each case of `shared` runs on it.

use crate::cases;
use crate::loaded::{self, Scene};
use crate::map::Map;
use crate::shared::cases::Case;
use crate::shared::map::SharedMap;
use crate::shared::writes::{Plan, Share};
use crate::shared::{readers_and_writer, reads, writes};
use std::time::Duration;

/// One number of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The row: the case, or another figure of the case.
    pub row: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
}

impl Figure {
    fn nanos(row: &'static str, value: f64) -> Self {
        Figure { row, value, unit: "ns" }
    }
}

/// The work of a round.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The number of the round.
    pub round: u64,
    /// Operations.
    pub effort: usize,
    /// When an unfinished round ends.
    pub limit: Duration,
    /// Number of threads.
    pub threads: usize,
}

/// A map of some kind with its ranges.
pub trait Subject {
    /// Runs one round of `case`; its figures, always the same rows in the same order.
    fn time(&mut self, case: Case, scene: &Scene, turn: Turn) -> Vec<Figure>;
}

/// A map that threads share.
#[derive(Debug)]
pub struct Shared<M>(pub M);

impl<M: SharedMap> Subject for Shared<M> {
    fn time(&mut self, case: Case, scene: &Scene, turn: Turn) -> Vec<Figure> {
        let (map, data, Turn { round, effort, limit, threads }) = (&self.0, &scene.data, turn);
        match case {
            Case::ReadPinned => vec![Figure::nanos("read_pinned", reads::pinned(map, &data.probes(round, effort)))],
            Case::ReadPinEach => {
                let probes = data.probes(round, effort);
                // The first pass finds the caches as `read_pinned` does; the next two find the map
                // in the caches.
                let each = reads::pin_each(map, &probes);
                let cost = reads::pin_each(map, &probes) - reads::pinned(map, &probes);
                vec![Figure::nanos("read_pin_each", each), Figure::nanos("read_pin_cost", cost)]
            }
            Case::ReadScaling => {
                vec![Figure::nanos("read_scaling", reads::scaling(map, data, round, threads, effort))]
            }
            Case::ReplaceShared => {
                let plan = Plan::new(data, round);
                let done = plan.run(|item| map.replace(item), effort, limit);
                plan.check(map, done.count);
                vec![Figure::nanos("replace_shared", done.nanos())]
            }
            Case::WriteScaling => {
                let nanos = writes::scaling(map, data, round, Share::Among, threads, effort, limit);
                vec![Figure::nanos("write_scaling", nanos)]
            }
            Case::WriteScalingApart => {
                let nanos = writes::scaling(map, data, round, Share::Apart, threads, effort, limit);
                vec![Figure::nanos("write_scaling_apart", nanos)]
            }
            Case::ReadBesideWriter => {
                let latencies = readers_and_writer::read_beside_writer(map, data, round, effort, limit);
                vec![
                    Figure::nanos("read_beside_writer", latencies.read),
                    Figure::nanos("read_beside_writer_p50", latencies.p50),
                    Figure::nanos("read_beside_writer_p999", latencies.p999),
                    Figure::nanos("write_beside_reader", latencies.write),
                ]
            }
            Case::WriterBesideStalledReader => {
                let (done, pending, after) = readers_and_writer::stalled(map, data, round, effort, limit);
                let mut figures = vec![Figure::nanos("writer_beside_stalled_reader", done.nanos())];
                for (row, bytes) in [("pending_bytes", pending), ("pending_bytes_after", after)] {
                    figures.extend(bytes.map(|bytes| Figure { row, value: bytes as f64, unit: "bytes" }));
                }
                figures
            }
            Case::FalseMisses => {
                let (misses, reads) = readers_and_writer::false_misses(map, data, threads, effort, limit);
                if reads < effort {
                    eprintln!("samara-bench: false_misses: the time was up after {reads} of {effort} reads");
                }
                vec![Figure { row: "false_misses", value: misses as f64, unit: "reads" }]
            }
            Case::LookupExclusive | Case::ReplaceExclusive => unreachable!("a case of maps that are not shared"),
        }
    }
}

/// A map that is not shared: the base line.
#[derive(Debug)]
pub struct Exclusive<M>(loaded::Loaded<M>);

impl<M: Map> Exclusive<M> {
    /// A map of the scene's ranges, stored one by one in random order.
    pub fn new(scene: &Scene) -> Self {
        Exclusive(loaded::Loaded::new(scene, loaded::Built::Insert))
    }
}

impl<M: Map> Subject for Exclusive<M> {
    fn time(&mut self, case: Case, scene: &Scene, turn: Turn) -> Vec<Figure> {
        let (row, case) = match case {
            Case::LookupExclusive => ("lookup_exclusive", cases::Case::Lookup),
            Case::ReplaceExclusive => ("replace_exclusive", cases::Case::Replace),
            _ => unreachable!("a case of shared maps"),
        };
        vec![Figure::nanos(row, loaded::Subject::time(&mut self.0, case, scene, turn.round, turn.effort))]
    }
}
