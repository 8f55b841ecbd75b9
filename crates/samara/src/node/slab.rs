//! Slabs: one allocation for many nodes of one kind, aligned to cache lines. Knows sizes and
//! nothing of nodes.
//!
//! ```text
//!   | live, count, memory | place 1 | place 2 | ... | place count |
//!
//!     each place is as long as a node, rounded up to whole lines
//! ```
//!
//! - **SLAB-1** Places are numbered from 1. Number 0 means that a node has memory of its own.
//! - **SLAB-2** `live` counts the places that hold a node and those that have not been handed out.
//!   The caller that lowers it to 0 frees the slab.
//!
//! Orderings, as for the owner counts of nodes (`owners`): lowering the count is a Release, finding
//! it 0 an Acquire.

use crate::node::{ALIGN, LINE, Raw, up};
use crate::sync::{AtomicUsize, Ordering, dealloc};
use crate::types::error::AllocError;
use alloc::alloc::alloc;
use core::alloc::Layout;
use core::ptr::NonNull;

#[repr(C)]
struct Head {
    live: AtomicUsize,
    count: usize,
    /// Start of the allocation, at most one line before the head. The head is aligned by hand
    /// because allocators take a slower path for this alignment.
    memory: NonNull<u8>,
}

/// A slab with places of `bytes` bytes each.
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

    /// Allocates a slab. No place has been handed out.
    pub(crate) fn new(bytes: usize, count: usize) -> Result<Self, AllocError> {
        const { assert!(size_of::<Head>() <= LINE && align_of::<Head>() <= LINE) };
        // SAFETY: the layout has room for the head, so its size is not zero.
        let memory = NonNull::new(unsafe { alloc(Self::layout(bytes, count)?) }).ok_or(AllocError)?;
        let skipped = memory.as_ptr().addr().wrapping_neg() % LINE;
        // SAFETY: at most `LINE - ALIGN` bytes are skipped, because `memory` is aligned to `ALIGN`;
        // the layout has room for them, the head and the places.
        let head = unsafe { memory.add(skipped) }.cast::<Head>();
        // SAFETY: the head lies within the fresh allocation and is aligned to a line.
        unsafe { head.write(Head { live: AtomicUsize::new(count), count, memory }) };
        Ok(Slab { head, bytes })
    }

    /// The number of places.
    ///
    /// # Safety
    /// The slab is live.
    pub(crate) unsafe fn count(self) -> usize {
        // SAFETY: the slab is live, as the caller promises, so its head is.
        unsafe { self.head.as_ref().count }
    }

    /// The place with this number.
    ///
    /// # Safety
    /// The slab is live and has this place (SLAB-1).
    pub(crate) unsafe fn place(self, number: usize) -> Raw {
        // SAFETY: SLAB-1: the number is from 1 to `count`, as the caller promises, so the place
        // lies within the allocation.
        unsafe { self.head.cast::<u8>().add(LINE + (number - 1) * up(self.bytes, LINE)) }
    }

    /// The slab of the node at `at`.
    ///
    /// # Safety
    /// `at` is the place with this number in a live slab of places of `bytes` bytes.
    pub(crate) unsafe fn of(at: Raw, number: usize, bytes: usize) -> Self {
        // SAFETY: SLAB-1: `at` is place `number`, as the caller promises, so the head lies this far
        // before it in the same allocation.
        let head = unsafe { at.sub(LINE + (number - 1) * up(bytes, LINE)) };
        Slab { head: head.cast(), bytes }
    }

    /// Gives up `places` places, and frees the slab if they were the last.
    ///
    /// # Safety
    /// The slab is live, and the places belong to the caller, which uses neither them nor the slab
    /// afterwards.
    pub(crate) unsafe fn give_up(self, places: usize) {
        // SAFETY: SLAB-2: the caller's places are counted, so the slab is live until they are
        // subtracted; it is freed only when none are left.
        unsafe {
            let head = self.head.as_ref();
            // The owner of all remaining places needs no atomic write: no other thread can reach
            // the slab any more.
            if head.live.load(Ordering::Acquire) != places {
                if head.live.fetch_sub(places, Ordering::Release) != places {
                    return;
                }
                // Not a fence, which ThreadSanitizer does not see.
                head.live.load(Ordering::Acquire);
            }
            let memory = head.memory;
            if let Ok(layout) = Self::layout(self.bytes, head.count) {
                dealloc(memory.as_ptr(), layout);
            }
        }
    }
}
