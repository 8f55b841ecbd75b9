//! A writer's log: the nodes that its stores have taken out of a shared map and that are not free
//! yet, oldest first; and the facts that rebalancing needs about the part in which the running
//! store works. Does not know when readers are gone (`limbo`).

use crate::node::Raw;
use crate::tree::SHARED_HEIGHT;
use crate::types::error::AllocError;
use alloc::collections::VecDeque;

/// The reason why a node no longer belongs to the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another node has taken over its children; only its memory is left.
    Moved,
    /// The map has given it up together with everything that it owns.
    GivenUp,
}

/// A node that was taken out of the map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired {
    pub(crate) at: Raw,
    pub(crate) level: u8,
    pub(crate) fate: Fate,
}

/// Maximum number of roots that a store may remove at its end, one for each level. There is always
/// room for them in the log.
pub(crate) const ROOTS: usize = SHARED_HEIGHT;

pub(crate) struct Log<K> {
    /// The first key of the region of the store's part of the tree.
    pub(crate) base: K,
    /// Whether that part is the whole tree.
    pub(crate) whole: bool,
    /// The retired nodes, oldest first.
    pub(crate) retired: VecDeque<Retired>,
    /// Number of nodes that the running store will note later. Every reservation keeps room for
    /// them.
    pub(crate) outstanding: usize,
    /// Total bytes of the noted nodes.
    pub(crate) bytes: usize,
    /// Bytes of a leaf and of an inner node.
    pub(crate) sizes: (usize, usize),
}

impl<K> Log<K> {
    /// Reserves room for one more node, in addition to the outstanding ones and [`ROOTS`].
    pub(crate) fn reserve(&mut self) -> Result<(), AllocError> {
        self.retired.try_reserve(self.outstanding + 1 + ROOTS).map_err(|_| AllocError)
    }

    /// Removes and returns the oldest node.
    pub(crate) fn pop(&mut self) -> Option<Retired> {
        let oldest = self.retired.pop_front()?;
        self.bytes -= self.size(oldest.level);
        Some(oldest)
    }

    /// Drops the newest notes until `len` are left. The nodes noted in them are leaked.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.retired.len() > len {
            if let Some(node) = self.retired.pop_back() {
                self.bytes -= self.size(node.level);
            }
        }
    }

    /// Notes a node. The caller has reserved room for it.
    pub(crate) fn note(&mut self, at: Raw, level: usize, fate: Fate) {
        debug_assert!(self.retired.len() < self.retired.capacity());
        self.retired.push_back(Retired { at, level: level as u8, fate }); // levels are below MAX_HEIGHT
        self.bytes += self.size(level as u8);
    }

    /// Bytes of a node at this level.
    fn size(&self, level: u8) -> usize {
        if level == 0 { self.sizes.0 } else { self.sizes.1 }
    }
}
