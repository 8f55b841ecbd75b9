//! What the tests, the fuzz targets and the stress runs of `samara` share.
//!
//! - [`Op`] is every operation of a range map as data; [`Universe`] says which keys the operations
//!   use.
//! - [`ReferenceMap`] is what maps are compared with: a list of entries, in which each operation is
//!   a scan over all of them.
//! - [`run`] does operations on a map and on the reference map, and compares every answer;
//!   [`run_shared`] does so with a shared map.
//! - [`campaign`] does so with many seeds, and shrinks a failing script before it shows it.
//! - [`Tracked`] is a value that is counted, and that can panic in its n-th clone or drop.
//! - [`skipped`] reports a test that cannot run on this machine.
//!
//! Uses the public interface of the maps only. Every driver is generic over the shape of the nodes,
//! so the same code tests maps with tiny nodes.
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
mod history;
mod interfaces;
mod key;
mod op;
mod open_iterators;
mod reference_map;
mod shared_driver;
mod skip;
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
pub use reference_map::{Piece, ReferenceMap};
pub use shared_driver::{SharedOptions, run_shared};
pub use skip::skipped;
pub use tracked::{Ledger, Tracked};
pub use universe::Universe;
pub use value::Value;

/// A map is invariant in its values: it holds the function that copies them for snapshots, an
/// `fn(&V) -> V`, and a function for `'static` values may rely on that lifetime. Lists hold no such
/// function, and maps whose values keep their lifetime compile:
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
