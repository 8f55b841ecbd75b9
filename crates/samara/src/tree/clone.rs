//! Structural copy of a tree, node by node, in O(n).
//!
//! Knows nothing of sharing: the copy shares no node (`cow` has snapshots).

use crate::node::Raw;
use crate::node::bulk::Bulk;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Shape;
use crate::tree::Tree;
use crate::tree::free::Subtree;
use crate::tree::walk::AHEAD;
use crate::types::error::AllocError;
use crate::types::key::Key;
use core::mem::{self, needs_drop};
use core::ptr;

impl<K: Key, V: Clone, S: Shape> Tree<K, V, S> {
    pub(crate) fn try_clone(&self) -> Result<Self, AllocError> {
        let mut copy = Tree::new();
        if let Some(root) = self.root {
            if self.levels > 0 {
                copy.memo.make()?;
            }
            let mut nodes = Nodes::<K, V, S> { leaves: Bulk::new(), inners: Bulk::new() };
            // SAFETY: TREE-4: the root is a live node at level `height`.
            copy.root = Some(unsafe { copy_node(&mut nodes, root, self.height(), None)? });
            (copy.levels, copy.len) = (self.levels, self.len);
            copy.thinned = self.thinned;
        }
        Ok(copy)
    }
}

/// Where the nodes of a copy come from.
struct Nodes<K: Key, V, S: Shape> {
    leaves: Bulk<Leaf<K, V, S>>,
    inners: Bulk<Inner<K, S>>,
}

/// Copies the subtree at `at` into new nodes. If it fails, or a value's clone panics, what
/// was copied is dropped. `next` is the node to be copied after this one; its first leaves are
/// prefetched.
///
/// # Safety
/// `at` and `next` are live nodes at `level` of a tree.
unsafe fn copy_node<K: Key, V: Clone, S: Shape>(
    nodes: &mut Nodes<K, V, S>,
    at: Raw,
    level: usize,
    next: Option<Raw>,
) -> Result<Raw, AllocError> {
    // SAFETY: TREE-4, LEAF-3, INNER-3: the items of `from` are initialised and live, and the copy's
    // length counts the items copied so far, so its guard drops exactly these.
    unsafe {
        if level == 0 {
            let to = nodes.leaves.make()?;
            clone_leaf(to, Leaf::from_raw(at), V::clone);
            return Ok(to.raw());
        }
        let (from, to) = (Inner::<K, S>::from_raw(at), nodes.inners.make()?);
        to.init_as(from);
        let partial = Subtree::<K, V, S>::new(to.raw(), level);
        let next = next.map(Inner::<K, S>::from_raw);
        if let Some(next) = next {
            next.prefetch();
        }
        for i in 0..from.len() {
            if level == 1 {
                let beyond = || next.and_then(|next| next.get(i + AHEAD - from.len()));
                if let Some(leaf) = from.get(i + AHEAD).or_else(beyond) {
                    Leaf::<K, V, S>::from_raw(leaf).prefetch();
                }
            }
            let after = from.get(i + 1).or_else(|| next?.get(0));
            ptr::write(to.items().add(i), copy_node(nodes, from.child(i), level - 1, after)?);
            to.set_len(i + 1);
        }
        mem::forget(partial);
        Ok(to.raw())
    }
}

/// Makes `to` a copy of the leaf `from`, whose values `clone` copies. If `clone` panics, `to` is
/// freed.
///
/// # Safety
/// `from` is a live leaf that does not change; `to` is memory for a leaf, live, and the caller's
/// alone.
#[inline]
pub(crate) unsafe fn clone_leaf<K: Key, V, S: Shape>(to: Leaf<K, V, S>, from: Leaf<K, V, S>, clone: impl Fn(&V) -> V) {
    // SAFETY: LEAF-2, LEAF-3: `from` is initialised up to its length. The copy's length counts the
    // values cloned so far, if values have to be dropped, so the guard drops exactly these.
    unsafe {
        to.init_as(from);
        let partial = Subtree::<K, V, S>::new(to.raw(), 0);
        let (values, copies, len) = (from.items(), to.items(), from.len());
        for i in 0..len {
            copies.add(i).write(clone(&*values.add(i)));
            if needs_drop::<V>() {
                to.set_len(i + 1);
            }
        }
        to.set_len(len);
        mem::forget(partial);
    }
}
