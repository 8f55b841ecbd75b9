//! The layout of a map in numbers: nodes of each kind, and their bytes. `check` counts them.

/// The layout of a map: see [`RangeMap::stats`](crate::RangeMap::stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of entries.
    pub entries: usize,
    /// Number of levels: 0 for an empty map, 1 if all entries are in one leaf.
    pub levels: usize,
    /// Number of leaves.
    pub leaves: usize,
    /// Number of inner nodes.
    pub inners: usize,
    /// Bytes of all leaves and inner nodes.
    pub bytes: usize,
    /// Number of wide leaves, whose keys lie too far apart to be stored as 32-bit offsets.
    pub wide: usize,
    /// Slots of a leaf. Leaves counted in `wide` may have fewer.
    pub leaf_slots: usize,
    /// Slots of an inner node.
    pub inner_slots: usize,
}
