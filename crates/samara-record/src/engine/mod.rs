//! The engine in charge: decides the results of memory calls. Its settings are in `api`.

mod decide;
mod random_place;

pub(crate) use decide::{Asker, Charge, Decision, kernel_map_count};
pub(crate) use random_place::Anywhere;
