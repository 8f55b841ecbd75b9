//! Self-check of a shared space.

use crate::area::Backing;
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::record::CallRecord;
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use crate::space::check::Violation;
use samara::{PinHere, Reclaim};

/// An invariant that a shared space violates: a bug in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedViolation {
    /// An invariant of the space itself.
    Space(Violation),
    /// The counted number of areas, and the real one.
    Count(usize, usize),
    /// A call that is over has left a mark for faults.
    Marks,
    /// The links in the reverse map of a file differ from the areas at this address.
    Links(u64),
    /// The area at this address counts as inherited, but is not.
    Generation(u64),
    /// The written memory at this address has moved, but the space has not told its family.
    Moved(u64),
    /// The family lacks the space, or lists one that is gone.
    Family,
    /// No memory for the check.
    Memory,
}

impl core::fmt::Display for SharedViolation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SharedViolation::Space(violation) => violation.fmt(f),
            SharedViolation::Count(kept, real) => write!(f, "{kept} areas are counted, there are {real}"),
            SharedViolation::Marks => f.write_str("a call that is over has left a mark for faults"),
            SharedViolation::Links(at) => write!(f, "the links of files differ from the areas at {at:x}"),
            SharedViolation::Generation(at) => write!(f, "the area at {at:x} counts as inherited"),
            SharedViolation::Moved(at) => write!(f, "the memory at {at:x} has moved, and the family does not know"),
            SharedViolation::Family => f.write_str("the family lacks the space, or has one that is gone"),
            SharedViolation::Memory => f.write_str("no memory for the check"),
        }
    }
}

impl core::error::Error for SharedViolation {}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Checks everything, while no call is under way: the areas, their sums, their number, the
    /// marks for faults, that exactly these areas are linked in the reverse maps of their files,
    /// and that the family has this space, and no space that is gone. (Does not find wrong links in
    /// the map of a file that the space does not map.) O(n), plus all areas in the same shards of
    /// the reverse maps, plus all members.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), SharedViolation> {
        let look = |space: AddressSpace<B>, kept: usize| {
            // No call is under way.
            if !self.marks.are_lowered()
                || self.calls.iter().flat_map(CallRecord::changes).any(|change| !change.is_clear())
            {
                return Err(SharedViolation::Marks);
            }
            if kept != space.len() {
                return Err(SharedViolation::Count(kept, space.len()));
            }
            space.check().map_err(SharedViolation::Space)?;
            // INHERIT-1: `with_whole` has stored all inherited areas as the space's own.
            if let Some((span, _)) = space.areas.iter().find(|(_, area)| self.inherited.is_inherited(area)) {
                return Err(SharedViolation::Generation(span.first));
            }
            // FAMILY-2.
            if !self.map.tree().has_moved()
                && let Some((span, _)) = space.areas.iter().find(|(_, area)| area.is_away())
            {
                return Err(SharedViolation::Moved(span.first));
            }
            if !self.family.check(self.map.tree(), &self.inherited) {
                return Err(SharedViolation::Family);
            }
            match self.map.check_links(&space.areas) {
                Ok(None) => Ok(()),
                Ok(Some(at)) => Err(SharedViolation::Links(at)),
                Err(_) => Err(SharedViolation::Memory),
            }
        };
        self.with_whole(look).map_err(|_: Errno| SharedViolation::Memory)?
    }
}
