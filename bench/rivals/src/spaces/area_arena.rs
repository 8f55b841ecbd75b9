//! The areas of one space by number, in memory that is freed only with the space. So an old number
//! still leads to an area, though perhaps another one by then; kernels have such memory for areas
//! too. Knows nothing of the map.

use crate::spaces::area_lock::AreaLock;
use std::sync::OnceLock;

/// Areas of the first block; each block has twice as many as the one before.
const FIRST: u32 = 64;
/// Number of blocks, enough for any number of areas.
const BLOCKS: usize = 26;

/// The areas.
#[derive(Debug, Default)]
pub struct Arena {
    blocks: [OnceLock<Box<[AreaLock]>>; BLOCKS],
}

/// The numbers that no area has.
#[derive(Debug, Default)]
pub struct Free {
    /// Of areas that are gone.
    gone: Vec<u32>,
    /// The smallest number that no area ever had.
    next: u32,
}

/// The block of an area, and its index in the block.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let at = number + FIRST;
    let block = at.ilog2() - FIRST.ilog2();
    (block as usize, (at - (FIRST << block)) as usize)
}

impl Arena {
    /// The area with this number, which [`Free::take`] has returned.
    #[inline]
    pub fn area(&self, number: u32) -> &AreaLock {
        let (block, at) = place(number);
        &self.blocks[block].get().expect("a block that was made for this number")[at]
    }
}

impl Free {
    /// A number for an area that is not in the tree: its bounds are 0, and holders of an old number
    /// may be counted in it.
    pub fn take(&mut self, arena: &Arena) -> u32 {
        if let Some(number) = self.gone.pop() {
            return number;
        }
        let (number, (block, _)) = (self.next, place(self.next));
        let none = || AreaLock::new(0, 0, 0);
        arena.blocks[block].get_or_init(|| (0..FIRST << block).map(|_| none()).collect());
        self.next += 1;
        number
    }

    /// Takes back the number of an area that is gone.
    pub fn give_back(&mut self, number: u32) {
        self.gone.push(number);
    }
}

#[cfg(test)]
#[path = "area_arena_tests.rs"]
mod tests;
