//! The designs that `figures` compares, by name.

use clap::ValueEnum;

/// A design of the index of an address space, or the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Design {
    /// Linux up to 6.0: a red-black tree with gaps, a list, a cache of the areas found last.
    Rbtree,
    /// BSD of the 1980s, NetBSD up to 1.6: a sorted list and a hint.
    List,
    /// FreeBSD from 2002 on: a list and a splay tree with gaps.
    Splay,
    /// NetBSD since 2003: a list, a hint and a red-black tree with gaps.
    ListRbtree,
    /// Linux since 6.1: a tree in the geometry of its maple tree.
    Maple,
    /// The standard library's `BTreeMap`.
    Btreemap,
    /// The crate rangemap.
    Rangemap,
    /// Range locks in a skip list; for threads that share a space.
    RangeLockedSkiplist,
    /// `samara::RangeMap`, the index that samara-mm has; for threads, its `SharedAddressSpace`.
    Samara,
    /// The running kernel, by system calls.
    Kernel,
}

impl Design {
    /// Whether it is the index of an address space.
    pub fn is_index(self) -> bool {
        !matches!(self, Design::RangeLockedSkiplist | Design::Kernel)
    }
}

/// Runs `$body` with `$index` as the index's type, or `$other` for what is no index.
macro_rules! with_index {
    ($design:expr, $backing:ty, $index:ident => $body:expr, $other:expr) => {{
        use $crate::designs::{btreemap, design, list, maple, rangemap, rbtree, splay};
        use $crate::figures::design::Design;
        match $design {
            Design::Rbtree => with_index!(@ $index, design::Design<rbtree::RbTree<$backing, rbtree::ByPage>, $backing>, $body),
            Design::List => with_index!(@ $index, design::Design<list::List<$backing>, $backing>, $body),
            Design::Splay => with_index!(@ $index, design::Design<splay::Splay<$backing>, $backing>, $body),
            Design::ListRbtree => with_index!(@ $index, design::Design<rbtree::RbTree<$backing, rbtree::Hint>, $backing>, $body),
            Design::Maple => with_index!(@ $index, maple::Maple<$backing>, $body),
            Design::Btreemap => with_index!(@ $index, design::Design<btreemap::ByFirst<$backing>, $backing>, $body),
            Design::Rangemap => with_index!(@ $index, design::Design<rangemap::ByRange<$backing>, $backing>, $body),
            Design::Samara => with_index!(@ $index, samara::RangeMap<u64, samara_mm::Area<$backing>>, $body),
            Design::RangeLockedSkiplist | Design::Kernel => $other,
        }
    }};
    (@ $index:ident, $type:ty, $body:expr) => {{
        type $index = $type;
        $body
    }};
}
pub(crate) use with_index;
