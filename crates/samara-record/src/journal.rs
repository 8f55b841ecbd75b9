//! The journal: numbers the events, counts them, and hands them to the sink. Knows nothing of
//! ptrace or of models.
//!
//! - **JOURNAL-1** `seq` counts from 0 without a gap, in the order of the calls of `write`, except
//!   that events of other processes are held until the first process has one, and then follow it.
//!   They precede it if they share its space, or if as many as [`HELD`] are held.
//! - **JOURNAL-2** the sink is not called again after its first error, or after the report that the
//!   recording is complete; counting goes on.
//! - **JOURNAL-3** writing to the silent journal (processes that are not recorded) changes nothing
//!   in this one: no event, no number, no total, no note.

use std::collections::BTreeMap;

use samara_trace::Sink;
use samara_trace::event::{Event, EventKind, StepKind, UNSURE};

use crate::api::Counters;
use crate::reading_time::Budget;

/// The task that caused an event, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) entry_ns: u64,
    pub(crate) exit_ns: u64,
}

/// Size of a space. Each space keeps its own; the journal sums them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) areas: u64,
    pub(crate) bytes: u64,
}

/// Number of programs that a note about several programs names.
const NAMED: usize = 3;

/// An ability that a program loses under the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// The recorder may not read the program's memory.
    Unreadable,
    /// The user or group that the set-user-ID or set-group-ID bit of its file would give.
    SetId,
    /// The capabilities that its file would give.
    FileCaps,
    /// The right to trace a recorded process, which already has a tracer.
    Tracing,
    /// Seccomp's strict mode, which the kernel refuses to a process that has a filter.
    StrictMode,
    /// Calls that a seccomp filter of the program refuses.
    Filtered,
}

impl Lack {
    fn text(self, count: u64, names: &[String]) -> String {
        let (one, many, rest) = match self {
            Lack::Unreadable => (
                "program is",
                "programs are",
                "not to be read by this user: the areas are not known, so that nothing is compared or decided",
            ),
            Lack::SetId => (
                "program is",
                "programs are",
                "set-user-ID or set-group-ID and ran without those privileges: only programs recorded by root have them",
            ),
            Lack::FileCaps => (
                "program has",
                "programs have",
                "file capabilities and ran without them: only programs recorded by root have them",
            ),
            Lack::Tracing => (
                "ptrace call was",
                "ptrace calls were",
                "refused because samara traces the process already, and a process has one tracer: run debuggers, \
                 strace and LeakSanitizer, and what they trace, without samara",
            ),
            Lack::StrictMode => (
                "request for strict seccomp mode was",
                "requests for strict seccomp mode were",
                "refused, as a process with a seccomp filter cannot have it: such a program runs unconfined under samara",
            ),
            Lack::Filtered => {
                ("program has", "programs have", "a seccomp filter of its own: calls that it refuses are not seen")
            }
        };
        let subject = if count == 1 { one } else { many };
        let more = if names.len() == NAMED && count > NAMED as u64 { ", ..." } else { "" };
        let named = if names.is_empty() { String::new() } else { format!(" ({}{more})", names.join(", ")) };
        format!("{count} {subject} {rest}{named}")
    }
}

/// Most events that are kept until the first process has one.
const HELD: usize = 4096;

pub(crate) struct Journal<'a> {
    /// `None`: the sink has failed, or this journal is silent.
    sink: Option<&'a mut dyn Sink>,
    /// The journal of processes that are not recorded.
    silent: Option<Box<Journal<'a>>>,
    pub(crate) start_ns: u64,
    live: Size,
    /// Number of spaces that could not be compared, by the reason.
    unchecked: BTreeMap<String, u64>,
    /// For each lack: the number of programs that have it, and the first of their names.
    shared: BTreeMap<Lack, (u64, Vec<String>)>,
    pub(crate) counters: Counters,
    /// Number of records that the kernel has dropped, as far as it is known.
    pub(crate) lost: u64,
    /// The time for comparisons that are put off.
    pub(crate) budget: Budget,
    /// For tests: the number of the call whose effects the models ignore.
    pub(crate) forgets: Option<u32>,
    /// The process whose events come first. Events of others are kept until it has one.
    pub(crate) first: Option<u32>,
    held: Vec<Event>,
}

impl<'a> Journal<'a> {
    pub(crate) fn new(sink: &'a mut dyn Sink, start_ns: u64) -> Self {
        Journal::with(Some(sink), start_ns)
    }

    fn with(sink: Option<&'a mut dyn Sink>, start_ns: u64) -> Self {
        Journal {
            sink,
            silent: None,
            start_ns,
            live: Size::default(),
            unchecked: BTreeMap::new(),
            shared: BTreeMap::new(),
            lost: 0,
            counters: Counters::default(),
            budget: Budget::default(),
            forgets: None,
            first: None,
            held: Vec::new(),
        }
    }

    /// The journal of a process: this one if it is `recorded`, the silent one if not.
    pub(crate) fn of(&mut self, recorded: bool) -> &mut Journal<'a> {
        if recorded {
            return self;
        }
        let (start_ns, forgets) = (self.start_ns, self.forgets);
        self.silent.get_or_insert_with(|| Box::new(Journal { forgets, ..Journal::with(None, start_ns) }))
    }

    /// An empty event of this kind.
    pub(crate) fn blank(&self, kind: EventKind, space: u64, who: Who) -> Event {
        let tells = matches!(kind, EventKind::Learnt | EventKind::Checked);
        Event {
            args: [0, 0, if tells { self.lost } else { 0 }, 0, 0, 0],
            entry_ns: who.entry_ns.saturating_sub(self.start_ns),
            exit_ns: who.exit_ns.saturating_sub(self.start_ns),
            space,
            pid: who.pid as u32,
            tid: who.tid as u32,
            ..Event::new(0, kind)
        }
    }

    /// Writes an event, or keeps it until the first process has one.
    pub(crate) fn write(&mut self, event: Event) {
        let Some(first) = self.first else { return self.put(event) };
        if event.pid == first {
            // The events of a space that they share keep their order.
            if self.held.iter().any(|held| held.space == event.space) {
                self.release();
            }
            self.first = None;
            self.put(event);
            return self.release();
        }
        self.held.push(event);
        if self.held.len() >= HELD {
            self.release();
        }
    }

    /// Writes the events that were kept until the first process had one.
    fn release(&mut self) {
        self.first = None;
        std::mem::take(&mut self.held).into_iter().for_each(|event| self.put(event));
    }

    fn put(&mut self, mut event: Event) {
        event.seq = self.counters.events;
        self.counters.events += 1;
        match event.kind {
            EventKind::Difference => self.counters.differences += 1,
            EventKind::Exec => self.counters.execs += 1,
            EventKind::Call | EventKind::Fork => self.counters.unsure += u64::from(event.text == UNSURE),
            _ => {}
        }
        for step in &event.plan {
            match step.kind {
                StepKind::Split => self.counters.splits += 1,
                StepKind::Merged => self.counters.merges += 1,
                _ => {}
            }
        }
        let Some(sink) = &mut self.sink else { return };
        let seq = event.seq;
        if let Err(error) = sink.event(event) {
            self.sink = None;
            self.counters.ended_early = true;
            self.note(format!("the recording ends early, before event {seq}: {error}"));
        }
    }

    /// Tells the sink that the recorder handles its signals now.
    pub(crate) fn ready(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.ready();
        }
    }

    /// Tells the sink that the recording has begun.
    pub(crate) fn started(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.started();
        }
    }

    /// Tells the sink that no more events come.
    pub(crate) fn complete(&mut self) {
        if let Some(sink) = self.sink.take() {
            sink.complete();
        }
    }

    /// Adds a note for the user. The same note is kept only once.
    pub(crate) fn note(&mut self, text: String) {
        if !self.counters.notes.contains(&text) {
            self.counters.notes.push(text);
        }
    }

    /// Counts a program that lacks something under the recorder. One note reports all of them.
    pub(crate) fn lacks(&mut self, lack: Lack, program: String) {
        let (count, names) = self.shared.entry(lack).or_default();
        *count += 1;
        if names.len() < NAMED && !program.is_empty() && !names.contains(&program) {
            names.push(program);
        }
    }

    /// Counts a space that could not be compared with the kernel's maps.
    pub(crate) fn unchecked(&mut self, why: impl ToString) {
        *self.unchecked.entry(why.to_string()).or_default() += 1;
    }

    /// Adds the remaining notes and returns the totals.
    pub(crate) fn finish(mut self) -> Counters {
        self.release();
        if let Some(text) = self.budget.told() {
            self.note(text);
        }
        for (lack, (count, names)) in std::mem::take(&mut self.shared) {
            self.note(lack.text(count, &names));
        }
        for (error, n) in std::mem::take(&mut self.unchecked) {
            let spaces = if n == 1 { "space" } else { "spaces" };
            self.note(format!("{n} {spaces} could not be compared with /proc/PID/maps: {error}"));
        }
        self.counters
    }

    /// Reports the number of areas of a process.
    pub(crate) fn crowded(&mut self, pid: u32, areas: u64) {
        if areas > self.counters.process_areas_peak {
            (self.counters.process_areas_peak, self.counters.process_areas_peak_pid) = (areas, pid);
        }
    }

    /// Reports that a space has the size `new`; the last reported size was `old`.
    pub(crate) fn resized(&mut self, old: &mut Size, new: Size) {
        self.live.areas = (self.live.areas + new.areas).saturating_sub(old.areas);
        self.live.bytes = (self.live.bytes + new.bytes).saturating_sub(old.bytes);
        *old = new;
        self.counters.areas_peak = self.counters.areas_peak.max(self.live.areas);
        self.counters.mapped_bytes_peak = self.counters.mapped_bytes_peak.max(self.live.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JOURNAL-1: events of other processes wait for the first process's, except in a shared space.
    #[test]
    fn the_first_process_comes_first() {
        let order = |writes: &[(u32, u64)]| {
            let mut events: Vec<Event> = Vec::new();
            let mut journal = Journal::new(&mut events, 0);
            journal.first = Some(7);
            for (pid, space) in writes.iter().copied() {
                let who = Who { pid: pid as i32, tid: pid as i32, entry_ns: 0, exit_ns: 0 };
                journal.write(journal.blank(EventKind::Call, space, who));
            }
            journal.finish();
            assert!(events.iter().map(|event| event.seq).eq(0..writes.len() as u64));
            events.iter().map(|event| event.pid).collect::<Vec<_>>()
        };
        assert_eq!(order(&[(8, 2), (9, 3), (7, 1), (8, 2)]), [7, 8, 9, 8]);
        assert_eq!(order(&[(8, 2), (8, 1), (7, 1)]), [8, 8, 7]);
        assert_eq!(order(&[(8, 2), (9, 3)]), [8, 9]);
        let many = vec![(8, 2); HELD + 1];
        assert_eq!(order(&many).len(), HELD + 1);
    }

    /// JOURNAL-1, JOURNAL-3.
    #[test]
    fn what_is_not_recorded_changes_nothing() {
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 100);
        let who = Who { pid: 7, tid: 8, entry_ns: 150, exit_ns: 160 };
        for recorded in [false, true, false, true] {
            let journal = journal.of(recorded);
            let event = journal.blank(EventKind::Exec, 1, who);
            assert_eq!((event.entry_ns, event.exit_ns), (50, 60));
            journal.write(event);
            let mut size = Size::default();
            journal.resized(&mut size, Size { areas: if recorded { 1 } else { 100 }, bytes: 4096 });
            journal.crowded(7, size.areas);
            if !recorded {
                journal.note("unheard".into());
                journal.lacks(Lack::SetId, "su".into());
                journal.unchecked("unheard");
            }
        }
        let counters = journal.finish();
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((counters.events, counters.execs, counters.areas_peak), (2, 2, 2));
        assert_eq!((counters.process_areas_peak, counters.notes), (1, Vec::new()));
    }
}
