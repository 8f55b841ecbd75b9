//! Storing: one range is replaced by one entry, or by nothing, whatever stood there.
//!
//! Plan (find what the range meets, clone the value of an entry that is cut in two), reserve (set the nodes of a split
//! aside), tell the observer, commit. Up to the commit nothing has changed, so an observer or a clone that panics, or an
//! allocation that fails, leaves the map as it was. The commit calls no user code; values that it displaced are *parked*
//! (behind the length of their leaf, where nothing counts them, or in leaves taken out of the tree) and dropped at the
//! end, when the map is whole again: a drop that panics finds, and leaves, a valid map. Only then is a thin leaf mended.
//!
//! - **R1** Parked values are initialised, counted by nobody, and dropped by one guard, once.
//! - **R2** Between the commit and the mending, leaves may be thin or empty, but nobody looks: the tree is borrowed.

use crate::displaced::Displaced;
use crate::error::StoreError;
use crate::key::Key;
use crate::mend::thin;
use crate::node::{Leaf, LeafKind, Raw};
use crate::reap;
use crate::shape::Shape;
use crate::span::Span;
use crate::tree::{Path, Tree};
use core::mem::needs_drop;
use core::ptr;
use core::slice;

/// Values that wait for their drop (R1).
struct Parked<V> {
    at: *mut V,
    n: usize,
}

impl<V> Drop for Parked<V> {
    fn drop(&mut self) {
        // SAFETY: R1. The slice's drop goes on behind a value whose drop panics.
        unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(self.at, self.n)) }
    }
}

/// Mends the leaf of `path`, if it needs it, once the values parked in it are gone.
struct Mend<'a, V, K: Key, S: Shape> {
    tree: &'a mut Tree<V, K, S>,
    path: &'a Path,
}

impl<V, K: Key, S: Shape> Drop for Mend<'_, V, K, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: R2: nothing has changed since the commit, and what was parked has been dropped: guards drop in reverse order.
        unsafe {
            let leaf = Leaf::<V, K, S>::from_raw(self.path.at(0).node);
            if thin::<K, LeafKind<V, S>>(leaf.len()) {
                self.tree.mend(self.path);
            }
        }
    }
}

/// Takes the `n` entries at `at` out of `leaf`; their values stay parked behind its length.
///
/// # Safety
/// The leaf is live, `at + n <= len`, and nothing is parked in it.
#[inline(always)]
unsafe fn park<V, K: Key, S: Shape>(leaf: Leaf<V, K, S>, at: usize, n: usize) -> Parked<V> {
    if n == 0 {
        return Parked { at: leaf.items(), n: 0 };
    }
    // SAFETY: the caller's promise. Rotated, the values taken out stand behind those that stay, where `close` leaves them
    // alone: what it copies down are the slots behind the hole, of which there are none then.
    unsafe {
        let len = leaf.len();
        if needs_drop::<V>() {
            let tail = slice::from_raw_parts_mut(leaf.value(at).cast::<core::mem::MaybeUninit<V>>(), len - at);
            tail.rotate_left(n);
            leaf.close_words(at, n);
            Parked { at: leaf.items().add(len - n), n }
        } else {
            leaf.close(at, n);
            Parked { at: leaf.items(), n: 0 }
        }
    }
}

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Replaces what stands in `span` by `value`, or by nothing.
    #[inline]
    pub(crate) fn store<O>(&mut self, span: Span<K>, value: Option<V>, mut observe: O) -> Result<(), StoreError<K>>
    where
        V: Clone,
        O: FnMut(Displaced<'_, V, K>),
    {
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        let mut path = Path::new();
        let Some((leaf, from)) = self.seek(span.first, &mut path) else {
            return self.store_first(span, value);
        };
        // SAFETY: the path is fresh. Slots below `len` are read.
        unsafe {
            let len = leaf.len();
            let mut to = from;
            while to < len && leaf.first(to) <= span.last {
                to += 1;
            }
            if from < len && to == len && span.last > leaf.key(len - 1) && self.reaches_on(&path, span.last) {
                return self.store_across(span, value, observe, &mut path);
            }
            let head = from < to && leaf.first(from) < span.first;
            let tail = from < to && leaf.key(to - 1) > span.last;
            let inside = head && tail && to - from == 1;

            // Plan.
            let upper = if inside { Some((*leaf.value(from)).clone()) } else { None };
            let at = from + usize::from(head);
            let gone = (to - usize::from(tail)).saturating_sub(at);
            let new = usize::from(value.is_some()) + usize::from(inside);
            if value.is_none() && from == to {
                return Ok(());
            }
            // Reserve.
            let split = new > gone && len + new - gone > Leaf::<V, K, S>::SLOTS;
            if split {
                self.plan_split(&path)?;
            }
            // Tell.
            for i in from..to {
                let entry = Span::new(leaf.first(i), leaf.key(i));
                let lost = Span::new(entry.first.max(span.first), entry.last.min(span.last));
                observe(Displaced { span: lost, entry, value: &*leaf.value(i) });
            }
            // Commit.
            let entry_last = if inside { leaf.key(from) } else { span.last };
            if head {
                leaf.set_key(from, span.first.wrapping_sub(K::ONE));
            }
            if tail && !inside {
                leaf.set_one(to - 1, span.last.wrapping_add(K::ONE));
            }
            self.len = self.len + new - gone;
            if from == to && !split {
                // Into a gap.
                let Some(value) = value else { return Ok(()) };
                let start = if at > 0 { leaf.key(at - 1).wrapping_add(K::ONE) } else { self.region_start(&path, 0) };
                let below = span.first.wrapping_sub(start);
                leaf.open(at, 1);
                leaf.fill(at, span.last, span.first, value);
                if at < len {
                    let next = leaf.first(at + 1);
                    let above = next.wrapping_sub(span.last).wrapping_sub(K::ONE);
                    self.regap(&path, next.wrapping_sub(start), below.max(above));
                } else {
                    self.extend(&path, span.last, below);
                }
                return Ok(());
            }
            if gone == 0 {
                let (half, at, right) = if split {
                    let (half, at, right) = self.split_leaf(&path, at, new);
                    (half, at, Some(right))
                } else {
                    leaf.open(at, new);
                    (leaf, at, None)
                };
                let mut slot = at;
                if let Some(value) = value {
                    half.fill(slot, span.last, span.first, value);
                    slot += 1;
                }
                if let Some(upper) = upper {
                    half.fill(slot, entry_last, span.last.wrapping_add(K::ONE), upper);
                }
                match right {
                    Some(right) => self.adopt_leaf(&mut path, right),
                    None => self.refresh(&path),
                }
                return Ok(());
            }
            let (old, kept) = match value {
                Some(value) => {
                    let same = leaf.first(at) == span.first && leaf.key(at) == span.last;
                    let old = ptr::read(leaf.value(at));
                    leaf.fill(at, span.last, span.first, value);
                    if gone == 1 {
                        if !same {
                            self.refresh(&path);
                        }
                        drop(old);
                        return Ok(());
                    }
                    (Some(old), 1)
                }
                None => (None, 0),
            };
            let parked = park(leaf, at + kept, gone - kept);
            if leaf.len() > 0 {
                self.refresh(&path);
            }
            let _mend = Mend { tree: self, path: &path };
            let _parked = parked;
            drop(old);
        }
        Ok(())
    }

    /// The first entry of an empty map.
    #[cold]
    fn store_first(&mut self, span: Span<K>, value: Option<V>) -> Result<(), StoreError<K>> {
        let Some(value) = value else { return Ok(()) };
        self.ensure(1, 0)?;
        let leaf = self.leaves.take();
        // SAFETY: a fresh leaf.
        unsafe {
            leaf.open(0, 1);
            leaf.fill(0, span.last, span.first, value);
        }
        (self.root, self.height, self.len) = (Some(leaf.raw()), 0, 1);
        Ok(())
    }

    /// Whether an entry behind the leaf of `path` starts at or before `last`.
    ///
    /// # Safety
    /// `path` is of this tree as it is.
    #[cold]
    unsafe fn reaches_on(&self, path: &Path, last: K) -> bool {
        // SAFETY: the leaf is not empty; a leaf behind it holds an entry in its first slot.
        unsafe {
            let leaf = Leaf::<V, K, S>::from_raw(path.at(0).node);
            let mut behind = Path::new();
            match leaf.key(leaf.len() - 1).succ() {
                Some(key) => match self.seek(key, &mut behind) {
                    Some((next, slot)) => slot < next.len() && next.first(slot) <= last,
                    None => false,
                },
                None => false,
            }
        }
    }

    /// The store whose range meets entries of several leaves. `path` leads to the first of them.
    #[cold]
    unsafe fn store_across<O>(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        mut observe: O,
        path: &mut Path,
    ) -> Result<(), StoreError<K>>
    where
        O: FnMut(Displaced<'_, V, K>),
    {
        // SAFETY: the caller's promise: `path` is fresh. The leaves behind are sought by key, and nothing on `path` moves
        // while they are taken out: what goes lies to its right, and no ancestor of its leaf becomes empty.
        unsafe {
            let leaf = Leaf::<V, K, S>::from_raw(path.at(0).node);
            let (from, len) = (path.at(0).slot, leaf.len());
            // Plan, reserve. The leaf may lose nothing but the end of its last entry, and be full.
            let head = leaf.first(from) < span.first;
            if value.is_some() && len == Leaf::<V, K, S>::SLOTS && from + usize::from(head) == len {
                self.plan_split(path)?;
            }
            // Tell.
            for (entry, value) in self.range(span) {
                let lost = Span::new(entry.first.max(span.first), entry.last.min(span.last));
                observe(Displaced { span: lost, entry, value });
            }
            // Commit. The leaves behind the first: whole ones go, the last one may keep entries.
            let pivot = leaf.key(len - 1);
            let behind = pivot.wrapping_add(K::ONE);
            let mut whole: Option<Raw> = None;
            let mut parked_behind = Parked { at: leaf.items(), n: 0 };
            let mut next = Path::new();
            while let Some((other, 0)) = self.seek(behind, &mut next) {
                let n = other.len();
                let mut to = 0;
                while to < n && other.first(to) <= span.last {
                    to += 1;
                }
                if to > 0 && other.key(to - 1) > span.last {
                    to -= 1;
                    other.set_one(to, span.last.wrapping_add(K::ONE));
                }
                self.len -= to;
                if to < n {
                    parked_behind = park(other, 0, to);
                    break;
                }
                self.detach(&next);
                reap::chain(&mut whole, other);
            }
            // The first leaf.
            if head {
                leaf.set_key(from, span.first.wrapping_sub(K::ONE));
            }
            let at = from + usize::from(head);
            let gone = len - at;
            let mut old = None;
            let mut parked = Parked { at: leaf.items(), n: 0 };
            match value {
                Some(value) if gone > 0 => {
                    old = Some(ptr::read(leaf.value(at)));
                    leaf.fill(at, span.last, span.first, value);
                    parked = park(leaf, at + 1, gone - 1);
                    self.len = self.len + 1 - gone;
                    self.refresh(path);
                }
                Some(value) => {
                    self.len += 1;
                    if len == Leaf::<V, K, S>::SLOTS {
                        let (half, at, right) = self.split_leaf(path, at, 1);
                        half.fill(at, span.last, span.first, value);
                        self.adopt_leaf(path, right);
                    } else {
                        leaf.open(at, 1);
                        leaf.fill(at, span.last, span.first, value);
                        self.refresh(path);
                    }
                }
                None => {
                    parked = park(leaf, at, gone);
                    self.len -= gone;
                    if leaf.len() > 0 {
                        self.refresh(path);
                    }
                }
            }
            // An empty leaf is led to by the pivot that it had.
            let first = if leaf.len() > 0 { leaf.key(leaf.len() - 1) } else { pivot };
            let _settle = Settle { tree: self, first, behind: span.last.succ() };
            let _whole = reap::Chain::<V, K, S>::new(whole);
            let _behind = parked_behind;
            let _parked = parked;
            drop(old);
        }
        Ok(())
    }
}

/// Mends what a store across leaves left, once the values that it displaced are gone.
struct Settle<'a, V, K: Key, S: Shape> {
    tree: &'a mut Tree<V, K, S>,
    /// A key that leads to the first leaf, which may be empty.
    first: K,
    /// The key behind the range, if there is one.
    behind: Option<K>,
}

impl<V, K: Key, S: Shape> Drop for Settle<'_, V, K, S> {
    fn drop(&mut self) {
        let mut path = Path::new();
        // SAFETY: R2: nothing has changed since the commit but what was parked, which is gone.
        unsafe {
            self.tree.settle(self.first);
            // The region behind the range starts elsewhere now.
            if let Some(behind) = self.behind
                && self.tree.seek(behind, &mut path).is_some()
            {
                self.tree.refresh(&path);
                self.tree.settle(behind);
            }
        }
    }
}
