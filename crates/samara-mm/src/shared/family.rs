//! Families: the spaces that descend from one space by forks, each with its tree, for queries about
//! shared pages.
//!
//! Knows the living spaces; knows no page and no call.
//!
//! - **FAMILY-1** A space is a member from before another thread can use it until it ends or is no
//!   longer shared. Each member's tree has two owners: the list, and the space. So each tree in the
//!   list lives while the list is locked, and a space that has left is the only owner of its tree.
//! - **FAMILY-2** In a tree without `has_moved`, written anonymous memory has the bias 0, and
//!   written private memory of files is still at the address where it was written, perhaps in an
//!   ancestor. `has_moved` is set before the first store that makes this untrue, and never cleared.
//! - **FAMILY-3** A thread that has locked the list waits only for the handle of a tree, and for
//!   what the drop of a `Backing` waits for. So a query may be made anywhere, also with a range
//!   lock or a fault's guard.

use crate::errno::Errno;
use crate::shared::inherited::Inherited;
use crate::shared::links::Areas;
use crate::shared::sync::{AtomicBool, Ordering, fence};
use crate::shared::wait::Wait;
use samara::{RangeMap, Reclaim, Span, TryArc};

/// The tree of a space, as its family sees it.
pub(crate) struct MemberTree<B, R: Reclaim> {
    pub(crate) areas: Areas<B, R>,
    /// FAMILY-2.
    has_moved: AtomicBool,
}

impl<B, R: Reclaim> MemberTree<B, R> {
    pub(crate) fn new(areas: Areas<B, R>, has_moved: bool) -> Self {
        MemberTree { areas, has_moved: AtomicBool::new(has_moved) }
    }

    /// Records that memory is about to move.
    #[inline]
    pub(crate) fn note_move(&self) {
        // Relaxed: the store that makes it true is published later, with Release.
        self.has_moved.store(true, Ordering::Relaxed);
    }

    /// Whether memory may have moved in what the caller has read of the tree.
    pub(crate) fn has_moved(&self) -> bool {
        // Acquire: with the Release of the publication that was read, which follows `note_move`.
        fence(Ordering::Acquire);
        self.has_moved.load(Ordering::Relaxed)
    }
}

/// A space of a family.
pub(crate) struct Member<B, R: Reclaim> {
    pub(crate) tree: TryArc<MemberTree<B, R>>,
    pub(crate) inherited: TryArc<Inherited<B>>,
}

impl<B, R: Reclaim> Clone for Member<B, R> {
    fn clone(&self) -> Self {
        Member { tree: self.tree.clone(), inherited: self.inherited.clone() }
    }
}

/// The members of a family, by number.
pub(crate) type Members<B, R> = RangeMap<u64, Member<B, R>>;
type Family<B, R, W> = lock_api::Mutex<<W as Wait>::Lock, Members<B, R>>;

/// A space's membership in its family, until this is dropped.
pub(crate) struct Membership<B, R: Reclaim, W: Wait> {
    family: TryArc<Family<B, R, W>>,
    number: u64,
}

impl<B, R: Reclaim, W: Wait> Membership<B, R, W> {
    /// Makes the space of this number, tree and inheritance a member of the family of `parent`, or
    /// of a new family. O(log n) for n members.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn join(
        parent: Option<&Self>,
        number: u64,
        tree: &TryArc<MemberTree<B, R>>,
        inherited: &TryArc<Inherited<B>>,
    ) -> Result<Self, Errno> {
        let family = match parent {
            Some(parent) => parent.family.clone(),
            None => TryArc::try_new(lock_api::Mutex::new(RangeMap::new()))?,
        };
        let member = Member { tree: tree.clone(), inherited: inherited.clone() };
        family.lock().insert(Span::new(number, number), member)?;
        Ok(Membership { family, number })
    }

    /// Looks at all members, while none joins or leaves.
    pub(crate) fn with_members<T>(&self, look: impl FnOnce(&Members<B, R>) -> T) -> T {
        look(&self.family.lock())
    }

    /// Whether the space with this tree and this inheritance is a member, and every other member
    /// still has its tree (FAMILY-1).
    pub(crate) fn check(&self, tree: &TryArc<MemberTree<B, R>>, inherited: &TryArc<Inherited<B>>) -> bool {
        let is_owned = |(_, member): (Span, &Member<B, R>)| TryArc::owners(&member.tree) == 2;
        self.with_members(|members| {
            let own = members.get(self.number).map(|(_, member)| member);
            own.is_some_and(|own| TryArc::ptr_eq(&own.tree, tree) && TryArc::ptr_eq(&own.inherited, inherited))
                && members.check().is_ok()
                && members.iter().all(is_owned)
        })
    }
}

impl<B, R: Reclaim, W: Wait> Drop for Membership<B, R, W> {
    fn drop(&mut self) {
        // Its references are dropped outside of the lock.
        let left = self.family.lock().remove(self.number);
        drop(left);
    }
}
