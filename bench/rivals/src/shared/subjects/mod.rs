//! The maps that threads share, one file for each; what is alike is in one file.

pub mod arcswap;
pub mod bbtree;
pub mod concread;
pub mod congee;
pub mod crossbeam_skiplist;
pub mod locks;
pub mod papaya;
pub mod samara;
pub mod scc;
