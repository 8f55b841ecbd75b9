//! The advice that `madvise` takes, by Linux's numbers and names.

/// Expands rows into [`Advice`], the list of all of it, and the names.
macro_rules! advice {
    ($($advice:ident = $number:literal, $name:literal;)*) => {
        /// Advice for `madvise`, by Linux's numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        #[allow(missing_docs)] // Each is the MADV_ constant of its name; madvise(2) says what it does.
        pub enum Advice {
            $($advice = $number),*
        }

        impl Advice {
            /// All advice that this crate knows.
            pub const ALL: [Advice; [$($number),*].len()] = [$(Advice::$advice),*];

            /// Linux's name. For crates that print it.
            #[doc(hidden)]
            pub fn name(self) -> &'static str {
                match self { $(Advice::$advice => $name),* }
            }
        }
    };
}

advice! {
    Normal = 0, "MADV_NORMAL";
    Random = 1, "MADV_RANDOM";
    Sequential = 2, "MADV_SEQUENTIAL";
    WillNeed = 3, "MADV_WILLNEED";
    DontNeed = 4, "MADV_DONTNEED";
    Free = 8, "MADV_FREE";
    Remove = 9, "MADV_REMOVE";
    DontFork = 10, "MADV_DONTFORK";
    DoFork = 11, "MADV_DOFORK";
    Mergeable = 12, "MADV_MERGEABLE";
    Unmergeable = 13, "MADV_UNMERGEABLE";
    HugePage = 14, "MADV_HUGEPAGE";
    NoHugePage = 15, "MADV_NOHUGEPAGE";
    DontDump = 16, "MADV_DONTDUMP";
    DoDump = 17, "MADV_DODUMP";
    WipeOnFork = 18, "MADV_WIPEONFORK";
    KeepOnFork = 19, "MADV_KEEPONFORK";
    Cold = 20, "MADV_COLD";
    PageOut = 21, "MADV_PAGEOUT";
    PopulateRead = 22, "MADV_POPULATE_READ";
    PopulateWrite = 23, "MADV_POPULATE_WRITE";
    DontNeedLocked = 24, "MADV_DONTNEED_LOCKED";
    Collapse = 25, "MADV_COLLAPSE";
    GuardInstall = 102, "MADV_GUARD_INSTALL";
    GuardRemove = 103, "MADV_GUARD_REMOVE";
}

impl Advice {
    /// The advice with this number; `None` if this crate does not know it. (`madvise` answers
    /// EINVAL to most of those.)
    pub fn from_raw(raw: u32) -> Option<Advice> {
        Advice::ALL.into_iter().find(|a| *a as u32 == raw)
    }

    /// Whether the advice throws pages away. It is then refused on sealed memory that is not
    /// writable.
    pub(crate) fn discards(self) -> bool {
        use Advice::*;
        matches!(self, DontNeed | DontNeedLocked | Free | Remove | DontFork | WipeOnFork | GuardInstall)
    }

    /// Whether the advice sets attributes of areas, and does nothing else.
    #[doc(hidden)]
    pub fn only_sets(self) -> bool {
        use Advice::*;
        matches!(self, Normal | Random | Sequential | Mergeable | Unmergeable | HugePage | NoHugePage)
            || matches!(self, DontFork | DoFork | DontDump | DoDump | WipeOnFork | KeepOnFork)
    }

    pub(crate) fn populates(self) -> bool {
        matches!(self, Advice::PopulateRead | Advice::PopulateWrite)
    }
}
