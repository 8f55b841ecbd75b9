//! The published designs for the index of an address space, each written by us from the literature
//! and from man pages, under one engine: `AddressSpace<B, Design<...>>`.
//!
//! [`entries`] has the operations of a design: find, neighbours, insert, remove, move a bound, find
//! a gap. [`design`] makes an index from a design. So all designs split and trim alike, and differ
//! only in their known properties.

pub mod btreemap;
mod chain;
pub mod design;
pub mod entries;
mod field;
mod gap_tree;
#[cfg(test)]
mod gap_tree_tests;
pub mod list;
pub mod maple;
mod maple_node;
pub mod rangemap;
pub mod rbtree;
pub mod splay;
