//! Has the model do what a call did, with the call's real result. Whether the kernel sees it the same way is `check`'s.
//!
//! - I1: the model is changed only as far as it agrees with the call's result: if the kernel refused, the model keeps only what
//!   the same refusal leaves behind (a protected part before a hole, for one).

use std::sync::Arc;

use samara_mm::linux::Host;
use samara_mm::{
    Advice, Backing, Error, FileMode, Flags, LockKind, MapFlags, MapRequest, Object, Placed, Plan, Policy, Prot,
    RemapMode, RemapRequest, Uffd,
};

use crate::arch::Decoded;
use crate::calls::Call;
use crate::event::Step;
use crate::host::Program;
use crate::kernel::{self, KernelArea, Maps};
use crate::model::{self, Inode, Model};
use crate::sys::{self, Tid};

/// `personality(2)`: readable memory is executable.
const READ_IMPLIES_EXEC: u32 = 0x0040_0000;

/// The smallest huge page.
const HUGE: u64 = 2 << 20;

/// What applying a call came to.
pub(crate) enum Applied {
    /// The model did it (perhaps nothing); its steps.
    Done(Vec<Step>),
    /// What this call does is not modelled: take the kernel's word.
    AskKernel,
    /// The model says otherwise: it would have refused, or done what was refused. Its reason, and what it has done.
    Disagrees(String, Vec<Step>),
}

/// Applies one call that returned `result`.
pub(crate) fn apply(
    model: &mut Model,
    maps: &mut Maps,
    tid: Tid,
    d: &Decoded,
    result: i64,
    personality: u32,
) -> Applied {
    let errno = if (-4095..0).contains(&result) { Some(-result as i32) } else { None };
    if d.call == Call::Brk {
        return brk(model, d.args[0], result as u64, d.compat);
    }
    match (errno, do_call(model, maps, tid, d, result, personality)) {
        (_, None) => Applied::AskKernel,
        (None, Some(Ok(plan))) => Applied::Done(model::steps(plan.steps())),
        (Some(kernel), Some(Err(own))) if own.errno.raw() == kernel => Applied::Done(model::steps(own.done.steps())),
        (Some(kernel), Some(own)) => {
            let own = own.map_or_else(|e| e.errno.name().to_owned(), |_| "success".into());
            Applied::Disagrees(format!("the model expects {own}, the kernel says errno {kernel}"), Vec::new())
        }
        (None, Some(Err(own))) => {
            let done = model::steps(own.done.steps());
            Applied::Disagrees(format!("the model refuses what the kernel did: {own}"), done)
        }
    }
}

fn brk(model: &mut Model, asked: u64, result: u64, compat: bool) -> Applied {
    let mut layout = model.layout();
    if compat && result == layout.brk & 0xffff_ffff {
        return Applied::Done(Vec::new()); // a program of 64 bits that asks by the call for 32
    }
    if layout.brk == 0 {
        layout.brk = result; // never told before
        model.set_layout(layout);
    }
    if result == model.layout().brk {
        return Applied::Done(Vec::new()); // a question, a refusal, or no change
    }
    if result != asked {
        // Where the break stands within its page nobody told so far: areas show whole pages.
        let page = sys::page_size();
        if result.next_multiple_of(page) == layout.brk.next_multiple_of(page) {
            model.set_layout(samara_mm::Layout { brk: result, ..layout });
            return Applied::Done(Vec::new());
        }
        let how = format!("the break is at {result:x}, and the model thought at {:x}", layout.brk);
        return Applied::Disagrees(how, Vec::new());
    }
    match model.brk(result) {
        Ok(plan) => Applied::Done(model::steps(plan.steps())),
        Err(error) => {
            let done = model::steps(error.done.steps());
            Applied::Disagrees(format!("the model refuses the break {result:x}: {error}"), done)
        }
    }
}

/// The break that a `prctl(PR_SET_MM, ..)` sets, if it does.
pub(crate) fn new_break(tid: Tid, d: &Decoded) -> Option<u64> {
    const BRK: u64 = 7;
    const MAP: u64 = 14;
    match (d.args[0], d.args[1]) {
        (35, BRK) => Some(d.args[2]),
        (35, MAP) => {
            // The sixth word of `struct prctl_mm_map`.
            let mut word = [0u8; 8];
            sys::read_memory(tid, d.args[2].checked_add(40)?, &mut word).then(|| u64::from_ne_bytes(word))
        }
        _ => None,
    }
}

type Did = Option<Result<Plan, Error>>;

fn do_call(m: &mut Model, maps: &mut Maps, tid: Tid, d: &Decoded, result: i64, personality: u32) -> Did {
    let a = &d.args;
    let failed = (-4095..0).contains(&result);
    let nothing: Did = Some(Ok(Plan::default()));
    let exec = |prot: u64| {
        let mut prot = Prot::from_bits_retain(prot as u32);
        prot.set(
            Prot::EXEC,
            prot.contains(Prot::EXEC) || (prot.contains(Prot::READ) && personality & READ_IMPLIES_EXEC != 0),
        );
        prot
    };
    Some(match d.call {
        // For want of pages it empties its place, which is longer than what was asked for.
        Call::Mmap
            if failed && a[3] as i32 & (libc::MAP_FIXED | libc::MAP_HUGETLB) == libc::MAP_FIXED | libc::MAP_HUGETLB =>
        {
            return None;
        }
        Call::Mmap if failed => return Some(refused(result)),
        Call::Mmap => return map(m, maps, tid, a, exec(a[2]), result as u64),
        Call::Munmap => m.unmap(a[0], a[1]),
        Call::Mprotect => m.protect(a[0], a[1], exec(a[2]), None),
        Call::PkeyMprotect => {
            let key = if a[3] as i32 == -1 { None } else { Some(a[3] as u8) };
            m.protect(a[0], a[1], exec(a[2]), key)
        }
        // Where a private map of /dev/zero is shown to begin after a move depends on whether it was written.
        Call::Mremap if !failed && m.areas_in(a[0], a[0].saturating_add(a[1].max(1))).any(|a| is_zero(&a)) => {
            return None;
        }
        Call::Mremap => {
            let flags = a[3] as i32;
            let dontunmap = flags & libc::MREMAP_DONTUNMAP != 0;
            let mode = if flags & libc::MREMAP_FIXED != 0 {
                RemapMode::Fixed(a[4])
            } else if failed || (result as u64 == a[0] && !dontunmap) {
                RemapMode::InPlace
            } else {
                RemapMode::MoveTo(result as u64)
            };
            m.remap(&RemapRequest { old: a[0], old_len: a[1], new_len: a[2], mode, dontunmap })
        }
        Call::Madvise => match Advice::from_raw(a[2] as u32) {
            Some(advice) if changes_areas(a[2] as i32) => m.advise(a[0], a[1], advice),
            _ => return Some(if failed { refused(result) } else { Ok(Plan::default()) }),
        },
        Call::ProcessMadvise | Call::Personality => return nothing,
        Call::Mlock => m.lock(a[0], a[1], LockKind::Now),
        Call::Mlock2 => m.lock(a[0], a[1], lock_kind(a[2], libc::MLOCK_ONFAULT as u64)),
        Call::Munlock => m.unlock(a[0], a[1]),
        Call::Mlockall if failed => return Some(refused(result)),
        Call::Mlockall => {
            let has = |bit: libc::c_int| a[0] & bit as u64 != 0;
            m.lock_all(has(libc::MCL_CURRENT), has(libc::MCL_FUTURE), lock_kind(a[0], libc::MCL_ONFAULT as u64))
        }
        Call::Munlockall => m.unlock_all(),
        Call::Mseal => m.seal(a[0], a[1]),
        Call::Mbind if failed => return Some(refused(result)),
        Call::Mbind => return Some(m.set_policy(a[0], a[1], policy(tid, a)?)),
        Call::UffdRegister | Call::UffdUnregister if failed => return nothing,
        Call::UffdRegister => {
            let (start, len, mode) = uffd_range(tid, a[2])?;
            let modes = [(1, Flags::UFFD_MISSING), (2, Flags::UFFD_WP), (4, Flags::UFFD_MINOR)];
            let modes = modes.iter().filter(|(bit, _)| mode & bit != 0).fold(Flags::empty(), |f, (_, v)| f | *v);
            m.register_uffd(start, len, Uffd { id: a[0], fork_events: false, remap_events: false }, modes)
        }
        Call::UffdUnregister => {
            let (start, len, _) = uffd_range(tid, a[2])?;
            m.unregister_uffd(start, len)
        }
        Call::Prctl if failed => return nothing,
        Call::Prctl if a[0] == 0x5356_4d41 && a[1] == 0 => m.set_anon_name(a[2], a[3], c_string(tid, a[4])),
        Call::Prctl if a[0] == 65 => {
            // It changes no area: what it refuses from now on counts where the engine decides.
            let _ = samara_mm::Mdwe::from_bits(a[1]).and_then(|mdwe| m.set_mdwe(mdwe));
            return nothing;
        }
        // shmat, io_setup, PR_SET_MM, remap_file_pages, ...: rare, and the kernel tells it all.
        _ if failed => return nothing,
        _ => return None,
    })
}

/// What the kernel refused and the model is not asked about.
fn refused(result: i64) -> Result<Plan, Error> {
    use samara_mm::Errno::*;
    let all = [EPERM, EBADF, EAGAIN, ENOMEM, EACCES, EFAULT, EBUSY, EEXIST, EINVAL, EOVERFLOW];
    match all.into_iter().find(|e| i64::from(e.raw()) == -result) {
        Some(errno) => Err(errno.into()),
        None => Ok(Plan::default()),
    }
}

fn lock_kind(flags: u64, onfault: u64) -> LockKind {
    if flags & onfault != 0 { LockKind::OnFault } else { LockKind::Now }
}

/// Advice that changes flags of areas, or that gives memory an identity.
pub(crate) fn changes_areas(advice: i32) -> bool {
    matches!(
        advice,
        libc::MADV_NORMAL | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL | libc::MADV_DONTFORK
            ..=libc::MADV_KEEPONFORK | libc::MADV_POPULATE_WRITE | 102 // MADV_GUARD_INSTALL
    )
}

/// Drivers of these names add flags of their own to their areas: `smaps` is asked.
pub(crate) fn has_driver(name: &str, private: bool) -> bool {
    !name.starts_with('/')
        || name.starts_with("/sys/")
        || name.starts_with("/proc/")
        || (name.starts_with("/dev/")
            && name != "/dev/zero (deleted)"
            && !(private && name == "/dev/zero")
            && !name.starts_with("/dev/shm/"))
}

fn map(m: &mut Model, maps: &mut Maps, tid: Tid, a: &[u64; 6], prot: Prot, start: u64) -> Did {
    let flags = MapFlags::from_bits_retain(a[3] as u32) - MapFlags::FIXED_NOREPLACE;
    let kind = a[3] as i32 & 0xf;
    let private = kind == libc::MAP_PRIVATE || kind == libc::MAP_DROPPABLE;
    if flags.contains(MapFlags::ANONYMOUS) && private && !flags.contains(MapFlags::HUGETLB) {
        let request = MapRequest { flags, ..MapRequest::anonymous(start, a[1], prot) };
        return Some(m.map(&request));
    }
    // What lies behind it, and where in it, the kernel says.
    let k: KernelArea = maps.at(start).ok()??;
    let name = k.name.clone().unwrap_or_default();
    // The text of maps does not tell huge pages, but by the bounds of an area.
    let huge = k.page == 0 && start.is_multiple_of(HUGE) && k.end.is_multiple_of(HUGE);
    if (k.inode == 0 && k.dev == (0, 0)) || has_driver(&name, private) || huge {
        return None;
    }
    // Anonymous memory in huge pages is a file's like any other.
    let flags = if k.huge().is_some() { flags - MapFlags::ANONYMOUS } else { flags };
    let offset = k.offset + (start - k.start);
    let zero = if private && name == "/dev/zero" { FileMode::ZERO } else { FileMode::empty() };
    let file = Inode { dev: k.dev, inode: k.inode, name: name.into(), seeks_huge: false, huge: k.huge() };
    // Only a shared map that cannot be written yet depends on how the file was opened, or sealed.
    let asks = !private && !prot.contains(Prot::WRITE);
    let mode = if asks { open_mode(tid, a[4] as i32) } else { FileMode::RW };
    Some(m.map(&MapRequest { mode: mode | zero, ..MapRequest::file(start, a[1], prot, flags, file, offset) }))
}

/// Whether an area is a private map of `/dev/zero`.
pub(crate) fn is_zero(at: &Placed<'_, Inode>) -> bool {
    matches!(&at.area.object, Object::File(file) if file.is_zero()) && !at.area.flags.contains(Flags::SHARED)
}

/// How a task's descriptor was opened: for writing where that cannot be told (it may be closed by now).
fn open_mode(tid: Tid, fd: i32) -> FileMode {
    match Program::new(tid).file(fd) {
        Ok(file) => FileMode::READ | (file.mode & (FileMode::WRITE | FileMode::WRITE_SEALED)),
        Err(_) => match kernel::descriptor(tid, fd) {
            Ok(d) if d.flags & libc::O_ACCMODE == libc::O_RDONLY => FileMode::READ,
            _ => FileMode::RW,
        },
    }
}

/// The policy argument of mbind. `None` where it cannot be read.
fn policy(tid: Tid, a: &[u64; 6]) -> Option<Option<Arc<Policy>>> {
    let mode = a[2] as u32;
    if mode & 0xff == 0 {
        return Some(None); // MPOL_DEFAULT
    }
    let bits = usize::try_from(a[4].saturating_sub(1)).ok()?.min(4096);
    let mut bytes = vec![0u8; bits.div_ceil(64) * 8];
    if !bytes.is_empty() && a[3] != 0 && !sys::read_memory(tid, a[3], &mut bytes) {
        return None;
    }
    let mut nodes: Vec<u64> = bytes.as_chunks().0.iter().map(|w| u64::from_ne_bytes(*w)).collect();
    while nodes.last() == Some(&0) {
        nodes.pop();
    }
    Some(Some(Arc::new(Policy { mode, nodes: nodes.into() })))
}

fn uffd_range(tid: Tid, at: u64) -> Option<(u64, u64, u64)> {
    let mut bytes = [0u8; 24];
    if !sys::read_memory(tid, at, &mut bytes[..16]) {
        return None;
    }
    sys::read_memory(tid, at, &mut bytes); // the mode is there for a registration only
    let word = |i: usize| bytes.as_chunks().0.get(i).map_or(0, |w| u64::from_ne_bytes(*w));
    Some((word(0), word(1), word(2)))
}

/// A short string in the program's memory; `None` for a null pointer or nothing readable.
fn c_string(tid: Tid, at: u64) -> Option<Arc<str>> {
    let mut bytes = [0u8; 80];
    let n = (0..bytes.len())
        .take_while(|i| sys::read_memory(tid, at + *i as u64, &mut bytes[*i..=*i]) && bytes[*i] != 0)
        .count();
    (at != 0).then(|| String::from_utf8_lossy(&bytes[..n]).into())
}
