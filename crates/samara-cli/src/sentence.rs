//! A verdict in one sentence: what is known as a fact, and what follows from memory that was there
//! when the recording began as that. Does not know the calls behind it.

use samara_trace::file::{flag_words, reasons};
use samara_trace::survey::PatternKind;
use samara_trace::why::{Role, Verdict, VerdictKind};

use crate::format::{bytes, count, plural};
use crate::output::{clean, short};
use crate::summary::{gloss, reason_text, reasons_text};

/// The size of a verdict's guards, holes or stacks: the one that most of them have.
fn common(v: &Verdict) -> String {
    match v.common_times {
        times if times * 10 >= v.times * 9 => bytes(v.common),
        times if times * 2 > v.times => format!("mostly {}", bytes(v.common)),
        _ => format!("{} to {}", bytes(v.sizes.0), bytes(v.sizes.1)),
    }
}

/// A verdict in one sentence.
pub(crate) fn sentence(v: &Verdict) -> String {
    if v.inferred {
        return inferred(v);
    }
    let (areas, fewer) = (plural(v.areas, "area"), count(v.would_go));
    let (common, all) = (common(v), bytes(v.bytes));
    match (v.kind, v.pattern) {
        (VerdictKind::KeptApart, Some(PatternKind::GuardPages)) => {
            let without = match v.would_go {
                0 => "they may be apart without the guards too".to_owned(),
                _ => format!("without the guards there would be {fewer} fewer"),
            };
            format!("{areas} with {} of {common} between them; {without}", plural(v.times, "guard"))
        }
        (VerdictKind::KeptApart, Some(PatternKind::DoubleMapped)) => double_mapped(&areas, &fewer),
        (VerdictKind::KeptApart, Some(PatternKind::Relro)) => format!(
            "{} of libraries, read-only after relocation (RELRO); without it there would be {fewer} fewer",
            plural(v.times, "part")
        ),
        (VerdictKind::KeptApart, Some(PatternKind::FileViews)) => file_views(v, &areas, &fewer),
        (VerdictKind::KeptApart, _) => apart(v),
        (VerdictKind::Fragmented, _) => format!(
            "{areas} around {} of {common} (in all {all}), where parts were unmapped; without the holes there would be {} fewer",
            plural(v.times, "hole"),
            if v.would_go == 0 { "no" } else { &fewer }
        ),
        (VerdictKind::Concurrent, Some(PatternKind::Arenas)) => arenas(v),
        (VerdictKind::Concurrent, Some(PatternKind::GuardedStacks)) => {
            format!("{areas} of {} of {common}, each with a guard (coroutines?)", plural(v.times, "stack"))
        }
        (VerdictKind::Concurrent, _) => {
            format!("{areas} of {} of {common}, with their guards", plural(v.times, "thread stack"))
        }
        (VerdictKind::Reserved, _) => {
            format!("{areas} of {} without access, {all}: addresses kept from other mappings", plural(v.times, "range"))
        }
        (VerdictKind::NoHugePage, _) => format!(
            "{areas} that asked for huge pages have room for none, {all}: they have {common}, and one takes 2 MiB from a multiple of 2 MiB on"
        ),
        (VerdictKind::ManyFiles, Some(PatternKind::LibraryCopies)) => format!(
            "{} in {}, with equal segments (copies of a library?): {areas}, {all}",
            count(v.times),
            clean(&v.folder)
        ),
        (VerdictKind::ManyFiles, _) => {
            let each = if v.areas == v.times { "one area each".to_owned() } else { areas };
            format!("{} in {}, {each}, {all}", count(v.times), clean(&v.folder))
        }
        (VerdictKind::OneOrigin, _) => format!("{areas} that have one origin and no other verdict, {all}"),
        (VerdictKind::Leaked, Some(_)) => format!("{areas} of files that were deleted and are still mapped, {all}"),
        _ => {
            let kept = v.parts.first().and_then(|part| part.kept).map_or_else(String::new, |kept| {
                format!(": {} of {} are still mapped", count(kept.alive), plural(kept.made, "mapping"))
            });
            format!("{areas}, {all}{kept}, and they came up to this moment")
        }
    }
}

/// A verdict that follows from the areas that were there when the recording began, and from no
/// recorded call.
fn inferred(v: &Verdict) -> String {
    let (common, fewer) = (common(v), count(v.would_go));
    let areas = format!("{}, there when the recording began,", plural(v.areas, "area"));
    let why: Vec<&str> = reasons(&v.reason).collect();
    match (v.kind, v.pattern) {
        (VerdictKind::KeptApart, Some(PatternKind::GuardPages)) => format!(
            "{areas} with {} of {common} between them; without the guards there would be at most {fewer} fewer",
            plural(v.times, "guard")
        ),
        (VerdictKind::KeptApart, Some(PatternKind::DoubleMapped)) => double_mapped(&areas, &format!("at most {fewer}")),
        (VerdictKind::KeptApart, Some(PatternKind::Relro)) => format!(
            "{areas} around {} of libraries that look read-only after relocation (RELRO); without it there would be at most {fewer} fewer",
            plural(v.times, "part")
        ),
        (VerdictKind::KeptApart, Some(PatternKind::FileViews)) => file_views(v, &areas, &format!("at most {fewer}")),
        (VerdictKind::KeptApart, _) => match why.as_slice() {
            ["protection"] => {
                format!("{areas} differ in protection; with the same one there would be at most {fewer} fewer")
            }
            ["not-recorded"] => {
                format!("{areas} are apart by something that was not recorded{}", gloss("not-recorded"))
            }
            [one] => format!(
                "{areas} are apart by {}{}; without it there would be at most {fewer} fewer",
                reason_text(one),
                gloss(one)
            ),
            more => format!(
                "{areas} are apart by {} at once; without all of these there would be at most {} fewer",
                reasons_text(more, " and "),
                count(v.times.min(v.areas.saturating_sub(1)))
            ),
        },
        (VerdictKind::Fragmented, _) => format!(
            "{areas} around {} of {common} (in all {}), unmapped or never mapped; without the holes there would be at most {fewer} fewer",
            plural(v.times, "hole"),
            bytes(v.bytes)
        ),
        (_, Some(PatternKind::Arenas)) => {
            format!("{areas} look like {} of malloc (glibc)", plural(v.times, "heap"))
        }
        (_, Some(PatternKind::GuardedStacks)) => {
            format!("{areas} look like {} of {common}, each with a guard (coroutines?)", plural(v.times, "stack"))
        }
        _ => format!("{areas} look like {} of {common}, with their guards", plural(v.times, "thread stack")),
    }
}

/// `areas` are the areas as words, `fewer` is how many would go.
fn double_mapped(areas: &str, fewer: &str) -> String {
    format!(
        "{areas} of a file mapped twice, writable and executable (a JIT); mapped in one piece there would be {fewer} fewer"
    )
}

/// As [`double_mapped`].
fn file_views(v: &Verdict, areas: &str, fewer: &str) -> String {
    format!(
        "{areas} are pieces of one file ({}) in {}; mapped in larger pieces there would be {fewer} fewer",
        short(&clean(&v.file)),
        plural(v.times, "view")
    )
}

/// Heaps of malloc, with the number of arenas if a thread mapped several heaps.
fn arenas(v: &Verdict) -> String {
    let (areas, heaps) = (plural(v.areas, "area"), plural(v.times, "heap"));
    match v.arenas {
        1 if v.times > 1 => format!("{areas} of {heaps} of malloc (glibc), all of one arena"),
        n if n < v.times => {
            format!("{areas} of {heaps} of malloc (glibc), in {} of as many threads", plural(n, "arena"))
        }
        _ => format!("{areas} of {} of malloc (glibc)", plural(v.times, "arena")),
    }
}

fn apart(v: &Verdict) -> String {
    let left = v.areas.saturating_sub(v.would_go).max(1);
    let (areas, left) = (plural(v.areas, "area"), count(left));
    let why: Vec<&str> = reasons(&v.reason).collect();
    let changes = v.parts.iter().filter(|part| part.role == Role::Changed).count();
    match why.as_slice() {
        ["protection"] => {
            let turns = if changes > 1 { " whose protections alternate" } else { "" };
            format!("{areas}{turns} would be {left}, if all had the same protection")
        }
        [] => format!("{areas} could be {left}, and nothing keeps them apart but that no call has touched them since"),
        ["not-recorded"] => format!("{areas} are apart by something that was not recorded{}", gloss("not-recorded")),
        ["offset"] if v.moved => {
            format!("{areas} could be {left}, but for offset (moved memory keeps the offset that it had)")
        }
        [one] if changes > 1 && flag_words(one).count() > 1 => {
            let flags = reason_text(one);
            let flags = flags.split_once(": ").map_or(&*flags, |(_, flags)| flags);
            format!("{areas} whose flags alternate would be {left}, if all had the same flags ({flags})")
        }
        ["accounting"] if v.is_unreserved => {
            format!("{areas} could be {left}, but for accounting (one was mapped with MAP_NORESERVE)")
        }
        [one] => format!("{areas} could be {left}, but for {}{}", reason_text(one), gloss(one)),
        more => {
            let fewer = count(v.times.min(v.areas.saturating_sub(1)));
            format!(
                "{areas}, apart by {} at once; without all of these there would be {fewer} fewer",
                reasons_text(more, " and ")
            )
        }
    }
}

/// The verdict's kind for a person.
pub(crate) fn word(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Leaked => "never unmapped",
        VerdictKind::KeptApart => "kept apart",
        VerdictKind::Concurrent => "at once",
        VerdictKind::NoHugePage => "no huge page",
        VerdictKind::ManyFiles => "many files",
        VerdictKind::OneOrigin => "one origin",
        other => other.name(),
    }
}
