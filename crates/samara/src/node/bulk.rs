//! Bulk builds: make the nodes of copied trees and of trees built at once. Knows the kinds of node
//! and nothing of trees.
//!
//! The first nodes have memory of their own, the others are places of slabs. Each slab has an
//! eighth as many nodes as were made before it, up to [`MAX_SLAB_BYTES`] bytes.
//!
//! - **BULK-1** The last `left` places of `slab` have not been handed out.

use crate::node::slab::Slab;
use crate::node::{LINE, Unit, max};
use crate::types::error::AllocError;
use core::marker::PhantomData;

/// Minimum number of places of a slab.
const MIN_PLACES: usize = 4;

/// Maximum size of a slab in bytes.
const MAX_SLAB_BYTES: usize = 1 << 16;

/// Makes nodes of one kind.
pub(crate) struct Bulk<N: Unit> {
    made: usize,
    slab: Option<Slab>,
    left: usize,
    kind: PhantomData<*const N>,
}

impl<N: Unit> Bulk<N> {
    pub(crate) const fn new() -> Self {
        Bulk { made: 0, slab: None, left: 0, kind: PhantomData }
    }

    /// Live memory for a node, with its place number; the caller makes it a node.
    pub(crate) fn make(&mut self) -> Result<N, AllocError> {
        let made = self.made;
        self.made += 1;
        if self.left == 0 {
            let places = (made / 8).max(MIN_PLACES).min(MAX_SLAB_BYTES / max(N::BYTES, 1));
            if made < MIN_PLACES || places < MIN_PLACES || N::ALIGN > LINE {
                return N::alloc();
            }
            let slab = Slab::new(N::BYTES, places)?;
            (self.slab, self.left) = (Some(slab), places);
        }
        let Some(slab) = self.slab else { return Err(AllocError) };
        // SAFETY: BULK-1: the place has not been handed out, so it is the caller's alone; it is as
        // large as a node.
        let node = unsafe {
            let number = slab.count() - self.left + 1;
            let node = N::from_raw(slab.place(number));
            node.number().write(number as u16); // at most MAX_SLAB_BYTES / LINE
            node
        };
        self.left -= 1;
        Ok(node)
    }
}

impl<N: Unit> Drop for Bulk<N> {
    fn drop(&mut self) {
        if let Some(slab) = self.slab.filter(|_| self.left > 0) {
            // SAFETY: BULK-1: these places are this maker's alone, and it is gone.
            unsafe { slab.give_up(self.left) };
        }
    }
}
