//! Limbo: where nodes taken out of a shared map wait until no reader can see them. Knows batches
//! and stamps; `reclaim` knows what a stamp is.
//!
//! - **LIMBO-1** The first `stamped` nodes of the log are the nodes of the batches, in the order of
//!   the batches. The others were taken out since the last stamp.
//! - **LIMBO-2** A concurrent store that takes out an inner node (LEAF-STORE-4) sets `met`: writers
//!   may have come to the node, and they have no guard. The batch of that node waits until a look
//!   for these writers, begun after the batch, has ended (GATE-5). A look covers all batches that
//!   exist when it begins.
//!
//! A node leaves limbo when the stamp of its batch has passed, and the look for writers is over. A
//! node that was moved ([`Fate::Moved`]) owns nothing: only its memory is left. For a node that was
//! given up ([`Fate::GivenUp`]) the owner count is lowered by the map's share. If that was the last
//! owner, its values are dropped, and the nodes below it are given up in turn. The mark stays
//! (COW-5). Nodes whose values have a drop are handed to `deferred_drop`.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::shape::Shape;
use crate::reclaim::Reclaim;
use crate::shared::deferred_drop::Freed;
use crate::shared::writer_gate::Look;
use crate::tree::free::{self, Subtree};
use crate::tree::log::{Fate, Log, Retired};
use crate::tree::owners::remove_owner;
use crate::types::key::Key;
use alloc::collections::VecDeque;
use core::mem::{self, needs_drop};

pub(crate) struct Limbo<K, R: Reclaim> {
    pub(crate) log: Log<K>,
    /// Oldest first.
    batches: VecDeque<Batch<R::Stamp>>,
    stamped: usize,
    /// Whether writers may have come to a node that was taken out since the last stamp.
    pub(crate) met: bool,
    /// The look for writers that is under way, and the number of batches that it covers.
    look: Option<(Look, usize)>,
}

/// Nodes that were taken out before a stamp.
struct Batch<T> {
    stamp: T,
    nodes: usize,
    /// Whether writers may have come to one of the nodes, and may still be there.
    met: bool,
}

impl<K: Key, R: Reclaim> Limbo<K, R> {
    /// A limbo for nodes of these sizes in bytes: leaf, inner node.
    pub(crate) const fn new(leaf: usize, inner: usize) -> Self {
        let log = Log {
            base: K::MIN,
            whole: false,
            retired: VecDeque::new(),
            outstanding: 0,
            bytes: 0,
            sizes: (leaf, inner),
        };
        Limbo { log, batches: VecDeque::new(), stamped: 0, met: false, look: None }
    }

    /// Whether at least [`Reclaim::batch`] nodes have been taken out since the last stamp.
    #[inline]
    pub(crate) fn is_due(&self, reclaim: &R) -> bool {
        self.log.retired.len() - self.stamped >= reclaim.batch()
    }

    /// Frees what no reader sees any more, or hands it over to `freed`. Does nothing unless `now`
    /// or [`is_due`](Self::is_due). `have_left` continues a look for writers.
    #[inline]
    pub(crate) fn collect<V, S: Shape>(
        &mut self,
        reclaim: &R,
        now: bool,
        have_left: impl FnMut(&mut Look) -> bool,
        leaves: &mut NodePool<Leaf<K, V, S>>,
        inners: &mut NodePool<Inner<K, S>>,
        freed: &mut Freed<'_, K, V, S>,
    ) {
        if now || self.is_due(reclaim) {
            self.gather(reclaim, have_left, leaves, inners, freed);
            self.tidy(NOTES);
        }
    }

    /// [`collect`](Self::collect) now, without shrinking the log: a reservation counts on its room.
    #[inline]
    pub(crate) fn gather<V, S: Shape>(
        &mut self,
        reclaim: &R,
        have_left: impl FnMut(&mut Look) -> bool,
        leaves: &mut NodePool<Leaf<K, V, S>>,
        inners: &mut NodePool<Inner<K, S>>,
        freed: &mut Freed<'_, K, V, S>,
    ) {
        freed.returned().take(leaves);
        self.stamp(reclaim);
        self.free(reclaim, have_left, leaves, inners, freed);
    }

    /// Shrinks the log and the batches if their capacity exceeds both `least` and four times their
    /// length.
    #[cold]
    pub(crate) fn tidy(&mut self, least: usize) {
        shrink(&mut self.log.retired, least);
        shrink(&mut self.batches, least);
    }

    #[cold]
    fn stamp(&mut self, reclaim: &R) {
        let open = self.log.retired.len() - self.stamped;
        // Without memory for the batch, the next call tries again.
        if open > 0 && self.batches.try_reserve(1).is_ok() {
            let met = mem::take(&mut self.met);
            self.batches.push_back(Batch { stamp: reclaim.stamp(), nodes: open, met });
            self.stamped += open;
        }
    }

    #[cold]
    fn free<V, S: Shape>(
        &mut self,
        reclaim: &R,
        mut have_left: impl FnMut(&mut Look) -> bool,
        leaves: &mut NodePool<Leaf<K, V, S>>,
        inners: &mut NodePool<Inner<K, S>>,
        freed: &mut Freed<'_, K, V, S>,
    ) {
        while let Some(batch) = self.batches.front() {
            if !reclaim.has_passed(&batch.stamp) || (batch.met && !self.look(&mut have_left)) {
                return;
            }
            let Some(Batch { nodes, .. }) = self.batches.front_mut() else { return };
            while *nodes > 0 {
                // Without memory for the note, the next call tries again.
                if needs_drop::<V>() && freed.reserve().is_err() {
                    return;
                }
                *nodes -= 1;
                self.stamped -= 1;
                if let Some(node) = self.log.pop() {
                    // SAFETY: LIMBO-1, LIMBO-2: the node was taken out before the stamp, which has
                    // passed, and the writers that may have come to it have left.
                    unsafe {
                        if Freed::<'_, K, V, S>::takes(node.fate) {
                            freed.take(node);
                        } else {
                            free(node, leaves, inners);
                        }
                    }
                }
            }
            self.batches.pop_front();
        }
    }

    /// Continues the look for writers, or begins one for all batches that exist. Returns whether it
    /// is over. No batch leaves before that: the first one waits for it.
    fn look(&mut self, have_left: &mut impl FnMut(&mut Look) -> bool) -> bool {
        let (look, batches) = self.look.get_or_insert((Look::new(), self.batches.len()));
        if !have_left(look) {
            return false;
        }
        self.batches.iter_mut().take(*batches).for_each(|batch| batch.met = false);
        self.look = None;
        true
    }

    /// Frees everything.
    ///
    /// # Safety
    /// There is no reader.
    pub(crate) unsafe fn clear<V, S: Shape>(
        &mut self,
        leaves: &mut NodePool<Leaf<K, V, S>>,
        inners: &mut NodePool<Inner<K, S>>,
    ) {
        self.batches.clear();
        (self.stamped, self.look) = (0, None);
        drop(Rest { log: &mut self.log, leaves, inners });
    }
}

/// Number of log entries whose memory is kept in any case.
pub(crate) const NOTES: usize = 4096;

/// Shrinks `items` if its capacity exceeds both `least` and four times its length. Does nothing if
/// there is no memory to move the items to.
fn shrink<T>(items: &mut VecDeque<T>, least: usize) {
    if items.capacity() > least.max(4 * items.len()) {
        let mut fewer = VecDeque::new();
        if fewer.try_reserve_exact(items.len()).is_ok() {
            fewer.append(items);
            *items = fewer;
        }
    }
}

/// Everything left in limbo, freed when this is dropped. No reader exists.
struct Rest<'a, K: Key, V, S: Shape> {
    log: &'a mut Log<K>,
    leaves: &'a mut NodePool<Leaf<K, V, S>>,
    inners: &'a mut NodePool<Inner<K, S>>,
}

impl<K: Key, V, S: Shape> Drop for Rest<'_, K, V, S> {
    fn drop(&mut self) {
        while let Some(node) = self.log.pop() {
            // If a value's drop unwinds, dropping `rest` frees the remaining nodes.
            let rest = Rest { log: self.log, leaves: self.leaves, inners: self.inners };
            // SAFETY: the caller of `Limbo::clear` promises that there is no reader.
            unsafe { free(node, rest.leaves, rest.inners) };
            mem::forget(rest);
        }
    }
}

/// Frees a node that was taken out.
///
/// # Safety
/// No reader sees the node any more.
unsafe fn free<K: Key, V, S: Shape>(
    node: Retired,
    leaves: &mut NodePool<Leaf<K, V, S>>,
    inners: &mut NodePool<Inner<K, S>>,
) {
    let Retired { at, level, fate } = node;
    let level = usize::from(level);
    // SAFETY: no reader sees the node, as the caller promises. COW-4: the map is an owner of a node
    // that was given up, which is marked; a node that has moved owns nothing.
    unsafe {
        match fate {
            Fate::Moved => inners.give(Inner::from_raw(at)),
            Fate::GivenUp if level > 0 => drop(Subtree::<K, V, S>::new(at, level)),
            Fate::GivenUp => {
                let leaf = Leaf::from_raw(at);
                if remove_owner(leaf.refs()) {
                    free::leaf(leaf, leaves);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "limbo_tests.rs"]
mod tests;
