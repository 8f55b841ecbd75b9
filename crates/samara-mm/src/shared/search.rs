//! `mmap` without a given address: searches the shared tree for a place, and locks the range around
//! it.
//!
//! Knows the order of the steps. The placement has the rules of a search, `AddressSpace` those of
//! the call. The order is:
//!
//! 1. Search the shared tree, while others change it. The answer may be wrong.
//! 2. Wait for the range lock around that place (PLACE-2).
//! 3. Search again, at one instant (INSTANT-2), unless nothing was published since the first
//!    search. If the lock does not cover the new answer, release it, and go back to step 2 with
//!    that answer.
//! 4. Update at this place (`update`). When the place is marked, search once more, unless nothing
//!    was published. If the answer is another place, go back to step 2 with that.
//!
//! The fast path comes first: it maps in the leaf that has the place (`leaf`). The lock of the
//! leaf's parent serves as the range lock. If other calls have outdated a thread's last search, and
//! anything was published since this one, the call searches again under that lock, and maps at the
//! new answer if that is in the same leaf. So threads that map at the same place queue for the
//! lock, and do not outdate one another's answers.
//!
//! - **PLACE-1** The call is ordered at the instant of its last search, when it holds its lock and
//!   its place is marked. An update that publishes after that instant is ordered later, even if it
//!   publishes before this call. Their windows do not meet, so both give the same answers in either
//!   order, unless the other one searches too. A fault at the place is over before that instant, or
//!   waits.
//! - **PLACE-2** The lock covers the window of the place. If huge pages are wanted, it also covers
//!   one huge page on either side. So it covers all addresses that the answer depends on
//!   ([`Placement::place_among`]), and the new map.
//! - **PLACE-3** A search misses the maps of searching calls that are ordered before it and not
//!   published yet. These calls hold their locks, so their maps are apart from all addresses that
//!   the answer depends on. The maps do not grow down (`reach_of_map_at`), and PLACE-4 holds for
//!   them. So the answer would be the same if the search saw them (OCCUPIED-1).
//! - **PLACE-4** From the last search until the lock is released, the place is in no guard range of
//!   an area that grows down. The search looks for such areas above it. Later none appears: a stack
//!   that grows locks its new guard range (`faults`); a stack that is cut or unmapped starts higher
//!   up than before; and calls that make a new one take the whole space.
//! - **PLACE-5** A call that finds no place takes the whole space, because a call under way may be
//!   refused, or may free a place.
//! - **PLACE-6** A move that searches (`moves`) is ordered at its last search, but its old range
//!   becomes free only when it publishes. So it counts itself in `moving` from before that search
//!   until it is done. A search looks at the count after it has read the tree, and before it
//!   confirms the instant. If another move is counted, the call takes the whole space, and so waits
//!   for the move. Otherwise each move was published before the instant, or is ordered after this
//!   call.

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::area::huge_places::HugePlaces;
use crate::calls::mmap::MapRequest;
use crate::shared::SharedAddressSpace;
use crate::shared::held::{Held, IN_LINE};
use crate::shared::instant::Instant;
use crate::shared::range_lock::{Mode, Spans};
use crate::shared::record::Registration;
use crate::shared::sync::{AtomicU64, Ordering, fence};
use crate::shared::update::{Answering, Apply, Attempt, NONE, Reach, STAGES};
use crate::shared::views::Maps;
use crate::shared::wait::Wait;
use crate::space::error::Error;
use crate::space::occupied::Occupied;
use crate::space::place::{Placement, Want};
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Config};
use core::cell::{Cell, RefCell};
use core::time::Duration;
use samara::{GapQuery, PinHere, Reclaim, Span};

/// Maximum number of range locks that a call takes in turn, because the search finds another place
/// under each. Then it takes the whole space.
pub(crate) const LOCKS: u32 = 4;
/// Maximum number of searches until one sees a single instant. Then the call takes the whole space.
const LOOKS: u32 = 128;

/// Returns which addresses a file prefers: [`Backing::huge_places`], or the embedder's answer.
pub(crate) type Places<'a, B> = dyn FnMut(&B) -> HugePlaces + 'a;

/// The answer of a search, and the instant when it began (`None`: a publication was under way).
#[derive(Clone, Copy)]
pub(crate) struct Look {
    instant: Option<Instant>,
    pub(crate) place: Option<u64>,
}

impl Look {
    /// A place that is given.
    pub(crate) fn at(place: u64) -> Self {
        Look { instant: None, place: Some(place) }
    }
}

/// Counts a move that searches in `moving` until this is dropped (PLACE-6).
pub(crate) struct Moving<'s>(&'s AtomicU64);

impl<'s> Moving<'s> {
    pub(crate) fn begin(moving: &'s AtomicU64) -> Self {
        moving.fetch_add(1, Ordering::SeqCst); // with the load in `look_again`
        Moving(moving)
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst); // with the load in `look_again`
    }
}

/// The window around a place, and the range to lock.
pub(crate) struct Around {
    reach: Reach,
    pub(crate) window: (u64, u64),
    /// The range to lock (PLACE-2).
    pub(crate) span: Span,
}

/// The range lock of this round, wider in each. Other threads that map and unmap beside the place
/// move it by a few lengths of the request: then the lock still covers it.
fn widened(span: Span, len: u64, round: u32) -> Span {
    let more = len.saturating_mul(1 << (2 * round));
    Span::new(span.first.saturating_sub(more), span.last.saturating_add(more))
}

/// A placement that returns the place that was found.
pub(crate) struct At(pub(crate) u64);

impl<B> Placement<B> for At {
    fn place(&mut self, _space: &AddressSpace<B>, _want: &Want) -> Option<u64> {
        Some(self.0)
    }
}

impl<B: Backing, R: Reclaim, W: Wait> Occupied for Maps<'_, B, R, W> {
    fn taken_at_or_after(&self, addr: u64) -> Option<(u64, u64, Flags)> {
        self.area_at_or_after(addr).map(|(start, end, area)| (start, end, area.flags))
    }

    fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        Maps::find_gap(self, query)
    }
}

/// Whether areas with these flags keep a range below them free.
pub(crate) fn keeps_guard(flags: Flags) -> bool {
    flags.intersects(Flags::GROWSDOWN | Flags::SHADOW_STACK)
}

impl Config {
    /// Whether this area keeps addresses below `end` free, and starts at `end` or above it.
    fn is_guarded_from(&self, end: u64, start: u64, flags: Flags) -> bool {
        start >= end && self.guarded(start, flags) < end
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// `mmap` of `request`, which is not fixed. `reach` computes how far it reaches at a place.
    #[allow(clippy::too_many_arguments)] // each is a step of its own
    pub(crate) fn update_at_place<'s>(
        &'s self,
        thread: &mut Registration<'s, B, R, W>,
        request: &MapRequest<B>,
        reach: impl Fn(u64) -> Reach,
        places: &mut Places<'_, B>,
        placement: &mut impl Placement<B>,
        deadline: Option<Duration>,
        apply: &mut Apply<'_>,
    ) -> Result<(u64, Plan), Error> {
        let want = self.config.want(request, &mut *places)?;
        let (record, writer) = thread.with_writer()?;
        let mut is_misfit = false;
        let placement = RefCell::new(placement);
        // Beside other calls, the leaf is looked at again when it is locked.
        let (is_crowded, is_outdated) = (record.is_crowded.load(Ordering::Relaxed), Cell::new(false));
        let search = || {
            let look = self.look(*placement.borrow_mut(), &want);
            let reach_at = |at| Reach { looked: is_crowded || is_outdated.get(), ..reach(at) };
            (look, look.place.map_or(Reach::WHOLE, reach_at))
        };
        let seen = Cell::new(search());
        let search_again = || {
            is_outdated.set(true);
            seen.set(search());
        };
        // In a stage, no call takes or frees this place until the stage is over.
        let reach_now = |_: &Self| {
            if !seen.get().0.instant.is_some_and(|instant| self.is_still(instant)) {
                search_again();
            }
            seen.get().1
        };
        let place = || seen.get().0.place;
        for _ in 0..if want.huge.is_none() { STAGES } else { 0 } {
            let mut call = Answering::new(|space: &mut AddressSpace<B>| Some(space.mmap(request, &mut At(place()?))));
            let mut confirm = || {
                let at = place();
                // Other leaves may change meanwhile.
                for _ in 0..STAGES {
                    if self.is_still_free(seen.get().0, &want) {
                        return true;
                    }
                    search_again();
                    if place() != at {
                        break;
                    }
                }
                false
            };
            match self.update_leaf(record, writer, &reach_now, deadline, apply, &mut call, &mut confirm) {
                Attempt::Done => {
                    record.is_crowded.store(is_outdated.get(), Ordering::Relaxed);
                    return call.after(Ok(()));
                }
                Attempt::Failed(errno) => return Err(errno.into()),
                Attempt::Outdated => {}
                Attempt::NotHere => break,
                Attempt::Misfit => {
                    is_misfit = true;
                    break;
                }
            }
        }
        let (mut look, placement) = (seen.get().0, placement.into_inner());
        // Threads that all search meet again in the whole space, so they stand aside there too.
        let mut patience = W::PATIENCE;
        for round in 0..LOCKS {
            let Some(at) = look.place else { break };
            let around = self.around(reach(at), &want);
            if around.reach.whole {
                patience = IN_LINE;
                break;
            }
            let span = widened(around.span, want.len, round);
            let mut held = Held::wait(self, record, Spans::one(span), Mode::Change, deadline, W::PATIENCE)?;
            if !held.admit(&around.reach.growth)? {
                break;
            }
            let Some(now) = self.look_again(look, placement, &want, 0) else { break };
            let as_seen = now.instant == look.instant;
            look = now;
            let Some(at) = look.place else { break };
            // Under the lock, the areas that it was computed from no longer change.
            let around = if as_seen { around } else { self.around(reach(at), &want) };
            if around.span.first < span.first || span.last < around.span.last {
                continue;
            }
            let mut call = Answering::new(|space: &mut AddressSpace<B>| Some(space.mmap(request, &mut At(at))));
            // A fault at the place sees the mark from here on (PLACE-1).
            let mut last = None;
            let mut confirm = || {
                last = self.look_again(look, placement, &want, 0);
                last.is_some_and(|look| look.place == Some(at))
            };
            let windows = [around.window, NONE];
            match self.attempt(held, writer, windows, &around.reach, apply, &mut call, is_misfit, &mut confirm) {
                Attempt::Done => return call.after(Ok(())),
                Attempt::Failed(errno) => return Err(errno.into()),
                Attempt::Outdated => match last {
                    Some(last) => look = last,
                    None => break,
                },
                Attempt::NotHere | Attempt::Misfit => break,
            }
        }
        let mut call = Answering::new(|space: &mut AddressSpace<B>| {
            Some(Plan::of(|plan| space.mmap_at(request, &mut *places, placement, plan)))
        });
        let done = self.update_whole(thread, deadline, patience, apply, &mut call);
        call.after(done)
    }

    /// The window and the lock of a call with this reach.
    pub(crate) fn around(&self, reach: Reach, want: &Want) -> Around {
        let (low, high) = self.window_of(&reach);
        let page = self.config.page_size.bytes();
        let wide = if want.huge.is_some() { self.config.bases.huge } else { 0 };
        let first = low.saturating_sub(page).min(reach.start.saturating_sub(wide));
        // The lock covers one more page on either side: an area there would touch the window.
        let end = high.saturating_add(page).max(reach.end.saturating_add(wide));
        Around { window: (low, high), span: Span::new(first, end - 1), reach }
    }

    /// Searches while others change the space.
    pub(crate) fn look(&self, placement: &mut impl Placement<B>, want: &Want) -> Look {
        let instant = self.instant();
        Look { instant, place: placement.place_among(&self.maps(), &self.config, want) }
    }

    /// A search that sees a single instant, from now on, under the range lock around its answer:
    /// `last`, if nothing was published since. `None`: no search did, or the place breaks PLACE-4,
    /// or a move besides the caller's `own_moves` may free a place (PLACE-6).
    pub(crate) fn look_again(
        &self,
        last: Look,
        placement: &mut impl Placement<B>,
        want: &Want,
        own_moves: u64,
    ) -> Option<Look> {
        let mut look = last;
        for round in 0..LOOKS {
            if let Some(instant) = look.instant {
                let near = look.place.is_some_and(|at| self.has_stack_above(at.saturating_add(want.len)));
                // SeqCst, with `Moving`.
                if self.moving.load(Ordering::SeqCst) > own_moves {
                    return None; // PLACE-6
                }
                fence(Ordering::SeqCst); // INSTANT-3
                if self.is_still(instant) {
                    return (!near).then_some(look);
                }
            }
            if round > 0 {
                W::pause(round);
            }
            look = self.look(placement, want);
        }
        None
    }

    /// Whether a search now, with its answer marked, would find the same place (PLACE-1). Looks
    /// once: `false` means that it may not.
    fn is_still_free(&self, look: Look, want: &Want) -> bool {
        let near = look.place.is_some_and(|at| self.has_stack_above(at.saturating_add(want.len)));
        if near || self.moving.load(Ordering::SeqCst) > 0 {
            return false; // PLACE-4, PLACE-6
        }
        fence(Ordering::SeqCst); // INSTANT-3
        look.instant.is_some_and(|instant| self.is_still(instant))
    }

    /// Whether an area at `end` or above it keeps addresses below `end` free.
    fn has_stack_above(&self, end: u64) -> bool {
        let page = self.config.page_size.bytes();
        let reach = self.config.stack_guard_pages.max(1).saturating_mul(page);
        let maps = self.maps();
        maps.areas_in(end, end.saturating_add(reach))
            .any(|(start, _, area)| self.config.is_guarded_from(end, start, area.flags))
    }
}
