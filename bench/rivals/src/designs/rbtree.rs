//! `rbtree` and `list_rbtree`: a red-black tree by address, each node with the largest gap below
//! it, a sorted, doubly linked list through all areas, and a note of the areas found last.
//!
//! Documentation and papers describe Linux up to 6.0 in this way, with a small cache of areas by
//! page, and NetBSD since 2003, with a hint.
//!
//! - **RBTREE-1** A red node has no red child, and each way down from a node passes as many black
//!   ones.

use crate::designs::chain::{NIL, some};
use crate::designs::entries::Entries;
use crate::designs::field::Number32;
use crate::designs::gap_tree::GapTree;
use samara_mm::{AllocError, Area, End, GapQuery, Span};

/// The entries found last.
pub trait Lately: Clone + Default {
    /// Entries that may hold `addr`; 0 for none.
    fn guess(&self, addr: u64) -> u32;
    /// Notes an entry that holds `addr`.
    fn note(&self, addr: u64, entry: u32);
    /// Forgets an entry.
    fn forget(&self, entry: u32);
}

/// As in Linux: four entries, by page.
#[derive(Clone, Default)]
pub struct ByPage([Number32; 4]);

impl ByPage {
    fn of(&self, addr: u64) -> &Number32 {
        &self.0[(addr >> 12) as usize % self.0.len()]
    }
}

impl Lately for ByPage {
    fn guess(&self, addr: u64) -> u32 {
        self.of(addr).get()
    }

    fn note(&self, addr: u64, entry: u32) {
        self.of(addr).set(entry);
    }

    fn forget(&self, entry: u32) {
        self.0.iter().filter(|own| own.get() == entry).for_each(|own| own.set(NIL));
    }
}

/// As in NetBSD: the last entry.
#[derive(Clone, Default)]
pub struct Hint(Number32);

impl Lately for Hint {
    fn guess(&self, _: u64) -> u32 {
        self.0.get()
    }

    fn note(&self, _: u64, entry: u32) {
        self.0.set(entry);
    }

    fn forget(&self, entry: u32) {
        if self.0.get() == entry {
            self.0.set(NIL);
        }
    }
}

/// The tree, its list and the entries found last.
#[derive(Clone)]
pub struct RbTree<B, L> {
    tree: GapTree<B>,
    lately: L,
}

impl<B, L: Default> Default for RbTree<B, L> {
    fn default() -> Self {
        RbTree { tree: GapTree::default(), lately: L::default() }
    }
}

impl<B, L> RbTree<B, L> {
    fn child(&self, node: u32, side: usize) -> u32 {
        self.tree.at(node).child(side)
    }

    fn parent(&self, node: u32) -> u32 {
        self.tree.at(node).parent()
    }

    fn is_red(&self, node: u32) -> bool {
        self.tree.at(node).red.get()
    }

    fn paint(&self, node: u32, red: bool) {
        self.tree.at(node).red.set(red);
    }

    fn balance_after_insert(&self, mut node: u32) {
        loop {
            let mut parent = self.parent(node);
            if parent == NIL {
                return self.paint(node, false);
            }
            if !self.is_red(parent) {
                return;
            }
            let above = self.parent(parent);
            let side = self.tree.side(parent);
            let uncle = self.child(above, 1 - side);
            if self.is_red(uncle) {
                self.paint(parent, false);
                self.paint(uncle, false);
                self.paint(above, true);
                node = above;
                continue;
            }
            if self.tree.side(node) != side {
                self.tree.rotate(parent, side);
                parent = node;
            }
            self.paint(parent, false);
            self.paint(above, true);
            return self.tree.rotate(above, 1 - side);
        }
    }

    /// `node`, which may be NIL below `parent`, has one black node too few on its ways down.
    fn balance_after_remove(&self, mut node: u32, mut parent: u32) {
        while parent != NIL && !self.is_red(node) {
            let side = usize::from(self.child(parent, 1) == node);
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.paint(sibling, false);
                self.paint(parent, true);
                self.tree.rotate(parent, side);
                sibling = self.child(parent, 1 - side);
            }
            let [near, far] = [self.child(sibling, side), self.child(sibling, 1 - side)];
            if !self.is_red(near) && !self.is_red(far) {
                self.paint(sibling, true);
                (node, parent) = (parent, self.parent(parent));
                continue;
            }
            if !self.is_red(far) {
                self.paint(near, false);
                self.paint(sibling, true);
                self.tree.rotate(sibling, 1 - side);
                sibling = near;
            }
            self.paint(sibling, self.is_red(parent));
            self.paint(parent, false);
            self.paint(self.child(sibling, 1 - side), false);
            return self.tree.rotate(parent, side);
        }
        self.paint(node, false);
    }

    /// Checks RBTREE-1 below `node`. Returns the number of black nodes on each way down.
    #[cfg(test)]
    fn check_below(&self, node: u32) -> usize {
        if node == NIL {
            return 1;
        }
        let [low, high] = [self.child(node, 0), self.child(node, 1)];
        assert!(!self.is_red(node) || (!self.is_red(low) && !self.is_red(high)), "RBTREE-1");
        let (left, right) = (self.check_below(low), self.check_below(high));
        assert_eq!(left, right, "RBTREE-1");
        left + usize::from(!self.is_red(node))
    }

    /// Checks the whole tree.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(!self.is_red(self.tree.root()));
        self.check_below(self.tree.root());
        self.tree.check();
    }
}

impl<B: Clone, L: Lately> Entries<B> for RbTree<B, L> {
    type At = u32;

    fn len(&self) -> usize {
        self.tree.chain.len()
    }

    fn find(&self, addr: u64) -> Option<u32> {
        let guess = self.lately.guess(addr);
        if guess != NIL && self.span(guess).first <= addr && addr <= self.span(guess).last {
            return Some(guess);
        }
        let (found, _) = self.tree.search(addr);
        if found != NIL && self.span(found).first <= addr {
            self.lately.note(addr, found);
        }
        some(found)
    }

    fn last(&self) -> Option<u32> {
        some(self.tree.chain.prev(NIL))
    }

    fn next(&self, at: u32) -> Option<u32> {
        some(self.tree.chain.next(at))
    }

    fn prev(&self, at: u32) -> Option<u32> {
        some(self.tree.chain.prev(at))
    }

    fn span(&self, at: u32) -> Span {
        self.tree.chain.span(at)
    }

    fn area(&self, at: u32) -> &Area<B> {
        self.tree.chain.area(at)
    }

    fn area_mut(&mut self, at: u32) -> &mut Area<B> {
        self.tree.chain.area_mut(at)
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        let at = self.tree.insert(span, area);
        self.paint(at, true);
        self.balance_after_insert(at);
    }

    fn remove(&mut self, at: u32) -> Area<B> {
        let [low, high] = [self.child(at, 0), self.child(at, 1)];
        let (parent, red, next) = (self.parent(at), self.is_red(at), self.tree.chain.next(at));
        // The node that loses a black node, and its parent.
        let (gone_red, child, above) = if low == NIL || high == NIL {
            let child = if low == NIL { high } else { low };
            self.tree.hang(at, child);
            (red, child, parent)
        } else {
            // The next entry is the lowest above, and has no lower child. It takes the place.
            let up = next;
            let (child, up_red, up_parent) = (self.child(up, 1), self.is_red(up), self.parent(up));
            let above = if up_parent == at {
                up
            } else {
                self.tree.hang(up, child);
                self.tree.set_child(up, 1, high);
                up_parent
            };
            self.tree.hang(at, up);
            self.tree.set_child(up, 0, low);
            self.paint(up, red);
            (up_red, child, above)
        };
        let mut from = above;
        // All sums from there up may differ, even if one in between does not.
        while from != NIL {
            self.tree.sum(from);
            from = self.parent(from);
        }
        let area = self.tree.chain.remove(at);
        self.tree.measure(next);
        if !gone_red {
            self.balance_after_remove(child, above);
        }
        self.lately.forget(at);
        area
    }

    fn set_span(&mut self, at: u32, span: Span) {
        self.tree.chain.set_span(at, span);
        self.tree.measure(at);
        self.tree.measure(self.tree.chain.next(at));
    }

    fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        self.tree.chain.reserve(more)
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        let before = || self.tree.find_gap(query).map(|(_, found)| found);
        match query.end() {
            End::Lowest => before().or_else(|| self.tree.gap_behind(query)),
            End::Highest => self.tree.gap_behind(query).or_else(before),
        }
    }
}
