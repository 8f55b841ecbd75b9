//! Moving one boundary of an entry in place: no memory, but where a leaf has no words for a boundary that is far away.

use crate::error::BoundError;
use crate::key::Key;
use crate::leaf::Leaf;
use crate::search::Portable;
use crate::shape::Shape;
use crate::span::Span;
use crate::tree::{Path, Tree};

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Gives the entry that holds `key` the bounds `to`, which must leave it a key and meet no other entry.
    pub(crate) fn resize(&mut self, key: K, to: Span<K>) -> Result<Span<K>, BoundError<K>> {
        if to.is_empty() {
            return Err(BoundError::EmptyRange(to));
        }
        self.own(Span::new(key.min(to.first), key.max(to.last)))?;
        let mut path = Path::new();
        let (leaf, slot) = self.seek(key, &mut path).ok_or(BoundError::NoEntry(key))?;
        // SAFETY: the path is fresh; slots below `len` are read. The neighbours are looked at before anything is written.
        unsafe {
            if slot >= leaf.len() || leaf.first(slot) > key {
                return Err(BoundError::NoEntry(key));
            }
            let was = Span::new(leaf.first(slot), leaf.key(slot));
            if to.first < was.first {
                let below = if slot > 0 { Some(leaf.key(slot - 1)) } else { self.region_start(&path, 0).pred() };
                if let Some(last) = below.filter(|&last| last >= to.first) {
                    return Err(BoundError::Occupied(last));
                }
            }
            if to.last > was.last {
                let above = if slot + 1 < leaf.len() { Some(leaf.first(slot + 1)) } else { self.first_behind(leaf) };
                if let Some(first) = above.filter(|&first| first <= to.last) {
                    return Err(BoundError::Occupied(first));
                }
            }
            if to.first > was.last || to.last < was.first {
                return Err(BoundError::Elsewhere { entry: was, wanted: to });
            }
            let len = leaf.len();
            if !leaf.admit(leaf.first(0).min(to.first), leaf.key(len - 1).max(to.last), len) {
                self.plan_split(&path)?;
                self.halve(&path);
                return self.resize(key, to); // half a leaf takes anything
            }
            leaf.set_first(slot, to.first);
            leaf.set_key(slot, to.last);
            self.refresh::<Portable>(&path);
            Ok(was)
        }
    }

    /// The first key of the entry behind `leaf`.
    ///
    /// # Safety
    /// The leaf is live and not empty.
    unsafe fn first_behind(&self, leaf: Leaf<V, K, S>) -> Option<K> {
        let mut path = Path::new();
        // SAFETY: the caller's promise.
        unsafe {
            let (next, slot) = self.seek(leaf.key(leaf.len() - 1).succ()?, &mut path)?;
            (slot < next.len()).then(|| next.first(slot))
        }
    }
}
