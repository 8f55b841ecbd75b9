//! `shared`: maps that threads read while one writes.
//!
//! [`map`] is what a map must be able to do, [`subjects`] has one file for each of them; [`cases`]
//! names what is measured; [`reads`], [`writes`] and [`beside`] do it, several threads [`at_once`],
//! [`loaded`] chooses among them, [`suite`] runs everything against everything. docs/benchmarks.md
//! says how.

pub mod at_once;
pub mod beside;
pub mod cases;
pub mod kinds;
pub mod loaded;
pub mod map;
pub mod reads;
pub mod subjects;
pub mod suite;
pub mod writes;
