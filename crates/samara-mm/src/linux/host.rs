//! The world around an address space: [`Host`], and [`OpenFile`], which it returns.
//!
//! It knows no calls. The verbs of this module ask it for descriptors, the program's memory,
//! protection keys, segments and memory nodes.

use crate::area::Backing;
use crate::area::flags::Prot;
use crate::area::huge_places::HugePlaces;
use crate::area::page_size::PageSize;
use crate::calls::mmap::FileMode;
use crate::calls::shm::Segment;
use crate::errno::Errno;
#[cfg(doc)]
use crate::space::AddressSpace;

/// An open file, as `mmap` sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile<B> {
    /// The object that areas compare. Each `open` has its own; duplicated descriptors share it.
    pub backing: B,
    /// How it was opened.
    pub mode: FileMode,
}

/// Answers for the world around the address space. Each method has a default: the answer of a world
/// without such objects.
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
    /// EBADF: there is no such descriptor, or it was opened by path only.
    fn file(&mut self, _fd: i32) -> Result<OpenFile<B>, Errno> {
        Err(Errno::EBADF)
    }

    /// A new object for a shared anonymous map of this length, or for a shared map of `/dev/zero`
    /// ([`Backing::is_zero`]). It equals no other object.
    ///
    /// # Errors
    /// ENOMEM.
    fn shared_memory(&mut self, _bytes: u64) -> Result<B, Errno> {
        Err(Errno::ENOMEM)
    }

    /// A new object in huge pages of this size (`None`: the default size) for an anonymous map with
    /// MAP_HUGETLB, private or shared. Its [`Backing::huge_page`] is that size, and it equals no
    /// other object. The space counts free pages ([`AddressSpace::set_huge_pages`]).
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

    /// Whether this protection key is allocated. Without the hardware no key is allocated, not even
    /// 0.
    fn pkey(&mut self, _key: u32) -> bool {
        false
    }

    /// Whether this descriptor (of `pidfd_open`, or PIDFD_SELF) stands for the process itself. If
    /// it stands for another process, the call is not for this space.
    ///
    /// # Errors
    /// EBADF: it stands for no process. ESRCH: the process has ended. EPERM: the caller may not
    /// advise on it.
    fn is_self(&mut self, _pidfd: i32) -> Result<bool, Errno> {
        Err(Errno::EBADF)
    }

    /// The System V segment with this number, to be attached with this protection.
    ///
    /// # Errors
    /// EINVAL: no such segment. EIDRM: it was removed. EACCES: that protection is not allowed.
    fn segment(&mut self, _id: i32, _prot: Prot) -> Result<Segment<B>, Errno> {
        Err(Errno::EINVAL)
    }

    /// Length of an attached segment, in bytes.
    fn segment_bytes(&mut self, _segment: &B) -> u64 {
        0
    }

    /// The places that suit a map of this object: a new map, or one that moves (`moved`).
    fn huge_places(&mut self, backing: &B, _moved: bool) -> HugePlaces
    where
        B: Backing,
    {
        backing.huge_places()
    }

    /// Fills the vector of `mincore` at `vec`: one byte for each of `pages` pages from `start` on,
    /// which says whether the page is in memory.
    ///
    /// # Errors
    /// EFAULT.
    fn incore(&mut self, _vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        Err(Errno::EFAULT)
    }

    /// The memory nodes that a policy may name: one bit each, lowest first, 64 in a word.
    fn nodes(&self) -> &[u64] {
        &[1]
    }
}
