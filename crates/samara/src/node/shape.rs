//! Shapes: the number of slots of a node. Knows sizes and nothing of what a node holds.
//!
//! - **SHAPE-1** Every capacity is from 3 to 63: a vector search has one bit for each slot, and a
//!   full node that takes two more entries splits into two legal ones.

/// The node sizes of a map: its last type parameter, which has a default, like the hasher of a
/// `HashMap`. The trait is sealed. [`Normal`] is the default, [`Compact`] is for many maps of few
/// entries, and a third shape forces splits in this crate's tests.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no shape of nodes",
    note = "leave the last type parameter of the map or set out, or make it `Compact`: `RangeMap<K, V>`, `RangeSet<K>`, `SharedRangeMap<K, V, R>`"
)]
pub trait Shape: sealed::Sealed + Send + Sync + 'static {
    /// Slots of an inner node.
    #[doc(hidden)]
    const INNER: usize;
    /// Slots of a leaf with small, medium and large values (see `leaf_slots`).
    #[doc(hidden)]
    const LEAF: [usize; 3];
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Normal {}
    impl Sealed for super::Tiny {}
    impl Sealed for super::Compact {}
}

/// Inner nodes of 31 slots, leaves of 29: 512 bytes with `u64` keys and 8-byte values. Leaves have
/// 13 slots for values over 32 bytes and 5 for values over 256 bytes, which keeps shifts within a
/// leaf short. Keys and header fill whole cache lines.
#[derive(Clone, Copy, Debug)]
pub enum Normal {}

/// Inner nodes of 3 slots and leaves of 5: few entries make a tall tree. For tests.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, dead_code))]
pub enum Tiny {}

/// Small nodes, for programs that hold many maps of few entries: inner nodes of 7 slots and leaves
/// of 5, which take 128 bytes with `u64` keys and 8-byte values. So a map that never had more than
/// four entries takes 192 bytes in all, where one of [`Normal`] nodes takes 576. A map of several
/// leaves, of either shape, takes 312 bytes more, in which it remembers its last removal and the
/// place of its last lookup.
///
/// Everything works as with normal nodes, at a price: a map of many entries is taller. With a
/// thousand ranges a lookup or a replacement takes twice as long, with a hundred thousand two to
/// four times, and each range takes 1.7 times the memory. A shared map has at most 16 levels: from
/// some 30,000 leaves on, a store may be refused as if memory had run out, if earlier stores ran
/// out of memory to keep nodes full.
///
/// # Examples
/// ```
/// use samara::{Compact, RangeMap};
/// let mut holders: Vec<RangeMap<u64, u32, Compact>> = Vec::new();
/// holders.resize_with(10_000, RangeMap::with_shape); // no allocation for a map
/// holders[17].insert(0x1000..=0x1fff, 3)?;
/// assert_eq!(holders[17].get(0x1800).map(|(_, value)| *value), Some(3));
/// # Ok::<(), samara::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Compact {}

/// The slot counts of [`Normal`] nodes that have specialised searches, with vectors that end with
/// the slots: inner nodes, leaves of small values, leaves of medium ones.
pub(crate) const INNER_SLOTS: usize = 31;
pub(crate) const LEAF_SLOTS: usize = 29;
pub(crate) const MEDIUM_SLOTS: usize = 13;

impl Shape for Normal {
    const INNER: usize = INNER_SLOTS;
    const LEAF: [usize; 3] = [LEAF_SLOTS, MEDIUM_SLOTS, 5];
}

impl Shape for Compact {
    const INNER: usize = 7;
    const LEAF: [usize; 3] = [5, 5, 5];
}

impl Shape for Tiny {
    const INNER: usize = 3;
    const LEAF: [usize; 3] = [5, 5, 5];
}

/// Slots of a leaf of shape `S` with values of `bytes` bytes.
pub(crate) const fn leaf_slots<S: Shape>(bytes: usize) -> usize {
    let class = if bytes <= 32 {
        0
    } else if bytes <= 256 {
        1
    } else {
        2
    };
    S::LEAF[class]
}
