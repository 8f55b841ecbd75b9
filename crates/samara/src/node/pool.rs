//! Node pools: where new nodes come from, and nodes set aside so that a commit need not allocate.
//! Knows the kinds of node and nothing of trees.
//!
//! Most nodes have memory of their own. Copies and bulk builds make many nodes at once and take
//! slabs: each slab is an eighth of what has been made so far, up to [`MOST`] bytes. A slab is
//! freed when its last node is, so nodes of slabs that become free are kept for later stores. This
//! holds back no more than was made at once. A shared map's pool is different: one kept node there
//! would hold a whole slab, so it keeps no nodes of slabs.
//!
//! - **POOL-1** A chained node is live, has its number, and holds no item; its link leads to the
//!   next one, its other bytes are anything.
//! - **POOL-2** The last `left` places of `slab` have not been given out.

use crate::node::slab::Slab;
use crate::node::{LINE, Raw, Unit};
use crate::types::error::AllocError;
use core::marker::PhantomData;
use core::mem;

/// Places of a slab at least.
const LEAST: usize = 4;

/// Bytes of a slab at most.
const MOST: usize = 1 << 16;

/// A chain of nodes of one kind, and a slab for more.
pub(crate) struct Spare<N: Unit> {
    head: Option<Raw>,
    len: usize,
    slab: Option<Slab>,
    left: usize,
    /// While many are made at once: how many have been.
    bulk: Option<usize>,
    /// Whether nodes that fall free are kept: from a reservation on, until `release`.
    keeps: bool,
    /// Up to so many nodes are kept in any case.
    pool: u32,
    /// How many of the reserved nodes are for mending.
    mending: usize,
    kind: PhantomData<*const N>,
}

impl<N: Unit> Spare<N> {
    pub(crate) const fn new() -> Self {
        Spare {
            head: None,
            len: 0,
            slab: None,
            left: 0,
            bulk: None,
            keeps: false,
            pool: 0,
            mending: 0,
            kind: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is a reservation.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Sees to it that `n` nodes are there; where that fails, there are as many as before.
    pub(crate) fn ensure(&mut self, n: usize) -> Result<(), AllocError> {
        // More than there can ever be is refused before anything is taken.
        if n.checked_mul(N::BYTES).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(AllocError);
        }
        let had = self.len;
        while self.len < n {
            match self.make() {
                // SAFETY: a fresh node, which has its number.
                Ok(node) => unsafe { self.put(node) },
                Err(error) => {
                    self.shrink(had);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Memory for a node, live and with its number, for the caller to make one of. What is reserved
    /// stays.
    pub(crate) fn fresh(&mut self) -> Result<N, AllocError> {
        if !self.keeps
            && let Some(node) = self.pop()
        {
            return Ok(node);
        }
        self.make()
    }

    /// [`Spare::fresh`], for mending or not. Mending under a reservation takes what was reserved
    /// for it, and no more, so that it neither allocates nor takes what stores need.
    pub(crate) fn fresh_for(&mut self, mends: bool) -> Result<N, AllocError> {
        if !(mends && self.keeps) {
            return self.fresh();
        }
        self.mending = self.mending.checked_sub(1).ok_or(AllocError)?;
        self.pop().ok_or(AllocError)
    }

    /// From now on many nodes are made, until [`Spare::end_bulk`].
    pub(crate) fn begin_bulk(&mut self) {
        self.bulk = Some(0);
    }

    /// No more are made at once.
    pub(crate) fn end_bulk(&mut self) {
        self.leave_slab();
        self.bulk = None;
    }

    fn make(&mut self) -> Result<N, AllocError> {
        let Some(made) = self.bulk else { return N::alloc() };
        self.bulk = Some(made + 1);
        if self.left == 0 {
            let places = (made / 8).max(LEAST).min(MOST / N::BYTES.max(1));
            if made < LEAST || places < LEAST || N::ALIGN > LINE {
                return N::alloc();
            }
            let slab = Slab::new(N::BYTES, places)?;
            (self.slab, self.left) = (Some(slab), places);
        }
        let Some(slab) = self.slab else { return Err(AllocError) };
        // SAFETY: POOL-2: the place is there, nobody else's, and as large as a node.
        let node = unsafe {
            let number = slab.count() - self.left + 1;
            let node = N::from_raw(slab.place(number));
            node.number().write(number as u16); // at most MOST / LINE
            node
        };
        self.left -= 1;
        Ok(node)
    }

    /// Gives up the places of the slab that have not been given out.
    fn leave_slab(&mut self) {
        if let Some(slab) = self.slab.take().filter(|_| self.left > 0) {
            // SAFETY: POOL-2.
            unsafe { slab.give_up(self.left) };
        }
        self.left = 0;
    }

    /// Exchanges what is set aside with what is set aside for another kind.
    ///
    /// # Safety
    /// Nodes of both kinds have the same size and alignment, and their numbers and links stand in
    /// the same places.
    pub(crate) unsafe fn swap<M: Unit>(&mut self, other: &mut Spare<M>) {
        debug_assert!(N::BYTES == M::BYTES && N::ALIGN == M::ALIGN);
        mem::swap(&mut self.head, &mut other.head);
        mem::swap(&mut self.len, &mut other.len);
        mem::swap(&mut self.slab, &mut other.slab);
        mem::swap(&mut self.left, &mut other.left);
        mem::swap(&mut self.bulk, &mut other.bulk);
        mem::swap(&mut self.keeps, &mut other.keeps);
        mem::swap(&mut self.pool, &mut other.pool);
        mem::swap(&mut self.mending, &mut other.mending);
    }

    /// From now on up to `nodes` nodes that fall free are kept, for what is made next.
    pub(crate) fn pool(&mut self, nodes: u32) {
        self.pool = nodes;
    }

    /// From now on nodes that fall free are kept. `mending` of those that are there are for
    /// mending.
    pub(crate) fn keep(&mut self, mending: usize) {
        self.keeps = true;
        self.mending = self.mending.max(mending);
    }

    /// Takes over a node that has fallen free: keeps it, or frees it.
    ///
    /// # Safety
    /// The node is live, holds no item, and is nobody else's.
    pub(crate) unsafe fn give(&mut self, node: N) {
        // SAFETY: the caller's promise.
        unsafe {
            let in_slab = node.number().read() != 0;
            let kept = if self.pool > 0 { !in_slab && self.len < self.pool as usize } else { in_slab };
            if self.keeps || kept { self.put(node) } else { node.free() }
        }
    }

    /// # Safety
    /// As for [`Spare::give`].
    unsafe fn put(&mut self, node: N) {
        // SAFETY: POOL-1.
        unsafe {
            node.wipe();
            node.link().write_unaligned(self.head);
        }
        self.head = Some(node.raw());
        self.len += 1;
    }

    /// The first node of the chain, as it was put there.
    fn pop(&mut self) -> Option<N> {
        let node = N::from_raw(self.head?);
        // SAFETY: POOL-1.
        self.head = unsafe { node.link().read_unaligned() };
        self.len -= 1;
        Some(node)
    }

    /// An empty node from the chain.
    ///
    /// # Panics
    /// If there is none: the plan of a store asked for too few, and going on would corrupt the
    /// tree.
    pub(crate) fn take(&mut self) -> N {
        let node = self.pop().expect("a store was planned with too few nodes");
        // SAFETY: POOL-1.
        unsafe { node.init() };
        node
    }

    /// Gives back what is there beyond `n`.
    pub(crate) fn shrink(&mut self, n: usize) {
        while self.len > n {
            let Some(node) = self.pop() else { return };
            // SAFETY: POOL-1: live, and nobody else has it.
            unsafe { node.free() };
        }
    }

    /// Gives back what is there beyond what is kept in any case.
    pub(crate) fn trim(&mut self) {
        self.shrink(self.pool as usize);
    }

    /// Gives all of them back but where they are reserved.
    pub(crate) fn forget(&mut self) {
        if !self.keeps {
            self.shrink(0);
        }
    }

    /// Gives all of them back, and keeps no more.
    pub(crate) fn release(&mut self) {
        self.shrink(0);
        self.keeps = false;
        self.mending = 0;
    }
}

impl<N: Unit> Drop for Spare<N> {
    fn drop(&mut self) {
        self.shrink(0);
        self.leave_slab();
    }
}
