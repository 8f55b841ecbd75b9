//! Takes over the kernel's view of a part of a space, or of all of it, where the model differs:
//! after calls that are not modelled, after calls whose order is not known, and after differences.
//!
//! It does not know why the two differ.
//!
//! - **ADOPT-1** facts that `smaps` does not show are kept for all memory that is still there: an
//!   area that was cut, changed or joined keeps its identity, offset, policy, registration and open
//!   file. `smaps` is the only source for memory that a call is known to have mapped anew, and for
//!   memory that fits no former area. (`overlap` puts facts that depend on an order in doubt.)
//! - **ADOPT-2** the ranges taken over are closed: no area of the model or of the kernel extends
//!   beyond them.
//! - **ADOPT-3** areas are read before policies. If a call takes effect in between, an area may get
//!   a policy that only a part of it has. This is corrected when the call has returned: the areas
//!   that it reached, and their neighbours, are read again.
//! - **ADOPT-4** no file shows the userfaultfd of a registered area. If the calls before the view
//!   registered it, it is their userfaultfd, or unknown if they used several. Otherwise it is that
//!   of the known parts of the area, if these agree. If that is unknown too, because the
//!   registering call is still in the kernel, the model leaves it open until the call has returned
//!   ([`model::own`]).
//!
//! Neighbours: `overlap`, `settle`, `end` and `start` ask for it.

use std::collections::{HashMap, HashSet};

use samara_mm::{Area, Extras, FlagChange, Flags, Object, Placed, Policy, Uffd};
use samara_trace::event::{Step, StepKind};

use crate::os::proc::{self, KernelArea};
use crate::os::sys::{self, Tid};
use crate::space::apply::is_zero;
use crate::space::heap::Heap;
use crate::space::model::{self, Inode, Model};
use crate::space::policies::policies;
use crate::space::reach::{self, Range, meets, meets_one};
use crate::space::{Returned, Space};

/// The kernel's view of a part of a space.
#[derive(Default)]
pub(crate) struct KernelView {
    /// When the reading ended.
    ns: u64,
    ranges: Vec<Range>,
    areas: Vec<KernelArea>,
    /// The last area of the heap, wherever it is.
    pub(crate) heap: Option<Range>,
    /// Memory policies by the start of their areas; `None` if they were not read.
    policies: Option<HashMap<u64, Option<Policy>>>,
    /// The ranges that calls have newly mapped, if the model does not have them.
    pub(crate) made: Vec<Range>,
    /// The model lacks the flags that only `smaps` shows.
    flagless: bool,
    /// The ranges that these calls registered, and the userfaultfd if all used the same one.
    registered: Vec<(Range, Option<Uffd>)>,
}

impl KernelView {
    fn policy(&self, k: &KernelArea) -> Option<Option<Policy>> {
        // For shared memory and private maps of it, the kernel shows the file's policy, not the
        // area's.
        let own = k.inode == 0 && k.dev == (0, 0);
        self.policies.as_ref().filter(|_| own).and_then(|p| p.get(&k.start)).copied()
    }
}

/// Flags that never change while an area exists.
const FIXED: Flags = Flags::SHARED
    .union(Flags::MAYSHARE)
    .union(Flags::GROWSDOWN)
    .union(Flags::HUGETLB)
    .union(Flags::DROPPABLE)
    .union(Flags::NORESERVE)
    .union(Flags::SPECIAL);

impl Space {
    /// Reads the kernel's view of these ranges, which grow until no area extends beyond them
    /// (ADOPT-2). `None`: the task shows no areas any more.
    pub(crate) fn look(&self, tid: Tid, ranges: &[Range]) -> Option<KernelView> {
        let all = proc::smaps(tid).ok().filter(|a| !a.is_empty())?;
        let ranges = self.closed(ranges, &all, 0);
        let heap = Heap::of(&all).last();
        let areas: Vec<KernelArea> = all.into_iter().filter(|k| meets(&ranges, (k.start, k.end))).collect();
        Some(KernelView { ns: sys::now_ns(), ranges, areas, heap, ..KernelView::default() })
    }

    /// As [`Space::look`], with the policies of areas, if any were set.
    pub(crate) fn look_with_policies(&self, tid: Tid, ranges: &[Range]) -> Option<KernelView> {
        let shown = self.look(tid, ranges)?;
        Some(KernelView { policies: if self.has_policies { policies(tid) } else { None }, ..shown })
    }

    /// As [`Space::look`], after these calls; with policies if other calls overlapped them.
    pub(crate) fn look_after(&mut self, calls: &[Returned], ranges: &[Range]) -> Option<KernelView> {
        let tid = calls.last()?.who.tid;
        let overlapped = calls.iter().any(|call| call.overlapped);
        let mut shown = if overlapped { self.look_with_policies(tid, ranges) } else { self.look(tid, ranges) }?;
        shown.made = self.made(calls);
        let registered: Vec<(Range, Uffd)> = calls.iter().filter_map(|call| self.registration(call)).collect();
        self.has_userfaultfd |= !registered.is_empty();
        let one = registered.windows(2).all(|pair| pair[0].1 == pair[1].1);
        shown.registered = registered.into_iter().map(|(range, uffd)| (range, Some(uffd).filter(|_| one))).collect();
        Some(shown)
    }

    /// Learns the policies that were set before the recording. (If there are none, later looks need
    /// not read policies.)
    pub(crate) fn learn_policies(&mut self, tid: Tid) {
        self.has_policies = policies(tid).is_some_and(|all| all.values().any(Option::is_some));
        if self.has_policies
            && let Some(shown) = self.look_with_policies(tid, &[reach::ALL])
        {
            self.adopt_shown(&shown);
            self.doubt.policies(&self.model, &[reach::ALL]);
        }
    }

    /// The ranges, widened until no area of the model or of the kernel extends beyond one
    /// (ADOPT-2). `near`: first also to areas within this distance.
    pub(super) fn closed(&self, ranges: &[Range], kernel: &[KernelArea], near: u64) -> Vec<Range> {
        let areas = || self.model.areas().map(|a| (a.start, a.end)).chain(kernel.iter().map(|a| (a.start, a.end)));
        let wider = |ranges: &[Range], near: u64| {
            let slack = |(start, end): &Range| (start.saturating_sub(near), end.saturating_add(near));
            let met = areas().filter(|area| meets_one(ranges, slack(area)));
            reach::merged(met.chain(ranges.iter().copied()).collect())
        };
        let mut ranges = wider(&reach::merged(ranges.to_vec()), near);
        loop {
            let next = wider(&ranges, 0);
            if next == ranges {
                return ranges;
            }
            ranges = next;
        }
    }

    /// Widens each range by `more` bytes at both ends, then to whole areas of the model.
    pub(crate) fn span(&self, ranges: &[Range], more: u64) -> Vec<Range> {
        let wide = |(start, end): &Range| {
            let (low, high) = (start.saturating_sub(more), end.saturating_add(more));
            let mut areas = self.model.areas_in(low, high).map(|a| (a.start, a.end));
            let first = areas.next();
            let last = areas.next_back().or(first);
            (first.map_or(low, |a| a.0.min(low)), last.map_or(high, |a| a.1.max(high)))
        };
        ranges.iter().filter(|r| r.0 < r.1 || more > 0).map(wide).collect()
    }

    /// Takes over this view wherever the model differs.
    pub(crate) fn adopt_shown(&mut self, shown: &KernelView) -> Vec<Step> {
        self.remember_at(shown.ns, shown.ranges.clone());
        let steps = take_over(&mut self.model, shown);
        for (range, uffd) in &shown.registered {
            model::own(&mut self.model, *range, *uffd, true);
        }
        steps
    }

    /// Takes over the kernel's view of the whole space wherever the model differs. `None`: the task
    /// shows no areas any more.
    pub(crate) fn adopt(&mut self, tid: Tid) -> Option<Vec<Step>> {
        let shown = self.look(tid, &[reach::ALL])?;
        let steps = self.adopt_shown(&shown);
        self.adopt_break(shown.heap);
        Some(steps)
    }

    /// Takes over these areas, which are all areas of a range, wherever the model differs. No area
    /// of the model may extend beyond the range.
    pub(crate) fn adopt_areas(&mut self, range: Range, areas: Vec<KernelArea>) -> Vec<Step> {
        self.adopt_shown(&KernelView { ranges: vec![range], areas, flagless: self.flagless, ..KernelView::default() })
    }
}

/// Makes the model equal to the kernel's view. Returns the steps that describe the change.
fn take_over(model: &mut Model, shown: &KernelView) -> Vec<Step> {
    let page = sys::page_size();
    let (areas, made) = (&shown.areas, &shown.made);
    let news: Vec<&KernelArea> =
        areas.iter().filter(|k| meets(made, (k.start, k.end)) || !is_known(model, k, shown, page)).collect();
    let starts: HashSet<u64> = areas.iter().map(|k| k.start).collect();
    let replaced: HashSet<u64> = news.iter().map(|k| k.start).collect();
    let ours = shown.ranges.iter().flat_map(|(start, end)| model.areas_in(*start, *end));
    let olds: Vec<Range> =
        ours.filter(|m| !starts.contains(&m.start) || replaced.contains(&m.start)).map(|m| (m.start, m.end)).collect();
    let kept: Vec<Vec<Piece>> = news.iter().map(|k| kept(model, k, shown, page)).collect();
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
        store(model, k, pieces, shown.policy(k).flatten());
    }
    steps
}

/// Whether the model's area equals the kernel's.
fn is_known(model: &Model, k: &KernelArea, shown: &KernelView, page: u64) -> bool {
    model.area_at(k.start).is_some_and(|m| {
        let (new, extras) = model::import(k, page);
        // The model knows charges and writes only in part.
        let ignored = Flags::ACCOUNT | Flags::STICKY;
        m.start == k.start
            && m.end == k.end
            && model::backing(model, &m) == (k.offset, k.dev, k.inode)
            && m.area.flags - ignored == new.flags - ignored
            && m.extras().name == extras.name
            && shown.policy(k).is_none_or(|policy| policy == m.extras().policy)
    })
}

/// A part of an area of the model that still exists, in its present state.
struct Piece {
    start: u64,
    end: u64,
    area: Area<Inode>,
    extras: Extras,
    /// Its flags or its name have changed.
    changed: bool,
}

/// The parts of the model's areas that still exist in `k`, ascending, without newly mapped ranges.
fn kept(model: &Model, k: &KernelArea, view: &KernelView, page: u64) -> Vec<Piece> {
    let (shown, extras) = model::import(k, page);
    let fixed = if view.flagless { Flags::SHARED } else { FIXED };
    let parts = || model.areas_in(k.start, k.end).filter(|m| still(m, &shown, fixed));
    let owner = model::owner(parts());
    let mut kept = Vec::new();
    for m in parts() {
        let mut area = m.area.clone().with_shown_flags(shown.flags);
        if is_zero(&m) && k.offset != 0 {
            area.bias = shown.bias;
        }
        let uffd = owner.or(m.extras().uffd).filter(|_| shown.flags.intersects(Flags::UFFD));
        let policy = view.policy(k).unwrap_or(m.extras().policy);
        let extras = Extras { name: extras.name.clone(), uffd, policy, ..m.extras().clone() };
        let flags = (m.area.flags ^ area.flags) - Flags::ACCOUNT - Flags::STICKY;
        let changed = !flags.is_empty() || extras != *m.extras();
        let (mut at, end) = (m.start.max(k.start), m.end.min(k.end));
        for (s, e) in view.made.iter().copied().chain([(end, end)]).map(|(s, e)| (s.min(end), e.min(end))) {
            if at < s {
                kept.push(Piece { start: at, end: s, area: area.clone(), extras: extras.clone(), changed });
            }
            at = at.max(e);
        }
    }
    kept
}

/// Whether an area of the model can be the kernel's area: the same memory, with at most its flags
/// changed by calls, except the fixed ones.
fn still(m: &Placed<'_, Inode>, shown: &Area<Inode>, fixed: Flags) -> bool {
    let place =
        matches!(shown.object, Object::Anonymous | Object::Special(_)) || m.area.bias == shown.bias || is_zero(m);
    m.area.object == shown.object && place && !(m.area.flags ^ shown.flags).intersects(fixed)
}

/// Adds the steps for an old area whose remaining parts are these.
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

/// Adds the steps that lead to the kernel's area.
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

/// Puts the area into the model, at an empty place, with the known facts of its parts.
fn store(model: &mut Model, k: &KernelArea, pieces: Vec<Piece>, policy: Option<Policy>) {
    let page = sys::page_size();
    let first = pieces.first().map(|p| p.extras.clone());
    let agreed = pieces.windows(2).all(|two| two[0].extras.uffd == two[1].extras.uffd);
    // The kernel has one area, so facts known of one part hold for the parts joined to it.
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
        // It has no known part, or the known facts of its parts were wrong.
        let _ = model.forget(k.start, k.end);
        let (area, extras) = model::import(k, page);
        let policy = first.as_ref().map_or(policy, |extras| extras.policy);
        let uffd = first.filter(|_| agreed).and_then(|extras| extras.uffd);
        let _ = model.import_with(k.start, k.end, area, Extras { policy, uffd, ..extras });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::arch::{AUDIT_NATIVE, decode};
    use crate::journal::{Journal, Who};
    use crate::space::apply;
    use crate::space::compare::{self, Comparison};
    use crate::space::memory::Memory;
    use samara_trace::event::Event;

    /// The kernel's view is taken over while a call that sets a policy is in the kernel. The call
    /// cuts an area; the part that it does not reach is taken for one with that policy.
    #[test]
    fn a_policy_that_only_a_part_has_is_put_right_when_the_call_is_back() {
        // `cat` has echoed a byte and waits for more, so its areas do not change.
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let tid = cat.id() as Tid;
        let page = sys::page_size();
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 0);
        let who = Who { pid: tid, tid, entry_ns: 1, exit_ns: 1 };
        let mut space = Space::load(0, who, true, true, &mut journal);
        space.has_policies = true;
        let all = proc::smaps(tid).unwrap();
        let plain =
            |k: &&KernelArea| k.inode == 0 && k.dev == (0, 0) && matches!(k.name.as_deref(), Some("" | "[heap]"));
        let next_is_free = |k: &&KernelArea| k.end - k.start > page && !all.iter().any(|other| other.start == k.end);
        let part = all.iter().filter(plain).find(next_is_free).unwrap();
        let returned = |nr: i64, args: [u64; 6], go_ns, overlapped| {
            let who = Who { exit_ns: sys::now_ns(), ..who };
            Returned { overlapped, ..Returned::overlapped(nr, args, 0, who, go_ns) }
        };

        let mut shown = space.look_with_policies(tid, &[(part.start, part.end)]).unwrap();
        let Some(policies) = &mut shown.policies else {
            cat.kill().unwrap();
            cat.wait().unwrap();
            return eprintln!("skipped: this kernel has no numa_maps");
        };
        let mut nodes = [0; Policy::WORDS];
        nodes[0] = 1;
        policies.insert(part.start, Some(Policy { mode: 1, nodes, home: None }));
        space.adopt_shown(&shown);
        assert!(space.model.area_at(part.start).unwrap().extras().policy.is_some());
        // The call has returned. It reached only the range next to the part.
        space.returned(returned(libc::SYS_munmap, [part.end, page, 0, 0, 0, 0], 1, true), &[], &mut journal);
        assert_eq!(space.model.area_at(part.start).unwrap().extras().policy, None);
        // A later call that sets no policy, where no policy is set, changes nothing.
        let later = returned(libc::SYS_mbind, [part.end - page, page, 0, 0, 0, 0], sys::now_ns(), false);
        space.returned(later, &[], &mut journal);
        assert_eq!(journal.counters.differences, 0);
        cat.kill().unwrap();
        cat.wait().unwrap();
    }

    /// The view shows a registration whose call is still in the kernel: its userfaultfd is unknown.
    /// Once it is known, a later call for fewer modes leaves the area whole, as in the kernel.
    #[test]
    fn the_userfaultfd_of_an_area_is_learnt() {
        let tid = std::process::id() as Tid;
        let page = sys::page_size();
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 0);
        let who = Who { pid: tid, tid, entry_ns: 1, exit_ns: 1 };
        let mut space = Space::load(0, who, true, true, &mut journal);
        let mut maps = proc::Maps::open(tid, true);
        // The model forgets four pages. The kernel shows the first three as registered.
        let at = 16 * page;
        space.model.forget(at, at + 4 * page).unwrap();
        let kernel = |flags: &str| KernelArea {
            start: at,
            end: at + 3 * page,
            perms: proc::READ | proc::WRITE,
            offset: 0,
            dev: (0, 0),
            inode: 0,
            name: Some(String::new()),
            flags: Some(format!("rd wr mr mw me ac {flags}")),
            page,
        };
        let shown = |flags: &str| KernelView {
            ns: 1,
            ranges: vec![(at, at + 4 * page)],
            areas: vec![kernel(flags)],
            ..KernelView::default()
        };
        let mut register = |space: &mut Space, start: u64, mode: u64| {
            let range = [start, page, mode, 0];
            let args = [u64::MAX, 0xc020_aa00, range.as_ptr() as u64, 0, 0, 0];
            let d = decode(AUDIT_NATIVE, libc::SYS_ioctl as u64, args, |_, _| false).unwrap();
            match apply::apply_to_model(&mut space.model, &mut maps, &Memory::now(tid), &d, 0, 0) {
                apply::Applied::Done(steps) => steps.len(),
                _ => panic!("the model refuses a registration"),
            }
        };
        let area = |space: &Space, at: u64| {
            space.model.area_at(at).map(|m| (m.start, m.end, m.extras().uffd.map(|u| u.id))).unwrap()
        };

        space.adopt_shown(&shown("um uw"));
        assert_eq!(area(&space, at), (at, at + 3 * page, None));
        assert_eq!(register(&mut space, at + page, 1), 0, "an area that has these modes stays as it is");
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(u64::MAX)));
        // Memory that a view joins to a known part has the part's userfaultfd.
        space.adopt_shown(&shown(""));
        assert_eq!(area(&space, at).2, None);
        assert!(register(&mut space, at + 2 * page, 3) > 0);
        assert_eq!(area(&space, at), (at, at + 2 * page, None));
        space.adopt_shown(&shown("um uw"));
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(u64::MAX)));
        // If the parts have two userfaultfds, the area's is known only if a call registered it.
        let uffd = |id| Uffd { id, fork_events: false, remap_events: false };
        let part = |space: &mut Space, first: u64, id: u64| {
            let (area, extras) = model::import(&kernel("um uw"), page);
            space.model.forget(first, first + page).unwrap();
            let extras = Extras { uffd: Some(uffd(id)), ..extras };
            space.model.import_with(first, first + page, area, extras).unwrap();
        };
        for (registered, owner) in [(vec![], None), (vec![((at + page, at + 2 * page), Some(uffd(9)))], Some(9))] {
            part(&mut space, at, 7);
            part(&mut space, at + page, 8);
            space.adopt_shown(&KernelView { registered, ..shown("um uw") });
            assert_eq!(area(&space, at), (at, at + 3 * page, owner));
        }
        // The call's userfaultfd also replaces one that was closed meanwhile, which nothing shows.
        space.adopt_shown(&KernelView { registered: vec![((at, at + page), Some(uffd(10)))], ..shown("um uw") });
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(10)));
        // Calls registered it with several userfaultfds at the same time.
        let several = vec![((at, at + page), None)];
        space.adopt_shown(&KernelView { registered: several, ..shown("um uw") });
        assert_eq!(area(&space, at), (at, at + 3 * page, None));
        space.adopt_shown(&KernelView { registered: vec![((at, at + page), Some(uffd(10)))], ..shown("um uw") });
        // If the userfaultfd is unknown, areas that the kernel shows as one have the same.
        let compared = |space: &mut Space, areas: &[KernelArea]| {
            let (unknown, window) = (space.doubt.unknown(false), (at, at + 3 * page));
            compare::compare_areas(&mut space.model, areas, window, &unknown, &mut Vec::new(), &mut Vec::new())
        };
        part(&mut space, at, 7);
        assert!(matches!(compared(&mut space, &[kernel("um uw")]), Comparison::Differs(_)), "both are known");
        assert!(model::set_owner(&mut space.model, (at, at + page), None));
        assert_eq!(compared(&mut space, &[kernel("um uw")]), Comparison::Equal);
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(10)));
    }
}
