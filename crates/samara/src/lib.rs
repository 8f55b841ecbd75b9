//! Range maps for address spaces: a B-tree from disjoint, inclusive integer ranges to values.
//!
//! [`RangeMap`] replaces, clears or splits whatever a range covers in one call, which happens
//! completely or not at all. It finds free gaps by width in O(log n) from either end, takes
//! snapshots in O(1), and reserves memory in advance so that a later store cannot fail.
//! [`SharedRangeMap`] is the same map for many threads: readers never block, and each store becomes
//! visible atomically.
//!
//! The crate is `no_std`. Without its default features it needs `alloc`, and atomics of pointer
//! width with compare-and-swap.
//!
//! **A thread must not call [`write`](SharedRangeMap::write) while it holds a [`WriteGuard`] of the
//! same map.** With `std` it panics; without `std` it hangs. In `if let Some(x) =
//! map.write().get(1)` the guard lives to the end of the `if let`: bind the result first.
//!
//! ```
//! use samara::{End, GapQuery, RangeMap, Span};
//!
//! let mut map = RangeMap::<u64, _>::new();
//! map.insert(0x40_0000..=0x40_ffff, "program")?;
//! map.insert(0x7fff_0000..=0x7fff_ffff, "stack")?;
//!
//! let (range, value) = map.get(0x40_1234).unwrap();
//! assert_eq!((range, *value), (Span::new(0x40_0000, 0x40_ffff), "program"));
//!
//! let query = GapQuery::new(0x20_0000)
//!     .aligned(0x20_0000)?
//!     .within(0x1_0000..=0x7fff_ffff)
//!     .from(End::Highest);
//! assert_eq!(map.find_gap(&query), Some(Span::new(0x7fc0_0000, 0x7fdf_ffff)));
//! # Ok::<(), samara::Error>(())
//! ```
//!
//! # Coming from other maps
//! | `BTreeMap`, `rangemap`, `nodit` | here |
//! |---|---|
//! | `insert(a..b, v)` | `insert(a..=b - 1, v)`, or [`Span::with_len`]: ranges are inclusive, so that the highest key is an ordinary one |
//! | rangemap joins equal neighbours; `insert_merge_touching_if_values_equal` | [`RangeMap::insert_merging`], with a predicate of your choice; `insert` joins nothing |
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
//! Stores return a `Result`: a range may be empty, and memory may run out. Every error converts
//! into [`Error`], so that a function can use `?` on different calls. Stores require `V: Clone`,
//! because an entry that is cut in two keeps its value on both sides. [`VacantEntry::insert`] cuts
//! no entry and requires nothing of `V`.
//!
//! # Consistency
//! - A store is atomic, however many entries its range meets. No intermediate state is visible: not
//!   to an observer, not after an error, and not after a panic in a value's `clone` or in a
//!   closure. [`RangeMap`] says what holds in each case.
//! - The ranges of a map are never empty and never overlap. Two touching ranges stay separate until
//!   a call asks to join them.
//! - A call that runs out of memory leaves the entries unchanged. The exceptions are `append` and
//!   `try_extend`, which keep what they have done. A call that needs no memory says so. Every other
//!   call has a form that returns an error: `insert` and its variants, `try_clone`, `try_snapshot`,
//!   `try_extend`, `try_from_iter`, `append`, `split_off`. The forms without an error (`clone`,
//!   `snapshot`, `extend`, `collect`, `from`) abort as `Box` does. [`RangeMap::reserve`] allocates
//!   in advance.
//! - On a map that shares nodes with a snapshot, every change may allocate and may clone values.
//!   That includes `remove`, `get_mut`, `range_mut`, `retain`, cursors and owned iteration, which
//!   then abort where memory runs out. [`RangeMap::unshare`] copies the shared nodes in advance. A
//!   `clone` that panics leaves the entries as they were before the call or as the call leaves
//!   them: see [`RangeMap::try_snapshot`].
//! - An iterator that takes entries out documents what it leaves when it is dropped early. A leaked
//!   one may lose entries, but no entry is ever yielded twice.
//! - Any number of threads may look up through `&`; a store needs `&mut`. A map is `Send` and
//!   `Sync` as its values are. A snapshot is a separate map, and may go to another thread. Readers
//!   concurrent with a writer need a [`SharedRangeMap`], whose page says what they see.
//!
//! # Complexity
//! n is the number of entries, k the number of entries that the call meets:
//!
//! | | |
//! |---|---|
//! | `get`, `at_or_after`, `seek`, `at_or_before`, `first`, `last`, `entry`, a cursor's `walk` | O(log n) |
//! | `find_gap` without alignment or padded, `covers`, `is_free`, `overlaps`, `gap_at` | O(log n), independent of k |
//! | `insert`, `insert_merging`, `replace`, `clear_range`, `drain`, `split_off` | O(log n + k), amortised |
//! | `remove`, `split_at`, `merge_at`, moving a boundary, an entry that `extract_if` takes out | O(log n) |
//! | a step of an iterator or a cursor | O(1) amortised |
//! | `iter`, `into_iter`, `clone`, `from_sorted`, `clear`, drop | O(n) |
//! | `retain` | O(n), with one descent per leaf |
//! | `get_mut` | O(log n) |
//! | `reserve` of s stores | O(s), plus O(n) on a map that shares nodes |
//! | `append` of m entries | O(m log n); plus O(n) on a map that shares nodes |
//! | `unshare` | O(log n + k) |
//! | `coalesce`, `rewrite` | O(k log n) |
//! | `changes_since` of a snapshot, after c stores in one place each | O(c log n) |
//! | `shrink_to_fit` | O(n) |
//! | `len`, `is_empty`, `snapshot` | O(1) |
//!
//! [`SharedRangeMap`] says where its costs differ.
//!
//! On a map that shares nodes with a snapshot, a change also copies the shared nodes that it
//! touches. `drain`, `split_off`, `reserve`, `retain` and owned iteration copy all shared nodes:
//! O(n).
//!
//! Every node but the first and the last of its level is at least a quarter full, after any history
//! of calls and snapshots; [`RangeMap`] names the exception. Ascending fills, descending fills and
//! `from_sorted` leave full nodes.
//!
//! # Compared with
//! - The usual handwritten map is a `BTreeMap` from first key to (last key, value). A replacement
//!   is then a lookup, one or two trims, a removal for each entry met and an insertion, and a panic
//!   exposes any state in between. Finding a gap means looking at every entry. Choose it for keys
//!   that are not integers, or for values that are not `Clone`.
//! - rangemap has half-open as well as inclusive ranges, over any ordered key, and always joins
//!   equal neighbours. Choose it where you want that and do not need speed. It does not report what
//!   an insertion displaced, and it finds gaps by walking over them.
//! - nodit has intervals over discrete keys, with strict, overwriting and merging insertions, and
//!   returns what it cuts. It also finds gaps by walking, and it panics on an empty interval where
//!   this crate returns an error.
//! - None of them reserves memory before a store, returns an error when memory runs out, or takes
//!   an O(1) snapshot.
//!
//! `lab/benchmarks.md` in the repository compares this crate with these maps and others, and says
//! how to repeat the runs.
//!
//! # Features
//! - `std` (on by default): enables `shared`, and uses the operating system: readers register
//!   automatically, one registration per thread; a thread that waits to write sleeps; on Linux
//!   there is membarrier(2).
//! - `shared`: [`SharedRangeMap`] and its reclaimers, [`reclaim`]. Without `std` (`default-features
//!   = false, features = ["shared"]`) readers register by [`SharedRangeMap::reader`], a thread that
//!   waits to write spins, and [`Membarrier`] uses fences. Needs `alloc` and atomics of pointer
//!   width.
//! - `serde`: `Serialize` and `Deserialize` for [`Span`], as the pair `(first, last)`, and for
//!   [`RangeMap`], as the ascending sequence of `(first, last, value)`, and for [`RangeSet`], as
//!   the ascending sequence of `(first, last)`. Deserializing checks that the ranges are not empty,
//!   ascend and do not overlap. Needs no `std`.
//! - `search`, `testing`, `long`: for tests and benchmarks of this repository: a switch for the
//!   search path; maps with nodes of three and five slots, fault points; campaigns of hours.
#![no_std]
// The tree's files also hold code that only shared maps use.
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
pub use map::into_iter::{IntoIter, IntoSpans, IntoValues};
pub use map::iter::{Iter, IterMut, Range, RangeFrom, RangeMut, Spans, Values, ValuesMut};
pub use map::retain::ExtractIf;
pub use map::revise::Revision;
pub use node::shape::{Compact, Normal, Shape};
#[cfg(feature = "shared")]
pub use reclaim::{Epoch, Fenced, FencedDomain, Membarrier, PinHere, Quiescent, Reclaim};
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
pub use shared::kept::Kept;
#[cfg(feature = "shared")]
pub use shared::stage::Stage;
#[cfg(feature = "shared")]
pub use shared::write_guard::WriteGuard;
#[cfg(feature = "shared")]
pub use shared::writer::SharedWriter;
#[cfg(feature = "shared")]
pub use shared::writer_reservation::{WriterReservation, WriterUpdate};
pub use tree::check::Violation;
pub use tree::stats::Stats;
pub use types::displaced::{Displaced, Remains, unobserved};
pub use types::error::{AlignError, AllocError, BoundError, BuildError, EntryError, Error, StoreError};
#[cfg(feature = "shared")]
pub use types::error::{Busy, ReservedError};
pub use types::gap::{End, GapQuery};
pub use types::key::Key;
#[doc(hidden)]
pub use types::key::sealed as __sealed;
pub use types::span::Span;
#[cfg(feature = "shared")]
pub use types::try_arc::TryArc;

/// The search path, for benchmarks and the crate's own tests. May change in any release.
#[cfg(feature = "search")]
#[doc(hidden)]
pub mod search {
    pub use crate::node::search::Level;

    /// Selects the search path of the whole process: `level`, or the best one below it that the
    /// processor supports. Returns the selected one.
    pub fn force(level: Level) -> Level {
        crate::node::search::force(level)
    }
}

/// Support for the crate's own tests. May change in any release.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing {
    pub use crate::fault::{Point, set_hook, set_refusal};
    pub use crate::node::shape::Tiny;

    /// A map whose nodes have three and five slots.
    pub type TinyMap<K, V> = crate::RangeMap<K, V, Tiny>;

    #[cfg(loom)]
    pub use crate::sync::shadow::model;
}

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
