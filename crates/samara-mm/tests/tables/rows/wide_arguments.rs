//! Arguments of 64 bits: which bits the kernel looks at, and which it ignores.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // Protection: mmap passes over bits that it does not know, mprotect refuses them.
    ("mmap @10 1p 0x100000003 private|anon|fixed; mmap @12 1p max private|anon|fixed", "10-11:rw 12-13:rwx"),
    ("rw 10-12; mprotect @10 1p 0x100000001 !EINVAL; mprotect @10 1p max !EINVAL; mprotect @10 1p 0x80000001 !EINVAL", "10-12:rw"),
    ("rw 10-12; pkey_mprotect @10 1p r 0xffffffff; pkey_mprotect @10 1p 0x100000001 -1 !EINVAL; pkey_mprotect @11 1p r -2 !EINVAL", "10-11:r 11-12:rw"),
    // Flags of mmap.
    ("mmap @10 1p r 0x100000032; mmap @12 1p r 0x8000000000000032", "10-11 12-13"),
    ("mmap @10 1p r 0x100000011 f; mmap @12 1p r 0x100000013 f !EOPNOTSUPP", "10-11"),
    // Descriptors are 32 bits wide, also where the rest is not zero.
    ("mmap @10 1p r private|fixed f+0x100000000; mmap @12 1p r private|fixed 0xffffffff !EBADF", "10-11"),
    // mremap knows all of its flags.
    ("rw 10-12; mremap @10 1p 1p 0x100000000 !EINVAL; mremap @10 1p 1p max !EINVAL; mremap @10 1p 1p 0x100000001 !EINVAL", "10-12"),
    // Advice, locks: 32 bits.
    ("rw 10-12; madvise @10 1p 0x100000010; madvise @11 1p 0x10000000f", "10-11{ac dd} 11-12{ac nh}"),
    ("rw 10-12; mlock2 @10 1p 0x100000001; mlock2 @11 1p 0x100000000; mlock2 @10 1p 0x80000000 !EINVAL", "10-11{lo lf ac} 11-12{lo ac}"),
    ("mlockall 0x100000002; rw 10-12", "10-12{lo ac}"),
    ("mlockall 0x100000000 !EINVAL; mlockall 0x80000002 !EINVAL", ""),
    // mseal: all 64.
    ("rw 10-12; mseal @10 1p 0x100000000 !EINVAL; mseal @10 1p 0x8000000000000000 !EINVAL", "10-12{ac}"),
    // mbind: mode and flags are 32 bits wide.
    ("rw 10-12; mbind @10 1p 0x100000004; mbind @11 1p 4 0 0 0x100000000", "10-12"),
    ("rw 10-12; mbind @10 1p 0x100000004; local 11-12; mbind @10 1p 0x80000004 !EINVAL", "10-12"),
    // msync.
    ("rw 10-12; msync @10 1p 0x100000004; msync @10 1p 0x80000004 !EINVAL", "10-12"),
    // Addresses behind user space, and those that are none.
    ("munmap 0x8000000000000000 1p !EINVAL; mprotect 0x8000000000000000 1p r !ENOMEM; madvise 0x8000000000000000 1p normal !ENOMEM", ""),
    ("mlock 0x8000000000000000 1p !ENOMEM; munlock 0x8000000000000000 1p !ENOMEM; mseal 0x8000000000000000 1p !ENOMEM; mremap 0x8000000000000000 1p 1p 0 !EFAULT", ""),
    ("mbind 0x8000000000000000 1p 4 !EFAULT; msync 0x8000000000000000 1p 4 !ENOMEM; mincore 0x8000000000000000 1p word !ENOMEM", ""),
    ("remap_file_pages 0x8000000000000000 1p 0 0 !EINVAL; mmap 0x8000000000000000 1p r private|anon|fixed !ENOMEM; mmap 0x8000000000000000 1p r private|anon = away", ""),
    // Lengths that reach up to the end of all addresses.
    ("rw 10-12; madvise @10 0x7fff000000000000 dont-dump !ENOMEM", "10-12{ac dd}"),
    ("rw 10-12; mprotect @10 0x7fff000000000000 r !ENOMEM", "10-12:r"),
    ("privileged; rw 10-12; mlock @10 0x7fff000000000000 !ENOMEM; munlock @11 0x7fff000000000000 !ENOMEM", "10-11{lo ac} 11-12{ac}"),
    ("rw 10-12; mseal @10 0x7fff000000000000 !ENOMEM; mbind @10 0x7fff000000000000 4 !EFAULT; msync @10 0x7fff000000000000 4 !ENOMEM", "10-12{ac}"),
    ("rw 10-12; munmap @10 0x7fff000000000000 !EINVAL; mremap @10 0x7fff000000000000 1p 0 !EINVAL", "10-12"),
    ("rw 10-12; mremap @10 0x7fff000000000000 0x7fff000000000000 0 !EINVAL; mremap @10 top 1p 0 !EINVAL", "10-12"),
];
