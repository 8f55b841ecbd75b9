//! Storing: replaces the contents of one range by one entry, or by nothing.
//!
//! A store has five steps. *Plan*: find what the range meets, and clone the value of an entry that
//! is cut in two. *Reserve*: set the nodes of a split aside (`room`). *Observe*: report each piece
//! to the observer. *Commit*. *Finish*: drop the displaced values, then rebalance (`finish`).
//!
//! No entry changes before the commit (a leaf may only have changed its form or been halved), so an
//! observer or a clone that panics, or an allocation that fails, leaves the map as it was. The
//! commit calls no user code. Values that it displaces are *parked*: behind the length of their
//! leaf, where nothing counts them, or in leaves taken out of the tree. They are dropped when the
//! map is whole again, so a drop that panics leaves a valid map. A thin leaf is rebalanced only
//! after that.
//!
//! - **STORE-1** Parked values are initialised, not counted by any node, and dropped exactly once,
//!   by one guard ([`Finish`]).
//! - **STORE-2** Between commit and rebalancing, leaves may be thin or empty. This is not visible,
//!   because the tree is borrowed.
//!
//! This file stores in one leaf, `over` replaces one or two of its entries, `across` stores over
//! several leaves. Does not know how nodes split (`split`), merge (`rebalance`) or fill a hole
//! (`hole`).

mod across;
mod finish;
mod over;
mod room;
#[cfg(test)]
mod tests;

use crate::node::leaf::Leaf;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::rebalance::thin;
use crate::tree::store::finish::{Displacement, Finish, park};
use crate::tree::store::over::{Target, observe_whole, place_of};
use crate::tree::store::room::Room;
use crate::tree::{Path, Tree};
use crate::types::displaced::Displaced;
use crate::types::error::StoreError;
use crate::types::key::Key;
use crate::types::span::Span;
use core::marker::PhantomData;
use core::ptr;

/// How a store makes the value of the upper piece of an entry that it cuts in two.
trait Cut<V> {
    fn upper(value: &V) -> V;
}

/// The upper piece has a clone of the value.
enum ByClone {}

impl<V: Clone> Cut<V> for ByClone {
    #[cfg_attr(not(debug_assertions), inline(always))]
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

/// Panics because a store into a gap found an entry there. It has not changed anything yet.
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

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        // SAFETY: the processor supports `F`, as the caller promises.
        unsafe { self.tree.store_by::<F, C, O>(self.span, self.value, self.observe) }
    }
}

/// The end of the slots from `from` on that a range up to `last` meets: the first slot whose entry
/// starts behind `last`, or the length.
///
/// # Safety
/// The leaf is live, and `from` is at most its length.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn end_of_overlap<K: Key, V, S: Shape>(leaf: Leaf<K, V, S>, from: usize, last: K) -> usize {
    let mut to = from;
    // SAFETY: LEAF-2: only slots below the length are read.
    unsafe {
        while to < leaf.len() && leaf.first(to) <= last {
            to += 1;
        }
    }
    to
}

/// What a store does to the entries that it meets in one leaf, at least one.
#[derive(Clone, Copy)]
struct Plan {
    /// The entries in the slots `from..to` meet the range.
    from: usize,
    to: usize,
    /// Whether the first of them keeps keys below the range.
    head: bool,
    /// Whether the last of them keeps keys above the range.
    tail: bool,
    /// The slot of the first entry that is removed whole, or before which the new ones go.
    at: usize,
    /// The number of entries that are removed whole.
    gone: usize,
    /// The number of new entries: the stored one, and the upper piece of an entry that is cut.
    new: usize,
}

impl Plan {
    /// The plan for a range that meets the slots `from..to` of `leaf`.
    ///
    /// # Safety
    /// The leaf is live, and `from < to <= len`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn new<K: Key, V, S: Shape>(
        leaf: Leaf<K, V, S>,
        from: usize,
        to: usize,
        span: Span<K>,
        stores: bool,
    ) -> Self {
        // SAFETY: LEAF-2: the slots `from..to` hold entries, as the caller promises.
        let (head, tail) = unsafe { (leaf.first(from) < span.first, leaf.key(to - 1) > span.last) };
        let at = from + usize::from(head);
        let gone = (to - usize::from(tail)).saturating_sub(at);
        let cuts = head && tail && to - from == 1;
        Plan { from, to, head, tail, at, gone, new: usize::from(stores) + usize::from(cuts) }
    }

    /// Whether one entry extends beyond the range at both ends, so it is cut in two.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn cuts(self) -> bool {
        self.head && self.tail && self.to - self.from == 1
    }
}

impl<K: Key, V, S: Shape> Tree<K, V, S> {
    /// Replaces the contents of `span` by `value`, or by nothing. If an entry is cut in two, its
    /// upper piece gets a clone of the value.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn store<O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        V: Clone,
        O: FnMut(Displaced<'_, K, V>),
    {
        self.fill_hole_or_store::<ByClone, O>(span, value, observe)
    }

    /// Stores an entry over `span`, which meets no entry: the caller has seen that it lies in a
    /// gap. Needs no `V: Clone`.
    ///
    /// # Panics
    /// If `span` meets an entry. The map is as before.
    pub(crate) fn store_in_gap(&mut self, span: Span<K>, value: V) -> Result<(), StoreError<K>> {
        self.fill_hole_or_store::<Never, _>(span, Some(value), |_: Displaced<'_, K, V>| occupied())
    }

    /// The entry of every store: an entry that fits in the hole of the last removal goes there
    /// (`hole`), anything else is stored by a descent. Inlined, so that a value for the hole need
    /// not be moved before it is stored.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn fill_hole_or_store<C, O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        if span.is_empty() {
            return Err(StoreError::EmptyRange(span));
        }
        if value.is_some() && self.fills(span) {
            if let Some(value) = value {
                // SAFETY: `fills` has just returned `true`, and `span` is not empty.
                unsafe { self.fill_hole(span, value) };
            }
            return Ok(());
        }
        self.store_by_descent::<C, O>(span, value, observe)
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
        } else if !self.own_overlapping(span, true)? {
            return Ok(());
        }
        dispatch::<K, S, _>(Store::<K, V, S, C, O> { tree: self, span, value, observe, cut: PhantomData })
    }

    /// [`Tree::store`] with a given search. `span` is not empty.
    ///
    /// # Safety
    /// The processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
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
        let (mut path, mut behind) = (Path::new(), Path::new());
        // SAFETY: the processor supports `F`, as the caller promises.
        let Some((leaf, from)) = (unsafe { self.seek_by::<F>(span.first, &mut path) }) else {
            return self.store_first(span, value);
        };
        self.leave(span.first);
        // SAFETY: TREE-4, SEARCH-2: `seek_by` has set the path, which is current until the commit
        // changes the tree, and `from` is at most the length of its leaf. Unless it returns
        // `Retry`, `make_room` leaves the path current and the entries in their slots. The leaf's
        // form may change, and with it the addresses of values.
        unsafe {
            if value.is_some()
                && let Some(place) = place_of(leaf, from, span)
            {
                // The value is moved only here, because copying it is most of the cost.
                match (place, value) {
                    (_, None) => {}
                    (Target::Gap(next), Some(value)) => self.fill_packed_gap::<F>(&path, span, next, value),
                    (Target::Over(over), Some(value)) => {
                        observe_whole(leaf, from..from + over.gone, &mut observe);
                        self.store_over::<F>(&mut path, span, over, value);
                    }
                }
                return Ok(());
            }
            let to = end_of_overlap(leaf, from, span.last);
            if from < to
                && to == leaf.len()
                && span.last > leaf.key(to - 1)
                && self.reaches_next_leaf(&path, span.last, &mut behind)
            {
                return self.store_across::<C, O>(span, value, observe, &mut path, &behind);
            }
            if from == to {
                return match value {
                    Some(value) => self.fill_gap::<F, C, O>(&mut path, span, value, observe),
                    None => Ok(()),
                };
            }
            // Plan.
            let plan = Plan::new(leaf, from, to, span, value.is_some());
            let upper = if plan.cuts() { Some(C::upper(&*leaf.value(from))) } else { None };
            // Reserve.
            let room = self.make_room(&path, span, value.is_some(), plan.new, plan.gone)?;
            // Never `Previous`: `span` meets an entry of this leaf, so it does not lie before them
            // all.
            debug_assert!(room != Room::Previous, "nothing is displaced");
            if room == Room::Retry {
                drop(upper);
                return self.retry_store::<C, O>(span, value, observe);
            }
            // Observe.
            observe_overlaps(leaf, plan, span, &mut observe);
            // Commit, finish.
            self.commit::<F>(&mut path, plan, span, value, upper, room == Room::Split);
        }
        Ok(())
    }

    /// The fast path of most stores: inserts an entry into the gap that [`place_of`] has found.
    /// `next` is the first key of the entry behind the gap.
    ///
    /// # Safety
    /// `path` is a current path of this tree to that entry, [`place_of`] has returned `next`
    /// for it and `span`, and the processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn fill_packed_gap<F: Search>(&mut self, path: &Path, span: Span<K>, next: K, value: V) {
        // SAFETY: LEAF-5: `place_of` has seen that the leaf is packed, that `slot` holds an
        // entry and that a slot is free. The leaf can hold the last key because it holds `next`,
        // which is higher.
        unsafe {
            let (leaf, slot) = (Leaf::<K, V, S>::from_raw(path.at(0).node), path.at(0).slot);
            let start = if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { self.region_start(path, 0) };
            leaf.insert_words::<F>(slot, span, value);
            self.len += 1;
            let (below, above) = (span.first.wrapping_sub(start), next.wrapping_sub(span.last).wrapping_sub(K::ONE));
            self.regap::<F>(path, next.wrapping_sub(start), below.max(above));
            self.follow(path);
        }
    }

    /// Inserts an entry into the gap before the slot of `path`, in any leaf.
    ///
    /// # Safety
    /// `path` is a current path of this tree, `span` lies in that gap, nothing is parked, and the
    /// processor supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn fill_gap<F: Search, C, O>(
        &mut self,
        path: &mut Path,
        span: Span<K>,
        value: V,
        observe: O,
    ) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        // SAFETY: TREE-4: unless it returns `Retry` or `Previous`, `make_room` leaves the path
        // current and the entries in their slots.
        unsafe {
            match self.make_room(path, span, true, 1, 0)? {
                Room::Fits => self.commit_in_gap::<F>(path, span, value),
                Room::Split => self.split_in_gap(path, span, value),
                Room::Previous => self.store_in_previous(path, span, value)?,
                Room::Retry => self.retry_store::<C, O>(span, Some(value), observe)?,
            }
        }
        Ok(())
    }

    /// Makes the changes of `plan` in the leaf of `path`, drops what they displace, and rebalances.
    /// `split`: the leaf is to be split, and memory for that is set aside.
    ///
    /// # Safety
    /// `path` is a current path of this tree to slot `plan.from`. `plan` was made for that leaf and
    /// `span`, and does something. [`Tree::make_room`] has returned `Fits`, or `Split` if `split`.
    /// There is an `upper` exactly if the plan cuts an entry. Nothing is parked, and the processor
    /// supports `F`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn commit<F: Search>(
        &mut self,
        path: &mut Path,
        plan: Plan,
        span: Span<K>,
        value: Option<V>,
        upper: Option<V>,
        split: bool,
    ) {
        // SAFETY: LEAF-2: the leaf of the path is live, and the slots of the plan hold entries. The
        // caller promises room and path.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let upper = upper.map(|upper| (leaf.key(plan.from), upper));
            if plan.head {
                leaf.set_key(plan.from, span.first.wrapping_sub(K::ONE));
            }
            if plan.tail && !plan.cuts() {
                leaf.set_first(plan.to - 1, span.last.wrapping_add(K::ONE));
            }
            self.len = self.len + plan.new - plan.gone;
            match value {
                value if plan.gone == 0 => self.commit_between::<F>(path, plan, span, value, upper, split),
                Some(value) => self.commit_over::<F>(path, plan, span, value),
                None => self.commit_removal::<F>(path, plan.at, plan.gone, None),
            }
        }
    }

    /// Commits an entry into the gap before the slot of `path`.
    ///
    /// # Safety
    /// As for [`Tree::fill_gap`]; the leaf has a free slot, and a form that holds `span`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn commit_in_gap<F: Search>(&mut self, path: &Path, span: Span<K>, value: V) {
        // SAFETY: LEAF-2: the path is current and the leaf has a free slot, as the caller promises;
        // only slots below the length are read.
        unsafe {
            let (leaf, at) = (Leaf::<K, V, S>::from_raw(path.at(0).node), path.at(0).slot);
            let len = leaf.len();
            let start = if at > 0 { leaf.key(at - 1).wrapping_add(K::ONE) } else { self.region_start(path, 0) };
            let below = span.first.wrapping_sub(start);
            self.len += 1;
            leaf.open(at, 1);
            leaf.fill(at, span.last, span.first, value);
            if at < len {
                let next = leaf.first(at + 1);
                let above = next.wrapping_sub(span.last).wrapping_sub(K::ONE);
                self.regap::<F>(path, next.wrapping_sub(start), below.max(above));
            } else {
                self.extend(path, span.last, below);
            }
            self.follow(path);
        }
    }

    /// Commits an entry into the gap before the slot of `path`, where the leaf is to be split.
    ///
    /// # Safety
    /// As for [`Tree::fill_gap`]; memory for the split is set aside.
    #[cold]
    unsafe fn split_in_gap(&mut self, path: &mut Path, span: Span<K>, value: V) {
        // SAFETY: LEAF-1: the path is current and memory is set aside, as the caller promises; the
        // half that `split_leaf` returns has a free slot at `at`, which is filled in.
        unsafe {
            let (half, at, right) = self.split_leaf(path, path.at(0).slot, 1);
            half.fill(at, span.last, span.first, value);
            self.len += 1;
            self.adopt_leaf(path, right);
        }
    }

    /// Commits a store that removes no whole entry: opens slots for the new entries, in this leaf
    /// or in a half of it. `upper` is the upper piece of an entry that is cut: its last key and its
    /// value.
    ///
    /// # Safety
    /// As for [`Tree::commit`]; the entries of the plan are trimmed, and none is removed whole.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn commit_between<F: Search>(
        &mut self,
        path: &mut Path,
        plan: Plan,
        span: Span<K>,
        value: Option<V>,
        upper: Option<(K, V)>,
        split: bool,
    ) {
        // SAFETY: LEAF-1: the leaf, or memory for its split, has room for `plan.new` entries, as
        // the caller promises, and exactly these are filled in.
        unsafe {
            let (half, mut slot, right) = if split {
                let (half, at, right) = self.split_leaf(path, plan.at, plan.new);
                (half, at, Some(right))
            } else {
                let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
                leaf.open(plan.at, plan.new);
                (leaf, plan.at, None)
            };
            if let Some(value) = value {
                half.fill(slot, span.last, span.first, value);
                slot += 1;
            }
            if let Some((last, upper)) = upper {
                half.fill(slot, last, span.last.wrapping_add(K::ONE), upper);
            }
            match right {
                Some(right) => self.adopt_leaf(path, right),
                None => {
                    self.refresh::<F>(path);
                    if plan.new > 0 {
                        path.set(0, path.at(0).node, plan.at);
                        self.follow(path);
                    }
                }
            }
        }
    }

    /// Commits an entry over `plan.gone` whole entries, one at least: it takes the slot of the
    /// first.
    ///
    /// # Safety
    /// As for [`Tree::commit`]; the entries of the plan are trimmed.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn commit_over<F: Search>(&mut self, path: &mut Path, plan: Plan, span: Span<K>, value: V) {
        let Plan { at, gone, .. } = plan;
        // SAFETY: LEAF-3: slot `at` holds an entry. Its value is moved out before the new one is
        // written.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let same = leaf.first(at) == span.first && leaf.key(at) == span.last;
            let old = ptr::read(leaf.value(at));
            leaf.fill(at, span.last, span.first, value);
            if gone > 1 {
                self.commit_removal::<F>(path, at + 1, gone - 1, Some(old));
                return;
            }
            if !same {
                self.refresh::<F>(path);
            }
            path.set(0, leaf.raw(), at);
            self.follow(path);
            // The map is whole. If the drop panics, there is nothing left to do.
            drop(old);
        }
    }

    /// Commits the removal of the `gone` whole entries at `at`, and finishes the store. `old` is
    /// the value that the stored entry has displaced.
    ///
    /// # Safety
    /// As for [`Tree::commit`]; the entries of the plan are trimmed, and the stored entry is in its
    /// place.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn commit_removal<F: Search>(&mut self, path: &Path, at: usize, gone: usize, old: Option<V>) {
        // SAFETY: STORE-1: the plan's slots hold entries, and nothing else is parked. TREE-3: if
        // the leaf is empty, its words need not be right until it is rebalanced. STORE-2: until
        // `rebalance` runs, only parked values change, so `path` stays current.
        unsafe {
            let leaf = Leaf::<K, V, S>::from_raw(path.at(0).node);
            let parked = park(leaf, at, gone);
            if leaf.len() > 0 {
                self.refresh::<F>(path);
            }
            let rebalance = |tree: &mut Self| {
                if thin(leaf.len(), Leaf::<K, V, S>::PACKED, Leaf::<K, V, S>::MIN) {
                    tree.rebalance_leaf(path);
                }
            };
            Finish::new(self, Displacement::one_leaf(old, parked), rebalance).run();
        }
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
        (self.root, self.levels, self.len) = (Some(leaf.raw()), 0, 1);
        Ok(())
    }

    /// Repeats [`Tree::store`] after the leaf has been halved.
    #[cold]
    #[inline(never)]
    fn retry_store<C, O>(&mut self, span: Span<K>, value: Option<V>, observe: O) -> Result<(), StoreError<K>>
    where
        C: Cut<V>,
        O: FnMut(Displaced<'_, K, V>),
    {
        self.store_by_descent::<C, O>(span, value, observe)
    }
}

/// Reports the entries of the plan to the observer: what each loses within `span`.
///
/// # Safety
/// The leaf is live, and the slots of the plan hold entries.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn observe_overlaps<K: Key, V, S: Shape>(
    leaf: Leaf<K, V, S>,
    plan: Plan,
    span: Span<K>,
    observe: &mut impl FnMut(Displaced<'_, K, V>),
) {
    for i in plan.from..plan.to {
        // SAFETY: LEAF-2, LEAF-3: the slot holds an entry, as the caller promises.
        let (entry, value) = unsafe { (Span::new(leaf.first(i), leaf.key(i)), &*leaf.value(i)) };
        let lost = Span::new(entry.first.max(span.first), entry.last.min(span.last));
        observe(Displaced { span: lost, entry, value });
    }
}
