//! Freed nodes whose values are still to be dropped: a value's drop is foreign code, and runs when nothing is held that it could wait for.
//! Knows nothing of when nodes are free (`limbo`).
//!
//! - **F1** A node in here was given up by its map, and no reader can see it: what it owns goes when it is dropped here, once.

use crate::error::AllocError;
use crate::key::Key;
use crate::log::{Fate, Retired};
use crate::reap::Subtree;
use crate::shape::Shape;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem;

/// Dropped where the values' drops may run.
pub(crate) struct Freed<V, K: Key, S: Shape> {
    nodes: Vec<Retired>,
    owns: PhantomData<(V, K, S)>,
}

impl<V, K: Key, S: Shape> Freed<V, K, S> {
    pub(crate) const fn new() -> Self {
        Freed { nodes: Vec::new(), owns: PhantomData }
    }

    /// Whether a node's values have drops to be run.
    #[inline(always)]
    pub(crate) fn takes(fate: Fate) -> bool {
        mem::needs_drop::<V>() && fate == Fate::GivenUp
    }

    /// Room for one more.
    pub(crate) fn reserve(&mut self) -> Result<(), AllocError> {
        self.nodes.try_reserve(1).map_err(|_| AllocError)
    }

    /// Takes over a node, for which there is room.
    ///
    /// # Safety
    /// F1.
    pub(crate) unsafe fn take(&mut self, node: Retired) {
        debug_assert!(self.nodes.len() < self.nodes.capacity());
        self.nodes.push(node);
    }

    /// Takes over what `other` has. Where there is no memory to note it, what there is goes now.
    pub(crate) fn append(&mut self, mut other: Self) {
        if self.nodes.try_reserve(other.nodes.len()).is_ok() {
            self.nodes.append(&mut other.nodes);
        }
    }

    /// Drops what is there.
    pub(crate) fn clear(&mut self) {
        drop(mem::replace(self, Freed::new()));
    }
}

impl<V, K: Key, S: Shape> Drop for Freed<V, K, S> {
    fn drop(&mut self) {
        while let Some(node) = self.nodes.pop() {
            // While a value's drop unwinds, this one goes on.
            let mut rest = Self { nodes: mem::take(&mut self.nodes), owns: PhantomData };
            drop(Subtree::<V, K, S>::new(node.at, usize::from(node.level)));
            self.nodes = mem::take(&mut rest.nodes);
        }
    }
}
