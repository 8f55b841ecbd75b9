//! The rules: verdicts from the areas of a space and the origin of their memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use samara::Span;
use samara_mm::PageSize;

use super::births::Births;
use super::callers::Callers;
use super::evidence::{Cause, Evidence, LEAST};
use super::joins::{closes, sides};
use super::piece::{Act, NOT_RECORDED, Piece, known, last};
use super::{Role, Survival, Verdict, VerdictKind};
use super::{advice, stacks, together};
use crate::event::AreaRecord;
use crate::file::{flag_words, reasons};
use crate::survey::{
    Member, PatternKind, Pieces, alike, continues, guarded, hole_between, is_anonymous, members, most_stacks_of,
    pieces, size, views, without,
};

/// From this number of mappings on, those of a site that are never unmapped are a leak.
const LEAKED: u64 = 32;
/// From this number of bytes on they are a leak even in few areas, if that is half of all mapped
/// bytes.
const LEAKED_BYTES: u64 = 64 << 20;
/// With fewer areas than this without a verdict, there is no verdict on their origin.
const MANY: usize = 64;

/// In an area's permissions: it is shared.
const SHARED: u8 = 8;

/// Most areas of a library, or of a file that is in use.
const PARTS_OF_FILE: usize = 8;

/// The areas and what is known of them.
struct Scene<'a> {
    areas: &'a [AreaRecord],
    births: &'a Births,
    /// At the end of the space, or of the trace.
    later: &'a Births,
    callers: &'a Callers,
    found: BTreeMap<Cause, Evidence>,
    leaking: &'a [HashMap<u32, Survival>; 2],
    /// Areas of files that lie in pieces ([`pieces`]).
    in_pieces: HashSet<u64>,
    /// Files that have executable areas.
    code: HashSet<((u32, u32), u64)>,
}

/// The verdicts, and the number of areas that none of them explains. `kept`: for each site, and for
/// each place, how much of its mapped memory is there. `leaking`: the same for places, and for
/// single sites, whose mappings went on to the end and were not unmapped later either. `later`: the
/// origins at the end.
pub(super) fn all(
    areas: &[AreaRecord],
    [births, later]: [&Births; 2],
    callers: &Callers,
    kept: &[HashMap<u32, Survival>; 2],
    leaking: &[HashMap<u32, Survival>; 2],
) -> (Vec<Verdict>, u64) {
    let in_pieces = pieces(areas).iter().flat_map(|pieces| &pieces.areas).map(|area| area.start).collect();
    let code = areas.iter().filter(|a| a.inode != 0 && a.perms & 4 != 0).map(|a| (a.dev, a.inode)).collect();
    let mut scene = Scene { areas, births, later, callers, found: BTreeMap::new(), leaking, in_pieces, code };
    let patterned = scene.patterns();
    scene.boundaries(&patterned);
    scene.holes();
    together::join(&mut scene.found, areas);
    let mut explained = scene.leaks();
    scene.of_one_origin(&mut explained);
    let others = areas.iter().filter(|area| !explained.contains(&area.start)).count() as u64;
    scene.huge_pages();
    let Scene { found, .. } = scene;
    let mut verdicts: Vec<Verdict> =
        found.into_iter().map(|(cause, seen)| seen.verdict(cause, callers, kept)).collect();
    // Among verdicts on equally many areas, those without a cause come last, and a leak comes
    // before the order of its pieces.
    verdicts.sort_by_key(|v| (Reverse((v.areas, v.kind == VerdictKind::Leaked, v.would_go, v.bytes)), v.kind));
    (verdicts, others)
}

/// All reasons of a boundary between two protections. The charge follows from the protection, so it
/// is left out.
fn by_protection(apart: &str) -> String {
    let others = reasons(apart).filter(|reason| !["protection", "accounting"].contains(reason));
    let all: Vec<&str> = ["protection"].into_iter().chain(others).collect();
    all.join("+")
}

const PROTECTION: &str = "protection";

fn is_same_file(a: &AreaRecord, b: &AreaRecord) -> bool {
    a.inode != 0 && (a.dev, a.inode, &a.name) == (b.dev, b.inode, &b.name)
}

/// Whether this area goes on where the one below it ends, in memory and in their file.
fn is_continued(areas: &[AreaRecord], i: usize) -> bool {
    let below = i.checked_sub(1).and_then(|i| areas.get(i));
    below.zip(areas.get(i)).is_some_and(|(below, area)| below.end == area.start && continues(below, area))
}

/// Whether memory that was moved is apart by that alone: it keeps its offset, and pages that were
/// written their identity.
fn is_moved(apart: &str) -> bool {
    const MOVED: [&str; 3] = ["offset", "anonymous-offset", "anonymous-identity"];
    reasons(apart).any(|reason| reason != "anonymous-identity") && reasons(apart).all(|reason| MOVED.contains(&reason))
}

impl<'a> Scene<'a> {
    /// What is at an address.
    fn piece(&self, at: u64) -> Option<&Piece> {
        self.births.piece(at)
    }

    fn maker(&self, at: u64) -> Option<Act> {
        Some(self.piece(at)?.made)
    }

    fn changer(&self, at: u64) -> Option<Act> {
        self.piece(at)?.protected
    }

    fn evidence(
        &mut self,
        kind: VerdictKind,
        pattern: Option<PatternKind>,
        reason: &str,
        by: Option<Act>,
        inferred: bool,
    ) -> &mut Evidence {
        let by = by.map_or(0, |act| self.callers.of(act.site));
        let cause = Cause { kind, pattern, reason: reason.to_owned(), moved: false, inferred, by };
        self.found.entry(cause).or_default()
    }

    /// Whether this is no call, but memory that was there when the recording began.
    fn was_there(&self, act: Option<Act>) -> bool {
        act.is_some_and(|act| self.callers.is_found(act.site))
    }

    /// Verdicts by what areas look like. Returns the areas of patterns whose boundaries are
    /// explained by them.
    fn patterns(&mut self) -> HashSet<u64> {
        let callers = self.callers;
        let mut explained = HashSet::new();
        let by_start: HashMap<u64, usize> = self.areas.iter().enumerate().map(|(i, area)| (area.start, i)).collect();
        let areas = self.areas;
        let mut files: HashSet<((u32, u32), u64, bool)> = HashSet::new();
        let (members, folder) = members(areas);
        let members = stacks::settled(members, areas, self.births);
        self.many_files(&members, &folder);
        self.views(&mut explained);
        // Guards by who made them.
        let mut guards: Vec<(u32, u64)> = Vec::new();
        let of_stacks = members.iter().filter(|member| member.kind == PatternKind::ThreadStacks).count() as u64 / 2;
        // If the threads' stacks are not known: a few others may look like stacks, such as a buffer
        // with a guard.
        let of_threads = self.births.threads.is_none_or(|threads| of_stacks <= most_stacks_of(threads));
        for member in members {
            let Some(&i) = by_start.get(&member.start) else { continue };
            let area = &areas[i];
            let (maker, mut changer) = (self.maker(area.start), self.changer(area.start));
            let (mut made, mut cuts) = (maker, Vec::new());
            if member.kind == PatternKind::GuardPages {
                (made, cuts) = self.of_guard(area);
                // No call of what was there is known.
                cuts.retain(|act| !self.was_there(Some(*act)));
                changer = cuts.iter().copied().max_by_key(|act| act.event);
            }
            let is_closed = area.perms & 7 == 0;
            let beside = self.beside(i);
            let would_go = match member.kind {
                PatternKind::GuardPages => without(beside[0], area, beside[1]),
                _ => member.would_go,
            };
            let (kind, by) = match member.kind {
                // A guard counts only if areas would go without it.
                PatternKind::GuardPages if would_go == 0 => continue,
                // What keeps the parts of a file apart is the cause, also where the file is gone.
                PatternKind::DeletedFiles if is_continued(areas, i) => continue,
                PatternKind::GuardPages => (VerdictKind::KeptApart, changer.or(maker)),
                PatternKind::ThreadStacks | PatternKind::Arenas => (VerdictKind::Concurrent, None),
                PatternKind::Reservations => (VerdictKind::Reserved, maker),
                PatternKind::DoubleMapped => (VerdictKind::KeptApart, None),
                PatternKind::DeletedFiles => (VerdictKind::Leaked, maker),
                PatternKind::Relro => (VerdictKind::KeptApart, changer),
                // Executable memory is none, as long as it is in one piece.
                _ => continue,
            };
            explained.insert(area.start);
            if member.kind == PatternKind::GuardPages {
                guards.push((by.map_or(0, |act| callers.of(act.site)), area.start));
            }
            // The memory that a guard cuts, the rest of a library's part, what is used of a
            // reservation.
            let below = i.checked_sub(1).map(|i| &areas[i]);
            let above = areas.get(i + 1);
            let mapping = |area: &AreaRecord| self.piece(area.start).map(|piece| piece.made.event);
            let is_part = |near: &&AreaRecord| mapping(near) == mapping(area);
            let near = match member.kind {
                PatternKind::GuardPages => guarded(beside[0], area, beside[1]),
                PatternKind::Reservations => [below.filter(is_part), above.filter(is_part)],
                PatternKind::Relro => [below, None],
                _ => [None, None],
            };
            let guards = is_closed && matches!(member.kind, PatternKind::GuardPages | PatternKind::ThreadStacks);
            let installs = if guards { advice::installed(areas, i, self.births, self.later) } else { 0 };
            let is_first = files.insert((area.dev, area.inode, area.perms & 4 != 0));
            // The guard comes first, with its stack above it.
            let stack = if is_closed { areas.get(i + 1).unwrap_or(area) } else { area };
            let is_of_thread = || stacks::is_of_thread(self.births, stack.start, stack.end).unwrap_or(of_threads);
            let pattern = match member.kind {
                PatternKind::ThreadStacks if !is_of_thread() => PatternKind::GuardedStacks,
                kind => kind,
            };
            // A stack that a thread began with is known to be one.
            let is_guess = match kind {
                VerdictKind::KeptApart => true,
                VerdictKind::Concurrent => stacks::is_of_thread(self.births, stack.start, stack.end) != Some(true),
                _ => false,
            };
            let inferred = is_guess && self.was_there(by.or(maker));
            let is_recorded = by.or(maker).is_some_and(|act| self.callers.is_call(act.site));
            let joining = sides(self.births, area, !is_recorded);
            let seen = self.evidence(kind, Some(pattern), "", by, inferred);
            seen.area(area);
            near.into_iter().flatten().for_each(|area| seen.area(area));
            seen.would_go += match member.kind {
                PatternKind::DoubleMapped => u64::from(!is_first),
                PatternKind::Relro => 1,
                // Memory on both sides may be apart without the guard too.
                _ => would_go.min(joining),
            };
            seen.installs += installs;
            // Stacks and heaps are two areas each; the memory is what counts.
            if !(kind == VerdictKind::Concurrent && is_closed) {
                seen.instance(area.start, area.end);
                if member.kind == PatternKind::Arenas {
                    seen.threads.extend(made.map(Act::thread));
                }
            }
            seen.part(callers, Role::Made, made);
            seen.part(callers, Role::Changed, changer);
            cuts.into_iter().for_each(|act| seen.call(callers, Role::Changed, act));
        }
        // Boundaries beside few guards are left to what else keeps areas apart.
        let is_few = |cause: &Cause, seen: &Evidence| {
            cause.pattern == Some(PatternKind::GuardPages) && (seen.areas.len() as u64) < LEAST
        };
        let few: HashSet<u32> =
            self.found.iter().filter(|(cause, seen)| is_few(cause, seen)).map(|(cause, _)| cause.by).collect();
        self.found.retain(|cause, seen| !is_few(cause, seen));
        guards.iter().filter(|(by, _)| few.contains(by)).for_each(|(_, start)| {
            explained.remove(start);
        });
        explained
    }

    /// Verdicts on files that are mapped several times, in pieces.
    fn views(&mut self, explained: &mut HashSet<u64>) {
        let callers = self.callers;
        let areas = self.areas;
        for Pieces { views, areas, would_go } in views(areas) {
            let by = self.maker(areas[0].start);
            let (name, inferred) = (areas[0].name.clone(), self.was_there(by));
            let (kind, pattern) = (VerdictKind::KeptApart, Some(PatternKind::FileViews));
            // Of another file of this name, or of other pieces of it.
            let before = self.evidence(kind, pattern, &name, by, inferred).times;
            for area in &areas {
                let maker = self.maker(area.start);
                let seen = self.evidence(kind, pattern, &name, by, inferred);
                seen.area(area);
                seen.instance(area.start, area.end);
                seen.part(callers, Role::Made, maker);
                explained.insert(area.start);
            }
            let seen = self.evidence(kind, pattern, &name, by, inferred);
            seen.times = before + views;
            seen.would_go += would_go;
        }
    }

    /// The areas that touch the one at this position. If they differ and only one of them is of the
    /// same mapping, that one alone.
    fn beside(&self, i: usize) -> [Option<&'a AreaRecord>; 2] {
        let areas = self.areas;
        let Some(area) = areas.get(i) else { return [None; 2] };
        let below = i.checked_sub(1).and_then(|i| areas.get(i)).filter(|below| below.end == area.start);
        let above = areas.get(i + 1).filter(|above| above.start == area.end);
        if guarded(below, area, above) != [None; 2] {
            return [below, above];
        }
        let root = |at: u64| self.piece(at).map(Piece::root);
        let is_own = |at: u64| root(at) == root(area.start);
        [below.filter(|below| is_own(below.end - 1)), above.filter(|above| is_own(above.start))]
    }

    /// The call that made the memory around a guard, and the calls that made the guard: a change of
    /// the guard, the call that mapped it into that memory, or changes of the memory on both sides.
    fn of_guard(&self, guard: &AreaRecord) -> (Option<Act>, Vec<Act>) {
        let Some(own) = self.piece(guard.start) else { return (None, Vec::new()) };
        let near = [guard.start.checked_sub(1), Some(guard.end)].into_iter().flatten();
        let near: Vec<&Piece> = near.filter_map(|at| self.piece(at)).filter(|near| near.root() == own.root()).collect();
        // One that was mapped by itself lies in the memory above.
        if let Some(above) = self.piece(guard.end).filter(|_| near.is_empty()) {
            return (Some(above.made), vec![own.cut_for(PROTECTION).unwrap_or(own.made)]);
        }
        let outer = near
            .iter()
            .find(|near| own.over.is_some() && own.root() == near.made.event)
            .map_or(own.made, |near| near.made);
        let around = || near.iter().filter_map(|near| near.cut_for(PROTECTION)).collect();
        (Some(outer), own.cut_for(PROTECTION).map_or_else(around, |act| vec![act]))
    }

    /// Verdicts on many files of one folder, by who mapped the first area of each. Their boundaries
    /// are not explained by that.
    fn many_files(&mut self, members: &[Member], folder: &str) {
        let callers = self.callers;
        let is_one = |member: &&Member| matches!(member.kind, PatternKind::ManyFiles | PatternKind::LibraryCopies);
        let of: HashMap<u64, PatternKind> = members.iter().filter(is_one).map(|m| (m.start, m.kind)).collect();
        // Who mapped the first area of each file.
        let mut files: HashMap<&str, Option<Act>> = HashMap::new();
        for area in self.areas {
            let Some(kind) = of.get(&area.start) else { continue };
            let maker = self.maker(area.start);
            let new = !files.contains_key(&*area.name);
            let by = *files.entry(&area.name).or_insert(maker);
            let seen = self.evidence(VerdictKind::ManyFiles, Some(*kind), folder, by, false);
            seen.area(area);
            if new {
                seen.instance(area.start, area.end);
            }
            seen.part(callers, Role::Made, maker);
        }
    }

    /// The site that made most areas, where most areas have no verdict.
    fn of_one_origin(&mut self, explained: &mut HashSet<u64>) {
        let callers = self.callers;
        let open: Vec<&AreaRecord> = self.areas.iter().filter(|area| !explained.contains(&area.start)).collect();
        if open.len() * 2 <= self.areas.len() || open.len() < MANY {
            return;
        }
        let mut sites: BTreeMap<u32, Vec<&AreaRecord>> = BTreeMap::new();
        for area in open {
            // The start of the program, or of the recording, is no origin.
            if let Some(act) = self.maker(area.start).filter(|act| self.callers.is_call(act.site)) {
                sites.entry(callers.function_of(act.site)).or_default().push(area);
            }
        }
        let most = sites.into_iter().max_by_key(|(site, areas)| (areas.len(), Reverse(*site)));
        let Some((function, areas)) = most.filter(|(_, areas)| areas.len() as u64 >= LEAST) else { return };
        let slices = advice::slices(&areas, self.areas, self.births);
        for area in areas {
            let maker = self.maker(area.start);
            let cause = Cause {
                kind: VerdictKind::OneOrigin,
                pattern: None,
                reason: String::new(),
                moved: false,
                inferred: false,
                by: function,
            };
            let seen = self.found.entry(cause).or_default();
            seen.slices = slices;
            seen.area(area);
            seen.instance(area.start, area.end);
            seen.part(callers, Role::Made, maker);
            explained.insert(area.start);
        }
    }

    /// Verdicts by the reason why touching areas are not merged.
    fn boundaries(&mut self, patterned: &HashSet<u64>) {
        let callers = self.callers;
        for pair in self.areas.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            if a.end != b.start || patterned.contains(&a.start) || patterned.contains(&b.start) {
                continue;
            }
            let (low, high) = (self.piece(a.end - 1), self.piece(b.start));
            let (Some(low), Some(high)) = (low.copied(), high.copied()) else { continue };
            // What gave one of them its attributes, or mapped one into the other's memory.
            let is_within = low.root() == high.root();
            let both = [low, high];
            let are_anonymous = is_anonymous(a) && is_anonymous(b);
            let apart = known([a, b], [&low, &high]);
            let later = both.map(|one| if is_within { one.cut_for(&apart) } else { one.changed_for(&apart) });
            let (locks, later) = (last([low.locked, high.locked]), last(later));
            let is_cut = is_within && later.is_some();
            // The calls that made memory before the recording are not known. A loader maps a file
            // with code in parts.
            let has_code = self.code.contains(&(a.dev, a.inode));
            let is_data = a.perms & SHARED != 0 || !has_code;
            let were_there = callers.is_found(low.made.site) && continues(a, b) && is_data;
            let is_one_site = low.made.site == high.made.site && (are_anonymous || were_there);
            // A loader maps the segments of a library into the mapping of its file.
            let is_mapped = low.protected.or(high.protected).is_none();
            let is_segment = is_cut && is_mapped && is_same_file(a, b) && has_code;
            let moved = last([low.moved, high.moved]).filter(|_| is_moved(&b.apart));
            let is_piece = apart == "offset" && [a, b].iter().all(|one| self.in_pieces.contains(&one.start));
            let reason = match () {
                () if is_segment => continue,
                () if alike(a, b) && moved.is_some() => "offset".to_owned(),
                () if alike(a, b) => apart.into_owned(),
                () if is_piece && is_same_file(a, b) && a.perms == b.perms => apart.into_owned(),
                // One mapping with a part that got another protection, or mappings from one place
                // in the program.
                () if a.perms != b.perms && (is_cut || is_one_site) => by_protection(&apart),
                () => continue,
            };
            let later = if reason == "lock" { locks.or(later) } else { moved.or(later) };
            // The part of a library's data that is read-only after relocation.
            let is_relro = is_within && low.protected.is_some() && has_code && a.perms == 1 && b.perms == 3;
            let (pattern, reason) = if is_relro { (Some(PatternKind::Relro), "") } else { (None, &*reason) };
            let by = callers.of(later.unwrap_or(high.made).site);
            let cause = Cause {
                kind: VerdictKind::KeptApart,
                pattern,
                reason: reason.to_owned(),
                moved: moved.is_some() && alike(a, b),
                inferred: callers.is_unsure([&low, &high], later.is_some()),
                by,
            };
            let seen = self.found.entry(cause).or_default();
            seen.area(a);
            seen.area(b);
            // With two reasons, neither keeps the two apart alone. The same holds for two places
            // that gave each side different flags.
            let place = |act: Option<Act>| act.map(|act| callers.of(act.site));
            let two = flag_words(reason).count() > 1
                && low.flagged.is_some()
                && high.flagged.is_some()
                && place(low.flagged) != place(high.flagged);
            let would_go = u64::from(reasons(reason).count() <= 1 && reason != NOT_RECORDED);
            let goes = if two { &mut seen.turns } else { &mut seen.would_go };
            *goes += would_go;
            seen.unreserved += u64::from(low.is_unreserved != high.is_unreserved);
            seen.instance(b.start, b.end);
            seen.part(callers, Role::Made, Some(high.made));
            // The calls that set each of the attributes; the last of them is the cause.
            for reason in reasons(reason).filter(|_| later.is_some()) {
                let one = last(both.map(|piece| piece.changed_for(reason)));
                seen.part(callers, Role::Changed, one.filter(|one| Some(*one) != later));
            }
            seen.part(callers, Role::Changed, later);
        }
    }

    /// Verdicts by holes.
    fn holes(&mut self) {
        let callers = self.callers;
        for pair in self.areas.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            if a.end >= b.start {
                continue;
            }
            let hole = Span::new(a.end, b.start - 1);
            let (low, high) = (self.piece(a.end - 1).copied(), self.piece(b.start).copied());
            let (Some(low), Some(high)) = (low, high) else { continue };
            let is_one = low.made.event == high.made.event || alike(a, b);
            let were_there = [low, high].iter().all(|piece| callers.is_found(piece.made.site));
            let is_freed = self.births.freed.covers(hole);
            let is_hole = is_freed || were_there && hole_between(a, b).is_some();
            if !is_one || !is_hole {
                continue;
            }
            // Calls that unmapped only a part of a hole do not explain it.
            let by = self.births.freed.get(a.end).map(|(_, freed)| freed.by).filter(|_| is_freed);
            // Both sides were there then, or both were mapped later, with the gap between them.
            let made = [low.mapped_at(), high.mapped_at()];
            let is_one_time =
                |event: u64| made.iter().all(|made| *made < event) || made.iter().all(|made| event < *made);
            let is_shared = a.perms & b.perms & SHARED != 0;
            let is_inner = !is_freed
                || self.births.freed.range(hole).all(|(_, freed)| freed.is_inner && is_one_time(freed.by.event))
                || closes(self.births, hole, is_shared, |site| callers.of(site));
            let places = |piece: Piece| piece.flags().map(|act| act.map(|act| callers.of(act.site)));
            let names = a.name == b.name || !a.name.starts_with("[anon:") && !b.name.starts_with("[anon:");
            let go_on = alike(a, b) && names && places(low) == places(high);
            let seen = self.evidence(VerdictKind::Fragmented, None, "", by, !is_freed);
            seen.areas.insert(a.start);
            seen.areas.insert(b.start);
            seen.bytes = seen.bytes.saturating_add(b.start - a.end);
            // Memory in the hole would go on in both, in only one of them, or be an area by itself.
            seen.would_go += u64::from(go_on && is_inner);
            seen.instance(a.end, b.start);
            seen.part(callers, Role::Made, Some(high.made));
            seen.part(callers, Role::Freed, by);
        }
    }

    /// Verdicts on areas that asked for huge pages and hold none.
    fn huge_pages(&mut self) {
        let callers = self.callers;
        let huge = PageSize::M2.bytes();
        for area in self.areas {
            let end_of_first = area.start.checked_next_multiple_of(huge).and_then(|first| first.checked_add(huge));
            let Some(by) = self.piece(area.start).and_then(|piece| piece.asked) else { continue };
            if end_of_first.is_some_and(|end| end <= area.end) {
                continue;
            }
            let maker = self.maker(area.start);
            let seen = self.evidence(VerdictKind::NoHugePage, None, "", Some(by), false);
            seen.area(area);
            seen.instance(area.start, area.end);
            seen.part(callers, Role::Made, maker);
            seen.part(callers, Role::Changed, Some(by));
        }
        let is_enough = |seen: &Evidence| seen.areas.len() as u64 >= LEAST;
        self.found.retain(|cause, seen| cause.kind != VerdictKind::NoHugePage || is_enough(seen));
    }

    /// Verdicts on memory that was never unmapped, for areas without another verdict. Drops
    /// verdicts on few areas, and returns all explained areas.
    fn leaks(&mut self) -> HashSet<u64> {
        let callers = self.callers;
        self.found.retain(|_, seen| seen.areas.len() as u64 >= LEAST);
        // Pieces of a file that the kernel placed may be a leak all the same.
        let is_placed = |start: &u64| self.piece(*start).is_some_and(|piece| piece.over.is_some());
        let of = |(cause, seen): (&Cause, &Evidence)| {
            let explains = |start: &&u64| !cause.is_order() || is_placed(start);
            seen.areas.iter().filter(explains).copied().collect::<Vec<u64>>()
        };
        let mut explained: HashSet<u64> = self.found.iter().flat_map(of).collect();
        let in_found: HashSet<u64> = self.found.values().flat_map(|seen| seen.areas.iter().copied()).collect();
        let total = self.areas.iter().map(size).fold(0, u64::saturating_add);
        let leaking = |kept: &&Survival| kept.alive >= LEAKED && kept.alive >= kept.made - kept.made / 10;
        // A place as a whole, or else a single stack that leads to it.
        let [places, sites] = self.leaking;
        let of = |site: u32| {
            let place = callers.of(site);
            let of_place = places.get(&place).filter(leaking).map(|kept| (place, *kept));
            of_place.or_else(|| sites.get(&site).filter(leaking).map(|kept| (site, *kept)))
        };
        let mut areas: BTreeMap<u32, (Survival, Vec<&AreaRecord>)> = BTreeMap::new();
        for area in self.areas {
            let site = self.maker(area.start).map(|act| act.site).filter(|site| *site != 0);
            if let Some((by, kept)) = site.and_then(of) {
                areas.entry(by).or_insert((kept, Vec::new())).1.push(area);
            }
        }
        for (kept, areas) in areas.into_values() {
            // Memory that was mapped in place of other memory adds no area.
            let areas: Vec<&AreaRecord> = areas
                .into_iter()
                .filter(|area| self.piece(area.start).is_some_and(|piece| piece.over.is_none()))
                .collect();
            let open = areas.iter().filter(|area| !explained.contains(&area.start)).count();
            // Memory without a name of its own is a removed file to the kernel.
            let named = areas.iter().filter(|a| a.inode != 0 && !a.name.ends_with(" (deleted)"));
            let files: HashSet<_> = named.map(|a| (a.dev, a.inode)).collect();
            let is_large = kept.bytes >= LEAKED_BYTES && kept.bytes >= total / 2;
            // Many files, each mapped a few times, are libraries or data.
            let many_files = files.len() > 1 && areas.len() <= files.len() * PARTS_OF_FILE;
            if many_files || open * 2 < areas.len() || !(areas.len() as u64 >= LEAST || is_large) {
                continue;
            }
            // Several stacks of one place are one cause.
            let by = areas.first().and_then(|area| self.maker(area.start));
            let seen = self.evidence(VerdictKind::Leaked, None, "", by, false);
            seen.kept = Some(seen.kept.map_or(kept, |all| Survival {
                made: all.made + kept.made,
                alive: all.alive + kept.alive,
                bytes: all.bytes.saturating_add(kept.bytes),
                grows: true,
            }));
            for area in areas {
                let maker = self.maker(area.start);
                let seen = self.evidence(VerdictKind::Leaked, None, "", maker, false);
                seen.area(area);
                seen.instance(area.start, area.end);
                seen.part(callers, Role::Made, maker);
                explained.insert(area.start);
            }
        }
        explained.extend(in_found);
        explained
    }
}
