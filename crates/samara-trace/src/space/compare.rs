//! Compares the model with the kernel's view of a window, and learns what arguments do not tell.
//!
//! It knows no calls and does not read `/proc`.
//!
//! - **COMPARE-1** learning settles only what the model holds to be unknown; every other difference
//!   is left as it is and reported.
//!
//! Neighbours: `samara_mm` says what is learnable ([`NotLearnable`] if it is not).

use samara_mm::{Flags, NotLearnable, Placed, Reason, Reasons, Uffd};

use crate::event::{Step, StepKind};
use crate::os::proc::KernelArea;
use crate::space::model::{self, Inode, Model};
use crate::space::reach::{Range, meets};

/// The outcome of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Model and kernel agree, perhaps after boundaries were learnt.
    Equal,
    /// They differ, and nothing explains it. How they differ.
    Differs(String),
}

/// A stack that grew: its new start and its old start.
pub(crate) type Grown = (u64, u64);

/// What is unknown when areas are compared.
pub(crate) struct Unknown<'a> {
    /// Where memory policies are not known.
    pub(crate) foggy: &'a [Range],
    /// Where it is not known with which userfaultfd areas are registered.
    pub(crate) disowned: &'a [Range],
    /// Several calls were applied, in an order that may be wrong.
    pub(crate) order: bool,
}

/// Compares the areas that meet `[start, end)`. `kernel` holds the kernel's areas, whole.
/// Boundaries that only one side has are learnt where the model allows it, and the call's `steps`
/// are corrected. Stacks that grew are added to `grown`.
pub(crate) fn compare(
    model: &mut Model,
    kernel: &[KernelArea],
    (start, end): (u64, u64),
    unknown: &Unknown<'_>,
    steps: &mut Vec<Step>,
    grown: &mut Vec<Grown>,
) -> Found {
    // Each round either ends or settles one boundary. There are at most as many boundaries as areas
    // on both sides.
    let rounds = kernel.len() + model.areas_in(start, end).count() + 2;
    // What lies before `from` was equal.
    let mut from = start;
    for _ in 0..rounds * 2 {
        let rest = &kernel[kernel.partition_point(|k| k.end <= from)..];
        let mend = first_difference(model, rest, (from, end));
        let changed = match &mend {
            Some(Mend::Cut(at) | Mend::Join(at)) => Some(*at),
            _ => None,
        };
        match mend {
            // After boundaries were settled, the whole is looked at once more.
            None if from > start => from = start,
            None => return Found::Equal,
            Some(Mend::Cut(at)) => match if unknown.order { model.learn_apart(at) } else { model.learn_cut(at) } {
                Ok(_) => note_cut(steps, at),
                // A new map joined one neighbour here and the other one in the kernel: that join
                // first.
                Err(NotLearnable::NothingUnknown) => {
                    if let Some(other) = kernel_joins(model, kernel, at)
                        && model.learn_join(other).is_ok()
                    {
                        note_join(steps, other);
                    } else if part_policy(model, at, unknown.foggy) || part_owner(model, at, unknown.disowned) {
                        note_cut(steps, at);
                    } else {
                        let why = NotLearnable::NothingUnknown;
                        return Found::Differs(format!("the kernel has a boundary at {at:x}: {why}"));
                    }
                }
                Err(why) => return Found::Differs(format!("the kernel has a boundary at {at:x}: {why}")),
            },
            Some(Mend::Join(at)) => match model.learn_join(at) {
                Ok(_) => note_join(steps, at),
                Err(NotLearnable::Certain(why)) if by_policy_alone(why) && copy_policy(model, at, unknown.foggy) => {
                    note_join(steps, at);
                }
                // The two are joined in the next round.
                Err(NotLearnable::Certain(why))
                    if why.contains(Reason::Uffd) && copy_owner(model, at, unknown.disowned) => {}
                Err(why) => return Found::Differs(format!("the kernel has no boundary at {at:x}: {why}")),
            },
            Some(Mend::Grow { from, to }) => match model.grow_down(from, to) {
                Ok(()) => grown.push((to, from)),
                Err(why) => return Found::Differs(format!("an area grew from {from:x} down to {to:x}: {why}")),
            },
            Some(Mend::None(how)) => return Found::Differs(how),
        }
        // It is enough to go on near the boundary: the areas on both sides have changed, and the
        // one before them if a join came first.
        let before = |at: u64| at.checked_sub(1).and_then(|at| model.area_at(at)).map(|a| a.start);
        if let Some(at) = changed {
            from = before(at).map_or(start, |at| before(at).unwrap_or(at)).max(start);
        }
    }
    Found::Differs("boundaries keep differing".into())
}

/// A bound of the model's area at `at` at which the kernel has no boundary.
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

/// Copies a policy where the kernel has one area and the model has two that differ by their
/// policies: the unknown policy is the other area's. False: both policies are known.
fn copy_policy(model: &mut Model, at: u64, foggy: &[Range]) -> bool {
    let unknown = |at: u64| meets(foggy, (at, at + 1));
    let (Some(left), Some(right)) = (at.checked_sub(1).and_then(|at| model.area_at(at)), model.area_at(at)) else {
        return false;
    };
    let (unsure, known) = match (unknown(right.start), unknown(left.end - 1)) {
        (true, _) => (right, left),
        (_, true) => (left, right),
        _ => return false,
    };
    let (start, len, policy) = (unsure.start, unsure.end - unsure.start, known.extras().policy);
    model.set_policy(start, len, policy).is_ok()
}

/// Gives one side a policy that no other area has, where the kernel has a boundary in an area of
/// the model and the policy is unknown on at least one side. False: both sides are known.
fn part_policy(model: &mut Model, at: u64, foggy: &[Range]) -> bool {
    let unknown = |at: u64| meets(foggy, (at, at + 1));
    let Some((start, end)) = model.area_at(at).map(|a| (a.start, a.end)).filter(|(start, _)| *start < at) else {
        return false;
    };
    let side = [(at, end), (start, at)].into_iter().find(|(start, _)| unknown(if *start == at { at } else { at - 1 }));
    let Some((start, end)) = side else { return false };
    let nodes = [start; samara_mm::Policy::WORDS];
    model.set_policy(start, end - start, Some(samara_mm::Policy { mode: u32::MAX, nodes })).is_ok()
}

/// Where the kernel has one area, and the model has two that are registered in the same way with
/// different userfaultfds: one that is not known is the other area's. False: both are known.
fn copy_owner(model: &mut Model, at: u64, disowned: &[Range]) -> bool {
    let (Some(left), Some(right)) = (at.checked_sub(1).and_then(|at| model.area_at(at)), model.area_at(at)) else {
        return false;
    };
    let unknown = |m: &Placed<'_, Inode>| m.extras().uffd.is_none() || meets(disowned, (m.start, m.end));
    let (unsure, known) = if unknown(&right) { (right, left) } else { (left, right) };
    let modes = |m: &Placed<'_, Inode>| m.area.flags & Flags::UFFD;
    if !unknown(&unsure) || modes(&unsure) != modes(&known) || unsure.extras().uffd == known.extras().uffd {
        return false;
    }
    let (range, owner) = ((unsure.start, unsure.end), known.extras().uffd);
    model::set_owner(model, range, owner)
}

/// Gives one side a userfaultfd that no other area has, where the kernel has a boundary in a
/// registered area of the model and the userfaultfd is not known. False: it is known.
fn part_owner(model: &mut Model, at: u64, disowned: &[Range]) -> bool {
    let Some(one) = model.area_at(at).filter(|m| m.start < at && m.area.flags.intersects(Flags::UFFD)) else {
        return false;
    };
    let range = (at, one.end);
    if !meets(disowned, range) {
        return false;
    }
    let owner = Uffd { id: u64::MAX - at, fork_events: false, remap_events: false };
    model::set_owner(model, range, Some(owner))
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
        // Private maps of /dev/zero are shown with offset 0, whatever their place in it.
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
