//! Why a call was refused, as Linux numbers it. Knows nothing of calls.

use core::fmt;

/// An error number of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum Errno {
    /// Not permitted: an area is sealed, or a capability is missing.
    EPERM = 1,
    /// No area is like that.
    ENOENT = 2,
    /// The process has ended.
    ESRCH = 3,
    /// A structure is longer than is understood.
    E2BIG = 7,
    /// Not for this kind of backing.
    EBADF = 9,
    /// Too much memory is locked; or short of memory inside, and may be tried again.
    EAGAIN = 11,
    /// Not mapped, a hole, out of user space, too many areas, or out of memory.
    ENOMEM = 12,
    /// The backing, or the way it was opened, does not allow this.
    EACCES = 13,
    /// No such area, or the range leaves it.
    EFAULT = 14,
    /// Registered by someone else; or locked, and asked to be dropped (`msync`).
    EBUSY = 16,
    /// Something is mapped there already.
    EEXIST = 17,
    /// What is behind the descriptor cannot be mapped.
    ENODEV = 19,
    /// An argument makes no sense.
    EINVAL = 22,
    /// The file is in use as swap space.
    ETXTBSY = 26,
    /// A name does not fit.
    ENAMETOOLONG = 36,
    /// The segment was removed.
    EIDRM = 43,
    /// The offset and length pass the end of what a backing can hold.
    EOVERFLOW = 75,
    /// A flag that MAP_SHARED_VALIDATE does not know, or that the backing does not support.
    EOPNOTSUPP = 95,
}

impl Errno {
    /// The number, positive.
    pub fn raw(self) -> i32 {
        self as i32
    }

    /// The name, as in `errno(3)`.
    pub fn name(self) -> &'static str {
        match self {
            Errno::EPERM => "EPERM",
            Errno::ENOENT => "ENOENT",
            Errno::ESRCH => "ESRCH",
            Errno::E2BIG => "E2BIG",
            Errno::EBADF => "EBADF",
            Errno::EAGAIN => "EAGAIN",
            Errno::ENOMEM => "ENOMEM",
            Errno::EACCES => "EACCES",
            Errno::EFAULT => "EFAULT",
            Errno::EBUSY => "EBUSY",
            Errno::EEXIST => "EEXIST",
            Errno::ENODEV => "ENODEV",
            Errno::EINVAL => "EINVAL",
            Errno::ETXTBSY => "ETXTBSY",
            Errno::ENAMETOOLONG => "ENAMETOOLONG",
            Errno::EIDRM => "EIDRM",
            Errno::EOVERFLOW => "EOVERFLOW",
            Errno::EOPNOTSUPP => "EOPNOTSUPP",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Errno::EPERM => "EPERM: an area in the range is sealed, or a capability is missing",
            Errno::ENOENT => "ENOENT: there is no such area",
            Errno::ESRCH => "ESRCH: the process has ended",
            Errno::E2BIG => "E2BIG: the structure is longer than it can be",
            Errno::EBADF => "EBADF: this area's backing does not take that",
            Errno::EAGAIN => "EAGAIN: too much is locked (RLIMIT_MEMLOCK), or short of memory",
            Errno::ENOMEM => "ENOMEM: a hole, a range outside user space, too many areas, or no memory",
            Errno::EACCES => "EACCES: the area may not get this protection, or its file is not open for it",
            Errno::EFAULT => "EFAULT: no area there, or the range leaves the area",
            Errno::EBUSY => "EBUSY: the range is registered elsewhere, or locked",
            Errno::EEXIST => "EEXIST: something is mapped in the range",
            Errno::ENODEV => "ENODEV: what is behind the descriptor cannot be mapped",
            Errno::EINVAL => "EINVAL: an argument is misaligned, out of range or not valid for this area",
            Errno::ETXTBSY => "ETXTBSY: the file is swap space: it is not mapped shared and writable",
            Errno::ENAMETOOLONG => "ENAMETOOLONG: the name does not fit",
            Errno::EIDRM => "EIDRM: the segment was removed",
            Errno::EOPNOTSUPP => "EOPNOTSUPP: a map flag is not supported here",
            Errno::EOVERFLOW => "EOVERFLOW: offset and length are too large together",
        })
    }
}

impl core::error::Error for Errno {}

impl From<samara::AllocError> for Errno {
    fn from(_: samara::AllocError) -> Self {
        Errno::ENOMEM
    }
}

impl<K> From<samara::StoreError<K>> for Errno {
    fn from(e: samara::StoreError<K>) -> Self {
        match e {
            samara::StoreError::EmptyRange(_) => Errno::EINVAL,
            _ => Errno::ENOMEM,
        }
    }
}
