//! The words by which a trace says which flags keep two areas apart, and the calls that set them.
//! Knows nothing of files.
//!
//! A reason that [`reasons`](super::reasons) gives is the name of a [`Reason`](samara_mm::Reason).
//! That of [`Reason::Flags`] may be followed by a word for each flag that only one of the two areas
//! has: `flags:dontdump:dontfork`. Older traces have the name alone; so does a reason whose flags
//! have no words.

use samara_mm::{Flags, Reason};

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
