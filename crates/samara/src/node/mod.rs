//! What leaves and inner nodes share: a piece of memory (its own or a place in a slab), a handle, a
//! size that can be kept for reuse.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod avx512;
pub(crate) mod inner;
pub(crate) mod leaf;
pub(crate) mod pool;
pub(crate) mod search;
pub(crate) mod shape;
pub(crate) mod slab;

use crate::node::slab::Slab;
use crate::sync::{dealloc, freed, spoil};
use crate::types::error::AllocError;
use alloc::alloc::alloc;
use core::alloc::Layout;
use core::ptr::NonNull;

/// The mark, in the count of its owners, of a node that a shared map shows to readers (COW-4).
pub(crate) const PUBLISHED: u32 = 1 << 31;

/// An untyped node: what a child pointer and a path hold. Whether it is a leaf, its level says.
pub(crate) type Raw = NonNull<u8>;

/// What nodes with memory of their own are aligned to at least. Allocators give it unasked; for
/// whole lines they take a slower way.
pub(crate) const ALIGN: usize = 16;

/// Bytes of a cache line, to which nodes in slabs are aligned.
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

    /// Makes the node an empty one, in the place where it is.
    ///
    /// # Safety
    /// The memory is live, has its number, and holds no item.
    unsafe fn init(self);

    /// Where the number of its place stands (SLAB-1).
    fn number(self) -> *mut u16;

    /// Where a node that is out of its tree, and has no use for its keys any more, links to another
    /// one. Apart from its number, and of any alignment.
    fn link(self) -> *mut Option<Raw>;

    fn raw(self) -> Raw;

    fn from_raw(at: Raw) -> Self;

    /// Memory of its own for a node: live, and for the caller to make one of, by [`Unit::init`] or
    /// as a copy.
    fn alloc() -> Result<Self, AllocError> {
        let layout = Self::layout()?;
        // SAFETY: the layout is not of size zero: there is a header in it.
        let node = NonNull::new(unsafe { alloc(layout) }).map(Self::from_raw).ok_or(AllocError)?;
        // SAFETY: fresh memory of this layout.
        unsafe { node.number().write(0) };
        Ok(node)
    }

    fn layout() -> Result<Layout, AllocError> {
        Layout::from_size_align(Self::BYTES, Self::ALIGN).map_err(|_| AllocError)
    }

    /// Gives the node's memory back. Its items are not dropped.
    ///
    /// # Safety
    /// The node is live, and nobody uses it or what it holds afterwards.
    unsafe fn free(self) {
        // SAFETY: the caller's promise: allocated by `alloc` with this layout, or in the place of its
        // number.
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

    /// Nothing is in the node any more but its number, which is returned.
    ///
    /// # Safety
    /// As for [`Unit::free`].
    #[inline(always)]
    unsafe fn wipe(self) -> u16 {
        freed(self.raw(), Self::BYTES);
        // SAFETY: the caller's promise; a node is whole words.
        unsafe {
            let number = self.number().read();
            spoil(self.raw(), Self::BYTES);
            self.number().write(number);
            number
        }
    }
}
