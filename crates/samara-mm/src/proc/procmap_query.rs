//! PROCMAP_QUERY: finds one area by address and properties. Knows the values and the bytes that the
//! ioctl on an open `/proc/PID/maps` takes and returns. Knows nothing of descriptors, and of user
//! memory only the bytes that the caller passes.
//!
//! The rules are from the running kernel (6.18); tests/process compares the two.

use crate::area::flags::Flags;
use crate::area::page_size::PageSize;
use crate::area::{Backing, Object};
use crate::errno::Errno;
use crate::proc::maps::Line;
use crate::proc::name::Name;
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Placed};
use bitflags::bitflags;

/// Maximum length of a name in bytes, with the zero byte at its end, whatever the buffer's size
/// (PATH_MAX).
const LONGEST: u64 = 4096;

bitflags! {
    /// Properties that a query asks for. The first four also describe the area in an answer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QueryFlags: u64 {
        /// Is readable.
        const READABLE = 1;
        /// Is writable.
        const WRITABLE = 2;
        /// Is executable.
        const EXECUTABLE = 4;
        /// Is mapped as shared ([`Flags::MAYSHARE`]).
        const SHARED = 8;
        /// The area that holds the address, or else the first one after it.
        const COVERING_OR_NEXT = 0x10;
        /// Has a file behind it. The hidden file of shared anonymous memory counts.
        const FILE_BACKED = 0x20;
        const _ = !0;
    }
}

impl QueryFlags {
    const KNOWN: QueryFlags = QueryFlags::from_bits_retain(0x3f);
}

/// Which area to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// Any address.
    pub addr: u64,
    /// The properties that the area must have. With [`QueryFlags::COVERING_OR_NEXT`] an area
    /// without them is skipped; otherwise it is refused.
    pub flags: QueryFlags,
    /// Size of the buffer for the name in bytes, with the zero byte at the end; 0 if the name is
    /// not asked for.
    pub name_size: u32,
}

/// An area that a query found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Readable, writable, executable, shared.
    pub flags: QueryFlags,
    /// Size of the area's pages in bytes.
    pub page_size: u64,
    /// Offset into the file in bytes; 0 without one.
    pub offset: u64,
    /// Inode number of the file; 0 without one.
    pub inode: u64,
    /// Device of the file, major and minor number; 0 without one.
    pub dev: (u32, u32),
    /// Its name, if it has one and the query asked for it. Newlines are not escaped.
    pub name: Option<Name<'a>>,
}

/// Byte offsets of the fields in the ioctl's structure.
mod at {
    pub(super) const FLAGS: usize = 8;
    pub(super) const ADDR: usize = 16;
    pub(super) const OUT: usize = 24;
    pub(super) const NAME_SIZE: usize = 80;
    pub(super) const BUILD_ID_SIZE: usize = 84;
    pub(super) const NAME: usize = 88;
    pub(super) const BUILD_ID: usize = 96;
}

impl Query {
    /// Size of the ioctl's structure in bytes.
    pub const BYTES: usize = 104;

    /// Reads a query from the ioctl's structure, which may be shorter or longer than the one that
    /// this crate knows. `bytes` begins with the structure's size and holds at least that many
    /// bytes.
    ///
    /// # Errors
    /// - EINVAL: the structure is shorter than its input fields, or the name or the build ID has a
    ///   size without a buffer or a buffer without a size.
    /// - E2BIG: the structure is longer than a page, or has bytes after the known fields that are
    ///   not zero.
    /// - EFAULT: `bytes` is shorter than it says.
    pub fn from_bytes(bytes: &[u8], page: PageSize) -> Result<Query, Errno> {
        let size = bytes.first_chunk().map(|b| u64::from_le_bytes(*b)).ok_or(Errno::EFAULT)?;
        if size < at::OUT as u64 {
            return Err(Errno::EINVAL);
        }
        if size > page.bytes() {
            return Err(Errno::E2BIG);
        }
        let bytes = usize::try_from(size).ok().and_then(|n| bytes.get(..n)).ok_or(Errno::EFAULT)?;
        if bytes.iter().skip(Query::BYTES).any(|b| *b != 0) {
            return Err(Errno::E2BIG);
        }
        // Missing bytes count as zero.
        let byte = |i: usize| u64::from(bytes.get(i).copied().unwrap_or(0));
        let number = |from: usize, len: usize| (0..len).rev().fold(0, |n, i| n << 8 | byte(from + i));
        let name_size = number(at::NAME_SIZE, 4) as u32;
        let (name, build_id) = (number(at::NAME, 8), number(at::BUILD_ID, 8));
        if (name_size == 0) != (name == 0) || (number(at::BUILD_ID_SIZE, 4) == 0) != (build_id == 0) {
            return Err(Errno::EINVAL);
        }
        Ok(Query { addr: number(at::ADDR, 8), flags: QueryFlags::from_bits_retain(number(at::FLAGS, 8)), name_size })
    }
}

impl Answer<'_> {
    /// Writes the answer into the ioctl's structure, as far as `bytes` reaches. Writes the size of
    /// the name (0 without a name) but not the name itself, and no build ID.
    pub fn to_bytes(&self, bytes: &mut [u8]) {
        let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        let name = self.name.as_ref().map_or(0, |n| n.len() as u32 + 1);
        let out = [
            self.start,
            self.end,
            self.flags.bits(),
            self.page_size,
            self.offset,
            self.inode,
            pair(self.dev.0, self.dev.1),
            pair(name, 0),
        ];
        let new = out.iter().flat_map(|n| n.to_le_bytes());
        bytes.iter_mut().skip(at::OUT).zip(new).for_each(|(to, byte)| *to = byte);
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Finds the area that `query` asks for. It never finds `[vsyscall]`.
    ///
    /// O(log n), plus one step for each skipped area.
    ///
    /// # Errors
    /// - EINVAL: an unknown flag.
    /// - ENOENT: there is no such area.
    /// - ENAMETOOLONG: the name does not fit into `name_size` bytes, or is longer than 4095 bytes.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapRequest, Prot, Query, QueryFlags};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ)).unwrap();
    /// space.map(&MapRequest::anonymous(0x20000, 0x1000, Prot::RW)).unwrap();
    /// let mut query = Query { addr: 0x10800, flags: QueryFlags::WRITABLE, name_size: 0 };
    /// assert_eq!(space.query(&query), Err(Errno::ENOENT));
    /// query.flags |= QueryFlags::COVERING_OR_NEXT;
    /// assert_eq!(space.query(&query).map(|a| (a.start, a.end)), Ok((0x20000, 0x21000)));
    /// ```
    pub fn query(&self, query: &Query) -> Result<Answer<'_>, Errno> {
        query.answer(|from| self.areas_in(from, u64::MAX).map(|at| self.line_of(at)))
    }
}

impl Query {
    /// The answer from `lines`: the areas that end after an address, ascending.
    pub(crate) fn answer<'a, B: Backing + 'a, I: Iterator<Item = Line<'a, B>>>(
        &self,
        lines: impl FnOnce(u64) -> I,
    ) -> Result<Answer<'a>, Errno> {
        if !QueryFlags::KNOWN.contains(self.flags) {
            return Err(Errno::EINVAL);
        }
        let mut lines = lines(self.addr);
        let found = if self.flags.contains(QueryFlags::COVERING_OR_NEXT) {
            lines.find(|line| holds(&line.placed(), self.flags))
        } else {
            lines.next().filter(|line| line.start <= self.addr && holds(&line.placed(), self.flags))
        };
        let line = found.ok_or(Errno::ENOENT)?;
        let name = if self.name_size == 0 { None } else { line.name() };
        if name.as_ref().is_some_and(|n| n.len() as u64 >= LONGEST.min(self.name_size.into())) {
            return Err(Errno::ENAMETOOLONG);
        }
        let at = line.placed();
        let (offset, inode, dev) = match &at.area.object {
            Object::File(b) => (at.offset(line.config.page_size), b.inode(), b.dev()),
            _ => (0, 0, (0, 0)),
        };
        let (flags, page_size) = (access(at.area.flags), line.page_size());
        Ok(Answer { start: at.start, end: at.end, flags, page_size, offset, inode, dev, name })
    }
}

impl<B: Backing> Line<'_, B> {
    /// Size of the area's pages in bytes.
    pub(crate) fn page_size(&self) -> u64 {
        self.stored.huge_page().unwrap_or(self.config.page_size).bytes()
    }
}

/// These flags in the form of an answer.
fn access(flags: Flags) -> QueryFlags {
    let shared = if flags.contains(Flags::MAYSHARE) { QueryFlags::SHARED } else { QueryFlags::empty() };
    QueryFlags::from_bits_retain((flags & Flags::ACCESS).bits()) | shared
}

/// Whether the area has all the properties that `flags` ask for.
fn holds<B>(at: &Placed<'_, B>, flags: QueryFlags) -> bool {
    let asked = flags.difference(QueryFlags::COVERING_OR_NEXT | QueryFlags::FILE_BACKED);
    let file = matches!(at.area.object, Object::File(_));
    access(at.area.flags).contains(asked) && (file || !flags.contains(QueryFlags::FILE_BACKED))
}
