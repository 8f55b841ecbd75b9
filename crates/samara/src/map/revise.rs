//! Revise: one descent to an entry, a look at it and at the next one, then the change that the
//! caller chooses.
//!
//! Boundaries are moved by `resize`, entries removed by `remove`.

use crate::map::RangeMap;
use crate::node::search::{Job, Search, dispatch};
use crate::node::shape::Shape;
use crate::tree::walk::span_of;
use crate::tree::{Path, Tree};
use crate::types::error::BoundError;
use crate::types::key::Key;
use crate::types::span::Span;

/// What becomes of an entry: see [`RangeMap::revise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision<K: Key = u64> {
    /// It stays as it is.
    Keep,
    /// It gets other bounds, as by [`RangeMap::resize`].
    Resize(Span<K>),
    /// It goes, and its value is dropped.
    Remove,
}

impl<V, K: Key, S: Shape> RangeMap<V, K, S> {
    /// Shows `decide`, once, the entry that holds `key`, or else the first one above it, and the
    /// one after that; does with the former what `decide` says. Where there is no such entry,
    /// `decide` is not asked. As [`at_or_after`](Self::at_or_after) and then
    /// [`resize`](Self::resize) or [`remove`](Self::remove), but with one way down instead of
    /// two. O(log n).
    ///
    /// # Errors
    /// [`BoundError`] of [`resize`](Self::resize), as bounds that cannot be; or where a map that
    /// shares nodes with a snapshot finds no memory to copy them. The map is as before.
    ///
    /// # Examples
    /// ```
    /// use samara::{RangeMap, Revision, Span};
    /// let mut map = RangeMap::<char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')]).unwrap();
    /// // As far as there is room.
    /// map.revise(5, |(span, _), next| match next {
    ///     Some((next, _)) => Revision::Resize(Span::new(span.first, next.first - 1)),
    ///     None => Revision::Keep,
    /// })?;
    /// assert!(map.spans().eq([Span::new(0, 19), Span::new(20, 29)]));
    /// map.revise(20, |_, next| if next.is_none() { Revision::Remove } else { Revision::Keep })?;
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), samara::BoundError>(())
    /// ```
    #[inline]
    pub fn revise(
        &mut self,
        key: K,
        mut decide: impl FnMut((Span<K>, &V), Option<(Span<K>, &V)>) -> Revision<K>,
    ) -> Result<(), BoundError<K>> {
        if self.tree.may_share() {
            return self.revise_shared(key, decide);
        }
        dispatch::<K, _>(Revise { tree: &mut self.tree, key, decide: &mut decide })
    }

    /// [`RangeMap::revise`] where nodes may be shared: what is left as it is copies nothing.
    #[cold]
    #[inline(never)]
    fn revise_shared(
        &mut self,
        key: K,
        mut decide: impl FnMut((Span<K>, &V), Option<(Span<K>, &V)>) -> Revision<K>,
    ) -> Result<(), BoundError<K>> {
        let mut from = self.range_from(key);
        let Some((span, value)) = from.next() else { return Ok(()) };
        match decide((span, value), from.next()) {
            Revision::Keep => {}
            Revision::Resize(to) => self.resize(span.first, to)?,
            Revision::Remove => drop(self.tree.try_remove(span.first)?),
        }
        Ok(())
    }
}

struct Revise<'a, V, K: Key, S: Shape, D> {
    tree: &'a mut Tree<V, K, S>,
    key: K,
    decide: &'a mut D,
}

impl<V, K, S, D> Job<K> for Revise<'_, V, K, S, D>
where
    K: Key,
    S: Shape,
    D: FnMut((Span<K>, &V), Option<(Span<K>, &V)>) -> Revision<K>,
{
    type Out = Result<(), BoundError<K>>;

    #[inline(always)]
    unsafe fn run<F: Search>(self) -> Self::Out {
        let Revise { tree, key, decide } = self;
        let (mut path, mut behind) = (Path::new(), Path::new());
        // SAFETY: the caller's promise. The paths are fresh, and slots are read that are entries'. The
        // caller of `revise` sees values for as long as it decides: nothing changes before that.
        unsafe {
            let Some((leaf, slot)) = tree.seek_by::<F>(key, &mut path) else { return Ok(()) };
            if slot >= leaf.len() {
                return Ok(());
            }
            let next = tree.next_by::<F>(leaf, slot, &mut behind);
            let shown = next.map(|(leaf, slot)| (span_of(leaf, slot), &*leaf.value(slot)));
            match decide((span_of(leaf, slot), &*leaf.value(slot)), shown) {
                Revision::Keep => {}
                Revision::Resize(to) => {
                    tree.hole.forget();
                    tree.resize_at::<F>(&path, to, next.map(|(leaf, slot)| leaf.first(slot)), &behind)?;
                }
                Revision::Remove => {
                    tree.hole.forget();
                    drop(tree.take_at::<F>(&path));
                }
            }
        }
        Ok(())
    }
}
