//! `list`: a sorted, doubly linked list with a hint, as virtual memory systems of the 1980s and
//! 1990s had it, and NetBSD until 2003. A lookup begins at the entry found last and walks from
//! there, or from the first entry, whichever is before the address.

use crate::designs::chain::{Chain, NIL, some};
use crate::designs::entries::Entries;
use crate::designs::field::Number32;
use samara_mm::{AllocError, Area, Span};

/// The list.
#[derive(Clone)]
pub struct List<B> {
    chain: Chain<B, ()>,
    /// The entry found last.
    hint: Number32,
}

impl<B> Default for List<B> {
    fn default() -> Self {
        List { chain: Chain::default(), hint: Number32::new(NIL) }
    }
}

impl<B: Clone> Entries<B> for List<B> {
    type At = u32;

    fn len(&self) -> usize {
        self.chain.len()
    }

    fn find(&self, addr: u64) -> Option<u32> {
        let hint = some(self.hint.get()).filter(|hint| self.span(*hint).first <= addr);
        let mut at = hint.unwrap_or(self.chain.next(NIL));
        while at != NIL && self.span(at).last < addr {
            at = self.chain.next(at);
        }
        if at != NIL {
            self.hint.set(at);
        }
        some(at)
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
        let next = self.find(span.first).unwrap_or(NIL);
        self.hint.set(self.chain.insert(span, area, next));
    }

    fn remove(&mut self, at: u32) -> Area<B> {
        if self.hint.get() == at {
            self.hint.set(self.chain.prev(at));
        }
        self.chain.remove(at)
    }

    fn set_span(&mut self, at: u32, span: Span) {
        self.chain.set_span(at, span);
    }

    fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        self.chain.reserve(more)
    }
}
