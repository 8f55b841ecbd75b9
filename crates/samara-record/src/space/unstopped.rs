//! A space whose tasks never stop. It is made from the kernel's records, and compared with readings
//! of its areas. It never queries the kernel.
//!
//! It knows no calls, and does not know how a reading is judged clean. Neighbours: `start` and
//! `end` do the same for spaces whose tasks stop; `nostop` drives it.

use std::os::unix::ffi::OsStrExt;

use samara_mm::Layout;
use samara_trace::calls::Call;
use samara_trace::event::{EventKind, Step, StepKind};
use samara_trace::file::name_text;

use crate::journal::{Journal, Size, Who};
use crate::os::proc::{self, KernelArea, Maps};
use crate::os::sys;
use crate::space::compare::{self, Comparison};
use crate::space::end::first_unequal_line;
use crate::space::heap::Heap;
use crate::space::reach::{Range, meets_one};
use crate::space::start::found;
use crate::space::{Attempt, Returned, Space, SpaceId, model, reach};

/// The text of a comparison that left out changed ranges.
const PARTLY: &str = "but for what changed meanwhile";

/// The reason of doubt about joins that depend on writes.
const WRITTEN: &str = "which memory was written before it became one area";

/// Below this distance to the kernel's limit of areas, a call may be refused because of the limit.
const NEAR: usize = 8;

/// The areas of a space, as they were read.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) areas: Vec<KernelArea>,
    /// The text of `/proc/PID/maps`.
    pub(crate) text: String,
    /// Whether the areas have their flags.
    pub(crate) has_flags: bool,
    pub(crate) layout: proc::Layout,
}

/// A difference between the model and a reading.
struct Misfit {
    text: String,
    /// Only names or other text of some lines differ.
    names_only: bool,
}

/// Whether the areas are known after a call.
#[derive(Debug)]
pub(crate) enum Followed {
    Sure,
    /// Why they are not known, and the ranges. `None`: the ranges that the call may have changed.
    Unsure(String, Option<Vec<Range>>),
}

/// The outcome of a comparison with a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// They agree now, except in these ranges, which were in doubt before and changed meanwhile.
    But(Vec<Range>),
    /// They differ, and only a reading with flags may be taken over.
    NeedsFlags,
}

impl Space {
    /// The space of an already running process, from a reading.
    pub(crate) fn found_in(id: SpaceId, root: bool, who: Who, reading: &Reading, journal: &mut Journal<'_>) -> Space {
        let mut space = Space::unstopped(id, root);
        space.fill_with(&reading.areas, reading.layout, journal);
        space.doubt_the_past(journal);
        space.flagless = !reading.has_flags;
        let event = found(id, who, journal);
        space.report_program(event, who, journal);
        space
    }

    /// The space of a program that was just loaded, from the areas that the kernel reported.
    pub(crate) fn loaded_with(
        id: SpaceId,
        who: Who,
        root: bool,
        (areas, program): (&[KernelArea], &str),
        journal: &mut Journal<'_>,
    ) -> Space {
        let mut space = Space::unstopped(id, root);
        let stack = areas.iter().find(|area| area.name.as_deref() == Some("[stack]"));
        let start_stack = stack.map_or(0, |stack| stack.end.saturating_sub(8));
        space.fill_with(areas, proc::Layout { start_stack, ..proc::Layout::default() }, journal);
        // The first `brk` call shows the heap's start.
        space.model.set_layout(Layout { start_brk: 0, brk: 0, ..space.model.layout() });
        let mut event = journal.blank(EventKind::Exec, id, who);
        event.text = name_text(std::ffi::OsStr::new(program).as_bytes());
        space.report_all(event, journal);
        space
    }

    /// The space of a forked child, copied from its parent's present state.
    pub(crate) fn forked(&mut self, id: SpaceId, who: Who, journal: &mut Journal<'_>) -> Space {
        let mut child = Space::unstopped(id, false);
        (child.has_policies, child.flagless) = (self.has_policies, self.flagless);
        child.doubt = self.doubt.inherited();
        match self.model.fork() {
            Ok(model) => child.model = model,
            Err(error) => journal.note(format!("a fork's model could not be made: {error}")),
        }
        let mut event = journal.blank(EventKind::Fork, id, who);
        event.args[0] = self.id;
        child.report_all(event, journal);
        child
    }

    fn unstopped(id: SpaceId, root: bool) -> Space {
        let mut space = Space::with(id, root, Maps::of_nobody());
        space.kernel_is_ahead = true;
        space
    }

    /// Applies a returned call. `shown`: the area that the kernel reported during it. `growth`: the
    /// growth of the kernel's number of areas, where that is known.
    pub(crate) fn follow(
        &mut self,
        call: &mut Returned,
        shown: Option<&KernelArea>,
        growth: Option<i64>,
        journal: &mut Journal<'_>,
    ) -> Followed {
        if call.decoded.call == Call::Brk {
            self.find_heap(call.decoded.args[0], call.result as u64);
        }
        let (before, growth) = (self.model.len() as i64, growth.filter(|_| !call.unsure));
        let mut attempt = Space::apply(self, call);
        let mut misfit = attempt.misfit.take();
        if misfit.is_some()
            && !call.failed()
            && let Some(area) = shown
        {
            self.put(area);
            attempt.steps = vec![samara_mm::Step { kind: StepKind::Mapped, start: area.start, end: area.end }];
        }
        // If the model refuses it too, the two agree, unless a limit stopped the call.
        let most = || crate::inspect::max_map_count().unwrap_or(0) as usize;
        if misfit.is_none()
            && call.stopped_half_way()
            && (attempt.unchanged.is_none() || self.model.len() + NEAR > most())
        {
            misfit = Some(format!("how far {} came is not known", call.decoded.call));
        }
        // The kernel reported the area without its flags.
        call.unsure |= misfit.is_some() && attempt.steps.is_empty();
        let after = growth.filter(|_| misfit.is_none()).map(|growth| before + growth);
        let faults = self.depends_on_faults(&mut attempt.steps, after);
        call.unsure |= !matches!(faults, Followed::Sure);
        let followed = misfit.map_or(faults, |how| Followed::Unsure(how, None));
        self.report_call(call, attempt, journal);
        followed
    }

    /// Settles joins that depend on which memory was written, which no event shows. The kernel's
    /// number of areas decides, if either all of these joins were made or none.
    fn depends_on_faults(&mut self, steps: &mut Vec<samara_mm::Step>, after: Option<i64>) -> Followed {
        let joins = steps.iter().filter(|step| step.kind == StepKind::Merged);
        let may_be_apart: Vec<u64> =
            joins.map(|step| step.start).filter(|at| !self.model.is_join_certain(*at)).collect();
        let missing = after.map(|after| after - self.model.len() as i64);
        // The merged areas around these joins.
        let around = |space: &Space| {
            let of = |at: &u64| space.model.area_at(*at).map(|area| (area.start, area.end));
            reach::merged(may_be_apart.iter().filter_map(of).collect())
        };
        match (missing, may_be_apart.len()) {
            (None, 0) | (Some(0), _) => return Followed::Sure,
            (Some(_), 0) => {
                return Followed::Unsure("the kernel has another number of areas after it".to_owned(), None);
            }
            (Some(missing), n) if missing == n as i64 => {
                let ranges = around(self);
                may_be_apart.iter().for_each(|at| _ = self.model.learn_cut(*at));
                steps.retain(|step| step.kind != StepKind::Merged || !may_be_apart.contains(&step.start));
                if after == Some(self.model.len() as i64) {
                    return Followed::Sure;
                }
                return Followed::Unsure(WRITTEN.to_owned(), Some(ranges));
            }
            _ => {}
        }
        Followed::Unsure(WRITTEN.to_owned(), Some(around(self)))
    }

    /// Learns the start of the heap from the first `brk`.
    fn find_heap(&mut self, asked: u64, result: u64) {
        let layout = self.model.layout();
        if layout.start_brk == 0 && layout.brk == 0 && asked == 0 {
            self.model.set_layout(Layout { start_brk: result, brk: result, ..layout });
        }
    }

    /// Puts an area that the kernel reported in place of existing ones.
    fn put(&mut self, area: &KernelArea) {
        let (new, extras) = model::import(area, sys::page_size());
        let _ = self.model.forget(area.start, area.end);
        let _ = self.model.import_with(area.start, area.end, new, extras);
    }

    /// Grows a stack as the kernel reported. False: no area grew.
    pub(crate) fn grew(&mut self, area: &KernelArea, who: Who, journal: &mut Journal<'_>) -> bool {
        let Some(old) = self.model.area_at(area.end.saturating_sub(1)).map(|a| (a.start, a.end)) else { return false };
        if old.1 != area.end || old.0 <= area.start {
            return false;
        }
        if self.model.grow_down(old.0, area.start).is_err() {
            return false;
        }
        let attempt = Attempt { grown: vec![(area.start, old.0)], ..Attempt::default() };
        self.report_grown(who, &attempt, journal);
        true
    }

    /// Compares the space with a reading, and takes over the kernel's view. Areas that touch
    /// `changed`, the ranges that changed during the reading, are left out. `doubt`: the reason and
    /// the ranges of doubt before the reading, if any.
    pub(crate) fn compare_with(
        &mut self,
        reading: &Reading,
        changed: &[Range],
        doubt: Option<(&str, &[Range])>,
        who: Who,
        journal: &mut Journal<'_>,
    ) -> Compared {
        let whole = changed.is_empty();
        // A change may have cut or joined areas that only touch it.
        let out = if whole { Vec::new() } else { self.closed(changed, &reading.areas, 1) };
        let gaps = reach::gaps(&out);
        journal.counters.checks += 1;
        self.learn_layout(reading);
        let misfit = self.misfit(reading, &gaps, whole, who, journal);
        if misfit.is_some() && !reading.has_flags {
            return Compared::NeedsFlags;
        }
        // A difference outside of the ranges in doubt is a real one.
        let outside =
            doubt.filter(|(_, ranges)| *ranges != [reach::ALL] && misfit.is_some()).and_then(|(_, ranges)| {
                let near = self.closed(ranges, &reading.areas, 1);
                let sure = reach::gaps(&reach::merged([near, out.clone()].concat()));
                match self.compare_gaps(&sure, &reading.areas, who, journal) {
                    Comparison::Differs(text) => Some(text),
                    Comparison::Equal => None,
                }
            });
        // Calls that were not seen may have changed flags and names too.
        let adopts = misfit.is_some() || ((doubt.is_some() || self.flagless) && reading.has_flags);
        let mut steps = if adopts { self.adopt_gaps(&gaps, &reading.areas) } else { Vec::new() };
        // Flags that are read for the first time are no change.
        let (all, learns) = (steps.len(), self.flagless && reading.has_flags);
        if learns {
            steps.retain(|step| !matches!(step.kind, StepKind::Changed(_)));
            self.flagless = !whole;
        }
        let learns_flags = steps.len() < all;
        let mut reported = 0;
        match (misfit, doubt) {
            (Some(_), Some(_)) if outside.is_some() => {
                let how = outside.unwrap_or_default();
                reported = u64::from(!self.report_misfit(who, how, &steps, false, journal));
            }
            (Some(how), Some((why, _))) => self.report_learnt(who, format!("{why}: {}", how.text), &steps, journal),
            (Some(how), None) if how.names_only => {
                self.report_learnt(who, format!("names of areas: {}", how.text), &steps, journal);
            }
            (Some(how), None) => reported = u64::from(!self.report_misfit(who, how.text, &steps, false, journal)),
            (None, Some((why, _))) if !steps.is_empty() => {
                self.report_learnt(who, format!("{why}: flags and names"), &steps, journal);
            }
            (None, _) => {}
        }
        if learns_flags {
            self.report_learnt(who, "flags and names that were not read before".into(), &[], journal);
        }
        let left = doubt.map_or_else(Vec::new, |(_, ranges)| reach::common(ranges, &out));
        if left.is_empty() {
            let mut event = journal.blank(EventKind::Checked, self.id, who);
            event.result = i64::from(reported != 0);
            event.args[0] = reported;
            event.args[1] = 1; // the process goes on
            if !whole {
                event.text = PARTLY.into();
            }
            journal.write(event);
        }
        Compared::But(left)
    }

    /// The difference between the model and a reading in these ranges, whose ends no area crosses.
    /// Names are compared if the ranges are the `whole` space.
    fn misfit(
        &mut self,
        reading: &Reading,
        gaps: &[Range],
        whole: bool,
        who: Who,
        journal: &mut Journal<'_>,
    ) -> Option<Misfit> {
        if whole && self.model.to_string() == reading.text {
            return None;
        }
        let found = self.compare_gaps(gaps, &reading.areas, who, journal);
        if self.rename(&reading.areas) {
            self.report_learnt(who, "files were renamed or removed while they were mapped".into(), &[], journal);
        }
        match found {
            Comparison::Differs(text) => Some(Misfit { text, names_only: false }),
            Comparison::Equal if whole => {
                let text = first_unequal_line(&self.model.to_string(), &reading.text)?;
                Some(Misfit { text, names_only: true })
            }
            Comparison::Equal => None,
        }
    }

    /// Compares these ranges, whose ends no area crosses.
    fn compare_gaps(
        &mut self,
        gaps: &[Range],
        kernel: &[KernelArea],
        who: Who,
        journal: &mut Journal<'_>,
    ) -> Comparison {
        let (mut attempt, mut found) = (Attempt::default(), Comparison::Equal);
        for gap in gaps {
            let unknown = self.doubt.unknown(false);
            let (steps, grown) = (&mut attempt.steps, &mut attempt.grown);
            found = compare::compare_areas(&mut self.model, within(kernel, *gap), *gap, &unknown, steps, grown);
            if found != Comparison::Equal {
                break;
            }
        }
        if !attempt.steps.is_empty() {
            let steps = std::mem::take(&mut attempt.steps);
            self.report_learnt(who, "boundaries that faults decide".into(), &steps, journal);
        }
        self.report_grown(who, &attempt, journal);
        found
    }

    /// Takes over the kernel's view of these ranges, whose ends no area crosses.
    fn adopt_gaps(&mut self, gaps: &[Range], kernel: &[KernelArea]) -> Vec<Step> {
        let heap = Heap::of(kernel).last();
        let steps = gaps.iter().flat_map(|gap| self.adopt_areas(*gap, within(kernel, *gap).to_vec())).collect();
        if gaps == [reach::ALL] || heap.is_some_and(|heap| meets_one(gaps, heap)) {
            self.adopt_break(heap);
        }
        steps
    }

    /// Takes over the places of heap and stack that were unknown.
    fn learn_layout(&mut self, reading: &Reading) {
        let (own, at) = (self.model.layout(), reading.layout);
        if at.start_brk == 0 {
            return; // the recorder may not see it
        }
        let layout = Layout { start_brk: at.start_brk, start_stack: at.start_stack, data: at.data, ..own };
        if own.brk == 0 {
            return self.find_first_break(layout, Heap::of(&reading.areas));
        }
        self.model.set_layout(layout);
    }

    /// Ends the space: its last task has ended, or the recording has.
    pub(crate) fn end_unstopped(mut self, journal: &mut Journal<'_>) {
        if self.root {
            journal.counters.areas_final = self.model.len() as u64;
        }
        journal.resized(&mut self.size, Size::default());
    }
}

/// The areas in a range whose ends no area crosses.
fn within(areas: &[KernelArea], (start, end): Range) -> &[KernelArea] {
    let first = areas.partition_point(|area| area.start < start);
    let last = areas.partition_point(|area| area.start < end);
    areas.get(first..last).unwrap_or_default()
}

/// Whether a reading is consistent: its areas ascend and do not overlap.
pub(crate) fn is_whole(areas: &[KernelArea]) -> bool {
    areas.iter().all(|area| area.start < area.end) && areas.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// Repairs an overlapped reading: sorts out areas that overlap, by cutting the later one. `None`:
/// areas overlap outside of the changed ranges.
pub(crate) fn put_right(areas: &[KernelArea], changed: &[Range]) -> Option<Vec<KernelArea>> {
    let mut out: Vec<KernelArea> = Vec::with_capacity(areas.len());
    for area in areas {
        let at = out.last().map_or(0, |last| last.end).max(area.start);
        let twice = (area.start, at.min(area.end));
        if twice.0 < twice.1 && !changed.iter().any(|changed| changed.0 <= twice.0 && twice.1 <= changed.1) {
            return None;
        }
        if at < area.end {
            let offset = if area.inode == 0 { area.offset } else { area.offset + (at - area.start) };
            out.push(KernelArea { start: at, offset, ..area.clone() });
        }
    }
    Some(out)
}
