//! Range maps for address spaces.
//!
//! [`RangeMap`] maps disjoint, inclusive ranges of integers to values. It finds, replaces, erases and splits ranges
//! atomically, finds free gaps by width in O(log n) from either end, walks with cursors, and reserves memory first so that
//! a store cannot fail. It needs `alloc` and nothing else of `std`.
//!
//! ```
//! use samara::{End, GapQuery, RangeMap, Span};
//!
//! let mut map = RangeMap::new();
//! map.insert(0x40_0000..=0x40_ffff, "program")?;
//! map.insert(0x7fff_0000..=0x7fff_ffff, "stack")?;
//!
//! let (range, value) = map.get(0x40_1234).unwrap();
//! assert_eq!((range, *value), (Span::new(0x40_0000, 0x40_ffff), "program"));
//!
//! let query = GapQuery::new(0x20_0000).aligned(0x20_0000).within(0x1_0000..=0x7fff_ffff).from(End::Highest);
//! assert_eq!(map.find_gap(&query), Some(Span::new(0x7fc0_0000, 0x7fdf_ffff)));
//! # Ok::<(), samara::StoreError>(())
//! ```
//!
//! # Coming from other maps
//! | `BTreeMap`, `rangemap` | here |
//! |---|---|
//! | `insert(a..b, v)` | `insert(a..=b - 1, v)`, or [`Span::with_len`]: ranges are inclusive, so that the last key is an ordinary one |
//! | rangemap joins equal neighbours | two touching ranges stay two |
//! | `range(..=k).next_back()`, then look at the end | [`RangeMap::get`]; [`RangeMap::at_or_before`] |
//! | `remove(range)` of rangemap | [`RangeMap::clear_range`]; [`RangeMap::remove`] takes one whole entry |
//! | `overlapping(range)` | [`RangeMap::range`] |
//! | `gaps(range)`, then look for a wide one | [`RangeMap::find_gap`], in O(log n) |
//! | `collect()` | [`RangeMap::from_sorted`] |
//!
//! Stores return a `Result` (an empty range, no memory) and ask for `V: Clone`: a range that is cut in two keeps its value on both sides.
//! Not there yet: owned iteration, `retain`, `first` and `last` (`iter().next()` and `next_back()` serve).
//!
//! # Features
//! - `testing`: a map with nodes of three and five slots and a switch for the search path, for the crate's own tests.
#![no_std]

extern crate alloc;

mod bounds;
mod build;
mod check;
mod clone;
mod cursor;
mod displaced;
mod error;
mod find_gap;
mod gap;
mod gaps;
mod inner;
mod iter;
mod key;
mod leaf;
mod map;
mod mend;
mod node;
mod reap;
mod remove;
mod search;
mod shape;
mod share;
mod span;
mod spare;
mod split;
mod store;
mod sync;
mod tree;

#[cfg(test)]
mod tests;

pub use check::{Stats, Violation};
pub use cursor::{Cursor, CursorMut};
pub use displaced::{Displaced, Remains};
pub use error::{AllocError, BoundError, BuildError, StoreError};
pub use gap::{End, GapQuery};
pub use gaps::Gaps;
pub use iter::{Range, RangeMut};
pub use key::Key;
pub use map::RangeMap;
pub use shape::{Normal, Shape};
pub use span::Span;

/// For the crate's own tests and benchmarks; no part of its promises.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    pub use crate::search::Level;
    pub use crate::shape::Tiny;

    /// A map whose nodes have three and five slots.
    pub type TinyMap<V, K = u64> = crate::RangeMap<V, K, Tiny>;

    /// Puts a search path in force for the whole process, or the best one below it that there is; says which.
    pub fn force(level: Level) -> Level {
        crate::search::force(level)
    }

    /// `true`: the portable search only. `false`: the best there is.
    pub fn force_portable(portable: bool) {
        force(if portable { Level::Portable } else { Level::Avx512 });
    }
}
