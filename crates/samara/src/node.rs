//! What leaves and inner nodes have in common: one allocation, a handle, a cacheable size.

use crate::error::AllocError;
use core::ptr::NonNull;

/// An untyped node: what a child pointer and a path hold. Whether it is a leaf, its level says.
pub(crate) type Raw = NonNull<u8>;

/// What nodes are aligned to. Allocators give it unasked; for whole cache lines they take a slower way, which
/// copies and builds pay for: more than searches across nine lines instead of eight do.
pub(crate) const ALIGN: usize = 16;

pub(crate) const fn up(n: usize, align: usize) -> usize {
    n.div_ceil(align) * align
}

pub(crate) const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// A kind of node, as the allocator sees it.
pub(crate) trait Unit: Copy {
    const BYTES: usize;

    /// Memory for a node: live, and for the caller to make one of, by [`Unit::init`] or as a copy.
    fn alloc() -> Result<Self, AllocError>;

    /// Makes the node an empty one.
    ///
    /// # Safety
    /// The memory is live and holds no item.
    unsafe fn init(self);

    /// Gives the node's memory back. Its items are not dropped.
    ///
    /// # Safety
    /// The node is live, and nobody uses it or what it holds afterwards.
    unsafe fn free(self);

    fn raw(self) -> Raw;

    fn from_raw(at: Raw) -> Self;
}
