//! Shapes: the number of slots of a node. Knows sizes and nothing of what a node holds.
//!
//! - **SHAPE-1** Every capacity is from 3 to 63: a search by vectors has a bit for every slot, and
//!   a full node that takes two more entries falls apart into two legal ones.

/// How large the nodes of a map are. Sealed: [`Normal`] is the shape that is measured and the
/// default; another one, with nodes of three slots, forces splits in tests.
pub trait Shape: sealed::Sealed + Send + Sync + 'static {
    /// Slots of an inner node.
    #[doc(hidden)]
    const INNER: usize;
    /// Slots of a leaf: for small, for middling and for large values (see `leaf_slots`).
    #[doc(hidden)]
    const LEAF: [usize; 3];
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Normal {}
    impl Sealed for super::Tiny {}
    impl Sealed for super::Small {}
}

/// Inner nodes of 31 slots, leaves of 29: 512 bytes with `u64` keys and 8-byte values. Leaves of
/// values over 32 bytes have 13 slots, over 256 bytes 5, so that a shift within a leaf stays short.
/// Keys and header fill whole cache lines.
#[derive(Clone, Copy, Debug)]
pub enum Normal {}

/// Inner nodes of 3 slots and leaves of 5, so that a handful of entries makes a tall tree. For
/// tests.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, dead_code))]
pub enum Tiny {}

/// Inner nodes of 7 slots and leaves of 5: with room to split a child without being split. For
/// tests.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, dead_code))]
pub enum Small {}

impl Shape for Normal {
    const INNER: usize = 31;
    const LEAF: [usize; 3] = [29, 13, 5];
}

impl Shape for Small {
    const INNER: usize = 7;
    const LEAF: [usize; 3] = [5, 5, 5];
}

impl Shape for Tiny {
    const INNER: usize = 3;
    const LEAF: [usize; 3] = [5, 5, 5];
}

/// Slots of a leaf of `S` whose values have `bytes` bytes.
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
