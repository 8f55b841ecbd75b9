//! Frees nodes that nobody can reach any more and drops each of their values once.
//!
//! A value whose drop panics does not keep the others from being dropped; a second panic aborts, as
//! everywhere in Rust.

use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::pool::Spare;
use crate::node::search::prefetch_write;
use crate::node::shape::Shape;
use crate::node::{Raw, Unit};
use crate::tree::Tree;
use crate::tree::cow::{let_go, refs};
use crate::tree::walk::AHEAD;
use crate::types::key::Key;
use core::marker::PhantomData;
use core::mem;
use core::ptr;

/// A leaf whose values are to be dropped; its memory goes to `spare`, if there is one.
struct Dying<V, K: Key, S: Shape>(Leaf<V, K, S>, *mut Spare<Leaf<V, K, S>>);

impl<V, K: Key, S: Shape> Drop for Dying<V, K, S> {
    fn drop(&mut self) {
        /// Frees the leaf, also where a value's drop panics.
        struct Free<V, K: Key, S: Shape>(Leaf<V, K, S>, *mut Spare<Leaf<V, K, S>>);
        impl<V, K: Key, S: Shape> Drop for Free<V, K, S> {
            fn drop(&mut self) {
                // SAFETY: the leaf is live and ours, and its values are gone. Nobody else has the spare nodes at
                // this moment.
                unsafe {
                    match self.1.as_mut() {
                        Some(spare) => spare.give(self.0),
                        None => self.0.free(),
                    }
                }
            }
        }
        // SAFETY: the leaf is live and ours; LEAF-3: its first `len` values are initialised.
        unsafe {
            let len = self.0.len();
            let values = ptr::slice_from_raw_parts_mut(self.0.items(), len);
            let _free = Free(self.0, self.1);
            ptr::drop_in_place(values);
        }
    }
}

/// Drops the values of `leaf`; its memory goes to `spare`.
///
/// # Safety
/// The leaf is live and nobody else's.
pub(crate) unsafe fn leaf<V, K: Key, S: Shape>(leaf: Leaf<V, K, S>, spare: &mut Spare<Leaf<V, K, S>>) {
    drop(Dying(leaf, spare));
}

/// Puts `leaf`, which has been taken out of its tree, in front of a chain.
///
/// # Safety
/// The leaf is live and nobody else's. Its keys are lost.
pub(crate) unsafe fn chain<V, K: Key, S: Shape>(head: &mut Option<Raw>, leaf: Leaf<V, K, S>) {
    // SAFETY: the link goes over the first keys, behind the header, which is needed to the end.
    unsafe { leaf.link().write_unaligned(*head) };
    *head = Some(leaf.raw());
}

/// Leaves linked by [`chain`], dropped with their values; their memory goes to `spare`.
pub(crate) struct Chain<'a, V, K: Key, S: Shape> {
    head: Option<Raw>,
    spare: *mut Spare<Leaf<V, K, S>>,
    borrow: PhantomData<&'a mut Spare<Leaf<V, K, S>>>,
}

impl<'a, V, K: Key, S: Shape> Chain<'a, V, K, S> {
    pub(crate) fn new(head: Option<Raw>, spare: &'a mut Spare<Leaf<V, K, S>>) -> Self {
        Chain { head, spare, borrow: PhantomData }
    }
}

impl<V, K: Key, S: Shape> Drop for Chain<'_, V, K, S> {
    fn drop(&mut self) {
        while let Some(head) = self.head {
            // SAFETY: linked by `chain`; out of the chain before its values are dropped.
            unsafe {
                self.head = Leaf::<V, K, S>::from_raw(head).link().read_unaligned();
                let rest = Self { head: self.head.take(), spare: self.spare, borrow: PhantomData };
                drop(Dying::<V, K, S>(Leaf::from_raw(head), self.spare));
                self.head = rest.head;
                mem::forget(rest);
            }
        }
    }
}

/// A subtree to be given up: what nobody else owns is freed.
pub(crate) struct Subtree<V, K: Key, S: Shape> {
    at: Raw,
    level: usize,
    /// The children before this one are gone.
    slot: usize,
    kind: PhantomData<(V, K, S)>,
}

impl<V, K: Key, S: Shape> Subtree<V, K, S> {
    /// The subtree below the live node `at`, which is the caller's to give away.
    pub(crate) fn new(at: Raw, level: usize) -> Self {
        Subtree { at, level, slot: 0, kind: PhantomData }
    }
}

impl<V, K: Key, S: Shape> Drop for Subtree<V, K, S> {
    fn drop(&mut self) {
        // SAFETY: the caller of `new` has given up the node, of which it was an owner.
        if self.slot == 0 && !let_go(unsafe { refs::<V, K, S>(self.at, self.level) }) {
            return;
        }
        // SAFETY: TREE-4: live nodes, inner above level 0; every child is counted off before it is dropped.
        // While a child's drop unwinds, `rest` goes on with its siblings and then frees the node.
        unsafe {
            if self.level == 0 {
                drop(Dying::<V, K, S>(Leaf::from_raw(self.at), ptr::null_mut()));
                return;
            }
            let node = Inner::<K, S>::from_raw(self.at);
            while self.slot < node.len() {
                let child = node.child(self.slot);
                if let Some(ahead) = node.get(self.slot + AHEAD) {
                    prefetch_write(ptr::from_ref(refs::<V, K, S>(ahead, self.level - 1)).cast());
                }
                self.slot += 1;
                let rest = Self { at: self.at, level: self.level, slot: self.slot, kind: PhantomData };
                drop(Self::new(child, self.level - 1));
                mem::forget(rest);
            }
            node.free();
        }
    }
}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Drops every entry. What is reserved stays.
    pub(crate) fn clear(&mut self) {
        let (root, level) = (self.root.take(), mem::take(&mut self.height));
        self.len = 0;
        self.hole.forget();
        if let Some(at) = root {
            drop(Subtree::<V, K, S>::new(at, level));
        }
        self.leaves.forget();
        self.inners.forget();
    }
}

impl<V, K: Key, S: Shape> Drop for Tree<V, K, S> {
    fn drop(&mut self) {
        self.clear();
    }
}
