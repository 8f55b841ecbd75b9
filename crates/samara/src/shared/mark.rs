//! The mark of nodes that readers can reach (COW-4): sets it on a subtree, and takes it off.
//!
//! Does not know when a subtree becomes visible (`publish`).

use crate::node::PUBLISHED;
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::search::prefetch_write;
use crate::node::shape::Shape;
use crate::sync::Ordering;
use crate::tree::cow::refs;
use crate::tree::owners::has_others;
use crate::types::key::Key;
use core::ptr;

/// Marks `at` and every node below it that is not marked. `alone`: no other map owns an unmarked
/// node. Otherwise snapshots may own them, and may be adding owners at the same time. Returns
/// whether none of the nodes that it marked is empty (PUBLISH-6).
///
/// # Safety
/// A live node at `level`. If `alone`, then no other map owns the unmarked nodes.
#[must_use]
pub(crate) unsafe fn mark<K: Key, V, S: Shape>(at: Raw, level: usize, alone: bool) -> bool {
    // SAFETY: the caller promises a live node at `level`; the children of a live node are live.
    unsafe {
        let count = refs::<K, V, S>(at, level);
        // COW-5: below a marked node all nodes are marked. Acquire: pairs with the Release below,
        // by which another map has marked the node after its children.
        if count.load(Ordering::Acquire) & PUBLISHED != 0 {
            return true;
        }
        let sound = if level == 0 {
            Leaf::<K, V, S>::from_raw(at).len() > 0
        } else {
            let node = Inner::<K, S>::from_raw(at);
            for i in 0..node.len() {
                prefetch_write(ptr::from_ref(refs::<K, V, S>(node.child(i), level - 1)).cast());
            }
            let mut sound = node.len() > 0;
            for i in 0..node.len() {
                sound &= mark::<K, V, S>(node.child(i), level - 1, alone);
            }
            sound
        };
        if alone {
            // Relaxed: others get the mark with the pointer to the node, which is stored with
            // Release.
            count.store(PUBLISHED, Ordering::Relaxed);
        } else {
            count.fetch_or(PUBLISHED, Ordering::Release); // with the load above
        }
        sound
    }
}

/// Takes the marks off `at` and the nodes below it, but not off nodes that another map owns: it may
/// show them to its readers (COW-5).
///
/// # Safety
/// A live node at `level` of a tree whose readers are gone.
pub(crate) unsafe fn unmark<K: Key, V, S: Shape>(at: Raw, level: usize) {
    // SAFETY: the caller promises a live node at `level`; the children of a live node are live.
    unsafe {
        let count = refs::<K, V, S>(at, level);
        // From the root downwards: PUBLISH-4.
        if has_others(count) {
            return;
        }
        count.fetch_and(!PUBLISHED, Ordering::Relaxed); // no other thread reads the count
        if level > 0 {
            let node = Inner::<K, S>::from_raw(at);
            for i in 0..node.len() {
                unmark::<K, V, S>(node.child(i), level - 1);
            }
        }
    }
}
