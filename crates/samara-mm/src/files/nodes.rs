//! The memory of a tree: nodes by number, in blocks that double. A block never moves, so growing
//! copies nothing.
//!
//! Does not know the content of nodes.
//!
//! - **NODES-1** A number below `made` is in use or in the list of free ones, once.
//! - **NODES-2** Block `k` has room for `FIRST << k` nodes, so `capacity` is their sum.

use alloc::vec::Vec;
use samara::AllocError;

/// Stands for no node.
pub(super) const NONE: u32 = u32::MAX;
/// Nodes in the first block. A power of two.
const FIRST: u32 = 8;
/// Maximum number of blocks: numbers of nodes stay below [`NONE`].
const BLOCKS: usize = 28;

/// A node that can be linked into the list of free ones.
pub(super) trait Chain {
    fn next(&self) -> u32;
    fn set_next(&mut self, next: u32);
}

#[derive(Debug)]
pub(super) struct Nodes<T> {
    blocks: Vec<Vec<T>>,
    /// The first of the list of free nodes.
    free: u32,
    /// Nodes made so far; those above have memory and no content.
    made: u32,
}

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Nodes { blocks: Vec::new(), free: NONE, made: 0 }
    }
}

/// The block of a node, and its place there.
#[cfg_attr(not(debug_assertions), inline(always))]
fn place(number: u32) -> (usize, usize) {
    let above = number + FIRST;
    let power = above.ilog2();
    ((power - FIRST.ilog2()) as usize, (above - (1 << power)) as usize)
}

impl<T: Chain> Nodes<T> {
    /// Number of nodes that fit in the memory.
    pub(super) fn capacity(&self) -> usize {
        (FIRST as usize) * ((1 << self.blocks.len()) - 1)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Vec<T>>()
            + self.blocks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    /// Adds one block: the present number of nodes plus [`FIRST`]. Returns the number of new nodes.
    pub(super) fn grow(&mut self) -> Result<usize, AllocError> {
        if self.blocks.len() == BLOCKS {
            return Err(AllocError);
        }
        let room = (FIRST as usize) << self.blocks.len();
        let mut block = Vec::new();
        block.try_reserve_exact(room).map_err(|_| AllocError)?;
        self.blocks.try_reserve(1).map_err(|_| AllocError)?;
        self.blocks.push(block);
        Ok(room)
    }

    /// Frees the last blocks until `len` are left. They hold no nodes.
    pub(super) fn shrink_to(&mut self, len: usize) {
        self.blocks.truncate(len);
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Keeps the first block only. No node is in use. Returns the number of freed nodes.
    pub(super) fn clear(&mut self) -> usize {
        let before = self.capacity();
        self.blocks.truncate(1);
        if let Some(first) = self.blocks.first_mut() {
            first.clear();
        }
        (self.free, self.made) = (NONE, 0);
        before - self.capacity()
    }

    /// Stores `node` and returns its number. `None`: no memory is left.
    pub(super) fn take(&mut self, node: T) -> Option<u32> {
        if self.free != NONE {
            let number = self.free;
            self.free = self[number].next();
            self[number] = node;
            return Some(number);
        }
        let number = self.made;
        let (block, at) = place(number);
        let block = self.blocks.get_mut(block)?;
        debug_assert_eq!(block.len(), at, "NODES-1");
        block.push(node);
        self.made += 1;
        Some(number)
    }

    pub(super) fn give_back(&mut self, number: u32) {
        let free = self.free;
        self[number].set_next(free);
        self.free = number;
    }

    /// The nodes in the list of free ones, and those made; `None` if the list is longer.
    pub(super) fn count_free(&self) -> Option<(usize, usize)> {
        let (mut count, mut at) = (0, self.free);
        while at != NONE {
            count += 1;
            if at >= self.made || count > self.made as usize {
                return None;
            }
            at = self[at].next();
        }
        Some((count, self.made as usize))
    }
}

impl<T> core::ops::Index<u32> for Nodes<T> {
    type Output = T;
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn index(&self, number: u32) -> &T {
        let (block, at) = place(number);
        &self.blocks[block][at]
    }
}

impl<T> core::ops::IndexMut<u32> for Nodes<T> {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn index_mut(&mut self, number: u32) -> &mut T {
        let (block, at) = place(number);
        &mut self.blocks[block][at]
    }
}
