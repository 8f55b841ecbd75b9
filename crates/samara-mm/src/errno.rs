//! Linux's error numbers. Knows nothing of calls.

use core::fmt;

/// An error number of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum Errno {
    /// Not permitted: an area is sealed, or a capability is missing.
    EPERM = 1,
    /// There is no such area.
    ENOENT = 2,
    /// The process has ended.
    ESRCH = 3,
    /// A structure is too long.
    E2BIG = 7,
    /// The call does not take this kind of backing.
    EBADF = 9,
    /// Too much memory is locked, or the kernel is short of memory and the call may be tried again.
    EAGAIN = 11,
    /// A hole in the range, no room for it, a range outside user space, too many areas, or out of
    /// memory.
    ENOMEM = 12,
    /// The backing, or the way it was opened, does not allow this.
    EACCES = 13,
    /// There is no area at this address, or the range leaves the area.
    EFAULT = 14,
    /// The range is registered elsewhere, or it is locked and was to be invalidated (`msync`).
    EBUSY = 16,
    /// Something is mapped in the range already.
    EEXIST = 17,
    /// The object behind the descriptor cannot be mapped.
    ENODEV = 19,
    /// An argument is not valid.
    EINVAL = 22,
    /// The file is in use as swap space.
    ETXTBSY = 26,
    /// The name does not fit.
    ENAMETOOLONG = 36,
    /// The kernel has no such call.
    ENOSYS = 38,
    /// The segment was removed.
    EIDRM = 43,
    /// Offset and length together exceed what a backing can hold.
    EOVERFLOW = 75,
    /// MAP_SHARED_VALIDATE does not know a flag, or the backing does not support it.
    EOPNOTSUPP = 95,
    /// The call waited longer than its timeout ([`Caller::timeout`](crate::Caller::timeout)). Linux
    /// never returns it for these calls.
    ETIMEDOUT = 110,
}

impl Errno {
    const ALL: [Errno; 20] = {
        use Errno::*;
        [
            EPERM,
            ENOENT,
            ESRCH,
            E2BIG,
            EBADF,
            EAGAIN,
            ENOMEM,
            EACCES,
            EFAULT,
            EBUSY,
            EEXIST,
            ENODEV,
            EINVAL,
            ETXTBSY,
            ENAMETOOLONG,
            ENOSYS,
            EIDRM,
            EOVERFLOW,
            EOPNOTSUPP,
            ETIMEDOUT,
        ]
    };

    /// The positive error number.
    pub fn raw(self) -> i32 {
        self as i32
    }

    /// The error of a positive number, if a call of a space can return it. An embedder whose own
    /// system call failed otherwise reports ENOMEM, say.
    ///
    /// ```
    /// use samara_mm::Errno;
    /// assert_eq!((Errno::from_raw(12), Errno::from_raw(5)), (Some(Errno::ENOMEM), None));
    /// ```
    pub fn from_raw(number: i32) -> Option<Errno> {
        Errno::ALL.into_iter().find(|errno| errno.raw() == number)
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
            Errno::ENOSYS => "ENOSYS",
            Errno::EIDRM => "EIDRM",
            Errno::EOVERFLOW => "EOVERFLOW",
            Errno::EOPNOTSUPP => "EOPNOTSUPP",
            Errno::ETIMEDOUT => "ETIMEDOUT",
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
            Errno::ENOMEM => {
                "ENOMEM: a hole, no room to grow, a range outside user space, too many areas, or no memory"
            }
            Errno::EACCES => "EACCES: the area may not get this protection, or its file is not open for it",
            Errno::EFAULT => "EFAULT: no area there, or the range leaves the area",
            Errno::EBUSY => "EBUSY: the range is registered elsewhere, or locked",
            Errno::EEXIST => "EEXIST: something is mapped in the range",
            Errno::ENODEV => "ENODEV: what is behind the descriptor cannot be mapped",
            Errno::EINVAL => "EINVAL: an argument is misaligned, out of range or not valid for this area",
            Errno::ETXTBSY => "ETXTBSY: the file is swap space: it is not mapped shared and writable",
            Errno::ENAMETOOLONG => "ENAMETOOLONG: the name does not fit",
            Errno::ENOSYS => "ENOSYS: the kernel has no such call",
            Errno::EIDRM => "EIDRM: the segment was removed",
            Errno::EOPNOTSUPP => "EOPNOTSUPP: a map flag is not supported here",
            Errno::EOVERFLOW => "EOVERFLOW: offset and length are too large together",
            Errno::ETIMEDOUT => "ETIMEDOUT: other threads held the range for too long; try again",
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
