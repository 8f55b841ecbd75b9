//! Names of calls, kinds, steps, permissions and reasons, as files and people see them. Knows
//! nothing of files.
//!
//! The system call numbers of x86-64 never change, so a trace has the same names wherever it is
//! read.
//!
//! A reason that [`reasons`] gives is the name of a [`Reason`]. That of [`Reason::Flags`] may be
//! followed by a word for each flag that only one of the two areas has: `flags:dontdump:dontfork`.
//! Older traces have the name alone; so does a reason whose flags have no words.

use samara_mm::{FlagChange, Flags, Reason};

use crate::event::{EventKind, Step, StepKind};

/// The name of an x86-64 system call that a recorder may stop at, or `None`.
pub fn call_name(nr: u32) -> Option<&'static str> {
    crate::calls::name(nr)
}

const KINDS: [(EventKind, &str); 13] = [
    (EventKind::Call, "call"),
    (EventKind::Exec, "exec"),
    (EventKind::Fork, "fork"),
    (EventKind::Share, "share"),
    (EventKind::Exit, "exit"),
    (EventKind::Learnt, "learnt"),
    (EventKind::Difference, "difference"),
    (EventKind::Checked, "checked"),
    (EventKind::Module, "module"),
    (EventKind::Stack, "stack"),
    (EventKind::Symbol, "symbol"),
    (EventKind::Thread, "thread"),
    (EventKind::Found, "found"),
];

/// The name of a kind of event: `call`, `exec`, ...
pub fn kind_name(kind: EventKind) -> &'static str {
    // The `match` makes the compiler ask for an entry when a kind is added. The table serves both
    // directions.
    let i = match kind {
        EventKind::Call => 0,
        EventKind::Exec => 1,
        EventKind::Fork => 2,
        EventKind::Share => 3,
        EventKind::Exit => 4,
        EventKind::Learnt => 5,
        EventKind::Difference => 6,
        EventKind::Checked => 7,
        EventKind::Module => 8,
        EventKind::Stack => 9,
        EventKind::Symbol => 10,
        EventKind::Thread => 11,
        EventKind::Found => 12,
    };
    KINDS[i].1
}

pub(crate) fn kind_from(name: &str) -> Option<EventKind> {
    KINDS.iter().find(|kind| kind.1 == name).map(|kind| kind.0)
}

/// The kinds of steps that a trace file has. Their positions are the codes of [`step_code`].
const STEPS: [&str; 6] = ["unmapped", "mapped", "split", "merged", "changed", "moved"];

/// The name of a kind of step: `mapped`, `unmapped`, ...
pub fn step_name(kind: StepKind) -> &'static str {
    step_code(kind).and_then(|code| STEPS.get(usize::from(code))).unwrap_or(&"discarded")
}

/// The code of a kind of step, by which a decoded batch keeps it. `None`: a trace has no such
/// steps, because they concern the content of pages.
pub(crate) fn step_code(kind: StepKind) -> Option<u8> {
    Some(match kind {
        StepKind::Unmapped => 0,
        StepKind::Mapped => 1,
        StepKind::Split => 2,
        StepKind::Merged => 3,
        StepKind::Changed(_) => 4,
        StepKind::Moved => 5,
        _ => return None,
    })
}

/// The kind with this code. A trace does not have the flags that changed.
pub(crate) fn step_kind(code: u8) -> StepKind {
    match code {
        0 => StepKind::Unmapped,
        1 => StepKind::Mapped,
        2 => StepKind::Split,
        3 => StepKind::Merged,
        4 => StepKind::Changed(FlagChange::default()),
        _ => StepKind::Moved,
    }
}

/// The code of the kind with this name.
pub(crate) fn step_from(name: &str) -> Option<u8> {
    STEPS.iter().position(|step| *step == name).map(|code| code as u8)
}

/// A step as a trace has it. `None`: a trace has no such steps.
pub fn recorded(step: &Step) -> Option<Step> {
    step_code(step.kind).map(|code| Step { kind: step_kind(code), ..*step })
}

/// The sixteen permission fields of a maps line, indexed by
/// [`AreaRecord::perms`](crate::event::AreaRecord::perms).
const PERMS: [&str; 16] = [
    "---p", "r--p", "-w-p", "rw-p", "--xp", "r-xp", "-wxp", "rwxp", "---s", "r--s", "-w-s", "rw-s", "--xs", "r-xs",
    "-wxs", "rwxs",
];

/// Permissions as a maps line shows them: `rw-p`.
pub fn perms_name(perms: u8) -> &'static str {
    PERMS[usize::from(perms & 15)]
}

pub(crate) fn perms_from(name: &str) -> Option<u8> {
    PERMS.iter().position(|p| *p == name).map(|i| i as u8)
}

/// Splits [`AreaRecord::apart`](crate::event::AreaRecord::apart) into its reasons.
/// [`reason_name`] gives the name of each.
pub fn reasons(apart: &str) -> impl Iterator<Item = &str> {
    apart.split('+').filter(|reason| !reason.is_empty())
}

/// Words, the flags that each stands for, and the call or the argument that sets them. Ascending.
const WORDS: [(&str, Flags, &str); 18] = [
    ("dontdump", Flags::DONTDUMP, "MADV_DONTDUMP"),
    ("dontfork", Flags::DONTCOPY, "MADV_DONTFORK"),
    ("droppable", Flags::DROPPABLE, "MAP_DROPPABLE"),
    ("growsdown", Flags::GROWSDOWN, "MAP_GROWSDOWN"),
    ("hugepage", Flags::HUGEPAGE, "MADV_HUGEPAGE"),
    ("hugetlb", Flags::HUGETLB, "MAP_HUGETLB"),
    ("may-exec", Flags::MAYEXEC, ""),
    ("may-read", Flags::MAYREAD, ""),
    ("may-write", Flags::MAYWRITE, ""),
    ("mergeable", Flags::MERGEABLE, "MADV_MERGEABLE"),
    ("nohugepage", Flags::NOHUGEPAGE, "MADV_NOHUGEPAGE"),
    ("processor", Flags::ARCH_1, ""),
    ("random", Flags::RAND_READ, "MADV_RANDOM"),
    ("sequential", Flags::SEQ_READ, "MADV_SEQUENTIAL"),
    ("shadow-stack", Flags::SHADOW_STACK, "map_shadow_stack"),
    // Writes reach the file only where it was opened for writing.
    ("shared", Flags::SHARED.union(Flags::MAYSHARE), "MAP_SHARED"),
    ("sync", Flags::SYNC, "MAP_SYNC"),
    ("wipeonfork", Flags::WIPEONFORK, "MADV_WIPEONFORK"),
];

/// The name of a reason, without what follows it: `flags` of `flags:dontfork`.
///
/// ```
/// use samara_trace::file::reason_name;
/// assert_eq!((reason_name("flags:dontfork"), reason_name("lock")), ("flags", "lock"));
/// ```
pub fn reason_name(reason: &str) -> &str {
    reason.split_once(':').map_or(reason, |(name, _)| name)
}

/// The flags that a reason names: words, or the two letters that `VmFlags` has for a flag without
/// one. Each with the advice, or the argument or call, that gives an area the flag, if one does.
///
/// ```
/// use samara_trace::file::flag_words;
/// let words: Vec<_> = flag_words("flags:dontfork:zz").collect();
/// assert_eq!(words, [("dontfork", Some("MADV_DONTFORK")), ("zz", None)]);
/// assert_eq!(flag_words("flags").count(), 0);
/// ```
pub fn flag_words(reason: &str) -> impl Iterator<Item = (&str, Option<&'static str>)> {
    let call = |word: &str| WORDS.iter().find(|(known, ..)| *known == word).map(|(.., call)| *call);
    let words = reason.split(':').skip(1).filter(|word| !word.is_empty());
    words.map(move |word| (word, call(word).filter(|call| !call.is_empty())))
}

/// The reason for flags that only one of two areas has.
pub fn flags_reason(flags: Flags) -> String {
    let words = WORDS.iter().filter(|(_, bits, _)| flags.intersects(*bits));
    words.fold(Reason::Flags.name().to_owned(), |reason, (word, ..)| reason + ":" + word)
}

/// The flags that a reason names. Empty: it does not say.
pub fn flags_from(reason: &str) -> Flags {
    let named = |word: &str| WORDS.iter().find(|(known, ..)| *known == word).map(|(_, bits, _)| *bits);
    flag_words(reason).filter_map(|(word, _)| named(word)).fold(Flags::empty(), Flags::union)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_their_matches() {
        for (kind, name) in KINDS {
            assert_eq!((kind_name(kind), kind_from(name)), (name, Some(kind)));
        }
        for (code, name) in (0..).zip(STEPS) {
            let kind = step_kind(code);
            assert_eq!((step_name(kind), step_code(kind), step_from(name)), (name, Some(code), Some(code)));
        }
        for perms in 0..16 {
            assert_eq!(perms_from(perms_name(perms)), Some(perms));
        }
        assert_eq!(perms_name(0b1011), "rw-s");
    }

    /// Each kind of step that a call can have, except those of pages' content.
    #[test]
    fn every_step_of_an_area_is_recorded() {
        let mut space = samara_mm::AddressSpace::<samara_mm::FileId>::new(samara_mm::Config::default());
        let anonymous = |at, len| samara_mm::MapRequest::anonymous(at, len, samara_mm::Prot::RW);
        let mut steps = Vec::new();
        let mut note = |plan: Result<samara_mm::Plan, samara_mm::Error>| steps.extend_from_slice(&plan.unwrap());
        note(space.map(&anonymous(0x10000, 0x4000)));
        note(space.protect(0x11000, 0x1000, samara_mm::Prot::READ, None));
        note(space.protect(0x11000, 0x1000, samara_mm::Prot::RW, None));
        let mode = samara_mm::RemapMode::Fixed(0x50000);
        let moved = samara_mm::RemapRequest { old: 0x10000, old_len: 0x1000, new_len: 0x1000, mode, dontunmap: false };
        note(space.remap(&moved));
        note(space.advise(0x11000, 0x1000, samara_mm::Advice::DontNeed));
        let kinds: std::collections::BTreeSet<_> =
            steps.iter().filter_map(recorded).map(|step| step_name(step.kind)).collect();
        assert!(kinds.into_iter().eq(["changed", "mapped", "merged", "moved", "split", "unmapped"]));
        let left: Vec<_> = steps.iter().filter(|step| recorded(step).is_none()).map(|step| step.kind).collect();
        assert_eq!(left, [StepKind::Discarded(samara_mm::Advice::DontNeed)]);
        assert_eq!(step_name(left[0]), "discarded");
    }

    /// Each flag has a word, except those with a separate reason and those of special areas.
    #[test]
    fn every_flag_has_a_word() {
        let own = Flags::ACCESS | Flags::PKEY | Flags::LOCK | Flags::SEALED | Flags::UFFD;
        let other = own | Flags::NORESERVE | Flags::ACCOUNT | Flags::STICKY | Flags::SPECIAL;
        for (name, flag) in Flags::all().iter_names().filter(|(_, flag)| !other.intersects(*flag)) {
            let reason = flags_reason(flag);
            assert_eq!(reason_name(&reason), "flags");
            assert!(flags_from(&reason).contains(flag), "{name}: {reason}");
        }
        let two = Flags::DONTCOPY | Flags::DONTDUMP;
        assert_eq!((&*flags_reason(two), flags_from(&flags_reason(two))), ("flags:dontdump:dontfork", two));
        assert_eq!((&*flags_reason(Flags::empty()), flags_from("flags")), ("flags", Flags::empty()));
        assert!(WORDS.is_sorted_by_key(|(word, ..)| *word));
        assert!(WORDS.iter().all(|(word, ..)| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
    }
}
