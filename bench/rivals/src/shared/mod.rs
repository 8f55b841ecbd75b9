//! `shared`: samara's shared map against other maps that threads read while one writes.
//!
//! [`map`] is the trait of a measured map, [`subjects`] has one file for each map. [`cases`] names
//! the cases; [`reads`], [`writes`] and [`readers_and_writer`] measure it, with several threads
//! through [`mod@in_parallel`]. [`loaded`] chooses among them, [`suite`] runs all cases for all
//! maps. lab/benchmarks.md has the methods.

pub mod cases;
pub mod in_parallel;
pub mod kinds;
pub mod loaded;
pub mod map;
pub mod readers_and_writer;
pub mod reads;
pub mod subjects;
pub mod suite;
pub mod writes;
