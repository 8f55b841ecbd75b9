//! What readers load: the root word and the tally, and who may publish.
//!
//! Does not know how a store becomes visible (`publish`), nor how readers descend (`guard`,
//! `iter`).

use crate::node::Raw;
use crate::shared::reentry::Reentry;
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, here, is_here, spin};
use crate::tree::SHARED_HEIGHT;
use core::ptr;

/// What readers load. Each field has cache lines of its own, because every store writes to the
/// second one.
pub(crate) struct Published {
    pub(crate) root: Padded<AtomicPtr<u8>>,
    pub(crate) tally: Padded<Tally>,
}

/// Facts about the map as a whole.
pub(crate) struct Tally {
    pub(crate) len: AtomicUsize,
    /// Bytes of nodes that are taken out and not yet free.
    pub(crate) pending: AtomicUsize,
    /// Held by a store while it plans and publishes, and by a snapshot (PUBLISH-4): the thread's
    /// word (`here`), or 0.
    pub(crate) storing: AtomicUsize,
    /// Whether a snapshot has ever been taken through the shared map (not the handle).
    pub(crate) snapshots: AtomicBool,
    /// Whether rebalancing has left a node thin (TREE-5).
    pub(crate) thinned: AtomicBool,
}

/// Keeps its content apart from other cache lines: processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// The root as one word: its height is in the address bits that alignment leaves free.
pub(crate) fn join(root: Option<Raw>, height: usize) -> *mut u8 {
    debug_assert!(height <= SHARED_HEIGHT);
    root.map_or(ptr::null_mut(), |root| root.as_ptr().map_addr(|at| at | height))
}

/// The inverse of [`join`].
fn split(word: *mut u8) -> Option<(Raw, usize)> {
    let height = word.addr() & SHARED_HEIGHT;
    Raw::new(word.map_addr(|at| at & !SHARED_HEIGHT)).map(|root| (root, height))
}

impl Published {
    pub(crate) const fn new() -> Self {
        Published {
            root: Padded(AtomicPtr::new(ptr::null_mut())),
            tally: Padded(Tally {
                len: AtomicUsize::new(0),
                pending: AtomicUsize::new(0),
                storing: AtomicUsize::new(0),
                snapshots: AtomicBool::new(false),
                thinned: AtomicBool::new(false),
            }),
        }
    }

    /// The root and its height.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn load(&self) -> Option<(Raw, usize)> {
        split(self.root.0.load(Ordering::Acquire))
    }

    /// Waits for the store or snapshot that is under way, then keeps others out. Calls `waits`
    /// before it waits.
    ///
    /// # Panics
    /// If the calling thread itself holds `storing`.
    pub(crate) fn enter(&self, waits: impl Fn()) -> Storing<'_> {
        let (storing, here) = (&self.tally.0.storing, here());
        // Acquire: pairs with the Release in `Storing::drop`.
        while let Err(who) = storing.compare_exchange(0, here, Ordering::Acquire, Ordering::Relaxed) {
            if is_here(who) {
                Reentry::Store.panic();
            }
            waits();
            let mut spins = 0;
            while storing.load(Ordering::Relaxed) != 0 {
                spin(&mut spins);
            }
        }
        Storing(storing)
    }
}

/// While it lives, `storing` is held (PUBLISH-4).
pub(crate) struct Storing<'a>(&'a AtomicUsize);

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Published::enter`.
        self.0.store(0, Ordering::Release);
    }
}
