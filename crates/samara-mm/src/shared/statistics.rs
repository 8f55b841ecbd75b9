//! How often calls took which way to their answers. Each record counts its own (`record`).

/// How calls on a shared space came to their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls that locked a range, or a leaf of the tree.
    pub ranged: u64,
    /// Of these, calls that ran on a copy of one leaf: all but those about much, near the end of a
    /// leaf, or beside others in the same range.
    pub leaf: u64,
    /// Calls that took the whole space.
    pub whole: u64,
    /// Calls that had to wait for a range lock.
    pub waited: u64,
    /// Times that a call waited in line for one: at once, or after it had [stood
    /// aside](Wait::PATIENCE).
    pub queued: u64,
}
