//! `bbtree::unsync::BBTreeMap`: has the interface of std's `BTreeMap`, and is used like it.

use crate::cases::Case;
use crate::map::{Map, found_if};
use crate::points::{self, Points};
use crate::subjects::btreemap::like_btreemap;
use bbtree::unsync::BBTreeMap;
use samara_bench::data::Item;
use std::hint::black_box;

/// The map.
pub type Tree = BBTreeMap<u64, (u64, u64)>;

like_btreemap!(Tree);
