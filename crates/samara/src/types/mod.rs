//! Types that callers and the tree share: keys, spans, gap queries, displaced pieces, errors. Knows
//! nothing of nodes or maps.

pub(crate) mod displaced;
pub(crate) mod error;
pub(crate) mod gap;
pub(crate) mod key;
pub(crate) mod newtype;
pub(crate) mod span;
#[cfg(feature = "shared")]
pub(crate) mod try_arc;
pub(crate) mod try_box;
