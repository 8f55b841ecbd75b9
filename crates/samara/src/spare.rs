//! Spare nodes: memory set aside, so that a commit needs none. Knows kinds of node, and nothing of trees.
//!
//! - **P1** A chained node is live and holds no item; its first word links to the next one, its other bytes are anything.

use crate::error::AllocError;
use crate::node::{Raw, Unit};
use core::marker::PhantomData;

/// A chain of nodes of one kind.
pub(crate) struct Spare<N> {
    head: Option<Raw>,
    len: usize,
    /// Whether nodes that fall free are kept: from a reservation on, until `release`.
    keeps: bool,
    kind: PhantomData<*const N>,
}

impl<N: Unit> Spare<N> {
    pub(crate) const fn new() -> Self {
        Spare { head: None, len: 0, keeps: false, kind: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Sees to it that `n` nodes are there; where that fails, there are as many as before.
    pub(crate) fn ensure(&mut self, n: usize) -> Result<(), AllocError> {
        // More than there can ever be is refused before anything is taken.
        if n.checked_mul(N::BYTES).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(AllocError);
        }
        let had = self.len;
        while self.len < n {
            match N::alloc() {
                // SAFETY: a fresh node.
                Ok(node) => unsafe { self.put(node) },
                Err(error) => {
                    self.shrink(had);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// From now on nodes that fall free are kept.
    pub(crate) fn keep(&mut self) {
        self.keeps = true;
    }

    /// Takes over a node that has fallen free: keeps it, or frees it.
    ///
    /// # Safety
    /// The node is live, holds no item, and is nobody else's.
    pub(crate) unsafe fn give(&mut self, node: N) {
        // SAFETY: the caller's promise.
        unsafe { if self.keeps { self.put(node) } else { node.free() } }
    }

    /// # Safety
    /// As for [`Spare::give`].
    unsafe fn put(&mut self, node: N) {
        // SAFETY: P1; every node is larger than a pointer, and aligned for one.
        unsafe { node.raw().cast::<Option<Raw>>().write(self.head) };
        self.head = Some(node.raw());
        self.len += 1;
    }

    /// The first node of the chain, as it was put there.
    fn pop(&mut self) -> Option<N> {
        let head = self.head?;
        // SAFETY: P1.
        self.head = unsafe { head.cast::<Option<Raw>>().read() };
        self.len -= 1;
        Some(N::from_raw(head))
    }

    /// An empty node from the chain.
    ///
    /// # Panics
    /// If there is none: the plan of a store asked for too few, and going on would corrupt the tree.
    pub(crate) fn take(&mut self) -> N {
        let node = self.pop().expect("a store was planned with too few nodes");
        // SAFETY: P1.
        unsafe { node.init() };
        node
    }

    /// Gives back what is there beyond `n`.
    pub(crate) fn shrink(&mut self, n: usize) {
        while self.len > n {
            let Some(node) = self.pop() else { return };
            // SAFETY: P1: live, and nobody else has it.
            unsafe { node.free() };
        }
    }

    /// Gives all of them back, and keeps no more.
    pub(crate) fn release(&mut self) {
        self.shrink(0);
        self.keeps = false;
    }
}
