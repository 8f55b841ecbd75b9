//! The advice that `madvise` takes, by Linux's numbers.

/// Advice for `madvise`, by Linux's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
#[allow(missing_docs)] // Each is the MADV_ constant of its name; madvise(2) says what it does.
pub enum Advice {
    Normal = 0,
    Random = 1,
    Sequential = 2,
    WillNeed = 3,
    DontNeed = 4,
    Free = 8,
    Remove = 9,
    DontFork = 10,
    DoFork = 11,
    Mergeable = 12,
    Unmergeable = 13,
    HugePage = 14,
    NoHugePage = 15,
    DontDump = 16,
    DoDump = 17,
    WipeOnFork = 18,
    KeepOnFork = 19,
    Cold = 20,
    PageOut = 21,
    PopulateRead = 22,
    PopulateWrite = 23,
    DontNeedLocked = 24,
    Collapse = 25,
    GuardInstall = 102,
    GuardRemove = 103,
}

impl Advice {
    /// All advice that this crate knows.
    pub const ALL: [Advice; 25] = {
        use Advice::*;
        [
            Normal,
            Random,
            Sequential,
            WillNeed,
            DontNeed,
            Free,
            Remove,
            DontFork,
            DoFork,
            Mergeable,
            Unmergeable,
            HugePage,
            NoHugePage,
            DontDump,
            DoDump,
            WipeOnFork,
            KeepOnFork,
            Cold,
            PageOut,
            PopulateRead,
            PopulateWrite,
            DontNeedLocked,
            Collapse,
            GuardInstall,
            GuardRemove,
        ]
    };

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

    pub(crate) fn populates(self) -> bool {
        matches!(self, Advice::PopulateRead | Advice::PopulateWrite)
    }
}
