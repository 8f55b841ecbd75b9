//! Address spaces that threads share.

pub(crate) mod wait;
