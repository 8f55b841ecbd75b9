//! Finding a free run by its width: down where the gap words say that it fits, from either end of the window.
//!
//! Only the two regions that the window cuts can disappoint, besides gaps that are wide enough and yet hold no aligned
//! run: O(log n) without alignment, and with it one more step for each such gap on the way.

use crate::gap::{End, GapQuery};
use crate::inner::Inner;
use crate::key::Key;
use crate::leaf::Leaf;
use crate::search::{Job, Search, dispatch};
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
        dispatch::<K, _>(FindGap { tree: self, query })
    }
}

struct FindGap<'a, V, K: Key, S: Shape> {
    tree: &'a Tree<V, K, S>,
    query: &'a GapQuery<K>,
}

/// The bits of `some` for the slots before `slot`.
fn before(some: u64, slot: usize) -> u64 {
    some & ((1 << slot) - 1)
}

/// The bits of `some` for the slots from `slot` on.
fn from_on(some: u64, slot: usize) -> u64 {
    some >> slot << slot
}

/// The lowest or the highest slot of which there is a bit.
fn end(some: u64, up: bool) -> Option<usize> {
    (some != 0).then(|| if up { some.trailing_zeros() } else { 63 - some.leading_zeros() } as usize)
}

impl<V, K: Key, S: Shape> Job<K> for FindGap<'_, V, K, S> {
    type Out = Option<Span<K>>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Option<Span<K>> {
        let FindGap { tree, query } = self;
        let mut path = Path::new();
        let (up, from) = match query.end {
            End::Lowest => (true, query.window.first),
            End::Highest => (false, query.window.last),
        };
        // SAFETY: the path is fresh, and is kept so on the way from leaf to leaf; slots below `len` are read.
        unsafe {
            let (mut leaf, slot) = tree.seek_by::<F>(from, &mut path)?;
            let mut start = tree.region_start(&path, 0);
            let mut wide = leaf.wide_gaps::<F>(start, query.len);
            wide = if up { from_on(wide, slot) } else { before(wide, leaf.len().min(slot + 1)) };
            loop {
                while let Some(i) = end(wide, up) {
                    // As wide as that, the gap ends before an entry: its last key is there.
                    let first = if i == 0 { start } else { leaf.key(i - 1).wrapping_add(K::ONE) };
                    if let Some(fit) = query.fit(Span::new(first, leaf.first(i).wrapping_sub(K::ONE))) {
                        return Some(fit);
                    }
                    wide &= !(1 << i);
                }
                leaf = next_wide_leaf::<F, V, K, S>(tree, query, &mut path, up)?;
                start = tree.region_start(&path, 0);
                // Beyond the window there is nothing to find.
                let beyond = if up { start > query.window.last } else { leaf.key(leaf.len() - 1) < query.window.first };
                if beyond {
                    return None;
                }
                wide = leaf.wide_gaps::<F>(start, query.len);
            }
        }
    }
}

/// Takes `path` on to the next leaf, upwards or downwards, that has a gap as wide as what is sought.
///
/// # Safety
/// `path` is of this tree as it is, and the processor has what `F` uses.
#[inline(always)]
unsafe fn next_wide_leaf<F: Search, V, K: Key, S: Shape>(
    tree: &Tree<V, K, S>,
    query: &GapQuery<K>,
    path: &mut Path,
    up: bool,
) -> Option<Leaf<V, K, S>> {
    // SAFETY: the caller's promise; the slots found are below `len`.
    unsafe {
        let mut level = 1;
        loop {
            if level > tree.height {
                return None;
            }
            let Step { node, slot } = path.at(level);
            let wide = Inner::<K, S>::from_raw(node).wide_gaps::<F>(query.len);
            let siblings = if up { from_on(wide, slot + 1) } else { before(wide, slot) };
            if let Some(found) = end(siblings, up) {
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
            // T3: the parent's word says that one of them is as wide.
            let found = end(Inner::<K, S>::from_raw(child).wide_gaps::<F>(query.len), up)?;
            path.set(level, child, found);
        }
    }
}
