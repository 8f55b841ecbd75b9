//! Patterns that programs are known for, recognised by the shape of areas.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{ACCESS, EXEC, Known, READ, WRITE, alike, continues, files, is_anonymous, size};
use crate::event::AreaRecord;
use crate::file::{reason_name, reasons};

/// What areas look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PatternKind {
    /// At most 1 MiB without access, beside memory with access.
    GuardPages,
    /// 64 KiB or more of writable memory that is not executable, with a smaller guard below, whose
    /// size, with the guard or without, is a multiple of 64 KiB. In verdicts each is the upper end
    /// of a mapping of its own.
    ThreadStacks,
    /// The same, if no thread began with them: stacks of coroutines, or buffers with guards. If the
    /// threads' stacks are unknown: more stacks than threads. Only verdicts know threads,
    /// [`Survey`](super::Survey) does not.
    GuardedStacks,
    /// 32 KiB or more of writable memory at a multiple of 64 MiB, and memory without access up to
    /// the next one: heaps of glibc's malloc. An arena has one or several.
    Arenas,
    /// More than 1 MiB without access, and in no arena.
    Reservations,
    /// Executable memory without a file.
    Jit,
    /// A file or memfd with bytes that are mapped executable in one place and writable in another.
    DoubleMapped,
    /// Files that have been removed and are still mapped. Shared memory that never had a name does
    /// not count.
    DeletedFiles,
    /// The part of a program or a library that was made read-only after relocation: it goes on
    /// where a read-only part ends, and is charged like memory that was writable once.
    Relro,
    /// 64 or more files of one folder and the folders in it: see [`Pattern::folder`].
    ManyFiles,
    /// The same, where nine tenths of them have executable areas of the same offsets, sizes and
    /// protections: copies of one library, each with its segments.
    LibraryCopies,
    /// A file or memfd ([`Pattern::file`]) with bytes that are mapped at two to four places, with
    /// the same protection and in pieces: at least 8 of each view, and most pieces that touch are
    /// no neighbours in the file.
    FileViews,
}

impl PatternKind {
    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            PatternKind::GuardPages => "guard-pages",
            PatternKind::ThreadStacks => "thread-stacks",
            PatternKind::GuardedStacks => "guarded-stacks",
            PatternKind::Arenas => "malloc-arenas",
            PatternKind::Reservations => "reservations",
            PatternKind::Jit => "jit",
            PatternKind::DoubleMapped => "double-mapped",
            PatternKind::DeletedFiles => "deleted-files",
            PatternKind::Relro => "relro",
            PatternKind::ManyFiles => "many-files",
            PatternKind::LibraryCopies => "library-copies",
            PatternKind::FileViews => "file-views",
        }
    }
}

/// Areas that look like a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pattern {
    /// The kind of the pattern.
    pub kind: PatternKind,
    /// Number of instances: stacks, heaps, files, views of a file.
    pub times: u64,
    /// Number of areas in all instances.
    pub areas: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of areas that would go without the guards. A guard between areas that are
    /// otherwise alike counts two, or one if more than the protection keeps it apart from only one
    /// of them. A guard between areas that differ, or at the start or end of memory with access,
    /// counts one if one of them is at least as large and only the protection keeps the guard apart
    /// from it. For views: areas that would go if pieces that touch were one.
    pub would_go: u64,
    /// Whether `would_go` is an upper bound: not all reasons are known ([`Known`]), or more than
    /// the protection keeps guards apart from the memory beside them.
    pub is_upper_bound: bool,
    /// First address and end of the first instance.
    pub first: (u64, u64),
    /// Of [`PatternKind::ManyFiles`] and [`PatternKind::LibraryCopies`]: the folder that most of
    /// the files are in. Else empty.
    pub folder: String,
    /// For [`PatternKind::FileViews`]: the file with the most mapped pieces. Else empty.
    pub file: String,
}

/// Most bytes of a guard.
const GUARD: u64 = 1 << 20;
/// Minimum bytes of a thread's stack; its size is a multiple of this.
const STACK: u64 = 64 << 10;
/// Bytes of an arena, and the minimum of its writable bytes.
const ARENA: u64 = 64 << 20;
const ARENA_USED: u64 = 32 << 10;

/// An area of a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Its first address.
    pub(crate) start: u64,
    pub(crate) kind: PatternKind,
    /// The number of areas that would go without it: see [`Pattern::would_go`].
    pub(crate) would_go: u64,
}

/// The number of areas that would go without an instance of a pattern: at least, and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct WouldGo {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl WouldGo {
    pub(super) const NONE: WouldGo = WouldGo { least: 0, most: 0 };
}

#[derive(Default)]
pub(super) struct Patterns(pub(super) BTreeMap<PatternKind, Pattern>, Vec<Member>);

impl Patterns {
    pub(super) fn add(&mut self, kind: PatternKind, areas: &[&AreaRecord], would_go: WouldGo) {
        let (Some(low), Some(high)) = (areas.first(), areas.last()) else { return };
        let member = |(i, area): (usize, &&AreaRecord)| {
            let would_go = if i == 0 { would_go.least } else { 0 };
            Member { start: area.start, kind, would_go }
        };
        self.1.extend(areas.iter().enumerate().map(member));
        let first = (low.start, high.end);
        let (folder, file) = (String::new(), String::new());
        let new =
            Pattern { kind, times: 0, areas: 0, bytes: 0, would_go: 0, is_upper_bound: false, first, folder, file };
        let at = self.0.entry(kind).or_insert(new);
        at.times += 1;
        at.areas += areas.len() as u64;
        at.bytes = areas.iter().map(|a| size(a)).fold(at.bytes, u64::saturating_add);
        at.would_go += would_go.most;
        at.is_upper_bound |= would_go.least < would_go.most;
    }
}

pub(super) fn patterns(areas: &[AreaRecord], known: Known) -> Vec<Pattern> {
    let mut found = find(areas);
    below_data(areas, &mut found);
    let mut all: Vec<Pattern> = found.0.into_values().collect();
    all.iter_mut().for_each(|pattern| pattern.is_upper_bound |= known != Known::All);
    all.sort_by_key(|p| std::cmp::Reverse((p.areas, p.bytes)));
    all
}

/// The areas of all patterns, and the folder of many files. An area may be in several patterns.
pub(crate) fn members(areas: &[AreaRecord]) -> (Vec<Member>, String) {
    let Patterns(patterns, members) = find(areas);
    (
        members,
        patterns.into_values().map(|pattern| pattern.folder).find(|folder| !folder.is_empty()).unwrap_or_default(),
    )
}

fn find(areas: &[AreaRecord]) -> Patterns {
    let mut found = Patterns::default();
    let code = code(areas);
    let mut at = 0;
    while let Some(area) = areas.get(at) {
        let above = areas.get(at + 1).filter(|next| next.start == area.end);
        let below = at.checked_sub(1).map(|i| &areas[i]).filter(|last| last.end == area.start);
        at += 1;
        lone(area, below, &code, &mut found);
        if !is_anonymous(area) {
            continue;
        }
        let closed = area.perms & ACCESS == 0;
        let opens = |a: &&AreaRecord| is_anonymous(a) && a.perms & ACCESS != 0;
        if let Some(rest) = above.filter(|rest| is_arena(area, rest)) {
            found.add(PatternKind::Arenas, &[area, rest], WouldGo::NONE);
            at += 1;
        } else if let Some(stack) = above.filter(|stack| closed && size(area) <= GUARD && is_stack(area, stack)) {
            found.add(PatternKind::ThreadStacks, &[area, stack], by_shape(below, area, above));
            at += 1;
        } else if closed && size(area) > GUARD {
            found.add(PatternKind::Reservations, &[area], WouldGo::NONE);
        } else if closed && (below.filter(opens).is_some() || above.filter(opens).is_some()) {
            found.add(PatternKind::GuardPages, &[area], by_shape(below, area, above));
        }
    }
    files::double_mapped(areas, &mut found);
    files::deleted(areas, &mut found);
    files::many(areas, &mut found);
    files::of_views(areas, &mut found);
    found
}

/// What keeps a guard apart from a neighbour even if both have access.
const OTHERS: [&str; 6] = ["flags", "policy", "name", "uffd", "lock", "seal"];

/// The number of areas that would go without a guard. If a reason keeps the guard apart from only
/// one of two alike neighbours, that reason keeps the neighbours apart too. Then the guard would
/// join one of them, and one area goes.
pub(crate) fn without(below: Option<&AreaRecord>, guard: &AreaRecord, above: Option<&AreaRecord>) -> u64 {
    let why = |area: &AreaRecord| reasons(&area.apart).map(str::to_owned).collect::<BTreeSet<_>>();
    let joins = |area: &&AreaRecord| !reasons(&area.apart).any(|reason| OTHERS.contains(&reason_name(reason)));
    match guarded(below, guard, above) {
        [None, None] => 0,
        [Some(_), Some(above)] => {
            let sides = [guard, above].into_iter().filter(joins).count() as u64;
            if why(guard) == why(above) { sides } else { sides.min(1) }
        }
        _ => 1,
    }
}

/// The numbers of areas that would go without a guard, by the shape of the areas alone. Between
/// neighbours that differ, the guard would be a part of one of them, and one area goes. At most:
/// the guard differs from the memory beside it only because it was mapped over a part of that.
fn by_shape(below: Option<&AreaRecord>, guard: &AreaRecord, above: Option<&AreaRecord>) -> WouldGo {
    let ways = [(below, above), (below, None), (None, above)];
    let least = ways.map(|(below, above)| without(below, guard, above));
    let others = |area: &AreaRecord| {
        let others = reasons(&area.apart).filter(|reason| OTHERS.contains(&reason_name(reason)));
        others.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let most = ways.map(|(below, above)| match around(below, guard, above, |_| true) {
        // What keeps the guard apart from only one of them keeps them apart too.
        [Some(_), Some(above)] => {
            if others(guard) == others(above) {
                2
            } else {
                1
            }
        }
        sides => sides.into_iter().flatten().count() as u64,
    });
    let highest = |all: [u64; 3]| all.into_iter().max().unwrap_or(0);
    WouldGo { least: highest(least), most: highest(most) }
}

/// Whether two areas are otherwise alike, and have one name.
fn is_one(below: &AreaRecord, above: &AreaRecord) -> bool {
    alike(below, above) && below.name == above.name
}

/// The memory around a guard: both neighbours, if they are otherwise alike; else the one with
/// access, if it is no smaller and only the protection keeps the guard apart from it. `below` and
/// `above` touch the guard.
pub(crate) fn guarded<'a>(
    below: Option<&'a AreaRecord>,
    guard: &AreaRecord,
    above: Option<&'a AreaRecord>,
) -> [Option<&'a AreaRecord>; 2] {
    // The charge follows the protection.
    let by_protection = |apart: &str| reasons(apart).all(|reason| ["protection", "accounting"].contains(&reason));
    around(below, guard, above, by_protection)
}

/// The same, with what may keep the guard apart from a single neighbour.
fn around<'a>(
    below: Option<&'a AreaRecord>,
    guard: &AreaRecord,
    above: Option<&'a AreaRecord>,
    may: impl Fn(&str) -> bool,
) -> [Option<&'a AreaRecord>; 2] {
    let opens = |a: &&AreaRecord| is_anonymous(a) && a.perms & ACCESS != 0;
    let (below, above) = (below.filter(opens), above.filter(opens));
    if below.zip(above).is_some_and(|(below, above)| is_one(below, above)) {
        return [below, above];
    }
    let is_end = |near: &&AreaRecord, apart: &str| size(guard) <= size(near) && may(apart);
    match (below, above) {
        (Some(below), None) => [Some(below).filter(|below| is_end(below, &guard.apart)), None],
        (None, Some(above)) => [None, Some(above).filter(|above| is_end(above, &above.apart))],
        _ => [None, None],
    }
}

/// The patterns of one area and the one that ends where it starts.
fn lone(area: &AreaRecord, below: Option<&AreaRecord>, code: &HashSet<files::File>, found: &mut Patterns) {
    if is_anonymous(area) && area.perms & EXEC != 0 && area.name != "[stack]" {
        found.add(PatternKind::Jit, &[area], WouldGo::NONE);
    }
    if is_relocated(area, code) && below.is_some_and(|below| below.perms == READ && continues(below, area)) {
        found.add(PatternKind::Relro, &[area], WouldGo::NONE);
    }
}

/// The parts of libraries whose file goes on in writable memory above them. Verdicts find these by
/// the call that changed their protection.
fn below_data(areas: &[AreaRecord], found: &mut Patterns) {
    let seen = found.1.iter().filter(|member| member.kind == PatternKind::Relro).map(|member| member.start);
    let seen: HashSet<u64> = seen.collect();
    let code = code(areas);
    for pair in areas.windows(2) {
        let (area, above) = (&pair[0], &pair[1]);
        let is_cut = area.end == above.start && above.perms == READ | WRITE && continues(area, above);
        if is_cut && is_relocated(area, &code) && !seen.contains(&area.start) {
            found.add(PatternKind::Relro, &[area], WouldGo::NONE);
        }
    }
}

/// The files that have an executable area.
fn code(areas: &[AreaRecord]) -> HashSet<files::File> {
    areas.iter().filter(|a| a.inode != 0 && a.perms & EXEC != 0).map(|a| (a.dev, a.inode)).collect()
}

/// Whether this is a read-only part of a file with code, and charged as memory that was writable
/// once.
fn is_relocated(area: &AreaRecord, code: &HashSet<files::File>) -> bool {
    let charged = area.apart.is_empty() || reasons(&area.apart).any(|reason| reason == "accounting");
    area.perms == READ && charged && code.contains(&(area.dev, area.inode))
}

fn is_arena(area: &AreaRecord, rest: &AreaRecord) -> bool {
    is_anonymous(rest)
        && area.perms == READ | WRITE
        && rest.perms & ACCESS == 0
        && size(area) >= ARENA_USED
        && area.start.is_multiple_of(ARENA)
        && rest.end.is_multiple_of(ARENA)
        && rest.end.saturating_sub(area.start) == ARENA
}

/// The most stack-like areas that count as stacks of this many threads, because a few buffers look
/// like stacks. With more, they are stacks of coroutines, or buffers
/// ([`PatternKind::GuardedStacks`]).
pub fn most_stacks_of(threads: u64) -> u64 {
    threads.saturating_add(threads / 8).saturating_add(1)
}

fn is_stack(guard: &AreaRecord, stack: &AreaRecord) -> bool {
    let whole = size(stack).is_multiple_of(STACK) || (size(guard) + size(stack)).is_multiple_of(STACK);
    is_anonymous(stack)
        && stack.perms == READ | WRITE
        && size(guard) < size(stack)
        && size(stack) + size(guard) >= STACK
        && whole
}
