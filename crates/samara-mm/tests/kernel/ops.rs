//! Calls as data: how they are drawn, what they are to the kernel, and what they are to the model.

use crate::rng::Rng;
use crate::sys::{BASE, END, PAGE, PAGES, Raw};
use samara_mm::*;
use std::sync::Arc;

/// Files that maps may use: descriptor, which open file it is, and whether it is open for writing.
pub(crate) struct Files(pub(crate) Vec<(u64, u64, bool)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `file` is an index into `Files`.
    Map {
        at: u64,
        len: u64,
        prot: u32,
        flags: u32,
        file: Option<usize>,
        offset: u64,
    },
    Unmap {
        at: u64,
        len: u64,
    },
    Protect {
        at: u64,
        len: u64,
        prot: u32,
    },
    Remap {
        old: u64,
        old_len: u64,
        new_len: u64,
        fixed: Option<u64>,
        dontunmap: bool,
    },
    Advise {
        at: u64,
        len: u64,
        advice: Advice,
    },
    Lock {
        at: u64,
        len: u64,
        on_fault: bool,
    },
    Unlock {
        at: u64,
        len: u64,
    },
    LockAll {
        current: bool,
        future: bool,
        on_fault: bool,
    },
    UnlockAll,
    Seal {
        at: u64,
        len: u64,
    },
    Policy {
        at: u64,
        len: u64,
        local: bool,
    },
    Write {
        at: u64,
    },
    Fork,
    Uffd {
        on: bool,
        at: u64,
        len: u64,
    },
}

/// What a run of ops may contain.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) seal: bool,
    pub(crate) lock: bool,
    pub(crate) forks: bool,
    pub(crate) odd: bool,
    /// mremap with DONTUNMAP.
    pub(crate) dontunmap: bool,
    pub(crate) pages: u64,
}

const MADV_FLAGS: [Advice; 12] = [
    Advice::Normal,
    Advice::Random,
    Advice::Sequential,
    Advice::DontFork,
    Advice::DoFork,
    Advice::DontDump,
    Advice::DoDump,
    Advice::WipeOnFork,
    Advice::KeepOnFork,
    Advice::HugePage,
    Advice::NoHugePage,
    Advice::Mergeable,
];
const MADV_REST: [Advice; 8] = [
    Advice::DontNeed,
    Advice::DontNeedLocked,
    Advice::Free,
    Advice::Cold,
    Advice::PopulateRead,
    Advice::PopulateWrite,
    Advice::GuardInstall,
    Advice::GuardRemove,
];

pub(crate) fn draw(r: &mut Rng, mix: Mix, files: &Files) -> Op {
    let (at, len) = range(r, mix);
    // Not all the rest of the address space: the child's own memory lies there.
    let near = len.min(if len > u64::MAX / 4 * 3 { len } else { PAGES * PAGE });
    match r.below(100) {
        0..=27 => map(r, mix, at, len, files),
        28..=37 => Op::Unmap { at, len },
        38..=55 => Op::Protect {
            at,
            len,
            prot: if mix.odd && r.one_in(40) { r.next() as u32 } else { r.pick(&[0, 1, 1, 3, 3, 3, 5, 7]) },
        },
        56..=68 => remap(r, mix, at, len),
        69..=75 => Op::Advise { at, len: near, advice: r.pick(&MADV_FLAGS) },
        76..=79 => Op::Advise { at, len: near, advice: r.pick(&MADV_REST) },
        80..=82 if mix.lock => match r.below(12) {
            0 => Op::LockAll { current: r.one_in(2), future: r.one_in(2), on_fault: r.one_in(3) },
            1 => Op::UnlockAll,
            2..=4 => Op::Unlock { at, len },
            _ => Op::Lock { at, len, on_fault: r.one_in(3) },
        },
        83 if mix.seal && r.one_in(3) => Op::Seal { at, len },
        84 | 85 => Op::Policy { at, len: near, local: r.one_in(2) },
        86 if mix.forks && r.one_in(2) => Op::Fork,
        _ => Op::Write { at: at & !(PAGE - 1) },
    }
}

pub(crate) fn range(r: &mut Rng, mix: Mix) -> (u64, u64) {
    if mix.odd && r.one_in(60) {
        let at = r.pick(&[BASE + 1, BASE + 0x800, u64::MAX - 4095, 0x7fff_ffff_f000, BASE, BASE + PAGE]);
        return (at, r.pick(&[0, 1, 4095, 4097, u64::MAX, u64::MAX - 4095, 1 << 63]));
    }
    let page = r.below(mix.pages);
    let longest = if r.one_in(3) { 14 } else { 4 };
    let len = (1 + r.below(longest)).min(mix.pages - page);
    (BASE + page * PAGE, len * PAGE - if r.one_in(16) { r.below(PAGE) } else { 0 })
}

fn map(r: &mut Rng, mix: Mix, at: u64, len: u64, files: &Files) -> Op {
    let prot = r.pick(&[0, 1, 3, 3, 3, 3, 7]);
    let (mut flags, mut file, mut offset) = (MapFlags::PRIVATE | MapFlags::ANONYMOUS, None, 0);
    match r.below(12) {
        0 => flags = MapFlags::SHARED | MapFlags::ANONYMOUS,
        1..=3 => {
            file = Some(r.below(files.0.len() as u64) as usize);
            flags = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED, MapFlags::SHARED_VALIDATE]);
            // Mostly the same place in file and window, so that neighbours fit.
            offset = if r.one_in(4) { r.below(8) * PAGE } else { at.wrapping_sub(BASE) & !(PAGE - 1) };
        }
        4 if r.one_in(3) => flags = MapFlags::DROPPABLE | MapFlags::ANONYMOUS,
        _ => {}
    }
    for (odds, flag) in [
        (9, MapFlags::NORESERVE),
        (24, MapFlags::GROWSDOWN),
        (24, MapFlags::STACK),
        (if mix.lock { 40 } else { u64::MAX }, MapFlags::LOCKED),
        (24, MapFlags::POPULATE),
        (12, MapFlags::FIXED_NOREPLACE),
    ] {
        if r.one_in(odds) {
            flags |= flag;
        }
    }
    // Now and then a bit that means nothing here (32BIT and hidden ones among them), but SYNC, ANONYMOUS and HUGETLB.
    let odd = if r.one_in(20) { 1 << r.pick(&[4, 6, 7, 9, 10, 11, 12, 16, 21, 22, 25, 26, 27]) } else { 0 };
    Op::Map { at, len, prot, flags: (flags | MapFlags::FIXED).bits() | odd, file, offset }
}

fn remap(r: &mut Rng, mix: Mix, at: u64, len: u64) -> Op {
    let odd = mix.odd && r.one_in(4);
    let (to, other) = range(r, Mix { odd, ..mix });
    match r.below(8) {
        0 | 1 => Op::Remap { old: at, old_len: len, new_len: other, fixed: None, dontunmap: false },
        2..=5 => {
            Op::Remap { old: at, old_len: len, new_len: len, fixed: Some(to), dontunmap: mix.dontunmap && r.one_in(4) }
        }
        6 => Op::Remap { old: at, old_len: 0, new_len: other, fixed: Some(to), dontunmap: false },
        _ => Op::Remap {
            old: at,
            old_len: len,
            new_len: other,
            fixed: Some(to),
            dontunmap: mix.dontunmap && r.one_in(8),
        },
    }
}

impl Op {
    pub(crate) fn raw(self, files: &Files) -> Raw {
        let c = |nr, a, b, c, d, e, f| Raw::Call(nr, [a, b, c, d, e, f]);
        match self {
            Op::Map { at, len, prot, flags, file, offset } => {
                let fd = file.map_or(u64::MAX, |f| files.0[f].0);
                c(libc::SYS_mmap, at, len, prot.into(), flags.into(), fd, offset)
            }
            Op::Unmap { at, len } => c(libc::SYS_munmap, at, len, 0, 0, 0, 0),
            Op::Protect { at, len, prot } => c(libc::SYS_mprotect, at, len, prot.into(), 0, 0, 0),
            Op::Remap { old, old_len, new_len, fixed, dontunmap } => {
                let flags = if fixed.is_some() { 3 } else { 0 } | if dontunmap { 4 } else { 0 };
                c(libc::SYS_mremap, old, old_len, new_len, flags, fixed.unwrap_or(0), 0)
            }
            Op::Advise { at, len, advice } => c(libc::SYS_madvise, at, len, advice as u64, 0, 0, 0),
            Op::Lock { at, len, on_fault } => c(libc::SYS_mlock2, at, len, on_fault.into(), 0, 0, 0),
            Op::Unlock { at, len } => c(libc::SYS_munlock, at, len, 0, 0, 0, 0),
            Op::LockAll { current, future, on_fault } => {
                let bits = u64::from(current) | u64::from(future) << 1 | u64::from(on_fault) << 2;
                c(libc::SYS_mlockall, bits, 0, 0, 0, 0, 0)
            }
            Op::UnlockAll => c(libc::SYS_munlockall, 0, 0, 0, 0, 0, 0),
            Op::Seal { at, len } => c(462, at, len, 0, 0, 0, 0),
            // MPOL_LOCAL is 4, MPOL_DEFAULT 0.
            Op::Policy { at, len, local } => c(libc::SYS_mbind, at, len, if local { 4 } else { 0 }, 0, 0, 0),
            Op::Write { at } => Raw::Write(at),
            Op::Fork => Raw::Fork,
            Op::Uffd { on, at, len } => Raw::Uffd(on, at, len),
        }
    }

    /// Whether the answer depends on what single pages hold (guards, ends of shared objects), which no model of areas knows.
    pub(crate) fn depends_on_pages(self, space: &AddressSpace<FileId>) -> bool {
        let (at, len) = match self {
            Op::Write { at } => (at, 1),
            Op::Lock { at, len, .. } => (at, len),
            Op::Advise { at, len, advice: Advice::PopulateRead | Advice::PopulateWrite } => (at, len),
            _ => return false,
        };
        let hidden = |a: Placed<'_, FileId>| matches!(&a.area.object, Object::File(f) if f.open >= 1000);
        space
            .areas_in(at & !(PAGE - 1), at.saturating_add(len))
            .any(|a| a.area.flags.contains(Flags::MAYBE_GUARD) || hidden(a))
    }

    /// Applies the call to the model; gives the errno, or 0.
    pub(crate) fn apply(self, space: &mut AddressSpace<FileId>, files: &Files, serial: u64) -> i32 {
        let done = match self {
            Op::Map { at, len, prot, flags, file, offset } => {
                let flags = MapFlags::from_bits_retain(flags);
                let hidden = flags.contains(MapFlags::ANONYMOUS | MapFlags::SHARED).then_some((1000 + serial, 0, true));
                let of = file.map(|f| (files.0[f].1, offset, files.0[f].2)).or(hidden);
                let backing = of.map(|o| id(o.0));
                let mode = if of.is_none_or(|o| o.2) { FileMode::RW } else { FileMode::READ };
                let prot = Prot::from_bits_retain(prot);
                let driver_flags = Flags::empty();
                let offset = of.map_or(0, |o| o.1);
                space.map(&MapRequest { start: at, len, prot, flags, backing, offset, mode, driver_flags })
            }
            Op::Unmap { at, len } => space.unmap(at, len),
            Op::Protect { at, len, prot } => space.protect(at, len, Prot::from_bits_retain(prot), None),
            Op::Remap { old, old_len, new_len, fixed, dontunmap } => {
                let mode = fixed.map_or(RemapMode::InPlace, RemapMode::Fixed);
                space.remap(&RemapRequest { old, old_len, new_len, mode, dontunmap })
            }
            Op::Advise { at, len, advice } => space.advise(at, len, advice),
            Op::Lock { at, len, on_fault } => {
                space.lock(at, len, if on_fault { LockKind::OnFault } else { LockKind::Now })
            }
            Op::Unlock { at, len } => space.unlock(at, len),
            Op::LockAll { current, future, on_fault } => {
                space.lock_all(current, future, if on_fault { LockKind::OnFault } else { LockKind::Now })
            }
            Op::UnlockAll => space.unlock_all(),
            Op::Seal { at, len } => space.seal(at, len),
            Op::Policy { at, len, local } => {
                space.set_policy(at, len, local.then(|| Arc::new(Policy { mode: 4, nodes: Arc::new([]) })))
            }
            Op::Write { at } => return write(space, at),
            Op::Uffd { on: true, at, len } => {
                let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
                space.register_uffd(at, len, uffd, Flags::UFFD_WP)
            }
            Op::Uffd { on: false, at, len } => space.unregister_uffd(at, len),
            Op::Fork => {
                *space = space.fork().expect("no memory is short here");
                return 0;
            }
        };
        done.map_or_else(|e| e.errno.raw(), |_| 0)
    }
}

/// A write by the program: touches, or grows a stack, or faults.
fn write(space: &mut AddressSpace<FileId>, at: u64) -> i32 {
    const EFAULT: i32 = 14;
    if !(BASE..END).contains(&at) {
        return EFAULT;
    }
    space.fault(at, Access::Write).map_or(EFAULT, |_| 0)
}

pub(crate) fn id(open: u64) -> FileId {
    FileId { dev: (0, 1), inode: open, open, name: Arc::from("/memfd:samara-mm test (deleted)") }
}

/// A model with the guards in place.
pub(crate) fn model(touches: Touches, max_map_count: usize) -> AddressSpace<FileId> {
    let mut space = AddressSpace::new(Config { touches, max_map_count, ..Config::default() });
    let flags = Flags::SHARED | Flags::MAYSHARE | Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
    for (start, open) in [(BASE - PAGE, 998), (END, 999)] {
        let area = Area::new(flags, Object::File(id(open)), Area::<FileId>::bias_of(start, 0, PAGE));
        space.import(start, start + PAGE, area).expect("the space is empty");
    }
    space
}

const _: () = assert!(PAGES >= 64);
