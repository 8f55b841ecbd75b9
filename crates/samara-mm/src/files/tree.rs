//! An interval tree: areas ordered by [`Key`], searched by pages of the file. A balanced binary
//! tree in which each node knows the greatest page below it.
//!
//! Knows neither locks nor reservations: the caller reserves memory for [`Tree::insert`].
//!
//! - **INTERVAL-1** The keys ascend in order, so each is there once.
//! - **INTERVAL-2** The heights of a node's children differ by one at most, and a node's `height`
//!   is one more than the greater of them.
//! - **INTERVAL-3** A node's `greatest` is the greatest `last` at and below it.
//! - **INTERVAL-4** `len` and `writable` count the areas and those that are shared and writable.

use super::area::{FileArea, Key, Mapping, PAGE};
use super::nodes::{Chain, NONE, Nodes};
use core::cmp::Ordering;
use samara::{AllocError, Span};

/// Maximum depth of a path from the root: a balanced tree of 2^32 nodes has 47 levels.
const DEPTH: usize = 48;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    /// The last page of the file.
    last: u64,
    greatest: u64,
    child: [u32; 2],
    height: u8,
    shared_writable: bool,
}

impl Chain for Node {
    fn next(&self) -> u32 {
        self.child[0]
    }
    fn set_next(&mut self, next: u32) {
        self.child[0] = next;
    }
}

impl Node {
    fn mapping(&self) -> Mapping {
        let Key { page, space, start } = self.key;
        // Cannot overflow: the area was well formed when it came in.
        let end = start.wrapping_add(self.last.wrapping_sub(page).wrapping_add(1).wrapping_mul(PAGE));
        Mapping { space, area: FileArea { start, end, page, shared_writable: self.shared_writable } }
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: Nodes<Node>,
    root: u32,
    len: u32,
    writable: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { nodes: Nodes::default(), root: NONE, len: 0, writable: 0 }
    }
}

/// The path from the root to a node: each node, and whether the path goes on to the right.
struct Path {
    at: [u32; DEPTH],
    right: u64,
    len: usize,
}

impl Path {
    fn new() -> Path {
        Path { at: [NONE; DEPTH], right: 0, len: 0 }
    }
    fn push(&mut self, at: u32, right: bool) {
        self.at[self.len] = at;
        self.right = self.right & !(1 << self.len) | u64::from(right) << self.len;
        self.len += 1;
    }
    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.at[self.len])
    }
    /// The last node, and the side on which the path goes on.
    fn end(&self) -> Option<(u32, usize)> {
        let last = self.len.checked_sub(1)?;
        Some((self.at[last], usize::from(self.right >> last & 1 == 1)))
    }
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }
    pub(super) fn writable(&self) -> usize {
        self.writable as usize
    }
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }
    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    /// Allocates memory for `more` further nodes. Returns the number of new nodes. An error leaves
    /// the memory as it was.
    pub(super) fn grow(&mut self, more: usize) -> Result<usize, AllocError> {
        let (blocks, mut made) = (self.nodes.blocks(), 0);
        while made < more {
            match self.nodes.grow() {
                Ok(room) => made += room,
                Err(error) => {
                    self.nodes.shrink_to(blocks);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Frees memory. The tree is empty. Returns the number of freed nodes.
    pub(super) fn release(&mut self) -> usize {
        debug_assert_eq!(self.root, NONE, "nodes in use are kept");
        self.nodes.clear()
    }

    /// The path to the node with this key, without the node, and the node; or the path to its
    /// place.
    fn descend(&self, key: &Key) -> (Path, u32) {
        let (mut path, mut at) = (Path::new(), self.root);
        while at != NONE {
            let node = &self.nodes[at];
            match key.cmp(&node.key) {
                Ordering::Equal => break,
                side => {
                    let right = side == Ordering::Greater;
                    path.push(at, right);
                    at = node.child[usize::from(right)];
                }
            }
        }
        (path, at)
    }

    /// The area with this key.
    pub(super) fn get(&self, key: &Key) -> Option<Mapping> {
        let (_, at) = self.descend(key);
        (at != NONE).then(|| self.nodes[at].mapping())
    }

    /// Whether `at` is a node with this area.
    fn is(&self, at: u32, area: &FileArea) -> bool {
        at != NONE && self.nodes[at].mapping().area == *area
    }

    /// Adds an area with the last page `last`. Returns `false` if the key exists, or if no memory
    /// is reserved.
    pub(super) fn insert(&mut self, key: Key, last: u64, shared_writable: bool) -> bool {
        let (path, at) = self.descend(&key);
        if at != NONE {
            return false;
        }
        let new = Node { key, last, greatest: last, child: [NONE; 2], height: 1, shared_writable };
        let Some(new) = self.nodes.take(new) else { return false };
        self.hang(&path, new);
        self.retrace(path, 0);
        self.len += 1;
        self.writable += u32::from(shared_writable);
        true
    }

    /// Changes the last page and the kind of the area with this key, if it exists and is `old`.
    pub(super) fn change(&mut self, key: &Key, old: &FileArea, last: u64, shared_writable: bool) -> bool {
        let (mut path, at) = self.descend(key);
        if !self.is(at, old) {
            return false;
        }
        let node = &mut self.nodes[at];
        self.writable = self.writable + u32::from(shared_writable) - u32::from(node.shared_writable);
        (node.last, node.shared_writable) = (last, shared_writable);
        path.push(at, false);
        self.retrace(path, 0);
        true
    }

    /// Removes the area with this key, if it exists and is `old`.
    pub(super) fn remove(&mut self, key: &Key, old: &FileArea) -> bool {
        let (mut path, at) = self.descend(key);
        if !self.is(at, old) {
            return false;
        }
        let Node { child: [left, right], shared_writable, .. } = self.nodes[at];
        let (gone, changed) = if left == NONE || right == NONE {
            self.hang(&path, if left == NONE { right } else { left });
            (at, 0)
        } else {
            // The next area moves here, and its node goes.
            path.push(at, true);
            let (here, mut next) = (path.len, right);
            while self.nodes[next].child[0] != NONE {
                path.push(next, false);
                next = self.nodes[next].child[0];
            }
            let Node { key, last, shared_writable, child, .. } = self.nodes[next];
            let node = &mut self.nodes[at];
            (node.key, node.last, node.shared_writable) = (key, last, shared_writable);
            self.hang(&path, child[1]);
            (next, here)
        };
        self.retrace(path, changed);
        self.nodes.give_back(gone);
        self.len -= 1;
        self.writable -= u32::from(shared_writable);
        true
    }

    /// Attaches a subtree at the end of the path.
    fn hang(&mut self, path: &Path, subtree: u32) {
        match path.end() {
            Some((parent, side)) => self.nodes[parent].child[side] = subtree,
            None => self.root = subtree,
        }
    }

    /// Restores balance and sums upwards: to where nothing changes, and at least to the node at
    /// depth `changed`, counted from 1.
    fn retrace(&mut self, mut path: Path, changed: usize) {
        while let Some(at) = path.pop() {
            let Node { height, greatest, .. } = self.nodes[at];
            let top = self.balance(at);
            if top != at {
                self.hang(&path, top);
            }
            let now = &self.nodes[top];
            if (height, greatest) == (now.height, now.greatest) && (changed == 0 || path.len < changed) {
                break;
            }
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn height(&self, at: u32) -> u8 {
        if at == NONE { 0 } else { self.nodes[at].height }
    }

    /// Height and greatest page of a node, from its children.
    fn refresh(&mut self, at: u32) {
        let Node { child, last, .. } = self.nodes[at];
        let (mut height, mut greatest) = (0, last);
        for child in child {
            if child != NONE {
                let child = &self.nodes[child];
                (height, greatest) = (height.max(child.height), greatest.max(child.greatest));
            }
        }
        let node = &mut self.nodes[at];
        (node.height, node.greatest) = (height + 1, greatest);
    }

    /// Balances the subtree at `at`, whose children are balanced and differ by two at most. Returns
    /// its root.
    fn balance(&mut self, at: u32) -> u32 {
        let child = self.nodes[at].child;
        let height = child.map(|child| self.height(child));
        if height[0].abs_diff(height[1]) <= 1 {
            self.refresh(at);
            return at;
        }
        let side = usize::from(height[1] > height[0]);
        let below = self.nodes[child[side]].child;
        if self.height(below[1 - side]) > self.height(below[side]) {
            let up = self.rotate(child[side], 1 - side);
            self.nodes[at].child[side] = up;
        }
        self.rotate(at, side)
    }

    /// Makes the child on `side` the root of the subtree.
    fn rotate(&mut self, at: u32, side: usize) -> u32 {
        let up = self.nodes[at].child[side];
        self.nodes[at].child[side] = self.nodes[up].child[1 - side];
        self.nodes[up].child[1 - side] = at;
        self.refresh(at);
        self.refresh(up);
        up
    }

    /// The areas that map a page of `pages`, in order; those behind `after`, if it is given.
    pub(super) fn overlaps(&self, pages: Span<u64>, after: Option<Key>) -> Overlaps<'_> {
        let mut found = Overlaps {
            tree: self,
            way: Path::new(),
            pages,
            #[cfg(test)]
            looked: Default::default(),
        };
        let mut at = self.root;
        while let Some(node) = found.reaching(at) {
            let is_behind = after.is_none_or(|after| node.key > after);
            if is_behind {
                found.way.push(at, false);
            }
            at = node.child[usize::from(!is_behind)];
        }
        found
    }

    /// Checks the tree.
    pub(super) fn check(&self) -> Result<(), TreeFault> {
        let mut seen = Walked::default();
        if self.root != NONE {
            self.check_below(self.root, 0, &mut seen)?;
        }
        if (seen.len, seen.writable) != (self.len, self.writable) {
            return Err(TreeFault::Counts);
        }
        match self.nodes.count_free() {
            Some((free, made)) if free + self.len() == made && made <= self.capacity() => Ok(()),
            _ => Err(TreeFault::Nodes),
        }
    }

    fn check_below(&self, at: u32, depth: usize, seen: &mut Walked) -> Result<(), TreeFault> {
        if depth == DEPTH {
            return Err(TreeFault::Heights);
        }
        let node = &self.nodes[at];
        for (side, child) in node.child.into_iter().enumerate() {
            if side == 1 {
                if seen.before.is_some_and(|before| before >= node.key) {
                    return Err(TreeFault::Order(node.key.page));
                }
                seen.before = Some(node.key);
                seen.len += 1;
                seen.writable += u32::from(node.shared_writable);
            }
            if child != NONE {
                self.check_below(child, depth + 1, seen)?;
            }
        }
        if node.mapping().area.pages() != Some(Span::new(node.key.page, node.last)) {
            return Err(TreeFault::Malformed(node.key.page));
        }
        let [left, right] = node.child.map(|child| self.height(child));
        if left.abs_diff(right) > 1 || node.height != left.max(right) + 1 {
            return Err(TreeFault::Heights);
        }
        let below = node.child.into_iter().filter(|child| *child != NONE).map(|child| self.nodes[child].greatest);
        if below.chain([node.last]).max() != Some(node.greatest) {
            return Err(TreeFault::Greatest(node.key.page));
        }
        Ok(())
    }
}

/// A defect of a tree. The numbers are pages of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeFault {
    Order(u64),
    Malformed(u64),
    Heights,
    Greatest(u64),
    Counts,
    Nodes,
}

/// The state of a check.
#[derive(Default)]
struct Walked {
    before: Option<Key>,
    len: u32,
    writable: u32,
}

/// Iterator over the areas that map a page of a range.
///
/// `way` is a stack of nodes that were not visited yet, each with a greater key than those behind
/// it. Their left subtrees are done.
pub(super) struct Overlaps<'a> {
    tree: &'a Tree,
    way: Path,
    pages: Span<u64>,
    /// Nodes looked at.
    #[cfg(test)]
    looked: core::cell::Cell<usize>,
}

impl<'a> Overlaps<'a> {
    /// The node, if it or one below reaches the range.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn reaching(&self, at: u32) -> Option<&'a Node> {
        if at == NONE {
            return None;
        }
        #[cfg(test)]
        self.looked.set(self.looked.get() + 1);
        let node = &self.tree.nodes[at];
        (node.greatest >= self.pages.first).then_some(node)
    }
}

impl Iterator for Overlaps<'_> {
    type Item = Mapping;

    fn next(&mut self) -> Option<Mapping> {
        loop {
            let node = &self.tree.nodes[self.way.pop()?];
            if node.key.page > self.pages.last {
                // All others are behind it.
                self.way.len = 0;
                return None;
            }
            let mut at = node.child[1];
            while let Some(below) = self.reaching(at) {
                self.way.push(at, false);
                at = below.child[0];
            }
            if node.last >= self.pages.first {
                return Some(node.mapping());
            }
        }
    }
}

/// Functions for tests: they count visits and corrupt a tree.
#[cfg(test)]
impl Tree {
    /// The nodes that a search looks at.
    pub(super) fn looked_at(&self, pages: Span<u64>) -> usize {
        let mut found = self.overlaps(pages, None);
        while found.next().is_some() {}
        found.looked.get()
    }
    pub(super) fn spoil_key(&mut self, at: u32, page: u64) {
        self.nodes[at].key.page = page;
    }
    pub(super) fn spoil_start(&mut self, at: u32) {
        self.nodes[at].key.start += 1;
    }
    pub(super) fn spoil_greatest(&mut self, at: u32) {
        self.nodes[at].greatest += 1;
    }
    pub(super) fn spoil_height(&mut self, at: u32) {
        self.nodes[at].height += 1;
    }
    pub(super) fn spoil_len(&mut self) {
        self.len += 1;
    }
    pub(super) fn spoil_free(&mut self) {
        self.nodes.give_back(0);
    }
}
