//! The working state of one writer: the tree in which its stores work, and its limbo.
//!
//! Does not know what a store does, nor when readers are gone (`limbo`).

use crate::fault::{Point, point};
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::NodePool;
use crate::node::shape::Shape;
use crate::reclaim::Reclaim;
use crate::shared::deferred_drop::Freed;
use crate::shared::limbo::Limbo;
use crate::shared::writer_gate::Look;
use crate::sync::{AtomicUsize, Ordering};
use crate::tree::Tree;
use crate::types::key::Key;

/// The working state of one writer.
pub(crate) struct Workspace<K: Key, V, S: Shape, R: Reclaim> {
    /// The part of the tree that the store under way works in. Between stores it keeps nodes for
    /// the next ones.
    pub(crate) part: Tree<K, V, S>,
    pub(crate) limbo: Limbo<K, R>,
}

impl<K: Key, V, S: Shape, R: Reclaim> Workspace<K, V, S, R> {
    pub(crate) const fn new() -> Self {
        let part = Tree::with_pools(NodePool::of_writer(), NodePool::of_writer());
        Workspace { part, limbo: Limbo::new(Leaf::<K, V, S>::BYTES, Inner::<K, S>::BYTES) }
    }

    /// Frees everything that was taken out.
    ///
    /// # Safety
    /// There is no reader.
    pub(crate) unsafe fn end(&mut self) {
        let Workspace { part, limbo } = self;
        // SAFETY: `Limbo::clear` asks for what the caller promises: there is no reader.
        unsafe { limbo.clear::<V, S>(&mut part.leaves, &mut part.inners) };
    }

    /// Frees what no reader can see any more, if enough has been taken out since the last time, or
    /// `now`. Nodes whose values have a drop go to `freed`. Stores in `pending` how many bytes
    /// still wait.
    ///
    /// `have_left` as for [`Limbo::collect`].
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn collect(
        &mut self,
        pending: &AtomicUsize,
        reclaim: &R,
        now: bool,
        have_left: impl FnMut(&mut Look) -> bool,
        freed: &mut Freed<'_, K, V, S>,
    ) {
        let Workspace { part, limbo } = self;
        point(Point::Collecting);
        limbo.collect::<V, S>(reclaim, now, have_left, &mut part.leaves, &mut part.inners, freed);
        pending.store(limbo.log.bytes, Ordering::Relaxed);
    }

    /// [`collect`](Self::collect) now, without shrinking the log: a reservation counts on its room.
    pub(crate) fn gather(
        &mut self,
        pending: &AtomicUsize,
        reclaim: &R,
        have_left: impl FnMut(&mut Look) -> bool,
        freed: &mut Freed<'_, K, V, S>,
    ) {
        let Workspace { part, limbo } = self;
        limbo.gather::<V, S>(reclaim, have_left, &mut part.leaves, &mut part.inners, freed);
        pending.store(limbo.log.bytes, Ordering::Relaxed);
    }

    /// Gives back what is kept for the next stores.
    pub(crate) fn release(&mut self) {
        self.part.release();
        self.limbo.tidy(0);
    }
}

impl<K: Key, V, S: Shape, R: Reclaim> Drop for Workspace<K, V, S, R> {
    fn drop(&mut self) {
        // SAFETY: a map drops its workspaces only when it is not borrowed, so there is no reader.
        unsafe { self.end() };
    }
}
