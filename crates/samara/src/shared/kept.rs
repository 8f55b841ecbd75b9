//! Kept copies of stages: a writer puts such a copy in place later, if nothing was stored there
//! meanwhile.
//!
//! Knows how to check that nothing was; `stage` makes the copies, and knows what fits.

use crate::map::RangeMap;
use crate::node::Raw;
use crate::node::shape::{Normal, Shape};
use crate::reclaim::Reclaim;
use crate::shared::leaf_store::lock;
use crate::shared::root::Published;
use crate::shared::stage::{Stage, next};
use crate::shared::workspace::Workspace;
use crate::shared::writer_reservation::WriterReservation;
use crate::sync::{AtomicUsize, Ordering};
use crate::tree::free::Subtree;
use crate::tree::{Path, Tree};
use crate::types::key::Key;
use core::fmt;
use core::marker::PhantomData;

/// A share in the leaf that a [kept](Stage::keep) copy was made of, as a snapshot has one: so no
/// other node gets the leaf's address.
pub struct Kept<'m, K: Key, V, S: Shape = Normal> {
    pub(super) old: Raw,
    pub(super) _share: Subtree<K, V, S>,
    /// The last key of `old`, the first one of its region, and that of the next entry if it is in
    /// a leaf of the same parent.
    pub(super) key: K,
    pub(super) base: K,
    pub(super) next: Option<K>,
    /// Keeps the map from becoming a plain one meanwhile, which would not know of the share.
    pub(super) map: PhantomData<&'m ()>,
}

impl<K: Key, V, S: Shape> Kept<'_, K, V, S> {
    /// Whether the copy has another last key than the kept leaf: as [`Stage::moves_end`].
    #[must_use]
    pub fn moves_end(&self, copy: &RangeMap<K, V, S>) -> bool {
        copy.last().is_none_or(|(span, _)| span.last != self.key)
    }
}

impl<K: Key, V: Clone, R: Reclaim, S: Shape> WriterReservation<'_, '_, K, V, R, S> {
    /// Replaces the leaf that a [kept](Stage::keep) copy was made of by the copy, as one store, and
    /// calls `then` before others may store there again. Returns `false`, and leaves map and copy
    /// as they were, if something was stored there meanwhile, the copy does not [fit](Stage::fits),
    /// the handle or a snapshot is in the way, or the reservation is used up.
    ///
    /// Neither allocates nor fails otherwise. O(log n).
    #[inline]
    pub fn put_back(&mut self, kept: &Kept<'_, K, V, S>, copy: &mut RangeMap<K, V, S>, then: impl FnOnce()) -> bool {
        // Counted first: `then` may panic.
        let Some(writer) = self.take_store() else { return false };
        let (map, record) = (writer.map, writer.record);
        let Some(inside) = writer.go_inside() else {
            self.give_store_back();
            return false;
        };
        // SAFETY: as in `SharedWriter::stage`.
        let done = unsafe {
            let (tree, workspace) = (&(*map.writer.get()).map.tree, &mut *record.work.get());
            let done = put_back(tree, &map.published, workspace, &record.len, kept, copy, then);
            record.pending.store(workspace.limbo.log.bytes, Ordering::Relaxed);
            done
        };
        drop(inside);
        if !done {
            self.give_store_back();
        }
        done
    }
}

/// # Safety
/// As for `leaf_store::store`. The log has room for two notes.
#[inline]
unsafe fn put_back<K: Key, V: Clone, S: Shape, R: Reclaim>(
    tree: &Tree<K, V, S>,
    shared: &Published,
    workspace: &mut Workspace<K, V, S, R>,
    len: &AtomicUsize,
    kept: &Kept<'_, K, V, S>,
    copy: &mut RangeMap<K, V, S>,
    then: impl FnOnce(),
) -> bool {
    let height = tree.height();
    if height == 0 {
        return false;
    }
    let mut path = Path::new();
    // SAFETY: as in `stage`. A leaf that the map shows does not change (PUBLISH-1), so the kept
    // leaf has the entries that the copy was made of. A leaf at its address is that leaf, because
    // `Kept` owns it too.
    unsafe {
        let Some((locks, old, _)) = lock(tree, shared, kept.key, &mut path) else { return false };
        let next = next::<K, V, S>(locks.path).map(|next| next.first(0));
        if old.raw() != kept.old || tree.region_start(locks.path, 0) != kept.base || next != kept.next {
            return false;
        }
        let stage = Stage {
            holder: copy,
            workspace,
            len,
            old,
            base: kept.base,
            window: 0..0,
            height,
            keeps: true,
            map: PhantomData,
            locks,
        };
        stage.commit(then)
    }
}

impl<K: Key, V, S: Shape> fmt::Debug for Kept<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}
