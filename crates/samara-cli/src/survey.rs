//! A survey of areas, on one screen and as JSON. Does not know where the areas come from.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::fmt::Write;

use samara_oracle::Profile;
use samara_record::inspect::Look;
use samara_trace::file::perms_name;
use samara_trace::survey::{
    AreaGroup, Boundary, Gaps, Holes, Known, Pattern, PatternKind, SIZES, Survey, most_stacks_of,
};
use serde_json::{Value, json};

use crate::format::{bytes, count, plural};
use crate::kernel::Kernel;
use crate::output::{BOLD, DIM, RED, clean, short, styled};
use crate::summary::{gloss, reason_text};

/// Version of the JSON.
const FORMAT: u32 = 1;
/// Groups, and changes of groups, with separate rows.
const GROUPS: usize = 8;
/// Boundaries with separate rows.
const BOUNDARIES: usize = 6;
/// The number of areas is shown in red from nine tenths of the limit on.
const NEAR: (u64, u64) = (9, 10);

/// The context of the areas.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) known: Known,
    /// The limit of areas.
    pub(crate) limit: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) notes: &'a [String],
}

impl<'a> Scope<'a> {
    pub(crate) fn of(look: &'a Look) -> Self {
        let process = look.process.as_ref();
        let (limit, threads) = (process.and_then(|p| p.limit), process.map(|p| p.threads));
        Scope { known: look.known, limit, threads, notes: &look.notes }
    }
}

/// The survey as lines. `title` names the process or file.
pub(crate) fn screen(title: &str, survey: &Survey, scope: Scope<'_>) -> String {
    let mut out = String::new();
    let mut rows = |name: &str, texts: Vec<String>| {
        for (i, text) in texts.into_iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {} {text}", styled(DIM, format!("{:<10}", if i == 0 { name } else { "" })));
        }
    };
    rows("areas", vec![areas(survey, scope.limit)]);
    rows("groups", groups(&survey.groups));
    rows("look like", survey.patterns.iter().map(|p| pattern(&by_threads(p, scope.threads))).collect());
    rows("fragmented", survey.holes.iter().map(fragmented).collect());
    rows("apart", boundaries(&survey.boundaries, scope.known));
    rows("gaps", gaps(&survey.gaps));
    rows("note", scope.notes.iter().map(|note| clean(note)).collect());
    format!("{} {}\n{out}", styled(BOLD, "samara:"), clean(title))
}

/// The process or file, in a few words.
pub(crate) fn title(look: &Look, name: &str) -> String {
    match &look.process {
        Some(p) => format!("{} ({}), {}", short(&p.name), p.pid, plural(p.threads, "thread")),
        None => name.to_owned(),
    }
}

fn areas(survey: &Survey, limit: Option<u64>) -> String {
    let mapped = format!("{} mapped", bytes(survey.bytes));
    let Some(limit) = limit else {
        return format!("{}, {mapped}", count(survey.areas));
    };
    let free = match limit.checked_sub(survey.areas) {
        None => styled(RED, "the limit is reached: every call that adds an area fails with ENOMEM"),
        Some(0) => styled(RED, "the limit is reached: one more map works, and calls that cut an area fail with ENOMEM"),
        Some(free) => {
            let free = format!("{} more until vm.max_map_count ({})", count(free), count(limit));
            if survey.areas / NEAR.0 >= limit / NEAR.1 { styled(RED, free) } else { free }
        }
    };
    format!("{}, {free}, {mapped}", count(survey.areas))
}

fn groups(all: &[AreaGroup]) -> Vec<String> {
    let mut rows: Vec<String> = all.iter().take(GROUPS).map(group).collect();
    if let Some(rest) = all.get(GROUPS..).filter(|rest| !rest.is_empty()) {
        let areas = rest.iter().map(|g| g.areas).sum();
        let size = rest.iter().map(|g| g.bytes).fold(0, u64::saturating_add);
        rows.push(format!("{:>7}       in {}, {}", count(areas), plural(rest.len() as u64, "more group"), bytes(size)));
    }
    rows
}

/// A group as a row.
pub(crate) fn group(g: &AreaGroup) -> String {
    let files = if g.files > 1 { format!(" ({})", plural(g.files, "file")) } else { String::new() };
    let (least, most) = g.sizes;
    let each = match g.common {
        _ if g.areas == 1 => bytes(g.bytes),
        (size, n) if n == g.areas => format!("{}, {} each", bytes(g.bytes), bytes(size)),
        (size, n) if n > g.areas / 2 => format!("{}, {} of {} each", bytes(g.bytes), count(n), bytes(size)),
        _ => format!("{}, of {} to {}", bytes(g.bytes), bytes(least), bytes(most)),
    };
    format!("{:>7} {}  {}{files}: {each}", count(g.areas), perms_name(g.perms), clean(&short(&g.backing)))
}

/// A pattern as a row.
pub(crate) fn pattern(p: &Pattern) -> String {
    let n = |word| plural(p.times, word);
    let what = match p.kind {
        PatternKind::GuardPages => n("guard"),
        PatternKind::GuardedStacks => format!("{} with a guard below (coroutines?)", n("stack")),
        PatternKind::ThreadStacks => format!("{} with a guard below", n("thread stack")),
        PatternKind::Arenas => format!("{} of malloc (glibc), in as many arenas or fewer", n("heap")),
        PatternKind::Reservations => format!("{} (more than 1 MiB without access)", n("reservation")),
        PatternKind::Jit => format!("{} of executable memory without a file (a JIT)", n("area")),
        PatternKind::DoubleMapped => format!("{} mapped twice, writable and executable (a JIT)", n("file")),
        PatternKind::DeletedFiles => format!("{}, deleted and still mapped", n("file")),
        PatternKind::Relro => format!("{} of libraries, read-only after relocation (RELRO)", n("part")),
        PatternKind::ManyFiles => format!("{} in {}", n("file"), clean(&p.folder)),
        PatternKind::LibraryCopies => {
            format!("{} in {}, with equal segments (copies of a library?)", n("file"), clean(&p.folder))
        }
        PatternKind::FileViews => format!("{} of a file in pieces ({})", n("view"), short(&clean(&p.file))),
        _ => format!("{} ({})", n("instance"), p.kind.name()),
    };
    let most = if p.is_upper_bound { "at most " } else { "" };
    let gone = match p.would_go {
        0 => String::new(),
        n if p.kind == PatternKind::FileViews => {
            styled(BOLD, format!("; in larger pieces there would be {most}{} fewer", plural(n, "area")))
        }
        n => styled(BOLD, format!("; without the guards there would be {most}{} fewer", plural(n, "area"))),
    };
    let of = if p.areas == p.times { String::new() } else { format!("{}, ", plural(p.areas, "area")) };
    let (start, end) = p.first;
    format!("{what}: {of}{}; first {start:x}-{end:x}{gone}", bytes(p.bytes))
}

/// Memory in pieces as a row.
fn fragmented(h: &Holes) -> String {
    let (size, n) = h.common;
    let of = if n == h.times { format!("of {}", bytes(size)) } else { format!("({} of {})", count(n), bytes(size)) };
    let (start, end) = h.first;
    let fewer = styled(BOLD, format!("without the holes there would be at most {} fewer", plural(h.times, "area")));
    let (areas, holes, all) = (plural(h.areas, "area"), plural(h.times, "hole"), bytes(h.bytes));
    format!("{areas} around {holes} {of}, in all {all}, as where parts are unmapped; {fewer}; first {start:x}-{end:x}")
}

/// A pattern, if the number of threads is known: at most that many stacks count as thread stacks.
fn by_threads(p: &Pattern, threads: Option<u64>) -> Pattern {
    let mut known = p.clone();
    if p.kind == PatternKind::ThreadStacks && threads.is_some_and(|threads| p.times > most_stacks_of(threads)) {
        known.kind = PatternKind::GuardedStacks;
    }
    known
}

fn boundaries(all: &[Boundary], known: Known) -> Vec<String> {
    let mut rows: Vec<String> = all.iter().take(BOUNDARIES).map(|b| boundary(b, known)).collect();
    let rest = all.len().saturating_sub(BOUNDARIES);
    if rest > 0 {
        rows.push(format!("and {}", plural(rest as u64, "more reason")));
    }
    rows
}

/// A boundary as a row.
pub(crate) fn boundary(b: &Boundary, known: Known) -> String {
    let (times, why) = (format!("{:>7}", count(b.boundaries)), reason(b));
    let (first, fewer) = match b.alone {
        0 => ("one", String::new()),
        _ if b.reason == "not-recorded" => ("first", String::new()),
        n => {
            // Hidden reasons may keep them apart too.
            let most = if known == Known::All { "" } else { "at most " };
            ("first", format!("; without it {most}{} fewer", plural(n, "area")))
        }
    };
    format!("{times} by {why}{fewer}; {first} at {:x}", b.first)
}

/// The reason that keeps the areas at a boundary apart.
pub(crate) fn reason(b: &Boundary) -> String {
    // The explanations for areas that look alike are not all true here.
    let gloss = |reason| match reason {
        "protection" => "",
        "accounting" => " (only one is charged against the commit limit)",
        reason => gloss(reason),
    };
    match (&*b.reason, b.inferred) {
        ("", true) => "not shown by the kernel".to_owned(),
        ("", false) => "nothing".to_owned(),
        (reason, true) => format!("{}{}, inferred: all shown attributes are equal", reason_text(reason), gloss(reason)),
        (reason, false) => format!("{}{}", reason_text(reason), gloss(reason)),
    }
}

fn gaps(gaps: &Gaps) -> Vec<String> {
    let under = |i: usize| match SIZES.get(i) {
        Some(size) => format!("under {}", bytes(*size)),
        None => "larger".to_owned(),
    };
    let counted = gaps.by_size.iter().enumerate().filter(|(_, (n, _))| *n > 0);
    let counted: Vec<_> =
        counted.map(|(i, (n, size))| format!("{} {} ({})", count(*n), under(i), bytes(*size))).collect();
    let Some((start, end)) = gaps.largest.first() else { return vec!["none between the areas".to_owned()] };
    vec![format!("{}; the largest: {} at {start:x}", counted.join(", "), bytes(end - start))]
}

/// The changes of groups, as lines; empty if there are none.
pub(crate) fn changes(before: &Survey, now: &Survey) -> Vec<String> {
    // Areas and bytes of each group before and now.
    let mut all: BTreeMap<(&str, u8), [(u64, u64); 2]> = BTreeMap::new();
    for (i, survey) in [before, now].into_iter().enumerate() {
        for g in &survey.groups {
            all.entry((&g.backing, g.perms)).or_default()[i] = (g.areas, g.bytes);
        }
    }
    let mut all: Vec<_> = all.into_iter().filter(|(_, [old, new])| old != new).collect();
    all.sort_by_key(|(_, [old, new])| Reverse((old.0.abs_diff(new.0), old.1.abs_diff(new.1))));
    let row = |((backing, perms), [old, new]): &((&str, u8), [(u64, u64); 2])| {
        let (areas, size) = (change(old.0, new.0, count), change(old.1, new.1, bytes));
        format!("{areas:>7} {}  {}: {size}", perms_name(*perms), clean(&short(backing)))
    };
    let mut rows: Vec<String> = all.iter().take(GROUPS).map(row).collect();
    let rest = all.len().saturating_sub(GROUPS);
    if rest > 0 {
        rows.push(format!("and {} changed", plural(rest as u64, "more group")));
    }
    rows
}

/// `+3`, `-1` or `0`.
pub(crate) fn change(before: u64, now: u64, show: fn(u64) -> String) -> String {
    let sign = match now.cmp(&before) {
        Ordering::Less => "-",
        Ordering::Equal => "",
        Ordering::Greater => "+",
    };
    format!("{sign}{}", show(now.abs_diff(before)))
}

/// The survey of a look as one object.
pub(crate) fn json(survey: &Survey, look: &Look, elapsed_ns: u64) -> Value {
    let process = look.process.as_ref();
    let limit = process.and_then(|p| p.limit);
    let mut all = json!({
        "format": FORMAT,
        "elapsed_ns": elapsed_ns,
        "pid": process.map(|p| p.pid),
        "name": process.map(|p| &*p.name),
        "threads": process.map(|p| p.threads),
        "limit": limit,
        "headroom": limit.map(|limit| limit.saturating_sub(survey.areas)),
    });
    let threads = process.map(|p| p.threads);
    let mut told = survey.clone();
    told.patterns = survey.patterns.iter().map(|p| by_threads(p, threads)).collect();
    extend(&mut all, parts(&told, usize::MAX));
    extend(&mut all, json!({"notes": look.notes}));
    let profile = Profile::running();
    // The kernel of a text is unknown: it may come from another machine. The rules are ours.
    let mut kernel = Kernel::asked(profile, &profile.to_string()).json();
    if process.is_none() {
        kernel["kernel"] = Value::Null;
        kernel["tested"] = Value::Null;
    }
    extend(&mut all, kernel);
    all
}

/// Adds the fields of an object to another one.
pub(crate) fn extend(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more);
    }
}

/// The survey as one object, with at most `groups` groups.
pub(crate) fn parts(survey: &Survey, groups: usize) -> Value {
    json!({
        "areas": survey.areas,
        "bytes": survey.bytes,
        "groups": survey.groups.iter().take(groups).map(|g| json!({
            "backing": g.backing, "files": g.files, "perms": perms_name(g.perms), "areas": g.areas, "bytes": g.bytes,
            "smallest": g.sizes.0, "largest": g.sizes.1, "common_size": g.common.0, "common_areas": g.common.1,
        })).collect::<Vec<_>>(),
        "patterns": survey.patterns.iter().map(|p| json!({
            "kind": p.kind.name(), "times": p.times, "areas": p.areas, "bytes": p.bytes,
            "would_go": p.would_go, "is_upper_bound": p.is_upper_bound,
            "start": p.first.0, "end": p.first.1, "folder": Some(&p.folder).filter(|folder| !folder.is_empty()),
            "file": Some(&p.file).filter(|file| !file.is_empty()),
        })).collect::<Vec<_>>(),
        "boundaries": survey.boundaries.iter().map(|b| json!({
            "reason": if b.reason.is_empty() { None } else { Some(&*b.reason) }, "inferred": b.inferred,
            "boundaries": b.boundaries, "alone": b.alone, "first": b.first,
        })).collect::<Vec<_>>(),
        "fragmented": survey.holes.map(|h| json!({
            "holes": h.times, "areas": h.areas, "bytes": h.bytes, "common_size": h.common.0, "common_holes": h.common.1,
            "would_go": h.times, "start": h.first.0, "end": h.first.1,
        })),
        "gaps": {
            "by_size": survey.gaps.by_size.iter().enumerate().map(|(i, (n, size))| json!({
                "under": SIZES.get(i), "gaps": n, "bytes": size,
            })).collect::<Vec<_>>(),
            "largest": survey.gaps.largest.iter().map(|(start, end)| json!({"start": start, "end": end})).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
