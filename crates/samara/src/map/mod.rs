//! The public map of a single owner, [`RangeMap`]. Knows the tree's operations, and leaves where it
//! changes entries in place; knows nothing of inner nodes.

// In the order of the sections on the page of `RangeMap`; the first module of a section has its
// heading.
pub(crate) mod construct;

pub(crate) mod lookup;

pub(crate) mod iter;

pub(crate) mod cursor;
pub(crate) mod into_iter;

pub(crate) mod insert;

pub(crate) mod merge;
pub(crate) mod resize;

pub(crate) mod remove;

pub(crate) mod drain;
pub(crate) mod retain;

pub(crate) mod entry;

pub(crate) mod revise;
pub(crate) mod rewrite;

pub(crate) mod gaps;

pub(crate) mod reservation;

pub(crate) mod snapshot;

pub(crate) mod changes;

pub(crate) mod inspect;

pub(crate) mod append;
#[cfg(feature = "serde")]
pub(crate) mod serde;
pub(crate) mod traits;

use crate::node::shape::{Normal, Shape};
use crate::tree::Tree;
use crate::types::key::Key;

/// A map from disjoint, inclusive ranges of keys to values.
///
/// A wide B-tree: leaves have 29 slots, and an inner node keeps the width of the widest gap below
/// each child. Two touching ranges with equal values stay separate: the caller decides what is
/// joined.
///
/// `RangeMap<u64, V>` is invariant in `V`: a map of `&'static str` is not a map of `&'a str`.
///
/// # Consistency
/// A map has a single owner: `&mut` edits in place. A store replaces everything in its range at
/// once. An operation that fails (empty range, no memory), or whose observer or value's `clone`
/// panics, leaves the map as it was ([`append`](Self::append), [`try_extend`](Self::try_extend) and
/// maps that share nodes with a [`snapshot`](Self::snapshot) say what they keep). If the `drop` of
/// a displaced value panics, the store has happened, every other displaced value is dropped, and
/// the panic goes on. If the map shares nodes with a snapshot and a `clone` panics too while they
/// are dropped, the program is aborted.
///
/// # Complexity
/// For n entries: [`get`](Self::get), [`insert`](Self::insert) within a leaf,
/// [`remove`](Self::remove), and [`find_gap`](Self::find_gap) without alignment or padded O(log n);
/// a store that meets k entries O(k + log n) amortised; a step of an iterator or cursor O(1)
/// amortised; [`try_clone`](Self::try_clone), [`from_sorted`](Self::from_sorted), `drop` O(n);
/// [`snapshot`](Self::snapshot) O(1). The [crate's page](crate#complexity) lists all of them.
///
/// Memory with `u64` keys and 8-byte values: about 19 bytes an entry where leaves are full, and 27
/// after random stores. Where neighbours lie so far apart that their keys differ in the upper 32
/// bits, it is 34 and 49. An empty map takes 64 bytes and allocates nothing. After any history of
/// stores, removals and snapshots there are at most `4 * n / 29 + 2` leaves: each but the two at
/// the ends is at least a quarter full, except where a shared neighbour could not be copied because
/// an allocation failed or a value's `clone` panicked.
///
/// # Examples
/// ```
/// use samara::{RangeMap, Span};
/// let mut map = RangeMap::<u64, _>::new();
/// map.insert(0x1000..=0x4fff, "text")?;
/// map.insert(0x2000..=0x2fff, "hole")?; // cuts the first one in two
/// assert_eq!(map.len(), 3);
/// assert_eq!(map.get(0x2800), Some((Span::new(0x2000, 0x2fff), &"hole")));
/// assert_eq!(map.get(0x5000), None);
/// assert_eq!(map.remove(0x2000), Some((Span::new(0x2000, 0x2fff), "hole")));
/// assert!(map.gaps(0x1000..=0x4fff).eq([Span::new(0x2000, 0x2fff)]));
/// # Ok::<(), samara::StoreError>(())
/// ```
pub struct RangeMap<K: Key, V, S: Shape = Normal> {
    pub(crate) tree: Tree<K, V, S>,
}
