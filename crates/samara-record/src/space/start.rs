//! Begins a space: loaded with a program, copied by a fork, or taken over from the kernel. Also
//! begins the recording of a space that was only modelled.
//!
//! It knows no calls. Neighbours: `end` ends a space; `model` imports areas.

use std::collections::VecDeque;

use samara_mm::{Bases, Flags, Object};
use samara_trace::event::{Event, EventKind, UNSURE};

use crate::journal::{Journal, Lack, Size, Who};
use crate::os::proc::{self, KernelArea, Maps};
use crate::os::sys::{self, Tid};
use crate::space::adopt::KernelView;
use crate::space::compare::{self, Comparison};
use crate::space::doubt::Doubt;
use crate::space::heap::Heap;
use crate::space::reach::{self, Range};
use crate::space::{Caller, Space, SpaceId, model};

impl Space {
    /// The space of a task that has just loaded a program.
    pub(crate) fn load(id: SpaceId, who: Who, root: bool, query: bool, journal: &mut Journal<'_>) -> Space {
        let mut space = Space::new(id, who.tid, root, query);
        space.forgets = journal.forgets;
        space.fill(who.tid, journal);
        let event = journal.blank(EventKind::Exec, id, who);
        space.report_program(event, who, journal);
        space
    }

    /// The space of a running process; all of its tasks are stopped. `who`: one of them.
    pub(crate) fn found(id: SpaceId, who: Who, query: bool, journal: &mut Journal<'_>) -> Space {
        let mut space = Space::new(id, who.tid, true, query);
        space.fill(who.tid, journal);
        space.doubt_the_past(journal);
        space.learn_policies(who.tid);
        let event = found(id, who, journal);
        space.report_program(event, who, journal);
        space
    }

    /// Marks facts of an attached space as unknown: its forks, its moves, and its locks of later
    /// maps.
    pub(super) fn doubt_the_past(&mut self, journal: &mut Journal<'_>) {
        let space = self;
        // A fork would lose these areas, their content or their locks.
        let lost = Flags::DONTCOPY | Flags::WIPEONFORK | Flags::LOCKED | Flags::LOCKONFAULT | Flags::UFFD;
        let kept = space.model.areas().filter(|a| a.area.flags.intersects(lost));
        let kept: Vec<_> = kept.map(|a| (a.start, a.end, a.area.clone(), a.extras().clone())).collect();
        space.inherit();
        for (start, end, area, extras) in kept {
            // An error means that the area is gone: there is nothing to forget.
            let _ = space.model.forget(start, end);
            if let Err(error) = space.model.import_with(start, end, area, extras) {
                journal.note(format!("an area could not be taken over from the kernel: {error}"));
            }
        }
        // (The charge of areas that cannot be written is certain: `smaps` shows it.)
        let written = |a: &samara_mm::Placed<'_, model::Inode>| {
            (a.area.object == Object::Anonymous && a.area.flags.contains(Flags::WRITE)).then_some((a.start, a.end))
        };
        let moved: Vec<Range> = space.model.areas().filter_map(|a| written(&a)).collect();
        for (start, end) in moved {
            let _ = space.model.unlearn(start, end, true, true);
        }
        space.part();
        space.doubt_former_locks();
        space.has_userfaultfd = space.model.areas().any(|a| a.area.flags.intersects(Flags::UFFD));
    }

    /// Begins to record a space that was only modelled before. `quiet`: none of its calls is in the
    /// kernel, so it can be compared first. `unheard`: its journal until now, which gets the result
    /// of that comparison.
    pub(crate) fn begin_to_record(&mut self, who: Who, quiet: bool, unheard: &mut Journal<'_>) {
        if quiet && !self.hidden && self.pending.is_empty() {
            // If it cannot be read, its process is about to end.
            let _ = self.compare_all(who, unheard);
        }
        // Its areas have not been counted so far.
        self.size = Size::default();
    }

    /// Reports a process that uses this space and is recorded from now on. `first`: it is the first
    /// of all.
    pub(crate) fn report_found(&mut self, who: Who, first: bool, journal: &mut Journal<'_>) {
        self.root |= first;
        if self.hidden {
            journal.lacks(Lack::Unreadable, proc::name(who.tid));
        }
        let event = found(self.id, who, journal);
        self.report_program(event, who, journal);
    }

    /// Makes unknown facts differ where areas touch and look alike but are not merged.
    fn part(&mut self) {
        let alike = |at: &u64| self.model.why_not_merged(*at).is_some_and(samara_mm::Reasons::is_empty);
        let bounds: Vec<u64> = self.model.areas().map(|a| a.start).filter(alike).collect();
        for at in bounds {
            let (left, right) = (at.checked_sub(1).and_then(|at| self.model.area_at(at)), self.model.area_at(at));
            let (Some(left), Some(right)) = (left, right) else { continue };
            let [left, right] = [left, right].map(|a| (a.start, a.end, a.area.clone(), a.extras().clone()));
            // Both are put in as one area, which learning then cuts.
            let one = (left.0, right.1, right.2.clone(), right.3.clone());
            let put = |model: &mut model::Model, (start, end, area, extras)| {
                model.forget(start, end).is_ok() && model.import_with(start, end, area, extras).is_ok()
            };
            if !put(&mut self.model, one) || self.model.learn_cut(at).is_err() {
                let _ = put(&mut self.model, left) && put(&mut self.model, right);
            }
        }
    }

    /// Writes an event that shows the whole space and names the program.
    pub(super) fn report_program(&mut self, mut event: Event, who: Who, journal: &mut Journal<'_>) {
        event.text = proc::program(who.tid);
        self.report_all(event, journal);
    }

    /// The space of a process whose parent ended before the recorder learnt of the child.
    pub(crate) fn orphan(id: SpaceId, who: Who, query: bool, journal: &mut Journal<'_>) -> Space {
        let mut space = Space::new(id, who.tid, false, query);
        space.fill(who.tid, journal);
        space.inherit();
        let mut event = journal.blank(EventKind::Fork, id, who);
        event.text = "its parent was killed while it forked".into();
        space.report_all(event, journal);
        space
    }

    /// The space of a forked child, `who`. `quiet`: no call of the parent's space is in flight.
    pub(crate) fn fork(
        &mut self,
        id: SpaceId,
        who: Who,
        quiet: bool,
        from: Caller,
        journal: &mut Journal<'_>,
    ) -> Space {
        let quiet = quiet && self.pending.is_empty();
        if quiet {
            // The child would have the same differences.
            self.catch_up(who, true, journal);
        }
        let mut child = Space::new(id, who.tid, false, self.maps.queries());
        child.bases = self.bases;
        child.hidden = self.hidden;
        child.forgets = self.forgets;
        child.has_policies = self.has_policies || !quiet;
        child.doubt = self.doubt.inherited();
        match self.model.fork() {
            Ok(model) => child.model = model,
            Err(error) => journal.note(format!("a fork's model could not be made ({error}): read from the kernel")),
        }
        let mut steps = Vec::new();
        let mut grown = Vec::new();
        let mut misfit = None;
        if !child.hidden
            && let Ok(areas) = child.maps.text().map(|t| proc::parse(&t))
        {
            journal.counters.checks += 1;
            let unknown = self.doubt.unknown(!quiet);
            if let Comparison::Differs(how) =
                compare::compare_areas(&mut child.model, &areas, reach::ALL, &unknown, &mut steps, &mut grown)
            {
                misfit = Some(how);
            }
            child.rename(&areas);
        }
        // Overlapped calls may have come before or after the copy, and `maps` does not show all
        // their effects.
        let before = if quiet {
            misfit.is_some().then(|| child.adopt(who.tid)).flatten()
        } else {
            let shown = child.look_with_policies(who.tid, &[reach::ALL]);
            let adopt = |shown: KernelView| {
                child.adopt_break(shown.heap);
                child.adopt_shown(&shown)
            };
            shown.map(adopt).filter(|steps| !steps.is_empty() || misfit.is_some())
        };
        if before.is_some() {
            child.inherit();
        }
        if !quiet {
            let _ = child.model.unlearn(reach::ALL.0, reach::ALL.1, true, true);
            child.doubt.policies(&child.model, &[reach::ALL]);
        }
        let mut event = journal.blank(EventKind::Fork, id, who);
        event.args[0] = self.id;
        event.overlapped = !quiet;
        from.note(&mut event);
        if before.is_some() && !quiet {
            event.text = UNSURE.into();
        }
        child.report_all(event, journal);
        match (misfit, before) {
            (how, Some(steps)) if !quiet => {
                let how = how.map_or_else(String::new, |how| format!(": {how}"));
                child.report_learnt(who, format!("calls overlapped the fork{how}"), &steps, journal);
            }
            (Some(how), Some(steps)) => drop(child.report_misfit(who, how, &steps, false, journal)),
            _ => {}
        }
        child
    }

    fn new(id: SpaceId, tid: Tid, root: bool, query: bool) -> Space {
        Space::with(id, root, Maps::open(tid, query))
    }

    /// An empty space with these maps.
    pub(super) fn with(id: SpaceId, root: bool, maps: Maps) -> Space {
        Space {
            id,
            root,
            model: model::empty(),
            bases: Bases::default(),
            maps,
            size: Size::default(),
            pending: Vec::new(),
            unreturned_calls: Vec::new(),
            has_userfaultfd: false,
            window: Vec::new(),
            doubt: Doubt::default(),
            has_policies: false,
            forgets: None,
            kernel_is_ahead: false,
            recent: VecDeque::new(),
            waiting: 0,
            finished: false,
            hidden: false,
            flagless: false,
        }
    }

    /// After a fork, marks the areas that were taken over from the kernel as copied by it.
    pub(super) fn inherit(&mut self) {
        if let Ok(model) = self.model.fork() {
            self.model = model;
        }
    }

    /// Takes over the kernel's view of the whole space.
    fn fill(&mut self, tid: Tid, journal: &mut Journal<'_>) {
        if self.maps.refused() {
            self.hidden = true;
            return journal.lacks(Lack::Unreadable, proc::name(tid));
        }
        let areas = proc::smaps(tid).or_else(|error| {
            journal.note(format!("/proc/PID/smaps cannot be read ({error}): the flags of areas are guessed"));
            self.maps.text().map(|t| proc::parse(&t))
        });
        match areas {
            Ok(areas) => self.fill_with(&areas, proc::layout(tid), journal),
            Err(error) => journal.note(format!("/proc/PID/maps cannot be read: {error}")),
        }
    }

    /// Takes these areas over into an empty space.
    pub(super) fn fill_with(&mut self, areas: &[KernelArea], at: proc::Layout, journal: &mut Journal<'_>) {
        let page = sys::page_size();
        for area in areas {
            let (new, extras) = model::import(area, page);
            if let Err(error) = self.model.import_with(area.start, area.end, new, extras) {
                journal.note(format!("an area could not be taken over from the kernel: {error}"));
            }
        }
        let (start_brk, start_stack) = (at.start_brk, at.start_stack);
        let layout = samara_mm::Layout { start_brk, brk: start_brk, start_stack, data: at.data };
        self.find_first_break(layout, Heap::of(areas));
    }
}
/// The event of a process that existed already. It has the number of the process's threads.
pub(super) fn found(id: u64, who: Who, journal: &mut Journal<'_>) -> Event {
    let mut event = journal.blank(EventKind::Found, id, who);
    event.args[0] = proc::threads(who.tid).len() as u64;
    event
}
