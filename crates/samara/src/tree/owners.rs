//! The refcount of a node: its owners beyond the first (COW-1). Knows nothing of nodes.
//!
//! Orderings: lowering a count is a Release, finding it 0 an Acquire. So everything that other
//! owners read happens before the last owner writes or frees.

use crate::sync::{AtomicU32, LoadOwn, Ordering, PUBLISHED};
use crate::types::error::AllocError;

/// Maximum number of owners: more are refused, long before the count could overflow.
const MAX_OWNERS: u32 = PUBLISHED / 2;

/// Whether the caller is the node's only owner and may write to it: it has no other owner and no
/// mark.
#[inline]
pub(crate) fn is_own(refs: &AtomicU32) -> bool {
    refs.load(Ordering::Acquire) == 0
}

/// Adds an owner.
pub(crate) fn add_owner(refs: &AtomicU32) -> Result<(), AllocError> {
    // Relaxed: the caller got the node from an owner that keeps it alive meanwhile.
    if refs.fetch_add(1, Ordering::Relaxed) & !PUBLISHED > MAX_OWNERS {
        refs.fetch_sub(1, Ordering::Relaxed);
        return Err(AllocError);
    }
    Ok(())
}

/// Removes an owner. Returns whether it was the last one, which must free the node.
pub(crate) fn remove_owner(refs: &AtomicU32) -> bool {
    // The last owner needs no atomic write: no other thread can reach the node any more.
    if refs.load_own(Ordering::Acquire) & !PUBLISHED == 0 {
        return true;
    }
    let last = refs.fetch_sub(1, Ordering::Release) & !PUBLISHED == 0;
    if last {
        // A fence would be enough, but race detectors understand a load.
        refs.load(Ordering::Acquire);
    }
    last
}

/// Whether a marked node has owners besides the shared map.
#[inline]
pub(crate) fn has_others(refs: &AtomicU32) -> bool {
    refs.load(Ordering::Acquire) & !PUBLISHED != 0
}
