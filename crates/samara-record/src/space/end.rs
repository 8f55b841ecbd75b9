//! Compares a whole space with the kernel, and ends a space: the last comparison, and a report of
//! calls that it could not cover.
//!
//! It knows no calls. Neighbours: `start` begins a space; `compare` compares it.

use std::io;

use samara_trace::event::EventKind;

use crate::journal::{Journal, Size, Who};
use crate::os::proc::{self, KernelArea, Maps};
use crate::os::sys;
use crate::space::compare::{self, Comparison};
use crate::space::heap::Heap;
use crate::space::{Attempt, Space, explain, reach};

impl Space {
    /// Compares the whole space for the last time: its last task is about to end, the recorder is
    /// about to let go of its tasks, or the recording was stopped.
    pub(crate) fn finish(&mut self, who: Who, journal: &mut Journal<'_>) {
        if self.hidden || self.finished {
            self.finished = true;
            return;
        }
        if !self.pending.is_empty() {
            self.settle_pending(&[], journal);
        }
        let reported = match self.compare_all(who, journal) {
            Ok(reported) => reported,
            Err(error) => return self.not_finished(&error.to_string(), journal),
        };
        self.finished = true;
        let mut event = journal.blank(EventKind::Checked, self.id, who);
        event.result = i64::from(reported != 0);
        event.args[0] = reported;
        journal.write(event);
        if self.root {
            journal.counters.areas_final = self.model.len() as u64;
        }
    }

    /// Compares the whole space with the kernel, to the byte, and takes over the kernel's view. No
    /// call may be in the kernel. Returns the number of unexplained differences.
    pub(super) fn compare_all(&mut self, who: Who, journal: &mut Journal<'_>) -> io::Result<u64> {
        let began = sys::now_ns();
        // The thread by which the file was opened may have ended.
        let mut text = self.maps.text();
        if text.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH)) {
            self.maps = Maps::open(who.tid, self.maps.queries());
            text = self.maps.text();
        }
        let text: String = text?.split_inclusive('\n').filter(|l| !proc::is_pseudo(l)).collect();
        journal.counters.checks += 1;
        let after = self.counted_together(journal);
        let mut reported = 0;
        if self.model.to_string() != text {
            let areas = proc::parse(&text);
            let learnt = explain::explain(&mut self.model, &mut self.maps, &[], None, who.tid);
            learnt.into_iter().for_each(|(text, steps)| self.report_learnt(who, text, &steps, journal));
            let mut attempt = Attempt::default();
            if self.doubt.brk {
                self.adopt_break(Heap::of(&areas).last());
            }
            let unknown = self.doubt.unknown(false);
            let found = compare::compare_areas(
                &mut self.model,
                &areas,
                reach::ALL,
                &unknown,
                &mut attempt.steps,
                &mut attempt.grown,
            );
            if !attempt.steps.is_empty() {
                let of = after.as_deref().map_or_else(|| "that no call explains".into(), |n| format!("that {n} left"));
                let text = self.by_lost_calls().unwrap_or_else(|| format!("boundaries {of}"));
                self.report_learnt(who, text, &attempt.steps.clone(), journal);
            }
            self.report_grown(who, &attempt, journal);
            if self.rename(&areas) {
                self.report_learnt(who, "files were renamed or removed while they were mapped".into(), &[], journal);
            }
            let misfit = match found {
                Comparison::Differs(how) => Some(how),
                Comparison::Equal => first_unequal_line(&self.model.to_string(), &text),
            };
            if let Some(how) = misfit
                && let Some(steps) = self.adopt(who.tid)
            {
                let when = after.as_deref().map_or_else(|| "at the end".into(), |n| format!("after {n}"));
                reported = u64::from(!self.report_misfit(who, format!("{when}: {how}"), &steps, false, journal));
                reported = reported.max(u64::from(self.model.to_string() != text && steps.is_empty()));
            }
            // They explain only one comparison.
            self.unreturned_calls.clear();
        }
        if !self.maps.queries() {
            journal.budget.take(self.model.len(), began, sys::now_ns());
        }
        Ok(reported)
    }

    /// Notes that the last comparison cannot be made.
    pub(crate) fn not_finished(&mut self, why: &str, journal: &mut Journal<'_>) {
        journal.unchecked(why);
        self.never_compared(journal);
        self.finished = true;
        if self.root {
            journal.counters.areas_final = self.model.len() as u64;
        }
    }

    /// Drops the space. `ends`: its last task has ended.
    pub(crate) fn close(mut self, ends: bool, journal: &mut Journal<'_>) {
        if ends && !self.finished && !self.hidden {
            self.not_finished("its last task was killed before it could be looked at", journal);
        }
        self.never_compared(journal);
        // These calls were never seen to agree with the kernel. Their tasks are gone, so this can
        // no longer be decided.
        for call in std::mem::take(&mut self.pending) {
            self.report_call(&call, Attempt::default(), journal);
        }
        journal.resized(&mut self.size, Size::default());
    }

    /// Takes over names that have changed in the kernel's view. True if there were any.
    pub(super) fn rename(&mut self, areas: &[KernelArea]) -> bool {
        let names: std::collections::HashMap<((u32, u32), u64), &str> =
            areas.iter().filter_map(|a| Some(((a.dev, a.inode), a.name.as_deref()?))).collect();
        let mut changed = false;
        self.model.edit_objects(|object| {
            if let samara_mm::Object::File(file) = object
                && let Some(name) = names.get(&(file.dev, file.inode))
                && *name != &*file.name
                && !name.starts_with("[anon_shmem:")
            {
                file.name = (*name).into();
                changed = true;
            }
        });
        changed
    }
}

pub(super) fn first_unequal_line(ours: &str, theirs: &str) -> Option<String> {
    let mut pairs = ours.lines().map(Some).chain(std::iter::repeat(None)).zip(theirs.lines().map(Some).chain([None]));
    let (m, k) = pairs.find(|(m, k)| m != k)?;
    let show = |l: Option<&str>| l.unwrap_or("nothing").to_owned();
    Some(format!("the model shows {:?}, the kernel {:?}", show(m), show(k)))
}
