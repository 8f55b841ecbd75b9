//! A binary search tree through the entries of a chain, each node with the largest gap below it.
//! Knows rotations, sums and searches; the design balances the tree.
//!
//! A search may rotate the tree (as in a splay tree), so links change behind `&`.
//!
//! - **GAP-TREE-1** `gap` of a node is the free space between it and the entry before it (from 0
//!   before the first one); `most` is the largest `gap` in its subtree.

use crate::designs::chain::{Chain, NIL};
use crate::designs::field::{Flag, Number32, Number64};
use samara_mm::{Area, End, GapQuery, Span};

/// The links of a node. NIL's are black, and have no gap.
#[derive(Clone, Default)]
pub(super) struct Links {
    child: [Number32; 2],
    parent: Number32,
    /// The colour, for designs that colour nodes.
    pub(super) red: Flag,
    /// GAP-TREE-1.
    gap: Number64,
    most: Number64,
}

impl Links {
    pub(super) fn child(&self, side: usize) -> u32 {
        self.child[side].get()
    }

    pub(super) fn parent(&self) -> u32 {
        self.parent.get()
    }
}

/// The entries with their tree.
#[derive(Clone)]
pub(super) struct GapTree<B> {
    pub(super) chain: Chain<B, Links>,
    root: Number32,
}

impl<B> Default for GapTree<B> {
    fn default() -> Self {
        GapTree { chain: Chain::default(), root: Number32::new(NIL) }
    }
}

impl<B> GapTree<B> {
    pub(super) fn at(&self, node: u32) -> &Links {
        self.chain.links(node)
    }

    pub(super) fn root(&self) -> u32 {
        self.root.get()
    }

    /// Goes down towards `addr`. The entry that holds it, or the first one above, and the last node
    /// on the way.
    pub(super) fn search(&self, addr: u64) -> (u32, u32) {
        let (mut node, mut found, mut lowest) = (self.root(), NIL, NIL);
        while node != NIL {
            lowest = node;
            let span = self.chain.span(node);
            if span.last < addr {
                node = self.at(node).child(1);
                continue;
            }
            found = node;
            if span.first <= addr {
                break;
            }
            node = self.at(node).child(0);
        }
        (found, lowest)
    }

    /// The side of its parent that a node is on.
    pub(super) fn side(&self, node: u32) -> usize {
        usize::from(self.at(self.at(node).parent()).child(1) == node)
    }

    /// Adds an entry in free space, as a leaf of the tree.
    pub(super) fn insert(&mut self, span: Span, area: Area<B>) -> u32 {
        let (mut parent, mut node, mut next, mut side) = (NIL, self.root(), NIL, 0);
        while node != NIL {
            parent = node;
            side = usize::from(self.chain.span(node).first < span.first);
            if side == 0 {
                next = node;
            }
            node = self.at(node).child(side);
        }
        let at = self.chain.insert(span, area, next);
        self.set_child(parent, side, at);
        self.measure(at);
        self.measure(next);
        at
    }

    /// Makes `node`, which may be NIL, a child of `parent`; if `parent` is NIL, the root.
    pub(super) fn set_child(&self, parent: u32, side: usize, node: u32) {
        match parent {
            NIL => self.root.set(node),
            _ => self.at(parent).child[side].set(node),
        }
        if node != NIL {
            self.at(node).parent.set(parent);
        }
    }

    /// Puts `new` in place of `old`.
    pub(super) fn hang(&self, old: u32, new: u32) {
        let parent = self.at(old).parent();
        self.set_child(parent, if parent == NIL { 0 } else { self.side(old) }, new);
    }

    /// Rotates `node` down to `side`: its child on the other side comes up.
    pub(super) fn rotate(&self, node: u32, side: usize) {
        let up = self.at(node).child(1 - side);
        let inner = self.at(up).child(side);
        self.hang(node, up);
        self.set_child(node, 1 - side, inner);
        self.set_child(up, side, node);
        self.at(up).most.set(self.at(node).most.get());
        self.sum(node);
    }

    /// The first address behind the entry before this one; behind the last one for NIL.
    fn free_from(&self, node: u32) -> u64 {
        match self.chain.prev(node) {
            NIL => 0,
            prev => self.chain.span(prev).last.wrapping_add(1),
        }
    }

    fn most_of(&self, node: u32) -> u64 {
        let Links { child: [low, high], gap, .. } = self.at(node);
        gap.get().max(self.at(low.get()).most.get()).max(self.at(high.get()).most.get())
    }

    /// Computes `most` of a node anew. Whether it was another one.
    pub(super) fn sum(&self, node: u32) -> bool {
        let (before, now) = (self.at(node).most.get(), self.most_of(node));
        self.at(node).most.set(now);
        before != now
    }

    /// Computes `gap` of a node anew, and `most` from there to the root, as far as it changes.
    pub(super) fn measure(&self, node: u32) {
        if node == NIL {
            return;
        }
        self.at(node).gap.set(self.chain.span(node).first - self.free_from(node));
        let mut node = node;
        while node != NIL && self.sum(node) {
            node = self.at(node).parent();
        }
    }

    /// The answer in the gaps before the nodes that is nearest to the wanted end, and its node.
    pub(super) fn find_gap(&self, query: &GapQuery) -> Option<(u32, Span)> {
        let window = query.window();
        // The side of the wanted end.
        let near = usize::from(query.end() == End::Highest);
        // Gaps before or behind the window have no answer.
        let below = |node: u32, side: usize| {
            let child = self.at(node).child(side);
            let reaches = match side {
                0 => self.chain.span(node).first - self.at(node).gap.get() > window.first,
                _ => self.chain.span(node).last < window.last,
            };
            if reaches && self.at(child).most.get() >= query.len() { child } else { NIL }
        };
        let mut node = if self.at(self.root()).most.get() >= query.len() { self.root() } else { NIL };
        while node != NIL {
            let child = below(node, near);
            if child != NIL {
                node = child;
                continue;
            }
            // All below `node` on the near side was seen.
            loop {
                let (first, gap) = (self.chain.span(node).first, self.at(node).gap.get());
                let found = if gap > 0 { query.fit(Span::new(first - gap, first - 1)) } else { None };
                if let Some(found) = found {
                    return Some((node, found));
                }
                let child = below(node, 1 - near);
                if child != NIL {
                    node = child;
                    break;
                }
                // Up to the next node whose near side was left.
                loop {
                    let from = node;
                    node = self.at(node).parent();
                    if node == NIL {
                        return None;
                    }
                    if self.at(node).child(near) == from {
                        break;
                    }
                }
            }
        }
        None
    }

    /// The answer behind the last entry.
    pub(super) fn gap_behind(&self, query: &GapQuery) -> Option<Span> {
        match self.free_from(NIL) {
            0 if self.chain.len() > 0 => None,
            first => query.fit(Span::new(first, u64::MAX)),
        }
    }

    /// Checks GAP-TREE-1 and the order of all nodes.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(!self.at(NIL).red.get() && self.at(NIL).most.get() == 0);
        let mut at = self.chain.next(NIL);
        while at != NIL {
            let free = self.chain.span(at).first - self.free_from(at);
            let Links { gap, most, .. } = self.at(at);
            assert_eq!((gap.get(), most.get()), (free, self.most_of(at)), "GAP-TREE-1");
            assert_eq!(self.search(self.chain.span(at).last).0, at, "an entry is found");
            at = self.chain.next(at);
        }
    }
}
