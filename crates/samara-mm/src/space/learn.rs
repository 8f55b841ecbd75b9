//! Learning: putting the model right where the kernel knows what its driver cannot see (writes, and
//! which file was opened).
//!
//! Where writes are unseen ([`Touches::Unseen`](crate::Touches::Unseen)) the model joins areas if
//! any history would let it. After each call the driver compares with the kernel, and for a
//! boundary that only one of the two has calls `learn_cut` or `learn_join`.
//!
//! How far it goes: what is learnt is exact for the areas on both sides of that boundary, and for
//! their parts, for as long as they live: an identity is never lost, and a new map beside either
//! merges with it as in the kernel. Nothing is inferred of areas elsewhere: two areas that were
//! learnt apart from a third are not known to be apart from one another, and that again shows as a
//! boundary that can be learnt.
//!
//! What cannot be learnt: whether *locked* memory that moved away with DONTUNMAP has joined its
//! copy (the lock decides, and is certain by then). And a new map that the kernel joined with one
//! neighbour, where the model, by what it had assumed of that neighbour, joined the other one, is
//! learnt in this order only: `learn_join` first. A new map alone has no identity to differ by, and
//! `learn_cut` says [`NotLearnable::NothingUnknown`].
//!
//! Where moved memory is now (its offset) is known after one move but for whether it was written;
//! after another one it may be anything, joins anything, and what is learnt apart gets an offset of
//! its own.
//!
//! Of two answers that both explain a boundary, the one that keeps more apart is taken:
//! `learn_join` can take it back, where `learn_cut` could not.
//!
//! - **LEARN-1** `seams` holds the joins of the last call in order, each with both sides as they
//!   were before it. Whatever else changes an area (`import`, `forget`, `grow_down`, `learn_apart`)
//!   empties it; `edit_objects` edits it.
//! - **LEARN-2** Only `mremap` empties a place that it may have joined before (`unmap_joined`).
//!   What is left there can no longer show whether the kernel made those joins: each part is then
//!   known by its own side of them, and `seams` keeps the joins that can still be seen.

use crate::area::extras::Table;
use crate::area::flags::Flags;
use crate::area::merge;
use crate::area::reasons::{Reason, Reasons};
use crate::area::{Anon, Area, Backing, Doubt, Object};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::plan::Plan;
use core::fmt;

/// A join that the last call made at `at`.
#[derive(Clone, Debug)]
pub(crate) struct Seam<B> {
    pub(crate) at: u64,
    pub(crate) left: Area<B>,
    pub(crate) right: Area<B>,
}

/// Why a difference cannot be learnt. The model is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotLearnable {
    /// `learn_cut`: no area lies across this address. `learn_join`: no two areas touch there.
    NoSuchPlace,
    /// `learn_cut`: nothing that is unknown about the area could keep its two sides apart.
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

impl<B: Backing> AddressSpace<B> {
    /// The kernel has a boundary at `addr` where the model has one area: cuts there, and settles
    /// what was unknown so that the two sides stay apart. Returns the reason.
    ///
    /// Call it right after the call that differed, when the model still knows what it joined;
    /// several boundaries in ascending order, after what [`AddressSpace::learn_join`] has to
    /// join.
    ///
    /// # Errors
    /// [`NotLearnable`]: a difference that the model cannot explain. The model is as it was.
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
        // Of several joins there (of areas that moved one after the other) only the last one is still in
        // place.
        let seam = self.seams.iter().rposition(|s| s.at == addr);
        let (mut left, mut right) = match seam {
            Some(i) => (self.seams[i].left.clone(), self.seams[i].right.clone()),
            None => (whole.clone(), whole.clone()),
        };
        // A cut further left may have settled this one too.
        let reason = match merge::reasons(&left, &right, &self.extras).iter().next() {
            Some(known) => known,
            None => self.settle(&mut left, &mut right)?.ok_or(NotLearnable::NothingUnknown)?,
        };
        self.set_aside(start, end, 2).map_err(|_| NotLearnable::Memory)?;
        // What the call joined further right is still joined, to the right side as it is known now.
        for s in self.seams.iter_mut().skip(seam.map_or(usize::MAX, |i| i.saturating_add(1))) {
            if s.at > addr && s.at < end {
                s.left = right.clone();
                right = merge::join(&right, &s.right, &self.extras).unwrap_or(right);
            }
        }
        self.blur(&mut left);
        self.blur(&mut right);
        self.store(start, addr, left)?;
        self.store(addr, end, right)?;
        Ok(reason)
    }

    /// As [`AddressSpace::learn_cut`], where several calls have been made since the driver last
    /// compared, or in an order that nobody knows: which call joined the two sides, and what
    /// they were then, is not concluded. They are apart, and that is all. Of private anonymous
    /// memory each side gets a place of its own in its object, which [`AddressSpace::learn_join`]
    /// can take back; of other memory this is `learn_cut`.
    ///
    /// # Errors
    /// As `learn_cut`.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Reason, Touches};
    /// let mut space = AddressSpace::<FileId>::new(Config { touches: Touches::Unseen, ..Config::default() });
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
        self.seams.clear();
        for (start, end) in [(start, addr), (addr, end)] {
            let mut side = whole.clone();
            side.bias = (1 << 63) | self.fresh_id();
            side.unsure.bias = Doubt::Known;
            self.store(start, end, side)?;
        }
        Ok(Reason::Offset)
    }

    /// The kernel has one area where the model has two that touch at `addr`: joins them, if what
    /// keeps them apart is only what was assumed (an identity, an open file, a charge). Returns
    /// the assumption that was wrong.
    ///
    /// # Errors
    /// [`NotLearnable`]: something certain keeps them apart. The model is as it was.
    pub fn learn_join(&mut self, addr: u64) -> Result<Reason, NotLearnable> {
        let (l, r) = self.pair(addr).ok_or(NotLearnable::NoSuchPlace)?;
        let why = merge::reasons(l.area, r.area, &self.extras);
        let mut assumed: Reasons = [Reason::AnonymousIdentity, Reason::OpenFile].into_iter().collect();
        assumed.add(Reason::Accounting, !(l.area.flags ^ r.area.flags).contains(Flags::NORESERVE));
        assumed.add(Reason::Offset, l.area.is_anonymous() && l.area.bias != r.area.bias);
        let certain = why.without(assumed);
        if !certain.is_empty() {
            return Err(NotLearnable::Certain(certain));
        }
        let one = assumed_one(l.area, r.area, &self.extras);
        let (start, end, left, right) = (l.start, r.end, l.area.clone(), r.area.clone());
        self.set_aside(start, end, 1).map_err(|_| NotLearnable::Memory)?;
        self.store(start, end, one)?;
        // What this call joined to either is remembered as joined to both: of a new map that joined the
        // wrong neighbour, the other boundary can be learnt now.
        for s in self.seams.iter_mut().filter(|s| start < s.at && s.at < end) {
            if s.at > addr {
                s.left = assumed_one(&left, &s.left, &self.extras);
            } else {
                s.right = assumed_one(&s.right, &right, &self.extras);
            }
        }
        Ok(why.iter().next().unwrap_or(Reason::AnonymousIdentity))
    }

    /// Unmaps `[start, end)` within a call that may have joined areas before. A part of such an
    /// area that stays beside the range may no longer hold the join: it is then known as its
    /// own side was before, because whether the kernel joined the two cannot be seen any more.
    pub(crate) fn unmap_joined(&mut self, start: u64, end: u64, plan: &mut Plan) -> Result<(), Errno> {
        if self.seams.is_empty() {
            return self.unmap_range(start, end, plan);
        }
        let left = self.area_at(start).map(|a| (a.start, a.end)).filter(|a| a.0 < start);
        let right = self.area_at(end - 1).map(|a| (a.start, a.end)).filter(|a| a.1 > end);
        self.unmap_range(start, end, plan)?;
        for (whole, part) in [left.map(|a| (a, (a.0, start))), right.map(|a| (a, (end, a.1)))].into_iter().flatten() {
            if let Some(mut alone) = self.known_alone(whole, part) {
                self.blur(&mut alone);
                // It takes the place of one whole entry, for which no memory is needed.
                self.store(part.0, part.1, alone)?;
            }
        }
        let gone = self.seams.partition_point(|s| s.at < start)..self.seams.partition_point(|s| s.at <= end);
        self.seams.drain(gone);
        Ok(())
    }

    /// What `[start, end)`, a part of what was one area, is without the joins outside of it; `None`
    /// if this call joined nothing there. The sides of the joins inside follow.
    ///
    /// A move goes upwards, so joins are in ascending order, and the first join of what lies
    /// between two of them is the lower one.
    fn known_alone(&mut self, whole: (u64, u64), (start, end): (u64, u64)) -> Option<Area<B>> {
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

    /// Makes two sides that could be one differ in something that is not known of them.
    fn settle(&mut self, l: &mut Area<B>, r: &mut Area<B>) -> Result<Option<Reason>, NotLearnable> {
        if l.unsure.account != r.unsure.account {
            // Beside a neighbour that is charged it lost its charge, or both were written, each by itself: then
            // nothing follows for the charge.
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

    /// Moved memory kept its offset if it was written, and lost it if not. What stays apart was
    /// written, and where it has been more than one place, at a place that is not known: its
    /// bias is then a new one.
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
            // A new map, or one that never was written: only an inherited neighbour keeps off it.
            (UnknownInherited { id }, Untouched) => known.0 = inherit(id),
            (Untouched, UnknownInherited { id }) => known.1 = inherit(id),
            (Untouched, _) | (_, Untouched) => return false,
            // One identity, and yet apart: it was only inferred, and each part was written later.
            (Identity { .. }, Identity { .. }) => known.1 = self.written(Unknown),
            // In a child: the inherited side was written before the fork; of the other nothing follows.
            (UnknownInherited { id }, Unknown | Identity { inherited: false, .. }) => known.0 = inherit(id),
            (Unknown | Identity { inherited: false, .. }, UnknownInherited { id }) => known.1 = inherit(id),
            // Two that came through the fork, or parts of one: each was written, apart.
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

    /// The state of memory that is now known to be written.
    fn written(&mut self, anon: Anon) -> Anon {
        match anon {
            Anon::Identity { .. } => anon,
            Anon::UnknownInherited { id } => Anon::Identity { id, inherited: true },
            Anon::Unknown | Anon::Untouched => Anon::Identity { id: self.fresh_id(), inherited: false },
        }
    }
}

/// The one area that two are, of which only assumptions differ.
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
