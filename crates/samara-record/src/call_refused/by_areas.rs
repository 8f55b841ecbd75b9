//! Finds the reason for a refusal that no limit caused: in the arguments, the areas in the range
//! and the file.

use samara_mm::linux::Host;
use samara_mm::{FileMode, Flags, MapFlags, Object, PageSize, Prot, RemapFlags, Want};
use samara_trace::calls::Call;
use samara_trace::{Refused, RefusedBy};

use super::{LOW, Trial};
use crate::space::host::write_sealed;
use crate::space::model::Model;
use crate::space::reach::Range;

/// The end of the MAP_32BIT window.
const LOW_END: u64 = 1 << 31;

/// Why the kernel and the model refuse the call of `trial` with an error.
pub(super) fn refused(trial: &mut Trial<'_>, errno: i32) -> Option<Refused> {
    match errno {
        libc::EINVAL => malformed(trial).or_else(|| locked(trial)),
        libc::EFAULT if trial.d.call == Call::Mremap => across(trial.model, moved(trial)),
        libc::EPERM => sealed(trial).or_else(|| file_sealed(trial)).or_else(|| not_executable(trial)),
        libc::EACCES => rights(trial).or_else(|| mdwe(trial)),
        libc::EEXIST => occupied(trial, (trial.d.args[0], trial.d.args[0].saturating_add(up(trial.d.args[1])))),
        libc::ENOMEM => match trial.d.call {
            Call::Mmap if MapFlags::from_bits_retain(trial.d.args[3] as u32).contains(MapFlags::FIXED) => None,
            Call::Mmap | Call::Shmat => no_gap(trial),
            Call::Mremap if trial.d.args[3] & RemapFlags::MAYMOVE.bits() == 0 => no_room(trial),
            Call::Mremap => no_gap(trial),
            Call::Brk => {
                let (from, to) = (up(trial.call.result as u64), up(trial.d.args[0]));
                // The kernel keeps a gap before the next area.
                occupied(trial, (from, to.saturating_add(4096)))
            }
            _ => {
                let ranges = trial.space.ranges(trial.call);
                ranges.into_iter().find_map(|range| hole(trial.model, range).or_else(|| no_access(trial, range)))
            }
        },
        _ => None,
    }
}

/// The first area of a range.
fn occupied(trial: &Trial<'_>, (start, end): Range) -> Option<Refused> {
    let area = trial.model.areas_in(start, end).next()?;
    Some(Refused::at(RefusedBy::Occupied, (area.start, area.end)))
}

/// An area without access in a range to lock. It prevents the call from making its pages resident.
fn no_access(trial: &Trial<'_>, (start, end): Range) -> Option<Refused> {
    if !matches!(trial.d.call, Call::Mlock | Call::Mlock2) {
        return None;
    }
    let access = Flags::READ | Flags::WRITE | Flags::EXEC;
    let area = trial.model.areas_in(start, end).find(|area| !area.area.flags.intersects(access))?;
    Some(Refused::at(RefusedBy::NoAccess, (area.start, area.end)))
}

/// Why the first area that refuses an advice on pages does so: locked, or without access.
fn locked(trial: &Trial<'_>) -> Option<Refused> {
    const POPULATE_READ: i32 = 22;
    const POPULATE_WRITE: i32 = 23;
    const GUARD_INSTALL: i32 = 102;
    let advice = match trial.d.call {
        Call::Madvise => trial.d.args[2] as i32,
        Call::ProcessMadvise => trial.d.args[3] as i32,
        _ => return None,
    };
    let ranges = trial.space.ranges(trial.call);
    let mut areas = ranges.iter().flat_map(|range| trial.model.areas_in(range.0, range.1));
    let access = Flags::READ | Flags::WRITE | Flags::EXEC;
    let area = areas.find(|area| {
        let is_locked = area.area.flags.contains(Flags::LOCKED);
        match advice {
            libc::MADV_DONTNEED | libc::MADV_COLD | libc::MADV_PAGEOUT => is_locked,
            libc::MADV_FREE | GUARD_INSTALL => is_locked || !matches!(area.area.object, Object::Anonymous),
            libc::MADV_REMOVE => is_locked || !matches!(area.area.object, Object::File(_)),
            POPULATE_READ => !area.area.flags.intersects(access),
            POPULATE_WRITE => !area.area.flags.contains(Flags::WRITE),
            _ => false,
        }
    })?;
    let at = (area.start, area.end);
    match advice {
        POPULATE_READ | POPULATE_WRITE if !area.area.flags.intersects(access) => {
            Some(Refused::at(RefusedBy::NoAccess, at))
        }
        _ if area.area.flags.contains(Flags::LOCKED) => Some(Refused::at(RefusedBy::IsLocked, at)),
        _ => None,
    }
}

/// A file that is sealed against writing.
fn file_sealed(trial: &mut Trial<'_>) -> Option<Refused> {
    let writes = Prot::from_bits_retain(trial.d.args[2] as u32).contains(Prot::WRITE);
    let refuses = writes && mode(trial)?.contains(FileMode::WRITE_SEALED);
    refuses.then(|| Refused::new(RefusedBy::FileSealed))
}

/// PR_SET_MDWE, if it is on and forbids these rights.
fn mdwe(trial: &Trial<'_>) -> Option<Refused> {
    trial.model.mdwe()?;
    let prot = Prot::from_bits_retain(trial.d.args[2] as u32);
    if !prot.contains(Prot::EXEC) {
        return None;
    }
    match trial.d.call {
        Call::Mmap => prot.contains(Prot::WRITE).then(|| Refused::new(RefusedBy::Mdwe)),
        Call::Mprotect | Call::PkeyMprotect => {
            let ranges = trial.space.ranges(trial.call);
            let denied = |flags: Flags| prot.contains(Prot::WRITE) || !flags.contains(Flags::EXEC);
            let mut areas = ranges.iter().flat_map(|range| trial.model.areas_in(range.0, range.1));
            let area = areas.find(|area| denied(area.area.flags))?;
            Some(Refused::at(RefusedBy::Mdwe, (area.start, area.end)))
        }
        _ => None,
    }
}

/// The range that a `mremap` moves or resizes.
fn moved(trial: &Trial<'_>) -> Range {
    let (at, len) = (trial.d.args[0], up(trial.d.args[1]));
    (at, at.saturating_add(len))
}

fn up(len: u64) -> u64 {
    len.checked_next_multiple_of(4096).unwrap_or(u64::MAX - 4095)
}

/// The first part of a range where nothing is mapped.
fn hole(model: &Model, (start, end): Range) -> Option<Refused> {
    let mut at = start;
    for area in model.areas_in(start, end) {
        if area.start > at {
            break;
        }
        at = area.end;
    }
    // The last area may extend beyond the range.
    if at >= end {
        return None;
    }
    let next = model.area_at_or_after(at).map_or(end, |area| area.start.clamp(at, end));
    Some(Refused::at(RefusedBy::Hole, (at, next)))
}

/// The obstacle in a `mremap`'s range: a hole, or the end of an area.
fn across(model: &Model, (start, end): Range) -> Option<Refused> {
    let Some(first) = model.area_at(start) else { return hole(model, (start, end.max(start.saturating_add(1)))) };
    (first.end < end).then(|| Refused::at(RefusedBy::CrossesAreas, (first.start, first.end)))
}

/// The area that keeps a `mremap` from growing in place.
fn no_room(trial: &Trial<'_>) -> Option<Refused> {
    let (start, end) = moved(trial);
    let wanted = start.saturating_add(up(trial.d.args[2]));
    let next = trial.model.area_at_or_after(end).filter(|area| area.start < wanted)?;
    Some(Refused::at(RefusedBy::NoRoom, (next.start, next.end)))
}

/// The widest gap that a map without a place could have used.
fn no_gap(trial: &Trial<'_>) -> Option<Refused> {
    let a = &trial.d.args;
    let (hint, len, flags) = match trial.d.call {
        Call::Mmap => (a[0], a[1], MapFlags::from_bits_retain(a[3] as u32)),
        Call::Mremap => (0, a[2], MapFlags::empty()),
        _ => (0, trial.host.bytes, MapFlags::empty()),
    };
    let len = up(len);
    let want = Want { hint, len, flags, huge: None, shared: None, align: PageSize::K4 };
    let low = flags.contains(MapFlags::BIT32);
    let window = if low { (LOW, LOW_END) } else { want.window(&trial.config) };
    let widest = widest_gap(trial.model, window);
    let by = if low { RefusedBy::Window32 } else { RefusedBy::NoGap };
    // Even a wide enough gap may be kept free below a stack, or not suit huge pages.
    Some(Refused::figures(by, widest, len))
}

fn widest_gap(model: &Model, (start, end): Range) -> u64 {
    let (mut from, mut widest) = (start, 0);
    for area in model.areas_in(start, end) {
        widest = widest.max(area.start.saturating_sub(from));
        from = from.max(area.end);
    }
    widest.max(end.saturating_sub(from))
}

/// An error in the arguments that does not depend on areas.
fn malformed(trial: &Trial<'_>) -> Option<Refused> {
    let (a, flags) = (&trial.d.args, MapFlags::from_bits_retain(trial.d.args[3] as u32));
    let fixed = flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
    let takes_address = match trial.d.call {
        Call::Mmap => fixed,
        call => call.row().from_page_start,
    };
    if takes_address && !a[0].is_multiple_of(4096) {
        return Some(Refused::at(RefusedBy::Unaligned, (a[0], a[0])));
    }
    let len = if trial.d.call == Call::Mremap { a[2] } else { a[1] };
    let none = len == 0 && matches!(trial.d.call, Call::Mmap | Call::Munmap | Call::Mremap);
    none.then(|| Refused::new(RefusedBy::NoLength))
}

fn sealed(trial: &Trial<'_>) -> Option<Refused> {
    let ranges = trial.space.ranges(trial.call);
    let mut areas = ranges.iter().flat_map(|range| trial.model.areas_in(range.0, range.1));
    let sealed = areas.find(|area| area.area.flags.contains(Flags::SEALED))?;
    Some(Refused::at(RefusedBy::Sealed, (sealed.start, sealed.end)))
}

/// The open mode of a `mmap`'s file, and the rights of its mount.
fn mode(trial: &mut Trial<'_>) -> Option<FileMode> {
    let fd = trial.d.args[4] as i32;
    let maps = trial.d.call == Call::Mmap && !trial.nameless && fd >= 0;
    maps.then(|| trial.host.file(fd).ok()).flatten().map(|file| file.mode)
}

fn not_executable(trial: &mut Trial<'_>) -> Option<Refused> {
    let executes = Prot::from_bits_retain(trial.d.args[2] as u32).contains(Prot::EXEC);
    let refuses = executes && mode(trial)?.contains(FileMode::NOEXEC);
    refuses.then(|| Refused::new(RefusedBy::FileNotExecutable))
}

/// The missing right: of the file descriptor that `mmap` maps, or of the mapping that `mprotect`
/// changes.
fn rights(trial: &mut Trial<'_>) -> Option<Refused> {
    let prot = Prot::from_bits_retain(trial.d.args[2] as u32);
    if trial.d.call == Call::Mmap {
        let (mode, private) = (mode(trial)?, trial.d.args[3] as i32 & 0xf == libc::MAP_PRIVATE);
        let by = match () {
            () if !mode.contains(FileMode::READ) => RefusedBy::FileNotReadable,
            () if !private && prot.contains(Prot::WRITE) && !mode.contains(FileMode::WRITE) => {
                RefusedBy::FileNotWritable
            }
            () => return None,
        };
        return Some(Refused::new(by));
    }
    if !matches!(trial.d.call, Call::Mprotect | Call::PkeyMprotect) {
        return None;
    }
    let all = [
        (Prot::READ, Flags::MAYREAD, RefusedBy::FileNotReadable),
        (Prot::WRITE, Flags::MAYWRITE, RefusedBy::FileNotWritable),
        (Prot::EXEC, Flags::MAYEXEC, RefusedBy::FileNotExecutable),
    ];
    let ranges = trial.space.ranges(trial.call);
    ranges.iter().flat_map(|range| trial.model.areas_in(range.0, range.1)).find_map(|area| {
        let lacks = |(wants, may, _): &&(Prot, Flags, _)| prot.contains(*wants) && !area.area.flags.contains(*may);
        let (_, _, by) = all.iter().find(lacks)?;
        // A shared map of a sealed file cannot become writable, however the file is open.
        let is_memfd = matches!(&area.area.object, Object::File(file) if file.name.starts_with("/memfd:"));
        let path = format!("/proc/{}/map_files/{:x}-{:x}", trial.call.who.tid, area.start, area.end);
        let is_sealed = *by == RefusedBy::FileNotWritable && is_memfd && write_sealed(&path);
        let by = if is_sealed { RefusedBy::FileSealed } else { *by };
        Some(Refused::at(by, (area.start, area.end)))
    })
}

#[cfg(test)]
mod tests {
    use samara_mm::{Features, MapRequest, Overcommit};

    use super::*;
    use crate::space::model::promising;

    /// The first hole of a range. Covered ranges have no hole, even if areas extend beyond them.
    #[test]
    fn holes_of_ranges() {
        let mut model = promising(Overcommit::Always, Features::default());
        for (at, len) in [(0x10_0000, 0x2000), (0x10_4000, 0x4000)] {
            model.map(&MapRequest::anonymous(at, len, Prot::RW)).unwrap();
        }
        let found = |start, end| hole(&model, (start, end)).and_then(|refused| refused.at);
        assert_eq!(found(0x10_0000, 0x10_8000), Some((0x10_2000, 0x10_4000)));
        assert_eq!(found(0x10_1000, 0x10_3000), Some((0x10_2000, 0x10_3000)));
        assert_eq!(found(0x10_5000, 0x10_6000), None);
        assert_eq!(found(0x10_0000, 0x10_2000), None);
        assert_eq!(found(0x10_7000, 0x10_9000), Some((0x10_8000, 0x10_9000)));
    }
}
