//! Finds the row for an address in a module's unwind tables: in `.eh_frame`, or else in
//! `.debug_frame`.
//!
//! Does not know what a row means (`rule`).

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindOffset, UnwindSection, UnwindTableRow,
};

use super::module::Sections;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// A use of a row.
pub(super) trait WithRow {
    type Out;

    /// `entry`: the entry of the row's function.
    fn with<'a, S: UnwindSection<Bytes<'a>>>(
        self,
        section: &S,
        entry: &FrameDescriptionEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize>,
    ) -> Option<Self::Out>
    where
        S::Offset: UnwindOffset<usize>;
}

/// The functions of a section without a table of them: first address, end, and offset of the entry,
/// ascending.
pub(super) type Index = Vec<(u64, u64, u32)>;

/// Uses the row of an address. `None`: no table has a row for it, or it cannot be read.
pub(super) fn row<W: WithRow>(sections: &Sections, at: u64, with: W) -> Option<W::Out> {
    let mut bases = BaseAddresses::default();
    if let Some(text) = &sections.text {
        bases = bases.set_text(text.start);
    }
    if let Some(got) = &sections.got {
        bases = bases.set_got(got.start);
    }
    if let Some((addresses, content)) = &sections.eh_frame {
        bases = bases.set_eh_frame(addresses.start);
        let frames = EhFrame::new(content, LittleEndian);
        let found = sections.eh_frame_hdr.as_ref().and_then(|header| by_header(header, &frames, &bases, at));
        let entry = match found {
            Some(entry) => entry,
            None => by_index(sections.eh_index.get_or_init(|| index(&frames, &bases)), &frames, &bases, at),
        };
        if let Some(entry) = entry {
            return of_entry(&frames, &bases, &entry, at, with);
        }
    }
    let (_, content) = sections.debug_frame.as_ref()?;
    let mut frames = DebugFrame::new(content, LittleEndian);
    frames.set_address_size(8);
    let index = sections.debug_index.get_or_init(|| index(&frames, &bases));
    of_entry(&frames, &bases, &by_index(index, &frames, &bases, at)?, at, with)
}

type Entry<'a> = FrameDescriptionEntry<Bytes<'a>>;

/// The entry of an address, by the table of `.eh_frame_hdr`. `None`: that table does not exist.
fn by_header<'a>(
    header: &'a (std::ops::Range<u64>, std::sync::Arc<[u8]>),
    frames: &EhFrame<Bytes<'a>>,
    bases: &BaseAddresses,
    at: u64,
) -> Option<Option<Entry<'a>>> {
    let (addresses, content) = header;
    let bases = bases.clone().set_eh_frame_hdr(addresses.start);
    let header = EhFrameHdr::new(content, LittleEndian).parse(&bases, 8).ok()?;
    Some(header.table()?.fde_for_address(frames, &bases, at, EhFrame::cie_from_offset).ok())
}

fn by_index<'a, S: UnwindSection<Bytes<'a>>>(
    index: &Index,
    section: &S,
    bases: &BaseAddresses,
    at: u64,
) -> Option<Entry<'a>>
where
    S::Offset: UnwindOffset<usize>,
{
    let before = index.partition_point(|(start, ..)| *start <= at).checked_sub(1)?;
    let (_, end, offset) = *index.get(before)?;
    (at < end).then(|| section.fde_from_offset(bases, S::Offset::from(offset as usize), S::cie_from_offset).ok())?
}

fn index<'a, S: UnwindSection<Bytes<'a>>>(section: &S, bases: &BaseAddresses) -> Index
where
    S::Offset: UnwindOffset<usize>,
{
    let mut index = Index::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(entry) = partial.parse(S::cie_from_offset) else { continue };
        let start = entry.initial_address();
        index.push((start, start.saturating_add(entry.len()), entry.offset() as u32));
    }
    index.sort_unstable();
    index
}

fn of_entry<'a, S: UnwindSection<Bytes<'a>>, W: WithRow>(
    section: &S,
    bases: &BaseAddresses,
    entry: &Entry<'a>,
    at: u64,
    with: W,
) -> Option<W::Out>
where
    S::Offset: UnwindOffset<usize>,
{
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(section, bases, &mut context, at).ok()?;
    with.with(section, entry, row)
}
