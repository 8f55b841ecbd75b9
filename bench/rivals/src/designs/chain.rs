//! Entries by number, in separate memory like a kernel's slab, and in a sorted, doubly linked list.
//! The design adds its other links (`L`).
//!
//! - **CHAIN-1** Node 0 ([`NIL`]) stands for no entry, and closes the list to a ring: it comes
//!   before the first entry and after the last one.

use samara_mm::{AllocError, Area, Span};
use std::mem;

/// The number of no entry.
pub(super) const NIL: u32 = 0;

#[derive(Clone)]
struct Node<B, L> {
    span: Span,
    /// `None`: it is NIL, or free.
    area: Option<Area<B>>,
    next: u32,
    prev: u32,
    links: L,
}

impl<B, L: Default> Node<B, L> {
    fn nil() -> Self {
        Node { span: Span::new(0, 0), area: None, next: NIL, prev: NIL, links: L::default() }
    }
}

/// The entries and their list.
#[derive(Clone)]
pub(super) struct Chain<B, L> {
    nodes: Vec<Node<B, L>>,
    free: Vec<u32>,
}

impl<B, L: Default> Default for Chain<B, L> {
    fn default() -> Self {
        Chain { nodes: vec![Node::nil()], free: Vec::new() }
    }
}

/// An entry by its number; no entry for NIL.
pub(super) fn some(at: u32) -> Option<u32> {
    (at != NIL).then_some(at)
}

impl<B, L: Default> Chain<B, L> {
    fn node(&self, at: u32) -> &Node<B, L> {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node<B, L> {
        &mut self.nodes[at as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - 1 - self.free.len()
    }

    /// The next entry; after NIL the first one.
    pub(super) fn next(&self, at: u32) -> u32 {
        self.node(at).next
    }

    /// The entry before; before NIL the last one.
    pub(super) fn prev(&self, at: u32) -> u32 {
        self.node(at).prev
    }

    pub(super) fn span(&self, at: u32) -> Span {
        self.node(at).span
    }

    pub(super) fn set_span(&mut self, at: u32, span: Span) {
        self.node_mut(at).span = span;
    }

    pub(super) fn area(&self, at: u32) -> &Area<B> {
        self.node(at).area.as_ref().expect("an entry is there")
    }

    pub(super) fn area_mut(&mut self, at: u32) -> &mut Area<B> {
        self.node_mut(at).area.as_mut().expect("an entry is there")
    }

    pub(super) fn links(&self, at: u32) -> &L {
        &self.node(at).links
    }

    /// Adds an entry before `next`; before NIL is at the end.
    pub(super) fn insert(&mut self, span: Span, area: Area<B>, next: u32) -> u32 {
        let prev = self.prev(next);
        let node = Node { span, area: Some(area), next, prev, links: L::default() };
        let at = match self.free.pop() {
            Some(at) => {
                *self.node_mut(at) = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.node_mut(prev).next = at;
        self.node_mut(next).prev = at;
        at
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, at: u32) -> Area<B> {
        let Node { area, next, prev, .. } = mem::replace(self.node_mut(at), Node::nil());
        self.node_mut(prev).next = next;
        self.node_mut(next).prev = prev;
        self.free.push(at);
        area.expect("an entry is there")
    }

    /// Sets memory aside for `more` entries, and for the numbers of all that may become free.
    pub(super) fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        let more = more.saturating_sub(self.free.len());
        self.nodes.try_reserve(more).map_err(|_| AllocError)?;
        self.free.try_reserve(self.nodes.capacity() - self.free.len()).map_err(|_| AllocError)
    }
}
