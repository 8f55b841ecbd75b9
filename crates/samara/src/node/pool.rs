//! Node pools: free nodes of one kind for the next stores, and nodes set aside so that a commit
//! need not allocate. Knows the kinds of node and nothing of trees.
//!
//! Most maps set nothing aside, and many are small. So a pool is one word: the chain, or a box with
//! the chain, its length, and the promises made.
//!
//! Freed nodes of slabs are kept for later stores, because a slab is freed when its last node is:
//! so a pool holds back no more than one bulk build made (`bulk`). The pool of a shared map's
//! writer is different: one kept node there would hold a whole slab, so it keeps no nodes of slabs.
//!
//! - **POOL-1** A chained node is live, has its place number, and holds no item. Its link leads to
//!   the next node of the chain. Its other bytes are arbitrary.
//! - **POOL-2** A pool's word without its lowest two bits is null or the address of the chain's
//!   first node, or, if bit [`BOX`] is set, that of a [`Spare`] that the pool owns. A writer's pool
//!   without a box is empty.

use crate::node::{ALIGN, Raw, Unit, max};
use crate::types::error::AllocError;
use crate::types::try_box::try_box;
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// Set in a pool's word if it has a box.
const BOX: usize = 1;
/// Set in the word of a writer's pool. Once it has a box, such a pool keeps freed nodes with memory
/// of their own, up to [`NodePool::LIMIT`], and no nodes of slabs. Other pools keep only freed
/// nodes of slabs. While memory is reserved, every pool keeps all.
const WRITER: usize = 2;

/// Limit of the nodes of each kind that writers keep for the next stores: their number, and their
/// bytes.
const KEPT: (usize, usize) = (1024, 1 << 20);

/// A chain of free nodes, and the promises made on them.
struct Spare {
    head: Option<Raw>,
    len: usize,
    /// Whether all freed nodes are kept: set by a reservation, cleared by `release`.
    reserved: bool,
    /// Whether nodes of the chain are promised to stores: rebalancing then takes only its own
    /// (`promise`).
    promised: bool,
    /// Number of reserved or promised nodes that are for rebalancing.
    rebalancing: usize,
}

/// Free nodes of one kind.
pub(crate) struct NodePool<N: Unit> {
    /// POOL-2.
    word: *mut u8,
    kind: PhantomData<*const N>,
}

impl<N: Unit> NodePool<N> {
    /// Maximum number of nodes that a writer's pool keeps.
    pub(crate) const LIMIT: usize = {
        let fit = KEPT.1 / max(N::BYTES, 1);
        if fit < KEPT.0 { fit } else { KEPT.0 }
    };

    pub(crate) const fn new() -> Self {
        NodePool { word: ptr::null_mut(), kind: PhantomData }
    }

    /// The pool of a shared map's writer.
    pub(crate) const fn of_writer() -> Self {
        NodePool { word: ptr::without_provenance_mut(WRITER), kind: PhantomData }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn is_writers(&self) -> bool {
        self.word.addr() & WRITER != 0
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn has_box(&self) -> bool {
        self.word.addr() & BOX != 0
    }

    /// What the word points to.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn target(&self) -> *mut u8 {
        const { assert!(align_of::<Spare>() > BOX | WRITER && ALIGN > BOX | WRITER) };
        self.word.map_addr(|word| word & !(BOX | WRITER))
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn spare(&self) -> Option<&Spare> {
        // SAFETY: POOL-2: the pool owns this box.
        self.has_box().then(|| unsafe { &*self.target().cast() })
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn spare_mut(&mut self) -> Option<&mut Spare> {
        // SAFETY: POOL-2: the pool owns this box.
        self.has_box().then(|| unsafe { &mut *self.target().cast() })
    }

    /// Makes the word point to `target`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn point_to(&mut self, target: *mut u8, of_box: usize) {
        let writer = self.word.addr() & WRITER;
        self.word = target.map_addr(|at| at | writer | of_box);
    }

    /// The first node of the chain.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn head(&self) -> Option<Raw> {
        match self.spare() {
            Some(spare) => spare.head,
            None => Raw::new(self.target()),
        }
    }

    /// Length of the chain; without a box, counts the nodes, up to `n`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn len_up_to(&self, n: usize) -> usize {
        if let Some(spare) = self.spare() {
            return spare.len;
        }
        let (mut len, mut at) = (0, self.head());
        while let Some(node) = at.filter(|_| len < n) {
            // SAFETY: POOL-1: a chained node is live and its link is set.
            at = unsafe { N::from_raw(node).link().read_unaligned() };
            len += 1;
        }
        len
    }

    /// Whether there is a reservation.
    pub(crate) fn is_reserved(&self) -> bool {
        self.spare().is_some_and(|spare| spare.reserved)
    }

    /// Whether there could be memory for this many nodes.
    pub(crate) fn could_hold(n: usize) -> bool {
        n.checked_mul(N::BYTES).is_some_and(|bytes| bytes <= isize::MAX as usize)
    }

    /// Makes the box, if it does not exist. O(length of the chain).
    pub(crate) fn expand(&mut self) -> Result<(), AllocError> {
        if self.has_box() {
            return Ok(());
        }
        let (head, len) = (self.head(), self.len_up_to(usize::MAX));
        let spare = try_box(Spare { head, len, reserved: false, promised: false, rebalancing: 0 })?;
        self.point_to(Box::into_raw(spare).cast(), BOX);
        Ok(())
    }

    /// Frees the box, if nothing is reserved or promised. The chain stays. A writer keeps its box.
    pub(crate) fn fold(&mut self) {
        if let Some(spare) = self.spare()
            && !(spare.reserved || spare.promised || self.is_writers())
        {
            let head = spare.head;
            self.free_box(head);
        }
    }

    /// Frees the box, which exists. The chain begins with `head`.
    fn free_box(&mut self, head: Option<Raw>) {
        // SAFETY: POOL-2: the pool owns this box, and its word forgets it.
        drop(unsafe { Box::<Spare>::from_raw(self.target().cast()) });
        self.point_to(head.map_or(ptr::null_mut(), Raw::as_ptr), 0);
    }

    /// Grows the chain to at least `n` nodes. Returns how many were added; adds none on failure.
    #[inline]
    pub(crate) fn ensure(&mut self, n: usize) -> Result<usize, AllocError> {
        self.ensure_by(n, N::alloc)
    }

    /// [`NodePool::ensure`] with nodes that `make` makes: live, with their numbers, and without
    /// items.
    #[inline]
    pub(crate) fn ensure_by(
        &mut self,
        n: usize,
        make: impl FnMut() -> Result<N, AllocError>,
    ) -> Result<usize, AllocError> {
        match n.saturating_sub(self.len_up_to(n)) {
            0 => Ok(0),
            lacking => self.grow(n, lacking, make).map(|()| lacking),
        }
    }

    /// Adds `lacking` nodes to a chain that is to have `n`. On failure it is as long as before.
    fn grow(
        &mut self,
        n: usize,
        lacking: usize,
        mut make: impl FnMut() -> Result<N, AllocError>,
    ) -> Result<(), AllocError> {
        // Refuses an impossible size before it allocates anything.
        if !Self::could_hold(n) {
            return Err(AllocError);
        }
        if self.is_writers() {
            self.expand()?;
        }
        for added in 0..lacking {
            // SAFETY: POOL-1: the node is fresh, so it is live, has its number, and holds no item.
            let put = make().map(|node| unsafe { self.put(node) });
            put.inspect_err(|_| self.free_first(added))?;
        }
        Ok(())
    }

    /// Frees the first `n` nodes of the chain.
    pub(crate) fn free_first(&mut self, n: usize) {
        for _ in 0..n {
            let Some(node) = self.pop() else { return };
            // SAFETY: POOL-1: the node is live, and it is off the chain, so it is the caller's
            // alone.
            unsafe { node.free() };
        }
    }

    /// Live memory for a node, with its place number; the caller makes it a node. Reserved nodes
    /// are not taken.
    pub(crate) fn fresh(&mut self) -> Result<N, AllocError> {
        if !self.is_reserved()
            && let Some(node) = self.pop()
        {
            return Ok(node);
        }
        if self.is_writers() {
            self.expand()?; // `give` may keep it later
        }
        N::alloc()
    }

    /// [`NodePool::fresh`], where `for_rebalancing` tells whether the node is for rebalancing.
    /// Under a reservation, or where nodes are promised, rebalancing takes only the nodes that are
    /// for it: it neither allocates nor takes nodes that stores need.
    pub(crate) fn fresh_for(&mut self, for_rebalancing: bool) -> Result<N, AllocError> {
        match self.spare_mut() {
            Some(spare) if for_rebalancing && (spare.reserved || spare.promised) => {
                spare.rebalancing = spare.rebalancing.checked_sub(1).ok_or(AllocError)?;
                self.pop().ok_or(AllocError)
            }
            _ => self.fresh(),
        }
    }

    /// Swaps the nodes and settings of this pool with those of a pool for another kind of node.
    ///
    /// # Safety
    /// Nodes of both kinds have the same size and alignment, and the same addresses for number and
    /// link.
    pub(crate) unsafe fn swap<M: Unit>(&mut self, other: &mut NodePool<M>) {
        debug_assert!(N::BYTES == M::BYTES && N::ALIGN == M::ALIGN);
        mem::swap(&mut self.word, &mut other.word);
    }

    /// Keeps all freed nodes from now on. Of the nodes in the chain, at least `rebalancing` are for
    /// rebalancing. The pool has been expanded.
    pub(crate) fn keep(&mut self, rebalancing: usize) {
        debug_assert!(self.has_box(), "a reservation expands its pools first");
        if let Some(spare) = self.spare_mut() {
            spare.reserved = true;
            spare.rebalancing = spare.rebalancing.max(rebalancing);
        }
    }

    /// Promises the nodes of the chain to stores, which take them with [`NodePool::fresh`] and
    /// [`NodePool::take`]. Rebalancing gets `rebalancing` of them, and no more. The pool has been
    /// expanded.
    pub(crate) fn promise(&mut self, rebalancing: usize) {
        debug_assert!(self.has_box(), "a promise expands its pools first");
        if let Some(spare) = self.spare_mut() {
            (spare.promised, spare.rebalancing) = (true, rebalancing);
        }
    }

    /// Takes a freed node: keeps it or frees its memory.
    ///
    /// # Safety
    /// The node is live, holds no item, and belongs to the caller alone.
    pub(crate) unsafe fn give(&mut self, node: N) {
        // SAFETY: POOL-1: the node is live, holds no item and is the caller's alone, so it may be
        // chained or freed.
        unsafe {
            let in_slab = node.number().read() != 0;
            let kept = match self.spare() {
                Some(spare) if spare.reserved => true,
                Some(spare) if self.is_writers() => !in_slab && spare.len < Self::LIMIT,
                _ => in_slab && !self.is_writers(),
            };
            if kept { self.put(node) } else { node.free() }
        }
    }

    /// # Safety
    /// As for [`NodePool::give`]; a writer's pool has a box.
    unsafe fn put(&mut self, node: N) {
        // SAFETY: POOL-1: the node is live and its content unused, so the link may overwrite it.
        unsafe {
            node.wipe();
            node.link().write_unaligned(self.head());
        }
        match self.spare_mut() {
            Some(spare) => (spare.head, spare.len) = (Some(node.raw()), spare.len + 1),
            None => self.point_to(node.raw().as_ptr(), 0),
        }
    }

    /// Takes the first node off the chain without initialising it.
    fn pop(&mut self) -> Option<N> {
        let node = N::from_raw(self.head()?);
        // SAFETY: POOL-1: a chained node is live and its link is set.
        let next = unsafe { node.link().read_unaligned() };
        match self.spare_mut() {
            Some(spare) => (spare.head, spare.len) = (next, spare.len - 1),
            None => self.point_to(next.map_or(ptr::null_mut(), Raw::as_ptr), 0),
        }
        Some(node)
    }

    /// Takes a node off the chain and makes it an empty one.
    ///
    /// # Panics
    /// If the chain is empty: the plan of a store reserved too few nodes, and continuing would
    /// corrupt the tree.
    pub(crate) fn take(&mut self) -> N {
        let node = self.pop().expect("a store was planned with too few nodes");
        // SAFETY: POOL-1: a chained node is live, has its number, and holds no item.
        unsafe { node.init() };
        node
    }

    /// Frees the nodes of a writer's pool beyond those that it keeps without a reservation.
    pub(crate) fn trim(&mut self) {
        debug_assert!(self.is_writers(), "other pools keep what they are given");
        self.free_first(self.len_up_to(0).saturating_sub(Self::LIMIT));
    }

    /// Frees all chained nodes, unless they are reserved.
    pub(crate) fn forget(&mut self) {
        if !self.is_reserved() {
            self.free_first(usize::MAX);
        }
    }

    /// Frees all chained nodes and ends the reservation.
    pub(crate) fn release(&mut self) {
        self.free_first(usize::MAX);
        if self.has_box() {
            self.free_box(None);
        }
    }
}

impl<N: Unit> Drop for NodePool<N> {
    fn drop(&mut self) {
        self.release();
    }
}
