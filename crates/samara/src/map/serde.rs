//! Serde support: a range is the pair `(first, last)`, a map the ascending sequence of `(first,
//! last, value)`.
//!
//! Input is not trusted: empty ranges, order and overlap are checked, and a claimed length
//! allocates nothing. Knows nothing of nodes.

use crate::map::RangeMap;
use crate::map::construct::Sorted;
use crate::node::shape::Shape;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;
use core::marker::PhantomData;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};

impl<K: Serialize> Serialize for Span<K> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        (&self.first, &self.last).serialize(serializer)
    }
}

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Span<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (first, last) = Deserialize::deserialize(deserializer)?;
        Ok(Span { first, last })
    }
}

impl<K: Key + Serialize, V: Serialize, S: Shape> Serialize for RangeMap<K, V, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let mut entries = serializer.serialize_seq(Some(self.len()))?;
        for (span, value) in self {
            entries.serialize_element(&(span.first, span.last, value))?;
        }
        entries.end()
    }
}

impl<'de, K: Key + Deserialize<'de>, V: Deserialize<'de>, S: Shape> Deserialize<'de> for RangeMap<K, V, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

struct Entries<K, V, S>(PhantomData<(V, K, S)>);

impl<'de, K: Key + Deserialize<'de>, V: Deserialize<'de>, S: Shape> Visitor<'de> for Entries<K, V, S> {
    type Value = RangeMap<K, V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of (first key, last key, value), ascending and without overlaps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut sorted = Sorted::new();
        while let Some((first, last, value)) = entries.next_element()? {
            sorted.push(Span { first, last }, value).map_err(A::Error::custom)?;
        }
        sorted.finish().map_err(A::Error::custom)
    }
}
