//! Gap search: descends from the root along gap words that are wide enough, from either end of the
//! window.
//!
//! Gap words are exact, so a descent fails only in the two regions that the window cuts, and in
//! gaps that are wide enough but hold no aligned run. Without alignment, or with padding
//! (`GapQuery::padded`), the search takes O(log n). Otherwise each wide enough gap that holds no
//! aligned run costs one more step.
//!
//! Does not know what fits in a gap: [`GapQuery`] does.

use crate::fault::{Point, point};
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::{Path, Step, Tree};
use crate::types::gap::{End, GapQuery};
use crate::types::key::Key;
use crate::types::span::Span;

/// A place in a gap, and the entry behind the gap.
pub(crate) type Found<K, V, S> = (Span<K>, Leaf<K, V, S>, usize);

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// [`Tree::find_gap`] that also sets the finger to the entry behind the gap, and returns it.
    /// `None` if nothing is found before the last entry, or if a search does not apply:
    /// [`Tree::find_gap`] has the answer then.
    #[inline]
    pub(crate) fn seek_gap(&mut self, query: &GapQuery<K>) -> Option<Found<K, V, S>> {
        if query.is_padded() || query.len == K::ZERO || query.window.is_empty() {
            return None;
        }
        if query.end == End::Lowest {
            return dispatch::<K, S, _>(SeekGap::<_, _, _, true> { tree: self, query });
        }
        let max = self.max()?;
        if max < query.window.last && query.fit_unpadded(Span::new(max.succ()?, K::MAX)).is_some() {
            return None; // no entry lies behind the last one
        }
        dispatch::<K, S, _>(SeekGap::<_, _, _, false> { tree: self, query })
    }

    pub(crate) fn find_gap(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        self.find_gap_by::<false>(query)
    }

    /// [`Tree::find_gap`]; with `NOW` it runs while a writer may be changing gap words. A gap word
    /// may then be from another moment than the nodes below it, but while it changes it is at least
    /// as great as its old and its new value.
    pub(crate) fn find_gap_by<const NOW: bool>(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        debug_assert!(query.align.is_power_of_two());
        if query.is_padded() {
            return self.find_padded_gap::<NOW>(query);
        }
        if query.len == K::ZERO || query.window.is_empty() {
            return None;
        }
        let Some(max) = self.max() else { return query.fit_unpadded(Span::FULL) };
        let behind = || max.succ().and_then(|first| query.fit_unpadded(Span::new(first, K::MAX)));
        match query.end {
            End::Lowest => self.find_inside::<NOW>(query).or_else(behind),
            End::Highest => behind().or_else(|| self.find_inside::<NOW>(query)),
        }
    }

    /// Searches for a gap with room for the padding, and takes the aligned run in it.
    #[inline(never)]
    fn find_padded_gap<const NOW: bool>(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        let (plain, distance) = query.unpadded()?;
        match distance.succ() {
            Some(len) => plain.fit_unpadded(self.find_gap_by::<NOW>(&GapQuery { len, align: K::ONE, ..plain })?),
            // More keys than a key can express are free only in an empty map.
            None => query.fit(Span::FULL).filter(|_| self.root.is_none()),
        }
    }

    /// Searches the gaps before the last entry.
    fn find_inside<const NOW: bool>(&self, query: &GapQuery<K>) -> Option<Span<K>> {
        match query.end {
            End::Lowest => dispatch::<K, S, _>(FindGap::<_, _, _, true, NOW> { tree: self, query }),
            End::Highest => dispatch::<K, S, _>(FindGap::<_, _, _, false, NOW> { tree: self, query }),
        }
    }
}

/// A search upwards from the lowest key of the window, or downwards from the highest.
struct FindGap<'a, K: Key, V, S: Shape, const UP: bool, const NOW: bool> {
    tree: &'a Tree<K, V, S>,
    query: &'a GapQuery<K>,
}

/// [`FindGap`] that sets the finger.
struct SeekGap<'a, K: Key, V, S: Shape, const UP: bool> {
    tree: &'a mut Tree<K, V, S>,
    query: &'a GapQuery<K>,
}

impl<K: Key, V, S: Shape, const UP: bool> Job<K> for SeekGap<'_, K, V, S, UP> {
    type Out = Option<Found<K, V, S>>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let SeekGap { tree, query } = self;
        let mut path = Path::new();
        // SAFETY: the processor supports `F`, as the caller promises. The search leaves a current
        // path to an entry.
        unsafe {
            let place = FindGap::<_, _, _, UP, false> { tree, query }.search::<F>(&mut path)?;
            tree.point_at(&path);
            let Step { node, slot } = path.at(0);
            Some((place, Leaf::from_raw(node), slot))
        }
    }
}

/// A bit mask of the children of `node` below which there is a gap at least `least` wide.
///
/// # Safety
/// As for [`Inner::wide_gaps`], or with `NOW` for [`Inner::wide_gaps_now`].
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn wide<K: Key, S: Shape, F: Search, const NOW: bool>(node: Inner<K, S>, least: K) -> u64 {
    // SAFETY: the caller promises what the method that `NOW` selects requires.
    unsafe { if NOW { node.wide_gaps_now::<F>(least) } else { node.wide_gaps::<F>(least) } }
}

/// The bits of `some` below `slot`.
fn before(some: u64, slot: usize) -> u64 {
    some & ((1 << slot) - 1)
}

/// The bits of `some` from `slot` on.
fn from_on(some: u64, slot: usize) -> u64 {
    some >> slot << slot
}

/// The lowest or the highest set bit, as a slot.
fn end(some: u64, up: bool) -> Option<usize> {
    (some != 0).then(|| if up { some.trailing_zeros() } else { 63 - some.leading_zeros() } as usize)
}

impl<K: Key, V, S: Shape, const UP: bool, const NOW: bool> Job<K> for FindGap<'_, K, V, S, UP, NOW> {
    type Out = Option<Span<K>>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Option<Span<K>> {
        // SAFETY: the processor supports `F`, as the caller promises.
        unsafe { self.search::<F>(&mut Path::new()) }
    }
}

impl<K: Key, V, S: Shape, const UP: bool, const NOW: bool> FindGap<'_, K, V, S, UP, NOW> {
    /// Searches; `path` leads to the entry behind the gap afterwards, if one is found.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn search<F: Search>(&self, path: &mut Path) -> Option<Span<K>> {
        let tree = self.tree;
        let from = if UP { self.query.window.first } else { self.query.window.last };
        let (mut at, mut level) = (tree.root?, tree.height());
        // Whether `from` may lie within the node at `at`, so that only part of the node is
        // searched.
        let mut edge = true;
        // SAFETY: TREE-4: the nodes below the root are live, inner nodes above level 0; each step
        // of the path is set before it is read.
        unsafe {
            loop {
                point(Point::Searched);
                if level > 0 {
                    let node = Inner::<K, S>::from_raw(at);
                    if let Some((slot, on_edge)) = self.child::<F>(node, from, edge) {
                        path.set(level, at, slot);
                        edge &= on_edge;
                        (at, level) = (node.child(slot), level - 1);
                        continue;
                    }
                } else {
                    let leaf = Leaf::<K, V, S>::from_raw(at);
                    let start = tree.region_start(path, 0);
                    if self.is_beyond(leaf, start) {
                        return None;
                    }
                    if let Some((fit, slot)) = self.fit_in_leaf::<F>(leaf, start, from, edge) {
                        path.set(0, at, slot);
                        return Some(fit);
                    }
                }
                edge = false;
                (at, level) = self.next_subtree::<F>(path, level)?;
            }
        }
    }

    /// The slot of the first child of `node`, in the direction of the search, with a wide enough
    /// gap. If `edge`, the search starts at the child whose region holds `from`; the `bool` tells
    /// whether it returns that child.
    ///
    /// # Safety
    /// The node is live, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn child<F: Search>(&self, node: Inner<K, S>, from: K, edge: bool) -> Option<(usize, bool)> {
        // SAFETY: the caller promises a live node and the processor.
        unsafe {
            let mut wide = wide::<K, S, F, NOW>(node, self.query.len);
            let mut border = usize::MAX;
            if edge {
                border = node.rank::<F>(from);
                wide = if UP { from_on(wide, border) } else { before(wide, border + 1) };
            }
            end(wide, UP).map(|slot| (slot, slot == border))
        }
    }

    /// Whether the leaf, whose region starts at `start`, lies beyond the window, so that the search
    /// ends.
    ///
    /// # Safety
    /// The leaf is live and not empty.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn is_beyond(&self, leaf: Leaf<K, V, S>, start: K) -> bool {
        if UP {
            start > self.query.window.last
        } else {
            // SAFETY: LEAF-2: the leaf is live and not empty, as the caller promises.
            unsafe { leaf.key(leaf.len() - 1) < self.query.window.first }
        }
    }

    /// The first fit in the leaf, whose region starts at `start`, and the slot behind it. If
    /// `edge`, the search starts at `from`.
    ///
    /// # Safety
    /// The leaf is live, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn fit_in_leaf<F: Search>(
        &self,
        leaf: Leaf<K, V, S>,
        start: K,
        from: K,
        edge: bool,
    ) -> Option<(Span<K>, usize)> {
        // SAFETY: LEAF-2: the leaf is live, as the caller promises, and `wide_gaps` has bits of
        // slots below the length only.
        unsafe {
            if leaf.is_wide() {
                return self.fit_in_wide::<F>(leaf, start, from, edge);
            }
            let mut wide = leaf.wide_gaps::<F>(start, self.query.len);
            if edge {
                let slot = leaf.rank::<F>(from);
                wide = if UP { from_on(wide, slot) } else { before(wide, slot + 1) };
            }
            while let Some(i) = end(wide, UP) {
                // The gap is at least one key wide, so its last key is right before the entry.
                let first = if i == 0 { start } else { leaf.key(i - 1).wrapping_add(K::ONE) };
                if let Some(fit) = self.query.fit_unpadded(Span::new(first, leaf.first(i).wrapping_sub(K::ONE))) {
                    return Some((fit, i));
                }
                wide &= !(1 << i);
            }
        }
        None
    }

    /// [`FindGap::fit_in_leaf`] in a wide leaf: looks at its few slots one after the other.
    ///
    /// # Safety
    /// As there.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn fit_in_wide<F: Search>(
        &self,
        leaf: Leaf<K, V, S>,
        start: K,
        from: K,
        edge: bool,
    ) -> Option<(Span<K>, usize)> {
        // SAFETY: LEAF-2: the leaf is live, as the caller promises; slots are read only below the
        // length.
        unsafe {
            let len = leaf.len();
            let border = if edge { Some(leaf.rank::<F>(from)) } else { None };
            let (least, behind) = match border {
                Some(slot) if UP => (slot, len),
                Some(slot) => (0, len.min(slot + 1)),
                None => (0, len),
            };
            for step in least..behind {
                let i = if UP { step } else { behind - 1 - step };
                let first = if i == 0 { start } else { leaf.wide_key(i - 1).wrapping_add(K::ONE) };
                let next = leaf.wide_first(i);
                if next.wrapping_sub(first) >= self.query.len
                    && let Some(fit) = self.query.fit_unpadded(Span::new(first, next.wrapping_sub(K::ONE)))
                {
                    return Some((fit, i));
                }
            }
        }
        None
    }

    /// The next subtree, in the direction of the search, with a wide enough gap, under the lowest
    /// ancestor that has one: its root and level. `path` leads to it afterwards. `level` is that of
    /// the node in which nothing fits.
    ///
    /// # Safety
    /// The steps of `path` above `level` are set, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn next_subtree<F: Search>(&self, path: &mut Path, level: usize) -> Option<(Raw, usize)> {
        let mut level = level + 1;
        while level <= self.tree.height() {
            // SAFETY: TREE-4: the nodes of the path are live inner nodes, as the caller promises.
            unsafe {
                let Step { node, slot } = path.at(level);
                let inner = Inner::<K, S>::from_raw(node);
                let wide = wide::<K, S, F, NOW>(inner, self.query.len);
                if let Some(found) = end(if UP { from_on(wide, slot + 1) } else { before(wide, slot) }, UP) {
                    path.set(level, node, found);
                    return Some((inner.child(found), level - 1));
                }
            }
            level += 1;
        }
        None
    }
}
