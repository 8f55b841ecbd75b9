//! Walks over two trees at once and skips the nodes that both have: only the rest may differ.
//!
//! Compares nodes by their addresses, and entries by their keys. The caller compares values.
//!
//! - **DIFF-1** Both trees are borrowed while a walk over them lives, so their nodes stay, and a
//!   node that both reach is the same node: everything below it is in both trees.
//! - **DIFF-2** `path` has a step for each level above the current position; the step's slot is the
//!   one that leads there.

use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::walk::span_of;
use crate::tree::{Path, Step, Tree};
use crate::types::key::Key;
use crate::types::span::Span;

/// An entry, borrowed from its map.
pub(crate) type EntryRef<'a, K, V> = (Span<K>, &'a V);

/// The next entry of each tree; `None` at the tree's end.
type Pair<'a, K, V> = (Option<EntryRef<'a, K, V>>, Option<EntryRef<'a, K, V>>);

/// A position in a walk over one of the trees.
enum At<K: Key, V, S: Shape> {
    /// Before everything below this node, which is at `level`.
    Node { node: Raw, level: usize },
    /// At an entry.
    Slot { leaf: Leaf<K, V, S>, slot: usize },
}

/// A walk over one of the two trees, in ascending order.
struct Side<'a, K: Key, V, S: Shape> {
    tree: &'a Tree<K, V, S>,
    path: Path,
    at: Option<At<K, V, S>>,
}

/// A walk over two trees.
pub(crate) struct Diff<'a, K: Key, V, S: Shape> {
    old: Side<'a, K, V, S>,
    new: Side<'a, K, V, S>,
}

impl<K: Key, V, S: Shape> Clone for At<K, V, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Key, V, S: Shape> Copy for At<K, V, S> {}

impl<K: Key, V, S: Shape> Clone for Side<'_, K, V, S> {
    fn clone(&self) -> Self {
        Side { ..*self }
    }
}

impl<K: Key, V, S: Shape> Clone for Diff<'_, K, V, S> {
    fn clone(&self) -> Self {
        Diff { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<'a, K: Key, V, S: Shape> Side<'a, K, V, S> {
    fn new(tree: &'a Tree<K, V, S>) -> Self {
        let at = tree.root.map(|node| At::Node { node, level: tree.height() });
        Side { tree, path: Path::new(), at }
    }

    /// If the position is a node, goes to its first child, or to the first entry of a leaf.
    fn open(&mut self) {
        let Some(At::Node { node, level }) = self.at else { return };
        // SAFETY: DIFF-1: the node is live. TREE-4: it is not empty.
        self.at = Some(unsafe {
            if level == 0 {
                At::Slot { leaf: Leaf::from_raw(node), slot: 0 }
            } else {
                self.path.set(level, node, 0);
                At::Node { node: Inner::<K, S>::from_raw(node).child(0), level: level - 1 }
            }
        });
    }

    /// Goes past the current position: to the next entry of the leaf, or to the next node.
    fn pass(&mut self) {
        let below = match self.at {
            None => return,
            Some(At::Node { level, .. }) => level,
            // SAFETY: DIFF-1: the leaf is live.
            Some(At::Slot { leaf, slot }) if slot + 1 < unsafe { leaf.len() } => {
                self.at = Some(At::Slot { leaf, slot: slot + 1 });
                return;
            }
            Some(At::Slot { .. }) => 0,
        };
        self.at = None;
        for level in below + 1..=self.tree.height() {
            // SAFETY: DIFF-2: there is a step for each of these levels. DIFF-1: its node is live.
            unsafe {
                let Step { node, slot } = self.path.at(level);
                if let Some(next) = Inner::<K, S>::from_raw(node).get(slot + 1) {
                    self.path.set(level, node, slot + 1);
                    self.at = Some(At::Node { node: next, level: level - 1 });
                    return;
                }
            }
        }
    }

    /// The entry at the position, if the position is an entry.
    fn entry(&self) -> Option<EntryRef<'a, K, V>> {
        let Some(At::Slot { leaf, slot }) = self.at else { return None };
        // SAFETY: DIFF-1: the leaf is live, and does not change while `'a` lasts; the slot is an
        // entry's.
        Some(unsafe { (span_of(leaf, slot), &*leaf.value(slot)) })
    }
}

impl<'a, K: Key, V, S: Shape> Diff<'a, K, V, S> {
    pub(crate) fn new(old: &'a Tree<K, V, S>, new: &'a Tree<K, V, S>) -> Self {
        Diff { old: Side::new(old), new: Side::new(new) }
    }

    /// The next entries of both trees outside of common nodes. [`Diff::pass`] goes past them.
    pub(crate) fn next(&mut self) -> Pair<'a, K, V> {
        loop {
            match (self.old.at, self.new.at) {
                (Some(At::Node { node: old, .. }), Some(At::Node { node: new, .. })) if old == new => {
                    self.old.pass();
                    self.new.pass();
                }
                // The higher one is opened, so that both reach the same level in the end.
                (Some(At::Node { level: above, .. }), Some(At::Node { level, .. })) => {
                    if above >= level {
                        self.old.open();
                    }
                    if level >= above {
                        self.new.open();
                    }
                }
                (Some(At::Node { .. }), _) => self.old.open(),
                (_, Some(At::Node { .. })) => self.new.open(),
                _ => return (self.old.entry(), self.new.entry()),
            }
        }
    }

    /// Goes past the current entry of one tree, or of both.
    pub(crate) fn pass(&mut self, old: bool, new: bool) {
        if old {
            self.old.pass();
        }
        if new {
            self.new.pass();
        }
    }
}
