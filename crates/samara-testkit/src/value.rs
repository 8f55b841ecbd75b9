//! Values that tests store. Knows nothing of maps.

use crate::tracked::{Tracked, live};
use std::fmt::Debug;

/// A value that is made from a number: the reference map holds the numbers only.
pub trait Value: Clone + Debug {
    /// The value of number `id`.
    fn make(id: u64) -> Self;
    /// Whether this is the value of number `id`, as far as the type can tell.
    fn is(&self, id: u64) -> bool;
    /// How many values of the type are live in this thread, if that is counted.
    fn live() -> Option<usize> {
        None
    }
}

impl Value for u32 {
    fn make(id: u64) -> Self {
        id as u32
    }
    fn is(&self, id: u64) -> bool {
        *self == id as u32
    }
}

impl Value for u64 {
    fn make(id: u64) -> Self {
        id
    }
    fn is(&self, id: u64) -> bool {
        *self == id
    }
}

/// No value at all: nothing but the ranges can differ.
impl Value for () {
    fn make(_: u64) -> Self {}
    fn is(&self, _: u64) -> bool {
        true
    }
}

/// A value of any size: leaves have fewer slots for values over 32 bytes, and again over 256.
impl<const N: usize> Value for [u64; N] {
    fn make(id: u64) -> Self {
        [id; N]
    }
    fn is(&self, id: u64) -> bool {
        *self == [id; N]
    }
}

/// A value on the heap: under Miri, a double drop or a read after the drop is an error.
impl<V: Value> Value for Box<V> {
    fn make(id: u64) -> Self {
        Box::new(V::make(id))
    }
    fn is(&self, id: u64) -> bool {
        (**self).is(id)
    }
    fn live() -> Option<usize> {
        V::live()
    }
}

impl Value for Tracked {
    fn make(id: u64) -> Self {
        Tracked::new(id)
    }
    fn is(&self, id: u64) -> bool {
        self.id() == id
    }
    fn live() -> Option<usize> {
        Some(live())
    }
}
