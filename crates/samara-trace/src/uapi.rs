//! Numbers of Linux's interface on x86-64, under the names of its headers. A trace has these
//! numbers on any machine that reads it, so they do not come from the build target.

pub(crate) const MAP_SHARED: i32 = 1;
pub(crate) const MAP_PRIVATE: i32 = 2;
pub(crate) const MAP_SHARED_VALIDATE: i32 = 3;
/// Since Linux 6.11.
pub(crate) const MAP_DROPPABLE: i32 = 8;
pub(crate) const MAP_TYPE: i32 = 0xf;
pub(crate) const MAP_FIXED: i32 = 0x10;
pub(crate) const MAP_LOCKED: i32 = 0x2000;
pub(crate) const MAP_NORESERVE: i32 = 0x4000;
pub(crate) const MAP_POPULATE: i32 = 0x8000;
pub(crate) const MAP_STACK: i32 = 0x2_0000;
pub(crate) const MAP_FIXED_NOREPLACE: i32 = 0x10_0000;

pub(crate) const MREMAP_FIXED: i32 = 2;
pub(crate) const SHM_REMAP: i32 = 0o4_0000;
pub(crate) const MCL_FUTURE: i32 = 2;

#[cfg(test)]
pub(crate) const EFAULT: i32 = 14;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EOPNOTSUPP: i32 = 95;

pub(crate) const SIGBUS: i32 = 7;
pub(crate) const SIGSEGV: i32 = 11;
pub(crate) const BUS_ADRERR: i32 = 2;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    #[test]
    fn numbers_are_those_of_the_headers() {
        macro_rules! same {
            ($($name:ident)*) => { $(assert_eq!(super::$name, libc::$name, stringify!($name));)* };
        }
        same! {
            MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE MAP_TYPE MAP_FIXED MAP_LOCKED MAP_NORESERVE
            MAP_POPULATE MAP_STACK MAP_FIXED_NOREPLACE MREMAP_FIXED SHM_REMAP MCL_FUTURE
            EFAULT EINVAL ENODEV ENOMEM ENOSYS EOPNOTSUPP SIGBUS SIGSEGV BUS_ADRERR
        }
    }
}
