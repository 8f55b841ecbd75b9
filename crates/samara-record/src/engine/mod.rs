//! The engine in charge: decides what memory calls get. What a caller asks of it is in `api`.

mod decide;
mod random_place;

pub(crate) use decide::{Asker, Charge, Decision, kernel_map_count};
pub(crate) use random_place::Anywhere;
