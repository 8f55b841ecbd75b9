//! Learning: corrects the model by the kernel's state for facts that the driver cannot see (writes,
//! and which file was opened).
//!
//! With unseen writes ([`Touches::Unseen`](crate::Touches::Unseen)) the model joins areas if any
//! history allows it. After each call the driver compares model and kernel. For each boundary that
//! only one of them has, it calls `learn_cut` or `learn_join`.
//!
//! What is learnt is exact for the areas on both sides of that boundary, and for their parts, as
//! long as they live: an identity is never lost, and a new map next to either side merges with it
//! as in the kernel. Nothing is inferred about other areas. Two areas that were learnt to be apart
//! from a third may still join each other; that shows as another boundary, which can be learnt.
//!
//! There is one limit: a wrong assumption about one neighbour may make the model join a new map
//! with the other neighbour. That can be learnt only if `learn_join` comes first: a new map alone
//! has no identity to differ by, and `learn_cut` answers [`NotLearnable::NothingUnknown`].
//!
//! After one move, the offset of moved memory is known except for whether the memory was written.
//! After another move it may be anything: the memory joins anything, and memory that is learnt
//! apart gets an offset of its own.
//!
//! If two answers explain a boundary, the model takes the one that keeps more areas apart:
//! `learn_join` can correct it later, but `learn_cut` could not correct the other.
//!
//! After calls whose order is not known, `unlearn` makes facts doubtful again that the wrong order
//! may have settled, such as joins between two of the calls that no comparison has seen.
//!
//! - **LEARN-1** `seams` holds the joins of the last call in order, each with both sides as they
//!   were before it. Everything else that changes an area (`import`, `forget`, `grow_down`,
//!   `learn_apart`, `unlearn`, `merge_pages`) empties it; `edit_objects` edits it.
//! - **LEARN-2** Only `mremap` empties a range in which it may have joined areas before
//!   (`unmap_joined`). The remaining areas can no longer show whether the kernel made those joins.
//!   So each part takes the attributes that its own side had before the join, and `seams` keeps
//!   only the joins that can still be seen.
//! - **LEARN-3** `emptied` holds the locked sources that the last call emptied (DONTUNMAP), in
//!   order, and is cleared with `seams`. Linux makes the copy first, and then unlocks the whole
//!   area that the source is in, with all that has joined it: the copy, or copies of earlier
//!   sources. So an area that holds a source is not locked, and at a copy's ends the lost lock
//!   keeps no areas apart.

use crate::area::extras::Table;
use crate::area::flags::Flags;
use crate::area::merge;
use crate::area::reasons::{Reason, Reasons};
use crate::area::{Anon, Area, Backing, Doubt, Object};
use crate::calls::mmap::accountable;
use crate::calls::mremap::emptied;
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Placed};
use core::fmt;

/// A join at `at` that the last call made, with both sides as they were before it.
#[derive(Clone, Debug)]
pub(crate) struct Seam<B> {
    pub(crate) at: u64,
    pub(crate) left: Area<B>,
    pub(crate) right: Area<B>,
}

/// A locked source that the last call emptied: an address in it, and its copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptied {
    pub(crate) source: u64,
    pub(crate) copy: (u64, u64),
}

/// Why a difference cannot be learnt. The model stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotLearnable {
    /// `learn_cut`: no area lies across this address. `learn_join`: no two areas touch there.
    NoSuchPlace,
    /// `learn_cut`: no unknown attribute of the area can keep its two sides apart.
    NothingUnknown,
    /// `learn_join`: these reasons are certain.
    Certain(Reasons),
    /// Out of memory.
    Memory,
}

impl fmt::Display for NotLearnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotLearnable::NoSuchPlace => f.write_str("no area lies across this address, or no two areas touch there"),
            NotLearnable::NothingUnknown => f.write_str("nothing unknown could keep the two sides apart"),
            NotLearnable::Certain(r) => write!(f, "the two areas are certainly different: {r}"),
            NotLearnable::Memory => f.write_str("out of memory"),
        }
    }
}

impl core::error::Error for NotLearnable {}

impl From<Errno> for NotLearnable {
    fn from(_: Errno) -> Self {
        NotLearnable::Memory
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The kernel has a boundary at `addr` where the model has one area. Cuts the area there, and
    /// settles an unknown attribute so that the two sides stay apart. Returns the reason.
    ///
    /// Call it right after the call that differed, while the model still knows what that call
    /// joined. Call [`AddressSpace::learn_join`] for every missing join first, then `learn_cut` for
    /// the other boundaries in ascending order.
    ///
    /// # Errors
    /// [`NotLearnable`]: the model cannot explain the difference. It stays as it was.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason, Touches};
    /// let mut space = AddressSpace::<FileId>::new(Config { touches: Touches::Unseen, ..Config::default() });
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// space.map(&MapRequest::anonymous(0x12000, 0x1000, Prot::RW)).unwrap();
    /// space.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::RW)).unwrap();
    /// // One area, for all that the model can see. The kernel shows two: the outer ones had been written.
    /// assert_eq!(space.len(), 1);
    /// assert_eq!(space.learn_cut(0x12000), Ok(Reason::AnonymousIdentity));
    /// assert_eq!(space.len(), 2);
    /// ```
    pub fn learn_cut(&mut self, addr: u64) -> Result<Reason, NotLearnable> {
        self.sweep_extras();
        let at = self.area_at(addr).filter(|a| a.start < addr).ok_or(NotLearnable::NoSuchPlace)?;
        let (start, end, whole) = (at.start, at.end, at.area.clone());
        if !whole.can_split(addr) || !self.aligned(addr) {
            return Err(NotLearnable::NothingUnknown);
        }
        // Of several joins at this address (areas that moved one after the other) only the last one
        // is still in place.
        let seam = self.seams.iter().rposition(|s| s.at == addr);
        let (mut left, mut right) = match seam {
            Some(i) => (self.seams[i].left.clone(), self.seams[i].right.clone()),
            None => (whole.clone(), whole.clone()),
        };
        // A cut further left may have settled this boundary too.
        let mut later = seam.map_or(usize::MAX, |i| i.saturating_add(1));
        let reason = match merge::reasons(&left, &right, &self.extras).iter().next() {
            Some(known) => known,
            None => match self.settle(&mut left, &mut right)? {
                Some(learnt) => learnt,
                None => {
                    let learnt = self.settle_next(&mut left, &mut right, later)?;
                    later = later.saturating_add(1);
                    learnt.ok_or(NotLearnable::NothingUnknown)?
                }
            },
        };
        self.set_aside(start, end, 2).map_err(|_| NotLearnable::Memory)?;
        // The joins further right still hold, with the right side as it is known now.
        for s in self.seams.iter_mut().skip(later) {
            if s.at > addr && s.at < end {
                s.left = right.clone();
                right = merge::join(&right, &s.right, &self.extras).unwrap_or(right);
            }
        }
        // Linux unlocked all of the area that a source was in (LEARN-3).
        let charged = self.has(Features::KEEPS_CHARGE);
        for (side, from, to) in [(&mut left, start, addr), (&mut right, addr, end)] {
            if self.emptied.iter().any(|e| from <= e.source && e.source < to) {
                emptied(side, false, charged);
            }
        }
        self.blur(&mut left);
        self.blur(&mut right);
        self.store(start, addr, left)?;
        self.store(addr, end, right)?;
        Ok(reason)
    }

    /// Whether the areas that the last call joined at `addr` are certainly one in the kernel too.
    /// True if it joined none there. If false, [`AddressSpace::learn_cut`] may have to undo the
    /// join. O(joins of the last call).
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Touches};
    /// let mut space =
    ///     AddressSpace::<FileId>::new(Config { touches: Touches::Unseen, ..Config::default() });
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// space.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::RW)).unwrap();
    /// assert!(space.is_join_certain(0x11000)); // new memory was not written before it joined
    /// space.protect(0x10000, 0x1000, Prot::READ, None).unwrap();
    /// space.protect(0x10000, 0x1000, Prot::RW, None).unwrap();
    /// assert!(!space.is_join_certain(0x11000)); // both may have been written while they were apart
    /// ```
    #[must_use]
    pub fn is_join_certain(&self, addr: u64) -> bool {
        let Some(i) = self.seams.iter().rposition(|seam| seam.at == addr) else { return true };
        let (Seam { left, right, .. }, next) = (&self.seams[i], self.seams.get(i + 1));
        let mut anon = (left.anon(), right.anon());
        if let Some(next) = next.filter(|_| anon.1 == Anon::Untouched && self.has(Features::NEXT_WINS)) {
            anon.1 = next.right.anon();
        }
        let may_be_apart = match anon {
            (Anon::Untouched, other) | (other, Anon::Untouched) => matches!(other, Anon::UnknownInherited { .. }),
            _ => true,
        };
        let is_moved = left.unsure.bias.max(right.unsure.bias) != Doubt::Known;
        let is_known = |area: &Area<B>| self.extras.get(area.extra).opened.is_some();
        let may_be_reopened = matches!(left.object, Object::File(_)) && !(is_known(left) && is_known(right));
        let is_private = left.is_private();
        let may_be_charged = left.unsure.account != right.unsure.account;
        !(may_be_charged || is_moved || may_be_reopened || is_private && may_be_apart)
    }

    /// As [`AddressSpace::learn_cut`], for a driver that made several calls since it last compared,
    /// or that does not know their order. The model does not conclude which call joined the two
    /// sides, or their attributes then; it only keeps them apart. In private anonymous memory each
    /// side gets an offset of its own, which [`AddressSpace::learn_join`] can undo. For other
    /// memory this is `learn_cut`.
    ///
    /// # Errors
    /// As [`AddressSpace::learn_cut`].
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason, Touches};
    /// let mut space =
    ///     AddressSpace::<FileId>::new(Config { touches: Touches::Unseen, ..Config::default() });
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// space.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::RW)).unwrap();
    /// space.unmap(0x20000, 0x1000).unwrap(); // a later call: what the one before joined is forgotten
    /// assert_eq!(space.learn_apart(0x11000), Ok(Reason::Offset));
    /// assert_eq!(space.len(), 2);
    /// assert_eq!(space.learn_join(0x11000), Ok(Reason::Offset));
    /// ```
    pub fn learn_apart(&mut self, addr: u64) -> Result<Reason, NotLearnable> {
        let at = self.area_at(addr).filter(|a| a.start < addr).ok_or(NotLearnable::NoSuchPlace)?;
        let (start, end, whole) = (at.start, at.end, at.area.clone());
        if !whole.is_anonymous() || !whole.is_private() {
            return self.learn_cut(addr);
        }
        if !whole.can_split(addr) || !self.aligned(addr) {
            return Err(NotLearnable::NothingUnknown);
        }
        self.sweep_extras();
        self.set_aside(start, end, 2).map_err(|_| NotLearnable::Memory)?;
        self.forget_last_call();
        for (start, end) in [(start, addr), (addr, end)] {
            let mut side = whole.clone();
            side.bias = (1 << 63) | self.fresh_id();
            side.unsure.bias = Doubt::Known;
            self.store(start, end, side)?;
        }
        Ok(Reason::Offset)
    }

    /// Forgets facts that depend on the order of calls and that no comparison shows, in all areas
    /// that meet `[start, end)`. For a driver that has made calls in an order that may be wrong,
    /// and compared only after the last. The facts are: whether private memory was written, whether
    /// read-only memory is charged, and, if memory was `moved` in this space at any time, the
    /// offset of anonymous memory. `forked`: the space is a forked child's, so the memory may be
    /// inherited. All of it can be learnt again.
    ///
    /// # Errors
    /// ENOMEM: out of memory. The areas stay as they were.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason, Touches};
    /// let mut space =
    ///     AddressSpace::<FileId>::new(Config { touches: Touches::Unseen, ..Config::default() });
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ)).unwrap();
    /// // Another thread may have made it writable for a while, and written: then it is charged.
    /// space.unlearn(0x10000, 0x11000, false, false).unwrap();
    /// space.map(&MapRequest::anonymous(0x11000, 0x1000, Prot::READ)).unwrap();
    /// assert_eq!(space.learn_cut(0x11000), Ok(Reason::Accounting));
    /// ```
    pub fn unlearn(&mut self, start: u64, end: u64, moved: bool, forked: bool) -> Result<(), Errno> {
        self.set_aside(start, end, 1)?;
        self.forget_last_call();
        let mut at = start;
        while let Some(a) = self.area_at_or_after(at).filter(|a| a.start < end && at < end) {
            let (from, to, mut area) = (a.start, a.end, a.area.clone());
            at = to;
            if !area.has_own_pages() || area.is_special() {
                continue;
            }
            let id = match area.anon() {
                Anon::Identity { id, inherited: true } | Anon::UnknownInherited { id } => Some(id),
                _ => forked.then(|| self.fresh_id()),
            };
            area.set_anon(id.map_or(Anon::Unknown, |id| Anon::UnknownInherited { id }));
            area.unsure.account |= accountable(area.flags | Flags::WRITE) && !area.flags.contains(Flags::WRITE);
            if moved && area.is_anonymous() {
                area.unsure.bias = Doubt::Any;
            }
            // Replaces one whole entry.
            self.store(from, to, area)?;
        }
        Ok(())
    }

    /// Forgets the last call, which [`AddressSpace::learn_cut`] and [`AddressSpace::learn_join`]
    /// use.
    #[inline]
    pub(crate) fn forget_last_call(&mut self) {
        self.seams.clear();
        self.emptied.clear();
    }

    /// The kernel has one area where the model has two that touch at `addr`. Joins them if only
    /// assumptions keep them apart (an identity, an open file, a charge, the offset of anonymous
    /// memory). Returns the assumption that was wrong.
    ///
    /// Locked memory that the last call copied, and left in place unlocked (MREMAP_DONTUNMAP), may
    /// have joined its copy before it was unlocked: then the whole joined area is unlocked.
    ///
    /// # Errors
    /// [`NotLearnable`]: something certain keeps them apart. The model stays as it was.
    pub fn learn_join(&mut self, addr: u64) -> Result<Reason, NotLearnable> {
        let (l, r) = self.pair(addr).ok_or(NotLearnable::NoSuchPlace)?;
        let why = merge::reasons(l.area, r.area, &self.extras);
        let mut assumed: Reasons =
            [Reason::AnonymousIdentity, Reason::AnonymousOffset, Reason::OpenFile].into_iter().collect();
        assumed.add(Reason::Accounting, !(l.area.flags ^ r.area.flags).contains(Flags::NORESERVE));
        assumed.add(Reason::Offset, l.area.is_anonymous() && l.area.bias != r.area.bias);
        let unlocked = why.contains(Reason::Lock) && self.joined_before_unlock(addr, &l, &r);
        assumed.add(Reason::Lock, unlocked);
        let certain = why.without(assumed);
        if !certain.is_empty() {
            return Err(NotLearnable::Certain(certain));
        }
        let mut one = assumed_one(l.area, r.area, &self.extras);
        if unlocked {
            emptied(&mut one, false, self.has(Features::KEEPS_CHARGE));
        }
        let (start, end, left, right) = (l.start, r.end, l.area.clone(), r.area.clone());
        self.set_aside(start, end, 1).map_err(|_| NotLearnable::Memory)?;
        let counted = self.counters.locked;
        self.store(start, end, one)?;
        if unlocked {
            self.stray_locked = self.stray_locked.saturating_add(counted.saturating_sub(self.counters.locked));
        }
        // Joins of this call with either side are remembered as joins with both. If a new map
        // joined the wrong neighbour, its other boundary can be learnt now.
        for s in self.seams.iter_mut().filter(|s| start < s.at && s.at < end) {
            if s.at > addr {
                s.left = assumed_one(&left, &s.left, &self.extras);
            } else {
                s.right = assumed_one(&s.right, &right, &self.extras);
            }
        }
        Ok(why.iter().next().unwrap_or(Reason::AnonymousIdentity))
    }

    /// Whether two areas that touch at an end of a copy may have been joined there while both were
    /// locked: one of them has lost its lock since, as the area of a source (LEARN-3).
    fn joined_before_unlock(&self, addr: u64, l: &Placed<'_, B>, r: &Placed<'_, B>) -> bool {
        let unlocked = if l.area.flags.intersects(Flags::LOCK) { r } else { l };
        let later = self.emptied.iter().skip_while(|e| addr != e.copy.0 && addr != e.copy.1);
        let holds = |e: &Emptied| unlocked.start <= e.source && e.source < unlocked.end;
        !unlocked.area.flags.intersects(Flags::LOCK) && later.into_iter().any(holds)
    }

    /// Unmaps `[start, end)` within a call that may have joined areas before. A part of such an
    /// area that stays next to the range may no longer hold the join. The part then takes the
    /// attributes that its own side had before, because whether the kernel joined the two can no
    /// longer be seen. (If it did, the part may have the other side's [`Flags::STICKY`] too.)
    pub(crate) fn unmap_joined(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        if self.seams.is_empty() {
            return self.unmap_range(start, end, plan);
        }
        let left = self.area_at(start).map(|a| (a.start, a.end)).filter(|a| a.0 < start);
        let right = self.area_at(end - 1).map(|a| (a.start, a.end)).filter(|a| a.1 > end);
        self.unmap_range(start, end, plan)?;
        for (whole, part) in [left.map(|a| (a, (a.0, start))), right.map(|a| (a, (end, a.1)))].into_iter().flatten() {
            if let Some(mut former) = self.before_joins(whole, part) {
                self.blur(&mut former);
                // Replaces one whole entry, which needs no memory.
                self.store(part.0, part.1, former)?;
            }
        }
        let gone = self.seams.partition_point(|s| s.at < start)..self.seams.partition_point(|s| s.at <= end);
        self.seams.drain(gone);
        Ok(())
    }

    /// The attributes of `[start, end)`, a part of the former area `whole`, without the joins
    /// outside of the part; `None` if this call joined nothing in `whole`. Updates the sides of the
    /// joins inside the part.
    ///
    /// A move goes upwards, so joins are in ascending order: of the two joins around a part, the
    /// lower one came first.
    fn before_joins(&mut self, whole: (u64, u64), (start, end): (u64, u64)) -> Option<Area<B>> {
        let at = |seams: &[Seam<B>], limit| seams.partition_point(|s| s.at < limit);
        let (first, last) = (at(&self.seams, whole.0 + 1), at(&self.seams, whole.1));
        let within = self.seams.get_mut(first..last).filter(|within| !within.is_empty())?;
        let below = at(within, start + 1);
        let (lower, upper) = within.split_at_mut(below);
        let mut one = match (lower.last(), upper.first()) {
            (Some(s), _) => s.right.clone(),
            (None, Some(s)) => s.left.clone(),
            (None, None) => return None,
        };
        for s in upper.iter_mut().take_while(|s| s.at < end) {
            s.left = one.clone();
            one = merge::join(&one, &s.right, &self.extras).unwrap_or(one);
        }
        Some(one)
    }

    /// Makes two sides that could be one differ in an unknown attribute. Returns the reason; `None`
    /// if nothing is unknown.
    fn settle(&mut self, l: &mut Area<B>, r: &mut Area<B>) -> Result<Option<Reason>, NotLearnable> {
        if l.unsure.account != r.unsure.account {
            // The neighbour is charged. Either this side lost its charge, or both were written
            // separately; then nothing follows for the charge.
            let charged = if l.unsure.account { r.flags } else { l.flags }.contains(Flags::ACCOUNT);
            let one = matches!(
                (l.anon(), r.anon()),
                (Anon::Untouched, _) | (_, Anon::Untouched) | (Anon::Identity { .. }, Anon::Identity { .. })
            );
            if charged && l.is_private() && !one && self.settle_anon(l, r) {
                return Ok(Some(Reason::AnonymousIdentity));
            }
            let (unsure, sure) = if l.unsure.account { (l, r) } else { (r, l) };
            unsure.unsure.account = false;
            unsure.flags.set(Flags::ACCOUNT, !sure.flags.contains(Flags::ACCOUNT));
            if unsure.flags.contains(Flags::ACCOUNT) {
                // It kept its charge, so it was written.
                unsure.set_anon(self.written(unsure.anon()));
            }
            return Ok(Some(Reason::Accounting));
        }
        if l.unsure.bias.max(r.unsure.bias) != Doubt::Known {
            return Ok(Some(self.settle_bias(l, r)));
        }
        let never_written = l.is_private() && !(l.flags | r.flags).contains(Flags::WRITE);
        let is_file = matches!(l.object, Object::File(_));
        if is_file && (!l.is_private() || never_written) && self.settle_open(l, r)? {
            return Ok(Some(Reason::OpenFile));
        }
        if l.is_private() && self.settle_anon(l, r) {
            return Ok(Some(Reason::AnonymousIdentity));
        }
        Ok((is_file && self.settle_open(l, r)?).then_some(Reason::OpenFile))
    }

    /// As `settle`, for new memory that has joined both of its neighbours while the next one wins
    /// ([`Features::NEXT_WINS`]): the left neighbour is apart from the right one. `next` is the
    /// seam with the right one.
    fn settle_next(
        &mut self,
        left: &mut Area<B>,
        right: &mut Area<B>,
        next: usize,
    ) -> Result<Option<Reason>, NotLearnable> {
        let seam = if self.has(Features::NEXT_WINS) { self.seams.get(next) } else { None };
        let Some(mut both) = seam.and_then(|s| merge::join(right, &s.right, &self.extras)) else { return Ok(None) };
        let learnt = self.settle(left, &mut both)?;
        if learnt.is_some()
            && let Some(seam) = self.seams.get_mut(next)
        {
            seam.left = core::mem::replace(right, both);
        }
        Ok(learnt)
    }

    /// Moved memory kept its offset if it was written, and lost it if not. So the side that stays
    /// apart was written. If it moved more than once, its offset is not known: it gets a new bias.
    fn settle_bias(&mut self, l: &mut Area<B>, r: &mut Area<B>) -> Reason {
        let any = l.unsure.bias.max(r.unsure.bias) == Doubt::Any;
        let unsure = [&mut *l, &mut *r].map(|a| a.unsure.bias != Doubt::Known && (!any || a.unsure.bias == Doubt::Any));
        for (a, _) in [&mut *l, &mut *r].into_iter().zip(unsure).filter(|(_, unsure)| *unsure) {
            a.unsure.bias = Doubt::Known;
            a.set_anon(self.written(a.anon()));
        }
        if !any && l.bias != r.bias {
            return Reason::Offset;
        }
        if !any && merge::common_anon(l.anon(), r.anon()).is_none() {
            return Reason::AnonymousIdentity;
        }
        for (a, _) in [&mut *l, &mut *r].into_iter().zip(unsure).filter(|(_, unsure)| *unsure) {
            a.bias = (1 << 63) | self.fresh_id();
        }
        Reason::Offset
    }

    fn settle_open(&mut self, l: &mut Area<B>, r: &mut Area<B>) -> Result<bool, NotLearnable> {
        let opened = [&*l, &*r].map(|a| self.extras.get(a.extra).opened);
        if let [Some(a), Some(b)] = opened {
            return Ok(a != b);
        }
        for (a, _) in [l, r].into_iter().zip(opened).filter(|(_, opened)| opened.is_none()) {
            let id = self.fresh_id();
            a.extra = self.extras.edited(a.extra, |extras| extras.opened = Some(id))?;
        }
        Ok(true)
    }

    fn settle_anon(&mut self, l: &mut Area<B>, r: &mut Area<B>) -> bool {
        use Anon::{Identity, Unknown, UnknownInherited, Untouched};
        let inherit = |id| Identity { id, inherited: true };
        let mut known = (l.anon(), r.anon());
        match known {
            // A new map, or one that was never written: only an inherited neighbour stays apart
            // from it.
            (UnknownInherited { id }, Untouched) => known.0 = inherit(id),
            (Untouched, UnknownInherited { id }) => known.1 = inherit(id),
            (Untouched, _) | (_, Untouched) => return false,
            // The common identity was only inferred: each part was written later.
            (Identity { .. }, Identity { .. }) => known.1 = self.written(Unknown),
            // In a child, the inherited side was written before the fork; nothing follows for the
            // other side.
            (UnknownInherited { id }, Unknown | Identity { inherited: false, .. }) => known.0 = inherit(id),
            (Unknown | Identity { inherited: false, .. }, UnknownInherited { id }) => known.1 = inherit(id),
            // Two areas that came through the fork, or parts of one: each was written separately.
            (UnknownInherited { id: a }, UnknownInherited { id: b }) if a != b => known = (inherit(a), inherit(b)),
            (UnknownInherited { .. } | Unknown, UnknownInherited { .. } | Unknown) => {
                known = (self.written(Unknown), self.written(Unknown));
            }
            (Identity { .. }, _) => known.1 = self.written(Unknown),
            (_, Identity { .. }) => known.0 = self.written(Unknown),
        }
        l.set_anon(known.0);
        r.set_anon(known.1);
        true
    }

    /// The identity of memory that is now known to be written.
    fn written(&mut self, anon: Anon) -> Anon {
        match anon {
            Anon::Identity { .. } => anon,
            Anon::UnknownInherited { id } => Anon::Identity { id, inherited: true },
            Anon::Unknown | Anon::Untouched => Anon::Identity { id: self.fresh_id(), inherited: false },
        }
    }
}

/// The one area that two become, if they differ only in assumptions.
fn assumed_one<B: Eq + Clone>(l: &Area<B>, r: &Area<B>, table: &Table) -> Area<B> {
    let why = merge::reasons(l, r, table);
    let mut one = l.clone();
    one.flags |= r.flags & (Flags::STICKY | Flags::ACCOUNT);
    one.unsure.account |= why.contains(Reason::Accounting);
    if why.contains(Reason::Offset) {
        one.unsure.bias = Doubt::Any;
    }
    one.set_anon(match (l.anon(), r.anon()) {
        (a, b) if merge::common_anon(a, b).is_some() => merge::common_anon(a, b).unwrap_or(a),
        (a @ Anon::Identity { inherited: false, .. }, _) | (_, a @ Anon::Identity { inherited: false, .. }) => a,
        _ => Anon::Unknown,
    });
    one
}
