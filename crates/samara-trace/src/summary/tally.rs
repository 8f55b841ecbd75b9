//! Sums events up. Knows nothing of files and prints nothing.

use std::collections::{BTreeMap, HashMap};

use super::crash::Crash;
use super::failures;
use super::groups::groups;
use super::newborn::Newborn;
use super::{CallTotals, Largest, ProcessTotals, ResidentPeak, Summary};
use crate::event::{Event, EventKind, Resident, StepKind, UNSURE};
use crate::file::{Replay, Stacks, call_name};
use crate::spaces::{Due, Most, Spaces};
use crate::survey::Survey;
use crate::why::Site;

/// Number of groups that a summary names.
const GROUPS: usize = 5;
/// Most crashes that are kept.
const CRASHES: usize = 4;

/// Processes that are counted, and those that a summary names.
const PROCESSES: (usize, usize) = (4096, 8);
/// Bytes of a program's name that are kept.
const PROGRAM: usize = 1024;

/// Most stacks that are counted.
const STACKS: usize = 1 << 22;

/// Sums events up.
#[derive(Debug, Default)]
pub struct Tally {
    totals: Summary,
    spaces: Spaces,
    /// The first process, and whether it has ended.
    first: Option<(u32, bool)>,
    /// For each stack by its number: whether it is whole, and whether it has no guess.
    stacks: Vec<(bool, bool)>,
    /// The stacks and names that were defined, and whether one could not be read.
    defined: (Stacks, bool),
    /// The site of the last event.
    site: Option<u32>,
    processes: BTreeMap<u32, ProcessTotals>,
    newborn: Newborn,
    /// Spaces that continued after a comparison, and whether they were equal.
    compared: HashMap<u64, bool>,
    /// `vm.max_map_count`.
    limit: Option<u64>,
    /// The time of the last skipped event, until an event is not skipped.
    skipped: Option<u64>,
}

/// How an event counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Counted,
    /// It only changes spaces.
    Passed,
    /// It comes before the time of the summary.
    Skipped,
}

impl Tally {
    /// Reports only the spaces of this process. Further calls add processes. This does not choose
    /// which events count: see [`pass`](Tally::pass).
    #[must_use]
    pub fn only(mut self, pid: u32) -> Self {
        self.spaces = self.spaces.only(pid);
        self
    }

    /// Sets `vm.max_map_count` of the recording: the peak of areas, and calls that fail from now
    /// on, are compared with it.
    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// Adds an event. Events must come in the order of their numbers.
    pub fn add(&mut self, event: &Event) {
        self.take(event, As::Counted);
    }

    /// Applies an event without counting it: its effect on spaces shows in all figures about areas,
    /// but it counts neither as an event nor as a call.
    pub fn pass(&mut self, event: &Event) {
        self.take(event, As::Passed);
    }

    /// Applies an event before the time of the summary. Peaks and figures over time then begin with
    /// the next event. No event may be skipped after one that was not.
    pub fn skip(&mut self, event: &Event) {
        self.take(event, As::Skipped);
    }

    fn take(&mut self, event: &Event, how: As) {
        if event.kind.defines() {
            self.totals.events += u64::from(how == As::Counted);
            self.defined.1 |= !self.defined.1 && self.defined.0.note(event).is_err();
            // A file may claim any number of stacks.
            if event.kind == EventKind::Stack && self.stacks.len() < STACKS {
                self.totals.stacks.distinct += 1;
                self.stacks.push((event.args[1] == 0, !event.text.contains('?')));
            }
            return;
        }
        if self.first.is_none() && self.is_asked(event.pid) {
            self.first = Some((event.pid, false));
        }
        let first_ends = self.first == Some((event.pid, false)) && event.kind == EventKind::Exit;
        if let Some(first) = &mut self.first {
            first.1 |= first_ends;
        }
        self.totals.wall_ns = self.totals.wall_ns.max(event.exit_ns);
        if how != As::Skipped {
            self.begin();
            let known = self.spaces.replay.process(event.pid).is_some_and(|p| p.ended_ns.is_none());
            let is_new = !known && !matches!(event.kind, EventKind::Exit | EventKind::Checked);
            self.totals.processes += u64::from(is_new && self.is_asked(event.pid));
        }
        if how == As::Counted {
            self.count(event);
        }
        self.site = None;
        if self.totals.lost.is_some() {
            return;
        }
        if how != As::Skipped {
            let Due { ends, peak } = self.spaces.due(event);
            if let Some(space) = ends {
                self.look(space, event.pid, event.exit_ns);
                self.spaces.note_end(space);
            }
            if let Some(space) = peak {
                self.look(space, event.pid, event.entry_ns);
            }
            if first_ends {
                self.settle(event.pid);
            }
            if self.totals.crashes.len() < CRASHES && self.is_asked(event.pid) {
                self.totals.crashes.extend(Crash::of(event, &self.spaces.replay));
            }
        }
        self.site = self.spaces.apply(event);
        self.totals.lost = self.spaces.lost.clone();
        if self.totals.lost.is_some() {
            return;
        }
        if how == As::Skipped {
            self.skipped = Some(self.totals.wall_ns);
            return;
        }
        self.note_process(event, how);
        self.note_size(event.exit_ns);
    }

    /// Begins the time of the summary after the skipped events. Processes that live then are part
    /// of it.
    fn begin(&mut self) {
        let Some(from_ns) = self.skipped.take() else { return };
        self.totals.from_ns = from_ns;
        let live = self.spaces.replay.live().filter(|(pid, ..)| self.is_asked(*pid));
        let live: Vec<(u32, u64)> = live.map(|(pid, process, _)| (pid, process.space)).collect();
        for (pid, _) in live.iter().take(PROCESSES.0) {
            self.note(*pid, false);
        }
        // The next event may unmap areas of the peak.
        let size = |(_, space): &&(u32, u64)| self.spaces.replay.space(*space).map_or(0, |space| space.len());
        if let Some((pid, space)) = live.iter().max_by_key(size).copied() {
            self.look(space, pid, from_ns);
        }
        self.totals.processes = live.len() as u64;
        self.note_size(from_ns);
    }

    /// Notes the size of the reported spaces.
    fn note_size(&mut self, ns: u64) {
        let (areas, bytes) = match self.spaces.only.is_empty() {
            true => (self.spaces.replay.areas(), self.spaces.replay.bytes()),
            false => self.spaces.replay.size_of(&self.spaces.only),
        };
        self.totals.areas_peak = self.totals.areas_peak.max(areas);
        self.totals.mapped_bytes_peak = self.totals.mapped_bytes_peak.max(bytes);
        // After the last space has ended the timeline keeps its last value instead of falling to 0.
        let since = ns.saturating_sub(self.totals.from_ns);
        match areas {
            0 => self.totals.timeline.lasts(since),
            areas => self.totals.timeline.add(since, areas),
        }
    }

    /// The totals so far.
    pub fn summary(mut self) -> Summary {
        self.begin();
        if let Some((first, false)) = self.first {
            self.settle(first);
        }
        // Of spaces that the trace leaves alive, only the largest can be the largest of all.
        if let Some((pid, space)) = self.spaces.largest() {
            self.look(space, pid, self.totals.wall_ns);
        }
        self.totals.largest = self.peak();
        let mut busiest: Vec<ProcessTotals> = self.processes.into_values().collect();
        busiest.sort_by_key(|process| (std::cmp::Reverse((process.areas_peak, process.calls)), process.pid));
        busiest.truncate(PROCESSES.1);
        self.totals.busiest = busiest;
        self.totals.sites = self.spaces.origins.into_sites();
        self.totals.call_stacks = self.defined.0;
        self.totals
    }

    /// The space that had the most areas so far, at its end or near its peak.
    pub fn peak(&self) -> Option<Largest> {
        self.spaces.most.as_ref().map(|most| self.told(most))
    }

    /// A space with the reasons for its areas, by the events so far.
    fn told(&self, most: &Most) -> Largest {
        let (areas, known) = most.recorded(&self.spaces.origins);
        Largest {
            pid: most.pid,
            program: most.program.clone(),
            ns: most.ns,
            is_incomplete: most.is_incomplete,
            survey: Survey::of(&areas, known),
            why: self.spaces.why(most, &self.defined.0, self.totals.wall_ns, self.limit),
        }
    }

    /// The counts so far. Figures that are only known at the end are missing: [`Summary::sites`],
    /// [`Summary::call_stacks`], the largest space ([`peak`](Tally::peak)), and those of spaces
    /// that live.
    pub fn so_far(&self) -> &Summary {
        &self.totals
    }

    /// The processes and their spaces now, as far as [`Summary::lost`] does not say otherwise.
    pub fn replay(&self) -> &Replay {
        &self.spaces.replay
    }

    /// The sites of calls so far: [`Why`](crate::why::Why) refers to them by their positions.
    pub fn sites(&self) -> &[Site] {
        self.spaces.origins.sites()
    }

    /// The number of the site that counts the last added event, if one does: see
    /// [`Origins::apply`](crate::why::Origins::apply).
    pub fn site_of_last(&self) -> Option<u32> {
        self.site
    }

    /// The call stacks that were defined so far. Their functions are named at the end of a trace.
    pub fn call_stacks(&self) -> &Stacks {
        &self.defined.0
    }

    /// The space of a process now, or the largest space with a user. `None`: it does not exist, or
    /// has more areas than are surveyed.
    pub fn now(&self, pid: Option<u32>) -> Option<Largest> {
        let largest = || self.spaces.replay.live().max_by_key(|(_, _, space)| space.len());
        let pid = pid.or_else(|| Some(largest()?.0))?;
        let space = self.spaces.replay.process(pid)?.space;
        Some(self.told(&self.spaces.now(space, pid, self.totals.wall_ns)?))
    }

    /// Counts an event for its process.
    fn note_process(&mut self, event: &Event, how: As) {
        let starts = matches!(event.kind, EventKind::Exec | EventKind::Fork | EventKind::Share | EventKind::Found);
        if self.newborn.loads(event) {
            if let Some(process) = self.processes.get_mut(&event.pid) {
                process.areas_peak = 0;
            }
            if self.spaces.only.iter().eq([&event.pid]) {
                (self.totals.areas_peak, self.totals.areas_largest, self.totals.mapped_bytes_peak) = (0, 0, 0);
            }
        }
        if let Some(process) = self.note(event.pid, starts) {
            process.calls += u64::from(event.nr.is_some() && how == As::Counted);
        }
    }

    /// The totals of a reported process, updated with the size of its space now. `starts`: it may
    /// have another program now.
    fn note(&mut self, pid: u32, starts: bool) -> Option<&mut ProcessTotals> {
        if !self.is_asked(pid) {
            return None;
        }
        let known = self.spaces.replay.process(pid);
        let areas = known.and_then(|known| self.spaces.replay.space(known.space)).map_or(0, |space| space.len() as u64);
        self.totals.areas_largest = self.totals.areas_largest.max(areas);
        let is_new = !self.processes.contains_key(&pid);
        if is_new && self.processes.len() >= PROCESSES.0 {
            return None;
        }
        let new = || ProcessTotals { pid, ..ProcessTotals::default() };
        let process = self.processes.entry(pid).or_insert_with(new);
        process.areas_peak = process.areas_peak.max(areas);
        if let Some(known) = known.filter(|_| is_new || starts) {
            process.program = known.program.chars().take(PROGRAM).collect();
        }
        Some(process)
    }

    fn is_asked(&self, pid: u32) -> bool {
        self.spaces.is_asked(pid)
    }

    fn count(&mut self, event: &Event) {
        let t = &mut self.totals;
        t.events += 1;
        t.overlapped += u64::from(event.overlapped);
        if let Some((is_whole, is_certain)) = event.stack.and_then(|number| self.stacks.get(number as usize)) {
            t.stacks.calls += 1;
            t.stacks.whole += u64::from(*is_whole);
            t.stacks.guessed += u64::from(!is_certain);
        }
        t.unsure += u64::from(matches!(event.kind, EventKind::Call | EventKind::Fork) && event.text == UNSURE);
        for step in &event.plan {
            match step.kind {
                StepKind::Split => t.splits += 1,
                StepKind::Merged => t.merges += 1,
                _ => {}
            }
        }
        let sizes = |now: Resident| [(event.entry_ns, now.before()), (event.exit_ns, (now.private, now.files))];
        for (ns, (private, files)) in event.resident.into_iter().flat_map(sizes) {
            let most = t.resident.map_or(0, |most| most.private.saturating_add(most.files));
            if private.saturating_add(files) > most {
                t.resident = Some(ResidentPeak { pid: event.pid, ns, private, files });
            }
        }
        if matches!(event.kind, EventKind::Learnt | EventKind::Checked) {
            t.lost_events = t.lost_events.max(event.args[2]);
        }
        let had_lost = |space| self.spaces.replay.space(space).is_some_and(|space| space.has_lost());
        match event.kind {
            EventKind::Exec => t.execs += 1,
            EventKind::Learnt if event.is_loss() => t.losses += u64::from(!had_lost(event.space)),
            EventKind::Learnt => t.learnt += 1,
            EventKind::Difference => t.differences += 1,
            EventKind::Checked => {
                let is_equal = event.result == 0;
                // The last comparison of a space counts.
                let before = self.compared.insert(event.space, is_equal);
                t.compared.0 += u64::from(before.is_none());
                t.compared.1 = (t.compared.1 + u64::from(is_equal)).saturating_sub(u64::from(before == Some(true)));
                if !event.goes_on() {
                    self.compared.remove(&event.space);
                }
            }
            EventKind::Call | EventKind::Fork | EventKind::Share | EventKind::Thread => {}
            EventKind::Found | EventKind::Exit => {}
            EventKind::Module | EventKind::Stack | EventKind::Symbol => {}
        }
        if let Some(nr) = event.nr {
            let failed = event.error().is_some();
            if event.kind == EventKind::Call && failed {
                failures::count(
                    &mut self.totals.failures,
                    event,
                    nr,
                    self.spaces.replay.space(event.space),
                    self.limit,
                );
            }
            let t = &mut self.totals;
            // A file may claim any number of calls that do not exist.
            let name = call_name(nr).unwrap_or("other");
            if !t.calls.contains_key(name) {
                t.calls.insert(name.to_owned(), CallTotals::default());
            }
            let Some(call) = t.calls.get_mut(name) else { return };
            call.count += 1;
            call.failed += u64::from(failed);
            // A file may claim any times.
            call.total_ns = call.total_ns.saturating_add(event.exit_ns.saturating_sub(event.entry_ns));
            let (populated, released) = event.populated_and_released();
            call.populated = call.populated.saturating_add(populated);
            call.released = call.released.saturating_add(released);
        }
    }

    /// Stores the areas and bytes of the first process at its end.
    fn settle(&mut self, first: u32) {
        if let Some(space) = self.spaces.replay.space_of(first) {
            self.totals.areas_final = space.len() as u64;
            self.totals.mapped_bytes_final = space.bytes();
        }
    }

    /// Keeps the largest group of each reason, and the largest space.
    fn look(&mut self, number: u64, pid: u32, ns: u64) {
        if !self.is_asked(pid) {
            return;
        }
        let calls = self.processes.get(&pid).map_or(0, |process| process.calls);
        self.spaces.look(number, pid, ns, calls);
        let Some(space) = self.spaces.replay.space(number) else { return };
        let kept = &mut self.totals.groups;
        for group in groups(pid, self.spaces.origins.recorded(number, space.areas())) {
            match kept.iter_mut().find(|k| k.apart == group.apart) {
                Some(k) if k.areas - k.runs < group.areas - group.runs => *k = group,
                Some(_) => {}
                None => kept.push(group),
            }
        }
        kept.sort_by_key(|k| std::cmp::Reverse(k.areas - k.runs));
        kept.truncate(GROUPS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::tests::anonymous;

    /// Areas of the parent are not the peak of the program that a child loads, unless the child has
    /// made a call before.
    #[test]
    fn a_program_has_its_own_peak() {
        let areas = |n: u64| (0..n).map(|i| anonymous(2 * i + 1, 1, 3)).collect::<Vec<_>>();
        let event = |seq, kind, (pid, space), n| {
            let window = Some((0, u64::MAX));
            Event { pid, tid: pid, space, window, areas: areas(n), text: "/bin/x".into(), ..Event::new(seq, kind) }
        };
        let (fork, share) = ((EventKind::Fork, 2), (EventKind::Share, 1));
        for (calls, peak, (kind, space)) in [(false, 1, fork), (true, 9, fork), (false, 1, share), (true, 9, share)] {
            let mut tally = Tally::default();
            tally.add(&event(0, EventKind::Exec, (1, 1), 9));
            let fork = event(1, kind, (2, space), 9);
            tally.add(&Event { args: [1, 0, 0, 0, 0, 0], ..fork });
            let call = Event { nr: Some(12), ..event(2, EventKind::Call, (2, space), 9) };
            // The call need not be counted.
            if calls {
                tally.pass(&call);
            }
            tally.add(&event(2 + u64::from(calls), EventKind::Exec, (2, 3), 1));
            let summary = tally.summary();
            let child = summary.busiest.iter().find(|process| process.pid == 2).unwrap();
            assert_eq!(child.areas_peak, peak, "{calls}");
        }
    }
}
