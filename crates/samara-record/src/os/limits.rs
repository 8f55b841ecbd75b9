//! Resource limits and capabilities of a task.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::ptr;

use samara_mm::{Caps, Limit, Limits};

use crate::os::sys::Tid;

/// The number of a limit, as the C library declares it.
#[cfg(target_env = "gnu")]
pub(crate) type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub(crate) type Resource = libc::c_int;

/// A limit of a task. `name` is what `/proc` calls it.
fn limit(tid: Tid, resource: Resource, name: &str) -> Option<Limit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit to `limit`, which is live.
    if unsafe { libc::prlimit(tid, resource, ptr::null(), &mut limit) } == 0 {
        return Some(Limit { soft: limit.rlim_cur, hard: limit.rlim_max });
    }
    // `prlimit` is refused for a program with another user's privileges; `/proc` is not.
    let text = std::fs::read_to_string(format!("/proc/{tid}/limits")).ok()?;
    let mut fields = text.lines().find_map(|l| l.strip_prefix(name))?.split_ascii_whitespace();
    let mut value = || match fields.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some(Limit { soft: value()?, hard: value()? })
}

/// The soft RLIMIT_NPROC of a task.
pub(crate) fn process_limit(tid: Tid) -> Option<u64> {
    Some(limit(tid, libc::RLIMIT_NPROC, "Max processes")?.soft)
}

/// The limits of a task; `None` if they cannot be read.
pub(crate) fn limits(tid: Tid) -> Option<Limits> {
    let of = |resource, name| limit(tid, resource, name);
    Some(Limits {
        address_space: of(libc::RLIMIT_AS, "Max address space")?,
        data: of(libc::RLIMIT_DATA, "Max data size")?,
        stack: of(libc::RLIMIT_STACK, "Max stack size")?,
        locked: of(libc::RLIMIT_MEMLOCK, "Max locked memory")?,
    })
}

/// The soft limits of a task, by name. Empty if they cannot be read.
pub(crate) fn limits_by_name(tid: Tid) -> BTreeMap<String, u64> {
    let Some(limits) = limits(tid) else { return BTreeMap::new() };
    let all = [
        ("as", Some(limits.address_space.soft)),
        ("data", Some(limits.data.soft)),
        ("memlock", Some(limits.locked.soft)),
        ("nproc", process_limit(tid)),
        ("stack", Some(limits.stack.soft)),
    ];
    all.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect()
}

/// The limits of this process, which a program inherits from it.
pub(crate) fn own_limits() -> BTreeMap<String, u64> {
    limits_by_name(0)
}

/// Sets the soft and the hard limit of a task.
pub(crate) fn set_limit(tid: Tid, resource: Resource, bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads one rlimit from `limit`, which is live.
    if unsafe { libc::prlimit(tid, resource, &limit, ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Memory and swap space of this machine, in bytes.
pub(crate) fn memory() -> u64 {
    // SAFETY: all zeros are a valid `sysinfo`, and the kernel writes one to `info`, which is live.
    let (done, info) = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        (libc::sysinfo(&mut info) == 0, info)
    };
    let pages = info.totalram.saturating_add(info.totalswap);
    if done { pages.saturating_mul(u64::from(info.mem_unit)) } else { u64::MAX }
}

/// PR_GET_MDWE of this process, which the program inherits; 0 if the kernel does not support it.
pub(crate) fn mdwe() -> u64 {
    const GET_MDWE: libc::c_int = 66;
    // SAFETY: all arguments are numbers.
    u64::try_from(unsafe { libc::prctl(GET_MDWE, 0, 0, 0, 0) }).unwrap_or(0)
}

/// PR_GET_MEMORY_MERGE of this process, which the program inherits.
pub(crate) fn merges_pages() -> bool {
    const GET_MEMORY_MERGE: libc::c_int = 68;
    // SAFETY: all arguments are numbers.
    unsafe { libc::prctl(GET_MEMORY_MERGE, 0, 0, 0, 0) == 1 }
}

/// Those effective capabilities of a task that the model knows. Empty if they cannot be read, or if
/// the task is in a user namespace other than the initial one.
pub(crate) fn capabilities(tid: Tid) -> Caps {
    // The initial user namespace has a fixed inode.
    const FIRST: &str = "user:[4026531837]";
    if std::fs::read_link(format!("/proc/{tid}/ns/user")).is_ok_and(|ns| ns.as_os_str() != FIRST) {
        return Caps::empty();
    }
    const VERSION_3: u32 = 0x2008_0522;
    const RAWIO: u32 = 17;
    const IPC_LOCK: u32 = 14;
    const ADMIN: u32 = 21;
    const NICE: u32 = 23;
    // struct __user_cap_header_struct {version, pid}, then twice {effective, permitted,
    // inheritable}.
    let header = [VERSION_3, tid as u32];
    let mut data = [0u32; 6];
    // SAFETY: the kernel reads `header` and writes `data`, which are live and have the sizes of
    // version 3.
    let done = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()) } == 0;
    let has = |bit: u32| done && data[0] & 1 << bit != 0;
    let mut caps = Caps::empty();
    caps.set(Caps::IPC_LOCK, has(IPC_LOCK));
    caps.set(Caps::SYS_RAWIO, has(RAWIO));
    caps.set(Caps::SYS_ADMIN, has(ADMIN));
    caps.set(Caps::SYS_NICE, has(NICE));
    caps
}

/// An extended attribute of a file, following links. `None` if it does not exist or is longer than
/// 64 bytes.
pub(crate) fn attribute(path: &CStr, name: &CStr) -> Option<Vec<u8>> {
    let mut value = [0; 64];
    // SAFETY: both strings end in a zero byte, and the kernel writes at most `value.len()` bytes to
    // `value`, which is live.
    let len = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    Some(value.get(..usize::try_from(len).ok()?)?.to_vec())
}
