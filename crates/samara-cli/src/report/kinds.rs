//! Classifies areas for a picture. Knows nothing of events.

use samara_trace::event::AreaRecord;

/// Number of kinds.
pub(super) const KINDS: usize = 8;
/// Their names, in the order of [`Kind`].
pub(super) const NAMES: [&str; KINDS] = ["anonymous", "heap", "stack", "file", "code", "no access", "shared", "other"];

/// The kind of an area: first `[heap]` and the like by name; then shared, without access,
/// executable, file, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// Private memory that can be read or written.
    Anonymous,
    /// `[heap]`.
    Heap,
    /// `[stack]`: that of the first thread. Those of other threads are anonymous.
    Stack,
    /// A private mapping of a file.
    File,
    /// Executable memory, of a file or not.
    Code,
    /// Memory that can be neither read nor written nor run.
    NoAccess,
    /// Memory, of a file or not, that is shared with others.
    Shared,
    /// The kernel's own: `[vdso]` and the like.
    Other,
}

impl Kind {
    pub(super) fn of(area: &AreaRecord) -> Kind {
        let name = &*area.name;
        match name {
            "[heap]" => Kind::Heap,
            "[stack]" => Kind::Stack,
            _ if name.starts_with("[v") || name.starts_with("[uprobes") => Kind::Other,
            _ if area.perms & 8 != 0 => Kind::Shared,
            _ if area.perms & 7 == 0 => Kind::NoAccess,
            _ if area.perms & 4 != 0 => Kind::Code,
            _ if area.inode != 0 || area.dev != (0, 0) => Kind::File,
            _ => Kind::Anonymous,
        }
    }
}
