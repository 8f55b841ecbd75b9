//! `rbtree`: Linux up to 6.0 as its documentation and its papers describe it: a red-black tree by
//! address, each node with the largest gap below it, a sorted, doubly linked list through all
//! areas, and a small cache of the areas found last.
//!
//! - **RBTREE-1** `gap` of a node is the free space between it and the entry before it (from 0
//!   before the first one); `most` is the largest `gap` in its subtree.
//! - **RBTREE-2** A red node has no red child, and each way down from a node passes as many black
//!   ones.

use crate::designs::entries::Entries;
use samara_mm::{AllocError, Area, End, GapQuery, Span};
use std::cell::Cell;

/// The number of no node. Node 0 stands for it, and is black.
const NIL: u32 = 0;
/// Entries in the cache of those found last.
const CACHED: usize = 4;

#[derive(Clone)]
struct Node<B> {
    span: Span,
    /// `None`: the node is free.
    area: Option<Area<B>>,
    child: [u32; 2],
    parent: u32,
    red: bool,
    next: u32,
    prev: u32,
    /// RBTREE-1.
    gap: u64,
    most: u64,
}

/// The tree, its list and its cache. Nodes are kept by number, as a kernel keeps them in a slab.
#[derive(Clone)]
pub struct RbTree<B> {
    nodes: Vec<Node<B>>,
    free: Vec<u32>,
    root: u32,
    last: u32,
    cache: Cell<[u32; CACHED]>,
}

impl<B> Default for RbTree<B> {
    fn default() -> Self {
        let nil = Node {
            span: Span::new(0, 0),
            area: None,
            child: [NIL; 2],
            parent: NIL,
            red: false,
            next: NIL,
            prev: NIL,
            gap: 0,
            most: 0,
        };
        RbTree { nodes: vec![nil], free: Vec::new(), root: NIL, last: NIL, cache: Cell::new([NIL; CACHED]) }
    }
}

impl<B> RbTree<B> {
    fn at(&self, node: u32) -> &Node<B> {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Node<B> {
        &mut self.nodes[node as usize]
    }

    fn some(node: u32) -> Option<u32> {
        (node != NIL).then_some(node)
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
        let prev = self.at(node).prev;
        let from = if prev == NIL { 0 } else { self.at(prev).span.last.wrapping_add(1) };
        self.at_mut(node).gap = self.at(node).span.first - from;
        self.propagate(node);
    }

    fn most_of(&self, node: u32) -> u64 {
        let Node { child: [low, high], gap, .. } = *self.at(node);
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

    /// The lowest answer in the subtree of `node`: only gaps before its nodes.
    fn lowest(&self, node: u32, query: &GapQuery) -> Option<Span> {
        if node == NIL || self.at(node).most < query.len() {
            return None;
        }
        let Node { span, child: [low, high], gap, .. } = self.at(node);
        let window = query.window();
        let begin = span.first - gap;
        // What ends before the window has no answer.
        let below = if begin > window.first { self.lowest(*low, query) } else { None };
        below
            .or_else(|| (*gap > 0).then(|| query.fit(Span::new(begin, span.first - 1))).flatten())
            .or_else(|| if span.last < window.last { self.lowest(*high, query) } else { None })
    }

    fn highest(&self, node: u32, query: &GapQuery) -> Option<Span> {
        if node == NIL || self.at(node).most < query.len() {
            return None;
        }
        let Node { span, child: [low, high], gap, .. } = self.at(node);
        let window = query.window();
        let begin = span.first - gap;
        let above = if span.last < window.last { self.highest(*high, query) } else { None };
        above
            .or_else(|| (*gap > 0).then(|| query.fit(Span::new(begin, span.first - 1))).flatten())
            .or_else(|| if begin > window.first { self.highest(*low, query) } else { None })
    }

    /// The answer behind the last entry.
    fn behind(&self, query: &GapQuery) -> Option<Span> {
        let first = match self.last {
            NIL => 0,
            last => self.at(last).span.last.checked_add(1)?,
        };
        query.fit(Span::new(first, u64::MAX))
    }

    /// The number of black nodes on each way down, if RBTREE-1 and RBTREE-2 hold.
    #[cfg(test)]
    pub(crate) fn check(&self, node: u32) -> usize {
        if node == NIL {
            return 1;
        }
        let Node { child: [low, high], red, gap, most, prev, span, .. } = *self.at(node);
        assert!(!red || (!self.at(low).red && !self.at(high).red), "RBTREE-2");
        let from = if prev == NIL { 0 } else { self.at(prev).span.last + 1 };
        assert_eq!((gap, most), (span.first - from, self.most_of(node)), "RBTREE-1");
        let (left, right) = (self.check(low), self.check(high));
        assert_eq!(left, right, "RBTREE-2");
        left + usize::from(!red)
    }

    /// Checks the whole tree.
    #[cfg(test)]
    pub(crate) fn check_all(&self) {
        assert!(!self.at(self.root).red && !self.at(NIL).red && self.at(NIL).most == 0);
        self.check(self.root);
    }
}

impl<B: Clone> Entries<B> for RbTree<B> {
    type At = u32;

    fn len(&self) -> usize {
        self.nodes.len() - 1 - self.free.len()
    }

    fn find(&self, addr: u64) -> Option<u32> {
        let cached = self.cache.get()[Self::cached(addr)];
        if cached != NIL && self.at(cached).span.first <= addr && addr <= self.at(cached).span.last {
            return Some(cached);
        }
        let (mut node, mut found) = (self.root, NIL);
        while node != NIL {
            let Node { span, child: [low, high], .. } = self.at(node);
            if addr <= span.last {
                found = node;
                if span.first <= addr {
                    self.note(addr, node);
                    break;
                }
                node = *low;
            } else {
                node = *high;
            }
        }
        Self::some(found)
    }

    fn last(&self) -> Option<u32> {
        Self::some(self.last)
    }

    fn next(&self, at: u32) -> Option<u32> {
        Self::some(self.at(at).next)
    }

    fn prev(&self, at: u32) -> Option<u32> {
        Self::some(self.at(at).prev)
    }

    fn span(&self, at: u32) -> Span {
        self.at(at).span
    }

    fn area(&self, at: u32) -> &Area<B> {
        self.at(at).area.as_ref().expect("an entry is there")
    }

    fn area_mut(&mut self, at: u32) -> &mut Area<B> {
        self.at_mut(at).area.as_mut().expect("an entry is there")
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        let (mut parent, mut node, mut side) = (NIL, self.root, 0);
        let (mut prev, mut next) = (NIL, NIL);
        while node != NIL {
            parent = node;
            side = usize::from(self.at(node).span.first < span.first);
            if side == 1 {
                prev = node
            } else {
                next = node
            }
            node = self.at(node).child[side];
        }
        let new = Node { span, area: Some(area), child: [NIL; 2], parent, red: true, next, prev, gap: 0, most: 0 };
        let at = match self.free.pop() {
            Some(at) => {
                *self.at_mut(at) = new;
                at
            }
            None => {
                self.nodes.push(new);
                self.nodes.len() as u32 - 1
            }
        };
        if parent == NIL {
            self.root = at
        } else {
            self.at_mut(parent).child[side] = at
        }
        if prev != NIL {
            self.at_mut(prev).next = at;
        }
        if next == NIL {
            self.last = at
        } else {
            self.at_mut(next).prev = at
        }
        self.measure(at);
        self.measure(next);
        self.balance_after_insert(at);
    }

    fn remove(&mut self, at: u32) -> Area<B> {
        let Node { child: [low, high], parent, red, next, prev, .. } = *self.at(at);
        if prev != NIL {
            self.at_mut(prev).next = next;
        }
        if next == NIL {
            self.last = prev
        } else {
            self.at_mut(next).prev = prev
        }
        // Who loses a black node, and below whom.
        let (gone_red, child, above) = if low == NIL || high == NIL {
            let child = if low == NIL { high } else { low };
            self.hang(at, child);
            (red, child, parent)
        } else {
            // The next entry is the lowest above, and has no lower child. It takes the place.
            let up = next;
            let Node { child: [_, child], red: up_red, parent: up_parent, .. } = *self.at(up);
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
        self.measure(next);
        if !gone_red {
            self.balance_after_remove(child, above);
        }
        let mut cache = self.cache.get();
        cache.iter_mut().filter(|cached| **cached == at).for_each(|cached| *cached = NIL);
        self.cache.set(cache);
        self.free.push(at);
        self.at_mut(at).area.take().expect("an entry is there")
    }

    fn set_span(&mut self, at: u32, span: Span) {
        self.at_mut(at).span = span;
        self.measure(at);
        self.measure(self.at(at).next);
    }

    fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        let more = more.saturating_sub(self.free.len());
        self.nodes.try_reserve(more).map_err(|_| AllocError)?;
        self.free.try_reserve(self.nodes.capacity() - self.free.len()).map_err(|_| AllocError)
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        match query.end() {
            End::Lowest => self.lowest(self.root, query).or_else(|| self.behind(query)),
            End::Highest => self.behind(query).or_else(|| self.highest(self.root, query)),
        }
    }
}
