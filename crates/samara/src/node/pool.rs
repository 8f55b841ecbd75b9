//! Node pools: where new nodes come from, and nodes set aside so that a commit need not allocate.
//! Knows the kinds of node and nothing of trees.
//!
//! Most nodes have memory of their own. Copies and bulk builds make many nodes at once and take
//! slabs: each slab is an eighth of what has been made so far, up to [`MAX_SLAB_BYTES`] bytes. A
//! slab is freed when its last node is, so freed nodes of slabs are kept for later stores. This
//! holds back no more than was made at once. A shared map's pool is different: one kept node there
//! would hold a whole slab, so it keeps no nodes of slabs.
//!
//! - **POOL-1** A chained node is live, has its place number, and holds no item. Its link leads to
//!   the next node of the chain. Its other bytes are arbitrary.
//! - **POOL-2** The last `left` places of `slab` have not been handed out.

use crate::node::slab::Slab;
use crate::node::{LINE, Raw, Unit};
use crate::types::error::AllocError;
use core::marker::PhantomData;
use core::mem;

/// Minimum number of places of a slab.
const MIN_PLACES: usize = 4;

/// Maximum size of a slab in bytes.
const MAX_SLAB_BYTES: usize = 1 << 16;

/// A chain of free nodes of one kind, and a slab for more.
pub(crate) struct NodePool<N: Unit> {
    head: Option<Raw>,
    len: usize,
    slab: Option<Slab>,
    left: usize,
    /// Number of nodes made since `begin_bulk`; `None` outside of a bulk build.
    bulk: Option<usize>,
    /// Whether all freed nodes are kept: set by a reservation, cleared by `release`.
    reserved: bool,
    /// If not 0, up to this many freed nodes with memory of their own are kept, and none of slabs.
    /// If 0, freed nodes of slabs are kept, and no others.
    limit: u32,
    /// Whether nodes of the chain are promised to stores, so that rebalancing takes only those that
    /// are for it (`promise`).
    promised: bool,
    /// Number of reserved or promised nodes that are for rebalancing.
    rebalancing: usize,
    kind: PhantomData<*const N>,
}

impl<N: Unit> NodePool<N> {
    pub(crate) const fn new() -> Self {
        NodePool {
            head: None,
            len: 0,
            slab: None,
            left: 0,
            bulk: None,
            reserved: false,
            limit: 0,
            promised: false,
            rebalancing: 0,
            kind: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of freed nodes that are kept for reuse without a reservation.
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Whether there is a reservation.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Grows the chain to at least `n` nodes. On failure the chain is as long as before.
    pub(crate) fn ensure(&mut self, n: usize) -> Result<(), AllocError> {
        // Refuses an impossible size before it allocates anything.
        if n.checked_mul(N::BYTES).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(AllocError);
        }
        let had = self.len;
        while self.len < n {
            match self.make() {
                // SAFETY: POOL-1: the node is fresh, so it is live, has its number, and holds no
                // item.
                Ok(node) => unsafe { self.put(node) },
                Err(error) => {
                    self.shrink(had);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Live memory for a node, with its place number; the caller makes it a node. Reserved nodes
    /// are not taken.
    pub(crate) fn fresh(&mut self) -> Result<N, AllocError> {
        if !self.reserved
            && let Some(node) = self.pop()
        {
            return Ok(node);
        }
        self.make()
    }

    /// [`NodePool::fresh`], where `for_rebalancing` tells whether the node is for rebalancing.
    /// Under a reservation, or where nodes are promised, rebalancing takes only the nodes that are
    /// for it: it neither allocates nor takes nodes that stores need.
    pub(crate) fn fresh_for(&mut self, for_rebalancing: bool) -> Result<N, AllocError> {
        if !(for_rebalancing && (self.reserved || self.promised)) {
            return self.fresh();
        }
        self.rebalancing = self.rebalancing.checked_sub(1).ok_or(AllocError)?;
        self.pop().ok_or(AllocError)
    }

    /// Begins a bulk build: nodes come from slabs until [`NodePool::end_bulk`].
    pub(crate) fn begin_bulk(&mut self) {
        self.bulk = Some(0);
    }

    /// Ends a bulk build.
    pub(crate) fn end_bulk(&mut self) {
        self.leave_slab();
        self.bulk = None;
    }

    fn make(&mut self) -> Result<N, AllocError> {
        let Some(made) = self.bulk else { return N::alloc() };
        self.bulk = Some(made + 1);
        if self.left == 0 {
            let places = (made / 8).max(MIN_PLACES).min(MAX_SLAB_BYTES / N::BYTES.max(1));
            if made < MIN_PLACES || places < MIN_PLACES || N::ALIGN > LINE {
                return N::alloc();
            }
            let slab = Slab::new(N::BYTES, places)?;
            (self.slab, self.left) = (Some(slab), places);
        }
        let Some(slab) = self.slab else { return Err(AllocError) };
        // SAFETY: POOL-2: the place has not been handed out, so it is nobody else's; it is as large
        // as a node.
        let node = unsafe {
            let number = slab.count() - self.left + 1;
            let node = N::from_raw(slab.place(number));
            node.number().write(number as u16); // at most MAX_SLAB_BYTES / LINE
            node
        };
        self.left -= 1;
        Ok(node)
    }

    /// Gives up the places of the slab that have not been handed out.
    fn leave_slab(&mut self) {
        if let Some(slab) = self.slab.take().filter(|_| self.left > 0) {
            // SAFETY: POOL-2: these places are this pool's alone, and it forgets the slab.
            unsafe { slab.give_up(self.left) };
        }
        self.left = 0;
    }

    /// Swaps the nodes and settings of this pool with those of a pool for another kind of node.
    ///
    /// # Safety
    /// Nodes of both kinds have the same size and alignment, and the same addresses for number and
    /// link.
    pub(crate) unsafe fn swap<M: Unit>(&mut self, other: &mut NodePool<M>) {
        debug_assert!(N::BYTES == M::BYTES && N::ALIGN == M::ALIGN);
        mem::swap(&mut self.head, &mut other.head);
        mem::swap(&mut self.len, &mut other.len);
        mem::swap(&mut self.slab, &mut other.slab);
        mem::swap(&mut self.left, &mut other.left);
        mem::swap(&mut self.bulk, &mut other.bulk);
        mem::swap(&mut self.reserved, &mut other.reserved);
        mem::swap(&mut self.limit, &mut other.limit);
        mem::swap(&mut self.promised, &mut other.promised);
        mem::swap(&mut self.rebalancing, &mut other.rebalancing);
    }

    /// Sets how many freed nodes are kept for reuse without a reservation.
    pub(crate) const fn set_limit(&mut self, nodes: u32) {
        self.limit = nodes;
    }

    /// Keeps all freed nodes from now on. Of the nodes in the chain, at least `rebalancing` are for
    /// rebalancing.
    pub(crate) fn keep(&mut self, rebalancing: usize) {
        self.reserved = true;
        self.rebalancing = self.rebalancing.max(rebalancing);
    }

    /// Promises the nodes of the chain to stores, which take them with [`NodePool::fresh`] and
    /// [`NodePool::take`]. Rebalancing gets `rebalancing` of them, and no more.
    pub(crate) fn promise(&mut self, rebalancing: usize) {
        self.promised = true;
        self.rebalancing = rebalancing;
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
            let kept = if self.limit > 0 { !in_slab && self.len < self.limit as usize } else { in_slab };
            if self.reserved || kept { self.put(node) } else { node.free() }
        }
    }

    /// # Safety
    /// As for [`NodePool::give`].
    unsafe fn put(&mut self, node: N) {
        // SAFETY: POOL-1: the node is live and its content unused, so the link may overwrite it.
        unsafe {
            node.wipe();
            node.link().write_unaligned(self.head);
        }
        self.head = Some(node.raw());
        self.len += 1;
    }

    /// Takes the first node off the chain without initialising it.
    fn pop(&mut self) -> Option<N> {
        let node = N::from_raw(self.head?);
        // SAFETY: POOL-1: a chained node is live and its link is set.
        self.head = unsafe { node.link().read_unaligned() };
        self.len -= 1;
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

    /// Frees chained nodes beyond the first `n`.
    pub(crate) fn shrink(&mut self, n: usize) {
        while self.len > n {
            let Some(node) = self.pop() else { return };
            // SAFETY: POOL-1: the node is live, and it is off the chain, so nobody else has it.
            unsafe { node.free() };
        }
    }

    /// Frees chained nodes beyond those that are kept without a reservation.
    pub(crate) fn trim(&mut self) {
        self.shrink(self.limit as usize);
    }

    /// Frees all chained nodes, unless they are reserved.
    pub(crate) fn forget(&mut self) {
        if !self.reserved {
            self.shrink(0);
        }
    }

    /// Frees all chained nodes and ends the reservation.
    pub(crate) fn release(&mut self) {
        self.shrink(0);
        (self.reserved, self.promised, self.rebalancing) = (false, false, 0);
    }
}

impl<N: Unit> Drop for NodePool<N> {
    fn drop(&mut self) {
        self.shrink(0);
        self.leave_slab();
    }
}
