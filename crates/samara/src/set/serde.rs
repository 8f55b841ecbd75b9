//! Serde support for sets: the ascending sequence of their ranges, each as `(first, last)`.
//!
//! Input is not trusted: empty ranges, order and overlap are checked, and a claimed length
//! allocates nothing. Ranges that touch are joined (SET-1).

use crate::node::shape::Shape;
use crate::set::RangeSet;
use crate::set::sorted::Joined;
use crate::types::key::Key;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

impl<K: Key + Serialize, S: Shape> Serialize for RangeSet<K, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de, K: Key + Deserialize<'de>, S: Shape> Deserialize<'de> for RangeSet<K, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Ranges(PhantomData))
    }
}

struct Ranges<K, S>(PhantomData<(K, S)>);

impl<'de, K: Key + Deserialize<'de>, S: Shape> Visitor<'de> for Ranges<K, S> {
    type Value = RangeSet<K, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of (first key, last key), ascending and without overlaps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut ranges: A) -> Result<Self::Value, A::Error> {
        let mut joined = Joined::new();
        while let Some(range) = ranges.next_element()? {
            joined.push(range).map_err(A::Error::custom)?;
        }
        joined.finish().map_err(A::Error::custom)
    }
}
