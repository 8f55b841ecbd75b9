//! Storing: replaces one range by one entry, or by nothing, whatever it held before.
//!
//! A store has four steps. *Plan*: find what the range meets, and clone the value of an entry that
//! is cut in two. *Reserve*: set the nodes of a split aside. *Tell* the observer. *Commit*. No
//! entry changes before the commit (a leaf may only have changed its form or been halved), so an
//! observer or a clone that panics, or an allocation that fails, leaves the map as it was. The
//! commit calls no user code. Values that it displaces are *parked*: behind the length of their
//! leaf, where nothing counts them, or in leaves taken out of the tree. They are dropped at the
//! end, when the map is whole again, so a drop that panics leaves a valid map. A thin leaf is
//! rebalanced only after that.
//!
//! - **STORE-1** Parked values are initialised, not counted by any node, and dropped exactly once,
//!   by one guard.
//! - **STORE-2** Between commit and rebalancing, leaves may be thin or empty. Nobody sees this,
//!   because the tree is borrowed.
//!
//! Does not know how nodes split (`split`), merge (`rebalance`) or refill a hole (`refill`).

use crate::node::Raw;
use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::cow::{is_own, refs};
use crate::tree::free;
use crate::tree::rebalance::thin;
use crate::tree::retired::Fate;
use crate::tree::{Path, Tree};
use crate::types::displaced::Displaced;
use crate::types::error::{AllocError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ptr;
use core::slice;

/// What the leaf offers to a store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// It has enough slots.
    There,
    /// It has too few slots and is to be split. The memory is set aside.
    Split,
    /// Its form cannot hold the new keys along with its other entries. It has been halved, and the
    /// descent is to be repeated.
    Again,
    /// The new keys lie before all of its own and have another upper half. The leaf before it can
    /// hold them, packed.
    Before,
}

/// How a store makes the value of the upper piece of an entry that it cuts in two.
trait Cut<V> {
    fn upper(value: &V) -> V;
}

/// The upper piece has a clone of the value.
enum ByClone {}

impl<V: Clone> Cut<V> for ByClone {
    #[inline(always)]
    fn upper(value: &V) -> V {
        value.clone()
    }
}

/// For stores into a gap ([`Tree::store_in_gap`]), which cut no entry and so need no `V: Clone`.
enum Never {}

impl<V> Cut<V> for Never {
    /// # Panics
    /// Always. A store calls it before it changes anything.
    #[cold]
    fn upper(_: &V) -> V {
        occupied()
    }
}

/// Panics: a store into a gap has met an entry. It has not changed anything yet.
#[cold]
#[inline(never)]
fn occupied() -> ! {
    panic!("samara: a store into a gap met an entry; the map is as before: please report this")
}

struct Store<'a, K: Key, V, S: Shape, C, O> {
    tree: &'a mut Tree<K, V, S>,
    span: Span<K>,
    value: Option<V>,
    observe: O,
    cut: PhantomData<C>,
}

impl<K: Key, V, S: Shape, C: Cut<V>, O: FnMut(Displaced<'_, K, V>)> Job<K> for Store<'_, K, V, S, C, O> {
    type Out = Result<(), StoreError<K>>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the processor supports `F`, as the caller promises.
        unsafe { self.tree.store_by::<F, C, O>(self.span, self.value, self.observe) }
    }
}

/// Values to be dropped at the end of a store (STORE-1).
struct Parked<V> {
    at: *mut V,
    n: usize,
}

impl<V> Drop for Parked<V> {
    fn drop(&mut self) {
        // SAFETY: STORE-1: the values are initialised and dropped only here. The slice's drop
        // continues with the values behind one whose drop panics.
        unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(self.at, self.n)) }
    }
}

/// Guard that rebalances the leaf of `path`, if it is thin, after the values parked in it are
/// dropped.
struct Mend<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    path: &'a Path,
}

impl<K: Key, V, S: Shape> Drop for Mend<'_, K, V, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: STORE-2: the tree has not changed since the commit, so `path` is current; guards
        // drop in reverse order, so nothing is parked any more.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(self.path.at(0).node);
            if thin(leaf.len(), Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::MIN) {
                self.tree.mend(self.path);
            }
        }
    }
}

/// Removes the `n` entries at `at` from `leaf`. Their values stay parked behind its length.
///
/// # Safety
/// The leaf is live, `at + n <= len`, and nothing is parked in it.
#[inline(always)]
unsafe fn park<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, at: usize, n: usize) -> Parked<V> {
    if n == 0 {
        return Parked { at: ptr::NonNull::dangling().as_ptr(), n: 0 };
    }
    // SAFETY: LEAF-3, STORE-1: `at + n <= len`, as the caller promises. The rotation moves the
    // removed values behind those that stay, and `close_keys` leaves values alone, so they stay
    // initialised behind the new length.
    unsafe {
        let len = leaf.len();
        if needs_drop::<V>() {
            let tail = slice::from_raw_parts_mut(leaf.value(at).cast::<core::mem::MaybeUninit<V>>(), len - at);
            tail.rotate_left(n);
            leaf.close_keys(at, n);
            Parked { at: leaf.items().add(len - n), n }
        } else {
            leaf.close(at, n);
            Parked { at: leaf.items(), n: 0 }
        }
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Replaces the contents of `span` by `value`, or by nothing. If an entry is cut in two, its
    /// upper piece gets a clone of the value.
    #[inline(always)]
    pub(crate) fn store<O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        V: Clone,
        O: FnMut(Displaced<'_, K, V>),
    {
        self.refill_or_store::<ByClone, O>(span, value, observe)
    }

    /// Stores an entry over `span`, which meets no entry: the caller has seen that it lies in a
    /// gap. Needs no `V: Clone`.
    ///
    /// # Panics
    /// If `span` meets an entry. The map is as before.
    pub(crate) fn store_in_gap(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
        self.refill_or_store::<Never, _>(span, Some(value), |_: Displaced<'_, K, V>| occupied())
    }

    /// The entry of every store: an entry that fits in the hole of the last removal goes there
    /// (`refill`), anything else is stored by a descent. Inlined, so that a value for the hole need
    /// not be moved before it is stored.
    #[inline(always)]
    fn refill_or_store<C, O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        match value {
            Some(value) if self.fills(span) => {
                // SAFETY: `fills` has just returned `true`, and `span` is not empty.
                unsafe { self.refill(span, value) };
                Ok(())
            }
            value => self.store_by_descent::<C, O>(span, value, observe),
        }
    }

    /// Makes the nodes that the store changes the tree's own, then stores. `span` is not empty.
    #[inline]
    fn store_by_descent<C, O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        if value.is_some() {
            self.own_replaced(span)?;
        } else if !self.own_met_replaced(span)? {
            return Ok(());
        }
        dispatch::<K, _>(Store::<K, V, S, C, O> { tree: self, span, value, observe, cut: PhantomData })
    }

    /// [`Tree::store`] with a given search. `span` is not empty.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[inline(always)]
    unsafe fn store_by<F: Search, C, O>(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        mut observe: O,
    ) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        let mut path = Path::new();
        // SAFETY: the processor supports `F`, as the caller promises.
        let Some((leaf, from)) = (unsafe { self.seek_by::<F>(span.first, &mut path) }) else {
            return self.store_first(span, value);
        };
        // SAFETY: TREE-4, LEAF-2, LEAF-3: the path is current until the commit changes the tree,
        // and only slots below `len` are read.
        unsafe {
            let len = leaf.len();
            if let Some((high, lasts, firsts)) = leaf.packed()
                && from < len
                && len < Leaf::<K, V, S>::PACKED
                && span.first.high() == high
                && let next = K::join(high, *firsts.add(from))
                && span.last < next
                && value.is_some()
            {
                // Fast path of most stores: a gap before an entry, in a packed leaf with a free
                // slot. The leaf can hold the last key because it holds the entry's first key,
                // which is higher.
                let Some(value) = value else { return Ok(()) };
                let start = if from > 0 {
                    K::join(high, *lasts.add(from - 1)).wrapping_add(K::ONE)
                } else {
                    self.region_start(&path, 0)
                };
                leaf.insert_words::<F>(from, span, value);
                self.len += 1;
                let (below, above) =
                    (span.first.wrapping_sub(start), next.wrapping_sub(span.last).wrapping_sub(K::ONE));
                self.regap::<F>(&path, next.wrapping_sub(start), below.max(above));
                return Ok(());
            }
            let mut to = from;
            while to < len && leaf.first(to) <= span.last {
                to += 1;
            }
            if from < len && to == len && span.last > leaf.key(len - 1) && self.reaches_on(&path, span.last) {
                return self.store_across::<C, O>(span, value, observe, &mut path);
            }
            let head = from < to && leaf.first(from) < span.first;
            let tail = from < to && leaf.key(to - 1) > span.last;
            let inside = head && tail && to - from == 1;

            // Plan.
            let upper = if inside { Some(C::upper(&*leaf.value(from))) } else { None };
            let at = from + usize::from(head);
            let gone = (to - usize::from(tail)).saturating_sub(at);
            let new = usize::from(value.is_some()) + usize::from(inside);
            if value.is_none() && from == to {
                return Ok(());
            }
            // Reserve.
            let room = self.make_room(&path, span, value.is_some(), new, gone)?;
            if matches!(room, Room::Again | Room::Before) {
                drop(upper);
                return match value {
                    Some(value) if room == Room::Before => self.store_before(&path, span, value),
                    value => self.store_again::<C, O>(span, value, observe),
                };
            }
            let split = room == Room::Split;
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
                leaf.set_first(to - 1, span.last.wrapping_add(K::ONE));
            }
            self.len = self.len + new - gone;
            if from == to && !split {
                // The range lies in a gap.
                let Some(value) = value else { return Ok(()) };
                let start = if at > 0 { leaf.key(at - 1).wrapping_add(K::ONE) } else { self.region_start(&path, 0) };
                let below = span.first.wrapping_sub(start);
                leaf.open(at, 1);
                leaf.fill(at, span.last, span.first, value);
                if at < len {
                    let next = leaf.first(at + 1);
                    let above = next.wrapping_sub(span.last).wrapping_sub(K::ONE);
                    self.regap::<F>(&path, next.wrapping_sub(start), below.max(above));
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
                    None => self.refresh::<F>(&path),
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
                            self.refresh::<F>(&path);
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
                self.refresh::<F>(&path);
            }
            let _mend = Mend { tree: self, path: &path };
            let _parked = parked;
            drop(old);
        }
        Ok(())
    }

    /// Stores the first entry of an empty map.
    #[cold]
    fn store_first(&mut self, span: Span<K>, value: Option<V>) -> Result<(), StoreError<K>> {
        let Some(value) = value else { return Ok(()) };
        self.ensure(1, 0)?;
        let leaf = self.leaves.take();
        // SAFETY: LEAF-1: the leaf is fresh, empty and in no tree, and `admit` gives it a form for
        // these keys.
        unsafe {
            leaf.admit(span.first, span.last, 1);
            leaf.open(0, 1);
            leaf.fill(0, span.last, span.first, value);
        }
        (self.root, self.height, self.len) = (Some(leaf.raw()), 0, 1);
        Ok(())
    }

    /// Ensures that the leaf of `path` can take `new` entries after losing `gone`. If `stores`, one
    /// of the new entries has the bounds `span`.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and nothing is parked.
    #[inline(always)]
    unsafe fn make_room(
        &mut self,
        path: &Path,
        span: Span<K>,
        stores: bool,
        new: usize,
        gone: usize,
    ) -> Result<Room, StoreError<K>> {
        // SAFETY: TREE-4: the leaf of a current path is live.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let admits = !stores || leaf.admits(span.first, span.last);
            // A new first entry of a wide leaf may fit better in the leaf before it.
            let stranger = K::IS_U64 && leaf.is_wide() && path.at(0).slot == 0;
            if admits && !stranger && leaf.len() + new - gone <= leaf.slots() {
                return Ok(Room::There);
            }
            self.find_room(path, span, admits, new, gone)
        }
    }

    /// [`Tree::make_room`] where the leaf needs another form, a split, or its neighbour.
    ///
    /// # Safety
    /// As for [`Tree::make_room`].
    #[cold]
    unsafe fn find_room(
        &mut self,
        path: &Path,
        span: Span<K>,
        admits: bool,
        new: usize,
        gone: usize,
    ) -> Result<Room, StoreError<K>> {
        // SAFETY: TREE-4: the leaf of a current path is live, and not empty outside of a commit.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let len = leaf.len();
            let gap = gone == 0 && leaf.first(0) > span.last && leaf.first(0).high() != span.last.high();
            if gap && self.before(path, span)?.is_some() {
                return Ok(Room::Before);
            }
            if admits && len + new - gone <= leaf.slots() {
                return Ok(Room::There);
            }
            let (low, high) = (leaf.first(0).min(span.first), leaf.key(len - 1).max(span.last));
            if leaf.reform(low, high, len.max(len + new - gone)) {
                return Ok(Room::There);
            }
            self.plan_split(path)?;
            if admits {
                return Ok(Room::Split);
            }
            // LEAF-6: half of the leaf can be wide, and then takes any entry.
            self.halve(path);
            Ok(Room::Again)
        }
    }

    /// The path to the last entry of the leaf before that of `path`, if `span` fits behind that
    /// entry: the leaf's form can hold it, and it has a free slot, or memory for a split is set
    /// aside.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    unsafe fn before(&mut self, path: &Path, span: Span<K>) -> Result<Option<Path>, AllocError> {
        // SAFETY: TREE-4: both paths are current, so their nodes are live and their leaves not
        // empty.
        unsafe {
            let start = self.region_start(path, 0);
            let Some(last) = start.pred() else { return Ok(None) };
            if let Some(log) = self.log {
                if start == log.as_ref().base {
                    return Ok(None); // the leaf before is outside this part of the shared map
                }
                self.own(Span::new(last, last))?;
            }
            let mut way = Path::new();
            let Some((leaf, _)) = self.seek(last, &mut way) else { return Ok(None) };
            let own =
                !self.may_share() || (0..=self.height).all(|level| is_own(refs::<K, V, S>(way.at(level).node, level)));
            if !own || !leaf.pack_with(span.last) {
                return Ok(None);
            }
            if leaf.len() == leaf.slots() {
                self.plan_split(&way)?;
            }
            Ok(Some(way))
        }
    }

    /// Stores into the gap before the leaf of `path`, behind the last entry of the leaf before it.
    /// Two distant regions that grow towards each other, such as a heap and a stack, thus keep to
    /// leaves of their own.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and [`Tree::before`] has found a place for `span`.
    #[cold]
    unsafe fn store_before(&mut self, path: &Path, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
        // SAFETY: `before` returns a current path to a leaf that admits the keys, and has set
        // memory aside if that leaf is full.
        unsafe {
            let mut way = self.before(path, span)?.expect("the plan of this store found a place behind that entry");
            let leaf = Leaf::<K, V, S>::from_raw(way.at(0).node);
            let at = leaf.len();
            self.len += 1;
            if at < leaf.slots() {
                leaf.open(at, 1);
                leaf.fill(at, span.last, span.first, value);
                self.refresh_cold(&way);
            } else {
                let (half, at, right) = self.split_leaf(&way, at, 1);
                half.fill(at, span.last, span.first, value);
                self.adopt_leaf(&mut way, right);
            }
        }
        Ok(())
    }

    /// Repeats [`Tree::store`] after the leaf has been halved.
    #[cold]
    #[inline(never)]
    fn store_again<C, O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        self.store_by_descent::<C, O>(span, value, observe)
    }

    /// Whether an entry behind the leaf of `path` starts at or before `last`.
    ///
    /// # Safety
    /// `path` is a current path of this tree.
    #[cold]
    unsafe fn reaches_on(&self, path: &Path, last: K) -> bool {
        // SAFETY: TREE-4: the leaf is live and not empty, and in the leaf behind it only slots
        // below the length are read.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
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

    /// [`Tree::store`] of a range that meets entries of several leaves. `path` leads to the first
    /// of them.
    ///
    /// # Safety
    /// `path` is a current path of this tree, and nothing is parked.
    #[cold]
    unsafe fn store_across<C, O>(
        &mut self,
        span: Span<K>,
        value: Option<V>,
        mut observe: O,
        path: &mut Path,
    ) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        // SAFETY: TREE-4: `path` is current, as the caller promises, and stays so while leaves
        // behind it are taken out: they lie to its right and are sought by key, and no ancestor of
        // its leaf becomes empty.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let (from, len) = (path.at(0).slot, leaf.len());
            // Plan, reserve. The leaf may be full and lose no entry, only the end of its last one.
            let head = leaf.first(from) < span.first;
            let at = from + usize::from(head);
            let gone = len - at;
            let room = self.make_room(path, span, value.is_some(), usize::from(value.is_some()), gone)?;
            if room == Room::Again {
                return self.store_again::<C, O>(span, value, observe);
            }
            // Tell.
            for (entry, value) in self.range(span) {
                let lost = Span::new(entry.first.max(span.first), entry.last.min(span.last));
                observe(Displaced { span: lost, entry, value });
            }
            // Commit. Of the leaves behind the first, whole ones are taken out; the last may keep
            // entries.
            let pivot = leaf.key(len - 1);
            let behind = pivot.wrapping_add(K::ONE);
            let mut whole: Option<Raw> = None;
            let mut parked_behind = Parked { at: ptr::NonNull::dangling().as_ptr(), n: 0 };
            let mut next = Path::new();
            while let Some((other, 0)) = self.seek(behind, &mut next) {
                let n = other.len();
                let mut to = 0;
                while to < n && other.first(to) <= span.last {
                    to += 1;
                }
                if to > 0 && other.key(to - 1) > span.last {
                    to -= 1;
                    other.set_first(to, span.last.wrapping_add(K::ONE));
                }
                self.len -= to;
                if to < n {
                    parked_behind = park(other, 0, to);
                    break;
                }
                self.detach(&next);
                match self.log {
                    // Readers may see this leaf, so its values are not dropped now.
                    Some(mut log) if !is_own(other.refs()) => log.as_mut().note(other.raw(), 0, Fate::GivenUp),
                    _ => free::chain(&mut whole, other),
                }
            }
            // The leaves that the store owed are noted now.
            if let Some(mut log) = self.log {
                log.as_mut().owed = 0;
            }
            // The first leaf.
            if head {
                leaf.set_key(from, span.first.wrapping_sub(K::ONE));
            }
            let mut old = None;
            let mut parked = Parked { at: ptr::NonNull::dangling().as_ptr(), n: 0 };
            match value {
                Some(value) if gone > 0 => {
                    old = Some(ptr::read(leaf.value(at)));
                    leaf.fill(at, span.last, span.first, value);
                    parked = park(leaf, at + 1, gone - 1);
                    self.len = self.len + 1 - gone;
                    self.refresh_cold(path);
                }
                Some(value) => {
                    self.len += 1;
                    if room == Room::Split {
                        let (half, at, right) = self.split_leaf(path, at, 1);
                        half.fill(at, span.last, span.first, value);
                        self.adopt_leaf(path, right);
                    } else {
                        leaf.open(at, 1);
                        leaf.fill(at, span.last, span.first, value);
                        self.refresh_cold(path);
                    }
                }
                None => {
                    parked = park(leaf, at, gone);
                    self.len -= gone;
                    if leaf.len() > 0 {
                        self.refresh_cold(path);
                    }
                }
            }
            // If the leaf is empty, its old pivot still leads to it.
            let first = if leaf.len() > 0 { leaf.key(leaf.len() - 1) } else { pivot };
            let settle = Settle { tree: self, first, behind: span.last.succ() };
            let _whole = free::Chain::new(whole, &mut settle.tree.leaves);
            let _behind = parked_behind;
            let _parked = parked;
            drop(old);
        }
        Ok(())
    }
}

/// Guard that rebalances what a store across leaves left, after the displaced values are dropped.
struct Settle<'a, K: Key, V, S: Shape> {
    tree: &'a mut Tree<K, V, S>,
    /// A key that leads to the first leaf, which may be empty.
    first: K,
    /// The key behind the range, if there is one.
    behind: Option<K>,
}

impl<K: Key, V, S: Shape> Drop for Settle<'_, K, V, S> {
    fn drop(&mut self) {
        let mut path = Path::new();
        // SAFETY: STORE-2: since the commit only parked values have changed, and they have been
        // dropped.
        unsafe {
            self.tree.settle(self.first);
            // The region behind the range starts elsewhere now, so its gap word is updated.
            if let Some(behind) = self.behind
                && self.tree.seek(behind, &mut path).is_some()
            {
                self.tree.refresh_cold(&path);
                self.tree.settle(behind);
            }
        }
    }
}

#[cfg(test)]
mod tests;
