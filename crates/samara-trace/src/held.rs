//! Sums the weights of values in maps that share nodes copy-on-write. A value in a shared node
//! counts once, until the last map drops the node. Knows neither maps nor values.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sum that many values share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// The sum of what is held now.
    pub(crate) fn sum(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A value that counts `weight` for its meter until it is dropped, and so does each clone.
///
/// A map clones its values exactly when it copies a node or cuts an entry, so the sum follows what
/// is really held.
#[derive(Debug)]
pub(crate) struct Held<T> {
    value: T,
    weight: u64,
    meter: Meter,
}

impl<T> Held<T> {
    pub(crate) fn new(value: T, weight: u64, meter: &Meter) -> Self {
        meter.0.fetch_add(weight, Relaxed);
        Held { value, weight, meter: meter.clone() }
    }
}

impl<T: Clone> Clone for Held<T> {
    fn clone(&self) -> Self {
        Held::new(self.value.clone(), self.weight, &self.meter)
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.meter.0.fetch_sub(self.weight, Relaxed);
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
