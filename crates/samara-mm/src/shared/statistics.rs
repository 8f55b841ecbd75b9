//! Counts of the paths that calls took. Each record counts its own (`record`).

/// Counts of the paths that calls on a shared space took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls that locked a range, or a leaf of the tree.
    pub ranged: u64,
    /// Of these, calls on the fast path, which ran on a copy of one leaf. The others were about
    /// many areas, near the end of a leaf, or beside other calls in the same range.
    pub leaf: u64,
    /// Calls that took the whole space.
    pub whole: u64,
    /// Calls that had to wait for a range lock.
    pub waited: u64,
    /// Number of waits in the queue for a range lock: at once, or after a call had [stood
    /// aside](crate::Wait::PATIENCE).
    pub queued: u64,
}
