//! samara's maps against the alternatives: the program behind `samara-bench index`, `shared`,
//! `spaces`, `figures` and `plot`.
//!
//! [`map`] is the trait of a measured map, [`subjects`] has one file for each map. [`cases`] names
//! the cases, [`loaded`] measures them, [`index`] runs all cases for all maps. [`mod@shared`] is
//! the same for maps that threads share, [`mod@spaces`] for address spaces that threads share.
//! [`mod@figures`] runs the workloads of published figures on one engine with each of the
//! [`designs`]. [`suite_args`] chooses sizes, cases and maps. lab/benchmarks.md has the methods and
//! the figures.

pub mod byte_counts;
pub mod cases;
pub mod churn;
pub mod designs;
pub mod figures;
pub mod gap;
pub mod index;
pub mod kinds;
pub mod latency;
pub mod loaded;
pub mod map;
pub mod plot;
pub mod points;
pub mod rounds;
pub mod shared;
pub mod spaces;
pub mod subjects;
pub mod suite_args;
pub mod table;
pub mod writes;
