//! Finding a free run by its width: down where the gap words say that it fits, from either end of the window.
//!
//! Only the two regions that the window cuts can disappoint, besides gaps that are wide enough and yet hold no aligned
//! run: O(log n) without alignment, and with it one more step for each such gap on the way.

use crate::gap::{End, GapQuery};
use crate::inner::Inner;
use crate::key::Key;
use crate::leaf::Leaf;
use crate::shape::Shape;
use crate::span::Span;
use crate::tree::{Path, Step, Tree};

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    pub(crate) fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        if query.len == K::ZERO || !query.align.is_power_of_two() || query.window.is_empty() {
            return None;
        }
        let Some(max) = self.max() else { return query.fit(Span::FULL) };
        let behind = || max.succ().and_then(|first| query.fit(Span::new(first, K::MAX)));
        match query.end {
            End::Lowest => self.find_inside(query).or_else(behind),
            End::Highest => behind().or_else(|| self.find_inside(query)),
        }
    }

    /// The fit that lies before the last entry.
    fn find_inside(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        let mut path = Path::new();
        let (up, from) = match query.end {
            End::Lowest => (true, query.window.first),
            End::Highest => (false, query.window.last),
        };
        let (mut leaf, mut slot) = self.seek(from, &mut path)?;
        // SAFETY: the path is fresh, and is kept so on the way from leaf to leaf; slots below `len` are read.
        unsafe {
            loop {
                if let Some(fit) = self.fit_in_leaf(query, &path, leaf, slot, up) {
                    return Some(fit);
                }
                leaf = self.next_wide_leaf(query, &mut path, up)?;
                // Beyond the window there is nothing to find.
                let beyond = if up {
                    self.region_start(&path, 0) > query.window.last
                } else {
                    leaf.key(leaf.len() - 1) < query.window.first
                };
                if beyond {
                    return None;
                }
                slot = if up { 0 } else { leaf.len() - 1 };
            }
        }
    }

    /// The fit in the gaps of `leaf` before the entries from `slot` on, upwards or downwards.
    ///
    /// # Safety
    /// `path` is of this tree as it is, and leads to `leaf`.
    unsafe fn fit_in_leaf(
        &self,
        query: &GapQuery<K>,
        path: &Path,
        leaf: Leaf<V, K, S>,
        slot: usize,
        up: bool,
    ) -> Option<Span<K>> {
        // SAFETY: the caller's promise; slots below `len` are read.
        unsafe {
            let start = self.region_start(path, 0);
            let fit = |i: usize| {
                let from = if i == 0 { start } else { leaf.key(i - 1).wrapping_add(K::ONE) };
                let width = leaf.first(i).wrapping_sub(from);
                // As wide as that, the gap ends before an entry: its last key is there.
                if width < query.len { None } else { query.fit(Span::new(from, leaf.first(i).wrapping_sub(K::ONE))) }
            };
            if up { (slot..leaf.len()).find_map(fit) } else { (0..leaf.len().min(slot + 1)).rev().find_map(fit) }
        }
    }

    /// Takes `path` on to the next leaf, upwards or downwards, that has a gap as wide as what is sought.
    ///
    /// # Safety
    /// `path` is of this tree as it is.
    unsafe fn next_wide_leaf(&self, query: &GapQuery<K>, path: &mut Path, up: bool) -> Option<Leaf<V, K, S>> {
        // SAFETY: the caller's promise; the slots looked at are below `len`.
        unsafe {
            let wide = |node: Inner<K, S>, slots: core::ops::Range<usize>| {
                let fits = |&i: &usize| node.gap(i) >= query.len;
                if up { slots.clone().find(fits) } else { slots.rev().find(fits) }
            };
            let mut level = 1;
            loop {
                if level > self.height {
                    return None;
                }
                let Step { node, slot } = path.at(level);
                let inner = Inner::<K, S>::from_raw(node);
                let siblings = if up { slot + 1..inner.len() } else { 0..slot };
                if let Some(found) = wide(inner, siblings) {
                    path.set(level, node, found);
                    break;
                }
                level += 1;
            }
            loop {
                let Step { node, slot } = path.at(level);
                let child = Inner::<K, S>::from_raw(node).child(slot);
                level -= 1;
                if level == 0 {
                    path.set(0, child, 0);
                    return Some(Leaf::from_raw(child));
                }
                let inner = Inner::<K, S>::from_raw(child);
                // T3: the parent's word says that one of them is as wide.
                let found = wide(inner, 0..inner.len())?;
                path.set(level, child, found);
            }
        }
    }
}
