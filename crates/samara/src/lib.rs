//! Range maps for address spaces.
//!
//! [`RangeMap`] maps disjoint, inclusive ranges of integers to values. It finds, replaces, erases
//! and splits ranges atomically, finds free gaps by width in O(log n) from either end, walks with
//! cursors, and reserves memory first so that a store cannot fail. [`SharedRangeMap`] is the same
//! for many threads: readers take no lock and wait for nobody, and each store of a writer is one
//! instant for them. Without its default features the crate needs `alloc` and nothing else of
//! `std`.
//!
//! **A thread that calls [`write`](SharedRangeMap::write) while it still holds a [`WriteGuard`] of
//! the same map waits for itself.** With `std` it panics, else it hangs. The guard of `if let
//! Some(x) = map.write().get(1)` lives to the end of the `if let`: bind the result first.
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
//! | `BTreeMap`, `rangemap`, `nodit` | here |
//! |---|---|
//! | `insert(a..b, v)` | `insert(a..=b - 1, v)`, or [`Span::with_len`]: ranges are inclusive, so that the last key is an ordinary one |
//! | rangemap joins equal neighbours; `insert_merge_touching_if_values_equal` | [`RangeMap::insert_merging`], with the predicate of your choice; `insert` joins nothing |
//! | `insert_strict` (refuses to overwrite) | [`RangeMap::entry`], then [`VacantEntry::insert`]; or [`RangeMap::is_free`] first |
//! | `range(..=k).next_back()`, then look at the end | [`RangeMap::get`]; [`RangeMap::at_or_before`] |
//! | `remove(range)` of rangemap, `cut` of nodit | [`RangeMap::clear_range`], [`RangeMap::drain`]; [`RangeMap::remove`] takes one whole entry |
//! | `overlapping(range)` | [`RangeMap::range`]; [`RangeMap::overlaps`] for yes or no |
//! | `gaps(range)`, then look for a wide one | [`RangeMap::find_gap`], in O(log n) |
//! | `first_key_value`, `pop_first`, `retain`, `extract_if`, `append`, `split_off` | `first`, `pop_first`, `retain`, `extract_if`, `append`, `split_off` |
//! | `entry(k).or_insert(v)` | `entry(k).or_insert(range, v)` |
//! | `keys()` | [`RangeMap::spans`] |
//! | `map[&k]` | `map[k]` |
//! | `collect()` | `collect()`: later entries win; [`RangeMap::from_sorted`] where they ascend, in O(n) |
//!
//! Stores return a `Result` (an empty range, no memory) and ask for `V: Clone`: a range that is cut
//! in two keeps its value on both sides.
//!
//! # Consistency
//! - A store is one replacement, however many entries its range meets: there is no state in
//!   between, not for an observer, not after an error, not after a panic in the value's `clone` or
//!   in a closure. [`RangeMap`] says what holds for each of them.
//! - Ranges of a map never overlap and never are empty. Two that touch stay two until a call asks
//!   to join them.
//! - A call that fails for want of memory leaves the entries as they were, but for `append` and
//!   `try_extend`, which keep what was done. Calls that need none say so; those that do have a form
//!   that returns an error: `insert` and its kin, `try_clone`, `try_snapshot`, `try_extend`,
//!   `try_from_iter`, `append`, `split_off`. Only their forms without one (`clone`, `snapshot`,
//!   `extend`, `collect`, `from`) end the program instead. [`RangeMap::reserve`] takes the memory
//!   first. On a map that shares nodes with a snapshot every change may need memory, and may clone
//!   values, also through `remove`, `get_mut`, `range_mut`, `retain`, cursors and owned iteration,
//!   which then end the program where there is none: [`RangeMap::unshare`] does both first. A clone
//!   that panics there, or in any call, leaves the entries as they were.
//! - An iterator that takes entries out, dropped early, leaves what it says; leaked, it may lose
//!   entries and never shows one twice.
//! - Many threads may look up (`&`); who stores has the map alone (`&mut`). A map is `Send` and
//!   `Sync` as its values are. A snapshot is a map of its own, for another thread if need be. For
//!   readers beside a writer there is [`SharedRangeMap`], which says what they see.
//!
//! # Complexity
//! For n entries, of which the call meets k:
//!
//! | | |
//! |---|---|
//! | `get`, `at_or_after`, `at_or_before`, `first`, `last`, `entry`, a cursor's `walk` | O(log n) |
//! | `find_gap` without alignment, `covers`, `is_free`, `overlaps`, `gap_at` | O(log n), whatever k is |
//! | `insert`, `insert_merging`, `replace`, `clear_range`, `drain`, `split_off` | O(log n + k), amortised |
//! | `remove`, `split_at`, `merge_at`, moving a boundary, an entry that `extract_if` takes out | O(log n) |
//! | a step of an iterator or a cursor | O(1) amortised |
//! | `iter`, `into_iter`, `clone`, `from_sorted`, `clear`, drop | O(n) |
//! | `retain` | O(n), with one descent for every leaf |
//! | `append` of m entries | O(m log n); O(n) more where the map shares nodes |
//! | `unshare` | O(log n + k) |
//! | `shrink_to_fit` | O(n) |
//! | `len`, `is_empty`, `snapshot` | O(1) |
//!
//! [`SharedRangeMap`] says what is different there.
//!
//! Where a map shares nodes with a snapshot a change also copies those that it touches, and
//! `drain`, `split_off`, `reserve`, `retain` and owned iteration copy all: O(n).
//!
//! A node that is not at an edge of its level is a quarter full at least, whatever was done to the
//! map, also beside snapshots; ascending and descending fills, and `from_sorted`, leave full ones.
//!
//! # Compared with
//! - A `BTreeMap` from first key to (last key, value) is what one writes by hand. A replacement is
//!   then a lookup, one or two trims, a removal for each entry that is met and an insertion, with
//!   every state in between visible to a panic; a gap is found by looking at all of them. It is the
//!   better choice for keys that are no integers, and it does not ask for `V: Clone`.
//! - rangemap has half-open ranges as well as inclusive ones, over any ordered key, and joins equal
//!   neighbours always: the better choice where that is what is wanted and speed is not. It does
//!   not tell what an insertion displaced, and finds gaps by walking over them.
//! - nodit has intervals over discrete keys, with strict, overwriting and merging insertions, and
//!   gives out what is cut. It finds gaps by walking too, and panics on an empty interval where
//!   this crate returns an error.
//! - None of them reserves memory before a store, returns an error where memory runs out, or takes
//!   a snapshot in O(1).
//!
//! Figures against these and others, and how to repeat them, are in the project's benchmarks.
//!
//! # Features
//! - `std` (on by default): `shared`, and what only an operating system has: a reader's
//!   registration is found by its thread, a thread that waits to write sleeps, and membarrier(2) on
//!   Linux.
//! - `shared`: [`SharedRangeMap`] and its reclaimers, [`reclaim`]. Without `std` (`default-features
//!   = false, features = ["shared"]`) readers register by [`SharedRangeMap::reader`], a thread that
//!   waits to write spins, and [`Membarrier`] makes fences. Needs `alloc`, and atomics of pointer
//!   width.
//! - `serde`: `Serialize` and `Deserialize` for [`Span`], as the pair `(first, last)`, and for
//!   [`RangeMap`], as the ascending sequence of `(first, last, value)`. What is read is checked.
//!   Still without `std`.
//! - `testing`: a map with nodes of three and five slots and a switch for the search path, fault
//!   points, for the crate's own tests.
#![no_std]
// What only shared maps use is in files of the tree, too.
#![cfg_attr(not(feature = "shared"), allow(dead_code))]

extern crate alloc;
#[cfg(any(feature = "std", test, loom))]
extern crate std;

mod fault;
mod map;
mod node;
#[cfg(feature = "shared")]
pub mod reclaim;
mod set;
#[cfg(loom)]
mod shadow;
#[cfg(feature = "shared")]
mod shared;
mod sync;
mod tree;
mod types;

#[cfg(test)]
mod tests;

pub use map::RangeMap;
pub use map::changes::{Change, Changes};
pub use map::cursor::{Cursor, CursorMut};
pub use map::drain::Drain;
pub use map::entry::{Entry, OccupiedEntry, VacantEntry};
pub use map::gaps::Gaps;
pub use map::into_iter::{IntoIter, IntoValues};
pub use map::iter::{Range, RangeMut};
pub use map::range_from::RangeFrom;
pub use map::reservation::Reservation;
pub use map::retain::ExtractIf;
pub use map::revise::Revision;
pub use map::whole::{Iter, IterMut, Spans, Values, ValuesMut};
pub use node::shape::{Normal, Shape};
#[cfg(feature = "shared")]
pub use reclaim::{Epoch, Membarrier, PinHere, Quiescent, Reclaim};
pub use set::RangeSet;
pub use set::combine::Combined;
#[cfg(feature = "shared")]
pub use shared::SharedRangeMap;
#[cfg(feature = "shared")]
pub use shared::cursor::SharedCursor;
#[cfg(feature = "shared")]
pub use shared::guard::{SharedGuard, SharedReader};
#[cfg(feature = "shared")]
pub use shared::iter::SharedRange;
#[cfg(feature = "shared")]
pub use shared::reservation::SharedReservation;
#[cfg(feature = "shared")]
pub use shared::write_guard::WriteGuard;
#[cfg(feature = "shared")]
pub use shared::writer::SharedWriter;
pub use tree::check::{Stats, Violation};
pub use types::displaced::{Displaced, Remains};
#[cfg(feature = "shared")]
pub use types::error::Busy;
pub use types::error::{AllocError, BoundError, BuildError, EntryError, ReservedError, StoreError};
pub use types::gap::{End, GapQuery};
pub use types::key::Key;
#[doc(hidden)]
pub use types::key::sealed as __sealed;
pub use types::span::Span;

/// For the crate's own tests and benchmarks; no part of its promises.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    pub use crate::fault::{Point, set_hook, set_refusal};
    pub use crate::node::search::Level;
    pub use crate::node::shape::{Small, Tiny};

    /// A map whose nodes have three and five slots.
    pub type TinyMap<V, K = u64> = crate::RangeMap<V, K, Tiny>;

    /// Puts a search path in force for the whole process, or the best one below it that there is;
    /// says which.
    pub fn force(level: Level) -> Level {
        crate::node::search::force(level)
    }

    /// `true`: the portable search only. `false`: the best there is.
    pub fn force_portable(portable: bool) {
        force(if portable { Level::Portable } else { Level::Avx512 });
    }

    #[cfg(loom)]
    pub use crate::shadow::model;
}
