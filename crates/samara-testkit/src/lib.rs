//! What the tests, the fuzz targets and the stress runs of `samara` share.
//!
//! - [`Op`] is every operation of a range map as data; [`Universe`] says which keys the operations
//!   use.
//! - [`Naive`] is the oracle: a list of entries, each operation written as a scan over all of them.
//! - [`run`] does operations on a map and on the oracle, and compares every answer; [`run_shared`]
//!   does so with a shared map.
//! - [`campaign`] does it with many seeds, and makes a failing script small before it shows it.
//! - [`Tracked`] is a value that is counted, and that panics in its n-th clone or drop.
//!
//! Knows the public face of the map only; every driver is generic over the shape of its nodes, so
//! that tiny ones are tested by the same code.
//!
//! ```
//! use samara::Normal;
//! use samara_testkit::{Universe, script, run};
//! let ops = script::<u64>(1, Universe::Low(64), 500);
//! let stats = run::<u64, u32, Normal>(&ops)?;
//! assert_eq!(stats.ops, 500);
//! # Ok::<(), samara_testkit::Difference>(())
//! ```
#![forbid(unsafe_code)]

mod campaign;
mod cursors;
mod driver;
mod faces;
mod held;
mod history;
mod key;
mod op;
mod oracle;
mod shared;
mod tracked;
mod universe;
mod value;
mod verbs;

pub use campaign::{Campaign, campaign, campaign_shared, ops_wanted, seed_wanted};
pub use driver::{Difference, Stats, run};
pub use key::{Frame, Small, TestKey};
pub use op::{
    EntryStep, Kept, Op, Shared, Step, Verb, Walk, script, script_from_bytes, script_shared, script_shared_from_bytes,
};
pub use oracle::{Naive, Piece};
pub use shared::{Sharing, run_shared};
pub use tracked::{Ledger, Tracked};
pub use universe::Universe;
pub use value::Value;

/// The examples of the project's README, which lies outside the published crates.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct Readme;

/// A map is invariant in its values: it holds how they are copied for snapshots, an `fn(&V) -> V`,
/// and a copier of values that live for good may do with them what a shorter life does not allow.
/// Lists, which hold no such thing, and maps whose values keep their life are let through:
///
/// ```
/// use samara::RangeMap;
/// fn shorter<'a>(list: Vec<&'static str>) -> Vec<&'a str> {
///     list
/// }
/// fn same<'a>(map: RangeMap<u64, &'a str>) -> RangeMap<u64, &'a str> {
///     map
/// }
/// fn same_borrowed<'a, 'b>(map: &'b RangeMap<u64, &'a str>) -> &'b RangeMap<u64, &'a str> {
///     map
/// }
/// ```
/// ```compile_fail
/// use samara::RangeMap;
/// fn shorter<'a>(map: RangeMap<u64, &'static str>) -> RangeMap<u64, &'a str> {
///     map
/// }
/// ```
/// ```compile_fail
/// use samara::RangeMap;
/// fn shorter_borrowed<'a, 'b>(map: &'b RangeMap<u64, &'static str>) -> &'b RangeMap<u64, &'a str> {
///     map
/// }
/// ```
/// ```compile_fail
/// use samara::RangeMap;
/// fn longer<'a>(map: RangeMap<u64, &'a str>) -> RangeMap<u64, &'static str> {
///     map
/// }
/// ```
#[cfg(doctest)]
struct Invariant;
