//! Self-check: verifies the invariants of a space.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::space::AddressSpace;
use crate::space::index::AreaIndex;
use crate::space::limits::Counters;
use core::fmt;

/// An invariant that a space violates: a bug in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The tree is not well formed.
    Tree(samara::Violation),
    /// The bounds of the area at this address are not page aligned, or are empty.
    Unaligned(u64),
    /// The area at this address overlaps the one before it.
    Overlap(u64),
    /// The shared memory at this address has an anonymous identity.
    SharedIdentity(u64),
    /// A sum is wrong.
    Sum {
        /// Which sum.
        of: &'static str,
        /// The sum in the space.
        kept: u64,
        /// The sum over the areas.
        real: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Tree(v) => write!(f, "the tree is not well formed: {v:?}"),
            Violation::Unaligned(a) => write!(f, "the area at {a:x} is not page aligned"),
            Violation::Overlap(a) => write!(f, "the area at {a:x} overlaps the one before it"),
            Violation::SharedIdentity(a) => write!(f, "the shared area at {a:x} has an anonymous identity"),
            Violation::Sum { of, kept, real } => write!(f, "{of}: {kept} is kept, the areas add up to {real}"),
        }
    }
}

impl core::error::Error for Violation {}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Checks everything: alignment, order, sums, and the tree itself. O(n).
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        self.areas.check().map_err(Violation::Tree)?;
        let (mut end, mut count, mut sums) = (0, 0u64, Counters::default());
        for a in self.areas() {
            if !self.aligned(a.start) || !self.aligned(a.end) || a.end <= a.start {
                return Err(Violation::Unaligned(a.start));
            }
            if a.start < end {
                return Err(Violation::Overlap(a.start));
            }
            if a.area.flags.contains(Flags::SHARED) && a.area.anon() != crate::area::Anon::Untouched {
                return Err(Violation::SharedIdentity(a.start));
            }
            (end, count) = (a.end, count + 1);
            sums.add(&Counters::of(a.area.flags, a.end - a.start));
        }
        let kept = &self.counters;
        let sums = [
            ("areas", self.len() as u64, count),
            ("all", kept.total, sums.total),
            ("data", kept.data, sums.data),
            ("executable", kept.exec, sums.exec),
            ("stacks", kept.stack, sums.stack),
            ("locked", kept.locked, sums.locked),
            ("charged", kept.committed, sums.committed),
        ];
        match sums.into_iter().find(|(_, kept, real)| kept != real) {
            Some((of, kept, real)) => Err(Violation::Sum { of, kept, real }),
            None => Ok(()),
        }
    }
}
