//! The maps of `shared`, one file each; similar maps share a file.

pub mod arcswap;
pub mod bbtree;
pub mod concread;
pub mod congee;
pub mod crossbeam_skiplist;
pub mod locks;
pub mod papaya;
pub mod samara;
pub mod scc;
