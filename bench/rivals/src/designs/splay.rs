//! `splay`: a sorted, doubly linked list and a splay tree, as FreeBSD had it from 2002 on, with the
//! largest gap below each node. A search rotates the found node up to the root, where the next
//! search begins: the root is the hint.

use crate::designs::chain::{NIL, some};
use crate::designs::entries::Entries;
use crate::designs::gap_tree::GapTree;
use samara_mm::{AllocError, Area, End, GapQuery, Span};

/// The tree and its list.
#[derive(Clone)]
pub struct Splay<B>(GapTree<B>);

impl<B> Default for Splay<B> {
    fn default() -> Self {
        Splay(GapTree::default())
    }
}

impl<B> Splay<B> {
    /// Rotates `node` up to the root.
    fn splay(&self, node: u32) {
        let tree = &self.0;
        let parent_of = |node: u32| tree.at(node).parent();
        while node != NIL && parent_of(node) != NIL {
            let (parent, side) = (parent_of(node), tree.side(node));
            let above = parent_of(parent);
            if above != NIL && tree.side(parent) == side {
                tree.rotate(above, 1 - side);
                tree.rotate(parent, 1 - side);
            } else {
                tree.rotate(parent, 1 - side);
                if above != NIL {
                    tree.rotate(above, side);
                }
            }
        }
    }

    /// Computes the gap before `node` anew. A walk from there to the root is short once the node
    /// is the root.
    fn measure(&self, node: u32) {
        self.splay(node);
        self.0.measure(node);
    }

    /// Checks the whole tree.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.0.check();
    }
}

impl<B: Clone> Entries<B> for Splay<B> {
    type At = u32;

    fn len(&self) -> usize {
        self.0.chain.len()
    }

    fn find(&self, addr: u64) -> Option<u32> {
        let (found, lowest) = self.0.search(addr);
        // The last visited node is rotated up, which pays for the path down.
        self.splay(lowest);
        if found != lowest {
            self.splay(found);
        }
        some(found)
    }

    fn last(&self) -> Option<u32> {
        some(self.0.chain.prev(NIL))
    }

    fn next(&self, at: u32) -> Option<u32> {
        some(self.0.chain.next(at))
    }

    fn prev(&self, at: u32) -> Option<u32> {
        some(self.0.chain.prev(at))
    }

    fn span(&self, at: u32) -> Span {
        self.0.chain.span(at)
    }

    fn area(&self, at: u32) -> &Area<B> {
        self.0.chain.area(at)
    }

    fn area_mut(&mut self, at: u32) -> &mut Area<B> {
        self.0.chain.area_mut(at)
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        let at = self.0.insert(span, area);
        self.splay(at);
    }

    fn remove(&mut self, at: u32) -> Area<B> {
        self.splay(at);
        let (tree, prev, next) = (&self.0, self.0.chain.prev(at), self.0.chain.next(at));
        let [low, high] = [tree.at(at).child(0), tree.at(at).child(1)];
        // The lower part comes up with its highest node first, below which the upper part fits.
        tree.set_child(NIL, 0, low);
        if low == NIL {
            tree.set_child(NIL, 0, high);
        } else {
            self.splay(prev);
            tree.set_child(prev, 1, high);
            tree.sum(prev);
        }
        let area = self.0.chain.remove(at);
        self.measure(next);
        area
    }

    fn set_span(&mut self, at: u32, span: Span) {
        self.splay(at);
        self.0.chain.set_span(at, span);
        self.measure(at);
        self.measure(self.0.chain.next(at));
    }

    fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        self.0.chain.reserve(more)
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        let before = || {
            let (node, found) = self.0.find_gap(query)?;
            self.splay(node);
            Some(found)
        };
        match query.end() {
            End::Lowest => before().or_else(|| self.0.gap_behind(query)),
            End::Highest => self.0.gap_behind(query).or_else(before),
        }
    }
}
