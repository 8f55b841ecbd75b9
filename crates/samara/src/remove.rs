//! Removing one whole entry, by a key in it. Needs no memory and cannot fail.

use crate::key::Key;
use crate::mend::thin;
use crate::node::LeafKind;
use crate::shape::Shape;
use crate::span::Span;
use crate::tree::{Path, Tree};
use core::ptr;

impl<V, K: Key, S: Shape> Tree<V, K, S> {
    /// Takes the entry that holds `key` out.
    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> Option<(Span<K>, V)> {
        let mut path = Path::new();
        let (leaf, slot) = self.seek(key, &mut path)?;
        // SAFETY: the path is fresh; the slot is read only if it is an entry's. Its value is moved out before the slot goes.
        unsafe {
            if slot >= leaf.len() || leaf.first(slot) > key {
                return None;
            }
            let span = Span::new(leaf.first(slot), leaf.key(slot));
            let value = ptr::read(leaf.value(slot));
            leaf.close(slot, 1);
            self.len -= 1;
            let len = leaf.len();
            if slot < len {
                let start =
                    if slot > 0 { leaf.key(slot - 1).wrapping_add(K::ONE) } else { self.region_start(&path, 0) };
                self.regap(&path, K::ZERO, leaf.first(slot).wrapping_sub(start)); // wider than what it is made of
            } else if len > 0 {
                self.refresh(&path);
            }
            if thin::<K, LeafKind<V, S>>(len) {
                self.mend(&path);
            }
            Some((span, value))
        }
    }
}
