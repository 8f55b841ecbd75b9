//! `list`: a sorted, doubly linked list with a hint, as virtual memory systems of the 1980s and
//! 1990s had it, and NetBSD until 2003. A lookup begins at the entry found last and walks from
//! there, or from the first entry, whichever is before the address.

use crate::designs::entries::Entries;
use samara_mm::{AllocError, Area, Span};
use std::cell::Cell;

/// The number of no entry.
const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Entry<B> {
    span: Span,
    area: Area<B>,
    next: u32,
    prev: u32,
}

/// The list. Entries are kept by number, as a kernel keeps them in a slab.
#[derive(Clone)]
pub struct List<B> {
    entries: Vec<Option<Entry<B>>>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    /// The entry found last.
    hint: Cell<u32>,
}

impl<B> Default for List<B> {
    fn default() -> Self {
        List { entries: Vec::new(), free: Vec::new(), first: NONE, last: NONE, hint: Cell::new(NONE) }
    }
}

impl<B> List<B> {
    fn get(&self, at: u32) -> &Entry<B> {
        self.entries[at as usize].as_ref().expect("an entry is there")
    }

    fn get_mut(&mut self, at: u32) -> &mut Entry<B> {
        self.entries[at as usize].as_mut().expect("an entry is there")
    }

    fn some(at: u32) -> Option<u32> {
        (at != NONE).then_some(at)
    }
}

impl<B: Clone> Entries<B> for List<B> {
    type At = u32;

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn find(&self, addr: u64) -> Option<u32> {
        let hint = Self::some(self.hint.get()).filter(|hint| self.get(*hint).span.first <= addr);
        let mut at = hint.unwrap_or(self.first);
        while at != NONE && self.get(at).span.last < addr {
            at = self.get(at).next;
        }
        if at != NONE {
            self.hint.set(at);
        }
        Self::some(at)
    }

    fn last(&self) -> Option<u32> {
        Self::some(self.last)
    }

    fn next(&self, at: u32) -> Option<u32> {
        Self::some(self.get(at).next)
    }

    fn prev(&self, at: u32) -> Option<u32> {
        Self::some(self.get(at).prev)
    }

    fn span(&self, at: u32) -> Span {
        self.get(at).span
    }

    fn area(&self, at: u32) -> &Area<B> {
        &self.get(at).area
    }

    fn area_mut(&mut self, at: u32) -> &mut Area<B> {
        &mut self.get_mut(at).area
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        let next = self.find(span.first).unwrap_or(NONE);
        let prev = if next == NONE { self.last } else { self.get(next).prev };
        let entry = Some(Entry { span, area, next, prev });
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        if prev == NONE {
            self.first = at
        } else {
            self.get_mut(prev).next = at
        }
        if next == NONE {
            self.last = at
        } else {
            self.get_mut(next).prev = at
        }
        self.hint.set(at);
    }

    fn remove(&mut self, at: u32) -> Area<B> {
        let Entry { area, next, prev, .. } = self.entries[at as usize].take().expect("an entry is there");
        if prev == NONE {
            self.first = next
        } else {
            self.get_mut(prev).next = next
        }
        if next == NONE {
            self.last = prev
        } else {
            self.get_mut(next).prev = prev
        }
        if self.hint.get() == at {
            self.hint.set(if prev == NONE { next } else { prev });
        }
        self.free.push(at);
        area
    }

    fn set_span(&mut self, at: u32, span: Span) {
        self.get_mut(at).span = span;
    }

    fn reserve(&mut self, more: usize) -> Result<(), AllocError> {
        let more = more.saturating_sub(self.free.len());
        self.entries.try_reserve(more).map_err(|_| AllocError)?;
        self.free.try_reserve(self.entries.capacity() - self.free.len()).map_err(|_| AllocError)
    }
}
