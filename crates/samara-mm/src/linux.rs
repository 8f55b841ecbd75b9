//! System calls as they come: numbers and arguments of x86-64 Linux, results as it gives them.
//! Knows which call is which, how its arguments are cut to size, and what is looked at before the
//! address space is; the rest is [`AddressSpace`]'s.
//!
//! What a call needs of the world beside the address space, a [`Host`] knows: descriptors, the
//! program's memory, keys, segments.
//!
//! ```
//! use samara_mm::{AddressSpace, Config, FileId, Linux, linux};
//!
//! struct NoFiles;
//! impl linux::Host<FileId> for NoFiles {}
//!
//! let mut space = AddressSpace::<FileId>::new(Config::default());
//! let mut call = |nr, args| linux::call(&mut space, &mut NoFiles, &mut Linux, nr, args).expect("a call of this module").result;
//! // mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0), and munmap of its first page.
//! assert_eq!(call(linux::MMAP, [0, 8192, 3, 0x22, u64::MAX, 0]), 0x7fff_f7ff_d000);
//! assert_eq!(call(linux::MUNMAP, [0x7fff_f7ff_d000, 4096, 0, 0, 0, 0]), 0);
//! assert_eq!(call(linux::MUNMAP, [0x7fff_f7ff_d001, 4096, 0, 0, 0, 0]), -22); // EINVAL
//! assert!(linux::call(&mut space, &mut NoFiles, &mut Linux, 0, [0; 6]).is_none()); // read(2) is not this module's
//! ```

use crate::area::advice::Advice;
use crate::area::flags::{MapFlags, Prot};
use crate::area::huge_places::HugePlaces;
use crate::area::page_size::PageSize;
use crate::area::{Backing, Policy};
use crate::calls::mlock::LockKind;
use crate::calls::mmap::{FileMode, MapRequest};
use crate::calls::mremap::RemapFlags;
use crate::calls::msync::SyncFlags;
use crate::calls::process_madvise;
use crate::calls::shm::{Segment, ShmFlags};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::limits::Caps;
use crate::space::mdwe::Mdwe;
use crate::space::personality::Personality;
use crate::space::place::Placement;
use crate::space::plan::Plan;
use alloc::vec::Vec;

/// `mmap`.
pub const MMAP: u64 = 9;
/// `mprotect`.
pub const MPROTECT: u64 = 10;
/// `munmap`.
pub const MUNMAP: u64 = 11;
/// `brk`.
pub const BRK: u64 = 12;
/// `mremap`.
pub const MREMAP: u64 = 25;
/// `msync`.
pub const MSYNC: u64 = 26;
/// `mincore`.
pub const MINCORE: u64 = 27;
/// `madvise`.
pub const MADVISE: u64 = 28;
/// `shmat`.
pub const SHMAT: u64 = 30;
/// `shmdt`.
pub const SHMDT: u64 = 67;
/// `personality`.
pub const PERSONALITY: u64 = 135;
/// `mlock`.
pub const MLOCK: u64 = 149;
/// `munlock`.
pub const MUNLOCK: u64 = 150;
/// `mlockall`.
pub const MLOCKALL: u64 = 151;
/// `munlockall`.
pub const MUNLOCKALL: u64 = 152;
/// `prctl`, of which this module knows PR_SET_MDWE, PR_GET_MDWE, PR_SET_MEMORY_MERGE and
/// PR_GET_MEMORY_MERGE.
pub const PRCTL: u64 = 157;
/// `remap_file_pages`.
pub const REMAP_FILE_PAGES: u64 = 216;
/// `mbind`.
pub const MBIND: u64 = 237;
/// `mlock2`.
pub const MLOCK2: u64 = 325;
/// `pkey_mprotect`.
pub const PKEY_MPROTECT: u64 = 329;
/// `process_madvise`, by which a process advises on its own memory.
pub const PROCESS_MADVISE: u64 = 440;
/// `mseal`.
pub const MSEAL: u64 = 462;

/// An open file, as `mmap` sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile<B> {
    /// What areas compare: one for each `open`, the same for what was duplicated from it.
    pub backing: B,
    /// How it was opened.
    pub mode: FileMode,
}

/// What calls ask of the world beside the address space. Each method has an answer for a world that
/// has none of it.
///
/// ```
/// use samara_mm::linux::{self, Host, OpenFile};
/// use samara_mm::{AddressSpace, Config, Errno, FileId, FileMode, Linux};
///
/// /// Descriptor 3 is a file; shared memory is numbered.
/// struct Files(u64);
/// impl Host<FileId> for Files {
///     fn file(&mut self, fd: i32) -> Result<OpenFile<FileId>, Errno> {
///         let backing = FileId { dev: (8, 1), inode: 42, open: 1, name: "/etc/hosts".into() };
///         if fd == 3 { Ok(OpenFile { backing, mode: FileMode::READ }) } else { Err(Errno::EBADF) }
///     }
///     fn shared_memory(&mut self, _bytes: u64) -> Result<FileId, Errno> {
///         self.0 += 1;
///         Ok(FileId { dev: (0, 1), inode: self.0, open: self.0, name: "/dev/zero (deleted)".into() })
///     }
/// }
///
/// let (mut space, mut files) = (AddressSpace::<FileId>::new(Config::default()), Files(0));
/// let mut mmap = |args| linux::call(&mut space, &mut files, &mut Linux, linux::MMAP, args).expect("mmap").result;
/// assert!(mmap([0, 4096, 1, 2, 3, 0]) > 0); // PROT_READ, MAP_PRIVATE
/// assert_eq!(mmap([0, 4096, 3, 1, 3, 0]), -13); // MAP_SHARED and writable, of a file that is open for reading only: EACCES
/// assert!(mmap([0, 4096, 3, 0x21, u64::MAX, 0]) > 0); // MAP_SHARED|MAP_ANONYMOUS
/// assert_eq!(mmap([0, 4096, 1, 2, 4, 0]), -9); // no such descriptor: EBADF
/// ```
pub trait Host<B> {
    /// The open file behind a descriptor.
    ///
    /// # Errors
    /// EBADF: none, or one that was opened by path only.
    fn file(&mut self, _fd: i32) -> Result<OpenFile<B>, Errno> {
        Err(Errno::EBADF)
    }

    /// A new object for a shared anonymous map of so many bytes (or one of `/dev/zero`): it equals
    /// no other.
    ///
    /// # Errors
    /// ENOMEM.
    fn shared_memory(&mut self, _bytes: u64) -> Result<B, Errno> {
        Err(Errno::ENOMEM)
    }

    /// A new object in huge pages of this size (`None`: the default size) for an anonymous map with
    /// MAP_HUGETLB, private or shared: it says so ([`Backing::huge_page`]), and equals no
    /// other. How many pages are free is the space's to know ([`AddressSpace::set_huge_pages`]).
    ///
    /// # Errors
    /// EINVAL: there are no pages of this size. ENOMEM.
    fn huge_memory(&mut self, _page: Option<PageSize>) -> Result<B, Errno> {
        Err(Errno::EINVAL)
    }

    /// Reads the program's memory.
    ///
    /// # Errors
    /// EFAULT.
    fn read(&mut self, _addr: u64, _to: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }

    /// Whether this protection key is allocated. Without the hardware, none is, not even 0.
    fn pkey(&mut self, _key: u32) -> bool {
        false
    }

    /// Whether this is a descriptor of the process itself (`pidfd_open`, or PIDFD_SELF); if it is
    /// of another one, the call is not this space's.
    ///
    /// # Errors
    /// EBADF: of none. ESRCH: of one that has ended. EPERM: of one that is not to be advised on.
    fn is_self(&mut self, _pidfd: i32) -> Result<bool, Errno> {
        Err(Errno::EBADF)
    }

    /// A System V segment by its number, to be attached with this protection.
    ///
    /// # Errors
    /// EINVAL: none. EIDRM: it was removed. EACCES: not with that protection.
    fn segment(&mut self, _id: i32, _prot: Prot) -> Result<Segment<B>, Errno> {
        Err(Errno::EINVAL)
    }

    /// How long an attached segment is, in bytes.
    fn segment_bytes(&mut self, _segment: &B) -> u64 {
        0
    }

    /// Which places are sought for a map of this object: a new one, or one that moves (`moved`).
    fn huge_places(&mut self, backing: &B, _moved: bool) -> HugePlaces
    where
        B: Backing,
    {
        backing.huge_places()
    }

    /// Writes to the vector of `mincore` at `vec`, a byte for each of so many `pages` from the one
    /// at `start` on: whether it is in memory.
    ///
    /// # Errors
    /// EFAULT.
    fn incore(&mut self, _vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }

    /// The memory nodes that a policy may name, lowest first, 64 in a word.
    fn nodes(&self) -> &[u64] {
        &[1]
    }
}

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// What the program gets: a value, or a negative error number.
    pub result: i64,
    /// What was changed, also by a call that was refused half way.
    pub plan: Plan,
}

/// Makes system call `nr` of x86-64 on `space`, if it is one that this module knows (the constants
/// above); `None` if not. `placement` chooses places that are left open.
pub fn call<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B>,
    nr: u64,
    args: [u64; 6],
) -> Option<Called> {
    match nr {
        MMAP | MUNMAP | BRK => Some(frequent(space, host, placement, nr, args)),
        _ => other(space, host, placement, nr, args),
    }
}

/// The calls that programs make most. The plan is made where it is returned, and copied nowhere.
#[inline(never)]
fn frequent<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B>,
    nr: u64,
    args: [u64; 6],
) -> Called {
    let mut called = Called { result: 0, plan: Plan::new() };
    let plan = &mut called.plan;
    let done = match nr {
        MMAP => map(space, host, placement, args, plan),
        MUNMAP => space.unmap_at(args[0], args[1], plan).map(|()| 0),
        _ => {
            // What is refused gives the break as it is.
            let _ = space.brk_at(args[0], plan);
            Ok(space.layout().brk)
        }
    };
    called.result = done.map_or_else(|errno| -i64::from(errno.raw()), |value| value as i64);
    called
}

/// The calls that are less frequent.
fn other<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B>,
    nr: u64,
    args: [u64; 6],
) -> Option<Called> {
    let [a, b, c, d, e, _] = args;
    let zero = |done: Result<Plan, Error>| done.map(|plan| (0, plan));
    let done = match nr {
        MPROTECT => zero(space.protect(a, b, prot(c), None)),
        PKEY_MPROTECT => {
            let key = if d as i32 == -1 { None } else { Some(u8::try_from(d as u32).unwrap_or(u8::MAX)) };
            zero(space.protect(a, b, prot(c), key.map(|k| if host.pkey(k.into()) { k } else { u8::MAX })))
        }
        MREMAP => {
            let places = |file: &B| host.huge_places(file, true);
            space.mremap_for((a, b), c, RemapFlags::from_bits_retain(d), e, places, placement)
        }
        MADVISE => zero(match Advice::from_raw(c as u32) {
            Some(advice) => space.advise(a, b, advice),
            None => Err(Errno::EINVAL.into()),
        }),
        // Advice on another process's memory is no call of this space's.
        PROCESS_MADVISE => match advise_process(space, host, args) {
            Err(e) => Err(e),
            Ok(done) => Ok(done?),
        },
        MINCORE => zero(resident(space, host, args).map(|()| Plan::new()).map_err(Error::from)),
        SHMAT => attach(space, host, placement, args),
        SHMDT => zero(space.shmdt(a, |segment| host.segment_bytes(segment))),
        MSYNC => {
            let flags = SyncFlags::from_bits_retain(c as u32);
            zero(space.msync(a, b, flags).map(|()| Plan::new()).map_err(Error::from))
        }
        // Protection must be 0, and flags are not looked at.
        REMAP_FILE_PAGES => zero(if c == 0 { space.remap_file_pages(a, b, d) } else { Err(Errno::EINVAL.into()) }),
        PRCTL if a as u32 == SET_VMA => zero(set_name(space, host, args)),
        PRCTL => control(space, args)?.map(|value| (value, Plan::new())).map_err(Error::from),
        PERSONALITY => {
            let old = space.personality();
            if a as u32 != u32::MAX {
                space.set_personality(Personality::from_bits_retain(a as u32));
            }
            Ok((old.bits().into(), Plan::new()))
        }
        MLOCK => zero(space.lock(a, b, LockKind::Now)),
        MLOCK2 => zero(match c as u32 {
            0 => space.lock(a, b, LockKind::Now),
            1 => space.lock(a, b, LockKind::OnFault),
            _ => Err(Errno::EINVAL.into()),
        }),
        MUNLOCK => zero(space.unlock(a, b)),
        MLOCKALL => {
            let kind = if a & 4 == 0 { LockKind::Now } else { LockKind::OnFault };
            zero(if a as u32 & !7 != 0 {
                Err(Errno::EINVAL.into())
            } else {
                space.lock_all(a & 1 != 0, a & 2 != 0, kind)
            })
        }
        MUNLOCKALL => zero(space.unlock_all()),
        MBIND => zero(bind(space, host, args)),
        MSEAL => zero(if c == 0 { space.seal(a, b) } else { Err(Errno::EINVAL.into()) }),
        _ => return None,
    };
    Some(match done {
        Ok((value, plan)) => Called { result: value as i64, plan },
        Err(e) => Called { result: -i64::from(e.errno.raw()), plan: e.done },
    })
}

/// PR_SET_VMA, an option of `prctl`.
const SET_VMA: u32 = 0x5356_4d41;

/// `prctl` with PR_SET_VMA, as PR_SET_VMA(2const) says: kernels that were built without names
/// answer EINVAL. (An `Arc` for the name that cannot be had ends the program.)
fn set_name<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    [_, attribute, start, len, name, _]: [u64; 6],
) -> Result<Plan, Error> {
    const ANON_NAME: u64 = 0;
    // With the zero at its end.
    const MOST: usize = 80;
    if attribute != ANON_NAME {
        return Err(Errno::EINVAL.into());
    }
    if name == 0 {
        return space.set_anon_name(start, len, None);
    }
    let mut text = [0; MOST];
    for (i, at) in (0..).zip(&mut text) {
        host.read(name.wrapping_add(i), core::slice::from_mut(at))?;
        match *at {
            0 => break,
            b'[' | b']' | b'\\' | b'$' | b'`' => return Err(Errno::EINVAL.into()),
            b' '..=b'~' => {}
            _ => return Err(Errno::EINVAL.into()),
        }
    }
    let end = text.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
    let text = core::str::from_utf8(&text[..end]).map_err(|_| Errno::EINVAL)?;
    space.set_anon_name(start, len, Some(text.into()))
}

/// `prctl`, where it concerns memory; `None` for another of its many options.
fn control<B: Backing>(space: &mut AddressSpace<B>, [option, a, b, c, d, _]: [u64; 6]) -> Option<Result<u64, Errno>> {
    const SET_MDWE: u32 = 65;
    const GET_MDWE: u32 = 66;
    const SET_MEMORY_MERGE: u32 = 67;
    const GET_MEMORY_MERGE: u32 = 68;
    let rest = b | c | d;
    Some(match option as u32 {
        SET_MDWE | SET_MEMORY_MERGE if rest != 0 => Err(Errno::EINVAL),
        GET_MDWE | GET_MEMORY_MERGE if a | rest != 0 => Err(Errno::EINVAL),
        SET_MDWE => Mdwe::from_bits(a).and_then(|mdwe| space.set_mdwe(mdwe)).map(|()| 0),
        GET_MDWE => Ok(space.mdwe().map_or(0, Mdwe::bits)),
        SET_MEMORY_MERGE => {
            space.merge_pages(a != 0);
            Ok(0)
        }
        GET_MEMORY_MERGE => Ok(space.merges_pages().into()),
        _ => return None,
    })
}

/// Protection bits; one that does not fit into 32 is an unknown one.
fn prot(raw: u64) -> Prot {
    let unknown = if raw >> 32 == 0 { 0 } else { 1 << 31 };
    Prot::from_bits_retain(raw as u32 | unknown)
}

/// Where the size of huge pages stands in the flags of `mmap` (MAP_HUGE_SHIFT).
const HUGE_SHIFT: u32 = 26;

/// The size whose logarithm this is; 0: the default one.
fn huge_size(log: u32) -> Result<Option<PageSize>, Errno> {
    if log == 0 { Ok(None) } else { PageSize::new(1 << log).map(Some).ok_or(Errno::EINVAL) }
}

fn map<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B>,
    [start, len, prot, flags, fd, offset]: [u64; 6],
    plan: &mut Plan,
) -> Result<u64, Errno> {
    if !space.aligned(offset) {
        return Err(Errno::EINVAL);
    }
    let (kind, huge) = (flags as u32 & MapFlags::TYPE, flags as u32 >> HUGE_SHIFT);
    // Bits above 32 are unknown ones: only SHARED_VALIDATE minds them.
    let unknown = if flags >> 32 == 0 { 0 } else { 1 << 31 };
    let mut flags = MapFlags::from_bits_retain(flags as u32 | unknown);
    let anonymous = flags.contains(MapFlags::ANONYMOUS);
    let (backing, mode) = if !anonymous {
        let file = host.file(fd as u32 as i32)?;
        if flags.contains(MapFlags::HUGETLB) && space.huge_page(Some(&file.backing)).is_none() {
            return Err(Errno::EINVAL);
        }
        let own = kind & MapFlags::SHARED.bits() != 0 && file.mode.contains(FileMode::ZERO | FileMode::WRITE);
        (Some(if own { host.shared_memory(space.page_up(len))? } else { file.backing }), file.mode)
    } else if flags.contains(MapFlags::HUGETLB) {
        // From here on it is a file like any other.
        let memory = host.huge_memory(huge_size(huge)?)?;
        flags -= MapFlags::ANONYMOUS;
        (Some(memory), FileMode::RW)
    } else if kind == MapFlags::SHARED.bits() {
        (Some(host.shared_memory(space.page_up(len))?), FileMode::RW)
    } else {
        (None, FileMode::RW)
    };
    let prot = Prot::from_bits_retain(prot as u32);
    // A fixed address that looks like an error number comes back as one, whatever is wrong with the
    // rest.
    let fixed = flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
    let sound = space.huge_page(backing.as_ref()).is_none()
        && len != 0
        && (1..=space.config().task_size).contains(&space.page_up(len));
    if fixed && start > u64::MAX - 4095 && sound && space.len() <= space.config().max_map_count {
        return Ok(start);
    }
    let request = MapRequest { offset, mode, flags, backing, ..MapRequest::anonymous(start, len, prot) };
    space.mmap_at(&request, |file| host.huge_places(file, false), placement, plan)
}

/// `process_madvise`; `None` where it is another process's memory that it is about.
fn advise_process<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    [pidfd, vector, count, advice, flags, _]: [u64; 6],
) -> Result<Option<(u64, Plan)>, Error> {
    if flags as u32 != 0 {
        return Err(Errno::EINVAL.into());
    }
    let ranges = ranges(host, vector, count as u32, space.config().task_size)?;
    if !host.is_self(pidfd as u32 as i32)? {
        return Ok(None);
    }
    if ranges.iter().all(|(_, len)| *len == 0) {
        return Ok(Some((0, Plan::new())));
    }
    let advice = Advice::from_raw(advice as u32).ok_or(Errno::EINVAL)?;
    space.process_advise(&ranges, advice, true).map(Some)
}

/// The ranges of an `iovec`, all of them in user space.
fn ranges<B>(host: &mut impl Host<B>, vector: u64, count: u32, task: u64) -> Result<Vec<(u64, u64)>, Errno> {
    // UIO_MAXIOV.
    const MOST: u32 = 1024;
    if count > MOST {
        return Err(Errno::EINVAL);
    }
    let mut ranges = Vec::new();
    ranges.try_reserve_exact(count as usize).map_err(|_| Errno::ENOMEM)?;
    for i in 0..u64::from(count) {
        let (mut start, mut len) = ([0; 8], [0; 8]);
        host.read(vector.wrapping_add(i * 16), &mut start)?;
        host.read(vector.wrapping_add(i * 16 + 8), &mut len)?;
        let (start, len) = (u64::from_le_bytes(start), u64::from_le_bytes(len));
        if len > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        // What is too long for a call is cut off before it is looked at, if it is alone.
        ranges.push((start, if count == 1 { len.min(process_madvise::MOST) } else { len }));
    }
    let inside = |&(start, len): &(u64, u64)| start.checked_add(len).is_some_and(|end| end <= task);
    if ranges.iter().all(inside) { Ok(ranges) } else { Err(Errno::EFAULT) }
}

/// `mincore`. A hole is told where what lies before it could be.
fn resident<B: Backing>(
    space: &AddressSpace<B>,
    host: &mut impl Host<B>,
    [start, len, vec, ..]: [u64; 6],
) -> Result<(), Errno> {
    let filled = space.mincore(start, len, vec)?;
    if filled.pages > 0 {
        host.incore(vec, start, filled.pages)?;
    }
    if filled.hole { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// `shmat`.
fn attach<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    placement: &mut impl Placement<B>,
    [id, addr, flags, ..]: [u64; 6],
) -> Result<(u64, Plan), Error> {
    let flags = ShmFlags::from_bits_retain(flags as u32);
    if (id as u32 as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    space.attach_at(addr, flags)?;
    let segment = host.segment(id as u32 as i32, flags.prot())?;
    space.shmat_for(segment, addr, flags, |segment| host.huge_places(segment, false), placement)
}

/// `mbind`. Which pages move is not the model's.
fn bind<B: Backing>(
    space: &mut AddressSpace<B>,
    host: &mut impl Host<B>,
    [start, len, mode, mask, bits, flags]: [u64; 6],
) -> Result<Plan, Error> {
    const MODES: u32 = 7;
    const DEFAULT: u32 = 0;
    const PREFERRED: u32 = 1;
    const BIND: u32 = 2;
    const LOCAL: u32 = 4;
    const PREFERRED_MANY: u32 = 5;
    const NUMA_BALANCING: u32 = 1 << 13;
    const RELATIVE: u32 = 1 << 14;
    const STATIC: u32 = 1 << 15;
    const MOVE_ALL: u32 = 4;
    let modifiers = mode as u32 & (NUMA_BALANCING | RELATIVE | STATIC);
    let kind = mode as u32 & !(NUMA_BALANCING | RELATIVE | STATIC);
    let both = modifiers & (RELATIVE | STATIC) == RELATIVE | STATIC;
    let numa = modifiers & NUMA_BALANCING != 0 && !matches!(kind, BIND | PREFERRED_MANY);
    if kind >= MODES || both || numa {
        return Err(Errno::EINVAL.into());
    }
    let mut nodes = nodes(host, mask, bits)?;
    // STRICT, MOVE, MOVE_ALL.
    if flags as u32 & !7 != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags as u32 & MOVE_ALL != 0 && !space.caps().contains(Caps::SYS_NICE) {
        return Err(Errno::EPERM.into());
    }
    let none = nodes == [0; Policy::WORDS];
    // A length that is rounded up to 0 is none.
    if space.aligned(start) && space.page_up(len) == 0 {
        return Ok(Plan::new());
    }
    space.end_of(start, len)?;
    if kind == DEFAULT {
        return if none { space.set_policy(start, len, None) } else { Err(Errno::EINVAL.into()) };
    }
    let takes_none = match kind {
        PREFERRED | LOCAL => modifiers & (RELATIVE | STATIC) == 0,
        _ => false,
    };
    if (none && !takes_none) || (kind == LOCAL && !none) {
        return Err(Errno::EINVAL.into());
    }
    // A relative mask is folded onto the nodes that there are; of an absolute one those are left, and
    // one that is static is remembered as it was.
    if modifiers & RELATIVE == 0 {
        let mut there = nodes;
        there.iter_mut().enumerate().for_each(|(i, word)| *word &= host.nodes().get(i).copied().unwrap_or(0));
        if !none && there == [0; Policy::WORDS] {
            return Err(Errno::EINVAL.into());
        }
        nodes = if modifiers & STATIC == 0 { there } else { nodes };
    }
    // To prefer no node is to prefer the local one.
    let mode = if kind == PREFERRED && none { LOCAL } else { kind | modifiers };
    space.set_policy(start, len, Some(Policy { mode, nodes }))
}

/// A node mask of `bits - 1` bits.
fn nodes<B>(host: &mut impl Host<B>, mask: u64, bits: u64) -> Result<[u64; Policy::WORDS], Errno> {
    // As much as a page holds, as in Linux.
    const MOST: u64 = 4096 * 8;
    let (mut words, bits) = ([0; Policy::WORDS], bits.wrapping_sub(1));
    if bits == 0 || mask == 0 {
        return Ok(words);
    }
    if bits > MOST {
        return Err(Errno::EINVAL);
    }
    for i in 0..bits.div_ceil(64) {
        let mut word = [0; 8];
        host.read(mask.wrapping_add(i * 8), &mut word)?;
        let kept = (bits - i * 64).min(64);
        let word = u64::from_le_bytes(word) & (u64::MAX >> (64 - kept));
        match words.get_mut(i as usize) {
            Some(to) => *to = word,
            None if word != 0 => return Err(Errno::EINVAL),
            None => {}
        }
    }
    Ok(words)
}
