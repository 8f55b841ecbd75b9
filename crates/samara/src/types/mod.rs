//! What callers and nodes both speak of: keys, spans, gaps, what a store displaced, errors. Knows nothing of nodes and of maps.

pub(crate) mod displaced;
pub(crate) mod error;
pub(crate) mod gap;
pub(crate) mod key;
pub(crate) mod newtype;
pub(crate) mod span;
