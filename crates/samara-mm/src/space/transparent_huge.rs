//! Finds the reads that give anonymous memory an identity: those that Linux serves with a huge page
//! of zeros. Knows an area and a setting; does not know which pages exist already. (Memory that was
//! read in small pages before its area grew to a huge page gets no identity in Linux.)
//!
//! The rule is from running kernels (5.10, 6.12, 7.3), under each setting.

use crate::area::flags::Flags;
use crate::area::{Anon, Area, Backing};
use crate::space::Config;

/// Linux's setting for transparent huge pages of anonymous memory:
/// `/sys/kernel/mm/transparent_hugepage/enabled`.
///
/// In memory that may get such pages, a read in a whole aligned huge page of one area
/// ([`Bases::huge`](crate::Bases::huge)) counts as a write: it gives the area its anonymous
/// identity, which keeps it apart from other written areas.
///
/// ```
/// use samara_mm::{
///     Access, AddressSpace, Bases, Config, FileId, MapRequest, Prot, TransparentHuge,
/// };
/// let bases = Bases { huge: 0x20_0000, ..Bases::default() };
/// for (transparent_huge, areas) in [(TransparentHuge::Never, 1), (TransparentHuge::Always, 2)] {
///     let mut space =
///         AddressSpace::<FileId>::new(Config { bases, transparent_huge, ..Config::default() });
///     space.map(&MapRequest::anonymous(0x40_0000, 0x20_0000, Prot::RW))?;
///     space.fault(0x40_0000, Access::Write).unwrap();
///     space.map(&MapRequest::anonymous(0x60_0000, 0x20_0000, Prot::READ))?;
///     space.fault(0x60_0000, Access::Read).unwrap();
///     space.protect(0x60_0000, 0x20_0000, Prot::RW, None)?;
///     assert_eq!(space.len(), areas);
/// }
/// # Ok::<(), samara_mm::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransparentHuge {
    /// No memory gets them (`never`), as in a process that has turned them off
    /// (PR_SET_THP_DISABLE).
    #[default]
    Never,
    /// Memory with the advice MADV_HUGEPAGE (`madvise`).
    Madvise,
    /// All but memory with the advice MADV_NOHUGEPAGE (`always`).
    Always,
}

impl TransparentHuge {
    /// Reads the text of the setting's file. Empty, or without a word in brackets: `Never`.
    pub fn parse(text: &str) -> TransparentHuge {
        match crate::area::huge_places::chosen(text) {
            Some("always") => TransparentHuge::Always,
            Some("madvise") => TransparentHuge::Madvise,
            _ => TransparentHuge::Never,
        }
    }
}

impl Config {
    /// The first address of `[from, to)` whose read gives this area at `[start, end)` an identity.
    /// `anon` is its present identity. O(1).
    #[inline]
    pub(crate) fn marked_by_read<B: Backing>(
        &self,
        area: &Area<B>,
        anon: Anon,
        (start, end): (u64, u64),
        (from, to): (u64, u64),
    ) -> Option<u64> {
        if self.transparent_huge == TransparentHuge::Never || anon != Anon::Untouched {
            return None;
        }
        let huge = self.bases.huge;
        let advised = match self.transparent_huge {
            TransparentHuge::Always => !area.flags.contains(Flags::NOHUGEPAGE),
            _ => area.flags.contains(Flags::HUGEPAGE),
        };
        let takes = advised && area.is_anonymous() && !area.flags.contains(Flags::SHARED);
        if huge == 0 || !takes {
            return None;
        }
        // The start and the end of the whole huge pages of the area.
        let (first, last) = (start.checked_next_multiple_of(huge)?, end / huge * huge);
        let at = from.max(first);
        (at < last.min(to)).then_some(at)
    }
}
