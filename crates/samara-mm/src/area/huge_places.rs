//! Preferred addresses of maps with huge pages, and Linux's settings that decide them for shared
//! memory. Knows neither areas nor free address space.
//!
//! The rules for shared memory are from the running kernel (6.18), setting by setting;
//! tests/placement.rs compares them with it.

use crate::area::page_size::PageSize;
use alloc::string::String;

/// Which addresses the search prefers for maps of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HugePlaces {
    /// Any address.
    #[default]
    Plain,
    /// Addresses that suit the machine's huge pages ([`Bases::huge`](crate::Bases::huge)), as for a
    /// file on ext4, xfs or btrfs.
    FileSystem,
    /// Addresses that suit huge pages of this size, as for shared memory: a memfd, a System V
    /// segment, shared anonymous memory, a file on a tmpfs. The search looks for another place only
    /// if the first one that it finds does not suit.
    Shared(PageSize),
}

/// Linux's settings for huge pages of shared memory.
///
/// ```
/// use samara_mm::{HugePlaces, PageSize, SharedHuge};
/// let of_64k =
///     [(PageSize::new(65536).unwrap(), "[always] inherit within_size advise never".to_string())];
/// let huge =
///     SharedHuge::new("always within_size advise [never] deny force", of_64k, Some(PageSize::M2));
/// assert_eq!(huge.anonymous, HugePlaces::Shared(PageSize::new(65536).unwrap()));
/// assert_eq!(huge.files, HugePlaces::Plain);
/// assert_eq!(huge.mounted(Some("within_size")), HugePlaces::Shared(PageSize::M2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedHuge {
    /// For maps of memfds and System V segments, and for shared anonymous memory that moves.
    pub files: HugePlaces,
    /// For new shared anonymous memory.
    pub anonymous: HugePlaces,
    /// For files on a tmpfs that was mounted with huge pages.
    with_option: HugePlaces,
    /// For files on a tmpfs that was mounted without.
    without_option: HugePlaces,
}

impl SharedHuge {
    /// Reads the settings. `enabled` is the text of `shmem_enabled` in
    /// `/sys/kernel/mm/transparent_hugepage`, empty without that file. `sizes` are the texts of the
    /// files of that name in its folders for one page size each; they are read only if they matter.
    /// `huge` is the size of the machine's huge pages (`hpage_pmd_size`), `None` if it lacks them.
    pub fn new(
        enabled: &str,
        sizes: impl IntoIterator<Item = (PageSize, String)>,
        huge: Option<PageSize>,
    ) -> SharedHuge {
        let plain = SharedHuge::default();
        let Some(huge) = huge.map(HugePlaces::Shared) else { return plain };
        match chosen(enabled) {
            Some("force") => SharedHuge { files: huge, anonymous: huge, with_option: huge, without_option: huge },
            Some("always" | "within_size" | "advise") => {
                SharedHuge { files: huge, anonymous: huge, with_option: huge, ..plain }
            }
            Some("never") => {
                // A size set to `inherit` inherits `never`.
                let on = |text: &str| matches!(chosen(text), Some("always" | "within_size" | "advise"));
                let sizes = sizes.into_iter().filter(|(_, text)| on(text)).map(|(size, _)| size);
                let largest = sizes.max_by_key(|size| size.bytes());
                let anonymous = largest.map_or(HugePlaces::Plain, HugePlaces::Shared);
                SharedHuge { anonymous, with_option: huge, ..plain }
            }
            _ => plain,
        }
    }

    /// For files on a tmpfs that was mounted with this `huge=` option.
    pub fn mounted(&self, option: Option<&str>) -> HugePlaces {
        match option {
            Some("always" | "within_size" | "advise") => self.with_option,
            _ => self.without_option,
        }
    }
}

/// The word of a setting that is in force: the one in brackets.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}
