//! Finds the end of the first segment of a file that was just loaded. The kernel's records of the
//! load show only its start. Reads program headers; knows no areas but those of the file.
//!
//! - **NOSTOP-SEGMENTS-1** a file's headers are used only if they give the areas that the kernel
//!   reported, because another file may have that name by now.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

use super::record::ShownArea;
use crate::os::sys::{Tid, page_size};
use crate::stacks::open_regular;

/// Most segments of a file.
const MOST_SEGMENTS: usize = 64;

/// A segment that is mapped: its address, its length in memory and in the file, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    address: u64,
    memory: u64,
    file: u64,
    offset: u64,
}

impl Segment {
    /// Its pages of the file (start, end, offset) when the file is loaded `higher` bytes above the
    /// addresses in its headers.
    fn pages(self, higher: u64) -> (u64, u64, u64) {
        let page = page_size();
        let start = self.address.wrapping_add(higher);
        let end = start.saturating_add(self.file).saturating_add(page - 1) & !(page - 1);
        (start & !(page - 1), end, self.offset & !(page - 1))
    }
}

/// The end of a file's first segment. `whole`: the first area that the kernel reported, which is as
/// long as all segments; `others`: the file's later areas; `by`: processes whose root folders are
/// searched for the file. `None`: its headers cannot be read.
pub(super) fn first_end(whole: &ShownArea, others: &[&ShownArea], by: &[Tid]) -> Option<u64> {
    let name = Path::new(OsStr::from_bytes(&whole.name));
    let below = |pid: &Tid| Path::new(&format!("/proc/{pid}/root")).join(name.strip_prefix("/").unwrap_or(name));
    let paths = by.iter().map(below).chain([name.to_owned()]);
    paths.into_iter().find_map(|path| end_by(&read(&path)?, whole, others))
}

/// The end of the first segment, if these segments give the areas that the kernel reported
/// (NOSTOP-SEGMENTS-1).
fn end_by(all: &[Segment], whole: &ShownArea, others: &[&ShownArea]) -> Option<u64> {
    let (first, last) = (all.first()?, all.last()?);
    let higher = whole.start.wrapping_sub(first.pages(0).0);
    let page = page_size();
    let (start, end, offset) = first.pages(higher);
    let top = last.address.wrapping_add(higher).saturating_add(last.memory).saturating_add(page - 1) & !(page - 1);
    let is_shown = |segment: &Segment| {
        let (start, end, offset) = segment.pages(higher);
        let has =
            |s: &&&ShownArea| s.start <= start && end <= s.end && s.offset.wrapping_add(start - s.start) == offset;
        segment.file == 0 || others.iter().any(|s| has(&s))
    };
    let fits = (start, offset) == (whole.start, whole.offset) && top == whole.end && all[1..].iter().all(is_shown);
    fits.then_some(end)
}

/// The segments of a program's file that are mapped.
fn read(path: &Path) -> Option<Vec<Segment>> {
    let data = ReadCache::new(open_regular(path)?);
    mapped::<FileHeader64<Endianness>>(&data).or_else(|| mapped::<FileHeader32<Endianness>>(&data))
}

fn mapped<H: FileHeader<Endian = Endianness>>(data: &ReadCache<File>) -> Option<Vec<Segment>> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let loads = header.program_headers(endian, data).ok()?.iter().filter(|h| h.p_type(endian) == PT_LOAD);
    let segment = |h: &H::ProgramHeader| Segment {
        address: h.p_vaddr(endian).into(),
        memory: h.p_memsz(endian).into(),
        file: h.p_filesz(endian).into(),
        offset: h.p_offset(endian).into(),
    };
    Some(loads.take(MOST_SEGMENTS).map(segment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(start: u64, end: u64, offset: u64) -> ShownArea {
        ShownArea { start, end, offset, dev: (254, 0), inode: 7, name: b"/nowhere".to_vec(), ..ShownArea::default() }
    }

    /// A file of three segments, with a gap after the first.
    #[test]
    fn headers_count_if_they_give_what_was_reported() {
        let segment = |address, memory, file, offset| Segment { address, memory, file, offset };
        let all = [
            segment(0, 0x618, 0x618, 0),
            segment(0x20_0000, 0x159, 0x159, 0x20_0000),
            segment(0x3f_fdd0, 0x1250, 0x248, 0x3f_fdd0),
        ];
        let whole = shown(0x5000_0000, 0x5040_2000, 0);
        let (text, data) = (shown(0x5020_0000, 0x5020_1000, 0x20_0000), shown(0x503f_f000, 0x5040_1000, 0x3f_f000));
        assert_eq!(end_by(&all, &whole, &[&text, &data]), Some(0x5000_1000));
        assert_eq!(end_by(&all, &whole, &[&data]), None, "another file");
        assert_eq!(end_by(&all, &shown(0x5000_0000, 0x5050_0000, 0), &[&text, &data]), None, "longer");
        assert_eq!(end_by(&[], &whole, &[]), None);
        assert_eq!(first_end(&whole, &[&text, &data], &[]), None, "no file");
    }

    /// The test's own program has a segment that begins at its start.
    #[test]
    fn headers_are_read() {
        let own = read(Path::new("/proc/self/exe")).unwrap();
        assert!(own.len() > 1 && own[0].offset == 0 && own[0].file > 0, "{own:?}");
        assert!(["/proc/self/maps", "/", "/dev/null"].iter().all(|path| read(Path::new(path)).is_none()));
    }
}
