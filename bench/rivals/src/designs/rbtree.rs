//! `rbtree`: Linux up to 6.0 as its documentation and its papers describe it: a red-black tree by
//! address, each node with the largest gap below it, a sorted, doubly linked list through all
//! areas, and a small cache of the areas found last.
//!
//! - **RBTREE-1** `gap` of a node is the free space between it and the entry before it (from 0
//!   before the first one); `most` is the largest `gap` in its subtree.
//! - **RBTREE-2** A red node has no red child, and each way down from a node passes as many black
//!   ones.

use crate::designs::chain::{Chain, NIL, some};
use crate::designs::entries::Entries;
use samara_mm::{AllocError, Area, End, GapQuery, Span};
use std::cell::Cell;

/// Entries in the cache of those found last.
const CACHED: usize = 4;

/// Where a node hangs. That of NIL is black, and has no gap.
#[derive(Clone, Copy, Default)]
struct Links {
    child: [u32; 2],
    parent: u32,
    red: bool,
    /// RBTREE-1.
    gap: u64,
    most: u64,
}

/// The tree, its list and its cache.
#[derive(Clone)]
pub struct RbTree<B> {
    chain: Chain<B, Links>,
    root: u32,
    cache: Cell<[u32; CACHED]>,
}

impl<B> Default for RbTree<B> {
    fn default() -> Self {
        RbTree { chain: Chain::default(), root: NIL, cache: Cell::new([NIL; CACHED]) }
    }
}

impl<B> RbTree<B> {
    fn at(&self, node: u32) -> &Links {
        self.chain.links(node)
    }

    fn at_mut(&mut self, node: u32) -> &mut Links {
        self.chain.links_mut(node)
    }

    /// The first address behind the entry before this one; behind the last one for NIL.
    fn free_from(&self, node: u32) -> u64 {
        match self.chain.prev(node) {
            NIL => 0,
            prev => self.chain.span(prev).last.wrapping_add(1),
        }
    }

    /// The cache's place for an address: by its page, as Linux's was.
    fn cached(addr: u64) -> usize {
        (addr >> 12) as usize % CACHED
    }

    fn note(&self, addr: u64, node: u32) {
        let mut cache = self.cache.get();
        cache[Self::cached(addr)] = node;
        self.cache.set(cache);
    }

    /// Computes `gap` of a node anew, and `most` from there to the root, as far as it changes.
    fn measure(&mut self, node: u32) {
        if node == NIL {
            return;
        }
        self.at_mut(node).gap = self.chain.span(node).first - self.free_from(node);
        self.propagate(node);
    }

    fn most_of(&self, node: u32) -> u64 {
        let Links { child: [low, high], gap, .. } = *self.at(node);
        gap.max(self.at(low).most).max(self.at(high).most)
    }

    fn propagate(&mut self, mut node: u32) {
        while node != NIL {
            let most = self.most_of(node);
            if most == self.at(node).most {
                break;
            }
            self.at_mut(node).most = most;
            node = self.at(node).parent;
        }
    }

    fn side(&self, node: u32) -> usize {
        usize::from(self.at(self.at(node).parent).child[1] == node)
    }

    /// Puts `new` where `old` hangs.
    fn hang(&mut self, old: u32, new: u32) {
        let parent = self.at(old).parent;
        if parent == NIL {
            self.root = new;
        } else {
            let side = self.side(old);
            self.at_mut(parent).child[side] = new;
        }
        if new != NIL {
            self.at_mut(new).parent = parent;
        }
    }

    /// Turns `node` down to `side`: its child on the other side comes up.
    fn rotate(&mut self, node: u32, side: usize) {
        let up = self.at(node).child[1 - side];
        let inner = self.at(up).child[side];
        self.hang(node, up);
        self.at_mut(node).child[1 - side] = inner;
        if inner != NIL {
            self.at_mut(inner).parent = node;
        }
        self.at_mut(up).child[side] = node;
        self.at_mut(node).parent = up;
        let most = self.at(node).most;
        self.at_mut(up).most = most;
        self.at_mut(node).most = self.most_of(node);
    }

    fn balance_after_insert(&mut self, mut node: u32) {
        loop {
            let parent = self.at(node).parent;
            if parent == NIL {
                self.at_mut(node).red = false;
                return;
            }
            if !self.at(parent).red {
                return;
            }
            let above = self.at(parent).parent;
            let side = self.side(parent);
            let uncle = self.at(above).child[1 - side];
            if self.at(uncle).red {
                self.at_mut(parent).red = false;
                self.at_mut(uncle).red = false;
                self.at_mut(above).red = true;
                node = above;
                continue;
            }
            let mut parent = parent;
            if self.side(node) != side {
                self.rotate(parent, side);
                parent = node;
            }
            self.at_mut(parent).red = false;
            self.at_mut(above).red = true;
            self.rotate(above, 1 - side);
            return;
        }
    }

    /// `node`, which may be NIL below `parent`, has one black node too few on its ways down.
    fn balance_after_remove(&mut self, mut node: u32, mut parent: u32) {
        while parent != NIL && !self.at(node).red {
            let side = usize::from(self.at(parent).child[1] == node);
            let mut sibling = self.at(parent).child[1 - side];
            if self.at(sibling).red {
                self.at_mut(sibling).red = false;
                self.at_mut(parent).red = true;
                self.rotate(parent, side);
                sibling = self.at(parent).child[1 - side];
            }
            let [near, far] = [self.at(sibling).child[side], self.at(sibling).child[1 - side]];
            if !self.at(near).red && !self.at(far).red {
                self.at_mut(sibling).red = true;
                (node, parent) = (parent, self.at(parent).parent);
                continue;
            }
            if !self.at(far).red {
                self.at_mut(near).red = false;
                self.at_mut(sibling).red = true;
                self.rotate(sibling, 1 - side);
                sibling = near;
            }
            self.at_mut(sibling).red = self.at(parent).red;
            self.at_mut(parent).red = false;
            let far = self.at(sibling).child[1 - side];
            self.at_mut(far).red = false;
            self.rotate(parent, side);
            return;
        }
        self.at_mut(node).red = false;
    }

    /// The answer in the subtree of `node` that is nearest to the wanted end: in gaps before its
    /// nodes.
    fn gap_below(&self, node: u32, query: &GapQuery) -> Option<Span> {
        if node == NIL || self.at(node).most < query.len() {
            return None;
        }
        let (span, Links { child: [low, high], gap, .. }) = (self.chain.span(node), *self.at(node));
        let (begin, window) = (span.first - gap, query.window());
        // What ends before the window, or begins behind it, has no answer.
        let lower = || if begin > window.first { self.gap_below(low, query) } else { None };
        let own = || if gap > 0 { query.fit(Span::new(begin, span.first - 1)) } else { None };
        let upper = || if span.last < window.last { self.gap_below(high, query) } else { None };
        match query.end() {
            End::Lowest => lower().or_else(own).or_else(upper),
            End::Highest => upper().or_else(own).or_else(lower),
        }
    }

    /// The answer behind the last entry.
    fn gap_behind(&self, query: &GapQuery) -> Option<Span> {
        match self.free_from(NIL) {
            0 if self.chain.len() > 0 => None,
            first => query.fit(Span::new(first, u64::MAX)),
        }
    }

    /// Checks RBTREE-1 and RBTREE-2 below `node`. Returns the number of black nodes on each way
    /// down.
    #[cfg(test)]
    fn check_below(&self, node: u32) -> usize {
        if node == NIL {
            return 1;
        }
        let Links { child: [low, high], red, gap, most, .. } = *self.at(node);
        assert!(!red || (!self.at(low).red && !self.at(high).red), "RBTREE-2");
        let free = self.chain.span(node).first - self.free_from(node);
        assert_eq!((gap, most), (free, self.most_of(node)), "RBTREE-1");
        let (left, right) = (self.check_below(low), self.check_below(high));
        assert_eq!(left, right, "RBTREE-2");
        left + usize::from(!red)
    }

    /// Checks the whole tree.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(!self.at(self.root).red && !self.at(NIL).red && self.at(NIL).most == 0);
        self.check_below(self.root);
    }
}

impl<B: Clone> Entries<B> for RbTree<B> {
    type At = u32;

    fn len(&self) -> usize {
        self.chain.len()
    }

    fn find(&self, addr: u64) -> Option<u32> {
        let cached = self.cache.get()[Self::cached(addr)];
        if cached != NIL && self.span(cached).first <= addr && addr <= self.span(cached).last {
            return Some(cached);
        }
        let (mut node, mut found) = (self.root, NIL);
        while node != NIL {
            let (span, [low, high]) = (self.span(node), self.at(node).child);
            if addr <= span.last {
                found = node;
                if span.first <= addr {
                    self.note(addr, node);
                    break;
                }
                node = low;
            } else {
                node = high;
            }
        }
        some(found)
    }

    fn last(&self) -> Option<u32> {
        some(self.chain.prev(NIL))
    }

    fn next(&self, at: u32) -> Option<u32> {
        some(self.chain.next(at))
    }

    fn prev(&self, at: u32) -> Option<u32> {
        some(self.chain.prev(at))
    }

    fn span(&self, at: u32) -> Span {
        self.chain.span(at)
    }

    fn area(&self, at: u32) -> &Area<B> {
        self.chain.area(at)
    }

    fn area_mut(&mut self, at: u32) -> &mut Area<B> {
        self.chain.area_mut(at)
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        let (mut parent, mut node, mut next, mut side) = (NIL, self.root, NIL, 0);
        while node != NIL {
            parent = node;
            side = usize::from(self.span(node).first < span.first);
            if side == 0 {
                next = node;
            }
            node = self.at(node).child[side];
        }
        let at = self.chain.insert(span, area, next);
        *self.at_mut(at) = Links { parent, red: true, ..Links::default() };
        if parent == NIL {
            self.root = at
        } else {
            self.at_mut(parent).child[side] = at
        }
        self.measure(at);
        self.measure(next);
        self.balance_after_insert(at);
    }

    fn remove(&mut self, at: u32) -> Area<B> {
        let (Links { child: [low, high], parent, red, .. }, next) = (*self.at(at), self.chain.next(at));
        // Who loses a black node, and below whom.
        let (gone_red, child, above) = if low == NIL || high == NIL {
            let child = if low == NIL { high } else { low };
            self.hang(at, child);
            (red, child, parent)
        } else {
            // The next entry is the lowest above, and has no lower child. It takes the place.
            let up = next;
            let Links { child: [_, child], red: up_red, parent: up_parent, .. } = *self.at(up);
            let above = if up_parent == at {
                up
            } else {
                self.hang(up, child);
                self.at_mut(up).child[1] = high;
                self.at_mut(high).parent = up;
                up_parent
            };
            self.hang(at, up);
            self.at_mut(up).child[0] = low;
            self.at_mut(low).parent = up;
            self.at_mut(up).red = red;
            (up_red, child, above)
        };
        let mut from = above;
        // All sums from there up may differ, also where one on the way does not.
        while from != NIL {
            let most = self.most_of(from);
            self.at_mut(from).most = most;
            from = self.at(from).parent;
        }
        let area = self.chain.remove(at);
        self.measure(next);
        if !gone_red {
            self.balance_after_remove(child, above);
        }
        let mut cache = self.cache.get();
        cache.iter_mut().filter(|cached| **cached == at).for_each(|cached| *cached = NIL);
        self.cache.set(cache);
        area
    }

    fn set_span(&mut self, at: u32, span: Span) {
        self.chain.set_span(at, span);
        self.measure(at);
        self.measure(self.chain.next(at));
    }

    fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        self.chain.reserve(more)
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        match query.end() {
            End::Lowest => self.gap_below(self.root, query).or_else(|| self.gap_behind(query)),
            End::Highest => self.gap_behind(query).or_else(|| self.gap_below(self.root, query)),
        }
    }
}
