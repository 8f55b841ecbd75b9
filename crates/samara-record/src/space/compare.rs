//! Compares the model with the kernel's view of a window, and learns facts that arguments do not
//! show.
//!
//! It knows no calls and does not read `/proc`.
//!
//! - **COMPARE-1** learning settles only facts that are unknown in the model; every other
//!   difference is reported and not changed.
//!
//! Neighbours: `samara_mm` says which facts can be learnt ([`NotLearnable`] otherwise).

use samara_mm::{Flags, NotLearnable, Placed, Reason, Reasons};
use samara_trace::event::{Step, StepKind};

use crate::os::proc::KernelArea;
use crate::space::model::{self, Inode, Model};
use crate::space::reach::{Range, meets};

/// The outcome of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Model and kernel agree, perhaps after boundaries were learnt.
    Equal,
    /// They differ without an explanation: the description.
    Differs(String),
}

/// A stack that grew: its new start and its old start.
pub(crate) type Grown = (u64, u64);

/// The unknown facts in a comparison.
pub(crate) struct Unknown<'a> {
    /// Ranges with unknown memory policies.
    pub(crate) unsure_policies: &'a [Range],
    /// Several calls were applied, perhaps in a wrong order.
    pub(crate) order: bool,
}

/// Compares the areas that meet `[start, end)`. `kernel` holds the kernel's areas, whole.
/// Boundaries that only one side has are learnt where the model allows it, and the call's `steps`
/// are corrected. Stacks that grew are added to `grown`.
pub(crate) fn compare_areas(
    model: &mut Model,
    kernel: &[KernelArea],
    (start, end): (u64, u64),
    unknown: &Unknown<'_>,
    steps: &mut Vec<Step>,
    grown: &mut Vec<Grown>,
) -> Comparison {
    // Each round ends the comparison or settles one boundary. There are at most as many boundaries
    // as areas on both sides.
    let rounds = kernel.len() + model.areas_in(start, end).count() + 2;
    // Everything before `from` was compared and equal.
    let mut from = start;
    for _ in 0..rounds * 2 {
        let rest = &kernel[kernel.partition_point(|k| k.end <= from)..];
        let mend = first_difference(model, rest, (from, end));
        let changed = match &mend {
            Some(Mend::Cut(at) | Mend::Join(at)) => Some(*at),
            _ => None,
        };
        match mend {
            // After boundaries were settled, everything is compared once more.
            None if from > start => from = start,
            None => return Comparison::Equal,
            Some(Mend::Cut(at)) => match if unknown.order { model.learn_apart(at) } else { model.learn_cut(at) } {
                Ok(_) => note_cut(steps, at),
                // The model may have joined a new map to the wrong neighbour: first learn the join
                // that the kernel has.
                Err(NotLearnable::NothingUnknown) => {
                    if let Some(other) = kernel_joins(model, kernel, at)
                        && model.learn_join(other).is_ok()
                    {
                        note_join(steps, other);
                    } else {
                        let why = NotLearnable::NothingUnknown;
                        return Comparison::Differs(format!("the kernel has a boundary at {at:x}: {why}"));
                    }
                }
                Err(why) => return Comparison::Differs(format!("the kernel has a boundary at {at:x}: {why}")),
            },
            Some(Mend::Join(at)) => match model.learn_join(at) {
                Ok(_) => note_join(steps, at),
                Err(NotLearnable::Certain(why))
                    if by_policy_alone(why) && copy_policy(model, at, unknown.unsure_policies) =>
                {
                    note_join(steps, at);
                }
                // The next round joins the two.
                Err(NotLearnable::Certain(why)) if why.contains(Reason::Uffd) && copy_owner(model, at) => {}
                Err(why) => return Comparison::Differs(format!("the kernel has no boundary at {at:x}: {why}")),
            },
            Some(Mend::Grow { from, to }) => match model.grow_down(from, to) {
                Ok(()) => grown.push((to, from)),
                Err(why) => return Comparison::Differs(format!("an area grew from {from:x} down to {to:x}: {why}")),
            },
            Some(Mend::None(how)) => return Comparison::Differs(how),
        }
        // The comparison resumes near the boundary: the areas on both sides have changed, and after
        // a join also the one before them.
        let before = |at: u64| at.checked_sub(1).and_then(|at| model.area_at(at)).map(|a| a.start);
        if let Some(at) = changed {
            from = before(at).map_or(start, |at| before(at).unwrap_or(at)).max(start);
        }
    }
    Comparison::Differs("boundaries keep differing".into())
}

/// A bound of the model's area at `at` where the kernel has no boundary.
fn kernel_joins(model: &Model, kernel: &[KernelArea], at: u64) -> Option<u64> {
    let one = model.area_at(at)?;
    let bounds = [(one.end, one.end), (one.start, one.start.checked_sub(1)?)];
    let touches = bounds.into_iter().filter(|(_, next)| model.area_at(*next).is_some());
    let within = |x: &u64| kernel.partition_point(|k| k.start < *x).checked_sub(1).is_some_and(|i| *x < kernel[i].end);
    touches.map(|(bound, _)| bound).find(within)
}

fn by_policy_alone(why: Reasons) -> bool {
    let assumed = [Reason::Policy, Reason::AnonymousIdentity, Reason::AnonymousOffset, Reason::OpenFile];
    why.iter().all(|reason| assumed.contains(&reason))
}

/// The two areas that touch at `at`, an `unknown` one first. `None`: both are known.
fn unsure_first(model: &Model, at: u64, unknown: impl Fn(u64) -> bool) -> Option<[Placed<'_, Inode>; 2]> {
    let before = at.checked_sub(1)?;
    let (left, right) = (model.area_at(before)?, model.area_at(at)?);
    match (unknown(at), unknown(before)) {
        (true, _) => Some([right, left]),
        (_, true) => Some([left, right]),
        _ => None,
    }
}

fn is_in(ranges: &[Range], at: u64) -> bool {
    meets(ranges, (at, at + 1))
}

/// Copies a policy where the kernel has one area, and the model has two that differ by their
/// policies: the unknown policy equals the known one. False: both are known.
fn copy_policy(model: &mut Model, at: u64, unsure_policies: &[Range]) -> bool {
    let Some([unsure, known]) = unsure_first(model, at, |at| is_in(unsure_policies, at)) else { return false };
    let (start, len, policy) = (unsure.start, unsure.end - unsure.start, known.extras().policy);
    model.set_policy(start, len, policy).is_ok()
}

/// As `copy_policy`, for two areas with the same registration modes: one of their userfaultfds is
/// unknown.
fn copy_owner(model: &mut Model, at: u64) -> bool {
    let has_no_owner = |at| model.area_at(at).is_some_and(|m| m.extras().uffd.is_none());
    let Some([unsure, known]) = unsure_first(model, at, has_no_owner) else { return false };
    let modes = |m: &Placed<'_, Inode>| m.area.flags & Flags::UFFD;
    let (range, owner) = ((unsure.start, unsure.end), known.extras().uffd);
    modes(&unsure) == modes(&known) && unsure.extras().uffd != owner && model::set_owner(model, range, owner)
}

enum Mend {
    Cut(u64),
    Join(u64),
    Grow { from: u64, to: u64 },
    None(String),
}

fn first_difference(model: &Model, kernel: &[KernelArea], (start, end): (u64, u64)) -> Option<Mend> {
    let mut ours = model.areas_in(start, end);
    let mut theirs = kernel.iter().peekable();
    loop {
        let (m, k) = match (ours.next(), theirs.next()) {
            (None, None) => return None,
            (Some(m), None) => return Some(Mend::None(format!("only the model has {}", range(m.start, m.end)))),
            (None, Some(k)) => return Some(Mend::None(format!("only the kernel has {}", range(k.start, k.end)))),
            (Some(m), Some(k)) => (m, k),
        };
        let (offset, dev, inode) = model::backing(model, &m);
        if k.start < m.start && k.end == m.end && m.area.flags.contains(Flags::GROWSDOWN) {
            return Some(Mend::Grow { from: m.start, to: k.start });
        }
        if m.start != k.start {
            let (first, who) =
                if m.start < k.start { ((m.start, m.end), "the model") } else { ((k.start, k.end), "the kernel") };
            return Some(Mend::None(format!("only {who} has an area that starts at {}", range(first.0, first.1))));
        }
        let perms = model::perms(m.area.flags);
        // Private maps of /dev/zero may be shown with offset 0.
        let same_place = offset == k.offset
            || (k.offset == 0 && dev != (0, 0) && perms & crate::os::proc::SHARED == 0 && is_zero(&m));
        if perms != k.perms || dev != k.dev || inode != k.inode || !same_place {
            return Some(Mend::None(format!(
                "{}: the model has perms {perms:x} offset {offset:x} dev {dev:x?} inode {inode}, the kernel {:x} {:x} {:x?} {}",
                range(m.start, m.end.min(k.end)),
                k.perms,
                k.offset,
                k.dev,
                k.inode
            )));
        }
        if k.end < m.end {
            return Some(match theirs.peek() {
                Some(next) if next.start == k.end => Mend::Cut(k.end),
                _ => Mend::None(format!("the kernel has nothing at {:x}, the model has", k.end)),
            });
        }
        if k.end > m.end {
            return Some(match model.area_at(m.end) {
                Some(_) => Mend::Join(m.end),
                None => Mend::None(format!("the model has nothing at {:x}, the kernel has", m.end)),
            });
        }
    }
}

fn is_zero(m: &samara_mm::Placed<'_, model::Inode>) -> bool {
    matches!(&m.area.object, samara_mm::Object::File(file) if &*file.name == "/dev/zero")
}

fn range(start: u64, end: u64) -> String {
    format!("{start:x}-{end:x}")
}

/// Corrects the steps: the kernel cut, or did not merge, at `at`.
pub(crate) fn note_cut(steps: &mut Vec<Step>, at: u64) {
    match steps.iter().position(|s| s.kind == StepKind::Merged && s.start == at) {
        Some(i) => drop(steps.remove(i)),
        None => steps.push(Step { kind: StepKind::Split, start: at, end: at }),
    }
}

/// Corrects the steps: the kernel merged, or did not cut, at `at`.
pub(crate) fn note_join(steps: &mut Vec<Step>, at: u64) {
    match steps.iter().position(|s| s.kind == StepKind::Split && s.start == at) {
        Some(i) => drop(steps.remove(i)),
        None => steps.push(Step { kind: StepKind::Merged, start: at, end: at }),
    }
}
