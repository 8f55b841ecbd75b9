//! Slabs: one allocation for many nodes of one kind, in whole cache lines, beside one another.
//! Knows sizes and nothing of nodes.
//!
//! ```text
//!   | live, count, memory | place 1 | place 2 | ... | place count |        each place as long as a node, in whole lines
//! ```
//!
//! - **SLAB-1** A place is numbered from 1 on; 0 is the number of a node that has memory of its
//!   own.
//! - **SLAB-2** `live` counts the places that hold a node and those that have not been given out.
//!   Who lowers it to nothing frees the slab.
//!
//! Orderings: as for owners of nodes (`cow`): to lower the count is a Release, to find it zero an
//! Acquire.

use crate::node::{ALIGN, LINE, Raw, up};
use crate::sync::{AtomicUsize, Ordering, dealloc, fence};
use crate::types::error::AllocError;
use alloc::alloc::alloc;
use core::alloc::Layout;
use core::ptr::NonNull;

#[repr(C)]
struct Head {
    live: AtomicUsize,
    count: usize,
    /// Where the memory begins: up to a line before the head, so that the head is aligned without
    /// the allocator's slower way.
    memory: NonNull<u8>,
}

/// A slab of places of `bytes` bytes each.
#[derive(Clone, Copy)]
pub(crate) struct Slab {
    head: NonNull<Head>,
    bytes: usize,
}

impl Slab {
    fn layout(bytes: usize, count: usize) -> Result<Layout, AllocError> {
        let places = up(bytes, LINE).checked_mul(count).ok_or(AllocError)?;
        let size = places.checked_add(2 * LINE - ALIGN).ok_or(AllocError)?;
        Layout::from_size_align(size, ALIGN).map_err(|_| AllocError)
    }

    /// A new slab, none of whose places has been given out.
    pub(crate) fn new(bytes: usize, count: usize) -> Result<Self, AllocError> {
        const { assert!(size_of::<Head>() <= LINE && align_of::<Head>() <= LINE) };
        // SAFETY: the layout is not of size zero.
        let memory = NonNull::new(unsafe { alloc(Self::layout(bytes, count)?) }).ok_or(AllocError)?;
        let skipped = memory.as_ptr().addr().wrapping_neg() % LINE;
        // SAFETY: what is skipped is a line at most, less what the memory is aligned to; behind it there is
        // room for a head and the places.
        let head = unsafe { memory.add(skipped) }.cast::<Head>();
        // SAFETY: as above.
        unsafe { head.write(Head { live: AtomicUsize::new(count), count, memory }) };
        Ok(Slab { head, bytes })
    }

    /// How many places it has.
    ///
    /// # Safety
    /// The slab is live.
    pub(crate) unsafe fn count(self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.head.as_ref().count }
    }

    /// The place of this number.
    ///
    /// # Safety
    /// The slab is live and has that place (SLAB-1).
    pub(crate) unsafe fn place(self, number: usize) -> Raw {
        // SAFETY: the caller's promise: within the allocation.
        unsafe { self.head.cast::<u8>().add(LINE + (number - 1) * up(self.bytes, LINE)) }
    }

    /// The slab of the node at `at`, which is in the place of this number.
    ///
    /// # Safety
    /// It is so.
    pub(crate) unsafe fn of(at: Raw, number: usize, bytes: usize) -> Self {
        // SAFETY: the caller's promise: within the allocation.
        let head = unsafe { at.sub(LINE + (number - 1) * up(bytes, LINE)) };
        Slab { head: head.cast(), bytes }
    }

    /// Gives `places` places up, and the slab if they were the last.
    ///
    /// # Safety
    /// The slab is live; the places are the caller's, who uses neither them nor the slab
    /// afterwards.
    pub(crate) unsafe fn give_up(self, places: usize) {
        // SAFETY: the caller's promise; SLAB-2.
        unsafe {
            let head = self.head.as_ref();
            // Who has all that are left needs no atomic write: nobody else can come to them any more.
            if head.live.load(Ordering::Acquire) != places && head.live.fetch_sub(places, Ordering::Release) != places {
                return;
            }
            fence(Ordering::Acquire);
            let memory = head.memory;
            if let Ok(layout) = Self::layout(self.bytes, head.count) {
                dealloc(memory.as_ptr(), layout);
            }
        }
    }
}
