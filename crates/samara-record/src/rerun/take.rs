//! Takes the areas of a trace into a model: all areas of a loaded program, or those of a window in
//! which the model differs. Knows no calls.
//!
//! - **TAKE-1** afterwards the model has the trace's areas in the window, and keeps its facts about
//!   memory that still exists.
//!
//! The flags of an area that is new to the model are guessed: first from the letters of its line,
//! then from the reasons that keep it apart from the area before it. So if a lock keeps two areas
//! apart, one of them is locked in the model, but perhaps the wrong one.

use samara_mm::{Area, Extras, Flags, Layout, Object, Placed, Policy, Reason, Reasons, Uffd};
use samara_trace::event::AreaRecord;
use samara_trace::file::{Space, reason_name, reasons};
use samara_trace::recorder::flags_from;

use super::seen::kernel;
use crate::space::model::{self, Inode, Model};
use crate::space::reach::Range;

/// Flags that `mprotect` does not change and that the letters of a new area do not show.
const OTHERS: Flags = FLAGS.union(Flags::NORESERVE);

/// Those of them that have no reason of their own.
const FLAGS: Flags = Flags::DONTDUMP
    .union(Flags::DONTCOPY)
    .union(Flags::WIPEONFORK)
    .union(Flags::HUGEPAGE)
    .union(Flags::NOHUGEPAGE)
    .union(Flags::SEQ_READ)
    .union(Flags::RAND_READ)
    .union(Flags::MERGEABLE);

/// The known facts of an area.
type Known = (Area<Inode>, Extras);

/// Fills an empty model with the areas of a program that was loaded.
pub(super) fn fill(model: &mut Model, areas: &[AreaRecord], page: u64) {
    for area in areas {
        put(model, area, None, page);
    }
    let heap = areas.iter().find(|area| area.name == "[heap]");
    let stack = areas.iter().find(|area| area.name == "[stack]");
    model.set_layout(Layout {
        start_brk: heap.map_or(0, |area| area.start),
        brk: heap.map_or(0, |area| area.end),
        // Somewhere in its last pages: below the arguments and the environment.
        start_stack: stack.map_or(0, |area| area.end.saturating_sub(page)),
        data: 0,
    });
}

/// Takes the trace's areas in the window where the model differs. Returns the taken ranges.
pub(super) fn take(model: &mut Model, space: &Space, window: Range, page: u64) -> Vec<Range> {
    // Areas may extend beyond the window on both sides.
    let (mut low, mut high) = window;
    for area in model.areas_in(low, high) {
        (low, high) = (low.min(area.start), high.max(area.end));
    }
    let (from, to) = (low, high);
    let areas: Vec<AreaRecord> = space.between(from, to).collect();
    for area in &areas {
        (low, high) = (low.min(area.start), high.max(area.end));
    }
    let same = |m: &Placed<'_, Inode>, k: &AreaRecord| {
        let mine = model::record(model, m);
        (mine.start, mine.end, mine.perms, mine.offset) == (k.start, k.end, k.perms, k.offset)
            && (mine.dev, mine.inode) == (k.dev, k.inode)
            && (k.inode != 0 || mine.name == k.name)
    };
    let at = |start: u64| areas.binary_search_by_key(&start, |k| k.start).ok().and_then(|i| areas.get(i));
    let news: Vec<(&AreaRecord, Option<Known>)> = areas
        .iter()
        .filter(|k| !model.area_at(k.start).is_some_and(|m| m.start == k.start && same(&m, k)))
        .map(|k| (k, known(model, k, page)))
        .collect();
    let olds: Vec<Range> = model
        .areas_in(low, high)
        .filter(|m| !at(m.start).is_some_and(|k| same(m, k)))
        .map(|m| (m.start.max(low), m.end.min(high)))
        .collect();
    for (start, end) in &olds {
        let _ = model.forget(*start, *end);
    }
    let mut taken = olds;
    for (area, known) in news {
        put(model, area, known, page);
        taken.push((area.start, area.end));
    }
    let heap = areas.iter().rfind(|area| area.name == "[heap]");
    let mut layout = model.layout();
    if let Some(heap) = heap.filter(|heap| !(heap.start < layout.brk && layout.brk <= heap.end)) {
        layout.brk = heap.end;
        model.set_layout(layout);
    }
    taken.sort_unstable();
    taken.dedup_by(|next, last| {
        let meets = next.0 <= last.1;
        if meets {
            last.1 = last.1.max(next.1);
        }
        meets
    });
    taken
}

/// The model's facts about the memory of this area.
fn known(model: &Model, k: &AreaRecord, page: u64) -> Option<Known> {
    let (shown, extras) = model::import(&kernel(k, 0), page);
    let fits = |m: &Placed<'_, Inode>| {
        m.area.object == shown.object
            && (!matches!(shown.object, Object::File(_)) || m.area.bias == shown.bias)
            && !(m.area.flags ^ shown.flags).intersects(Flags::MAYSHARE)
    };
    let at = model.areas_in(k.start, k.end).find(fits)?;
    let mut area = at.area.clone();
    area.flags = (area.flags - Flags::ACCESS) | (shown.flags & Flags::ACCESS);
    if area.is_private() && area.flags.contains(Flags::WRITE) && !area.flags.contains(Flags::NORESERVE) {
        area.flags |= Flags::ACCOUNT;
    }
    Some((area, Extras { name: extras.name, ..at.extras().clone() }))
}

/// Puts an area into an empty place.
fn put(model: &mut Model, k: &AreaRecord, known: Option<Known>, page: u64) {
    let (mut area, mut extras) = known.unwrap_or_else(|| {
        let (mut area, extras) = model::import(&kernel(k, 0), page);
        if k.name == "[stack]" {
            area.flags |= Flags::GROWSDOWN;
        }
        (area, extras)
    });
    if model.import_with(k.start, k.end, area.clone(), extras.clone()).is_err() {
        return;
    }
    let Some(mine) = model.why_not_merged(k.start) else { return };
    let told: Reasons =
        reasons(&k.apart).filter_map(|n| Reason::ALL.into_iter().find(|r| r.name() == reason_name(n))).collect();
    let differ = reasons(&k.apart).map(flags_from).fold(Flags::empty(), Flags::union);
    let wrong = |reason: Reason| mine.contains(reason) != told.contains(reason);
    let Some(left) = k.start.checked_sub(1).and_then(|at| model.area_at(at)) else { return };
    let (left, beside) = (left.area.flags, left.extras().clone());
    for (reason, bits) in [(Reason::Lock, Flags::LOCKED), (Reason::Seal, Flags::SEALED)] {
        if wrong(reason) {
            area.flags ^= bits;
        }
    }
    if wrong(Reason::Accounting) && area.flags.contains(Flags::NORESERVE) == left.contains(Flags::NORESERVE) {
        area.flags ^= Flags::ACCOUNT;
    }
    if !differ.is_empty() {
        // The trace names the flags that only one of the two has.
        area.flags = (area.flags - FLAGS) | ((left ^ differ) & FLAGS);
    } else if wrong(Reason::Flags) && told.contains(Reason::Flags) {
        area.flags ^= Flags::DONTDUMP;
    } else if wrong(Reason::Flags) {
        area.flags = (area.flags - OTHERS) | (left & OTHERS);
    }
    if wrong(Reason::Policy) {
        let own = Policy { mode: u32::MAX, nodes: [k.start; Policy::WORDS], home: None };
        extras.policy = if told.contains(Reason::Policy) { Some(own) } else { beside.policy };
    }
    if wrong(Reason::Uffd) {
        let own = Uffd { id: k.start, fork_events: false, remap_events: false };
        extras.uffd = if told.contains(Reason::Uffd) { Some(own) } else { beside.uffd };
    }
    let _ = model.forget(k.start, k.end);
    let _ = model.import_with(k.start, k.end, area, extras);
}
