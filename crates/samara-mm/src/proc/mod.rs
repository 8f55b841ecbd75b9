//! The `/proc` files of an address space. Changes nothing.

pub(crate) mod maps;
pub(crate) mod name;
pub(crate) mod procmap_query;
pub(crate) mod smaps;
