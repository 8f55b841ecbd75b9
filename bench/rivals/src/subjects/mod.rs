//! The maps of `index`, one file each, with the fastest way to do each operation. They know nothing
//! of timing.

pub mod bbtree;
pub mod brie_tree;
pub mod btree_range_map;
pub mod btreemap;
pub mod congee;
pub mod crossbeam_skiplist;
pub mod imbl;
pub mod iset;
pub mod nodit;
pub mod range_set_blaze;
pub mod rangemap;
pub mod samara;
pub mod scc;
