//! Which pages of a run are guard pages. No model of areas knows them: they are in the page tables.
//! They follow from the plans of calls, and decide what an access answers.

use samara_mm::{Advice, Plan, StepKind};

/// The guard pages, as ranges that do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards(Vec<(u64, u64)>);

impl Guards {
    /// Whether there is one in the range.
    pub(crate) fn any(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|of| of.0 < end && start < of.1)
    }

    /// The ranges, in order.
    pub(crate) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all = self.0.clone();
        all.sort_unstable();
        all
    }

    /// What a call did.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        let mut mapped = 0;
        for step in plan.iter() {
            match step.kind {
                StepKind::Discarded(Advice::GuardInstall) => {
                    self.take(step.start, step.end);
                    self.0.push((step.start, step.end));
                }
                StepKind::Mapped => {
                    self.take(step.start, step.end);
                    mapped = step.start;
                }
                StepKind::Unmapped => drop(self.take(step.start, step.end)),
                StepKind::Moved => {
                    let to = |at: u64| at - step.start + mapped;
                    let moved = self.take(step.start, step.end);
                    self.0.extend(moved.into_iter().map(|(start, end)| (to(start), to(end))));
                }
                _ => {}
            }
        }
    }

    /// Takes those in the range away.
    pub(crate) fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (from, to) in self.0.drain(..) {
            let (first, last) = (from.max(start), to.min(end));
            if first >= last {
                left.push((from, to));
                continue;
            }
            taken.push((first, last));
            left.extend([(from, first), (last, to)].into_iter().filter(|part| part.0 < part.1));
        }
        self.0 = left;
        taken
    }
}
