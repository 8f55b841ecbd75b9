//! Moves entries between maps: `append`, `split_off`, `shrink_to_fit`. Values are moved. Cloned are
//! only the value of an entry that is cut in two, and those of shared nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::tree::bulk_build::Builder;
use crate::types::error::{AllocError, StoreError};
use crate::types::key::Key;
use crate::types::span::Span;
use core::mem::{self, MaybeUninit};

impl<K: Key, V: Clone, S: Shape> RangeMap<K, V, S> {
    /// Moves every entry of `other` into this map, replacing what it overlaps, and leaves `other`
    /// empty. O(m log n) for m entries of `other`; O(1) if this map is empty and neither map has
    /// memory set aside.
    ///
    /// # Errors
    /// [`AllocError`]: the lower entries have been moved, each as a whole; the others are still in
    /// `other`.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let mut low = RangeMap::<u64, char>::from_sorted([(0..=9, 'a')]).unwrap();
    /// let mut high = RangeMap::from_sorted([(5..=14, 'b')]).unwrap();
    /// low.append(&mut high).unwrap();
    /// assert!(high.is_empty());
    /// assert!(low.iter().eq([(Span::new(0, 4), &'a'), (Span::new(5, 14), &'b')]));
    /// ```
    pub fn append(&mut self, other: &mut Self) -> Result<(), AllocError> {
        let had = self.has_spares();
        if self.is_empty() && !had && !other.has_spares() {
            mem::swap(self, other);
            return Ok(());
        }
        let moved = self.append_each(other);
        if !had {
            self.release();
        }
        moved
    }

    fn append_each(&mut self, other: &mut Self) -> Result<(), AllocError> {
        while !other.is_empty() {
            // Reserves before the entry is taken out, so that a failure does not lose it.
            self.tree.plan_stores(1, Span::FULL)?;
            let Some(first) = other.first().map(|(span, _)| span.first) else { break };
            let Some((span, value)) = other.tree.try_remove(first)? else { break };
            self.insert(span, value).map_err(|_| AllocError)?;
        }
        Ok(())
    }

    fn has_spares(&self) -> bool {
        self.tree.leaves.is_reserved() || self.tree.inners.is_reserved()
    }

    /// Moves everything from `key` on into a new map. An entry that holds both `key` and the key
    /// before it is cut there, and its value is cloned. O(log n + entries moved).
    ///
    /// # Errors
    /// [`StoreError::Alloc`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// # use samara::{RangeMap, Span};
    /// let mut low = RangeMap::<u64, char>::from_sorted([(0..=9, 'a'), (20..=29, 'b')]).unwrap();
    /// let high = low.split_off(5)?;
    /// assert!(low.iter().eq([(Span::new(0, 4), &'a')]));
    /// assert!(high.iter().eq([(Span::new(5, 9), &'a'), (Span::new(20, 29), &'b')]));
    /// # Ok::<(), samara::StoreError>(())
    /// ```
    pub fn split_off(&mut self, key: K) -> Result<Self, StoreError<K>> {
        let window = Span::new(key, K::MAX);
        // Allocates everything first; moving the values then cannot fail.
        let high = self.places(window)?;
        Ok(Self::filled(high, self.drain(window)?.map(|(_, value)| value)))
    }
}

impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Packs the entries into as few nodes as they need and frees all other memory, including
    /// reserved memory. O(n).
    ///
    /// A map that was copied, or built from ascending entries, has allocated its nodes many at a
    /// time. Nodes that it no longer uses are kept for later stores; this call,
    /// [`clear`](Self::clear) or the map's drop frees them. So a map may hold twice what it needs,
    /// but no more than it was built with. The packed nodes come in groups too: a map of a few
    /// leaves that are full already may hold up to half more afterwards than before. On a map that
    /// shares nodes with a snapshot, this call copies all of them first.
    ///
    /// # Errors
    /// [`AllocError`]; the map is as before.
    ///
    /// # Examples
    /// ```
    /// # use samara::RangeMap;
    /// let mut map =
    ///     RangeMap::<u64, u64>::from_sorted((0..10_000).map(|i| (10 * i..=10 * i + 4, i))).unwrap();
    /// map.retain(|span, _| span.first % 1000 == 0);
    /// map.shrink_to_fit()?;
    /// assert_eq!(map.len(), 100);
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn shrink_to_fit(&mut self) -> Result<(), AllocError> {
        self.tree.own(Span::FULL)?;
        // Allocates everything first; moving the values then cannot fail.
        let fit = self.places(Span::FULL)?;
        *self = Self::filled(fit, mem::take(self).into_values());
        Ok(())
    }

    /// A map of the ranges that meet `window`, trimmed to it, with uninitialised values.
    fn places(&self, window: Span<K>) -> Result<RangeMap<K, MaybeUninit<V>, S>, AllocError> {
        let mut builder = Builder::new();
        for (span, _) in self.range(window) {
            let span = Span::new(span.first.max(window.first), span.last.min(window.last));
            builder.push(span, MaybeUninit::uninit())?;
        }
        Ok(RangeMap { tree: builder.finish()? })
    }

    /// Moves `values` into the places of `map`, in order.
    fn filled(mut map: RangeMap<K, MaybeUninit<V>, S>, values: impl Iterator<Item = V>) -> Self {
        let mut places = map.values_mut();
        for value in values {
            // Asserted, here and below: `map` and `values` come from the same ranges. Otherwise a
            // value would be uninitialised.
            places.next().expect("there is a place for every value").write(value);
        }
        assert!(places.next().is_none(), "there is a value for every place");
        // SAFETY: every value has been written, which the assertion above shows, and no other owner
        // holds a node of the new map.
        RangeMap { tree: unsafe { map.tree.move_as::<V>() } }
    }
}
