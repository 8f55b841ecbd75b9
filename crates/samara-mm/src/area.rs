//! Areas: what a run of pages is. Knows nothing of where it lies, of other areas, or of calls.
//!
//! I1. An area's value does not depend on its bounds: cutting or trimming an area never changes the value, because the
//!     offset is kept as a bias (page offset minus page number), which is the same for every page of it.

use crate::flags::{Flags, MapFlags};
use alloc::sync::Arc;
use core::fmt::Debug;

/// The object behind an area: a file, shared memory, a device. Two areas have the same object where `==` says so.
/// Each map of shared anonymous memory has an object of its own.
///
/// What Linux compares is the open file, not the inode: give each `open` its own identity where you know them apart.
/// Where you cannot know (two descriptors seen from outside), equal objects merge, and
/// [`learn_cut`](crate::AddressSpace::learn_cut) sets the record straight.
pub trait Backing: Clone + Eq + Debug {
    /// Device, major and minor number.
    fn dev(&self) -> (u32, u32);
    /// Inode number.
    fn inode(&self) -> u64;
    /// The name as `/proc/PID/maps` shows it, newlines not yet escaped.
    fn name(&self) -> &str;
    /// Whether its file system seeks places that suit huge pages, as ext4, xfs and btrfs do, and tmpfs where it has been told to.
    fn seeks_huge(&self) -> bool {
        false
    }
    /// Whether it is `/dev/zero`: a private map of it is anonymous memory that has a place in a file. (A shared one that may be written has an object of its
    /// own, as shared anonymous memory has: [`FileMode::ZERO`](crate::FileMode::ZERO).)
    fn is_zero(&self) -> bool {
        false
    }
    /// Whether it is a System V segment that was attached with `shmat`: its areas do not become one again when they were cut.
    fn is_segment(&self) -> bool {
        false
    }
}

/// A plain [`Backing`]: a device, an inode, a name (of a System V segment if it begins with `/SYSV`; of `/dev/zero` if it is that), and a number that tells two `open`s of it apart.
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
}

/// What lies behind an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object<B> {
    /// Private anonymous memory.
    Anonymous,
    /// A file, or shared anonymous memory (the kernel's hidden file).
    File(B),
    /// Pages of the kernel's own, by the name that they are shown with: `[vdso]`, `[vvar]`, ... Never cut, never merged.
    Special(Arc<str>),
}

/// Number of an anonymous identity within one address space.
pub type AnonId = u64;

/// Which anonymous memory an area holds. Two areas with different identities never become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anon {
    /// Never written: no identity yet.
    #[default]
    Untouched,
    /// Written: it has an identity. `inherited` (it came through a fork) means that it merges with its own kind only.
    Identity {
        /// The identity.
        id: AnonId,
        /// Whether it was written before the fork that made this space.
        inherited: bool,
    },
    /// Whoever drives the model cannot see writes. Merges with whatever either answer would merge with.
    Unknown,
    /// As `Unknown`, in the child of a fork: if it was written before the fork then it has this inherited identity.
    UnknownInherited {
        /// The identity that it would have.
        id: AnonId,
    },
}

/// A memory policy (`mbind`), compared by value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The mode with its mode flags, as `mbind` takes them.
    pub mode: u32,
    /// The node mask, lowest nodes first.
    pub nodes: Arc<[u64]>,
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

/// What is known of a bias (of moved anonymous memory, where writes are not seen). In the order of doubt.
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

/// The attributes of an area. Small, and cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area<B> {
    /// Flags.
    pub flags: Flags,
    /// What lies behind it.
    pub object: Object<B>,
    /// Page offset into the object of any page of the area, minus that page's number (address / page size), wrapping.
    /// 0 for anonymous memory that was not moved.
    pub bias: u64,
    /// Anonymous identity. `Untouched` for shared memory.
    pub anon: Anon,
    /// Memory policy; `None` is the default policy.
    pub policy: Option<Arc<Policy>>,
    /// Userfaultfd registration; its modes are in `flags`.
    pub uffd: Option<Uffd>,
    /// Name of anonymous memory (`PR_SET_VMA_ANON_NAME`).
    pub name: Option<Arc<str>>,
    /// Open file learnt from the kernel, where `object` cannot tell.
    pub(crate) opened: Option<u64>,
    pub(crate) unsure: Unsure,
}

impl<B> Area<B> {
    /// An area with these flags over this object, at page offset minus page number `bias`; never written, no policy,
    /// no registration, no name.
    ///
    /// For a file at byte `offset` mapped at `start`: see [`Area::bias_of`].
    pub fn new(flags: Flags, object: Object<B>, bias: u64) -> Area<B> {
        Area {
            flags,
            object,
            bias,
            anon: Anon::Untouched,
            policy: None,
            uffd: None,
            name: None,
            opened: None,
            unsure: Unsure::default(),
        }
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

    /// The same area, of which is not known whether it is charged against the commit limit ([`Flags::ACCOUNT`]): that then
    /// keeps it from no neighbour, until [`learn_cut`](crate::AddressSpace::learn_cut) settles it.
    #[must_use]
    pub fn with_unknown_account(mut self) -> Area<B> {
        self.unsure.account = true;
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

    /// Whether it may be cut in two.
    pub(crate) fn can_split(&self) -> bool {
        !matches!(self.object, Object::Special(_))
    }

    /// Whether new anonymous memory with these flags, right behind it, becomes part of it and changes nothing of it.
    pub(crate) fn goes_on(&self, flags: Flags) -> bool {
        let plain = matches!(self.object, Object::Anonymous)
            && self.policy.is_none()
            && self.uffd.is_none()
            && self.name.is_none();
        let known = self.bias == 0 && self.unsure == Unsure::default();
        plain && known && self.flags == flags && !matches!(self.anon, Anon::Identity { inherited: true, .. })
    }

    pub(crate) fn lockable(&self) -> bool {
        !self.is_special() && !self.flags.intersects(Flags::HUGETLB | Flags::DROPPABLE)
    }
}

impl<B: Backing> Area<B> {
    /// Whether it may hold pages of its own, which have an identity.
    pub(crate) fn has_own_pages(&self) -> bool {
        !self.flags.contains(Flags::SHARED) && (self.is_private() || self.is_anonymous())
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
pub(crate) fn flags_of(map: MapFlags) -> Flags {
    let pairs = [
        (MapFlags::GROWSDOWN, Flags::GROWSDOWN),
        (MapFlags::LOCKED, Flags::LOCKED),
        (MapFlags::SYNC, Flags::SYNC),
        (MapFlags::STACK, Flags::NOHUGEPAGE),
        (MapFlags::HUGETLB, Flags::HUGETLB),
    ];
    pairs.iter().filter(|(m, _)| map.contains(*m)).fold(Flags::empty(), |f, (_, v)| f | *v)
}
