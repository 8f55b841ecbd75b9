//! Copies a part of a space from the kernel when the order of calls is unknown: its areas with
//! flags and memory policies, which `maps` does not show.
//!
//! It does not know the order of calls.
//!
//! - **ADOPT-UNORDERED-1** the part is closed: no area of the model or of the kernel extends beyond
//!   it.
//! - **ADOPT-UNORDERED-2** the areas are read before the policies. If a call takes effect in
//!   between, an area may get a policy that only a part of it has. That is corrected when the call
//!   has returned: its range is read again, with the areas that touch it.
//! - **ADOPT-UNORDERED-3** no file shows the userfaultfd of a registered area. If the calls before
//!   the view registered the area, all with the same userfaultfd, it is that one; else it is that
//!   of the area's parts in the model, if they agree. Otherwise (the registering call is still in
//!   the kernel) the model has none for the area until the call has returned ([`model::own`]).
//!
//! Neighbours: `adopt` takes the whole space over, where the order is known; `overlap`, `settle`
//! and `start` ask for this one.

use std::collections::HashMap;

use samara_mm::{Anon, Area, Extras, Features, FlagChange, Flags, Layout, Object, Placed, Policy, Uffd};
use samara_trace::event::{Step, StepKind};

use crate::os::proc::{self, KernelArea};
use crate::os::sys::{self, Tid};
use crate::space::model::{self, Inode};
use crate::space::reach::{self, Range, meets};
use crate::space::{Returned, Space};

/// The kernel's view of a part of a space.
pub(crate) struct Shown {
    /// When it had been read.
    ns: u64,
    ranges: Vec<Range>,
    areas: Vec<KernelArea>,
    /// Anonymous areas of the whole space, and whether each is named `[heap]`: this limits the
    /// places of the break.
    heap: Vec<(u64, u64, bool)>,
    /// Memory policies by the start of their areas; `None` if the kernel shows none.
    policies: Option<HashMap<u64, Option<Policy>>>,
    /// New memory of the calls: it has no policy yet.
    fresh: Vec<Range>,
    /// Memory that the calls registered, if all with a single userfaultfd.
    registered: Vec<(Range, Uffd)>,
}

impl Shown {
    /// Whether the names of areas allow the heap to be where this layout has it.
    pub(crate) fn allows_heap(&self, layout: Layout, features: Features) -> bool {
        self.heap.iter().all(|(start, end, named)| *named == layout.names_heap(*start, *end, features))
    }

    /// The last area of the heap.
    pub(crate) fn last_of_heap(&self) -> Option<Range> {
        self.heap.iter().rev().find(|(_, _, named)| *named).map(|(start, end, _)| (*start, *end))
    }

    fn policy(&self, k: &KernelArea) -> Option<Option<Policy>> {
        // For shared memory and private maps of it, the kernel shows the file's policy, not the
        // area's.
        let own = k.inode == 0 && k.dev == (0, 0);
        self.policies.as_ref().filter(|_| own).and_then(|p| p.get(&k.start)).copied()
    }
}

impl Space {
    /// The kernel's view of these ranges, which grow until no area extends beyond them
    /// (ADOPT-UNORDERED-1). `None`: it shows no areas any more.
    pub(crate) fn look(&self, tid: Tid, ranges: &[Range]) -> Option<Shown> {
        let all = proc::smaps(tid).ok().filter(|a| !a.is_empty())?;
        let mut ranges: Vec<Range> = self.whole(ranges);
        loop {
            let grown = |(start, end): &Range| {
                let meets = all.iter().filter(|k| k.start < *end && *start < k.end);
                meets.fold((*start, *end), |r, k| (r.0.min(k.start), r.1.max(k.end)))
            };
            let next: Vec<Range> = self.whole(&ranges.iter().map(grown).collect::<Vec<_>>());
            if next == ranges {
                break;
            }
            ranges = next;
        }
        let plain = |a: &&KernelArea| a.inode == 0 && a.dev == (0, 0);
        let heap = all.iter().filter(plain).filter_map(|a| match a.name.as_deref() {
            Some("[heap]") => Some((a.start, a.end, true)),
            Some("") => Some((a.start, a.end, false)),
            _ => None,
        });
        let heap = heap.collect();
        let areas: Vec<KernelArea> = all.into_iter().filter(|k| meets(&ranges, (k.start, k.end))).collect();
        let policies = if self.bound { policies(tid) } else { None };
        Some(Shown { ns: sys::now_ns(), ranges, areas, heap, policies, fresh: Vec::new(), registered: Vec::new() })
    }

    /// Learns whether policies were set before the recording. (If none was set, later looks need
    /// not ask for them.)
    pub(crate) fn learn_policies(&mut self, tid: Tid) {
        self.bound = policies(tid).is_some_and(|all| all.values().any(Option::is_some));
        if self.bound
            && let Some(shown) = self.look(tid, &[reach::ALL])
        {
            self.adopt_shown(&shown);
            self.fog_files(&[reach::ALL]);
        }
    }

    /// As [`Space::look`], after these calls.
    pub(crate) fn look_after(&mut self, calls: &[Returned], ranges: &[Range]) -> Option<Shown> {
        let mut shown = self.look(calls.last()?.who.tid, ranges)?;
        shown.fresh = self.made(calls);
        let registered: Vec<(Range, Uffd)> = calls.iter().filter_map(|call| self.registration(call)).collect();
        self.registered |= !registered.is_empty();
        if registered.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            shown.registered = registered;
        }
        Some(shown)
    }

    /// The ranges, widened to whole areas of the model. Ranges that meet become one.
    fn whole(&self, ranges: &[Range]) -> Vec<Range> {
        let mut ranges = self.span(ranges, 0);
        ranges.sort_unstable();
        let mut out: Vec<Range> = Vec::new();
        for (start, end) in ranges {
            match out.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => out.push((start, end)),
            }
        }
        out
    }

    /// Each range, `more` bytes wider at both ends, then widened to the whole areas of the model
    /// that it meets.
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

    /// The kernel's areas that the model lacks or has otherwise; and the model's areas that the
    /// kernel does not have, or has otherwise.
    fn unlike<'a>(&self, shown: &'a Shown) -> (Vec<&'a KernelArea>, Vec<Range>) {
        let page = sys::page_size();
        let same = |k: &KernelArea| {
            self.model.area_at(k.start).is_some_and(|m| {
                let (new, extras) = model::import(k, page);
                // The model knows charges and writes only in part.
                let ignored = Flags::ACCOUNT | Flags::STICKY;
                (m.start, m.end) == (k.start, k.end)
                    && model::backing(&self.model, &m) == (k.offset, k.dev, k.inode)
                    && (k.flags.is_none() || m.area.flags - ignored == new.flags - ignored)
                    && m.extras().name == extras.name
                    && shown.policy(k).is_none_or(|policy| policy == m.extras().policy)
            })
        };
        let (alike, news): (Vec<&KernelArea>, Vec<_>) = shown.areas.iter().partition(|k| same(k));
        let alike: std::collections::HashSet<u64> = alike.into_iter().map(|k| k.start).collect();
        let ours = shown.ranges.iter().flat_map(|(start, end)| self.model.areas_in(*start, *end));
        let olds = ours.filter(|m| !alike.contains(&m.start)).map(|m| (m.start, m.end)).collect();
        (news, olds)
    }

    /// Whether the model agrees with the kernel's view.
    pub(crate) fn is_as_shown(&self, shown: &Shown) -> bool {
        let (news, olds) = self.unlike(shown);
        news.is_empty() && olds.is_empty()
    }

    /// Takes over the kernel's view where the model differs.
    pub(crate) fn adopt_shown(&mut self, shown: &Shown) -> Vec<Step> {
        let page = sys::page_size();
        self.remember_at(shown.ns, shown.ranges.clone());
        let (news, olds) = self.unlike(shown);
        // Attributes that no file shows are kept: the userfaultfd of an area, and its policy where
        // none is shown.
        let is_fresh = |at: u64| shown.fresh.iter().any(|(start, end)| *start <= at && at < *end);
        let kept = |k: &KernelArea, flags: Flags| {
            let old = self.model.area_at(k.start);
            let parts = self.model.areas_in(k.start, k.end);
            let uffd = model::owner(parts).filter(|_| flags.intersects(Flags::UFFD));
            let same = |m: &Placed<'_, Inode>| {
                model::backing(&self.model, m).1 == k.dev && model::backing(&self.model, m).2 == k.inode
            };
            (
                uffd,
                shown
                    .policy(k)
                    .unwrap_or_else(|| old.filter(|m| !is_fresh(k.start) && same(m)).and_then(|m| m.extras().policy)),
            )
        };
        let imports: Vec<_> = news
            .iter()
            .map(|k| {
                let (mut area, extras) = model::import(k, page);
                let (uffd, policy) = kept(k, area.flags);
                if self.moved && matches!(area.object, Object::Anonymous) && area.is_private() {
                    // Its first place is unknown: it gets a unique one, and its merges are learnt.
                    area = Area::new(area.flags, area.object.clone(), (1 << 63) | (k.start / page));
                    area.set_anon(Anon::Unknown);
                }
                (k.start, k.end, area, Extras { uffd, policy, ..extras })
            })
            .collect();
        let mut steps = Vec::new();
        for (start, end) in &olds {
            let _ = self.model.forget(*start, *end);
            if !imports.iter().any(|(s, e, ..)| (s, e) == (start, end)) {
                steps.push(Step { kind: StepKind::Unmapped, start: *start, end: *end });
            }
        }
        for (start, end, area, extras) in imports {
            let _ = self.model.import_with(start, end, area, extras);
            let kind =
                if olds.contains(&(start, end)) { StepKind::Changed(FlagChange::default()) } else { StepKind::Mapped };
            steps.push(Step { kind, start, end });
        }
        for (range, uffd) in &shown.registered {
            model::own(&mut self.model, *range, *uffd, true);
        }
        steps
    }
}

/// The memory policies of a task's areas by their starts.
fn policies(tid: Tid) -> Option<HashMap<u64, Option<Policy>>> {
    let bytes = proc::contents(&format!("/proc/{tid}/numa_maps")).ok()?;
    Some(policies_in(&String::from_utf8_lossy(&bytes)))
}

fn policies_in(text: &str) -> HashMap<u64, Option<Policy>> {
    let line = |line: &str| {
        let (start, rest) = line.split_once(' ')?;
        // A mode may have a blank in it. The policy ends at the first blank after the mode's name.
        let end = ["prefer (many)", "weighted interleave"]
            .iter()
            .find(|name| rest.starts_with(**name))
            .map_or(0, |n| n.len());
        let end = rest[end..].find(' ').map_or(rest.len(), |i| end + i);
        Some((u64::from_str_radix(start, 16).ok()?, rest[..end].to_owned(), rest.contains(" stack")))
    };
    let lines: Vec<(u64, String, bool)> = text.lines().filter_map(line).collect();
    // An area without a policy shows the thread's own, as the stack does.
    let none = lines.iter().find(|(_, _, stack)| *stack).map_or("default", |(_, text, _)| text).to_owned();
    lines.into_iter().map(|(start, text, _)| (start, if text == none { None } else { policy(&text) })).collect()
}

/// A policy as `numa_maps` writes it: `bind:0-1`, `interleave=static:0,2`, `local`.
fn policy(text: &str) -> Option<Policy> {
    let (mode, list) = text.split_once(':').unwrap_or((text, ""));
    let (name, modifiers) = mode.split_once('=').unwrap_or((mode, ""));
    let names = ["default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave"];
    let mut mode = names.iter().position(|n| *n == name).filter(|n| *n > 0)? as u32;
    for modifier in modifiers.split('|') {
        mode |= match modifier {
            "static" => 1 << 15,
            "relative" => 1 << 14,
            "balancing" => 1 << 13,
            _ => 0,
        };
    }
    let mut nodes = [0; Policy::WORDS];
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        for node in first..=last.min(64 * Policy::WORDS - 1) {
            *nodes.get_mut(node / 64)? |= 1 << (node % 64);
        }
    }
    Some(Policy { mode, nodes })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::arch::{AUDIT_NATIVE, decode};
    use crate::journal::{Journal, Who};
    use crate::space::apply;
    use crate::space::compare::{self, Found, Unknown};
    use crate::space::memory::Memory;
    use samara_trace::event::Event;

    /// A view is taken over while a call that sets a policy is in the kernel. The part of the cut
    /// area that the call does not reach gets the policy too, wrongly.
    #[test]
    fn a_policy_that_only_a_part_has_is_put_right_when_the_call_is_back() {
        // It has echoed a byte and waits for more: its areas stay as they are.
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let tid = cat.id() as Tid;
        let page = sys::page_size();
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 0);
        let who = Who { pid: tid, tid, entry_ns: 1, exit_ns: 1 };
        let mut space = Space::load(0, who, true, true, &mut journal);
        space.bound = true;
        let all = proc::smaps(tid).unwrap();
        let plain =
            |k: &&KernelArea| k.inode == 0 && k.dev == (0, 0) && matches!(k.name.as_deref(), Some("" | "[heap]"));
        let next_is_free = |k: &&KernelArea| k.end - k.start > page && !all.iter().any(|other| other.start == k.end);
        let part = all.iter().filter(plain).find(next_is_free).unwrap();
        let returned = |nr: i64, args: [u64; 6], go_ns, overlapped| {
            let who = Who { exit_ns: sys::now_ns(), ..who };
            Returned { overlapped, ..Returned::overlapped(nr, args, 0, who, go_ns) }
        };

        let mut shown = space.look(tid, &[(part.start, part.end)]).unwrap();
        let Some(policies) = &mut shown.policies else {
            cat.kill().unwrap();
            cat.wait().unwrap();
            return eprintln!("skipped: this kernel has no numa_maps");
        };
        let mut nodes = [0; Policy::WORDS];
        nodes[0] = 1;
        policies.insert(part.start, Some(Policy { mode: 1, nodes }));
        space.adopt_shown(&shown);
        assert!(space.model.area_at(part.start).unwrap().extras().policy.is_some());
        // The call has returned. It reached only the neighbour of the part.
        space.returned(returned(libc::SYS_munmap, [part.end, page, 0, 0, 0, 0], 1, true), &[], &mut journal);
        assert_eq!(space.model.area_at(part.start).unwrap().extras().policy, None);
        // A later call that sets no policy, where there is none, changes nothing.
        let later = returned(libc::SYS_mbind, [part.end - page, page, 0, 0, 0, 0], sys::now_ns(), false);
        space.returned(later, &[], &mut journal);
        assert_eq!(journal.counters.differences, 0);
        cat.kill().unwrap();
        cat.wait().unwrap();
    }

    /// A `brk` is settled after another one that was in the kernel at the same time and may have
    /// come later: the heap's end shows which is likelier, and the other one stays possible.
    #[test]
    fn a_break_that_another_may_have_moved_later_stays_in_doubt() {
        let tid = std::process::id() as Tid;
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 0);
        let who = Who { pid: tid, tid, entry_ns: 1, exit_ns: 1 };
        let mut space = Space::load(0, who, true, true, &mut journal);
        let layout = space.model.layout();
        let page = sys::page_size();
        let (start, end) = (layout.start_brk, space.model.area_at(layout.brk - 1).unwrap().end);
        let shown = Shown {
            ns: 1,
            ranges: Vec::new(),
            areas: Vec::new(),
            heap: vec![(start, end, true)],
            policies: None,
            fresh: Vec::new(),
            registered: Vec::new(),
        };
        let brk = |result: u64| Returned::overlapped(libc::SYS_brk, [result, 0, 0, 0, 0, 0], result as i64, who, 0);
        let found = |space: &Space| (space.model.layout().brk, space.possible_breaks());
        // The model has applied it; the kernel shows the heap where it was before.
        space.model.set_layout(samara_mm::Layout { brk: end + page, ..layout });
        space.find_break_after(&[brk(end + page)], vec![end], Some(&shown));
        assert_eq!(found(&space), (end, vec![end, end, end + page]));
        // Nothing else was in the kernel: there is no doubt, whatever the heap shows.
        space.find_break_after(&[brk(end + page)], Vec::new(), Some(&shown));
        assert_eq!(found(&space), (end + page, vec![end + page]));
    }

    /// A view shows a registration whose call is still in the kernel: its userfaultfd is not known
    /// yet. Once it is, a later call for fewer modes leaves the area whole, as in the kernel.
    #[test]
    fn the_userfaultfd_of_an_area_is_learnt() {
        let tid = std::process::id() as Tid;
        let page = sys::page_size();
        let mut events: Vec<Event> = Vec::new();
        let mut journal = Journal::new(&mut events, 0);
        let who = Who { pid: tid, tid, entry_ns: 1, exit_ns: 1 };
        let mut space = Space::load(0, who, true, true, &mut journal);
        let mut maps = proc::Maps::open(tid, true);
        // Four pages with unknown attributes; the kernel shows the first three registered.
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
        let shown = |flags: &str| Shown {
            ns: 1,
            ranges: vec![(at, at + 4 * page)],
            areas: vec![kernel(flags)],
            heap: Vec::new(),
            policies: None,
            fresh: Vec::new(),
            registered: Vec::new(),
        };
        let mut register = |space: &mut Space, start: u64, mode: u64| {
            let range = [start, page, mode, 0];
            let args = [u64::MAX, 0xc020_aa00, range.as_ptr() as u64, 0, 0, 0];
            let d = decode(AUDIT_NATIVE, libc::SYS_ioctl as u64, args, |_, _| false).unwrap();
            match apply::apply(&mut space.model, &mut maps, &Memory::now(tid), &d, 0, 0) {
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
        // Memory that a view joins to a known part has that part's userfaultfd.
        space.adopt_shown(&shown(""));
        assert_eq!(area(&space, at).2, None);
        assert!(register(&mut space, at + 2 * page, 3) > 0);
        assert_eq!(area(&space, at), (at, at + 2 * page, None));
        space.adopt_shown(&shown("um uw"));
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(u64::MAX)));
        // Where the model has parts of two, it is known only if a call has registered it.
        let uffd = |id| Uffd { id, fork_events: false, remap_events: false };
        let part = |space: &mut Space, first: u64, id: u64| {
            let (area, extras) = model::import(&kernel("um uw"), page);
            space.model.forget(first, first + page).unwrap();
            let extras = Extras { uffd: Some(uffd(id)), ..extras };
            space.model.import_with(first, first + page, area, extras).unwrap();
        };
        for (registered, owner) in [(vec![], None), (vec![((at + page, at + 2 * page), uffd(9))], Some(9))] {
            part(&mut space, at, 7);
            part(&mut space, at + page, 8);
            space.adopt_shown(&Shown { registered, ..shown("um uw") });
            assert_eq!(area(&space, at), (at, at + 3 * page, owner));
        }
        // The call's userfaultfd also replaces one that was closed meanwhile, which no file shows.
        space.adopt_shown(&Shown { registered: vec![((at, at + page), uffd(10))], ..shown("um uw") });
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(10)));
        // Where it is not known, areas that the kernel shows as one have the same, others do not.
        let compared = |space: &mut Space, areas: &[KernelArea]| {
            let unknown = Unknown { foggy: &[], disowned: &space.disowned.clone(), order: false };
            compare::compare(&mut space.model, areas, (at, at + 3 * page), &unknown, &mut Vec::new(), &mut Vec::new())
        };
        part(&mut space, at, 7);
        assert!(matches!(compared(&mut space, &[kernel("um uw")]), Found::Differs(_)), "both are known");
        space.disown(&[(at, at + page)]);
        assert_eq!(compared(&mut space, &[kernel("um uw")]), Found::Equal);
        assert_eq!(area(&space, at), (at, at + 3 * page, Some(10)));
        let two =
            [KernelArea { end: at + page, ..kernel("um uw") }, KernelArea { start: at + page, ..kernel("um uw") }];
        assert_eq!(compared(&mut space, &two), Found::Equal);
        assert_eq!(area(&space, at).1, at + page);
    }

    #[test]
    fn policies_are_read() {
        let text = "1000 default anon=1\n2000 prefer (many):0 anon=2\n3000 bind=static:0-1,65 heap\n4000 weighted interleave:2\n\
                    5000 local\n7000 default stack anon=3\n";
        let all = policies_in(text);
        let of = |mode, words: [u64; 2]| {
            let mut nodes = [0; Policy::WORDS];
            nodes[..2].copy_from_slice(&words);
            Some(Policy { mode, nodes })
        };
        let want = [None, of(5, [1, 0]), of(2 | 1 << 15, [3, 2]), of(6, [4, 0]), of(4, [0, 0]), None];
        let starts = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x7000];
        assert_eq!(starts.map(|start| all[&start]), want);
        // A thread that has a policy.
        let all = policies_in("1000 interleave:0\n2000 bind:0\n7000 interleave:0 stack\n");
        assert_eq!((all[&0x1000], all[&0x2000]), (None, of(2, [1, 0])));
    }
}
