//! What a task may have: its resource limits and capabilities.

use std::io;
use std::ptr;

use samara_mm::{Caps, Limit, Limits};

use super::Tid;

/// The limits of a task; none where they cannot be read (it has gone).
pub(crate) fn limits(tid: Tid) -> Limits {
    let of = |resource| {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: it writes `limit`, which is live.
        unsafe { libc::prlimit(tid, resource, ptr::null(), &mut limit) };
        Limit { soft: limit.rlim_cur, hard: limit.rlim_max }
    };
    Limits {
        address_space: of(libc::RLIMIT_AS),
        data: of(libc::RLIMIT_DATA),
        stack: of(libc::RLIMIT_STACK),
        locked: of(libc::RLIMIT_MEMLOCK),
    }
}

/// Sets a limit of a task, soft and hard.
pub(crate) fn set_limit(tid: Tid, resource: libc::__rlimit_resource_t, bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: it reads `limit`, which is live.
    if unsafe { libc::prlimit(tid, resource, &limit, ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The effective capabilities of a task, those that matter here; none where they cannot be read.
pub(crate) fn capabilities(tid: Tid) -> Caps {
    const VERSION_3: u32 = 0x2008_0522;
    const RAWIO: u32 = 17;
    const IPC_LOCK: u32 = 14;
    const ADMIN: u32 = 21;
    // struct __user_cap_header_struct {version, pid}, then twice {effective, permitted, inheritable}.
    let header = [VERSION_3, tid as u32];
    let mut data = [0u32; 6];
    // SAFETY: it reads `header` and writes `data`, which are live and of the sizes that this version has.
    let done = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()) } == 0;
    let has = |bit: u32| done && data[0] & 1 << bit != 0;
    let mut caps = Caps::empty();
    caps.set(Caps::IPC_LOCK, has(IPC_LOCK));
    caps.set(Caps::SYS_RAWIO, has(RAWIO));
    caps.set(Caps::SYS_ADMIN, has(ADMIN));
    caps
}
