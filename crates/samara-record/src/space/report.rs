//! Writes the events of a space: each with its steps, and the areas around them.
//!
//! It changes no model. Neighbours: `journal` stores events.

use samara_trace::event::{Event, EventKind, Step, StepKind, UNSURE};

use crate::journal::{Journal, Size, Who};
use crate::os::sys;
use crate::space::model::{self, Inode};
use crate::space::reach;
use crate::space::{Attempt, Returned, Space};

impl Space {
    pub(crate) fn report_call(&mut self, call: &Returned, attempt: Attempt, journal: &mut Journal<'_>) {
        self.report_grown(call.who, &attempt, journal);
        if call.overlapped {
            let reach = if attempt.reach.is_empty() { self.ranges(call) } else { attempt.reach.clone() };
            self.remember(call, &reach);
        }
        let mut event = journal.blank(EventKind::Call, self.id, call.who);
        event.nr = Some(call.decoded.nr);
        event.args = call.decoded.args;
        event.result = call.result;
        event.overlapped = call.overlapped;
        call.from.note(&mut event);
        event.resident = call.resident;
        event.text = match (call.cause, call.refused) {
            (Some(cause), _) => cause.to_owned(),
            (None, _) if attempt.unsure || call.unsure => UNSURE.to_owned(),
            (None, refused) => refused.map_or_else(String::new, |refused| refused.to_string()),
        };
        self.show(&mut event, attempt.steps);
        self.write(event, journal);
    }

    /// Reports that no task was made.
    pub(crate) fn report_no_task(&mut self, call: &Returned, journal: &mut Journal<'_>) {
        self.report_call(call, Attempt::default(), journal);
    }

    pub(crate) fn report_grown(&mut self, who: Who, attempt: &Attempt, journal: &mut Journal<'_>) {
        for (to, from) in &attempt.grown {
            let text = format!("a stack grew from {from:x} down to {to:x}");
            let step = Step { kind: StepKind::Mapped, start: *to, end: *from };
            self.report_learnt(who, text, &[step], journal);
        }
    }

    pub(crate) fn report_learnt(&mut self, who: Who, text: String, steps: &[Step], journal: &mut Journal<'_>) {
        let mut event = journal.blank(EventKind::Learnt, self.id, who);
        event.text = text;
        if steps.is_empty() {
            event.window = Some(reach::ALL);
            event.areas = model::records(&self.model, reach::ALL.0, reach::ALL.1);
        }
        self.show(&mut event, steps.to_vec());
        self.write(event, journal);
    }

    /// Explains an otherwise unexplained misfit by calls without a visible return, if there are
    /// any.
    pub(super) fn by_lost_calls(&self) -> Option<String> {
        let told = || format!("the effect of calls without a visible return: {}", self.unreturned_calls.join(", "));
        (!self.unreturned_calls.is_empty()).then(told)
    }

    /// Reports that model and kernel differed, and that `steps` took the kernel's view over. True:
    /// the difference is explained, so it is no `Difference`.
    pub(crate) fn report_misfit(
        &mut self,
        who: Who,
        difference: String,
        steps: &[Step],
        overlapped: bool,
        journal: &mut Journal<'_>,
    ) -> bool {
        let probes = steps.iter().any(|s| {
            let named =
                |n: &samara_mm::Object<Inode>| matches!(n, samara_mm::Object::Special(n) if &**n == "[uprobes]");
            s.kind == StepKind::Mapped && self.model.area_at(s.start).is_some_and(|a| named(&a.area.object))
        });
        if probes {
            self.report_learnt(who, "the kernel made an area for probes".into(), steps, journal);
            return true;
        }
        if let Some(text) = self.by_lost_calls() {
            // They explain one difference only.
            self.unreturned_calls.clear();
            self.report_learnt(who, text, steps, journal);
            return true;
        }
        let mut event = journal.blank(EventKind::Difference, self.id, who);
        event.text = difference;
        event.overlapped = overlapped;
        self.show(&mut event, steps.to_vec());
        self.write(event, journal);
        false
    }

    /// Reports that the kernel's answer to a call differs from the engine's.
    pub(crate) fn report_engine_difference(&mut self, who: Who, difference: String, journal: &mut Journal<'_>) {
        let mut event = journal.blank(EventKind::Difference, self.id, who);
        event.text = difference;
        self.write(event, journal);
    }

    /// Writes an event that shows the whole space.
    pub(crate) fn report_all(&mut self, mut event: Event, journal: &mut Journal<'_>) {
        if !self.hidden() {
            event.window = Some(reach::ALL);
            event.areas = model::records(&self.model, reach::ALL.0, reach::ALL.1);
        }
        self.write(event, journal);
    }

    /// Puts the steps into an event, and the areas around them as they are now.
    fn show(&self, event: &mut Event, steps: Vec<Step>) {
        let low = steps.iter().map(|s| s.start).min();
        let high = steps.iter().map(|s| s.end).max();
        if let (Some(low), Some(high)) = (low, high) {
            // Neighbours that touch are shown too: their bounds or reasons may have changed.
            let page = sys::page_size();
            let (low, high) = (low.saturating_sub(page), high.saturating_add(page));
            event.window = Some((low, high));
            event.areas = model::records(&self.model, low, high);
        }
        event.plan = steps;
    }

    fn write(&mut self, event: Event, journal: &mut Journal<'_>) {
        let size = Size { areas: self.model.len() as u64, bytes: self.model.counters().total };
        journal.resized(&mut self.size, size);
        journal.crowded(event.pid, size.areas);
        journal.write(event);
    }
}
