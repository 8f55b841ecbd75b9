//! Patterns that programs are known for, recognised by the shape of areas.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::groups::DELETED;
use super::{ACCESS, EXEC, READ, SHARED, WRITE, alike, continues, is_anonymous, size};
use crate::event::AreaRecord;
use crate::file::reasons;

/// A file: its device and its inode.
type File = ((u32, u32), u64);

/// What areas look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PatternKind {
    /// At most 1 MiB without access, beside memory with access.
    GuardPages,
    /// 64 KiB or more of writable memory with a guard below, whose size, with the guard or without,
    /// is a multiple of 64 KiB.
    ThreadStacks,
    /// The same, where there are more of them than threads: stacks of coroutines, or buffers with
    /// guards. [`Survey`](super::Survey) does not know threads; verdicts do.
    GuardedStacks,
    /// 32 KiB or more of writable memory at a multiple of 64 MiB, and memory without access up to
    /// the next one: arenas of glibc's malloc.
    Arenas,
    /// More than 1 MiB without access, and in no arena.
    Reservations,
    /// Executable memory without a file.
    Jit,
    /// A file or memfd of which the same bytes are mapped executable in one place and writable in
    /// another.
    DoubleMapped,
    /// Files that have been removed and are still mapped. Shared memory that never had a name does
    /// not count.
    DeletedFiles,
    /// The part of a program or a library that was made read-only after relocation: it goes on
    /// where a read-only part ends, and is charged like memory that was writable once.
    Relro,
    /// Files of one folder, or of the folders in it, 64 or more: see [`Pattern::folder`].
    ManyFiles,
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
        }
    }
}

/// Areas that look like a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pattern {
    /// What they look like.
    pub kind: PatternKind,
    /// How often the pattern is there: stacks, arenas, files.
    pub times: u64,
    /// Number of areas, in all instances together.
    pub areas: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many areas fewer there would be without the guards: two for each between areas that are
    /// otherwise alike, or one, where more than the protection keeps it apart from only one of
    /// them. At most that, where not all reasons are known.
    pub would_go: u64,
    /// First address and end of the first instance.
    pub first: (u64, u64),
    /// Of [`PatternKind::ManyFiles`]: the folder that most of the files are in. Else empty.
    pub folder: String,
}

/// Fewer files of one folder than this are no pattern.
const FILES: u64 = 64;
/// Most bytes of a guard.
const GUARD: u64 = 1 << 20;
/// Least bytes of a thread's stack, and what its size is a multiple of.
const STACK: u64 = 64 << 10;
/// Bytes of an arena, and the least that is writable of one.
const ARENA: u64 = 64 << 20;
const ARENA_USED: u64 = 32 << 10;

/// An area of a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Its first address.
    pub(crate) start: u64,
    pub(crate) kind: PatternKind,
    /// How many areas fewer there would be without it: see [`Pattern::would_go`].
    pub(crate) would_go: u64,
}

#[derive(Default)]
struct Found(BTreeMap<PatternKind, Pattern>, Vec<Member>);

impl Found {
    fn add(&mut self, kind: PatternKind, areas: &[&AreaRecord], would_go: u64) {
        let (Some(low), Some(high)) = (areas.first(), areas.last()) else { return };
        let member = |(i, area): (usize, &&AreaRecord)| {
            let would_go = if i == 0 { would_go } else { 0 };
            Member { start: area.start, kind, would_go }
        };
        self.1.extend(areas.iter().enumerate().map(member));
        let first = (low.start, high.end);
        let new = Pattern { kind, times: 0, areas: 0, bytes: 0, would_go: 0, first, folder: String::new() };
        let at = self.0.entry(kind).or_insert(new);
        at.times += 1;
        at.areas += areas.len() as u64;
        at.bytes = areas.iter().map(|a| size(a)).fold(at.bytes, u64::saturating_add);
        at.would_go += would_go;
    }
}

pub(super) fn patterns(areas: &[AreaRecord]) -> Vec<Pattern> {
    let mut all: Vec<Pattern> = find(areas).0.into_values().collect();
    all.sort_by_key(|p| std::cmp::Reverse((p.areas, p.bytes)));
    all
}

/// The areas of all patterns, and the folder of [`PatternKind::ManyFiles`]. An area may be in
/// several patterns.
pub(crate) fn members(areas: &[AreaRecord]) -> (Vec<Member>, String) {
    let Found(mut patterns, members) = find(areas);
    (members, patterns.remove(&PatternKind::ManyFiles).map_or_else(String::new, |files| files.folder))
}

fn find(areas: &[AreaRecord]) -> Found {
    let mut found = Found::default();
    let code = areas.iter().filter(|a| a.inode != 0 && a.perms & EXEC != 0).map(|a| (a.dev, a.inode));
    let code: HashSet<File> = code.collect();
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
            found.add(PatternKind::Arenas, &[area, rest], 0);
            at += 1;
        } else if let Some(stack) = above.filter(|stack| closed && size(area) <= GUARD && is_stack(area, stack)) {
            found.add(PatternKind::ThreadStacks, &[area, stack], without(below, area, stack));
            at += 1;
        } else if closed && size(area) > GUARD {
            found.add(PatternKind::Reservations, &[area], 0);
        } else if closed && (below.filter(opens).is_some() || above.filter(opens).is_some()) {
            let fewer = above.map_or(0, |above| without(below, area, above));
            found.add(PatternKind::GuardPages, &[area], fewer);
        }
    }
    double_mapped(areas, &mut found);
    deleted(areas, &mut found);
    many_files(areas, &mut found);
    found
}

/// How many areas fewer there would be without a guard between two areas that are otherwise alike.
/// What keeps the guard apart from the one, and not from the other, keeps these two apart: then the
/// guard would be part of one of them.
fn without(below: Option<&AreaRecord>, guard: &AreaRecord, above: &AreaRecord) -> u64 {
    let opens = |a: &&AreaRecord| is_anonymous(a) && a.perms & ACCESS != 0;
    let is_one = |below: &&AreaRecord| alike(below, above) && below.name == above.name && guard.end == above.start;
    if below.filter(opens).filter(is_one).is_none() {
        return 0;
    }
    let why = |area: &AreaRecord| reasons(&area.apart).map(str::to_owned).collect::<BTreeSet<_>>();
    if why(guard) == why(above) { 2 } else { 1 }
}

/// The patterns of one area and the one that ends where it starts.
fn lone(area: &AreaRecord, below: Option<&AreaRecord>, code: &HashSet<File>, found: &mut Found) {
    if is_anonymous(area) && area.perms & EXEC != 0 && area.name != "[stack]" {
        found.add(PatternKind::Jit, &[area], 0);
    }
    let charged = area.apart.is_empty() || reasons(&area.apart).any(|reason| reason == "accounting");
    if area.perms == READ
        && charged
        && code.contains(&(area.dev, area.inode))
        && below.is_some_and(|below| below.perms == READ && continues(below, area))
    {
        found.add(PatternKind::Relro, &[area], 0);
    }
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

/// The most stacks that this many threads can seem to have, because a few buffers look like stacks.
/// More than that are stacks of coroutines, or buffers ([`PatternKind::GuardedStacks`]).
pub fn most_stacks_of(threads: u64) -> u64 {
    threads.saturating_add(threads / 8).saturating_add(1)
}

fn is_stack(guard: &AreaRecord, stack: &AreaRecord) -> bool {
    let whole = size(stack).is_multiple_of(STACK) || (size(guard) + size(stack)).is_multiple_of(STACK);
    is_anonymous(stack) && stack.perms & !EXEC == READ | WRITE && size(stack) + size(guard) >= STACK && whole
}

/// Files of which the same bytes are executable in one area and writable in another one.
fn double_mapped(areas: &[AreaRecord], found: &mut Found) {
    let mut files: HashMap<_, (Vec<&AreaRecord>, Vec<&AreaRecord>)> = HashMap::new();
    for area in areas.iter().filter(|a| a.inode != 0 && a.perms & SHARED != 0) {
        let (runs, writes) = files.entry((area.dev, area.inode)).or_default();
        if area.perms & EXEC != 0 && area.perms & WRITE == 0 {
            runs.push(area);
        } else if area.perms & WRITE != 0 {
            writes.push(area);
        }
    }
    let mut files: Vec<_> = files.into_values().filter(|(runs, writes)| meet(runs, writes)).collect();
    files.sort_by_key(|(runs, _)| runs[0].start);
    for (runs, writes) in files {
        let mut all: Vec<&AreaRecord> = runs.into_iter().chain(writes).collect();
        all.sort_by_key(|a| a.start);
        found.add(PatternKind::DoubleMapped, &all, 0);
        if let Some(one) = found.0.get_mut(&PatternKind::DoubleMapped).filter(|p| p.times == 1) {
            one.first = (all[0].start, all[0].end);
        }
    }
}

/// Whether some area of `a` maps bytes of the file that one of `b` maps too.
fn meet(a: &[&AreaRecord], b: &[&AreaRecord]) -> bool {
    let mut ends: Vec<(u64, u64)> = b.iter().map(|b| (b.offset, b.offset.saturating_add(size(b)))).collect();
    ends.sort_unstable();
    // The furthest end of all that begin up to here.
    let mut furthest = 0;
    for end in &mut ends {
        furthest = furthest.max(end.1);
        end.1 = furthest;
    }
    a.iter().any(|a| {
        let before = ends.partition_point(|b| b.0 < a.offset.saturating_add(size(a)));
        before > 0 && ends[before - 1].1 > a.offset
    })
}

/// Many files of one folder.
fn many_files(areas: &[AreaRecord], found: &mut Found) {
    let is_file = |a: &&AreaRecord| a.inode != 0 && a.name.starts_with('/') && !a.name.ends_with(DELETED);
    let mut names: Vec<&str> = areas.iter().filter(is_file).map(|a| &*a.name).collect();
    names.sort_unstable();
    names.dedup();
    let folder = folder_of_most(&names);
    let mut files: HashSet<&str> = HashSet::new();
    for area in areas.iter().filter(is_file).filter(|a| !folder.is_empty() && is_in(&a.name, folder)) {
        found.add(PatternKind::ManyFiles, &[area], 0);
        files.insert(&area.name);
    }
    if let Some(all) = found.0.get_mut(&PatternKind::ManyFiles) {
        (all.times, all.folder) = (files.len() as u64, folder.to_owned());
    }
}

fn is_in(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The innermost folder that has many of these files, sorted by name, and more than half of those
/// of each folder that it is in. Empty where none has.
fn folder_of_most<'a>(names: &[&'a str]) -> &'a str {
    let (mut names, mut folder) = (names, "");
    // More than half of sorted names that lie together hold the middle one.
    while let Some(middle) = names.get(names.len() / 2) {
        let Some(end) = middle[folder.len() + 1..].find('/') else { break };
        let within = &middle[..=folder.len() + 1 + end];
        let from = names.partition_point(|name| *name < within);
        let inner = &names[from..];
        let inner = &inner[..inner.partition_point(|name| name.starts_with(within))];
        if (inner.len() as u64) < FILES || inner.len() * 2 <= names.len() {
            break;
        }
        (names, folder) = (inner, &within[..within.len() - 1]);
    }
    folder
}

fn deleted(areas: &[AreaRecord], found: &mut Found) {
    let unnamed = ["/memfd:", "/dev/zero", "/SYSV", "/dev/shm/", "/anon_hugepage", "/secretmem", "/[aio]"];
    let mut files: HashSet<File> = HashSet::new();
    for area in areas.iter().filter(|a| a.inode != 0 && a.name.ends_with(DELETED)) {
        if unnamed.iter().any(|name| area.name.starts_with(name)) {
            continue;
        }
        found.add(PatternKind::DeletedFiles, &[area], 0);
        let new = files.insert((area.dev, area.inode));
        if let Some(all) = found.0.get_mut(&PatternKind::DeletedFiles).filter(|_| !new) {
            all.times -= 1;
        }
    }
}
