//! Keys that tests can make and measure. Knows nothing of maps.

use samara::{Key, key_newtype};

key_newtype! {
    /// A newtype of the fastest key.
    pub struct Frame(pub u64);
}

key_newtype! {
    /// A newtype of a small key.
    pub struct Small(pub u32);
}

/// A key type that converts to and from `u128`, in which the reference map calculates.
pub trait TestKey: Key {
    /// The low bits of `n`.
    fn from_u128(n: u128) -> Self;
    /// The same number.
    fn to_u128(self) -> u128;
}

macro_rules! test_key {
    ($($t:ty),*) => {$(
        impl TestKey for $t {
            fn from_u128(n: u128) -> Self {
                n as $t
            }
            fn to_u128(self) -> u128 {
                self as u128
            }
        }
    )*};
}

test_key!(u8, u16, u32, u64, usize, u128);

macro_rules! test_newtype {
    ($($t:ident($raw:ty)),*) => {$(
        impl TestKey for $t {
            fn from_u128(n: u128) -> Self {
                $t(n as $raw)
            }
            fn to_u128(self) -> u128 {
                u128::from(self.0)
            }
        }
    )*};
}

test_newtype!(Frame(u64), Small(u32));
