//! The entries and answers of reverse maps: areas that map a file. Knows no file, and no data
//! structure.

use samara::Span;

/// Bytes of a page, as Linux counts file offsets: huge pages count as several.
pub(super) const PAGE: u64 = 4096;

/// An area that maps a file: its addresses in its space, and the pages of the file that it maps.
///
/// Two areas of one space are the same if they have the same `start` and the same first page.
///
/// ```
/// use samara_mm::files::FileArea;
/// let area = FileArea { start: 0x400000, end: 0x403000, page: 7, shared_writable: false };
/// assert_eq!(area.pages(), Some((7..=9).into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileArea {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// The page of the file at `start`: the offset divided by 4096.
    pub page: u64,
    /// Whether the area is shared and may be written, now or after an `mprotect` (Linux:
    /// VM_SHARED with VM_MAYWRITE).
    pub shared_writable: bool,
}

impl FileArea {
    /// The pages of the file that the area maps. `None` if a reverse map does not take the area:
    /// its bounds are not aligned to pages, it is empty, or its last page is above `u64::MAX`.
    #[must_use]
    pub fn pages(&self) -> Option<Span<u64>> {
        let is_aligned = self.start.is_multiple_of(PAGE) && self.end.is_multiple_of(PAGE);
        let pages = self.end.checked_sub(self.start)? / PAGE;
        let last = self.page.checked_add(pages.checked_sub(1)?)?;
        is_aligned.then_some(Span::new(self.page, last))
    }
}

/// An answer of a reverse map: an area and its space. Ordered by page of the file, then space, then
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The number of the space.
    pub space: u64,
    /// The area.
    pub area: FileArea,
}

impl Mapping {
    /// The key that orders this mapping among answers.
    pub(super) fn key(&self) -> Key {
        Key { page: self.area.page, space: self.space, start: self.area.start }
    }
}

impl PartialOrd for Mapping {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Mapping {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        let rest = |m: &Mapping| (m.area.end, m.area.shared_writable);
        self.key().cmp(&other.key()).then_with(|| rest(self).cmp(&rest(other)))
    }
}

/// The key that identifies and orders areas: the order of the fields counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) page: u64,
    pub(super) space: u64,
    pub(super) start: u64,
}
