//! The areas of a program that was just loaded, from the kernel's records of the load. Knows no
//! calls.
//!
//! - **NOSTOP-EXEC-1** the kernel first maps the whole length of a file's segments, and unmaps
//!   everything but the first segment without a record. Then it maps the other segments. The end of
//!   the first segment is read from the file (`segments`).
//! - **NOSTOP-EXEC-2** the kernel builds the stack at the highest addresses. A change of its
//!   protection (an executable stack) has a record; its later move has no record.

use samara_trace::file::name_text;

use super::record::ShownArea;
use crate::os::proc::{EXEC, KernelArea, READ, SHARED, WRITE};
use crate::os::sys::page_size;
use crate::space::reach::Range;

/// The ends of 47-bit and of 56-bit address spaces.
const TOPS: [u64; 2] = [0x7fff_ffff_f000, 0xff_ffff_ffff_f000];

/// Turns an area that the kernel reported into a line of `maps`.
pub(super) fn area(shown: &ShownArea) -> KernelArea {
    let name = name_text(&shown.name).replace('\n', "\\012");
    let anonymous = shown.inode == 0 && shown.dev == (0, 0);
    let bit = |is: bool, bit| if is { bit } else { 0 };
    let has = |prot: i32| shown.prot & prot as u32 != 0;
    KernelArea {
        start: shown.start,
        end: shown.end,
        perms: bit(has(libc::PROT_READ), READ)
            | bit(has(libc::PROT_WRITE), WRITE)
            | bit(has(libc::PROT_EXEC), EXEC)
            | bit(shown.flags & libc::MAP_SHARED as u32 != 0, SHARED),
        offset: if anonymous { 0 } else { shown.offset },
        dev: shown.dev,
        inode: shown.inode,
        name: Some(name),
        flags: None,
        page: if shown.flags & libc::MAP_HUGETLB as u32 == 0 { page_size() } else { 0 },
    }
}

/// What the kernel's records of a load show.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// The areas, ascending.
    pub(super) areas: Vec<KernelArea>,
    /// The program's name.
    pub(super) program: String,
    /// Ranges where it is unknown whether there are areas.
    pub(super) unsure: Vec<Range>,
}

/// The areas of a new program, from the kernel's records in order. `first_end`: finds the end of a
/// file's first segment, if that can be known (NOSTOP-EXEC-1).
pub(super) fn loaded(
    told: &[Box<ShownArea>],
    mut first_end: impl FnMut(&ShownArea, &[&ShownArea]) -> Option<u64>,
) -> Loaded {
    let mut out = Loaded::default();
    let mut program = None;
    // The first map of the file whose segments are being mapped.
    let mut whole: Option<&ShownArea> = None;
    for (i, shown) in told.iter().enumerate() {
        let new = area(shown);
        let is_same = |other: &ShownArea| (other.dev, other.inode) == (shown.dev, shown.inode);
        program = program.or_else(|| (shown.inode != 0).then(|| new.name.clone())?);
        match whole {
            Some(first) if is_same(first) && (first.start + 1..first.end).contains(&new.start) => {
                // Is this the first of the later segments?
                if out.areas.iter().any(|area| (area.start, area.end) == (first.start, first.end)) {
                    let others: Vec<_> = told[i..].iter().map(|shown| &**shown).filter(|s| is_same(s)).collect();
                    let end = first_end(first, &others);
                    let least = (first.start + page_size()).min(new.start);
                    out.unsure.extend((end.is_none() && least < new.start).then_some((least, new.start)));
                    take_out(&mut out.areas, end.unwrap_or(new.start).min(new.start), first.end);
                }
            }
            _ => whole = (shown.inode != 0).then_some(shown),
        }
        put(&mut out.areas, new);
    }
    // NOSTOP-EXEC-2.
    let is_top = |area: &KernelArea| area.inode == 0 && TOPS.contains(&area.end);
    if out.areas.iter().any(|area| area.name.as_deref() == Some("[stack]") && !is_top(area)) {
        out.areas.retain(|area| !is_top(area));
    }
    out.program = program.unwrap_or_default();
    out
}

/// Puts an area in, replacing what is in its range.
fn put(areas: &mut Vec<KernelArea>, new: KernelArea) {
    take_out(areas, new.start, new.end);
    let at = areas.partition_point(|area| area.start < new.start);
    areas.insert(at, new);
}

/// Removes a range.
fn take_out(areas: &mut Vec<KernelArea>, start: u64, end: u64) {
    let mut kept = Vec::new();
    for area in areas.drain(..) {
        if area.end <= start || end <= area.start {
            kept.push(area);
            continue;
        }
        if area.start < start {
            kept.push(KernelArea { end: start, ..area.clone() });
        }
        if end < area.end {
            let offset = if area.inode == 0 { area.offset } else { area.offset + (end - area.start) };
            kept.push(KernelArea { start: end, offset, ..area });
        }
    }
    *areas = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(start: u64, end: u64, offset: u64, prot: u32) -> ShownArea {
        let name = b"/usr/bin/ld".to_vec();
        ShownArea { start, end, offset, dev: (254, 0), inode: 7, prot, flags: 2, name }
    }

    /// As the kernel reports a loader: all of it, then its segments, then the vdso.
    #[test]
    fn what_no_segment_covers_is_not_there() {
        let vdso =
            ShownArea { start: 0x9_0000, end: 0x9_2000, prot: 5, name: b"[vdso]".to_vec(), ..ShownArea::default() };
        let (start, end) = (0x7fff_ffff_e000, 0x7fff_ffff_f000);
        let stack = ShownArea { start, end, prot: 7, ..ShownArea::default() };
        let moved =
            ShownArea { start: 0x7ffe_0000_0000, end: 0x7ffe_0002_1000, name: b"[stack]".to_vec(), ..stack.clone() };
        let told = [
            stack,
            moved,
            file(0x1_0000, 0x4_5000, 0, 1),
            file(0x1_1000, 0x3_7000, 0x1000, 5),
            file(0x4_1000, 0x4_4000, 0x3_1000, 3),
            vdso,
        ];
        let Loaded { areas, program, unsure } = loaded(&told.clone().map(Box::new), |_, _| None);
        assert_eq!(unsure, [], "the first segment has one page at least");
        let shown: Vec<_> = areas.iter().map(|a| (a.start, a.end, a.offset, a.perms)).collect();
        assert_eq!(
            shown,
            [
                (0x1_0000, 0x1_1000, 0, 1),
                (0x1_1000, 0x3_7000, 0x1000, 5),
                (0x4_1000, 0x4_4000, 0x3_1000, 3),
                (0x9_0000, 0x9_2000, 0, 5),
                (0x7ffe_0000_0000, 0x7ffe_0002_1000, 0, 7),
            ]
        );
        assert_eq!((&*program, areas[3].name.as_deref()), ("/usr/bin/ld", Some("[vdso]")));
    }

    /// A gap after the first segment.
    #[test]
    fn the_first_segment_ends_where_its_file_says() {
        let told = [
            file(0x20_0000, 0x60_0000, 0, 1),
            file(0x40_0000, 0x40_1000, 0x20_0000, 5),
            file(0x5f_f000, 0x60_0000, 0x3f_f000, 3),
        ];
        let told = told.map(Box::new);
        let first = |end| {
            let loaded = loaded(&told, |first, others| {
                assert_eq!((first, others.len()), (&*told[0], 2));
                end
            });
            (loaded.areas.iter().map(|a| (a.start, a.end)).next(), loaded.areas.len(), loaded.unsure)
        };
        assert_eq!(first(Some(0x20_1000)), (Some((0x20_0000, 0x20_1000)), 3, vec![]));
        assert_eq!(first(None), (Some((0x20_0000, 0x40_0000)), 3, vec![(0x20_1000, 0x40_0000)]));
    }
}
