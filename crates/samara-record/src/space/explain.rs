//! Finds changes that no call made: a stack that grew on a fault, a userfaultfd that was closed.
//!
//! It runs when a call disagrees with the kernel, before the call is applied again. For stacks it
//! also runs before the engine decides a call, and at the end of a process. It knows no calls.

use samara_mm::{Flags, Uffd};
use samara_trace::event::{Step, StepKind};

use crate::os::proc::{self, KernelArea, Maps};
use crate::os::sys::Tid;
use crate::space::model::{self, Model};
use crate::space::reach::{Range, meets};

/// A learnt change: a text, and the model's steps.
pub(crate) type Learnt = (String, Vec<Step>);

/// What a call shows about the former memory in its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tells {
    #[default]
    Nothing,
    /// The first page was mapped, because the call moved or resized it.
    FirstPage,
    /// Nothing: the call has put new memory over the former memory.
    Hidden,
}

/// Applies changes that no call made to the model, before a call that reached `ranges`.
///
/// `registration`: the range that the call registered, and the userfaultfd. Another userfaultfd
/// that was registered there has been closed, because the kernel registers nothing over an open
/// one.
pub(crate) fn explain(
    model: &mut Model,
    maps: &mut Maps,
    ranges: &[(Range, Tells)],
    registration: Option<(Range, Uffd)>,
    tid: Tid,
) -> Vec<Learnt> {
    let mut learnt = Vec::new();
    for (range, tells) in ranges {
        let stacks: Vec<u64> = stacks(model, *range).collect();
        learnt.extend(stacks.into_iter().filter_map(|stack| grown(model, maps, *range, *tells, stack)));
    }
    let ranges: Vec<Range> = ranges.iter().map(|(range, _)| *range).collect();
    learnt.extend(closed(model, &ranges, registration, tid));
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
/// The kernel's view is from after the call, which may have changed, removed or replaced a part of
/// the growth. So a place in `range` counts as grown if the growth continues below it, or if the
/// call needs the place.
fn grown(model: &mut Model, maps: &mut Maps, range: Range, tells: Tells, old: u64) -> Option<Learnt> {
    let known = model.areas_in(range.0, old).last().map(|a| a.end);
    let below = known.unwrap_or(range.0);
    // Position of the search, and the lowest place so far that was mapped before the call.
    let (mut at, mut start) = (old, old);
    // An area that the model knows is not part of the growth.
    while at > 0 && model.area_at(at - 1).is_none() {
        let mut here: Vec<KernelArea> = Vec::new();
        maps.between(at - 1, at, &mut here).ok()?;
        let (hides, in_range) = (tells == Tells::Hidden, range.0 < at && at <= range.1);
        at = match here.first() {
            Some(k) if !(hides && in_range) => {
                // New memory of the call may have merged with the growth.
                start = if hides && range.1 < at { k.start.max(range.1) } else { k.start };
                start
            }
            _ if in_range && below < at => {
                start = if tells == Tells::FirstPage && known.is_none() { below } else { start };
                below
            }
            _ => break,
        };
    }
    if start >= old || model.grow_down(old, start).is_err() {
        return None;
    }
    let step = Step { kind: StepKind::Mapped, start, end: old };
    Some((format!("a stack grew from {old:x} down to {start:x}"), vec![step]))
}

/// Removes registrations that the kernel no longer has: their userfaultfd was closed, or a call
/// that has not returned ended them. Joins at their ends follow the kernel's view, except in
/// `ranges`, where the next applied call may have changed them.
fn closed(model: &mut Model, ranges: &[Range], registration: Option<(Range, Uffd)>, tid: Tid) -> Vec<Learnt> {
    if !model.areas().any(|a| a.area.flags.intersects(Flags::UFFD)) {
        return Vec::new();
    }
    let Ok(areas) = proc::smaps(tid) else { return Vec::new() };
    let parted = |at: u64| {
        !ranges.iter().any(|r| r.0 <= at && at <= r.1)
            && areas.iter().any(|k| k.start == at)
            && areas.iter().any(|k| k.end == at)
    };
    let mut steps = Vec::new();
    for (start, end) in no_longer_registered(model, &areas, registration) {
        let Ok(plan) = model.unregister_uffd(start, end - start) else { continue };
        for step in model::steps(plan.steps()) {
            if step.kind == StepKind::Merged && parted(step.start) && model.learn_cut(step.start).is_ok() {
                continue;
            }
            steps.push(step);
        }
    }
    let text = "registrations with a userfaultfd are gone: it was closed, or a call that has not returned ended them";
    if steps.is_empty() { Vec::new() } else { vec![(text.into(), steps)] }
}

/// The parts of registered areas of the model that the kernel shows as mapped and not registered,
/// or that another userfaultfd has registered. Perhaps only a part of an area is no longer
/// registered: a call that has not returned may have unregistered it. (Unmapped memory is left to
/// the call that unmapped it.)
fn no_longer_registered(model: &Model, areas: &[KernelArea], registration: Option<(Range, Uffd)>) -> Vec<Range> {
    let is_still = |k: &&KernelArea| {
        k.flags.as_deref().is_some_and(|letters| Flags::from_letters(letters).intersects(Flags::UFFD))
    };
    let mut gone = Vec::new();
    for a in model.areas().filter(|a| a.area.flags.intersects(Flags::UFFD)) {
        let other = registration.is_some_and(|(range, uffd)| {
            meets(&[range], (a.start, a.end)) && a.extras().uffd.is_some_and(|owner| owner != uffd)
        });
        if other {
            gone.push((a.start, a.end));
            continue;
        }
        let there = areas.iter().filter(|k| k.start < a.end && a.start < k.end);
        gone.extend(there.filter(|k| !is_still(k)).map(|k| (k.start.max(a.start), k.end.min(a.end))));
    }
    gone
}

#[cfg(test)]
mod tests {
    use samara_mm::{MapRequest, Prot};

    use super::*;

    /// A call that has not returned has unregistered the first half: the other half stays.
    #[test]
    fn what_is_registered_in_part_is_unregistered_in_part() {
        const PAGE: u64 = 4096;
        let area = |start: u64, end: u64, flags: &str| KernelArea {
            start: start * PAGE,
            end: end * PAGE,
            perms: 0,
            offset: 0,
            dev: (0, 0),
            inode: 0,
            name: None,
            flags: Some(flags.to_owned()),
            page: PAGE,
        };
        let uffd = |id| Uffd { id, fork_events: false, remap_events: false };
        let mut model = model::empty();
        model.map(&MapRequest::anonymous(16 * PAGE, 8 * PAGE, Prot::NONE)).unwrap();
        model.register_uffd(18 * PAGE, 4 * PAGE, uffd(1), Flags::UFFD_MISSING).unwrap();
        let gone = |areas: &[KernelArea], registration| {
            let gone = no_longer_registered(&model, areas, registration);
            gone.into_iter().map(|(start, end)| (start / PAGE, end / PAGE)).collect::<Vec<_>>()
        };
        let half = [area(16, 20, "mr mw me"), area(20, 22, "mr mw me um"), area(22, 24, "mr mw me")];
        assert_eq!(gone(&half, None), [(18, 20)]);
        let all = [area(16, 18, "mr mw me"), area(18, 22, "mr mw me um"), area(22, 24, "mr mw me")];
        assert_eq!(gone(&all, None), []);
        assert_eq!(gone(&[area(16, 24, "mr mw me")], None), [(18, 22)]);
        let hole = [area(16, 18, "mr mw me"), area(18, 19, "mr mw me um"), area(20, 22, "mr mw me um")];
        assert_eq!(gone(&hole, None), []);
        // Another userfaultfd has registered a part: the whole first registration is gone.
        let range = (20 * PAGE, 21 * PAGE);
        assert_eq!(gone(&all, Some((range, uffd(2)))), [(18, 22)]);
        assert_eq!(gone(&all, Some((range, uffd(1)))), []);
    }
}
