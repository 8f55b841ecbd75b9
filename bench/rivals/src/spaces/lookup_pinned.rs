//! The yardstick of `fault`: samara's shared map with the same ranges, one guard over all lookups.

use crate::shared::map::SharedMap;
use crate::shared::reads;
use crate::shared::subjects::samara::ByMembarrier;
use crate::spaces::cases::Case;
use crate::spaces::loaded::{Figure, Subject, Turn};
use samara_bench::data::Data;

/// A map with the ranges.
#[derive(Debug)]
pub struct Yardstick(ByMembarrier);

impl Yardstick {
    /// A map of the data's ranges.
    pub fn new(data: &Data) -> Self {
        Yardstick(SharedMap::filled(data))
    }
}

impl Subject for Yardstick {
    fn time(&mut self, case: Case, data: &Data, turn: Turn) -> Vec<Figure> {
        assert_eq!(case, Case::Fault, "the yardstick of one case");
        let value = reads::pinned(&self.0, &data.hits(turn.round, turn.effort));
        vec![Figure { row: "lookup_pinned", value, threads: 1 }]
    }
}
