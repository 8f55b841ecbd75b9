//! Finds changes that no call makes: a stack that grew on a fault, a userfaultfd that was closed.
//!
//! It is asked when a call does not agree with the kernel, before the call is applied again; for
//! stacks also before the engine decides a call, and at the end of a process. It knows no calls.

use samara_mm::{Flags, Placed, Uffd};

use crate::event::{Step, StepKind};
use crate::os::proc::{self, KernelArea, Maps};
use crate::os::sys::Tid;
use crate::space::model::{self, Inode, Model};
use crate::space::reach::Range;

/// What was learnt: a text, and the steps that the model took.
pub(crate) type Learnt = (String, Vec<Step>);

/// Brings the model up to date with changes that no call made before a call that reached `ranges`.
///
/// `registration`: the range that the call registered, and the userfaultfd. What another one had
/// registered there was closed: the kernel registers nothing over it.
pub(crate) fn explain(
    model: &mut Model,
    maps: &mut Maps,
    ranges: &[Range],
    registration: Option<(Range, Uffd)>,
    tid: Tid,
) -> Vec<Learnt> {
    let mut learnt = Vec::new();
    for range in ranges {
        let stacks: Vec<u64> = stacks(model, *range).collect();
        learnt.extend(stacks.into_iter().filter_map(|stack| grown(model, maps, *range, stack)));
    }
    learnt.extend(closed(model, ranges, registration, tid));
    learnt
}

/// Starts of the areas that grow down and may have grown into `range`: those that begin in it, and
/// the next one above it.
pub(crate) fn stacks(model: &Model, (start, end): Range) -> impl Iterator<Item = u64> {
    let next = model.area_at_or_after(end).filter(|a| a.start >= end);
    let all = model.areas_in(start, end).chain(next);
    all.filter(move |a| a.start > start && a.area.flags.contains(Flags::GROWSDOWN)).map(|a| a.start)
}

/// Whether the kernel shows that the area that grows down from `old` has grown.
///
/// The kernel is seen after the call, which may have changed or removed a part of what grew: a
/// place in `range` counts as grown if anything is mapped below it or in it.
fn grown(model: &mut Model, maps: &mut Maps, range: Range, old: u64) -> Option<Learnt> {
    let below = model.areas_in(range.0, old).last().map_or(range.0, |a| a.end);
    // Where the search stands, and the lowest mapped place so far.
    let (mut at, mut start) = (old, old);
    while at > 0 {
        let mut here: Vec<KernelArea> = Vec::new();
        maps.between(at - 1, at, &mut here).ok()?;
        at = match here.first() {
            // An area that the model knows is not what grew.
            Some(k) if model.area_at(k.end - 1).is_some_and(|m| m.start < old) => break,
            Some(k) => {
                start = k.start;
                start
            }
            None if below < at && at <= range.1 => below,
            None => break,
        };
    }
    if start >= old || model.grow_down(old, start).is_err() {
        return None;
    }
    let step = Step { kind: StepKind::Mapped, start, end: old };
    Some((format!("a stack grew from {old:x} down to {start:x}"), vec![step]))
}

/// Removes registrations that the kernel no longer has: their userfaultfd was closed. Areas that
/// touch there become one only where the kernel shows one area, unless the call that is applied
/// next, in `ranges`, may have changed that.
fn closed(model: &mut Model, ranges: &[Range], registration: Option<(Range, Uffd)>, tid: Tid) -> Vec<Learnt> {
    let others = |a: &Placed<'_, Inode>| {
        registration.is_some_and(|(range, uffd)| {
            a.start < range.1 && range.0 < a.end && a.extras().uffd.is_some_and(|owner| owner != uffd)
        })
    };
    let registered = model.areas().filter(|a| a.area.flags.intersects(Flags::UFFD));
    let registered: Vec<(Range, bool)> = registered.map(|a| ((a.start, a.end), others(&a))).collect();
    if registered.is_empty() {
        return Vec::new();
    }
    let Ok(areas) = proc::smaps(tid) else { return Vec::new() };
    let still = |at: u64| {
        let there = areas.iter().find(|k| k.start <= at && at < k.end).and_then(|k| k.flags.as_deref());
        there.is_some_and(|letters| Flags::from_letters(letters).intersects(Flags::UFFD))
    };
    let parted = |at: u64| {
        !ranges.iter().any(|r| r.0 <= at && at <= r.1)
            && areas.iter().any(|k| k.start == at)
            && areas.iter().any(|k| k.end == at)
    };
    let mut steps = Vec::new();
    for ((start, end), _) in registered.into_iter().filter(|(range, others)| *others || !still(range.0)) {
        let Ok(plan) = model.unregister_uffd(start, end - start) else { continue };
        for step in model::steps(plan.steps()) {
            if step.kind == StepKind::Merged && parted(step.start) && model.learn_cut(step.start).is_ok() {
                continue;
            }
            steps.push(step);
        }
    }
    let text = "a userfaultfd was closed, and its registrations went with it";
    if steps.is_empty() { Vec::new() } else { vec![(text.into(), steps)] }
}
