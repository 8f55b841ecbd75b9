//! The plain run: makes each call of a trace again on a model, with the trace's place and result,
//! and compares the areas with the trace's. Knows no rules of `--what-if`.
//!
//! - **RERUN-1** after each event the model of its space has the trace's areas in the event's
//!   window, and in the window of the model's own steps.
//! - **RERUN-2** calls that reach far are made on the model only while [`Work`] lasts. Each event
//!   adds to it, so the total work is O(n log n) for n events, areas and steps of the trace.
//!
//! It learns the rest as the recorder did: only merges of areas in the trace show whether memory
//! was written, and from which open file it was mapped.

use std::collections::BTreeMap;

use samara_mm::{Features, Overcommit, StepKind};
use samara_trace::calls::Call;
use samara_trace::event::{Event, EventKind, Step, UNSURE};
use samara_trace::file::{Replay, Space};

use super::seen::{TracedCall, kernel};
use super::take;
use super::work::Work;
use super::{Agreement, Why};
use crate::os::proc::Maps;
use crate::space::apply::{Applied, apply_to_model};
use crate::space::compare::{Comparison, Unknown, compare_areas};
use crate::space::model::{self, Model};
use crate::space::reach::{self, Range};

/// Most differing boundaries in one window that are learnt one by one.
const MENDS: usize = 1000;

/// One space.
pub(super) struct Played {
    pub(super) model: Model,
    /// The recorder could not read the space, so its areas are unknown.
    pub(super) hidden: bool,
    /// A call set a memory policy, which a trace does not show.
    bound: bool,
    /// Flags, or the order of calls, are guessed: some areas came from calls that the trace shows
    /// only in part, or existed before it.
    guessed: bool,
}

/// A boundary that was learnt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mend {
    Cut(u64),
    Join(u64),
}

/// The plain run's result of an event.
#[derive(Default)]
pub(super) struct PlainResult {
    /// The call, if the model made it.
    pub(super) call: Option<TracedCall>,
    /// Whether the trace's call failed; `None`: it was no call on areas.
    pub(super) failed: Option<bool>,
    /// The model refuses the call as the trace does.
    pub(super) refused: bool,
    /// The model's steps. If the trace's areas were taken, the trace's steps count instead.
    pub(super) steps: Vec<Step>,
    /// Boundaries that it learnt after the call.
    pub(super) mends: Vec<Mend>,
    /// Ranges in which the trace's areas were taken.
    pub(super) taken: Vec<Range>,
}

pub(super) struct Plain {
    pub(super) spaces: BTreeMap<u64, Played>,
    pub(super) agreement: Agreement,
    pub(super) maps: Maps,
    page: u64,
    /// The rules of the kernel that answered the calls.
    pub(super) features: Features,
    work: Work,
}

impl Plain {
    pub(super) fn new(page: u64, features: Features) -> Plain {
        let (spaces, agreement) = (BTreeMap::new(), Agreement::default());
        Plain { spaces, agreement, maps: Maps::of_nobody(), page, features, work: Work::default() }
    }

    /// Moves forward by one event, which `replay` has applied already.
    pub(super) fn step(&mut self, event: &Event, replay: &Replay) -> PlainResult {
        self.work.earn(event);
        let space = replay.space(event.space);
        match (event.kind, space) {
            (EventKind::Exec | EventKind::Found, _) => {
                let mut played = Played::new(event, self.features);
                take::fill(&mut played.model, &event.areas, self.page);
                // The earlier calls of a running program are not in the trace.
                played.guessed = event.kind == EventKind::Found;
                self.spaces.insert(event.space, played);
                PlainResult::default()
            }
            (EventKind::Fork, Some(space)) => {
                let parent = self.spaces.get(&event.args[0]);
                let parent = parent.filter(|parent| self.work.spend(parent.model.len() as u64));
                let parent = parent.map(|parent| (parent.model.fork(), parent.bound, parent.guessed));
                let mut played = Played::new(event, self.features);
                match parent {
                    Some((Ok(model), bound, guessed)) => {
                        (played.model, played.bound, played.guessed) = (model, bound, guessed);
                    }
                    // Its parent ended before the recorder saw the child.
                    _ => {
                        take::fill(&mut played.model, &event.areas, self.page);
                        played.guessed = true;
                    }
                }
                let result = self.settle(&mut played, event, space, reach::ALL, Vec::new()).0;
                self.spaces.insert(event.space, played);
                result
            }
            (EventKind::Call | EventKind::Learnt | EventKind::Difference, Some(space)) => {
                // A recorded trace begins with a program. A trace that does not was forged.
                let features = self.features;
                let mut played = self.spaces.remove(&event.space).unwrap_or_else(|| {
                    let mut played = Played::new(event, features);
                    played.hidden = space.is_empty();
                    played
                });
                let result = self.change(&mut played, event, space);
                self.spaces.insert(event.space, played);
                result
            }
            _ => PlainResult::default(),
        }
    }

    fn change(&mut self, played: &mut Played, event: &Event, space: &Space) -> PlainResult {
        if played.hidden {
            self.agreement.hidden += u64::from(event.kind == EventKind::Call);
            return PlainResult::default();
        }
        if event.kind == EventKind::Learnt {
            self.agreement.learnt += 1;
            return self.adopt(played, event, space);
        }
        if event.kind == EventKind::Difference {
            self.agreement.differences += 1;
            return self.adopt(played, event, space);
        }
        let Some(seen) = TracedCall::of(event, Some(space), played.model.layout().brk) else {
            return self.adopt(played, event, space);
        };
        self.agreement.calls += 1;
        played.bound |= seen.decoded.call.sets_policies();
        let failed = Some(seen.failed());
        played.guessed |= seen.reads_more() || event.text == UNSURE;
        let why = if event.text == UNSURE {
            Some(Why::Unsure)
        } else if !self.can_afford(&played.model, &seen) {
            Some(Why::Wide)
        } else {
            seen.reads_more().then_some(Why::Told)
        };
        let result = match why {
            Some(why) => {
                self.agreement.add(event, why, String::new());
                self.adopt(played, event, space)
            }
            None => self.call(played, seen, event, space),
        };
        PlainResult { failed, ..result }
    }

    fn call(&mut self, played: &mut Played, seen: TracedCall, event: &Event, space: &Space) -> PlainResult {
        let model = &mut played.model;
        find_break(model, &seen, event);
        let before = if seen.failed() { model.snapshot(model.config().clone()).ok() } else { None };
        let personality = seen.personality(space);
        let d = &seen.decoded;
        match apply_to_model(model, &mut self.maps, &seen.memory, d, seen.result, personality) {
            Applied::Done(steps) => {
                let window = window_of(event, &steps, self.page);
                let (mut result, differs) = self.settle(played, event, space, window, steps);
                match differs {
                    None if result.mends.is_empty() => self.agreement.agree += 1,
                    None => self.agreement.written += 1,
                    Some(how) => self.agreement.add(event, played.why(event, seen.failed()), how),
                }
                result.refused = before.is_some();
                result.call = Some(seen);
                result
            }
            Applied::AskKernel(steps) => {
                if d.call == Call::PrSetMemoryMerge {
                    model.merge_pages(d.args[1] != 0);
                }
                self.agreement.add(event, Why::Told, String::new());
                let window = window_of(event, &steps, self.page);
                played.guessed = true;
                PlainResult { taken: take::take(&mut played.model, space, window, self.page), ..PlainResult::default() }
            }
            Applied::Disagrees(how, steps) => {
                let mut window = window_of(event, &steps, self.page);
                if let Some(before) = before {
                    *model = before;
                    window = event.window.unwrap_or_default();
                }
                let (result, differs) = self.settle(played, event, space, window, Vec::new());
                self.agreement.add(event, played.why(event, seen.failed()), differs.unwrap_or(how));
                result
            }
        }
    }

    /// Takes the event's areas.
    fn adopt(&mut self, played: &mut Played, event: &Event, space: &Space) -> PlainResult {
        let taken = event.window.map(|window| take::take(&mut played.model, space, window, self.page));
        PlainResult { taken: taken.unwrap_or_default(), ..PlainResult::default() }
    }

    /// Compares the model with the trace in the window, learns boundaries, and takes the trace's
    /// areas where they still differ. Returns a description of the difference.
    fn settle(
        &mut self,
        played: &mut Played,
        event: &Event,
        space: &Space,
        window: Range,
        mut steps: Vec<Step>,
    ) -> (PlainResult, Option<String>) {
        if played.hidden || window.0 >= window.1 {
            return (PlainResult::default(), None);
        }
        let model = &mut played.model;
        let areas: Vec<_> = space.between(window.0, window.1).collect();
        let shown: Vec<_> = areas.iter().map(|area| kernel(area, 0)).collect();
        let starts = |start: &u64| areas.binary_search_by_key(start, |area| area.start).is_ok();
        let own: Vec<u64> = model.areas_in(window.0, window.1).map(|area| area.start).collect();
        let (both, count) = (own.iter().filter(|start| starts(start)).count(), own.len());
        let mut found = Comparison::Differs(String::from("many boundaries differ"));
        let was = bounds(&steps);
        if count + areas.len() - 2 * both <= MENDS {
            let all = [reach::ALL];
            let unsure_policies: &[Range] = if played.bound { &all } else { &[] };
            let order = event.kind == EventKind::Fork && event.overlapped;
            let unknown = Unknown { unsure_policies, order };
            found = compare_areas(model, &shown, window, &unknown, &mut steps, &mut Vec::new());
        }
        let mut result = PlainResult { mends: mends(&was, &bounds(&steps)), ..PlainResult::default() };
        let how = match found {
            Comparison::Equal => areas.iter().find_map(|area| {
                let mine = model.area_at(area.start).map(|mine| model::record(model, &mine).name)?;
                (area.inode == 0 && mine != area.name)
                    .then(|| format!("{:x}: named {mine:?}, not {:?}", area.start, area.name))
            }),
            Comparison::Differs(how) => Some(how),
        };
        if how.is_some() {
            result.taken = take::take(model, space, window, self.page);
        }
        result.steps = steps;
        (result, how)
    }

    /// Whether the remaining work suffices for the areas that the call reaches.
    fn can_afford(&mut self, model: &Model, seen: &TracedCall) -> bool {
        let ranges = reach::of(&seen.decoded, seen.result, model.layout().brk, self.page);
        let most = usize::try_from(self.work.left()).unwrap_or(usize::MAX);
        let reached = ranges.iter().map(|range| model.areas_in(range.0, range.1).take(most).count() as u64);
        self.work.spend(reached.fold(0, u64::saturating_add))
    }
}

impl Played {
    fn new(event: &Event, features: Features) -> Played {
        Played {
            model: model::promising(Overcommit::Always, features),
            hidden: event.window.is_none(),
            bound: false,
            guessed: false,
        }
    }

    /// Why a call is not reproduced.
    fn why(&mut self, event: &Event, failed: bool) -> Why {
        match (failed, event.overlapped) {
            (true, _) => Why::Refused,
            (false, true) => {
                self.guessed = true;
                Why::Overlapped
            }
            _ if self.guessed => Why::Guessed,
            _ => Why::Differs,
        }
    }
}

/// Learns the heap's start from the first query of the break, its only sign in a trace.
fn find_break(model: &mut Model, seen: &TracedCall, event: &Event) {
    let mut layout = model.layout();
    if seen.decoded.call == Call::Brk && layout.brk == 0 {
        let heap = event.areas.iter().find(|area| area.name == "[heap]");
        layout.start_brk = heap.map_or(seen.result as u64, |heap| heap.start);
        layout.brk = layout.start_brk;
        model.set_layout(layout);
    }
}

/// The window of the event and of the model's own steps.
fn window_of(event: &Event, steps: &[Step], page: u64) -> Range {
    let (low, high) = event.window.unwrap_or((u64::MAX, 0));
    steps.iter().fold((low, high), |(low, high), step| {
        (low.min(step.start.saturating_sub(page)), high.max(step.end.saturating_add(page)))
    })
}

/// For each boundary: how often it was made, minus how often it was joined.
fn bounds(steps: &[Step]) -> BTreeMap<u64, i64> {
    let mut all = BTreeMap::new();
    for step in steps {
        match step.kind {
            StepKind::Split => *all.entry(step.start).or_default() += 1,
            StepKind::Merged => *all.entry(step.start).or_default() -= 1,
            _ => {}
        }
    }
    all
}

fn mends(before: &BTreeMap<u64, i64>, after: &BTreeMap<u64, i64>) -> Vec<Mend> {
    let count = |of: &BTreeMap<u64, i64>, at: &u64| of.get(at).copied().unwrap_or(0);
    let all: std::collections::BTreeSet<u64> = before.keys().chain(after.keys()).copied().collect();
    all.into_iter()
        .filter_map(|at| match count(after, &at) - count(before, &at) {
            0 => None,
            1.. => Some(Mend::Cut(at)),
            _ => Some(Mend::Join(at)),
        })
        .collect()
}
