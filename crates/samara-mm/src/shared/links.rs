//! Keeps the reverse maps of a space's files up to date: links new areas and unlinks removed ones,
//! with one acquisition of a lock for each file that a call changes.
//!
//! Knows areas and reverse maps; knows no call, no lock of a space and no plan. `link_plan`
//! collects the changes of one update.
//!
//! - **LINKS-1** Between updates, the linked areas of a space are those whose file has a map that
//!   takes them ([`file_area`]), each in that map. An update changes the links after the embedder
//!   has applied its plan, and before other threads see the new areas.

use crate::area::{Area, Backing, Object};
use crate::errno::Errno;
use crate::files::{FileArea, LinkChange, Links};
use crate::shared::family::MemberTree;
use crate::shared::fault_gate::Changing;
use crate::shared::link_plan::{LinkPlan, address};
use crate::shared::record::Work;
use crate::shared::sync::{AtomicBool, AtomicU64, Ordering};
use crate::shared::window::{Entry, Op};
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, Range};
use samara::{PinHere, RangeMap, Reclaim, SharedGuard, SharedRangeMap, Span, TryArc};

/// Bytes of a page, as reverse maps count them.
const PAGE: u64 = 4096;

/// The areas of a shared space by address.
pub(crate) type Areas<B, R> = SharedRangeMap<u64, Area<B>, R>;
/// A view of them.
type Guard<'m, B, R> = SharedGuard<'m, u64, Area<B>, R>;

/// A number that is unique among the spaces of the process.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: numbers are only compared.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The reverse map in which an area is linked, if its file has one. A private map of `/dev/zero`
/// shows no page of the file.
pub(crate) fn map_of<B: Backing>(area: &Area<B>) -> Option<&dyn Links> {
    let Object::File(file) = &area.object else { return None };
    let map = file.links()?;
    (!area.is_anonymous()).then_some(map)
}

/// The link of an area whose file has a map. `None`: the map takes no such area
/// ([`FileArea::pages`]).
fn file_area<B: Backing>(span: Span, area: &Area<B>, page_size: u64) -> Option<FileArea> {
    let first = span.first >> page_size.trailing_zeros(); // a power of two
    let offset = area.bias.wrapping_add(first).checked_mul(page_size)?;
    let shared_writable = area.flags.contains(crate::Flags::SHARED | crate::Flags::MAYWRITE);
    let area = FileArea { start: span.first, end: span.last.checked_add(1)?, page: offset / PAGE, shared_writable };
    area.pages().map(|_| area)
}

impl LinkPlan {
    /// Adds an area that is inserted (`comes`) or removed, if it is linked.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn add<B: Backing>(
        &mut self,
        comes: bool,
        span: Span,
        area: &Area<B>,
        page_size: u64,
    ) -> Result<(), Errno> {
        let Some(map) = map_of(area) else { return Ok(()) };
        self.may_link |= comes;
        Ok(file_area(span, area, page_size).map_or(Ok(()), |area| self.push(comes, map, area))?)
    }
}

/// Finds the map of a changed area, in the areas before or after the change.
pub(crate) fn find_in<'a, B: Backing>(
    old: &'a RangeMap<u64, Area<B>>,
    new: &'a RangeMap<u64, Area<B>>,
) -> impl Fn(&LinkChange) -> Option<&'a dyn Links> {
    move |change| {
        let areas = if change.comes { new } else { old };
        areas.get(change.area.start).and_then(|(_, area)| map_of(area))
    }
}

/// Finds the map of a changed area: of an inserted one in `now`, of a removed one in `gone`.
pub(crate) fn find_after<'a, B: Backing, R: Reclaim>(
    now: &'a Guard<'_, B, R>,
    gone: &'a RangeMap<u64, Area<B>>,
) -> impl Fn(&LinkChange) -> Option<&'a dyn Links> {
    move |change| {
        let start = change.area.start;
        let found = if change.comes { now.get(start) } else { gone.get(start) };
        found.and_then(|(_, area)| map_of(area))
    }
}

impl<B: Backing> Work<B> {
    /// Plans the changes of reverse maps for what the call changed in these ranges, and reserves
    /// memory for them. `op` is the store that makes the change, if it is a single one.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn plan_links(
        &mut self,
        space: u64,
        ranges: &[Option<Changing>],
        op: Option<&Op<Area<B>>>,
    ) -> Result<(), Errno> {
        let is_of_file = |area: &Area<B>| matches!(area.object, Object::File(_));
        let comes = match op {
            Some(Op::Clear(_)) => false,
            Some(Op::Put(_, area)) => is_of_file(area),
            None => self.space.areas.values().any(is_of_file),
        };
        if !comes && !self.old.iter().any(|entry| is_of_file(&entry.2)) {
            return Ok(());
        }
        let page_size = self.space.config().page_size.bytes();
        for Changing { start, end } in ranges.iter().flatten().copied() {
            for (first, behind, area) in self.old.iter().filter(|entry| entry.0 < end && entry.1 > start) {
                self.links.add(false, Span::new(*first, behind - 1), area, page_size)?;
            }
            for (span, area) in self.space.areas.range(Span::new(start, end - 1)) {
                self.links.add(true, span, area, page_size)?;
            }
        }
        let find = find_in_window(&self.old, &self.space.areas);
        Ok(self.links.reserve(space, find)?)
    }

    /// Gives back the memory that `plan_links` reserved.
    pub(crate) fn cancel_links(&mut self, space: u64) {
        self.links.cancel(space, find_in_window(&self.old, &self.space.areas));
    }

    /// Makes the changes of `plan_links`, for the areas of `of`.
    pub(crate) fn make_links<R: Reclaim + PinHere>(&mut self, of: &LinkedAreas<B, R>)
    where
        B: Send + Sync,
    {
        if self.links.may_link {
            of.note();
        }
        self.links.make(of.number, find_in_window(&self.old, &self.space.areas));
    }
}

/// Finds the map of a changed area, in the areas of a window before or after the call.
fn find_in_window<'a, B: Backing>(
    old: &'a [Entry<B>],
    new: &'a RangeMap<u64, Area<B>>,
) -> impl Fn(&LinkChange) -> Option<&'a dyn Links> {
    move |change| {
        let start = change.area.start;
        if change.comes {
            return new.get(start).and_then(|(_, area)| map_of(area));
        }
        let at = old.binary_search_by_key(&start, |entry| entry.0).ok()?;
        old.get(at).and_then(|entry| map_of(&entry.2))
    }
}

/// The plan of a change of the whole space, with its memory reserved.
pub(crate) struct WholePlan<'a, B: Backing> {
    plan: LinkPlan,
    space: u64,
    old: &'a RangeMap<u64, Area<B>>,
    new: &'a RangeMap<u64, Area<B>>,
}

impl<'a, B: Backing> WholePlan<'a, B> {
    /// Reserves memory for `plan`, which turns the links of `old` into those of `new`.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn reserve(
        mut plan: LinkPlan,
        space: u64,
        old: &'a RangeMap<u64, Area<B>>,
        new: &'a RangeMap<u64, Area<B>>,
    ) -> Result<Self, Errno> {
        plan.reserve(space, find_in(old, new))?;
        Ok(WholePlan { plan, space, old, new })
    }

    /// Whether an inserted area may be linked.
    pub(crate) fn may_link(&self) -> bool {
        self.plan.may_link
    }

    /// Makes the changes.
    pub(crate) fn make(mut self) {
        self.plan.make(self.space, find_in(self.old, self.new));
    }
}

impl<B: Backing> Drop for WholePlan<'_, B> {
    fn drop(&mut self) {
        self.plan.cancel(self.space, find_in(self.old, self.new));
    }
}

/// All linked areas of a space, by map. The areas of a file mostly follow one another, so this
/// sorts runs of areas, not areas.
struct Runs<'a> {
    areas: Vec<FileArea>,
    /// Each map with a range of `areas`; in the end one entry for each map.
    runs: Vec<(&'a dyn Links, Range<usize>)>,
    /// Whether there is an area whose file has a map.
    may_link: bool,
}

impl<'a> Runs<'a> {
    /// # Errors
    /// ENOMEM.
    fn collect<B: Backing, R: Reclaim>(
        areas: &'a Areas<B, R>,
        guard: &'a Guard<'_, B, R>,
        page_size: u64,
    ) -> Result<Self, Errno> {
        let short = |_| Errno::ENOMEM;
        let mut all = Runs { areas: Vec::new(), runs: Vec::new(), may_link: false };
        for (span, area) in guard.iter() {
            let Some(map) = map_of(area) else { continue };
            all.may_link = true;
            let Some(area) = file_area(span, area, page_size) else { continue };
            let at = all.areas.len();
            if at == all.areas.capacity() {
                all.areas.try_reserve(areas.len().saturating_sub(at).max(1)).map_err(short)?;
            }
            match all.runs.last_mut().filter(|run| address(run.0) == address(map)) {
                Some(run) => run.1.end = at + 1,
                None => {
                    all.runs.try_reserve(1).map_err(short)?;
                    all.runs.push((map, at..at + 1));
                }
            }
            all.areas.push(area);
        }
        if all.runs.len() > 1 {
            all.runs.sort_unstable_by_key(|run| (address(run.0), run.1.start));
            let is_twice = |runs: &[(&dyn Links, Range<usize>)]| matches!(runs, [a, b] if address(a.0) == address(b.0));
            if all.runs.windows(2).any(is_twice) {
                all.gather()?;
            }
        }
        Ok(all)
    }

    /// Joins all runs of the same map into one.
    fn gather(&mut self) -> Result<(), Errno> {
        let mut areas = Vec::new();
        areas.try_reserve_exact(self.areas.len()).map_err(|_| Errno::ENOMEM)?;
        for (_, run) in &mut self.runs {
            let from = areas.len();
            areas.extend_from_slice(self.areas.get(run.clone()).unwrap_or_default());
            *run = from..areas.len();
        }
        self.runs.dedup_by(|next, run| {
            let is_same = address(next.0) == address(run.0);
            if is_same {
                run.1.end = next.1.end;
            }
            is_same
        });
        self.areas = areas;
        Ok(())
    }

    /// Each map with its areas.
    fn by_map(&self) -> impl Iterator<Item = (&'a dyn Links, &[FileArea])> {
        self.runs.iter().map(|(map, run)| (*map, self.areas.get(run.clone()).unwrap_or_default()))
    }

    /// Links the areas.
    ///
    /// # Errors
    /// ENOMEM. Nothing is linked.
    fn link(&self, space: u64) -> Result<(), Errno> {
        for (n, (map, areas)) in self.by_map().enumerate() {
            if map.set_aside(space, areas.len()).is_err() {
                self.by_map().take(n).for_each(|(map, areas)| map.give_back(space, areas.len()));
                return Err(Errno::ENOMEM);
            }
        }
        self.by_map().for_each(|(map, areas)| map.link_all(space, areas));
        Ok(())
    }
}

/// The areas of a shared space. Dropping this unlinks them.
pub(crate) struct LinkedAreas<B, R: Reclaim> {
    /// Shared with the family. `None` after `into_map` took it.
    tree: Option<TryArc<MemberTree<B, R>>>,
    /// The number of the space.
    pub(crate) number: u64,
    page_size: u64,
    /// Whether an area may be linked: one has a file with a map, even if that map takes no such
    /// area ([`FileArea::pages`]). Set under the range lock of that area.
    any: AtomicBool,
    /// Unlinks all areas; `None` until they are linked. A function pointer, because `Drop` has no
    /// bound on `B`.
    unlink: Option<fn(&Self)>,
}

impl<B, R: Reclaim> LinkedAreas<B, R>
where
    B: Backing + Send + Sync,
    R: PinHere,
{
    /// Links all areas of `tree`, one acquisition per file. `any`: whether an area may have to be
    /// linked. O(n log n), or O(1) if none has.
    ///
    /// # Errors
    /// ENOMEM. Nothing is linked.
    pub(crate) fn link(tree: MemberTree<B, R>, page_size: u64, any: bool) -> Result<Self, Errno> {
        let (tree, number) = (Some(TryArc::try_new(tree)?), next_number());
        let mut linked = LinkedAreas { tree, number, page_size, any: AtomicBool::new(false), unlink: None };
        if any {
            let guard = linked.pin();
            let runs = Runs::collect(&linked, &guard, page_size)?;
            runs.link(linked.number)?;
            if runs.may_link {
                linked.note();
            }
        }
        linked.unlink = Some(Self::unlink_all);
        Ok(linked)
    }

    /// Notes that an area that may be linked will be inserted.
    pub(crate) fn note(&self) {
        // Relaxed: a reader holds the range lock of the whole space, or has seen the area's
        // publication. Written only once, because all threads read this word.
        if !self.may_have_links() {
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an area may be linked.
    pub(crate) fn may_have_links(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    fn unlink_all(&self) {
        if !self.may_have_links() {
            return;
        }
        let guard = self.pin();
        match Runs::collect(self, &guard, self.page_size) {
            Ok(runs) => runs.by_map().for_each(|(map, areas)| map.unlink_all(self.number, areas)),
            // Without memory for a list: area by area.
            Err(_) => {
                let linked = |(span, area)| Some((map_of(area)?, file_area(span, area, self.page_size)?));
                for (map, area) in guard.iter().filter_map(linked) {
                    map.unlink_all(self.number, &[area]);
                }
            }
        }
    }

    /// Checks that exactly `areas`, which are all areas of the space, are linked under its number
    /// in the maps of their files. Returns the first address where they are not.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn check_links(&self, areas: &RangeMap<u64, Area<B>>) -> Result<Option<u64>, Errno> {
        let mut plan = LinkPlan::default();
        for (span, area) in areas.iter() {
            plan.add(true, span, area, self.page_size)?;
        }
        plan.sort();
        for (map, changes) in plan.by_map(find_in(areas, areas)) {
            let mut found = map.areas_of(self.number).map_err(Errno::from)?;
            found.sort_unstable_by_key(|area| area.start);
            let want = changes.iter().map(|change| change.area);
            let differ = |(found, want): (&FileArea, FileArea)| (*found != want).then_some(found.start.min(want.start));
            if let Some(at) = found.iter().zip(want.clone()).find_map(differ) {
                return Ok(Some(at));
            }
            let behind = found.get(changes.len()).copied().or_else(|| want.clone().nth(found.len()));
            if let Some(area) = behind {
                return Ok(Some(area.start));
            }
        }
        Ok(None)
    }

    /// Unlinks all areas and returns them. The space has left its family.
    pub(crate) fn into_map(mut self) -> RangeMap<u64, Area<B>> {
        if let Some(unlink) = self.unlink.take() {
            unlink(&self);
        }
        match self.tree.take().and_then(TryArc::into_inner) {
            Some(tree) => tree.areas.into_map(),
            None => unreachable!("only a space and its family own the tree (FAMILY-1)"),
        }
    }
}

impl<B, R: Reclaim> LinkedAreas<B, R> {
    /// The tree that holds the areas.
    #[inline]
    pub(crate) fn tree(&self) -> &TryArc<MemberTree<B, R>> {
        match &self.tree {
            Some(tree) => tree,
            None => unreachable!("`into_map` takes the tree, and consumes this"),
        }
    }
}

impl<B, R: Reclaim> Deref for LinkedAreas<B, R> {
    type Target = Areas<B, R>;

    #[inline]
    fn deref(&self) -> &Areas<B, R> {
        &self.tree().areas
    }
}

impl<B, R: Reclaim> Drop for LinkedAreas<B, R> {
    fn drop(&mut self) {
        if let Some(unlink) = self.unlink.take() {
            unlink(self);
        }
    }
}

impl<B, R: Reclaim> fmt::Debug for LinkedAreas<B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkedAreas").field("number", &self.number).finish_non_exhaustive()
    }
}
