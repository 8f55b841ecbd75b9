//! `mremap` that moves memory: locks the old and the new range.
//!
//! Knows the order of the steps, which are those of `search` with two ranges. The placement has the
//! rules of a search, `AddressSpace` those of the call.
//!
//! - **MOVES-1** Memory that moves here neither grows down nor keeps a guard range, so PLACE-3 and
//!   PLACE-4 hold for the new place; PLACE-6 is about the old one. Calls that duplicate memory, or
//!   leave the old range mapped, take the whole space: they also count the memory that stays.
//! - **MOVES-2** The window of the old range reaches up to the new length, so a call sees whether
//!   it may grow in place.

use crate::area::{Anon, Area, Backing, Object};
use crate::calls::mremap::RemapFlags;
use crate::shared::SharedAddressSpace;
use crate::shared::credit::Growth;
use crate::shared::held::Held;
use crate::shared::range_lock::{Mode, Spans};
use crate::shared::record::Registration;
use crate::shared::search::{At, LOCKS, Look, Moving, Places, keeps_guard};
use crate::shared::update::{Answering, Apply, Attempt, NONE, Reach};
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::place::{Placement, Want};
use crate::space::plan::Plan;
use core::time::Duration;
use samara::{PinHere, Reclaim, Span};

/// A request to move memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) old: u64,
    pub(crate) old_len: u64,
    pub(crate) new_len: u64,
    pub(crate) flags: RemapFlags,
    /// The new address, with FIXED.
    pub(crate) to: u64,
}

/// The windows of a move, disjoint and ascending, and the ranges to lock.
struct Around {
    windows: [(u64, u64); 2],
    spans: Spans,
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// `mremap` that moves memory. `None`: it needs the whole space; nothing has happened.
    pub(crate) fn update_move<'s>(
        &'s self,
        thread: &mut Registration<'s, B, R, W>,
        request: Move,
        places: &mut Places<'_, B>,
        placement: &mut impl Placement<B>,
        deadline: Option<Duration>,
        apply: &mut Apply<'_>,
    ) -> Option<Result<(u64, Plan), Error>> {
        let Move { old, old_len, new_len, flags, .. } = request;
        let fixed = flags.contains(RemapFlags::FIXED);
        if old_len == 0 || new_len == 0 || flags.contains(RemapFlags::DONTUNMAP) {
            return None; // MOVES-1
        }
        let (record, writer) = match thread.with_writer() {
            Ok(taken) => taken,
            Err(short) => return Some(Err(short.into())),
        };
        if self.config.features.contains(Features::ANON_OFFSET_OF_FILES) && self.holds_pages_of_files(old, old_len) {
            return None; // their extras change
        }
        let source = self.reach(old, old_len.max(new_len)); // MOVES-2
        let mut want = self.want_of(&request, places)?;
        let mut look = self.look_for(&request, placement, &want);
        for _ in 0..LOCKS {
            let around = self.around_move(&source, look.place?, &want, fixed)?;
            let mut held = match Held::wait(self, record, around.spans, Mode::Change, deadline, W::PATIENCE) {
                Ok(held) => held,
                Err(late) => return Some(Err(late.into())),
            };
            // The memory exists twice for a moment.
            let growth = Growth { bytes: want.len, areas: 0, locks: true };
            match held.admit(&growth) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(short) => return Some(Err(short.into())),
            }
            // Under the lock the source does not change any more.
            let now_wanted = self.want_of(&request, places)?;
            if now_wanted != want {
                want = now_wanted;
                look = self.look_for(&request, placement, &want);
                continue;
            }
            if !fixed {
                look = self.look_again(look, placement, &want, 0)?;
            }
            let place = look.place?;
            let now = self.around_move(&source, place, &want, fixed)?;
            if !covers(around.spans, now.spans) {
                continue;
            }
            if self.holds_pages_of_files(old, old_len) {
                self.map.tree().note_move(); // FAMILY-2
            }
            let reach = Reach { growth, ..source };
            let mut call = Answering::new(|space: &mut AddressSpace<B>| {
                Some(space.mremap((old, old_len), new_len, flags, request.to, &mut At(place)))
            });
            let moving = (!fixed).then(|| Moving::begin(&self.moving));
            let mut last = None;
            let mut confirm = || {
                if fixed {
                    return true;
                }
                last = self.look_again(look, placement, &want, 1);
                last.is_some_and(|look| look.place == Some(place))
            };
            let done = self.attempt(held, writer, now.windows, &reach, apply, &mut call, false, &mut confirm);
            drop(moving);
            match done {
                Attempt::Done => return Some(call.after(Ok(()))),
                Attempt::Failed(errno) => return Some(Err(errno.into())),
                Attempt::Outdated => look = last?,
                Attempt::NotHere | Attempt::Misfit => return None,
            }
        }
        None
    }

    /// The request to the placement. `None`: the move needs the whole space, or is refused.
    fn want_of(&self, request: &Move, places: &mut Places<'_, B>) -> Option<Want> {
        let guard = self.map.pin();
        let (span, area) = guard.get(request.old)?;
        let last = request.old.saturating_add(request.old_len - 1).max(request.old);
        if guard.range(Span::new(request.old, last)).any(|(_, area)| keeps_guard(area.flags)) {
            return None; // MOVES-1
        }
        let page = self.config.page_size.bytes();
        let new_len = request.new_len.checked_add(page - 1)? & !(page - 1);
        Some(self.config.want_of_move(area, span.first, request.old, new_len, 0, places))
    }

    /// Whether an area of a file in this range may have pages of its own.
    fn holds_pages_of_files(&self, old: u64, old_len: u64) -> bool {
        let may_hold = |area: &Area<B>| matches!(area.object, Object::File(_)) && area.anon() != Anon::Untouched;
        self.map.pin().range(Span::new(old, old.saturating_add(old_len - 1))).any(|(_, area)| may_hold(area))
    }

    fn look_for(&self, request: &Move, placement: &mut impl Placement<B>, want: &Want) -> Look {
        if request.flags.contains(RemapFlags::FIXED) {
            return Look::at(request.to);
        }
        self.look(placement, want)
    }

    /// The windows of a move to `place`. `None`: the place leaves user space.
    fn around_move(&self, source: &Reach, place: u64, want: &Want, fixed: bool) -> Option<Around> {
        let page = self.config.page_size.bytes();
        place.checked_add(want.len).filter(|end| *end <= self.config.task_size)?;
        let target = self.reach(place, want.len);
        let from = self.window_of(source);
        let from_span = Span::new(from.0.saturating_sub(page), from.1.saturating_add(page) - 1);
        let to = self.around(target, &Want { huge: want.huge.filter(|_| !fixed), ..*want });
        let is_apart = from_span.last < to.span.first || to.span.last < from_span.first;
        if !is_apart {
            let window = (from.0.min(to.window.0), from.1.max(to.window.1));
            let span = Span::new(from_span.first.min(to.span.first), from_span.last.max(to.span.last));
            return Some(Around { windows: [window, NONE], spans: Spans::one(span) });
        }
        let windows = if from.0 < to.window.0 { [from, to.window] } else { [to.window, from] };
        Some(Around { windows, spans: Spans { first: from_span, second: Some(to.span) } })
    }
}

/// Whether a lock of `held` covers `needed`.
fn covers(held: Spans, needed: Spans) -> bool {
    let has = |outer: Span, inner: Span| outer.first <= inner.first && inner.last <= outer.last;
    let covered = |inner: Span| has(held.first, inner) || held.second.is_some_and(|outer| has(outer, inner));
    covered(needed.first) && needed.second.is_none_or(covered)
}
