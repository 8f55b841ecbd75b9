//! Revise: descends once to an entry, shows it and the next one to the caller, then makes the
//! change that the caller chooses.
//!
//! Does not change the tree itself: `resize` moves boundaries, `remove` removes entries, `punch`
//! cuts them.

use crate::map::RangeMap;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::walk::span_of;
use crate::tree::{Path, Tree};
use crate::types::displaced::unobserved;
use crate::types::error::{BoundError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;

/// The change to make to an entry: see [`RangeMap::revise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision<K: Key = u64> {
    /// Leave the entry as it is.
    Keep,
    /// Give the entry these bounds, as [`RangeMap::resize`] does.
    Resize(Span<K>),
    /// Remove the entry and drop its value.
    Remove,
    /// Free these keys, as [`RangeMap::clear_range`] does: a hole in an entry cuts it in two, and
    /// its value is cloned for the upper piece.
    Punch(Span<K>),
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Changes one entry as `decide` says, in one descent. The entry is the one that holds `key`,
    /// or else the first one above it. `decide` is called once, with that entry and the next one;
    /// it is not called if there is no such entry. Does what [`at_or_after`](Self::at_or_after)
    /// followed by [`resize`](Self::resize), [`remove`](Self::remove) or
    /// [`clear_range`](Self::clear_range) does in two descents. O(log n).
    ///
    /// # Errors
    /// [`BoundError`], as for [`resize`](Self::resize). [`BoundError::Alloc`] also if memory runs
    /// out while an entry is cut in two, or while a map copies nodes that it shares with a
    /// snapshot. The map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Revision, Span};
    /// let mut map = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')]).unwrap();
    /// // As far as there is room.
    /// map.revise(5, |(span, _), next| match next {
    ///     Some((next, _)) => Revision::Resize(Span::new(span.first, next.first - 1)),
    ///     None => Revision::Keep,
    /// })?;
    /// assert!(map.spans().eq([Span::new(0, 19), Span::new(20, 29)]));
    /// map.revise(20, |_, next| if next.is_none() { Revision::Remove } else { Revision::Keep })?;
    /// assert_eq!(map.len(), 1);
    /// map.revise(0, |_, _| Revision::Punch(Span::new(5, 6)))?;
    /// assert!(map.spans().eq([Span::new(0, 4), Span::new(7, 19)]));
    /// # Ok::<(), samara::BoundError>(())
    /// ```
    #[inline]
    pub fn revise(
        &mut self,
        key: K,
        mut decide: impl FnMut((Span<K>, &V), Option<(Span<K>, &V)>) -> Revision<K>,
    ) -> Result<(), BoundError<K>>
    where
        V: Clone,
    {
        if self.tree.may_share() {
            return self.revise_shared(key, decide);
        }
        if let Some((leaf, slot)) = self.tree.at_finger(key) {
            // SAFETY: FINGER-1: the leaf is live, and only slots below its length are read. The
            // tree changes only after `decide` has returned its borrows.
            unsafe {
                if slot + 1 < leaf.len() {
                    let (own, next) = (span_of(leaf, slot), span_of(leaf, slot + 1));
                    return match decide((own, &*leaf.value(slot)), Some((next, &*leaf.value(slot + 1)))) {
                        Revision::Keep => Ok(()),
                        Revision::Resize(to)
                            if to.first == own.first
                                && (own.first..next.first).contains(&to.last)
                                && self.tree.move_end(leaf, slot, to.last) =>
                        {
                            Ok(())
                        }
                        Revision::Resize(to) => self.tree.resize_own(own.first, to).map(|_| ()),
                        Revision::Remove => {
                            drop(self.tree.remove(own.first));
                            Ok(())
                        }
                        Revision::Punch(hole) => self.tree.punch(hole).map_err(bound_error),
                    };
                }
            }
        }
        dispatch::<K, S, _>(Revise { tree: &mut self.tree, key, decide: &mut decide })
    }

    /// [`RangeMap::revise`] on a map that may share nodes. Copies nothing if the entry is kept.
    #[cold]
    #[inline(never)]
    fn revise_shared(
        &mut self,
        key: K,
        mut decide: impl FnMut((Span<K>, &V), Option<(Span<K>, &V)>) -> Revision<K>,
    ) -> Result<(), BoundError<K>>
    where
        V: Clone,
    {
        let mut from = self.range_from(key);
        let Some((span, value)) = from.next() else { return Ok(()) };
        match decide((span, value), from.next()) {
            Revision::Keep => {}
            Revision::Resize(to) => self.resize(span.first, to)?,
            Revision::Remove => drop(self.tree.try_remove(span.first)?),
            Revision::Punch(hole) => self.clear_range(hole, unobserved).map_err(bound_error)?,
        }
        Ok(())
    }
}

fn bound_error<K>(error: StoreError<K>) -> BoundError<K> {
    match error {
        StoreError::EmptyRange(span) => BoundError::EmptyRange(span),
        StoreError::Alloc => BoundError::Alloc,
    }
}

struct Revise<'a, K: Key, V, S: Shape, D> {
    tree: &'a mut Tree<K, V, S>,
    key: K,
    decide: &'a mut D,
}

impl<K, V, S, D> Job<K> for Revise<'_, K, V, S, D>
where
    K: Key,
    V: Clone,
    S: Shape,
    D: FnMut((Span<K>, &V), Option<(Span<K>, &V)>) -> Revision<K>,
{
    type Out = Result<(), BoundError<K>>;

    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Revise { tree, key, decide } = self;
        let (mut path, mut behind) = (Path::new(), Path::new());
        // SAFETY: the caller guarantees that the processor has what `F` uses. The paths are fresh,
        // only slots of entries are read, and the tree changes only after `decide` has returned its
        // borrows.
        unsafe {
            let Some((leaf, slot)) = tree.seek_by::<F>(key, &mut path) else { return Ok(()) };
            if slot >= leaf.len() {
                return Ok(());
            }
            let next = tree.next_by::<F>(leaf, slot, &mut behind);
            let shown = next.map(|(leaf, slot)| (span_of(leaf, slot), &*leaf.value(slot)));
            match decide((span_of(leaf, slot), &*leaf.value(slot)), shown) {
                Revision::Keep => tree.point_at(&path),
                Revision::Resize(to) => {
                    tree.resize_at::<F>(&path, to, next.map(|(leaf, slot)| leaf.first(slot)), &behind)?;
                }
                Revision::Remove => {
                    tree.lead();
                    drop(tree.take_at::<F>(&path));
                }
                Revision::Punch(hole) => tree.punch_at::<F>(&mut path, hole).map_err(bound_error)?,
            }
        }
        Ok(())
    }
}
