//! The areas of a program that was just loaded, from the kernel's records of the load. Knows no
//! calls.
//!
//! - **NOSTOP-EXEC-1** the kernel first maps the whole length of a file's segments, and unmaps
//!   everything but the first segment without a record. Then it maps the other segments.
//! - **NOSTOP-EXEC-2** the kernel builds the stack at the highest addresses. If it changes its
//!   protection (an executable stack), that has a record; that it moves the stack afterwards has
//!   none.

use samara_trace::file::name_text;

use super::record::Shown;
use crate::os::proc::{EXEC, KernelArea, READ, SHARED, WRITE};

/// Where the highest addresses end: of 47 and of 56 bits.
const TOPS: [u64; 2] = [0x7fff_ffff_f000, 0xff_ffff_ffff_f000];

/// The area that the kernel reported, as `maps` shows one.
pub(super) fn area(shown: &Shown) -> KernelArea {
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
        page: if shown.flags & libc::MAP_HUGETLB as u32 == 0 { crate::os::sys::page_size() } else { 0 },
    }
}

/// The areas of a new program, ascending, from the kernel's records in order; and the program's
/// name.
pub(super) fn loaded(told: &[Box<Shown>]) -> (Vec<KernelArea>, String) {
    let mut areas: Vec<KernelArea> = Vec::new();
    let mut program = None;
    // The first map of the file whose segments are being mapped.
    let mut whole: Option<KernelArea> = None;
    for shown in told {
        let new = area(shown);
        let file = (new.inode != 0).then_some((new.dev, new.inode));
        program = program.or_else(|| file.and(new.name.clone()));
        match &whole {
            Some(first)
                if file == Some((first.dev, first.inode)) && (first.start + 1..first.end).contains(&new.start) =>
            {
                take_out(&mut areas, new.start, first.end);
            }
            _ => whole = file.map(|_| new.clone()),
        }
        put(&mut areas, new);
    }
    // NOSTOP-EXEC-2.
    let is_top = |area: &KernelArea| area.inode == 0 && TOPS.contains(&area.end);
    if areas.iter().any(|area| area.name.as_deref() == Some("[stack]") && !is_top(area)) {
        areas.retain(|area| !is_top(area));
    }
    (areas, program.unwrap_or_default())
}

/// Puts an area over the existing ones.
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

    fn file(start: u64, end: u64, offset: u64, prot: u32) -> Shown {
        let name = b"/usr/bin/ld".to_vec();
        Shown { start, end, offset, dev: (254, 0), inode: 7, prot, flags: 2, name }
    }

    /// As the kernel reports a loader: all of it, then its segments, then the vdso.
    #[test]
    fn what_no_segment_covers_is_not_there() {
        let vdso = Shown { start: 0x9_0000, end: 0x9_2000, prot: 5, name: b"[vdso]".to_vec(), ..Shown::default() };
        let (start, end) = (0x7fff_ffff_e000, 0x7fff_ffff_f000);
        let stack = Shown { start, end, prot: 7, ..Shown::default() };
        let moved =
            Shown { start: 0x7ffe_0000_0000, end: 0x7ffe_0002_1000, name: b"[stack]".to_vec(), ..stack.clone() };
        let told = [
            stack,
            moved,
            file(0x1_0000, 0x4_5000, 0, 1),
            file(0x1_1000, 0x3_7000, 0x1000, 5),
            file(0x4_1000, 0x4_4000, 0x3_1000, 3),
            vdso,
        ];
        let (areas, program) = loaded(&told.map(Box::new));
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
}
