//! Self-check of a reverse map: verifies the invariants of the module's files.

use super::ReverseMap;
use super::stats::Stats;
use super::tree::TreeFault;
use crate::shared::wait::Wait;
use core::fmt;
use samara::Span;

/// An invariant that a reverse map violates: a bug in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The areas of the shard of this number are not in order. The page is that of the first area
    /// out of order.
    Order {
        /// The shard.
        shard: usize,
        /// The page of the file.
        page: u64,
    },
    /// The shard has an area that is empty or not aligned.
    Malformed {
        /// The shard.
        shard: usize,
        /// The page of the file.
        page: u64,
    },
    /// The shard has an area whose node does not know the greatest page below it.
    Greatest {
        /// The shard.
        shard: usize,
        /// The page of the file.
        page: u64,
    },
    /// The shard's tree is not balanced.
    Balance {
        /// The shard.
        shard: usize,
    },
    /// The shard's number of areas is wrong.
    Counts {
        /// The shard.
        shard: usize,
    },
    /// The shard's memory is neither in use nor free.
    Memory {
        /// The shard.
        shard: usize,
    },
    /// The space has areas in a shard that is not its own.
    Misplaced {
        /// The shard.
        shard: usize,
        /// The space.
        space: u64,
    },
    /// The number of shared writable areas is wrong.
    SharedWritable {
        /// The number in the map.
        kept: usize,
        /// The real number.
        real: usize,
    },
}

impl Violation {
    fn of(shard: usize, fault: TreeFault) -> Violation {
        match fault {
            TreeFault::Order(page) => Violation::Order { shard, page },
            TreeFault::Malformed(page) => Violation::Malformed { shard, page },
            TreeFault::Greatest(page) => Violation::Greatest { shard, page },
            TreeFault::Heights => Violation::Balance { shard },
            TreeFault::Counts => Violation::Counts { shard },
            TreeFault::Nodes => Violation::Memory { shard },
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Order { shard, page } => write!(f, "shard {shard}: the area at page {page} is not in order"),
            Violation::Malformed { shard, page } => write!(f, "shard {shard}: the area at page {page} is malformed"),
            Violation::Greatest { shard, page } => {
                write!(f, "shard {shard}: the node of the area at page {page} has a wrong greatest page")
            }
            Violation::Balance { shard } => write!(f, "shard {shard}: the tree is not balanced"),
            Violation::Counts { shard } => write!(f, "shard {shard}: the areas are not as many as counted"),
            Violation::Memory { shard } => write!(f, "shard {shard}: nodes are neither in use nor free"),
            Violation::Misplaced { shard, space } => write!(f, "shard {shard}: space {space} belongs elsewhere"),
            Violation::SharedWritable { kept, real } => {
                write!(f, "{kept} shared writable areas are kept, there are {real}")
            }
        }
    }
}

impl core::error::Error for Violation {}

impl<W: Wait, S: Stats> ReverseMap<W, S> {
    /// Checks everything: order, balance, sums, counts, and which shard an area is in. Takes one
    /// lock at a time, so the sum over shards is right only while no batch is under way. O(n).
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        let mut real = 0;
        for (number, slot) in self.slots.iter().enumerate() {
            let Some([shard]) = slot.get() else { continue };
            let kept = shard.lock();
            let tree = &kept.tree;
            tree.check().map_err(|fault| Violation::of(number, fault))?;
            // SHARD-1.
            if shard.room() + tree.len() > tree.capacity() {
                return Err(Violation::Memory { shard: number });
            }
            if shard.areas() != tree.len() {
                return Err(Violation::Counts { shard: number });
            }
            if let Some(stray) = tree.overlaps(Span::FULL, None).find(|m| self.number_of(m.space) != number) {
                return Err(Violation::Misplaced { shard: number, space: stray.space });
            }
            real += tree.writable();
        }
        match self.shared_writable() {
            kept if kept == real => Ok(()),
            kept => Err(Violation::SharedWritable { kept, real }),
        }
    }
}
