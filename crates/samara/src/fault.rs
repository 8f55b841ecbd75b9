//! Fault points: places at which the crate's own tests delay a store or a reader, and a switch by
//! which they make rebalancing refuse a copy. They exist only with the feature `testing`.

/// A step of a store or of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "only tests receive it"))]
pub enum Point {
    /// A concurrent store asks whether a snapshot owns a node of its path.
    Asked,
    /// The part of the tree that a store works in has been chosen.
    Chosen,
    /// The verb has done its work in the part, and no reader sees it yet.
    Worked,
    /// Gap words that grow have been raised.
    Raised,
    /// The pointer to the new node has been stored.
    Swapped,
    /// Gap words that shrink have been lowered.
    Lowered,
    /// The reclaimer is about to be asked for what was taken out.
    Collecting,
    /// A snapshot has kept stores out.
    Snapshot,
    /// A reader has loaded the root.
    Rooted,
    /// A reader has descended to a node.
    Descended,
    /// A walk goes on to another leaf.
    Walked,
    /// A gap search goes on.
    Searched,
}

#[cfg(feature = "testing")]
mod on {
    use super::Point;
    use crate::sync::Ordering;
    use crate::sync::plain::AtomicPtr;
    use core::ptr;

    static HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

    /// Calls `hook` at every point from now on, in the whole process.
    pub fn set_hook(hook: fn(Point)) {
        // Release: pairs with the Acquire in `point`.
        HOOK.store(hook as *mut (), Ordering::Release);
    }

    static REFUSES: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

    /// From now on, in the whole process, rebalancing asks `refuses` before it copies a shared
    /// neighbour. If the answer is `true`, it leaves the node thin, as it does when memory runs
    /// out.
    pub fn set_refusal(refuses: fn() -> bool) {
        // Release: pairs with the Acquire in `refused`.
        REFUSES.store(refuses as *mut (), Ordering::Release);
    }

    pub(crate) fn refused() -> bool {
        // Acquire: pairs with the Release in `set_refusal`.
        let refuses = REFUSES.load(Ordering::Acquire);
        // SAFETY: `set_refusal` stored it, as a `fn() -> bool`.
        !refuses.is_null() && unsafe { core::mem::transmute::<*mut (), fn() -> bool>(refuses)() }
    }

    #[inline]
    pub(crate) fn point(at: Point) {
        // Acquire: pairs with the Release in `set_hook`.
        let hook = HOOK.load(Ordering::Acquire);
        if !hook.is_null() {
            // SAFETY: `set_hook` stored it, as a `fn(Point)`.
            unsafe { core::mem::transmute::<*mut (), fn(Point)>(hook)(at) }
        }
    }
}
#[cfg(feature = "testing")]
pub use on::*;

#[cfg(not(feature = "testing"))]
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn point(_: Point) {}

#[cfg(not(feature = "testing"))]
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn refused() -> bool {
    false
}
