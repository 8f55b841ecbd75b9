//! mmap: maps a new area at a given address, over existing areas.

use crate::area::flags::{Flags, MapFlags, Prot};
use crate::area::is_secret;
use crate::area::page_size::PageSize;
use crate::area::{Area, Backing, Object, flags_of};
use crate::errno::Errno;
use crate::space::edit::Store;
use crate::space::error::Error;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::learn::Seam;
use crate::space::limits::{Caps, Counters, Overcommit};
use crate::space::plan::Plan;
use crate::space::secret;
use crate::space::{AddressSpace, Config};
use alloc::vec::Vec;
use bitflags::bitflags;

/// The highest byte offset in a file. A map of the page that holds it is refused, because that page
/// ends beyond it.
const MAX_OFFSET: u64 = i64::MAX as u64;

bitflags! {
    /// How a file was opened, and what the file and its file system allow, as far as `mmap` checks
    /// it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct FileMode: u16 {
        /// Open for reading. Without it no map is allowed (EACCES).
        const READ = 1;
        /// Open for writing. Without it a shared map can never become writable.
        const WRITE = 2;
        /// Append-only: no shared map if it is also open for writing (EACCES).
        const APPEND_ONLY = 4;
        /// On a file system that forbids execution: no executable map (EPERM).
        const NOEXEC = 8;
        /// Cannot be mapped, like a directory or a pipe (ENODEV).
        const UNMAPPABLE = 0x10;
        /// A memfd sealed against writing (F_SEAL_WRITE, F_SEAL_FUTURE_WRITE): no shared map that
        /// is writable (EPERM) or becomes so.
        const WRITE_SEALED = 0x20;
        /// `/dev/zero`: see [`Backing::is_zero`] for its maps.
        const ZERO = 0x40;
        /// In use as swap space: no shared map that is writable from the start (ETXTBSY).
        const SWAP_FILE = 0x80;
        /// On a file system that has MAP_SYNC, but not for this file, like ext4 and xfs without
        /// DAX: no map with MAP_SYNC (EOPNOTSUPP).
        const NOT_DAX = 0x100;
    }
}

impl FileMode {
    /// Open for reading and writing.
    pub const RW: FileMode = FileMode::READ.union(FileMode::WRITE);
}

/// What to map, and where.
///
/// [`AddressSpace::map`] maps at `start`, over existing areas unless [`MapFlags::FIXED_NOREPLACE`]
/// forbids that. [`AddressSpace::mmap`] takes `start` as a hint, unless a flag fixes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRequest<B> {
    /// First address; a multiple of the page size.
    pub start: u64,
    /// Length in bytes; rounded up to whole pages of the backing.
    pub len: u64,
    /// Protection. Unknown bits are ignored, as in `mmap`.
    pub prot: Prot,
    /// Type and flags.
    pub flags: MapFlags,
    /// The file, or the hidden file of shared anonymous memory (a new one for each such map).
    /// `None` for private anonymous memory.
    pub backing: Option<B>,
    /// Offset into the backing in bytes, a multiple of the page size. Otherwise ignored for
    /// anonymous memory, except for memory in huge pages, whose backing is a file like any other.
    pub offset: u64,
    /// How the file was opened; ignored for anonymous memory.
    pub mode: FileMode,
    /// Flags that the backing's driver adds (`IO`, `PFNMAP`, `DONTEXPAND`, ...).
    pub driver_flags: Flags,
}

impl<B> MapRequest<B> {
    /// Private anonymous memory.
    pub fn anonymous(start: u64, len: u64, prot: Prot) -> Self {
        MapRequest {
            start,
            len,
            prot,
            flags: MapFlags::PRIVATE | MapFlags::ANONYMOUS,
            backing: None,
            offset: 0,
            mode: FileMode::RW,
            driver_flags: Flags::empty(),
        }
    }

    /// A file from byte `offset` on, shared or private, open for reading and writing.
    pub fn file(start: u64, len: u64, prot: Prot, flags: MapFlags, backing: B, offset: u64) -> Self {
        MapRequest { flags, backing: Some(backing), offset, ..Self::anonymous(start, len, prot) }
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Maps an area, and merges it with its neighbours where the rules allow. The same store unmaps
    /// all that was in the range.
    ///
    /// # Errors
    /// As `mmap(2)` with MAP_FIXED:
    ///
    /// - EINVAL: an argument is not valid; in huge pages also a start within a huge page.
    /// - ENOMEM: the range leaves user space, or there are too many areas.
    /// - EEXIST: something is mapped in the range, with FIXED_NOREPLACE.
    /// - EOVERFLOW: the map would end at byte 2^63 of the file or beyond. (A file system's own
    ///   lower limit is for the caller to check.)
    /// - EACCES: the [`FileMode`] or PR_SET_MDWE ([`AddressSpace::set_mdwe`]) does not allow the
    ///   map.
    /// - ENODEV, ETXTBSY: the [`FileMode`] does not allow the map.
    /// - EOPNOTSUPP: SHARED_VALIDATE does not know a flag; or there is no MAP_DROPPABLE (from 7.1
    ///   on, else EINVAL).
    /// - EPERM: the [`FileMode`] does not allow the map; a sealed area is in the range (a cut at
    ///   the start of the range may stay, as in Linux); MAP_LOCKED where nothing may be locked; an
    ///   address below `vm.mmap_min_addr` without [`Caps::SYS_RAWIO`].
    /// - EAGAIN: too much is locked.
    ///
    /// Some errors come late, as in Linux, and leave a partial effect:
    ///
    /// - ENOMEM above a limit leaves the cuts at both ends of the range. (Before 6.12 it leaves the
    ///   range empty if no memory is promised.)
    /// - ENOMEM for a shared object whose memory is not promised leaves the range empty.
    /// - EOPNOTSUPP for MAP_SYNC of a file that is [`FileMode::NOT_DAX`] leaves the range empty.
    /// - EINVAL for a private map of secret memory ([`Backing::is_secret`]), and EAGAIN where too
    ///   much is locked for it, leave the range empty.
    /// - In huge pages, EINVAL for an offset within a huge page, and ENOMEM for lack of free ones
    ///   ([`AddressSpace::set_huge_pages`]), leave the range empty.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
    /// let plan = space.map(&MapRequest::anonymous(0x12000, 0x1000, Prot::RW)).unwrap();
    /// assert_eq!(plan.to_string(), "mapped 12000-13000, merged at 12000");
    /// assert_eq!(space.len(), 1);
    /// ```
    pub fn map(&mut self, request: &MapRequest<B>) -> Result<Plan, Error> {
        Plan::of(|plan| self.map_at(request.start, request, plan)).map(|((), plan)| plan)
    }

    /// `map` at another address than the request's. Appends its steps to `plan`, which is empty.
    pub(crate) fn map_at(&mut self, start: u64, request: &MapRequest<B>, plan: &mut Plan) -> Result<(), Errno> {
        let (end, flags, offset) = self.check_map(start, request)?;
        // Built in place: a copy right after the writes of its fields would wait for them.
        let mut store = Store::new((start, end), self.new_area(start, request, flags, offset));
        let late = request.mode.contains(FileMode::ZERO) || !self.has(Features::MERGEABLE_FIRST);
        if !late {
            self.mark_new(store.area_mut());
        }
        self.begin_store(2)?;
        let populate = request.flags.contains(MapFlags::POPULATE) && !request.flags.contains(MapFlags::NONBLOCK);
        let locked = store.area().flags.contains(Flags::LOCKED);
        let eager = populate || locked;
        let droppable = store.area().flags.contains(Flags::DROPPABLE) && !self.has(Features::DROPPABLE_IGNORES_FUTURE);
        let unlockable = locked && !store.area().lockable() && !is_secret(store.area()) && !droppable;
        let mut seams = self.lend_seams();
        let before = seams.len();
        let went = match self.plan_over((start, end), &mut store, request, plan, &mut seams) {
            Ok(()) => self.commit(store).inspect_err(|_| plan.truncate(0)),
            refused => refused,
        };
        let went = self.return_seams(seams, before, went);
        if went.is_ok() {
            if unlockable {
                self.drop_lock(start);
            }
            if late {
                self.mark_stored(start, end);
            }
            if eager {
                self.populate_all(start, end);
            }
        }
        self.end_store(plan);
        went
    }

    /// The area that a request makes at `start`, as `check_map` found it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn new_area(&self, start: u64, r: &MapRequest<B>, flags: Flags, offset: u64) -> Area<B> {
        let (object, bias) = match &r.backing {
            Some(b) => (Object::File(b.clone()), Area::<B>::bias_of(start, offset, self.page())),
            None => (Object::Anonymous, 0),
        };
        Area::new(flags, object, bias)
    }

    /// Checks everything that is refused before the call changes anything. Returns the end, the
    /// flags and the offset.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn check_map(&self, start: u64, r: &MapRequest<B>) -> Result<(u64, Flags, u64), Errno> {
        let kind = r.flags.bits() & MapFlags::TYPE;
        if r.len == 0 || !self.aligned(r.offset) {
            return Err(Errno::EINVAL);
        }
        let huge = self.huge_page(r.backing.as_ref());
        let len = self.config.map_len(r.len, huge)?;
        if self.count() > self.config.max_map_count || len > self.config.task_size {
            return Err(Errno::ENOMEM);
        }
        if huge.is_some_and(|huge| !huge.holds(start)) {
            return Err(Errno::EINVAL);
        }
        if start > self.config.task_size - len {
            return Err(Errno::ENOMEM);
        }
        if !self.aligned(start) {
            return Err(Errno::EINVAL);
        }
        let end = start + len;
        if start < self.config.bases.fixed_least && !self.caps.contains(Caps::SYS_RAWIO) {
            return Err(Errno::EPERM);
        }
        if r.flags.contains(MapFlags::FIXED_NOREPLACE) && !self.is_free(start, end) {
            return Err(Errno::EEXIST);
        }
        if r.flags.contains(MapFlags::LOCKED) && !self.may_lock() {
            return Err(Errno::EPERM);
        }
        let plain = is_plain(r);
        let asked = if plain { self.def_flags } else { self.asked_flags(r) };
        self.may_lock_more(asked, len)?;
        // The kernel's hidden file is mapped from its start; the offset is ignored.
        let offset = if r.flags.contains(MapFlags::ANONYMOUS) { 0 } else { r.offset };
        // An unmappable file has no end to check, and neither has `/dev/zero`.
        let most = if r.mode.intersects(FileMode::UNMAPPABLE | FileMode::ZERO) { u64::MAX } else { MAX_OFFSET };
        if r.backing.is_some() && offset.checked_add(len).is_none_or(|e| e > most) {
            return Err(Errno::EOVERFLOW);
        }
        let flags = if plain {
            charged(self.accessible(r.prot, true) | asked | r.driver_flags)
        } else {
            self.map_flags(r, kind, asked, huge.is_some())?
        };
        debug_assert_eq!(self.map_flags(r, kind, self.asked_flags(r), huge.is_some()), Ok(flags));
        self.deny_execution(None, flags)?;
        Ok((end, flags, offset))
    }

    /// Checks the limits, and merges the new area with its neighbours. As in Linux, a refusal has
    /// effects. Above a limit, the range stays cut off from its surroundings. If the memory of a
    /// shared object is not promised, or huge pages, secret memory or MAP_SYNC are refused, the
    /// range stays empty, because Linux makes the object last.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn plan_over(
        &mut self,
        (start, end): (u64, u64),
        store: &mut Store<B>,
        r: &MapRequest<B>,
        plan: &mut Plan,
        seams: &mut Vec<Seam<B>>,
    ) -> Result<(), Errno> {
        let flags = store.area().flags;
        let (len, mut around) = (end - start, self.around(start, end, plan)?);
        let was = around.was;
        if let Some((why, cut)) = around.refused {
            let why = if self.has(Features::FIXED_ANSWERS_AS_MUNMAP) { why } else { Errno::ENOMEM };
            return self.refuse(start, (why, cut), 0, plan);
        }
        let charged = if accountable(flags) { len - was.committed } else { 0 };
        let room = self.may_expand(flags, len - was.total);
        if let Err(why) = room.and_then(|()| self.may_charge(charged)) {
            if !self.has(Features::FIXED_KEEPS_OLD) {
                if room.is_ok() {
                    self.empty(start, end, &was).inspect_err(|_| plan.truncate(0))?;
                } else {
                    plan.truncate(0);
                }
                return Err(why);
            }
            plan.truncate(0);
            // Reserves for both cuts, so that lack of memory leaves none.
            self.set_aside(start, end, 2)?;
            self.cut(start, plan)?;
            self.cut(end, plan)?;
            return Err(why);
        }
        // Memory without an object is promised by now.
        let late = if r.backing.is_none() && r.driver_flags.is_empty() {
            Ok(())
        } else {
            self.may_make_object((start, end), store.area(), r)
        };
        if let Err(why) = late {
            self.empty(start, end, &was).inspect_err(|_| plan.truncate(0))?;
            return Err(why);
        }
        if let Err(short) = plan.reserve(3) {
            plan.truncate(0);
            return Err(short);
        }
        if self.has(Features::NEXT_WINS) {
            around.left = self.left_unless_next_wins(&around, store.area());
        }
        self.map_into(store, &around, seams, plan);
        Ok(())
    }

    /// The checks that the kernel makes when the range is empty.
    #[inline(never)]
    fn may_make_object(&self, (start, end): (u64, u64), area: &Area<B>, r: &MapRequest<B>) -> Result<(), Errno> {
        let flags = area.flags;
        let every = self.has(Features::SHARED_ZERO_IS_SHMEM);
        let with_object = if every { Flags::MAYSHARE } else { Flags::SHARED };
        let zero = r.mode.contains(FileMode::ZERO) && flags.contains(with_object);
        let object = zero || (r.flags.contains(MapFlags::ANONYMOUS) && r.backing.is_some());
        if object && !flags.contains(Flags::NORESERVE) {
            self.may_charge(end - start)
        } else if flags.contains(Flags::HUGETLB) {
            self.may_have_pages(area, start, end)
        } else if write_sealed(r) {
            // Reached only if the range is emptied first (`Features::FIXED_KEEPS_OLD`).
            Err(Errno::EPERM)
        } else if not_dax(r) {
            Err(Errno::EOPNOTSUPP)
        } else {
            self.may_map_secret(area, end - start)
        }
    }

    /// The area flags that the request's own flags ask for, and those of every map.
    fn asked_flags(&self, r: &MapRequest<B>) -> Flags {
        let stack = self.has(Features::STACK_NO_HUGE);
        let known = if stack { r.flags } else { r.flags.difference(MapFlags::STACK) };
        flags_of(known) | self.def_flags
    }

    /// The flags of memory with this protection, which may change to any other protection.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn accessible(&self, prot: Prot, may_exec: bool) -> Flags {
        let access = self.implied(prot, may_exec).access();
        access | self.key_of(access) | Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC
    }

    /// The flags of the new area. `asked` are those that the request's own flags ask for.
    #[inline(never)]
    fn map_flags(&self, r: &MapRequest<B>, kind: u32, asked: Flags, huge: bool) -> Result<Flags, Errno> {
        const PRIVATE: u32 = MapFlags::PRIVATE.bits();
        const SHARED: u32 = MapFlags::SHARED.bits();
        const VALIDATE: u32 = MapFlags::SHARED_VALIDATE.bits();
        const DROPPABLE: u32 = MapFlags::DROPPABLE.bits();
        let anonymous = r.flags.contains(MapFlags::ANONYMOUS);
        let secret = r.backing.as_ref().is_some_and(Backing::is_secret);
        let never_droppable = MapFlags::LOCKED | MapFlags::HUGETLB | MapFlags::GROWSDOWN;
        let grows = r.flags.contains(MapFlags::GROWSDOWN);
        let no_file = r.backing.is_none();
        let shared = kind == SHARED || kind == VALIDATE;
        let refused = match kind {
            PRIVATE => no_file != anonymous,
            SHARED => no_file || (anonymous && grows),
            VALIDATE => no_file || anonymous,
            DROPPABLE => !no_file || !anonymous || r.flags.intersects(never_droppable),
            _ => true,
        };
        if refused || (r.flags.contains(MapFlags::HUGETLB) && !huge) {
            return Err(Errno::EINVAL);
        }
        if kind == DROPPABLE && !self.has(Features::DROPPABLE) {
            let known = self.has(Features::DROPPABLE_EOPNOTSUPP);
            return Err(if known { Errno::EOPNOTSUPP } else { Errno::EINVAL });
        }
        let unknown = if self.has(Features::ABOVE4G) { MapFlags::empty() } else { MapFlags::ABOVE4G };
        let late = if not_dax(r) { MapFlags::SYNC } else { MapFlags::empty() };
        if kind == VALIDATE && !MapFlags::OLD.difference(unknown).contains(r.flags.difference(late)) {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut mode = if anonymous { FileMode::RW } else { r.mode };
        mode.set(FileMode::NOEXEC, secret || mode.contains(FileMode::NOEXEC));
        let writable = mode.contains(FileMode::WRITE);
        let writes = shared && r.prot.contains(Prot::WRITE);
        if writes && writable && mode.contains(FileMode::SWAP_FILE) {
            return Err(Errno::ETXTBSY);
        }
        if (writes && !writable) || (shared && mode.contains(FileMode::APPEND_ONLY | FileMode::WRITE)) {
            return Err(Errno::EACCES);
        }
        if !mode.contains(FileMode::READ) {
            return Err(Errno::EACCES);
        }
        if mode.contains(FileMode::NOEXEC) && r.prot.contains(Prot::EXEC) {
            return Err(Errno::EPERM);
        }
        if mode.contains(FileMode::UNMAPPABLE) {
            return Err(Errno::ENODEV);
        }
        if grows && !anonymous {
            return Err(Errno::EINVAL);
        }
        let sealed = shared && mode.contains(FileMode::WRITE_SEALED);
        if write_sealed(r) && self.has(Features::FIXED_KEEPS_OLD) {
            return Err(Errno::EPERM);
        }
        let mut flags = self.accessible(r.prot, !mode.contains(FileMode::NOEXEC)) | asked | r.driver_flags;
        flags -= if mode.contains(FileMode::NOEXEC) { Flags::MAYEXEC } else { Flags::empty() };
        flags -= if sealed { Flags::MAYWRITE } else { Flags::empty() };
        flags |= if secret { secret::flags(self.config.features) } else { Flags::empty() };
        if kind == DROPPABLE {
            flags |= Flags::DROPPABLE | Flags::NORESERVE | Flags::WIPEONFORK | Flags::DONTDUMP;
        } else if shared && writable {
            flags |= Flags::SHARED | Flags::MAYSHARE;
        } else if shared {
            flags = flags.difference(Flags::MAYWRITE) | Flags::MAYSHARE;
        }
        if r.flags.contains(MapFlags::NORESERVE)
            && (huge || !matches!(self.config.overcommit, Overcommit::Never { .. }))
        {
            flags |= Flags::NORESERVE;
        }
        if huge {
            flags |= Flags::HUGETLB | Flags::DONTEXPAND;
        }
        Ok(charged(flags))
    }

    /// Clears the lock flags of an area that cannot be locked. This comes after the merge: the
    /// comparison with its neighbours sees the flags.
    fn drop_lock(&mut self, start: u64) {
        let Some((span, area)) = self.areas.get_mut(start).filter(|(_, a)| !a.lockable()) else { return };
        let bytes = span.last - span.first + 1;
        self.counters.take(&Counters::of(area.flags, bytes));
        area.flags -= Flags::LOCK;
        self.counters.add(&Counters::of(area.flags, bytes));
    }
}

/// Whether the request is for private anonymous memory whose flags follow from its protection
/// alone.
#[inline]
fn is_plain<B>(r: &MapRequest<B>) -> bool {
    let other = MapFlags::FIXED | MapFlags::FIXED_NOREPLACE | MapFlags::POPULATE | MapFlags::NONBLOCK;
    r.backing.is_none() && r.flags.difference(other) == MapFlags::PRIVATE | MapFlags::ANONYMOUS
}

/// These flags, and the charge, if memory with them is charged.
#[inline]
fn charged(flags: Flags) -> Flags {
    if accountable(flags) { flags | Flags::ACCOUNT } else { flags }
}

/// Whether the request is for MAP_SYNC of a file whose file system refuses it.
fn not_dax<B>(r: &MapRequest<B>) -> bool {
    r.mode.contains(FileMode::NOT_DAX) && r.flags.contains(MapFlags::SYNC) && !r.flags.contains(MapFlags::ANONYMOUS)
}

/// Whether the request is for a shared, writable map of a memfd that is sealed against writing.
fn write_sealed<B>(r: &MapRequest<B>) -> bool {
    let kind = r.flags.bits() & MapFlags::TYPE;
    let shared = kind == MapFlags::SHARED.bits() || kind == MapFlags::SHARED_VALIDATE.bits();
    let sealed = r.mode.contains(FileMode::WRITE_SEALED) && !r.flags.contains(MapFlags::ANONYMOUS);
    shared && sealed && r.prot.contains(Prot::WRITE)
}

/// Whether memory with these flags is charged: private, writable and not exempt (NORESERVE,
/// hugetlbfs).
#[inline]
pub(crate) fn accountable(flags: Flags) -> bool {
    flags.contains(Flags::WRITE) && !flags.intersects(Flags::SHARED | Flags::NORESERVE | Flags::HUGETLB)
}

impl Config {
    /// The length of a map of `len` bytes, rounded up to whole pages.
    #[inline]
    pub(crate) fn map_len(&self, len: u64, huge: Option<PageSize>) -> Result<u64, Errno> {
        let page = self.page_size.bytes();
        match (len.wrapping_add(page - 1) & !(page - 1), huge) {
            (_, Some(huge)) => Some(huge.up(len)).filter(|len| *len != 0).ok_or(Errno::EINVAL),
            (0, None) => Err(Errno::ENOMEM),
            (len, None) => Ok(len),
        }
    }
}
