//! Numbers that change behind `&`: links that a search turns, a hint. Threads that search side by
//! side may change a hint; each of them then sees one value or the other.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

macro_rules! fields {
    ($($name:ident, $atomic:ident, $value:ident;)+) => {$(
        /// A number.
        #[derive(Default)]
        pub(super) struct $name($atomic);

        impl $name {
            pub(super) const fn new(value: $value) -> Self {
                $name($atomic::new(value))
            }

            // Relaxed, in both: the lock around the search protects the data that a number leads
            // to.
            #[inline(always)]
            pub(super) fn get(&self) -> $value {
                self.0.load(Relaxed)
            }

            #[inline(always)]
            pub(super) fn set(&self, value: $value) {
                self.0.store(value, Relaxed);
            }
        }

        impl Clone for $name {
            fn clone(&self) -> Self {
                $name::new(self.get())
            }
        }
    )+};
}

fields! {
    Number32, AtomicU32, u32;
    Number64, AtomicU64, u64;
    Flag, AtomicBool, bool;
}
