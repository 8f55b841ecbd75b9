//! Settles a call that has returned: at once, or after the calls that overlapped it have returned
//! (`overlap`).
//!
//! It does not know the order of overlapped calls.
//!
//! - **SETTLE-1** a call that touched no other call in the kernel at the same time is settled
//!   alone, and any disagreement is a difference.
//!
//! Neighbours: `overlap` settles groups of calls, `report` reports them.

use samara_trace::calls::{Call, Reach};
use samara_trace::event::Step;

use crate::journal::Journal;
use crate::os::sys;
use crate::space::apply;
use crate::space::explain::{self, Tells};
use crate::space::model::Model;
use crate::space::overlap::Flying;
use crate::space::reach::{self, Range};
use crate::space::{Attempt, Returned, Space};

impl Space {
    /// Processes a returned call. `flying`: calls of other tasks in this space that are in the
    /// kernel.
    pub(crate) fn returned(&mut self, call: Returned, flying: &[Flying], journal: &mut Journal<'_>) {
        if self.hidden() {
            return self.report_call(&call, Attempt::default(), journal);
        }
        if self.pending.is_empty() && flying.is_empty() {
            let who = call.who;
            self.settle_single(call, flying, journal);
            if self.waiting > 0 {
                self.catch_up(who, false, journal);
            }
            return;
        }
        let mut call = call;
        self.has_policies |= call.decoded.call.sets_policies();
        let read = apply::readable(&self.model, &call.decoded);
        call.memory.keep(&call.decoded, call.result, read, &mut self.maps);
        self.pending.push(call);
        self.settle_pending(flying, journal);
    }

    /// Settles a call that touches no call that was in the kernel at the same time, as far as the
    /// places of those calls are known.
    pub(crate) fn settle_single(&mut self, call: Returned, flying: &[Flying], journal: &mut Journal<'_>) {
        let open = !flying.is_empty() && self.some_place_is_open(flying);
        if self.doubt.locks {
            self.settle_future_locks(&call);
        }
        // The model is copied only if the call may have to be undone.
        let careful = open || self.has_userfaultfd || self.below_stack(&self.ranges(&call));
        let before = if careful { self.copy() } else { None };
        let mut attempt = self.apply(&call);
        // A call that does not fit is compared below, after a search for an explanation.
        let fits = attempt.misfit.is_none();
        let later = fits && !open && !self.maps.queries() && self.puts_off(&call, &attempt, journal);
        if fits && !later {
            self.check(&call, &mut attempt, journal);
        }
        if attempt.misfit.is_some()
            && let Some(before) = before
        {
            attempt = self.explained(&call, attempt, before, open, journal);
        }
        let fits = attempt.misfit.is_none();
        if call.overlapped && (fits || !open) && self.raced(&call, &attempt.reach) {
            // Another call, reported earlier, reached the same place. The order of the two is
            // unknown.
            let applied = if fits { vec![attempt] } else { Vec::new() };
            return self.take_over(std::slice::from_ref(&call), applied, journal);
        }
        match attempt.misfit.take() {
            None => {
                self.report_call(&call, attempt, journal);
                if later {
                    self.put_off(journal);
                }
            }
            // A call in the kernel may be the reason: wait for it.
            Some(_) if open => return self.pending.push(call),
            Some(how) => self.report_unlike(&call, attempt, &how, journal),
        }
        if call.decoded.call == Call::Brk {
            self.doubt.brk = false;
        }
    }

    /// Looks for an explanation why a call does not fit, and makes it again on the model as it was
    /// `before`. If it still does not fit and a call in the kernel may be the reason (`open`), the
    /// model stays without it.
    fn explained(
        &mut self,
        call: &Returned,
        mut attempt: Attempt,
        before: Model,
        open: bool,
        journal: &mut Journal<'_>,
    ) -> Attempt {
        self.model = before;
        let (ranges, registration) = (self.told(call), self.registration(call));
        let learnt = explain::explain(&mut self.model, &mut self.maps, &ranges, registration, call.who.tid);
        if learnt.is_empty() {
            // The call's effect is reported, followed by the kernel's view.
            return if open { attempt } else { Attempt { misfit: attempt.misfit.take(), ..self.apply(call) } };
        }
        learnt.into_iter().for_each(|(text, steps)| self.report_learnt(call.who, text, &steps, journal));
        let before = if open { self.copy() } else { None };
        let attempt = self.attempt(call, journal);
        if attempt.misfit.is_some()
            && let Some(before) = before
        {
            self.model = before;
        }
        attempt
    }

    /// Reports a call after which model and kernel differ, and takes over the kernel's view.
    fn report_unlike(&mut self, call: &Returned, mut attempt: Attempt, how: &str, journal: &mut Journal<'_>) {
        let steps = self.adopt_reached(call, &attempt.reach);
        attempt.steps.extend(steps.iter().flatten());
        let (reached, answer) = (attempt.reach.clone(), attempt.answer);
        self.report_call(call, attempt, journal);
        // If there are no steps, model and kernel agree again: an overlapping call undid the
        // difference. A wrong answer is reported anyway.
        let Some(steps) = steps.filter(|s| !s.is_empty() || answer || !call.overlapped) else { return };
        let how = format!("after {}: {how}", call.decoded.call);
        let unknown = match call.decoded.call {
            Call::Brk if self.doubt.brk => "where the break was",
            _ if self.has_doubtful_policies(&reached) => "which policies files' areas have here",
            _ if self.doubt.locks => "whether new memory is locked",
            _ => {
                self.report_misfit(call.who, how, &steps, call.overlapped, journal);
                return;
            }
        };
        self.report_learnt(call.who, format!("{how}: {unknown} is not known since calls overlapped"), &steps, journal);
    }

    /// The ranges that a call reached, each with what the call shows of its former memory.
    fn told(&self, call: &Returned) -> Vec<(Range, Tells)> {
        let moves = matches!(call.decoded.call.row().reach, Reach::Moves(_));
        let put = reach::put(&call.decoded, call.result, sys::page_size());
        let tells = |(i, range): (usize, Range)| match put {
            Some(put) if put == range && (i > 0 || !moves) => (range, Tells::Hidden),
            _ if moves && i == 0 && !call.failed() => (range, Tells::FirstPage),
            _ => (range, Tells::Nothing),
        };
        self.ranges(call).into_iter().enumerate().map(tells).collect()
    }

    /// The ranges that these calls have newly mapped.
    pub(crate) fn made(&mut self, calls: &[Returned]) -> Vec<Range> {
        let mut all = Vec::new();
        for call in calls {
            let mut made = reach::made(&call.decoded, call.result, sys::page_size());
            // A segment merges with nothing, and the arguments do not show its length.
            if call.decoded.call == Call::Shmat {
                made.iter_mut().for_each(|r| r.1 = self.maps.at(r.0).ok().flatten().map_or(r.1, |k| k.end));
            }
            all.append(&mut made);
        }
        all
    }

    /// Takes over the kernel's view of the ranges that a call reached.
    pub(crate) fn adopt_reached(&mut self, call: &Returned, reach: &[Range]) -> Option<Vec<Step>> {
        /// The largest huge page: a refused map of one has emptied more than its arguments name.
        const HUGEST: u64 = 1 << 30;
        let mut reach = if call.decoded.call.is_wide() { vec![reach::ALL] } else { reach.to_vec() };
        if call.failed() && call.decoded.call == Call::Mmap {
            reach.iter_mut().for_each(|r| r.1 = r.1.checked_next_multiple_of(HUGEST).unwrap_or(r.1));
        }
        let reach = self.span(&reach, sys::page_size());
        let shown = self.look_after(std::slice::from_ref(call), &reach)?;
        let steps = self.adopt_shown(&shown);
        if call.decoded.call == Call::Brk {
            self.model.set_layout(samara_mm::Layout { brk: call.result as u64, ..self.model.layout() });
        }
        Some(steps)
    }
}
