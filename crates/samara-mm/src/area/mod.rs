//! Areas: what a run of pages is. Knows nothing of where it lies, of other areas, or of calls.
//!
//! - **AREA-1** An area's value does not depend on its bounds: cutting or trimming an area never
//!   changes the value, because the offset is kept as a bias (page offset minus page number), which
//!   is the same for every page of it.
//! - **AREA-2** An area is small: it is moved about in the tree's leaves. What few areas have
//!   stands elsewhere (`extras`).

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
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use core::ops::Deref;

/// The object behind an area: a file, shared memory, a device. Two areas have the same object where
/// `==` says so. Each map of shared anonymous memory has an object of its own.
///
/// What Linux compares is the open file, not the inode: give each `open` its own identity where you
/// know them apart. Where you cannot know (two descriptors seen from outside), equal objects merge,
/// and [`learn_cut`](crate::AddressSpace::learn_cut) sets the record straight.
pub trait Backing: Clone + Eq + Debug {
    /// Device, major and minor number.
    fn dev(&self) -> (u32, u32);
    /// Inode number.
    fn inode(&self) -> u64;
    /// The name as `/proc/PID/maps` shows it, newlines not yet escaped.
    fn name(&self) -> &str;
    /// Which places its file system seeks for maps of it.
    fn huge_places(&self) -> HugePlaces {
        HugePlaces::Plain
    }
    /// Whether it is `/dev/zero`: a private map of it is anonymous memory that has a place in a
    /// file. (A shared one that may be written has an object of its own, as shared anonymous
    /// memory has: [`FileMode::ZERO`](crate::FileMode::ZERO).)
    fn is_zero(&self) -> bool {
        false
    }
    /// Whether it is a System V segment that was attached with `shmat`: its areas do not become one
    /// again when they were cut.
    fn is_segment(&self) -> bool {
        false
    }
    /// Whether it was made by `memfd_secret`: it is mapped shared only (EINVAL), locked for good,
    /// left out of core dumps, and never executed.
    fn is_secret(&self) -> bool {
        false
    }
    /// The size of its pages, if they are huge pages of hugetlbfs: its areas consist of whole ones,
    /// which are neither cut nor grown.
    fn huge_page(&self) -> Option<PageSize> {
        None
    }
}

/// A backing that is counted, and one word. Areas are moved about: of [`FileId`], which has five
/// words, an area has 80 bytes, of `Arc<FileId>` 48, and calls take less time. Two are equal where
/// what they point to is.
///
/// ```
/// use samara_mm::{AddressSpace, Config, FileId, MapFlags, MapRequest, Prot};
/// use std::sync::Arc;
/// let elf = Arc::new(FileId { dev: (8, 1), inode: 42, open: 1, name: "/bin/true".into() });
/// let mut space = AddressSpace::<Arc<FileId>>::new(Config::default());
/// for (at, offset) in [(0x400000, 0), (0x402000, 0x2000)] {
///     space.map(&MapRequest::file(at, 0x2000, Prot::READ, MapFlags::PRIVATE, Arc::clone(&elf), offset))?;
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
}

/// A plain [`Backing`]: a device, an inode, a name (of a System V segment if it begins with
/// `/SYSV`; of `/dev/zero` if it is that; of secret memory if it is `/secretmem (deleted)`; of
/// memory in huge pages of 2 MiB if it begins with `/anon_hugepage`), and a number that tells two
/// `open`s of it apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device, major and minor number.
    pub dev: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Which open file; 0 where that is not known.
    pub open: u64,
    /// The name that the maps line shows.
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

/// What lies behind an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object<B> {
    /// Private anonymous memory.
    Anonymous,
    /// A file, or shared anonymous memory (the kernel's hidden file).
    File(B),
    /// Pages of the kernel's own, by the name that they are shown with: `[vdso]`, `[vvar]`, ...
    /// Never cut, never merged.
    Special(Label),
}

/// A name that takes no more room than a pointer.
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

/// Number of an anonymous identity within one address space.
pub type AnonId = u64;

/// Which anonymous memory an area holds. Two areas with different identities never become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anon {
    /// Never written: no identity yet.
    #[default]
    Untouched,
    /// Written: it has an identity. `inherited` (it came through a fork) means that it merges with
    /// its own kind only.
    Identity {
        /// The identity.
        id: AnonId,
        /// Whether it was written before the fork that made this space.
        inherited: bool,
    },
    /// Whoever drives the model cannot see writes. Merges with whatever either answer would merge
    /// with.
    Unknown,
    /// As `Unknown`, in the child of a fork: if it was written before the fork then it has this
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
    /// The node mask, lowest nodes first, 64 in a word. Kept here, so that a policy asks for no
    /// memory of its own.
    pub nodes: [u64; Policy::WORDS],
}

impl Policy {
    /// Words of a node mask: 1024 nodes, the most that Linux on x86-64 has.
    pub const WORDS: usize = 16;
}

/// A registration with a userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uffd {
    /// Which userfaultfd.
    pub id: u64,
    /// It asked for fork events, so that a child's areas stay registered.
    pub fork_events: bool,
    /// It asked for remap events, so that a moved area stays registered.
    pub remap_events: bool,
}

/// What is known of a bias (of moved anonymous memory, where writes are not seen). In the order of
/// doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Doubt {
    /// It is what it says.
    #[default]
    Known,
    /// It is what it says, or 0: moved once, perhaps never written.
    OrZero,
    /// It may be anything: moved more than once, and perhaps written in between.
    Any,
}

/// What a driver that cannot see everything does not know about an area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Unsure {
    /// ACCOUNT may or may not be set.
    pub(crate) account: bool,
    /// The bias may be another one.
    pub(crate) bias: Doubt,
}

/// The attributes of an area, but for what only few areas have: that are its
/// [`Extras`](crate::Extras). Small, and cheap to clone: 48 bytes, if the backing is one pointer.
///
/// `==` compares all that is told here; not the extras, which belong to the space.
#[derive(Clone, Debug)]
pub struct Area<B> {
    /// Flags.
    pub flags: Flags,
    /// What lies behind it.
    pub object: Object<B>,
    /// Page offset into the object of any page of the area, minus that page's number (address /
    /// page size), wrapping. 0 for anonymous memory that was not moved.
    pub bias: u64,
    /// The identity in `anon`, which has room for the rest of it.
    id: AnonId,
    /// Its place in the space's table of extras; 0: it has none.
    pub(crate) extra: u32,
    anon: AnonKind,
    pub(crate) unsure: Unsure,
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
    /// An area with these flags over this object, at page offset minus page number `bias`; never
    /// written.
    ///
    /// For a file at byte `offset` mapped at `start`: see [`Area::bias_of`].
    pub fn new(flags: Flags, object: Object<B>, bias: u64) -> Area<B> {
        Area { flags, object, bias, id: 0, extra: 0, anon: AnonKind::Untouched, unsure: Unsure::default() }
    }

    /// Anonymous identity. `Untouched` for shared memory.
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

    /// Gives it another anonymous identity.
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

    /// The bias of byte `offset` mapped at `start`, both multiples of `page_size` (a power of two).
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

    /// The same area, of which is not known whether it is charged against the commit limit
    /// ([`Flags::ACCOUNT`]): that then keeps it from no neighbour, until
    /// [`learn_cut`](crate::AddressSpace::learn_cut) settles it.
    #[must_use]
    pub fn with_unknown_account(mut self) -> Area<B> {
        self.unsure.account = true;
        self
    }

    /// The same area with the flags that the kernel shows of it (`VmFlags`, by
    /// [`Flags::from_letters`]). Its charge is certain then; all that has no letters stays as
    /// it is: the identity, the offset, the protection key, and what is not known of them.
    ///
    /// ```
    /// use samara_mm::{Anon, Area, FileId, Flags, Object};
    /// let mut area = Area::<FileId>::new(Flags::from_letters("rd wr mr mw me ac"), Object::Anonymous, 0);
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

    /// Whether writes stay here (copy on write).
    pub fn is_private(&self) -> bool {
        !self.flags.contains(Flags::SHARED) && !self.flags.contains(Flags::MAYSHARE)
    }

    /// Whether it never merges, is never cut, or is never locked because of what lies behind it.
    pub fn is_special(&self) -> bool {
        self.flags.intersects(Flags::SPECIAL) || matches!(self.object, Object::Special(_))
    }

    /// Whether new anonymous memory with these flags, right behind it, becomes part of it and
    /// changes nothing of it.
    pub(crate) fn goes_on(&self, flags: Flags) -> bool {
        let plain = matches!(self.object, Object::Anonymous) && self.extra == 0;
        let known = self.bias == 0 && self.unsure == Unsure::default();
        plain && known && self.flags == flags && self.anon != AnonKind::Inherited
    }
}

impl<B: Backing> Area<B> {
    /// Whether calls may lock and unlock it.
    pub(crate) fn lockable(&self) -> bool {
        !self.is_special() && !self.flags.intersects(Flags::HUGETLB | Flags::DROPPABLE) && !is_secret(self)
    }

    /// Whether it may hold pages of its own, which have an identity.
    pub(crate) fn has_own_pages(&self) -> bool {
        !self.flags.contains(Flags::SHARED) && (self.is_private() || self.is_anonymous())
    }

    /// Whether it may be cut in two at `addr`, which lies within it.
    pub(crate) fn can_split(&self, addr: u64) -> bool {
        match self.huge_page() {
            Some(page) => page.holds(addr),
            None => !matches!(self.object, Object::Special(_)),
        }
    }

    /// The size of its pages, if they are those of hugetlbfs.
    #[inline]
    pub(crate) fn huge_page(&self) -> Option<PageSize> {
        match &self.object {
            Object::File(file) if self.flags.contains(Flags::HUGETLB) => file.huge_page(),
            _ => None,
        }
    }

    /// Whether nothing but what was written is behind it: it has no file, or `/dev/zero`.
    pub(crate) fn is_anonymous(&self) -> bool {
        match &self.object {
            Object::Anonymous => true,
            Object::File(file) => file.is_zero() && !self.flags.contains(Flags::SHARED),
            Object::Special(_) => false,
        }
    }
}

/// `RWX` of a mapping's flags, its type and its extras as an area's flags.
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

/// Whether an area is secret memory: locked for good, unless a fork or MREMAP_DONTUNMAP took its
/// lock away, and nobody brings its pages in.
pub(crate) fn is_secret<B: Backing>(area: &Area<B>) -> bool {
    matches!(&area.object, Object::File(backing) if backing.is_secret())
}

/// Whether it shows a segment. Linux counts such areas, and so does not let one of them go up in
/// another.
pub(crate) fn is_segment<B: Backing>(area: &Area<B>) -> bool {
    matches!(&area.object, Object::File(backing) if backing.is_segment())
}

/// Whether its pages may be merged with equal ones (KSM).
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
