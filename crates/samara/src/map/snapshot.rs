//! Snapshots: maps that share nodes. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::node::shape::Shape;
use crate::types::error::{AllocError, or_abort};
use crate::types::key::Key;
use crate::types::span::Span;

/// # Snapshots
impl<K: Key, V, S: Shape> RangeMap<K, V, S> {
    /// Makes a map of the same entries that is read and written separately. The two share all nodes
    /// until one of them is written to. O(1).
    ///
    /// # Consistency
    /// The two are independent, as after [`try_clone`](Self::try_clone): a change to one never
    /// shows in the other. Values with interior mutability are the exception: they are shared with
    /// their nodes until those are copied, so a change within a value through `&` does show. The
    /// two maps may be used and dropped in any order and by different threads.
    ///
    /// # Complexity
    /// A write to either map first copies the shared nodes that it changes: a path of O(log n)
    /// nodes, and with it the values of one leaf or two, which are cloned. So every writing call on
    /// a map that shares nodes may need memory, even one that otherwise needs none. A call that
    /// returns no error then aborts, as `Box` does, unless [`unshare`](Self::unshare) came first.
    /// If a `clone` panics during a copy, the entries are as they were, or as the call leaves them:
    /// the latter if the panic comes when the neighbour of a node left with few entries is copied
    /// to merge the two. [`reserve`](Self::reserve) copies all shared nodes, as do `drain`,
    /// `split_off`, `retain` and owned iteration: O(n). Copied nodes stay separate.
    ///
    /// # Errors
    /// [`AllocError`] beyond about a thousand million (2^30) snapshots of one map.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64, _> =
    ///     RangeMap::from_sorted((0..100_000).map(|i| (10 * i..=10 * i + 9, i)))?;
    /// let before = map.try_snapshot()?;
    /// map.clear_range(5..=999_994, |_| ())?;
    /// assert_eq!((map.len(), before.len()), (2, 100_000));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn try_snapshot(&self) -> Result<Self, AllocError>
    where
        V: Clone + Send + Sync,
    {
        Ok(RangeMap { tree: self.tree.snapshot()? })
    }

    /// [`try_snapshot`](Self::try_snapshot) that aborts on its error.
    #[must_use]
    pub fn snapshot(&self) -> Self
    where
        V: Clone + Send + Sync,
    {
        or_abort(self.try_snapshot())
    }

    /// Copies now the shared nodes that changes within `window` would copy. Until the next
    /// snapshot, changes within `window` then need no memory in calls that return no memory error:
    /// [`remove`](Self::remove), [`get_mut`](Self::get_mut), [`range_mut`](Self::range_mut),
    /// cursors and entries. The neighbours of those nodes are copied too, because a change that
    /// leaves a node nearly empty merges it with its neighbour. A merge further on may still copy a
    /// node; without memory for that, it does not take place. O(log n + entries met); O(1) if
    /// nothing has been shared.
    ///
    /// # Errors
    /// [`AllocError`]; the entries are as before.
    ///
    /// # Examples
    /// ```
    /// use samara::RangeMap;
    /// let mut map: RangeMap<u64, _> =
    ///     RangeMap::from_sorted((0..1000).map(|i| (10 * i..=10 * i + 9, i))).unwrap();
    /// let before = map.try_snapshot()?;
    /// map.unshare(500..=599)?;
    /// for (_, value) in map.range_mut(500..=599) {
    ///     *value += 1;
    /// }
    /// assert_eq!((map.get(510).unwrap().1, before.get(510).unwrap().1), (&52, &51));
    /// # Ok::<(), samara::AllocError>(())
    /// ```
    pub fn unshare(&mut self, window: impl Into<Span<K>>) -> Result<(), AllocError> {
        self.tree.unshare(window.into())
    }
}
