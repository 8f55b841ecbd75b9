//! Nodes of the maple tree, in Linux's published geometry: 256 bytes, sixteen ranges in a leaf, ten
//! children in an inner node. Knows memory and slots; knows no store.
//!
//! - **MAPLE-NODE-1** Slot `i` of a node is for the keys from behind pivot `i - 1` (from the node's
//!   own first key) to pivot `i`; the last slot has no pivot, and ends where the node does.
//! - **MAPLE-NODE-2** A slot of a leaf has the number of an area, or [`NONE`] for a gap; gaps never
//!   touch, and only the last leaf ends with one.
//! - **MAPLE-NODE-3** A slot above has the number of a node, and the length of the longest gap
//!   below it.

use samara_mm::AllocError;

/// Ranges of a leaf.
pub(super) const LEAF: usize = 16;
/// Children of an inner node.
pub(super) const INNER: usize = 10;
/// The slot of a gap.
pub(super) const NONE: u64 = 0;

/// A leaf.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Leaf {
    pivots: [u64; LEAF - 1],
    slots: [u64; LEAF],
    len: u64,
}

/// A node above leaves.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Inner {
    pivots: [u64; INNER - 1],
    slots: [u64; INNER],
    gaps: [u64; INNER],
    len: u64,
}

const _: () = assert!(size_of::<Leaf>() == 256 && size_of::<Inner>() == 256);

/// A slot: the last key of its range, its content, and the longest gap in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) last: u64,
    pub(super) what: u64,
    pub(super) gap: u64,
}

/// A node of either kind.
pub(super) trait Node: Clone {
    /// The most slots that it has.
    const MOST: usize;
    /// The fewest, but for the root.
    const LEAST: usize;

    fn empty() -> Self;
    fn len(&self) -> usize;
    fn pivots(&self) -> &[u64];
    fn what(&self, slot: usize) -> u64;
    /// The longest gap of a slot, whose keys are these.
    fn gap(&self, slot: usize, first: u64, last: u64) -> u64;
    fn set(&mut self, slots: &[Slot]);

    /// The slot for a key.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let pivots = self.pivots();
        let mut slot = 0;
        while slot < pivots.len() && pivots[slot] < key {
            slot += 1;
        }
        slot
    }

    /// The keys of a slot, of a node with these keys.
    #[inline]
    fn keys(&self, slot: usize, (first, last): (u64, u64)) -> (u64, u64) {
        let pivots = self.pivots();
        (if slot == 0 { first } else { pivots[slot - 1] + 1 }, pivots.get(slot).copied().unwrap_or(last))
    }

    /// All slots of a node with these keys.
    fn slots(&self, keys: (u64, u64)) -> impl Iterator<Item = Slot> {
        (0..self.len()).map(move |slot| {
            let (first, last) = self.keys(slot, keys);
            Slot { last, what: self.what(slot), gap: self.gap(slot, first, last) }
        })
    }
}

impl Node for Leaf {
    const MOST: usize = LEAF;
    const LEAST: usize = LEAF / 2 - 2;

    fn empty() -> Self {
        Leaf { pivots: [0; LEAF - 1], slots: [NONE; LEAF], len: 1 }
    }
    fn len(&self) -> usize {
        self.len as usize
    }
    fn pivots(&self) -> &[u64] {
        &self.pivots[..self.len as usize - 1]
    }
    fn what(&self, slot: usize) -> u64 {
        self.slots[slot]
    }
    fn gap(&self, slot: usize, first: u64, last: u64) -> u64 {
        if self.slots[slot] == NONE { (last - first).saturating_add(1) } else { 0 }
    }
    fn set(&mut self, slots: &[Slot]) {
        self.len = slots.len() as u64;
        for (at, slot) in slots.iter().enumerate() {
            self.slots[at] = slot.what;
            if at + 1 < slots.len() {
                self.pivots[at] = slot.last;
            }
        }
    }
}

impl Node for Inner {
    const MOST: usize = INNER;
    const LEAST: usize = INNER / 2 - 1;

    fn empty() -> Self {
        Inner { pivots: [0; INNER - 1], slots: [NONE; INNER], gaps: [0; INNER], len: 1 }
    }
    fn len(&self) -> usize {
        self.len as usize
    }
    fn pivots(&self) -> &[u64] {
        &self.pivots[..self.len as usize - 1]
    }
    fn what(&self, slot: usize) -> u64 {
        self.slots[slot]
    }
    fn gap(&self, slot: usize, _: u64, _: u64) -> u64 {
        self.gaps[slot]
    }
    fn set(&mut self, slots: &[Slot]) {
        self.len = slots.len() as u64;
        for (at, slot) in slots.iter().enumerate() {
            (self.slots[at], self.gaps[at]) = (slot.what, slot.gap);
            if at + 1 < slots.len() {
                self.pivots[at] = slot.last;
            }
        }
    }
}

impl Inner {
    /// Gives a slot another child.
    pub(super) fn set_child(&mut self, slot: usize, child: u64, gap: u64) {
        (self.slots[slot], self.gaps[slot]) = (child, gap);
    }
}

/// The memory of one kind of node, which grows and does not shrink, as a kernel's slab.
#[derive(Clone)]
pub(super) struct Pool<N> {
    nodes: Vec<N>,
    free: Vec<u64>,
    /// Nodes reserved for the next store.
    ready: Vec<u64>,
}

impl<N> Default for Pool<N> {
    fn default() -> Self {
        Pool { nodes: Vec::new(), free: Vec::new(), ready: Vec::new() }
    }
}

impl<N: Node> Pool<N> {
    #[inline]
    pub(super) fn get(&self, node: u64) -> &N {
        &self.nodes[node as usize]
    }

    pub(super) fn get_mut(&mut self, node: u64) -> &mut N {
        &mut self.nodes[node as usize]
    }

    /// A new node with these slots.
    pub(super) fn make(&mut self, slots: &[Slot]) -> u64 {
        let node = self.ready.pop().or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.nodes.push(N::empty());
            self.nodes.len() as u64 - 1
        });
        self.get_mut(node).set(slots);
        node
    }

    pub(super) fn free(&mut self, node: u64) {
        self.free.push(node);
    }

    /// Sets `more` nodes aside.
    pub(super) fn prepare(&mut self, more: usize) -> Result<(), AllocError> {
        let lacking = more.saturating_sub(self.free.len() + self.ready.len());
        self.nodes.try_reserve(lacking).map_err(|_| AllocError)?;
        self.free.try_reserve(self.nodes.capacity()).map_err(|_| AllocError)?;
        self.ready.try_reserve(more).map_err(|_| AllocError)?;
        while self.ready.len() < more {
            let node = self.free.pop().unwrap_or_else(|| {
                self.nodes.push(N::empty());
                self.nodes.len() as u64 - 1
            });
            self.ready.push(node);
        }
        Ok(())
    }

    /// Gives the reserved nodes back.
    pub(super) fn give_back(&mut self) {
        self.free.append(&mut self.ready);
    }
}
