//! A shared tree of two levels: a root pointer, parents with two slots, leaves. One writer.
//!
//! - **S1** A node's body is written before the node can be found, and not again until it is freed.
//! - **S2** A store within one leaf makes a new leaf and swaps the slot of the parent that the root
//!   points to.
//! - **S3** A store beyond one leaf makes new leaves and a new parent, and swaps the root. The old
//!   parent's slots are frozen from then on.

use crate::node_body::Body;
use crate::sync::{AtomicUsize, Ordering};

/// A parent. Its body is the pivot: the highest key of its first slot's region.
pub(crate) struct Parent {
    pub(crate) pivot: Body<u32>,
    pub(crate) slots: [AtomicUsize; 2],
}

/// Room for two parents and five leaves with bodies `T`.
pub(crate) struct Tree<T> {
    root: AtomicUsize,
    pub(crate) parents: [Parent; 2],
    pub(crate) leaves: [Body<T>; 5],
}

/// A node that a store retires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Parent(usize),
    Leaf(usize),
}

impl<T: Copy> Tree<T> {
    /// A tree of the first parent and the first two leaves.
    pub(crate) fn new(pivot: u32, leaves: [T; 2]) -> Self {
        let slots = || [AtomicUsize::new(0), AtomicUsize::new(1)];
        Tree {
            root: AtomicUsize::new(0),
            parents: [
                Parent { pivot: Body::of(pivot), slots: slots() },
                Parent { pivot: Body::empty(), slots: slots() },
            ],
            leaves: [Body::of(leaves[0]), Body::of(leaves[1]), Body::empty(), Body::empty(), Body::empty()],
        }
    }

    /// The parent that the root points to. Acquire: pairs with the Release of `store_across`.
    pub(crate) fn root(&self) -> &Parent {
        &self.parents[self.root.load(Ordering::Acquire)]
    }

    /// The leaf of a slot. Acquire: pairs with the Release of `store_within`.
    pub(crate) fn leaf(&self, parent: &Parent, slot: usize) -> &Body<T> {
        &self.leaves[parent.slots[slot].load(Ordering::Acquire)]
    }

    /// What a reader finds that descends to both leaves from one parent.
    pub(crate) fn both(&self) -> [T; 2] {
        let parent = self.root();
        parent.pivot.read();
        [self.leaf(parent, 0).read(), self.leaf(parent, 1).read()]
    }

    /// S2: the third leaf takes the place of the first. Returns what it retires.
    pub(crate) fn store_within(&self, body: T) -> [Node; 1] {
        self.leaves[2].fill(body);
        // Release: S1.
        self.parents[0].slots[0].store(2, Ordering::Release);
        [Node::Leaf(0)]
    }

    /// S3, after `store_within`: the second parent, with the last two leaves. Returns what it
    /// retires.
    pub(crate) fn store_across(&self, pivot: u32, bodies: [T; 2]) -> [Node; 3] {
        let parent = &self.parents[1];
        parent.pivot.fill(pivot);
        for (slot, body) in bodies.into_iter().enumerate() {
            self.leaves[3 + slot].fill(body);
            parent.slots[slot].store(3 + slot, Ordering::Relaxed);
        }
        // Release: S1.
        self.root.store(1, Ordering::Release);
        [Node::Parent(0), Node::Leaf(2), Node::Leaf(1)]
    }

    pub(crate) fn free(&self, node: Node) {
        match node {
            Node::Parent(at) => self.parents[at].pivot.free(),
            Node::Leaf(at) => self.leaves[at].free(),
        }
    }
}
