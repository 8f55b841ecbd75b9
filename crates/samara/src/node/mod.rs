//! What leaves and inner nodes share: memory (an allocation of its own or a place in a slab), a
//! handle, and a size that makes freed nodes reusable.
//!
//! Does not know what a node holds: `leaf` and `inner` lay out the bytes, `slab` and `pool` provide
//! the memory, `search` compares keys, `shape` fixes the number of slots.

pub(crate) mod bulk;
pub(crate) mod inner;
pub(crate) mod leaf;
pub(crate) mod pool;
pub(crate) mod search;
pub(crate) mod shape;
pub(crate) mod slab;
// A bare kernel's target may have no vectors at all.
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    target_pointer_width = "64",
    any(not(miri), samara_miri_avx2)
))]
pub(crate) mod vectors;
#[cfg(not(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    target_pointer_width = "64",
    any(not(miri), samara_miri_avx2)
)))]
#[path = "no_vectors.rs"]
mod vectors;

use crate::node::slab::Slab;
use crate::sync::{dealloc, freed, spoil};
use crate::types::error::AllocError;
use alloc::alloc::alloc;
use core::alloc::Layout;
use core::ptr::NonNull;

pub(crate) use crate::sync::PUBLISHED;

/// An untyped node, as child pointers and paths hold it. Its level tells whether it is a leaf.
pub(crate) type Raw = NonNull<u8>;

/// The minimum alignment of nodes with memory of their own. Allocators guarantee it anyway; for the
/// alignment of a whole cache line they take a slower path.
pub(crate) const ALIGN: usize = 16;

/// Bytes of a cache line, the alignment of nodes in slabs.
pub(crate) const LINE: usize = 64;

pub(crate) const fn up(n: usize, align: usize) -> usize {
    n.div_ceil(align) * align
}

pub(crate) const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// A kind of node, as the allocator sees it.
pub(crate) trait Unit: Copy {
    const BYTES: usize;
    const ALIGN: usize;

    /// Initialises the memory in place as an empty node.
    ///
    /// # Safety
    /// The memory is live, has its place number, and holds no item.
    unsafe fn init(self);

    /// The address of the node's place number (SLAB-1).
    fn number(self) -> *mut u16;

    /// The address of a link to another node. The link overwrites keys or items, so it is for nodes
    /// outside of any tree. It does not overlap the place number, and may be unaligned.
    fn link(self) -> *mut Option<Raw>;

    fn raw(self) -> Raw;

    fn from_raw(at: Raw) -> Self;

    /// Allocates memory of its own for a node. The memory is live and has its number; the caller
    /// makes it a node with [`Unit::init`] or as a copy.
    fn alloc() -> Result<Self, AllocError> {
        let layout = Self::layout()?;
        // SAFETY: the layout includes the node's header, so its size is not zero.
        let node = NonNull::new(unsafe { alloc(layout) }).map(Self::from_raw).ok_or(AllocError)?;
        // SAFETY: this is fresh memory with the layout of a node, and the number lies within it.
        unsafe { node.number().write(0) };
        Ok(node)
    }

    fn layout() -> Result<Layout, AllocError> {
        Layout::from_size_align(Self::BYTES, Self::ALIGN).map_err(|_| AllocError)
    }

    /// Frees the node's memory without dropping its items.
    ///
    /// # Safety
    /// The node is live. Neither it nor what it holds is used afterwards.
    unsafe fn free(self) {
        // SAFETY: SLAB-1: number 0 means that `alloc` allocated the node with this layout, any
        // other that the node lies at that place of a slab; it is not used afterwards, as the
        // caller promises.
        unsafe {
            match usize::from(self.wipe()) {
                0 => {
                    if let Ok(layout) = Self::layout() {
                        dealloc(self.raw().as_ptr(), layout);
                    }
                }
                number => Slab::of(self.raw(), number, Self::BYTES).give_up(1),
            }
        }
    }

    /// Discards what the node holds except for its place number, which it returns. Tests overwrite
    /// the memory (`spoil`).
    ///
    /// # Safety
    /// As for [`Unit::free`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn wipe(self) -> u16 {
        freed(self.raw(), Self::BYTES);
        // SAFETY: the caller's node is live and not used any more, and a node is whole 8-byte
        // words, as `spoil` requires.
        unsafe {
            let number = self.number().read();
            spoil(self.raw(), Self::BYTES);
            self.number().write(number);
            number
        }
    }
}
