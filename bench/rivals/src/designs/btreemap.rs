//! `btreemap`: the usual choice of a Rust program, the standard library's B-tree, with the first
//! address as the key. It has no handles: a step to a neighbour is a search.

use crate::designs::entries::Entries;
use samara_mm::{AllocError, Area, Span};
use std::collections::BTreeMap;

/// Areas by their first address, each with its last one.
#[derive(Clone)]
pub struct ByFirst<B>(BTreeMap<u64, (u64, Area<B>)>);

impl<B> Default for ByFirst<B> {
    fn default() -> Self {
        ByFirst(BTreeMap::new())
    }
}

impl<B: Clone> Entries<B> for ByFirst<B> {
    /// The first address of the entry.
    type At = u64;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, addr: u64) -> Option<u64> {
        let before = self.0.range(..=addr).next_back().filter(|(_, (last, _))| addr <= *last);
        before.or_else(|| self.0.range(addr..).next()).map(|(first, _)| *first)
    }

    fn find_before(&self, addr: u64) -> Option<u64> {
        self.0.range(..=addr).next_back().map(|(first, _)| *first)
    }

    fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(first, _)| *first)
    }

    fn next(&self, at: u64) -> Option<u64> {
        self.0.range(at.checked_add(1)?..).next().map(|(first, _)| *first)
    }

    fn prev(&self, at: u64) -> Option<u64> {
        self.0.range(..at).next_back().map(|(first, _)| *first)
    }

    fn span(&self, at: u64) -> Span {
        Span::new(at, self.0[&at].0)
    }

    fn area(&self, at: u64) -> &Area<B> {
        &self.0[&at].1
    }

    fn area_mut(&mut self, at: u64) -> &mut Area<B> {
        &mut self.0.get_mut(&at).expect("an entry is there").1
    }

    fn insert(&mut self, span: Span, area: Area<B>) {
        self.0.insert(span.first, (span.last, area));
    }

    fn remove(&mut self, at: u64) -> Area<B> {
        self.0.remove(&at).expect("an entry is there").1
    }

    fn set_span(&mut self, at: u64, span: Span) {
        if span.first == at {
            self.0.get_mut(&at).expect("an entry is there").0 = span.last;
        } else {
            let area = self.remove(at);
            self.insert(span, area);
        }
    }

    /// The standard library's maps do not allocate in advance.
    fn reserve(&mut self, _more: usize) -> Result<(), AllocError> {
        Ok(())
    }
}
