//! Compares identities of a family's spaces: two are one if they began as one, in one space.
//!
//! Knows what spaces inherited (`inherited`); knows no tree that changes, and no address.
//!
//! - **LINEAGE-1** A page is written in an area with an identity, and stays in areas of that
//!   identity as long as the space has the page. The child of a fork has it in an area with an
//!   inherited identity, which `area_of` translates to the parent's identity at the fork. So two
//!   areas of a family share a page only if their identities lead to the same one in the youngest
//!   space that both descend from.

use crate::area::{Anon, AnonId, Backing};
use crate::shared::inherited::Inherited;
use core::ptr;

/// An identity in one space of a family.
pub(crate) struct Line<'a, B> {
    space: &'a Inherited<B>,
    /// `None`: any identity.
    id: Option<AnonId>,
    /// Whether it is inherited from the parent.
    is_inherited: bool,
}

impl<B> Clone for Line<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Line<'_, B> {}

/// A line's counterpart in the parent.
enum Older<'a, B> {
    /// There is no counterpart: the identity began in the space.
    Began,
    /// The parent's state is not kept.
    Unknown,
    Line(Line<'a, B>),
}

impl<'a, B: Backing> Line<'a, B> {
    /// The line of an area. `None` for memory that was never written.
    pub(crate) fn new(space: &'a Inherited<B>, anon: Anon) -> Option<Self> {
        let (id, is_inherited) = match anon {
            Anon::Untouched => return None,
            Anon::Identity { id, inherited } => (Some(id), inherited && space.is_of_fork(id)),
            Anon::Unknown => (None, false),
            Anon::UnknownInherited { id } => (None, space.is_of_fork(id)),
        };
        Some(Line { space, id, is_inherited })
    }

    fn older(self) -> Older<'a, B> {
        if !self.is_inherited {
            return Older::Began;
        }
        let Some(space) = self.space.parents.as_deref() else { return Older::Unknown };
        // Numbers of a child with a tree of its own lead to no area of the parent.
        let area = self.id.and_then(|id| self.space.area_of(id));
        let line = area.and_then(|(start, area)| Line::new(space, space.anon(start, area)));
        Older::Line(line.unwrap_or(Line { space, id: None, is_inherited: true }))
    }

    /// Whether areas with these identities may share pages. O(d log n) for the d forks that lie
    /// between the two spaces, and trees of n areas.
    pub(crate) fn may_share(self, other: Self) -> bool {
        let (mut one, mut other) = (self, other);
        while !ptr::eq(one.space, other.space) {
            // The other space does not descend from the deeper one.
            let deeper = if one.space.depth >= other.space.depth { &mut one } else { &mut other };
            match deeper.older() {
                Older::Began => return false,
                Older::Unknown => return true,
                Older::Line(line) => *deeper = line,
            }
        }
        one.id.is_none() || other.id.is_none() || one.id == other.id
    }
}
