//! samara's maps against those that one would use instead: what `samara-bench index`, `shared` and
//! `plot` run.
//!
//! [`map`] is what a map must be able to do, [`subjects`] has one file for each of them; [`cases`]
//! names what is measured, [`loaded`] does it, [`index`] runs everything against everything.
//! [`mod@shared`] is the same for maps that threads share; what is run of either is [`asked`].
//! docs/benchmarks.md says how, and has the figures.

pub mod asked;
pub mod cases;
pub mod churn;
pub mod counts;
pub mod gap;
pub mod index;
pub mod kinds;
pub mod loaded;
pub mod map;
pub mod plot;
pub mod points;
pub mod shared;
pub mod subjects;
pub mod table;
pub mod turns;
pub mod writes;
