//! The table of the calls' arguments. Knows nothing of how they are formatted.

/// Kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An address, or a pointer.
    Addr,
    /// A length or another count.
    Len,
    /// A number, signed 32 bits.
    Int,
    /// A number in hexadecimal.
    Hex,
    Prot,
    MapFlags,
    RemapFlags,
    /// The new address of `mremap`, which is used only with some flags.
    RemapTo,
    Advice,
    LockFlags,
    LockAllFlags,
    ShmFlags,
    CloneFlags,
    Policy,
    Prctl,
    ArchPrctl,
    Ioctl,
    AtFd,
}

use Kind::*;

/// A call's arguments, and whether its result is an address.
pub(crate) fn signature(name: &str) -> (&'static [Kind], bool) {
    match name {
        "mmap" => (&[Addr, Len, Prot, MapFlags, Int, Hex], true),
        "munmap" | "mlock" | "munlock" => (&[Addr, Len], false),
        "mprotect" => (&[Addr, Len, Prot], false),
        "pkey_mprotect" => (&[Addr, Len, Prot, Int], false),
        "mremap" => (&[Addr, Len, Len, RemapFlags, RemapTo], true),
        "brk" => (&[Addr], true),
        "madvise" => (&[Addr, Len, Advice], false),
        "process_madvise" => (&[Int, Addr, Len, Advice, Hex], false),
        "mlock2" => (&[Addr, Len, LockFlags], false),
        "mlockall" => (&[LockAllFlags], false),
        "munlockall" | "fork" | "vfork" => (&[], false),
        "mseal" => (&[Addr, Len, Hex], false),
        "remap_file_pages" => (&[Addr, Len, Prot, Len, MapFlags], false),
        "shmat" => (&[Int, Addr, ShmFlags], true),
        "shmdt" => (&[Addr], false),
        "mbind" => (&[Addr, Len, Policy, Addr, Len, Hex], false),
        "set_mempolicy_home_node" => (&[Addr, Len, Len, Hex], false),
        "ioctl" => (&[Int, Ioctl, Addr], false),
        "prctl" => (&[Prctl, Hex, Hex, Hex, Hex], false),
        "arch_prctl" => (&[ArchPrctl, Addr], false),
        "personality" => (&[Hex], false),
        "clone" => (&[CloneFlags, Addr, Addr, Addr, Addr], false),
        "clone3" => (&[Addr, Len], false),
        "execve" => (&[Addr, Addr, Addr], false),
        "execveat" => (&[AtFd, Addr, Addr, Addr, Hex], false),
        "exit" | "exit_group" => (&[Int], false),
        "io_setup" => (&[Len, Addr], false),
        "io_destroy" => (&[Addr], false),
        "map_shadow_stack" => (&[Addr, Len, Hex], true),
        _ => (&[Hex, Hex, Hex, Hex, Hex, Hex], false),
    }
}
