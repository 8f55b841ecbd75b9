//! The addresses of heap and stack in a shared space, for readers that take no lock.
//!
//! Knows three addresses and whether a change is under way; knows no area, and no other part of the
//! change.
//!
//! - **LAYOUT-1** A thread that changes the layout, or the table of extras of `state.base`, has a
//!   [`Publication`] from before the first store to these, or to the tree, until after the last
//!   one. Its range lock, or the lock of the leaf that it changes, keeps other such changes out.
//!   Meanwhile it waits for no thread. (If a clone panics in the stores, the break follows in a
//!   publication of its own: UPDATE-3.)
//! - **LAYOUT-2** If [`seen`](SharedLayout::seen) gives a layout, and
//!   [`is_still`](SharedLayout::is_still) confirms it after a lookup in the tree and in the table
//!   of extras, then all three are of one moment: that of the lookup in the tree (INSTANT-2).

use crate::shared::instant::{self, Instant, Publication, Published};
use crate::shared::sync::{AtomicU64, Ordering};
use crate::space::Layout;
use core::iter;

/// The layout of a shared space. Loads and stores are Relaxed: LAYOUT-1, LAYOUT-2.
#[derive(Debug)]
pub(crate) struct SharedLayout {
    published: Published,
    brk: AtomicU64,
    start_brk: AtomicU64,
    start_stack: AtomicU64,
}

impl SharedLayout {
    pub(crate) fn new(layout: &Layout) -> Self {
        SharedLayout {
            published: Published::default(),
            brk: AtomicU64::new(layout.brk),
            start_brk: AtomicU64::new(layout.start_brk),
            start_stack: AtomicU64::new(layout.start_stack),
        }
    }

    /// Begins a change (LAYOUT-1).
    #[inline]
    pub(crate) fn begin_change(&self) -> Publication<'_> {
        self.published.begin()
    }

    #[inline]
    pub(crate) fn brk(&self) -> u64 {
        self.brk.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn start_brk(&self) -> u64 {
        self.start_brk.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_brk(&self, brk: u64) {
        self.brk.store(brk, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, layout: &Layout) {
        self.set_brk(layout.brk);
        self.start_brk.store(layout.start_brk, Ordering::Relaxed);
        self.start_stack.store(layout.start_stack, Ordering::Relaxed);
    }

    /// The layout, apart from `data`, if no change is under way.
    pub(crate) fn seen(&self) -> Option<(Instant, Layout)> {
        let instant = instant::now(iter::once(&self.published))?;
        let layout = Layout {
            start_brk: self.start_brk.load(Ordering::Relaxed),
            brk: self.brk(),
            start_stack: self.start_stack.load(Ordering::Relaxed),
            data: 0,
        };
        Some((instant, layout))
    }

    /// Whether no change has begun since that instant.
    pub(crate) fn is_still(&self, instant: Instant) -> bool {
        instant::is_still(iter::once(&self.published), instant)
    }
}
