//! The validator: visits every node and returns the first invariant that does not hold. Tests end
//! with it.
//!
//! Does not check what only a store in progress could break (STORE-1), nor owner counts.

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::tree::stats::Stats;
use crate::types::key::Key;
use core::fmt;

/// An invariant of the tree that does not hold: a defect of this crate, not of its caller.
///
/// The names (INNER-2, TREE-1, ...) are defined at the heads of the crate's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// What the check found.
    pub what: &'static str,
    /// The level of the node, 0 for a leaf.
    pub level: usize,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not hold at level {}: {}", self.invariant, self.level, self.what)
    }
}

impl core::error::Error for Violation {}

fn fail(invariant: &'static str, what: &'static str, level: usize) -> Result<(), Violation> {
    Err(Violation { invariant, what, level })
}

struct Border<K> {
    pivot: K,
    gap: K,
}

struct Checker<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    stats: Stats,
}

impl<K: Key, V, S: Shape> Checker<'_, K, V, S> {
    /// Checks the node at `at`, whose region starts at `start`, and everything below it. `first`
    /// and `last` tell whether it is the first and the last node of its level.
    ///
    /// # Safety
    /// `at` is a live node at `level`.
    unsafe fn node(
        &mut self,
        at: Raw,
        level: usize,
        start: K,
        first: bool,
        last: bool,
    ) -> Result<Border<K>, Violation> {
        // SAFETY: TREE-4: the node is live, as the caller promises, and so are its children.
        unsafe {
            if level == 0 {
                return self.leaf(Leaf::from_raw(at), start, first, last);
            }
            let node = Inner::<K, S>::from_raw(at);
            let len = node.len();
            if len > Inner::<K, S>::SLOTS {
                fail("INNER-3", "an inner node's length is beyond its slots", level)?;
            }
            self.stats.inners += 1;
            self.stats.bytes += Inner::<K, S>::BYTES;
            for i in len..Inner::<K, S>::SLOTS {
                if node.key(i) != K::MAX || node.gap(i) != K::ZERO {
                    fail("INNER-2", "a slot behind the length is not blank", level)?;
                }
            }
            if len < if level == self.tree.height() { 2 } else { 1 } {
                fail("TREE-4", "an inner node has too few children", level)?;
            }
            if len < Inner::<K, S>::MIN && !first && !last && !self.tree.thinned {
                fail("TREE-5", "an inner node is thin", level)?;
            }
            let gap = self.children(node, level, start, first, last)?;
            Ok(Border { pivot: node.key(len - 1), gap })
        }
    }

    /// Checks the children of `node`, at `level`, whose region starts at `start`, and its words for
    /// them. Returns the widest gap below it.
    ///
    /// # Safety
    /// `node` is live, at `level`, and its length is at most its slots.
    unsafe fn children(
        &mut self,
        node: Inner<K, S>,
        level: usize,
        start: K,
        first: bool,
        last: bool,
    ) -> Result<K, Violation> {
        let (mut start, mut gap) = (start, K::ZERO);
        // SAFETY: TREE-4: the node is live, as the caller promises, and so are its children.
        unsafe {
            let len = node.len();
            for i in 0..len {
                let seen = self.node(node.child(i), level - 1, start, first && i == 0, last && i + 1 == len)?;
                if seen.pivot != node.key(i) {
                    fail("TREE-2", "a pivot is not the last key below it", level)?;
                }
                if seen.gap != node.gap(i) {
                    fail("TREE-3", "a gap word is not the widest gap below it", level)?;
                }
                gap = gap.max(seen.gap);
                match seen.pivot.succ() {
                    Some(next) => start = next,
                    None if i + 1 < len => {
                        fail("TREE-1", "there are entries behind the one that holds the last key", level)?
                    }
                    None => {}
                }
            }
        }
        Ok(gap)
    }

    /// Checks a leaf whose region starts at `start`.
    ///
    /// # Safety
    /// The leaf is live.
    unsafe fn leaf(&mut self, leaf: Leaf<K, V, S>, start: K, first: bool, last: bool) -> Result<Border<K>, Violation> {
        // SAFETY: LEAF-1, LEAF-2: the leaf is live, as the caller promises, and only its own slots
        // are read.
        unsafe {
            let len = leaf.len();
            if len > leaf.slots() {
                fail("LEAF-3", "a leaf's length is beyond its slots", 0)?;
            }
            self.stats.leaves += 1;
            self.stats.bytes += Leaf::<K, V, S>::BYTES;
            self.stats.entries += len;
            self.stats.wide += usize::from(K::IS_U64 && leaf.is_wide());
            if !leaf.is_blank() {
                fail("LEAF-2", "a slot behind the length is not blank", 0)?;
            }
            if len == 0 {
                fail("TREE-4", "a leaf is empty", 0)?;
            }
            if len < Leaf::<K, V, S>::MIN && !first && !last && !self.tree.thinned {
                fail("TREE-5", "a leaf is thin", 0)?;
            }
            let (mut start, mut gap) = (Some(start), K::ZERO);
            for i in 0..len {
                let Some(free) = start.filter(|&free| free <= leaf.first(i)) else {
                    return fail("TREE-1", "an entry starts before the end of the one before it", 0)
                        .map(|()| unreachable!());
                };
                if leaf.first(i) > leaf.key(i) {
                    fail("TREE-1", "an entry ends before it starts", 0)?;
                }
                gap = gap.max(leaf.first(i).wrapping_sub(free));
                start = leaf.key(i).succ();
            }
            Ok(Border { pivot: leaf.key(len - 1), gap })
        }
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    pub(crate) fn check(&self) -> Result<Stats, Violation> {
        let stats = Stats {
            leaf_slots: Leaf::<K, V, S>::PACKED,
            inner_slots: Inner::<K, S>::SLOTS,
            levels: self.root.map_or(0, |_| self.height() + 1),
            ..Stats::default()
        };
        let mut checker = Checker { tree: self, stats };
        if let Some(root) = self.root {
            // SAFETY: TREE-4: the root is a live node at level `height`.
            unsafe { checker.node(root, self.height(), K::MIN, true, true)? };
        } else if self.height() != 0 {
            fail("TREE-4", "an empty tree has a height", self.height())?;
        }
        self.check_hole()?;
        self.check_finger()?;
        if checker.stats.entries != self.len {
            fail("TREE-6", "the length is not the number of entries", 0)?;
        }
        Ok(checker.stats)
    }
}
