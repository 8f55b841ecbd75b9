//! The retired nodes of one store: nodes taken out of a shared map that readers may still see, in
//! the order of their removal. Knows nothing of when readers are gone (`limbo`).

use crate::node::Raw;
use crate::tree::SHARED_HEIGHT;
use crate::types::error::AllocError;
use alloc::collections::VecDeque;

/// Why a node is not the map's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Another node has taken over its children: nothing but its memory is left.
    Moved,
    /// The map has given it up, and with it all that it owns.
    GivenUp,
}

/// A node that was taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired {
    pub(crate) at: Raw,
    pub(crate) level: u8,
    pub(crate) fate: Fate,
}

/// Roots that a store may take off at its end, one for each level: there is always room for them.
pub(crate) const ROOTS: usize = SHARED_HEIGHT;

pub(crate) struct Log<K> {
    /// The first key of the region of the part of the tree that the store is in.
    pub(crate) base: K,
    /// Whether that part is the whole tree.
    pub(crate) whole: bool,
    /// Oldest first.
    pub(crate) retired: VecDeque<Retired>,
    /// Nodes that the store under way will note, and has not reserved room for by then.
    pub(crate) owed: usize,
    /// Bytes of the nodes that are noted.
    pub(crate) bytes: usize,
    /// Bytes of a leaf and of an inner node.
    pub(crate) sizes: (usize, usize),
}

impl<K> Log<K> {
    /// Room for one more, beside [`ROOTS`].
    pub(crate) fn reserve(&mut self) -> Result<(), AllocError> {
        self.retired.try_reserve(self.owed + 1 + ROOTS).map_err(|_| AllocError)
    }

    /// The oldest one.
    pub(crate) fn pop(&mut self) -> Option<Retired> {
        let oldest = self.retired.pop_front()?;
        self.bytes -= if oldest.level == 0 { self.sizes.0 } else { self.sizes.1 };
        Some(oldest)
    }

    /// Strikes out what was noted last, but for the first `len` nodes: they are leaked.
    pub(crate) fn strike(&mut self, len: usize) {
        while self.retired.len() > len {
            if let Some(node) = self.retired.pop_back() {
                self.bytes -= if node.level == 0 { self.sizes.0 } else { self.sizes.1 };
            }
        }
    }

    /// Notes a node, for which there is room.
    pub(crate) fn note(&mut self, at: Raw, level: usize, fate: Fate) {
        debug_assert!(self.retired.len() < self.retired.capacity());
        self.retired.push_back(Retired { at, level: level as u8, fate }); // levels are below MAX_HEIGHT
        self.bytes += if level == 0 { self.sizes.0 } else { self.sizes.1 };
    }
}
