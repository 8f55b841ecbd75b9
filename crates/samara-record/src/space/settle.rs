//! Settles a call that has returned: at once, or after the calls that overlapped it have returned
//! (`overlap`).
//!
//! It does not know the order of overlapped calls.
//!
//! - **SETTLE-1** a call that touched no call in the kernel at the same time is settled by itself,
//!   and any disagreement is a difference.
//!
//! Neighbours: `overlap` settles groups of calls, `report` reports them.

use samara_trace::calls::{Call, Reach};
use samara_trace::event::Step;

use crate::journal::Journal;
use crate::os::sys;
use crate::space::apply;
use crate::space::explain::{self, Tells};
use crate::space::overlap::Flying;
use crate::space::reach::{self, Range};
use crate::space::{Attempt, Returned, Space};

impl Space {
    /// Processes a call that returned. `flying`: calls of other tasks in this space that are in the
    /// kernel.
    pub(crate) fn returned(&mut self, call: Returned, flying: &[Flying], journal: &mut Journal<'_>) {
        if self.hidden() {
            return self.report_call(&call, Attempt::default(), journal);
        }
        if self.pending.is_empty() && flying.is_empty() {
            let who = call.who;
            self.settle_single(call, flying, journal);
            return self.catch_up(who, false, journal);
        }
        let mut call = call;
        self.bound |= call.decoded.call == Call::Mbind;
        self.moved |= call.decoded.call == Call::Mremap;
        let read = apply::readable(&self.model, &call.decoded);
        call.memory.keep(&call.decoded, call.result, read, &mut self.maps);
        self.pending.push(call);
        self.settle_pending(flying, journal);
    }

    /// Settles a call that touches no call that was in the kernel at the same time, as far as the
    /// places of those are known.
    pub(crate) fn settle_single(&mut self, call: Returned, flying: &[Flying], journal: &mut Journal<'_>) {
        let open = self.some_place_is_open(flying);
        self.others_in_kernel = !flying.is_empty();
        let breaks = if call.decoded.call == Call::Brk { self.possible_breaks() } else { Vec::new() };
        let future_locks = self.save_future_locks();
        self.settle_future_locks(&call);
        // The state before the call is saved only if it may be needed.
        let careful = open || self.registered || !self.breaks.is_empty() || self.below_stack(&self.ranges(&call));
        let mut saved = careful.then(|| self.save(std::slice::from_ref(&call)));
        let mut attempt = self.apply(&call);
        // A call that does not fit is compared below, once its explanation is known.
        let later = attempt.misfit.is_none() && !open && self.puts_off(&call, &attempt, journal);
        if attempt.misfit.is_none() && !later {
            self.check(&call, &mut attempt, journal);
        }
        if attempt.misfit.is_some()
            && let Some(before) = saved.take()
        {
            self.put_back(before);
            let ranges = self.told(&call);
            let registration = self.registration(&call);
            let learnt = explain::explain(&mut self.model, &mut self.maps, &ranges, registration, call.who.tid);
            if !learnt.is_empty() {
                learnt.into_iter().for_each(|(text, steps)| self.report_learnt(call.who, text, &steps, journal));
                saved = open.then(|| self.save(std::slice::from_ref(&call)));
                attempt = self.attempt(&call, journal);
                if attempt.misfit.is_some()
                    && let Some(before) = saved.take()
                {
                    self.put_back(before);
                }
            } else if let Some(fits) = self.attempt_breaks(&call, journal) {
                attempt = fits;
            } else if !open {
                // It is unexplained: the call's effect is reported, and after it the kernel's view.
                let misfit = attempt.misfit.take();
                attempt = Attempt { misfit, ..self.apply(&call) };
            }
        }
        let raced = self.raced(&call, &attempt.reach);
        match attempt.misfit.take() {
            None if raced => return self.report_after_race(&call, attempt, breaks, journal),
            None => {
                let reach = if self.future_locks_are_known() { Vec::new() } else { attempt.reach.clone() };
                self.report_call(&call, attempt, journal);
                self.learn_locks(&call, &reach, journal);
                if later {
                    self.put_off(journal);
                }
            }
            // The other call may be the reason: wait for it.
            Some(_) if open => {
                self.put_back_future_locks(future_locks);
                return self.pending.push(call);
            }
            Some(_) if raced => return self.take_over(std::slice::from_ref(&call), breaks, journal),
            Some(how) => {
                let steps = self.adopt_reached(&call, &attempt.reach);
                attempt.steps.extend(steps.iter().flatten());
                let (reached, answer) = (attempt.reach.clone(), attempt.answer);
                self.report_call(&call, attempt, journal);
                // If there is nothing to take over, an overlapping call has undone it by now; but
                // its answer stays wrong.
                if let Some(steps) = steps.filter(|s| !s.is_empty() || answer || !call.overlapped) {
                    let how = format!("after {}: {how}", call.decoded.call);
                    let unknown = if self.is_foggy(&reached) {
                        "which policies files' areas have here"
                    } else if !self.future_locks_are_known() {
                        "whether new memory is locked"
                    } else {
                        ""
                    };
                    if !unknown.is_empty() {
                        let text = format!("{how}: {unknown} is not known since calls overlapped");
                        return self.report_learnt(call.who, text, &steps, journal);
                    }
                    self.report_misfit(call.who, how, &steps, call.overlapped, journal);
                }
            }
        }
        self.find_future_locks(std::slice::from_ref(&call));
        if call.decoded.call == Call::Brk {
            self.breaks.clear();
        }
    }

    /// Reports a call whose place another call reached at the same time. The other call was
    /// reported first; `maps` does not show whether that was the order. `breaks` has the possible
    /// places of the break before it.
    fn report_after_race(
        &mut self,
        call: &Returned,
        mut attempt: Attempt,
        breaks: Vec<u64>,
        journal: &mut Journal<'_>,
    ) {
        // With its neighbours: see ADOPT-UNORDERED-2.
        let around = self.span(&attempt.reach, sys::page_size());
        let shown = self.look_after(std::slice::from_ref(call), &around);
        let steps = shown.as_ref().map(|shown| self.adopt_shown(shown)).unwrap_or_default();
        self.unlearn(std::slice::from_ref(call));
        self.fog(std::slice::from_ref(call), &attempt.reach);
        self.find_break_after(std::slice::from_ref(call), breaks, shown.as_ref());
        self.find_future_locks(std::slice::from_ref(call));
        attempt.unsure = !steps.is_empty();
        self.report_call(call, attempt, journal);
        if !steps.is_empty() {
            let text = format!("what {} did beside other calls is not known: taken from the kernel", call.decoded.call);
            self.report_learnt(call.who, text, &steps, journal);
        }
    }

    /// Takes over the kernel's locks of a call's new memory, if the locking of new memory is
    /// unknown.
    fn learn_locks(&mut self, call: &Returned, reach: &[Range], journal: &mut Journal<'_>) {
        if self.future_locks_are_known() || self.made(std::slice::from_ref(call)).is_empty() {
            return;
        }
        let steps = self.look(call.who.tid, reach).map(|shown| self.adopt_shown(&shown)).unwrap_or_default();
        if !steps.is_empty() {
            let how = "whether new memory is locked is not known since calls overlapped: taken from the kernel";
            self.report_learnt(call.who, how.to_owned(), &steps, journal);
        }
    }

    /// Tries a `brk` from each possible place of the break: the first that agrees with the kernel
    /// is taken.
    fn attempt_breaks(&mut self, call: &Returned, journal: &mut Journal<'_>) -> Option<Attempt> {
        if call.decoded.call != Call::Brk {
            return None;
        }
        for brk in self.breaks.clone() {
            let layout = self.model.layout();
            self.model.set_layout(samara_mm::Layout { brk, ..layout });
            let saved = self.save(std::slice::from_ref(call));
            let attempt = self.attempt(call, journal);
            if attempt.misfit.is_none() {
                return Some(attempt);
            }
            self.put_back(saved);
            self.model.set_layout(layout);
        }
        None
    }

    /// The ranges that a call reached, and what it shows of each.
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

    /// The ranges that these calls have mapped anew.
    pub(crate) fn made(&mut self, calls: &[Returned]) -> Vec<Range> {
        let mut all = Vec::new();
        for call in calls {
            let mut made = reach::made(&call.decoded, call.result, sys::page_size());
            // A segment merges with nothing, and the arguments do not have its length.
            if call.decoded.call == Call::Shmat {
                made.iter_mut().for_each(|r| r.1 = self.maps.at(r.0).ok().flatten().map_or(r.1, |k| k.end));
            }
            all.append(&mut made);
        }
        all
    }

    /// Takes the kernel's view: everywhere; or only in the call's ranges, if other calls are in the
    /// kernel, have returned and are not applied yet (PUT-OFF-3), or wait to be compared
    /// (PUT-OFF-2).
    pub(crate) fn adopt_reached(&mut self, call: &Returned, reach: &[Range]) -> Option<Vec<Step>> {
        if !self.others_in_kernel && !self.unapplied && self.waiting == 0 {
            let made = self.made(std::slice::from_ref(call));
            return self.adopt_with(call.who.tid, &made);
        }
        let reach = if call.decoded.call.is_wide() { vec![reach::ALL] } else { self.span(reach, sys::page_size()) };
        let shown = self.look_after(std::slice::from_ref(call), &reach)?;
        Some(self.adopt_shown(&shown))
    }
}
