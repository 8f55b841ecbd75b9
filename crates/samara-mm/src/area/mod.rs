//! Areas: the attributes of a run of pages. Knows nothing of addresses, of other areas, or of
//! calls.
//!
//! - **AREA-1** An area's value does not depend on its bounds: cutting or trimming an area never
//!   changes the value. The offset is kept as a bias (page offset minus page number), which is the
//!   same for every page of the area.
//! - **AREA-2** An area is small, because the tree moves areas within its leaves. Attributes that
//!   only few areas have are kept in a table (`extras`).
//! - **AREA-3** `generation` is no attribute: it tells shared spaces whether the area was stored
//!   before the fork that made its space (`shared/inherited`). Nothing else reads it.

pub(crate) mod advice;
pub(crate) mod extras;
pub(crate) mod flags;
pub(crate) mod huge_places;
pub(crate) mod merge;
pub(crate) mod page_size;
pub(crate) mod reasons;
pub(crate) mod special;

use crate::area::flags::{Flags, MapFlags};
use crate::area::huge_places::HugePlaces;
use crate::area::page_size::PageSize;
#[cfg(feature = "shared")]
use crate::files::Links;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::ops::Deref;

/// The object behind an area: a file, shared memory, a device. Two areas have the same object if
/// `==` says so. Each map of shared anonymous memory has an object of its own.
///
/// Linux compares the open file, not the inode. Give each `open` its own identity if you can tell
/// them apart. If you cannot (two descriptors seen from outside), equal objects merge, and
/// [`learn_cut`](crate::AddressSpace::learn_cut) corrects the model.
///
/// Spaces call its methods, `clone`, `==` and `drop` in the middle of a change, some of them with
/// locks held. They must not call a space, nor wait for a thread that may be in such a call, and
/// must not panic. (A shared space stays usable if a `clone` panics: its locks are released, and
/// its sums are right. The call has happened as a whole or not at all; of a change of several
/// stores, such as a move, some stores may have happened.)
pub trait Backing: Clone + Eq + Debug {
    /// Device: major and minor number.
    fn dev(&self) -> (u32, u32);
    /// Inode number.
    fn inode(&self) -> u64;
    /// The name as `/proc/PID/maps` shows it, newlines not yet escaped.
    fn name(&self) -> &str;
    /// Which addresses the file system prefers for maps of this file.
    fn huge_places(&self) -> HugePlaces {
        HugePlaces::Plain
    }
    /// Whether it is `/dev/zero`. The device has no end: any offset is valid. Its maps are:
    ///
    /// - A private map is anonymous memory that keeps the device's name and offset.
    /// - A shared map that may be written is shared anonymous memory. It is not a map of this
    ///   backing but of a new object ([`Host::shared_memory`](crate::linux::Host::shared_memory)),
    ///   whose memory is charged. `linux::call` sees to that; a caller of
    ///   [`AddressSpace::map`](crate::AddressSpace::map) passes the object as
    ///   [`MapRequest::backing`](crate::MapRequest::backing), and
    ///   [`FileMode::ZERO`](crate::FileMode::ZERO) in the mode.
    /// - A shared map that can never be written, because the device was opened for reading only, is
    ///   a map of the device. From 7.3 on it is shared anonymous memory too
    ///   ([`Features::SHARED_ZERO_IS_SHMEM`](crate::Features::SHARED_ZERO_IS_SHMEM)).
    ///
    /// Its maps differ from other anonymous memory and from other files in some more releases: see
    /// the [`Features`](crate::Features) whose names contain `ZERO`.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, FileMode, Flags, MapFlags, MapRequest, Prot};
    /// let zero = FileId { dev: (0, 5), inode: 5, open: 1, name: "/dev/zero".into() };
    /// let map = |start, offset| {
    ///     let map =
    ///         MapRequest::file(start, 0x1000, Prot::RW, MapFlags::PRIVATE, zero.clone(), offset);
    ///     MapRequest { mode: FileMode::RW | FileMode::ZERO, ..map }
    /// };
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&map(0x10000, 0x7fff_ffff_ffff_f000))?; // no file may be so long
    /// space.map(&map(0x11000, 0x8000_0000_0000_0000))?;
    /// assert_eq!(space.len(), 1);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    fn is_zero(&self) -> bool {
        false
    }
    /// Whether it is a System V segment that was attached with `shmat`. Its areas do not merge
    /// again after a cut.
    fn is_segment(&self) -> bool {
        false
    }
    /// Whether it was made by `memfd_secret`. It can only be mapped shared (else EINVAL), is locked
    /// for good, left out of core dumps, and never executable.
    fn is_secret(&self) -> bool {
        false
    }
    /// The size of its pages if they are huge pages of hugetlbfs. Its areas consist of whole huge
    /// pages and do not grow; a huge page is never cut.
    fn huge_page(&self) -> Option<PageSize> {
        None
    }
    /// The reverse map of the file, which shared spaces keep up to date: see
    /// [`SharedAddressSpace`](crate::SharedAddressSpace). All backings of one file (one inode) must
    /// return the same map, and a backing must always return the same answer. `None`: no reverse
    /// map is kept. (Pages of files have 4096 bytes: areas of spaces with smaller pages are not
    /// linked if they begin or end within such a page.)
    #[cfg(feature = "shared")]
    fn links(&self) -> Option<&dyn Links> {
        None
    }
}

/// A reference-counted backing of one word. The tree moves areas, so calls take less time with
/// small ones: an area takes 80 bytes with [`FileId`], which has five words, and 48 with
/// `Arc<FileId>`. Two are equal if their backings are equal.
///
/// ```
/// use samara_mm::{AddressSpace, Config, FileId, MapFlags, MapRequest, Prot};
/// use std::sync::Arc;
/// let elf = Arc::new(FileId { dev: (8, 1), inode: 42, open: 1, name: "/bin/true".into() });
/// let mut space = AddressSpace::<Arc<FileId>>::new(Config::default());
/// for (at, offset) in [(0x400000, 0), (0x402000, 0x2000)] {
///     space.map(&MapRequest::file(
///         at,
///         0x2000,
///         Prot::READ,
///         MapFlags::PRIVATE,
///         Arc::clone(&elf),
///         offset,
///     ))?;
/// }
/// assert_eq!(space.len(), 1);
/// # Ok::<(), samara_mm::Error>(())
/// ```
impl<B: Backing> Backing for Arc<B> {
    fn dev(&self) -> (u32, u32) {
        (**self).dev()
    }
    fn inode(&self) -> u64 {
        (**self).inode()
    }
    fn name(&self) -> &str {
        (**self).name()
    }
    fn huge_places(&self) -> HugePlaces {
        (**self).huge_places()
    }
    fn is_zero(&self) -> bool {
        (**self).is_zero()
    }
    fn is_segment(&self) -> bool {
        (**self).is_segment()
    }
    fn is_secret(&self) -> bool {
        (**self).is_secret()
    }
    fn huge_page(&self) -> Option<PageSize> {
        (**self).huge_page()
    }
    #[cfg(feature = "shared")]
    fn links(&self) -> Option<&dyn Links> {
        (**self).links()
    }
}

/// A plain [`Backing`]: device, inode, name, and a number that tells two `open`s apart. The name
/// decides the kind of object:
///
/// - `/dev/zero`: that device ([`Backing::is_zero`]);
/// - `/secretmem (deleted)`: secret memory;
/// - a name that begins with `/SYSV`: a System V segment;
/// - a name that begins with `/anon_hugepage`: memory in huge pages of 2 MiB.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device: major and minor number.
    pub dev: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// The number of the open file; 0 if it is not known.
    pub open: u64,
    /// The name as the maps line shows it.
    pub name: Arc<str>,
}

impl Backing for FileId {
    fn dev(&self) -> (u32, u32) {
        self.dev
    }
    fn inode(&self) -> u64 {
        self.inode
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_zero(&self) -> bool {
        &*self.name == "/dev/zero"
    }
    fn is_segment(&self) -> bool {
        self.name.starts_with("/SYSV")
    }
    fn is_secret(&self) -> bool {
        &*self.name == "/secretmem (deleted)"
    }
    fn huge_page(&self) -> Option<PageSize> {
        self.name.starts_with("/anon_hugepage").then_some(PageSize::M2)
    }
}

/// The object behind an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object<B> {
    /// Private anonymous memory.
    Anonymous,
    /// A file, or shared anonymous memory (the kernel's hidden file).
    File(B),
    /// The kernel's own pages, by the name that `/proc` shows: `[vdso]`, `[vvar]`, ... Never cut,
    /// never merged.
    Special(Label),
}

/// A name of the size of one pointer.
///
/// ```
/// let name = samara_mm::Label::from("[vdso]");
/// assert_eq!(&*name, "[vdso]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(Arc<Box<str>>);

impl From<&str> for Label {
    fn from(name: &str) -> Label {
        Label(Arc::new(Box::from(name)))
    }
}

impl Deref for Label {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// The number of an anonymous identity within one address space.
pub type AnonId = u64;

/// Which anonymous memory an area holds (Linux: anon_vma). Areas with different identities never
/// merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anon {
    /// Never written: no identity yet.
    #[default]
    Untouched,
    /// Written: it has an identity. An `inherited` one came through a fork and merges only with the
    /// same identity.
    Identity {
        /// The identity.
        id: AnonId,
        /// Whether it was written before the fork that made this space.
        inherited: bool,
    },
    /// The driver cannot see writes. Merges with everything that either `Untouched` or `Identity`
    /// would merge with.
    Unknown,
    /// As `Unknown`, in the child of a fork. If the memory was written before the fork, it has this
    /// inherited identity.
    UnknownInherited {
        /// The identity that it would have.
        id: AnonId,
    },
}

/// A memory policy (`mbind`), compared by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The mode with its mode flags, as `mbind` takes them.
    pub mode: u32,
    /// The node mask, lowest nodes first, 64 to a word. Stored inline, without an allocation.
    pub nodes: [u64; Policy::WORDS],
    /// The node near which memory is allocated (`set_mempolicy_home_node`), if one was set.
    pub home: Option<u16>,
}

impl Policy {
    /// Number of words in a node mask: 1024 nodes, the most that Linux on x86-64 has.
    pub const WORDS: usize = 16;
    /// `set_mempolicy(2)`: the modes that take a home node, and the modifiers of modes.
    pub(crate) const BIND: u32 = 2;
    pub(crate) const PREFERRED_MANY: u32 = 5;
    pub(crate) const MODIFIERS: u32 = 7 << 13;
}

/// A registration with a userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uffd {
    /// The number of the userfaultfd.
    pub id: u64,
    /// Whether it asked for fork events: a child's areas then stay registered.
    pub fork_events: bool,
    /// Whether it asked for remap events: a moved area then stays registered.
    pub remap_events: bool,
}

/// How certain a bias is. Doubt arises where anonymous memory moves and writes are not seen.
/// Ordered by growing doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Doubt {
    /// The bias is as stored.
    #[default]
    Known,
    /// The bias is as stored, or 0: moved once, perhaps never written.
    OrZero,
    /// The bias may be anything: moved more than once, and perhaps written in between.
    Any,
}

/// The attributes of an area that are in doubt if the driver cannot see writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Unsure {
    /// Whether the ACCOUNT flag is in doubt.
    pub(crate) account: bool,
    /// How certain the bias is.
    pub(crate) bias: Doubt,
}

/// The attributes of an area, except those that only few areas have (its
/// [`Extras`](crate::Extras)). 48 bytes if the backing is one pointer, and cheap to clone.
///
/// `==` compares all attributes here. It does not compare extras, which belong to the space.
#[derive(Clone, Debug)]
pub struct Area<B> {
    /// Flags.
    pub flags: Flags,
    /// The object behind it.
    pub object: Object<B>,
    /// Page offset into the object minus page number (address / page size), wrapping. The same for
    /// every page of the area. 0 for anonymous memory that was not moved.
    pub bias: u64,
    /// The number of the identity. `anon` has the rest of it.
    id: AnonId,
    /// Its index in the space's table of extras; 0 without extras.
    pub(crate) extra: u32,
    anon: AnonKind,
    pub(crate) unsure: Unsure,
    /// AREA-3.
    #[cfg(feature = "shared")]
    pub(crate) generation: u8,
}

/// [`Anon`] without its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnonKind {
    Untouched,
    Identity,
    Inherited,
    Unknown,
    UnknownInherited,
}

impl<B: PartialEq> PartialEq for Area<B> {
    fn eq(&self, o: &Area<B>) -> bool {
        (self.flags, self.bias, self.unsure) == (o.flags, o.bias, o.unsure)
            && self.anon() == o.anon()
            && self.object == o.object
    }
}

impl<B: Eq> Eq for Area<B> {}

impl<B> Area<B> {
    /// An area with these flags over this object, with this bias (page offset minus page number);
    /// never written.
    ///
    /// For a file at byte `offset` mapped at `start`, [`Area::bias_of`] gives the bias.
    pub fn new(flags: Flags, object: Object<B>, bias: u64) -> Area<B> {
        Area {
            flags,
            object,
            bias,
            id: 0,
            extra: 0,
            anon: AnonKind::Untouched,
            unsure: Unsure::default(),
            #[cfg(feature = "shared")]
            generation: 0,
        }
    }

    /// Its anonymous identity. `Untouched` for shared memory.
    #[inline]
    pub fn anon(&self) -> Anon {
        let id = self.id;
        match self.anon {
            AnonKind::Untouched => Anon::Untouched,
            AnonKind::Identity => Anon::Identity { id, inherited: false },
            AnonKind::Inherited => Anon::Identity { id, inherited: true },
            AnonKind::Unknown => Anon::Unknown,
            AnonKind::UnknownInherited => Anon::UnknownInherited { id },
        }
    }

    /// Sets the anonymous identity.
    #[inline]
    pub fn set_anon(&mut self, anon: Anon) {
        (self.anon, self.id) = match anon {
            Anon::Untouched => (AnonKind::Untouched, 0),
            Anon::Identity { id, inherited: false } => (AnonKind::Identity, id),
            Anon::Identity { id, inherited: true } => (AnonKind::Inherited, id),
            Anon::Unknown => (AnonKind::Unknown, 0),
            Anon::UnknownInherited { id } => (AnonKind::UnknownInherited, id),
        };
    }

    /// The bias of byte `offset` mapped at `start`; both are multiples of `page_size` (a power of
    /// two).
    ///
    /// ```
    /// use samara_mm::{Area, FileId};
    /// let bias = Area::<FileId>::bias_of(0x7000_0000, 0x3000, 4096);
    /// assert_eq!(bias.wrapping_add(0x7000_1000 / 4096) * 4096, 0x4000); // one page on, in both
    /// ```
    pub fn bias_of(start: u64, offset: u64, page_size: u64) -> u64 {
        let page = page_size.max(1);
        (offset / page).wrapping_sub(start / page)
    }

    /// The same area, with its charge against the commit limit ([`Flags::ACCOUNT`]) unknown. The
    /// charge then prevents no merge until [`learn_cut`](crate::AddressSpace::learn_cut) settles
    /// it.
    #[must_use]
    pub fn with_unknown_account(mut self) -> Area<B> {
        self.unsure.account = true;
        self
    }

    /// The same area with the flags that the kernel shows (`VmFlags`, read by
    /// [`Flags::from_letters`]). Its charge is then certain. Attributes without letters stay
    /// unchanged: the identity, the offset, the protection key, and the doubt about them.
    ///
    /// ```
    /// use samara_mm::{Anon, Area, FileId, Flags, Object};
    /// let mut area =
    ///     Area::<FileId>::new(Flags::from_letters("rd wr mr mw me ac"), Object::Anonymous, 0);
    /// area.set_anon(Anon::Identity { id: 7, inherited: true });
    /// let locked = area.clone().with_shown_flags(Flags::from_letters("rd wr mr mw me lo ac"));
    /// assert_eq!((locked.flags - area.flags, locked.anon()), (Flags::LOCKED, area.anon()));
    /// ```
    #[must_use]
    pub fn with_shown_flags(mut self, shown: Flags) -> Area<B> {
        self.flags = shown | (self.flags - Flags::lettered());
        self.unsure.account = false;
        self
    }

    /// Whether writes stay in this space (copy-on-write).
    pub fn is_private(&self) -> bool {
        !self.flags.contains(Flags::SHARED) && !self.flags.contains(Flags::MAYSHARE)
    }

    /// Whether it is special: it has a [`Flags::SPECIAL`] flag, or it is the kernel's own pages. A
    /// special area never merges and is never locked; the kernel's own pages are never cut either.
    pub fn is_special(&self) -> bool {
        self.flags.intersects(Flags::SPECIAL) || matches!(self.object, Object::Special(_))
    }

    /// Whether it is anonymous memory that never moved: no bias, no extras, nothing in doubt, not
    /// special.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.object, Object::Anonymous)
            && (self.extra, self.bias) == (0, 0)
            && self.unsure == Unsure::default()
            && !self.flags.intersects(Flags::SPECIAL)
    }

    /// Whether both have the same [`Anon`]: kinds without a number have the number 0.
    #[inline]
    pub(crate) fn has_anon_of(&self, other: &Self) -> bool {
        (self.anon, self.id) == (other.anon, other.id)
    }

    /// Takes over the `generation` of a lower area that joins this one (AREA-3).
    #[inline]
    pub(crate) fn go_on_from(&mut self, lower: &Self) {
        #[cfg(feature = "shared")]
        (self.generation = lower.generation);
        #[cfg(not(feature = "shared"))]
        let _unused = lower;
    }

    /// Whether new anonymous memory with these flags, mapped directly after it, merges into it and
    /// changes none of its attributes.
    pub(crate) fn goes_on(&self, flags: Flags) -> bool {
        self.is_plain() && self.flags == flags && self.anon != AnonKind::Inherited
    }
}

impl<B: Backing> Area<B> {
    /// Whether calls may set and clear its lock flags.
    pub(crate) fn lockable(&self) -> bool {
        !self.is_special() && !self.flags.intersects(Flags::HUGETLB | Flags::DROPPABLE) && !is_secret(self)
    }

    /// Whether it may hold pages of its own. Only such areas have an anonymous identity.
    pub(crate) fn has_own_pages(&self) -> bool {
        !self.flags.contains(Flags::SHARED) && (self.is_private() || self.is_anonymous())
    }

    /// Whether it is written anonymous memory that has moved, so that the indices of its pages
    /// differ from their addresses.
    #[cfg(feature = "shared")]
    pub(crate) fn is_away(&self) -> bool {
        self.bias != 0 && self.anon != AnonKind::Untouched && matches!(self.object, Object::Anonymous)
    }

    /// Whether it may be cut in two at `addr`, an address within it.
    pub(crate) fn can_split(&self, addr: u64) -> bool {
        match self.huge_page() {
            Some(page) => page.holds(addr),
            None => !matches!(self.object, Object::Special(_)),
        }
    }

    /// The size of its pages if they are huge pages of hugetlbfs.
    #[inline]
    pub(crate) fn huge_page(&self) -> Option<PageSize> {
        match &self.object {
            Object::File(file) if self.flags.contains(Flags::HUGETLB) => file.huge_page(),
            _ => None,
        }
    }

    /// Whether it is anonymous memory: it has no file, or is a private map of `/dev/zero`
    /// ([`Backing::is_zero`]).
    pub(crate) fn is_anonymous(&self) -> bool {
        match &self.object {
            Object::Anonymous => true,
            Object::File(file) => file.is_zero() && !self.flags.contains(Flags::SHARED),
            Object::Special(_) => false,
        }
    }
}

/// The area flags for these flags of a map, which the kernel knows.
#[inline]
pub(crate) fn flags_of(map: MapFlags) -> Flags {
    let pairs = [
        (MapFlags::GROWSDOWN, Flags::GROWSDOWN),
        (MapFlags::LOCKED, Flags::LOCKED),
        (MapFlags::SYNC, Flags::SYNC),
        (MapFlags::STACK, Flags::NOHUGEPAGE),
    ];
    pairs.iter().filter(|(m, _)| map.contains(*m)).fold(Flags::empty(), |f, (_, v)| f | *v)
}

/// Whether an area is secret memory. It stays locked unless a fork or MREMAP_DONTUNMAP takes the
/// lock away, and populating it fails.
pub(crate) fn is_secret<B: Backing>(area: &Area<B>) -> bool {
    matches!(&area.object, Object::File(backing) if backing.is_secret())
}

/// Whether the area maps a System V segment. Linux counts these areas, so that no merge may remove
/// one of them.
pub(crate) fn is_segment<B: Backing>(area: &Area<B>) -> bool {
    matches!(&area.object, Object::File(backing) if backing.is_segment())
}

/// Whether KSM may merge its pages with equal ones.
pub(crate) fn mergeable<B>(a: &Area<B>) -> bool {
    a.is_private() && !a.is_special() && !a.flags.intersects(Flags::HUGETLB | Flags::DROPPABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!((size_of::<Area<Arc<u8>>>(), size_of::<Area<u64>>()), (48, 48));
        assert_eq!((size_of::<Area<FileId>>(), size_of::<Area<Arc<FileId>>>()), (80, 48));
    }
}
