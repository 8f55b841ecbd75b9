//! Why an area could not be linked or unlinked.

use core::fmt;

/// Why an area could not be linked or unlinked. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// The area is empty, its bounds are not aligned to pages, or its last page is above
    /// `u64::MAX`.
    Malformed,
    /// The space has an area with this start and this first page already.
    Linked,
    /// The space has no such area.
    NotLinked,
    /// The batch has made all links that memory was reserved for.
    UsedUp,
    /// No memory.
    Alloc,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkError::Malformed => {
                "not an area: give bounds that ascend and are multiples of 4096, and a page so low that the last one is below 2^64"
            }
            LinkError::Linked => "already linked: unlink or replace the area with this start and page first",
            LinkError::NotLinked => "not linked: give the area as it was linked last",
            LinkError::UsedUp => "no reserved memory left: reserve more links for the batch",
            LinkError::Alloc => "out of memory: free memory, then try again",
        })
    }
}

impl core::error::Error for LinkError {}

impl From<samara::AllocError> for LinkError {
    fn from(_: samara::AllocError) -> LinkError {
        LinkError::Alloc
    }
}
