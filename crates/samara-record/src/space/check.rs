//! Checks a call that was applied to the model: compares the windows that it may have changed with
//! the kernel's areas.
//!
//! Knows the possible partial effects of a refused call. Does not know how two views of a window
//! are compared (`compare`).

use samara_trace::calls::Call;
use samara_trace::event::{Step, StepKind};

use crate::journal::Journal;
use crate::os::proc::{self, Fate};
use crate::os::sys::{self, Tid};
use crate::space::compare::{self, Comparison};
use crate::space::reach::Range;
use crate::space::{Attempt, Returned, Space, apply};

impl Space {
    /// Compares the model with the kernel around the ranges that the call may have changed.
    pub(crate) fn check(&mut self, call: &Returned, attempt: &mut Attempt, journal: &mut Journal<'_>) {
        let mut ranges = attempt.reach.clone();
        if call.decoded.call == Call::Madvise && !apply::changes_areas(call.decoded.args[2] as i32) {
            // The call changes content only: checking the first byte is enough.
            ranges.iter_mut().for_each(|r| r.1 = r.1.min(r.0 + 1));
        }
        // Several rounds, because a neighbour of one range may reach into a range that is compared
        // later.
        for round in 0..=ranges.len() {
            attempt.misfit = self.compare(&ranges, call.who.tid, attempt, journal);
            if attempt.misfit.is_none() || (round == 0 && ranges.len() < 2) {
                break;
            }
        }
        if !self.maps.queries() {
            journal.note("no PROCMAP_QUERY (Linux before 6.11): the maps file is read after each call (slower)".into());
        }
        // The model stopped half way at a hole; a limit may have made the kernel refuse at once.
        let unchanged = attempt.unchanged.take().filter(|_| attempt.misfit.is_some() && !attempt.steps.is_empty());
        if let Some(saved) = unchanged {
            self.model = saved;
            attempt.steps.clear();
            attempt.misfit = self.compare(&ranges, call.who.tid, attempt, journal);
        }
        // A refused MAP_FIXED or MREMAP_FIXED may have emptied its place first.
        let placed = call.decoded.call.place().is_some();
        if attempt.misfit.is_some() && call.failed() && placed && attempt.steps.is_empty() {
            for (start, end) in attempt.reach.clone() {
                let empty = self.maps.between(start, end, &mut self.window).is_ok() && self.window.is_empty();
                if empty && self.model.forget(start, end).is_ok() {
                    attempt.steps.push(Step { kind: StepKind::Unmapped, start, end });
                    attempt.misfit = None;
                    return self.check(call, attempt, journal);
                }
            }
        }
        // A refused call may have had a partial effect: it cut areas, or moved the first of many.
        if attempt.misfit.is_some() && call.stopped_half_way() {
            let reach = attempt.reach.clone();
            attempt.steps.extend(self.adopt_reached(call, &reach).into_iter().flatten());
            attempt.misfit = None;
        }
    }

    /// Compares the model with the kernel in these ranges and one byte around them. Returns the
    /// difference. `tid`: a task of the space.
    pub(super) fn compare(
        &mut self,
        ranges: &[Range],
        tid: Tid,
        attempt: &mut Attempt,
        journal: &mut Journal<'_>,
    ) -> Option<String> {
        let mut misfit = None;
        for (start, end) in ranges {
            // One more byte on each side shows the neighbours that touch.
            let window = (start.saturating_sub(1), end.saturating_add(1));
            let mut areas = std::mem::take(&mut self.window);
            let began = sys::now_ns();
            let read = self.maps.between(window.0, window.1, &mut areas);
            if let Err(error) = &read
                && proc::fate(tid) == Fate::Runs
            {
                journal.note(format!("calls were not compared with the kernel: its areas cannot be read ({error})"));
            }
            if read.is_ok() {
                if !self.maps.queries() {
                    journal.budget.take(self.model.len(), began, sys::now_ns());
                }
                journal.counters.checks += 1;
                let unknown = self.doubt.unknown(self.kernel_is_ahead);
                let found = compare::compare_areas(
                    &mut self.model,
                    &areas,
                    window,
                    &unknown,
                    &mut attempt.steps,
                    &mut attempt.grown,
                );
                if let Comparison::Differs(how) = found {
                    misfit = Some(how);
                }
            }
            self.window = areas;
        }
        misfit
    }
}
