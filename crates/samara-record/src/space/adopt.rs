//! Copies the kernel's view of a space into the model where the two differ: after calls that are
//! not modelled, and after differences.
//!
//! It does not know why the two differ.
//!
//! - **ADOPT-1** memory that is still there keeps the attributes that `smaps` does not show: an
//!   area that was cut, changed or joined keeps its identity, offset, policy, registration and open
//!   file. Only new memory of a known call, and memory that fits no former area, gets its
//!   attributes from `smaps` alone.
//!
//! Neighbours: `adopt_unordered` takes over parts of a space, with memory policies, where the order
//! of calls is not known.

use std::collections::HashSet;

use samara_mm::{Area, Extras, FlagChange, Flags, Object, Placed};
use samara_trace::event::{Step, StepKind};

use crate::os::proc::{self, KernelArea};
use crate::os::sys::{self, Tid};
use crate::space::Space;
use crate::space::apply::is_zero;
use crate::space::heap::Heap;
use crate::space::model::{self, Inode, Model};
use crate::space::reach::{Range, meets};

/// Flags that never change while an area exists.
const FIXED: Flags = Flags::SHARED
    .union(Flags::MAYSHARE)
    .union(Flags::GROWSDOWN)
    .union(Flags::HUGETLB)
    .union(Flags::DROPPABLE)
    .union(Flags::NORESERVE)
    .union(Flags::SPECIAL);

impl Space {
    /// Takes the kernel's view wherever the model differs. `None`: the kernel shows no areas any
    /// more.
    pub(crate) fn adopt(&mut self, tid: Tid) -> Option<Vec<Step>> {
        self.adopt_with(tid, &[])
    }

    /// As [`Space::adopt`], after a call that made the memory in these ranges anew.
    pub(crate) fn adopt_with(&mut self, tid: Tid, made: &[Range]) -> Option<Vec<Step>> {
        let areas = proc::smaps(tid).ok().filter(|a| !a.is_empty())?;
        Some(self.adopt_areas(&areas, made))
    }

    /// Takes these areas over wherever the model differs.
    pub(crate) fn adopt_areas(&mut self, areas: &[KernelArea], made: &[Range]) -> Vec<Step> {
        let steps = take_over(&mut self.model, areas, made);
        self.adopt_break(Heap::of(areas).last());
        steps
    }
}

/// Makes the model equal to the kernel's view. Returns the steps from the old areas to the new
/// ones.
fn take_over(model: &mut Model, areas: &[KernelArea], made: &[Range]) -> Vec<Step> {
    let page = sys::page_size();
    let news: Vec<&KernelArea> =
        areas.iter().filter(|k| meets(made, (k.start, k.end)) || !is_known(model, k, page)).collect();
    let starts: HashSet<u64> = areas.iter().map(|k| k.start).collect();
    let replaced: HashSet<u64> = news.iter().map(|k| k.start).collect();
    let olds: Vec<Range> = model
        .areas()
        .filter(|m| !starts.contains(&m.start) || replaced.contains(&m.start))
        .map(|m| (m.start, m.end))
        .collect();
    let kept: Vec<Vec<Piece>> = news.iter().map(|k| kept(model, k, made, page)).collect();
    let mut steps = Vec::new();
    let mut all = kept.iter().flatten().map(|p| (p.start, p.end)).peekable();
    for (start, end) in olds {
        let mut parts = Vec::new();
        while let Some(part) = all.next_if(|p| p.1 <= end) {
            parts.push(part);
        }
        gone(&mut steps, (start, end), &parts);
        let _ = model.forget(start, end);
    }
    for (k, pieces) in news.into_iter().zip(kept) {
        arrived(&mut steps, k, &pieces);
        store(model, k, pieces, page);
    }
    steps
}

/// Whether the model has this area as the kernel shows it.
fn is_known(model: &Model, k: &KernelArea, page: u64) -> bool {
    model.area_at(k.start).is_some_and(|m| {
        let (new, extras) = model::import(k, page);
        let ignored = Flags::ACCOUNT | Flags::STICKY;
        m.start == k.start
            && m.end == k.end
            && model::backing(model, &m) == (k.offset, k.dev, k.inode)
            && m.area.flags - ignored == new.flags - ignored
            && m.extras().name == extras.name
    })
}

/// A part of an area of the model that is still there, as it is now.
struct Piece {
    start: u64,
    end: u64,
    area: Area<Inode>,
    extras: Extras,
    /// Its flags or its name have changed.
    changed: bool,
}

/// The parts of the model's areas that are still there in `k`, ascending, without memory that was
/// made anew.
fn kept(model: &Model, k: &KernelArea, made: &[Range], page: u64) -> Vec<Piece> {
    let (shown, extras) = model::import(k, page);
    let parts = || model.areas_in(k.start, k.end).filter(|m| still(m, &shown));
    let owner = model::owner(parts());
    let mut kept = Vec::new();
    for m in parts() {
        let mut area = m.area.clone().with_shown_flags(shown.flags);
        if is_zero(&m) && k.offset != 0 {
            area.bias = shown.bias;
        }
        let uffd = owner.or(m.extras().uffd).filter(|_| shown.flags.intersects(Flags::UFFD));
        let extras = Extras { name: extras.name.clone(), uffd, ..m.extras().clone() };
        let flags = (m.area.flags ^ area.flags) - Flags::ACCOUNT - Flags::STICKY;
        let changed = !flags.is_empty() || extras != *m.extras();
        let (mut at, end) = (m.start.max(k.start), m.end.min(k.end));
        for (s, e) in made.iter().copied().chain([(end, end)]).map(|(s, e)| (s.min(end), e.min(end))) {
            if at < s {
                kept.push(Piece { start: at, end: s, area: area.clone(), extras: extras.clone(), changed });
            }
            at = at.max(e);
        }
    }
    kept
}

/// Whether an area of the model can be the kernel's area: the same memory, with at most its flags
/// changed by calls.
fn still(m: &Placed<'_, Inode>, shown: &Area<Inode>) -> bool {
    let place =
        matches!(shown.object, Object::Anonymous | Object::Special(_)) || m.area.bias == shown.bias || is_zero(m);
    m.area.object == shown.object && place && !(m.area.flags ^ shown.flags).intersects(FIXED)
}

/// Adds the steps for an old area when these parts of it are still there.
fn gone(steps: &mut Vec<Step>, (start, end): Range, parts: &[Range]) {
    let mut at = start;
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            steps.push(Step { kind: StepKind::Split, start: at, end: at });
        }
        if at < part.0 {
            steps.push(Step { kind: StepKind::Unmapped, start: at, end: part.0 });
        }
        at = part.1;
    }
    if at < end {
        steps.push(Step { kind: StepKind::Unmapped, start: at, end });
    }
}

/// Adds the steps that made the area that the kernel shows.
fn arrived(steps: &mut Vec<Step>, k: &KernelArea, pieces: &[Piece]) {
    let (mut at, mut joins) = (k.start, Vec::new());
    for piece in pieces {
        let ends =
            [(at, piece.start, StepKind::Mapped), (piece.start, piece.end, StepKind::Changed(FlagChange::default()))];
        for (start, end, kind) in ends.into_iter().filter(|(start, end, _)| start < end) {
            if kind == StepKind::Mapped || piece.changed {
                steps.push(Step { kind, start, end });
            }
            if start > k.start {
                joins.push(Step { kind: StepKind::Merged, start, end: start });
            }
        }
        at = piece.end;
    }
    if at < k.end {
        steps.push(Step { kind: StepKind::Mapped, start: at, end: k.end });
        if at > k.start {
            joins.push(Step { kind: StepKind::Merged, start: at, end: at });
        }
    }
    steps.append(&mut joins);
}

/// Puts the area into the model, at an empty place, with the known attributes of its parts.
fn store(model: &mut Model, k: &KernelArea, pieces: Vec<Piece>, page: u64) {
    // The kernel has one area: the known attributes of a part also hold for the memory joined to
    // it.
    let bounds: Vec<u64> = pieces.iter().skip(1).map(|p| p.start).collect();
    let starts = [k.start].into_iter().chain(bounds.iter().copied());
    let ends = bounds.iter().copied().chain([k.end]);
    for ((start, end), piece) in starts.zip(ends).zip(pieces) {
        let _ = model.import_with(start, end, piece.area, piece.extras);
    }
    for at in &bounds {
        let _ = model.learn_join(*at);
    }
    if model.area_at(k.start).is_none_or(|m| (m.start, m.end) != (k.start, k.end)) {
        // Nothing is known of it, or the known attributes of its parts were wrong.
        let _ = model.forget(k.start, k.end);
        let (area, extras) = model::import(k, page);
        let _ = model.import_with(k.start, k.end, area, extras);
    }
}
