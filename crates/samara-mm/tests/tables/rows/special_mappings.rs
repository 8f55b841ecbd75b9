//! The kernel's own pages: `[vvar]` (v0-v4), `[vvar_vclock]` (v4-v6) and `[vdso]` (v6-v8).

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("munmap @v0 0 !EINVAL", "v0-v4:r[rd mr pf io de dd] v4-v6:r[rd mr pf io de dd] v6-v8:rx[rd ex mr mw me de]"),
    // Never cut.
    ("u v0-v1 !EINVAL; u v1-v2 !EINVAL; u v3-v5 !EINVAL; u v7-v8 !EINVAL; rw v7-v8 !EINVAL", "v0-v4 v4-v6 v6-v8"),
    ("p-none v6-v7 !EINVAL; p-none v7-v8 !EINVAL; dont-fork v6-v7 !EINVAL; lock v6-v7", "v0-v4 v4-v6 v6-v8{de}"),
    ("seal v6-v7 !EINVAL; local v6-v7 !EINVAL; mv v6-v7 20 !EINVAL", "v0-v4 v4-v6 v6-v8"),
    // Removed, protected and moved whole.
    ("u v4-v6", "v0-v4 v6-v8"),
    ("u v0-v8", ""),
    ("p-r v6-v8", "v0-v4 v4-v6 v6-v8:r"),
    ("p-rwx v6-v8", "v0-v4 v4-v6 v6-v8:rwx"),
    ("p-none v0-v4", "v0-v4:none v4-v6:r v6-v8"),
    ("p-rw v0-v4 !EACCES; p-rx v0-v4 !EACCES; p-none v0-v6", "v0-v4:none v4-v6:none v6-v8"),
    ("mv v6-v8 20", "20-22:rx{de} v0-v4 v4-v6"),
    ("mv v0-v4 20; u 20-21 !EINVAL; u 20-24", "v4-v6 v6-v8"),
    ("rw v4-v6", "v0-v4 v4-v6:rw v6-v8"),
    // Not grown, not copied, not locked.
    ("mremap @v6 2p 3p 0 !EFAULT; mremap @v6 2p 3p 1 !EFAULT; keep v6-v8 20 !EINVAL", "v0-v4 v4-v6 v6-v8"),
    ("mremap @v6 2p 1p 0 !EINVAL; mremap @v6 2p 2p 0 = @v6", "v0-v4 v4-v6 v6-v8"),
    ("lock v0-v8; onfault v6-v8", "v0-v4{pf io de dd} v4-v6{pf io de dd} v6-v8{de}"),
    ("do-dump v0-v4 !EINVAL; do-dump v6-v8 !EINVAL; dont-dump v6-v8", "v0-v4 v4-v6 v6-v8{de dd}"),
    ("do-fork v0-v4 !EINVAL; dont-fork v6-v8; do-fork v6-v8", "v0-v4 v4-v6 v6-v8{de}"),
    ("dont-need v0-v4 !EINVAL; guard-install v6-v8 !EINVAL; populate-read v0-v4 !EINVAL", "v0-v4 v4-v6 v6-v8"),
    ("uffd v6-v8 !EINVAL", "v0-v4 v4-v6 v6-v8"),
    ("seal v0-v8; u v0-v8 !EPERM; mv v6-v8 20 !EPERM", "v0-v4{pf io de dd sl} v4-v6{pf io de dd sl} v6-v8{de sl}"),
    // Behind the end of user space, where `[vsyscall]` is shown.
    ("munmap 0xffffffffff600000 1p !EINVAL; mprotect 0xffffffffff600000 1p r !ENOMEM; madvise 0xffffffffff600000 1p random !ENOMEM", ""),
    ("mremap 0xffffffffff600000 1p 1p 0 !EFAULT; mseal 0xffffffffff600000 1p !ENOMEM; mlock 0xffffffffff600000 1p !ENOMEM", ""),
];
