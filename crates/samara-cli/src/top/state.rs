//! The state of a recording at a moment, for the live view: totals, rates of the last second, the
//! slowest recent calls, and the largest space. Knows events. Knows neither the terminal nor the
//! source of events.
//!
//! - **STATE-1** a sample has the totals of every moment from its `from` to its `until`; samples
//!   ascend, and the first one is not later than a second before the latest moment, if the
//!   recording had begun by then.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use samara_trace::event::{Event, EventKind};
use samara_trace::file::{Space, Stacks};
use samara_trace::summary::{CallTotals, Largest, Summary, Tally};

use crate::why::Sites;

/// The period of rates, in nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// Interval between samples.
const STEP_NS: u64 = 100_000_000;
/// Age up to which a returned call is recent, in seconds.
const LATE_SECONDS: u64 = 10;
/// Calls of one second that are kept, the longest.
const SLOW: usize = 64;
/// The shortest time that a rate is computed from: a millisecond.
const LEAST_NS: u64 = 1_000_000;
/// Shortest interval between examinations of the largest space. They also take at most a tenth of
/// the time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The state at a moment.
#[derive(Debug, Default)]
pub(crate) struct State {
    tally: Tally,
    /// The stacks of a trace that was read to its end before, because the names are at the end.
    names: Option<Stacks>,
    samples: VecDeque<Sample>,
    next_sample_ns: u64,
    /// The longest calls of each of the last seconds.
    slow: VecDeque<(u64, Vec<Slow>)>,
    /// The first process, and how and when it ended.
    first: Option<(u32, Option<Ended>)>,
    /// The time of the last event, and how many there were.
    last_ns: u64,
    events: u64,
    /// The latest moment of all.
    now_ns: u64,
    looked: Option<Looked>,
}

/// How and when a process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) ns: u64,
}

/// Totals as they were for some time.
#[derive(Debug)]
struct Sample {
    from: u64,
    until: u64,
    totals: Totals,
}

/// The totals from which rates follow.
#[derive(Debug, Default)]
struct Totals {
    calls: BTreeMap<String, CallTotals>,
    /// Of each site: mappings made, splits, and time in calls.
    sites: Vec<Made>,
}

/// Counts of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) mapped: u64,
    pub(crate) splits: u64,
    pub(crate) ns: u64,
}

/// A call that took long.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) ns: u64,
    /// The call, without its effect.
    pub(crate) event: Event,
}

/// The last examination of a space.
#[derive(Debug)]
struct Looked {
    largest: Largest,
    /// Whether its process lives; otherwise the result is from close to its peak.
    lives: bool,
    events: u64,
    at: Instant,
    cost: Duration,
}

/// The process with the most areas now.
#[derive(Debug)]
pub(crate) struct Focus<'a> {
    pub(crate) pid: u32,
    pub(crate) program: &'a str,
    pub(crate) space: &'a Space,
    /// Number of processes that live.
    pub(crate) live: u64,
}

impl State {
    /// A state before all events, of a trace whose names are known already.
    pub(crate) fn with_names(names: Stacks) -> State {
        State { names: Some(names), ..State::default() }
    }

    /// Moves forward by one event.
    pub(crate) fn add(&mut self, event: &Event) {
        if !event.kind.defines() {
            self.sample(event.exit_ns);
            let (first, ended) = self.first.get_or_insert((event.pid, None));
            if *first == event.pid && event.kind == EventKind::Exit && ended.is_none() {
                *ended = Some(Ended { status: ExitStatus::from_raw(event.result as i32), ns: event.exit_ns });
            }
            if event.kind == EventKind::Call {
                self.note_slow(event);
            }
            self.last_ns = self.last_ns.max(event.exit_ns);
            self.now_ns = self.now_ns.max(event.exit_ns);
        }
        self.tally.add(event);
        self.events += 1;
    }

    /// Moves forward to a moment without further events. Never back: data before the last second is
    /// not kept.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.sample(now_ns);
        let late = (now_ns / 1_000_000_000).saturating_sub(LATE_SECONDS);
        while self.slow.front().is_some_and(|(second, _)| *second < late) {
            self.slow.pop_front();
        }
    }

    /// Examines the largest space, if there were events and the last examination was not just now.
    /// `limit`: `vm.max_map_count`.
    pub(crate) fn look(&mut self, limit: Option<u64>) {
        if let Some(Looked { events, at, cost, .. }) = self.looked
            && (events == self.events || at.elapsed() < LOOK_EVERY.max(cost * 10))
        {
            return;
        }
        let at = Instant::now();
        self.tally.set_limit(limit);
        let now = self.tally.now(None).map(|largest| (largest, true));
        let then = || Some((self.tally.peak()?, false));
        if let Some((largest, lives)) = now.or_else(then) {
            self.looked = Some(Looked { largest, lives, events: self.events, at, cost: at.elapsed() });
        }
    }

    /// Nothing follows for now: the next [`look`](Self::look) does not wait.
    pub(crate) fn rest(&mut self) {
        self.looked = self.looked.take().filter(|looked| looked.events == self.events);
    }

    /// Keeps the totals, if that was not done just before.
    fn sample(&mut self, now_ns: u64) {
        if now_ns < self.next_sample_ns {
            return;
        }
        self.next_sample_ns = now_ns.saturating_add(STEP_NS);
        let made = |site: &samara_trace::why::Site| Made { mapped: site.mapped.0, splits: site.splits, ns: site.ns };
        let totals =
            Totals { calls: self.tally.so_far().calls.clone(), sites: self.tally.sites().iter().map(made).collect() };
        self.samples.push_back(Sample { from: self.last_ns, until: now_ns, totals });
        let begin = now_ns.saturating_sub(WINDOW_NS);
        while self.samples.get(1).is_some_and(|second| second.from <= begin) {
            self.samples.pop_front();
        }
    }

    fn note_slow(&mut self, event: &Event) {
        let ns = event.exit_ns.saturating_sub(event.entry_ns);
        let second = event.exit_ns / 1_000_000_000;
        if self.slow.back().is_none_or(|(last, _)| *last < second) {
            self.slow.push_back((second, Vec::new()));
        }
        let Some((_, calls)) = self.slow.back_mut() else { return };
        if calls.len() >= SLOW {
            let shortest = calls.iter().enumerate().min_by_key(|(_, call)| call.ns).map(|(i, call)| (i, call.ns));
            match shortest {
                Some((i, least)) if ns > least => drop(calls.swap_remove(i)),
                _ => return,
            }
        }
        // Its areas may be many.
        let event = Event { plan: Vec::new(), areas: Vec::new(), text: event.text.clone(), ..*event };
        calls.push(Slow { ns, event });
    }

    /// Totals a second before `now_ns`, and the seconds since then.
    fn before(&self, now_ns: u64) -> (Option<&Totals>, f64) {
        let begin = now_ns.saturating_sub(WINDOW_NS);
        let sample = self.samples.iter().rev().find(|sample| sample.from <= begin);
        let since = sample.map_or(0, |sample| sample.until.min(begin));
        (sample.map(|sample| &sample.totals), now_ns.saturating_sub(since).max(LEAST_NS) as f64 / 1e9)
    }

    /// Totals of each kind of call: in the last second, and in all.
    pub(crate) fn calls(&self, now_ns: u64) -> impl Iterator<Item = (&str, CallTotals, CallTotals)> {
        let (before, seconds) = self.before(now_ns);
        self.tally.so_far().calls.iter().map(move |(name, now)| {
            let then = before.and_then(|before| before.calls.get(name)).copied().unwrap_or_default();
            let each = |now: u64, then: u64| per_second(now, then, seconds);
            let rate = CallTotals {
                count: each(now.count, then.count),
                failed: each(now.failed, then.failed),
                total_ns: each(now.total_ns, then.total_ns),
                populated: each(now.populated, then.populated),
                released: each(now.released, then.released),
            };
            (&**name, rate, *now)
        })
    }

    /// Counts of each site in the last second, in the order of their numbers.
    pub(crate) fn made(&self, now_ns: u64) -> impl Iterator<Item = Made> {
        let (before, seconds) = self.before(now_ns);
        self.tally.sites().iter().enumerate().map(move |(i, now)| {
            let then = before.and_then(|before| before.sites.get(i)).copied().unwrap_or_default();
            let each = |now: u64, then: u64| per_second(now, then, seconds);
            Made {
                mapped: each(now.mapped.0, then.mapped),
                splits: each(now.splits, then.splits),
                ns: each(now.ns, then.ns),
            }
        })
    }

    /// The calls that took longest in the last ten seconds before now.
    pub(crate) fn slow(&self, now_ns: u64) -> impl Iterator<Item = &Slow> {
        let late = (now_ns / 1_000_000_000).saturating_sub(LATE_SECONDS);
        self.slow.iter().filter(move |(second, _)| *second >= late).flat_map(|(_, calls)| calls)
    }

    /// All places that calls came from, with their stacks.
    pub(crate) fn sites(&self) -> Sites<'_> {
        Sites::new(self.tally.sites(), self.names.as_ref().unwrap_or(self.tally.call_stacks()))
    }

    /// The space with the most areas when it was last examined; `false`: its process has ended, and
    /// the result is from close to its peak.
    pub(crate) fn largest(&self) -> Option<(&Largest, bool)> {
        self.looked.as_ref().map(|looked| (&looked.largest, looked.lives))
    }

    /// The process with the most areas now.
    pub(crate) fn focus(&self) -> Option<Focus<'_>> {
        let live = || self.tally.replay().live();
        let (pid, process, space) = live().max_by_key(|(_, _, space)| space.len())?;
        Some(Focus { pid, program: &process.program, space, live: live().count() as u64 })
    }

    /// The totals so far.
    pub(crate) fn totals(&self) -> &Summary {
        self.tally.so_far()
    }

    /// The first process, and how and when it ended.
    pub(crate) fn first(&self) -> Option<(u32, Option<Ended>)> {
        self.first
    }

    /// Time of the last event.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// The latest moment, with or without an event.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Number of events.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }
}

/// The increase in a second, rounded, and at least 1 if there was one.
fn per_second(now: u64, then: u64, seconds: f64) -> u64 {
    match now.saturating_sub(then) {
        0 => 0,
        more => ((more as f64 / seconds).round() as u64).max(1),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
pub(crate) mod tests;
