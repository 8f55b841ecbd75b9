//! Inherited areas: those that a space got from the fork that made it. A child shares its parent's
//! tree of the fork, so these areas are stored as in the parent. This module converts them to the
//! child's: unlocked, with inherited identities, and wiped if the parent asked for that (by the
//! rules of `AddressSpace::fork`).
//!
//! Knows areas; knows neither locks nor calls.
//!
//! - **INHERIT-1** Each space has a generation: its parent's plus 1. An area in its tree whose
//!   `generation` differs is *inherited*: stored before the fork. The space stores areas with its
//!   own generation, so no generation in its tree is greater.
//! - **INHERIT-2** An inherited area, or a remaining part of it, is at its address of the fork,
//!   because moves and changes store it as the space's own. So `at_fork` has the original area at
//!   each of its addresses. The start of the original gives the identity, which is the same for all
//!   parts.
//! - **INHERIT-3** `fork` removes from the child's tree all areas that the child must not have
//!   (MADV_DONTFORK).
//! - **INHERIT-4** The fork gave the child the identities from `first_id` up to `ids_end`. Later
//!   identities, and those from `replace`, are outside this range.

use crate::area::extras::Table;
use crate::area::flags::Flags;
use crate::area::{Anon, AnonId, Area, Backing};
use crate::calls::fork::{child_anon, child_flags};
use crate::shared::window::Entry;
use alloc::borrow::Cow;
use samara::{RangeMap, TryArc};

/// Number of generations for which an ancestor's areas at its fork are kept.
const KEPT: u64 = 255;

/// The state that a space got from the fork that made it.
pub(crate) struct Inherited<B> {
    /// The space's own generation (INHERIT-1).
    pub(crate) generation: u8,
    /// The parent's areas at the fork. Empty where there was no fork.
    pub(crate) at_fork: RangeMap<u64, Area<B>>,
    /// The parent's extras at the fork.
    pub(crate) extras: Table,
    /// The identity of the area at address 0; any other adds the number of its first page.
    pub(crate) first_id: AnonId,
    /// The first identity that did not come from the parent (INHERIT-4).
    pub(crate) ids_end: AnonId,
    /// Log2 of the page size.
    pub(crate) page_shift: u32,
    /// Number of forks between the first space of the family and this one.
    pub(crate) depth: u64,
    /// The parent's own `Inherited`, which outlives the parent. `None`: there is no parent, or
    /// `depth` is a multiple of 255, which bounds the memory kept for ancestors.
    pub(crate) parents: Option<TryArc<Inherited<B>>>,
}

impl<B: Backing> Inherited<B> {
    /// For a space that no fork made. Its areas have the generation 0.
    pub(crate) fn nothing() -> Self {
        let (at_fork, extras) = (RangeMap::default(), Table::default());
        Inherited { generation: 0, at_fork, extras, first_id: 0, ids_end: 0, page_shift: 0, depth: 0, parents: None }
    }

    /// For a child with a tree of its own. Its areas have the generation 0, and identities from
    /// `first_id` up to `ids_end`. They do not lead to areas of the parent.
    pub(crate) fn as_copy(parents: &TryArc<Self>, first_id: AnonId, ids_end: AnonId) -> Self {
        let (depth, parents) = Self::below(parents);
        let mut own = Self::nothing();
        (own.first_id, own.ids_end, own.depth, own.parents) = (first_id, ids_end, depth, parents);
        own
    }

    /// Whether the fork gave the space the identity `id` (INHERIT-4). Numbers may pass 2^64.
    pub(crate) fn is_of_fork(&self, id: AnonId) -> bool {
        id.wrapping_sub(self.first_id) < self.ids_end.wrapping_sub(self.first_id)
    }

    /// `depth` and `parents` of a child of the space that has `parents`.
    pub(crate) fn below(parents: &TryArc<Self>) -> (u64, Option<TryArc<Self>>) {
        let depth = parents.depth + 1;
        (depth, (!depth.is_multiple_of(KEPT)).then(|| parents.clone()))
    }

    /// Whether an area of the space's tree is inherited.
    #[inline]
    pub(crate) fn is_inherited(&self, area: &Area<B>) -> bool {
        area.generation != self.generation
    }

    /// The flags of an inherited area.
    pub(crate) fn flags(&self, area: &Area<B>) -> Flags {
        child_flags(area, &self.extras)
    }

    /// The identity of an inherited area, still without its number. O(1).
    pub(crate) fn kind(&self, area: &Area<B>) -> Anon {
        child_anon(area, false, || 0)
    }

    /// `kind` with the number of the inherited area that holds `at`. O(log n).
    pub(crate) fn numbered(&self, at: u64, kind: Anon) -> Anon {
        let number = || {
            let start = self.at_fork.get(at).map_or(at, |(span, _)| span.first); // INHERIT-2
            self.first_id.wrapping_add(start >> self.page_shift)
        };
        match kind {
            Anon::Identity { inherited, .. } => Anon::Identity { id: number(), inherited },
            Anon::UnknownInherited { .. } => Anon::UnknownInherited { id: number() },
            Anon::Untouched | Anon::Unknown => kind,
        }
    }

    /// The identity of an area of the space's tree, which holds `at`. O(log n) if it is inherited.
    pub(crate) fn anon(&self, at: u64, area: &Area<B>) -> Anon {
        if self.is_inherited(area) { self.numbered(at, self.kind(area)) } else { area.anon() }
    }

    /// The parent's area at its fork that gave the space the inherited identity `id`.
    pub(crate) fn area_of(&self, id: AnonId) -> Option<(u64, &Area<B>)> {
        let page = id.wrapping_sub(self.first_id);
        let (span, area) = self.at_fork.get(page.checked_mul(1 << self.page_shift)?)?;
        Some((span.first, area))
    }

    /// An area of the space's tree, which holds `at`, as it is in the space.
    pub(crate) fn of<'a>(&self, at: u64, area: &'a Area<B>) -> Cow<'a, Area<B>> {
        if !self.is_inherited(area) {
            return Cow::Borrowed(area);
        }
        let mut own = area.clone();
        (own.flags, own.generation) = (self.flags(area), self.generation);
        own.set_anon(self.numbered(at, self.kind(area)));
        Cow::Owned(own)
    }

    /// An entry of the space's tree, as it is in the space.
    pub(crate) fn entry(&self, (start, end, area): (u64, u64, &Area<B>)) -> Entry<B> {
        (start, end, self.of(start, area).into_owned())
    }
}

impl<B> Drop for Inherited<B> {
    /// Drops the ancestors' state that only this space kept, in a loop: no recursion through a long
    /// line of forks.
    fn drop(&mut self) {
        let mut next = self.parents.take();
        while let Some(mut last) = next.and_then(TryArc::into_inner) {
            next = last.parents.take();
        }
    }
}
