//! `maple`: a B-tree of ranges in the geometry that Linux publishes for its maple tree since 6.1.
//! Gaps are ranges of the tree too, so each leaf covers all keys between its neighbours. A store is
//! one change of one range, whatever it overlaps. The nodes on its path are copied, not changed, as
//! concurrent readers would need it, into nodes that were reserved for the worst case.
//!
//! Written from that description; [`maple_node`](super::maple_node) has the rules of nodes.

use crate::designs::maple_node::{Inner, LEAF, Leaf, NONE, Node, Pool, Slot};
use arrayvec::ArrayVec;
use samara_mm::{AllocError, Area, AreaIndex, End, GapQuery, IndexEntry, Revision, Span};
use std::fmt;

/// The slots of two nodes, and of what comes between them.
type Slots = ArrayVec<Slot, { 2 * LEAF + 3 }>;
/// The nodes made from such slots.
type Nodes = ArrayVec<Slot, 4>;
type Keys = (u64, u64);

/// The tree. Slots of leaves have the numbers of `areas`, from 1.
#[derive(Clone)]
pub struct Maple<B> {
    root: u64,
    /// Levels above the leaves.
    height: usize,
    leaves: Pool<Leaf>,
    inners: Pool<Inner>,
    areas: Vec<Option<Area<B>>>,
    free: Vec<u64>,
}

impl<B> Default for Maple<B> {
    fn default() -> Self {
        let mut leaves = Pool::default();
        let root = leaves.make(&[Slot { last: u64::MAX, what: NONE, gap: u64::MAX }]);
        Maple { root, height: 0, leaves, inners: Pool::default(), areas: Vec::new(), free: Vec::new() }
    }
}

impl<B> fmt::Debug for Maple<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} areas, {} levels", self.areas.len() - self.free.len(), self.height + 1)
    }
}

/// A change of the tree: the range gets a new slot.
#[derive(Clone, Copy)]
struct Store {
    first: u64,
    last: u64,
    what: u64,
}

impl Store {
    /// The last key whose leaf is written. A gap must not end a leaf, so the slot behind it is in
    /// the same leaf.
    fn reach(self) -> u64 {
        if self.what == NONE { self.last.saturating_add(1) } else { self.last }
    }
}

/// A slot of a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Spot {
    leaf: u64,
    keys: Keys,
    slot: usize,
}

/// Adds a slot; gaps that touch are one.
fn push(slots: &mut Slots, slot: Slot) {
    match slots.last_mut() {
        Some(before) if slot.what == NONE && before.what == NONE => before.last = slot.last,
        _ => slots.push(slot),
    }
}

/// Where to split slots into nodes of about equal size. Only the last node may end with a gap.
fn cuts<N: Node>(slots: &[Slot]) -> impl Iterator<Item = usize> {
    let parts = if slots.len() > N::MOST { slots.len().div_ceil(N::MOST - 1) } else { 1 };
    (1..=parts).map(move |part| {
        let at = slots.len() * part / parts;
        if part < parts && slots[at - 1].what == NONE { at - 1 } else { at }
    })
}

/// Makes nodes from slots; the first slot begins at `first`.
fn make<N: Node, T: Default + Extend<Slot>>(pool: &mut Pool<N>, slots: &[Slot], mut first: u64) -> T {
    let (mut nodes, mut from) = (T::default(), 0);
    nodes.extend(cuts::<N>(slots).map(|to| {
        let (own, last) = (&slots[from..to], slots[to - 1].last);
        let what = pool.make(own);
        let gap = longest(pool.get(what), (first, last));
        (from, first) = (to, last.wrapping_add(1));
        Slot { last, what, gap }
    }));
    nodes
}

/// The longest gap of a node with these keys.
fn longest<N: Node>(node: &N, keys: Keys) -> u64 {
    node.slots(keys).map(|slot| slot.gap).max().unwrap_or(0)
}

/// Makes nodes of the slots of two neighbours.
fn join<N: Node>(pool: &mut Pool<N>, (low, low_keys): (u64, Keys), (high, high_keys): (u64, Keys)) -> Nodes {
    let mut slots = Slots::new();
    slots.extend(pool.get(low).slots(low_keys));
    slots.extend(pool.get(high).slots(high_keys));
    pool.free(low);
    pool.free(high);
    make(pool, &slots, low_keys.0)
}

impl<B> Maple<B> {
    // --- Areas ---

    fn area(&self, what: u64) -> &Area<B> {
        self.areas[what as usize - 1].as_ref().expect("an area is there")
    }

    fn add(&mut self, area: Area<B>) -> u64 {
        match self.free.pop() {
            Some(what) => {
                self.areas[what as usize - 1] = Some(area);
                what
            }
            None => {
                self.areas.push(Some(area));
                self.areas.len() as u64
            }
        }
    }

    fn forget(&mut self, what: u64) {
        if what != NONE {
            self.areas[what as usize - 1] = None;
            self.free.push(what);
        }
    }

    // --- Find ---

    #[inline]
    fn find(&self, key: u64) -> Spot {
        let (mut node, mut keys) = (self.root, (0, u64::MAX));
        for _ in 0..self.height {
            let inner = self.inners.get(node);
            let slot = inner.find(key);
            (node, keys) = (inner.what(slot), inner.keys(slot, keys));
        }
        Spot { leaf: node, keys, slot: self.leaves.get(node).find(key) }
    }

    #[inline]
    fn entry(&self, spot: Spot) -> (Keys, u64) {
        let leaf = self.leaves.get(spot.leaf);
        (leaf.keys(spot.slot, spot.keys), leaf.what(spot.slot))
    }

    fn next(&self, spot: Spot) -> Option<Spot> {
        if spot.slot + 1 < self.leaves.get(spot.leaf).len() {
            return Some(Spot { slot: spot.slot + 1, ..spot });
        }
        Some(self.find(spot.keys.1.checked_add(1)?))
    }

    fn prev(&self, spot: Spot) -> Option<Spot> {
        if spot.slot > 0 {
            return Some(Spot { slot: spot.slot - 1, ..spot });
        }
        Some(self.find(spot.keys.0.checked_sub(1)?))
    }

    /// The entry that holds `addr`, or the first one above it.
    #[inline]
    fn from(&self, addr: u64) -> Option<Spot> {
        let spot = self.find(addr);
        if self.entry(spot).1 == NONE { self.next(spot) } else { Some(spot) }
    }

    /// The entry that holds `addr`, or the last one below it.
    fn until(&self, addr: u64) -> Option<Spot> {
        let spot = self.find(addr);
        if self.entry(spot).1 == NONE { self.prev(spot) } else { Some(spot) }
    }

    fn shown(&self, spot: Spot) -> IndexEntry<'_, B> {
        let ((first, last), what) = self.entry(spot);
        (Span::new(first, last), self.area(what))
    }

    // --- Store ---

    fn store(&mut self, first: u64, last: u64, what: u64) {
        self.store_once(first, last, what);
        // A store across nodes may leave a node with too few slots and without a neighbour to join.
        // Repeating the store joins it.
        while self.thin(first) {
            self.store_once(first, last, what);
        }
    }

    /// Whether a node on the path to a key has too few slots.
    fn thin(&self, key: u64) -> bool {
        let mut node = self.root;
        (0..self.height).rev().any(|level| {
            let inner = self.inners.get(node);
            node = inner.what(inner.find(key));
            self.count(level, node) < self.least(level)
        })
    }

    fn store_once(&mut self, first: u64, last: u64, what: u64) {
        let nodes = self.store_below(self.height, (self.root, (0, u64::MAX)), None, Store { first, last, what });
        if let [root] = nodes[..] {
            self.root = root.what;
        } else {
            self.root = self.inners.make(&nodes);
            self.height += 1;
        }
        while self.height > 0 && self.inners.get(self.root).len() == 1 {
            let root = self.root;
            self.root = self.inners.get(root).what(0);
            self.inners.free(root);
            self.height -= 1;
        }
    }

    /// Stores below `low`, or from `low` to `high`, which are of one level: `low` has the first key
    /// of the store, `high` the last one. Returns the replacements.
    fn store_below(&mut self, level: usize, low: (u64, Keys), high: Option<(u64, Keys)>, store: Store) -> Nodes {
        if level == 0 {
            return self.store_leaf(low, high, store);
        }
        let (left, right) = (self.inners.get(low.0).clone(), high.map(|high| self.inners.get(high.0).clone()));
        let (right, right_keys) = (right.as_ref().unwrap_or(&left), high.map_or(low.1, |high| high.1));
        let (mut from, mut to) = (left.find(store.first), right.find(store.reach()));
        let child = |node: &Inner, slot: usize, keys: Keys| (node.what(slot), node.keys(slot, keys));
        let (first, last) = (child(&left, from, low.1), child(right, to, right_keys));
        let alone = high.is_none() && from == to;
        let mut middle = self.store_below(level - 1, first, (!alone).then_some(last), store);
        let thin = middle.len() == 1 && self.count(level - 1, middle[0].what) < self.least(level - 1);
        if alone && !(thin && left.len() > 1) && middle.len() == 1 {
            let node = self.inners.get_mut(low.0);
            node.set_child(from, middle[0].what, middle[0].gap);
            let gap = longest(node, low.1);
            return Nodes::from_iter([Slot { last: low.1.1, what: low.0, gap }]);
        }
        if !alone {
            // The nodes in between are freed.
            let end = if high.is_some() { left.len() } else { to };
            (from + 1..end).for_each(|slot| self.free_below(level - 1, left.what(slot)));
            if high.is_some() {
                (0..to).for_each(|slot| self.free_below(level - 1, right.what(slot)));
            }
        }
        if thin {
            let own = (middle[0].what, (first.1.0, middle[0].last));
            if from > 0 {
                from -= 1;
                middle = self.join_children(level - 1, child(&left, from, low.1), own);
            } else if to + 1 < right.len() {
                to += 1;
                middle = self.join_children(level - 1, own, child(right, to, right_keys));
            }
        }
        let mut slots = Slots::new();
        slots.extend(left.slots(low.1).take(from));
        slots.extend(middle);
        slots.extend(right.slots(right_keys).skip(to + 1));
        self.inners.free(low.0);
        if let Some(high) = high {
            self.inners.free(high.0);
        }
        make(&mut self.inners, &slots, low.1.0)
    }

    fn store_leaf(&mut self, low: (u64, Keys), high: Option<(u64, Keys)>, store: Store) -> Nodes {
        let mut slots = Slots::new();
        let mut gone = Slots::new();
        let mut see = |slots: &mut Slots, slot: Slot, first: u64| {
            if slot.last < store.first {
                push(slots, slot);
            } else if first < store.first {
                push(slots, Slot { last: store.first - 1, ..slot });
            } else if slot.last <= store.last && slot.what != store.what {
                gone.push(slot);
            }
        };
        let mut first = low.1.0;
        for slot in self.leaves.get(low.0).slots(low.1) {
            see(&mut slots, slot, first);
            first = slot.last.wrapping_add(1);
        }
        push(&mut slots, Slot { last: store.last, what: store.what, gap: 0 });
        let (right, right_keys) = high.unwrap_or(low);
        for slot in self.leaves.get(right).slots(right_keys) {
            if slot.last > store.last {
                push(&mut slots, slot);
            } else if high.is_some() && slot.what != store.what {
                gone.push(slot);
            }
        }
        gone.iter().for_each(|slot| self.forget(slot.what));
        self.leaves.free(low.0);
        if let Some(high) = high {
            self.leaves.free(high.0);
        }
        make(&mut self.leaves, &slots, low.1.0)
    }

    fn join_children(&mut self, level: usize, low: (u64, Keys), high: (u64, Keys)) -> Nodes {
        if level == 0 { join(&mut self.leaves, low, high) } else { join(&mut self.inners, low, high) }
    }

    fn count(&self, level: usize, node: u64) -> usize {
        if level == 0 { self.leaves.get(node).len() } else { self.inners.get(node).len() }
    }

    fn least(&self, level: usize) -> usize {
        if level == 0 { Leaf::LEAST } else { Inner::LEAST }
    }

    /// Frees a node, all nodes below it, and their areas.
    fn free_below(&mut self, level: usize, node: u64) {
        if level == 0 {
            (0..self.count(0, node)).for_each(|slot| self.forget(self.leaves.get(node).what(slot)));
            self.leaves.free(node);
        } else {
            (0..self.count(level, node)).for_each(|slot| self.free_below(level - 1, self.inners.get(node).what(slot)));
            self.inners.free(node);
        }
    }

    // --- Gap ---

    fn gap_below(&self, level: usize, node: u64, keys: Keys, query: &GapQuery) -> Option<Span> {
        if level == 0 {
            let leaf = self.leaves.get(node);
            return self.gap_in(leaf, keys, query, |_, (first, last)| query.fit(Span::new(first, last)));
        }
        self.gap_in(self.inners.get(node), keys, query, |child, keys| self.gap_below(level - 1, child, keys, query))
    }

    /// The first answer of `of` for a slot with a gap that is long enough, in the query's order.
    fn gap_in<N: Node>(
        &self,
        node: &N,
        keys: Keys,
        query: &GapQuery,
        of: impl Fn(u64, Keys) -> Option<Span>,
    ) -> Option<Span> {
        let window = query.window();
        let of = |slot: usize| {
            let (first, last) = node.keys(slot, keys);
            let fits = first <= window.last && window.first <= last && node.gap(slot, first, last) >= query.len();
            if fits { of(node.what(slot), (first, last)) } else { None }
        };
        match query.end() {
            End::Lowest => (0..node.len()).find_map(of),
            End::Highest => (0..node.len()).rev().find_map(of),
        }
    }

    // --- Check ---

    /// Checks the whole tree.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let (gap, areas) = self.check_below(self.height, self.root, (0, u64::MAX));
        assert!(self.height == 0 || self.inners.get(self.root).len() > 1);
        assert_eq!(areas, self.areas.len() - self.free.len(), "an area for each entry");
        assert!(areas > 0 || gap == u64::MAX);
    }

    #[cfg(test)]
    fn check_below(&self, level: usize, node: u64, keys: Keys) -> (u64, usize) {
        let root = node == self.root && keys == (0, u64::MAX);
        let len = self.count(level, node);
        assert!(root || len >= self.least(level), "a node of level {level} has {len} slots");
        if level == 0 {
            let slots: Vec<Slot> = self.leaves.get(node).slots(keys).collect();
            assert!(slots.is_sorted_by(|a, b| a.last < b.last) && slots[len - 1].last == keys.1, "MAPLE-NODE-1");
            assert!(slots.windows(2).all(|pair| pair[0].what != NONE || pair[1].what != NONE), "MAPLE-NODE-2");
            assert!(slots[len - 1].what != NONE || keys.1 == u64::MAX, "MAPLE-NODE-2");
            let areas = slots.iter().filter(|slot| slot.what != NONE).map(|slot| self.area(slot.what));
            return (longest(self.leaves.get(node), keys), areas.count());
        }
        let (inner, mut most, mut areas) = (self.inners.get(node), 0, 0);
        for slot in 0..len {
            let own = inner.keys(slot, keys);
            assert!(own.0 <= own.1, "MAPLE-NODE-1");
            let (gap, below) = self.check_below(level - 1, inner.what(slot), own);
            assert_eq!(inner.gap(slot, own.0, own.1), gap, "MAPLE-NODE-3");
            (most, areas) = (most.max(gap), areas + below);
        }
        (most, areas)
    }
}

/// Iterates over entries from `low` to `high`, both included.
pub struct Entries<'a, B> {
    tree: &'a Maple<B>,
    ends: Option<(Spot, Spot)>,
}

impl<B> Clone for Entries<'_, B> {
    fn clone(&self) -> Self {
        Entries { ..*self }
    }
}

impl<'a, B> Iterator for Entries<'a, B> {
    type Item = IndexEntry<'a, B>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (low, high) = self.ends?;
        let next = || {
            let next = self.tree.next(low)?;
            Some((if self.tree.entry(next).1 == NONE { self.tree.next(next)? } else { next }, high))
        };
        self.ends = if low == high { None } else { next() };
        Some(self.tree.shown(low))
    }
}

impl<'a, B> DoubleEndedIterator for Entries<'a, B> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (low, high) = self.ends?;
        let prev = || {
            let prev = self.tree.prev(high)?;
            Some((low, if self.tree.entry(prev).1 == NONE { self.tree.prev(prev)? } else { prev }))
        };
        self.ends = if low == high { None } else { prev() };
        Some(self.tree.shown(high))
    }
}

impl<B: Clone> AreaIndex<B> for Maple<B> {
    type Iter<'a>
        = Entries<'a, B>
    where
        B: 'a;
    type Ascend<'a>
        = Entries<'a, B>
    where
        B: 'a;

    fn len(&self) -> usize {
        self.areas.len() - self.free.len()
    }

    fn get(&self, addr: u64) -> Option<IndexEntry<'_, B>> {
        let ((first, last), what) = self.entry(self.find(addr));
        (what != NONE).then(|| (Span::new(first, last), self.area(what)))
    }

    fn at_or_after(&self, addr: u64) -> Option<IndexEntry<'_, B>> {
        self.from(addr).map(|spot| self.shown(spot))
    }

    fn range(&self, span: Span) -> Entries<'_, B> {
        let low = self.from(span.first).filter(|low| self.entry(*low).0.0 <= span.last);
        Entries { tree: self, ends: low.and_then(|low| Some((low, self.until(span.last)?))) }
    }

    fn range_from(&self, addr: u64) -> Entries<'_, B> {
        // The end is searched for only if all entries are wanted.
        let high = Spot { leaf: u64::MAX, keys: (0, 0), slot: 0 };
        Entries { tree: self, ends: self.from(addr).map(|low| (low, high)) }
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        self.gap_below(self.height, self.root, (0, u64::MAX), query)
    }

    fn replace(&mut self, span: Span, area: Area<B>) -> Result<(), AllocError> {
        let ((first, last), what) = self.entry(self.find(span.first));
        if what != NONE && (first, last) == (span.first, span.last) {
            // The slot is replaced in place.
            self.areas[what as usize - 1] = Some(area);
            return Ok(());
        }
        if what != NONE && first < span.first && span.last < last {
            self.split_at(span.last + 1)?;
        }
        let what = self.add(area);
        self.store(span.first, span.last, what);
        Ok(())
    }

    fn clear_range(&mut self, span: Span) -> Result<(), AllocError> {
        let Some(spot) = self.from(span.first) else { return Ok(()) };
        let (first, last) = self.entry(spot).0;
        if first > span.last {
            return Ok(());
        }
        if first < span.first && span.last < last {
            self.split_at(span.last + 1)?;
        }
        self.store(span.first, span.last, NONE);
        Ok(())
    }

    fn split_at(&mut self, at: u64) -> Result<bool, AllocError> {
        let ((first, last), what) = self.entry(self.find(at));
        if what == NONE || first == at {
            return Ok(false);
        }
        let upper = self.add(self.area(what).clone());
        self.store(at, last, upper);
        Ok(true)
    }

    fn get_mut(&mut self, addr: u64) -> Option<(Span, &mut Area<B>)> {
        let ((first, last), what) = self.entry(self.find(addr));
        if what == NONE {
            return None;
        }
        self.areas[what as usize - 1].as_mut().map(|area| (Span::new(first, last), area))
    }

    fn for_each_mut(&mut self, change: impl FnMut(&mut Area<B>)) {
        self.areas.iter_mut().flatten().for_each(change);
    }

    fn revise(
        &mut self,
        addr: u64,
        mut decide: impl FnMut(IndexEntry<'_, B>, Option<IndexEntry<'_, B>>) -> Revision,
    ) -> Result<(), AllocError> {
        let mut from = self.range_from(addr);
        let Some(spot) = from.ends.map(|(low, _)| low) else { return Ok(()) };
        let Some(entry) = from.next() else { return Ok(()) };
        let decided = decide(entry, from.next());
        let ((first, last), what) = self.entry(spot);
        match decided {
            Revision::Keep => {}
            Revision::Remove => self.store(first, last, NONE),
            Revision::Punch(hole) => self.clear_range(hole)?,
            Revision::Resize(to) => {
                if first < to.first {
                    self.store(first, to.first - 1, NONE);
                }
                if to.last < last {
                    self.store(to.last + 1, last, NONE);
                }
                if to.first < first || last < to.last {
                    self.store(to.first, to.last, what);
                }
            }
        }
        Ok(())
    }

    fn reserve(&mut self, _span: Span, stores: usize) -> Result<(), AllocError> {
        self.areas.try_reserve(stores.saturating_sub(self.free.len())).map_err(|_| AllocError)?;
        self.free.try_reserve(self.areas.capacity()).map_err(|_| AllocError)?;
        // The worst case: three nodes at each level, and a new root.
        self.leaves.prepare(3 * stores)?;
        self.inners.prepare((3 * self.height + 1) * stores)
    }

    fn release(&mut self) {
        self.leaves.give_back();
        self.inners.give_back();
    }

    fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(self.clone())
    }

    /// Builds the tree level by level, with full nodes; so a fork does not store areas one by one.
    fn from_sorted(entries: impl Iterator<Item = (Span, Area<B>)>) -> Result<Self, AllocError> {
        let mut tree = Self::default();
        let (mut slots, mut first) = (Vec::new(), 0);
        for (span, area) in entries {
            if first < span.first {
                slots.push(Slot { last: span.first - 1, what: NONE, gap: 0 });
            }
            slots.push(Slot { last: span.last, what: tree.add(area), gap: 0 });
            first = span.last.wrapping_add(1);
        }
        if first > 0 || slots.is_empty() {
            slots.push(Slot { last: u64::MAX, what: NONE, gap: 0 });
        }
        tree.leaves.free(tree.root);
        let mut nodes: Vec<Slot> = make(&mut tree.leaves, &slots, 0);
        while nodes.len() > 1 {
            nodes = make(&mut tree.inners, &nodes, 0);
            tree.height += 1;
        }
        tree.root = nodes[0].what;
        Ok(tree)
    }
}

#[cfg(test)]
#[path = "maple_tests.rs"]
mod tests;
