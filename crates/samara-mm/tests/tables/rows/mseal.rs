//! mseal, and what it blocks.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("rw 10-12; mseal @10 1p 1 !EINVAL; mseal @10 1p max !EINVAL; mseal @10+1 1p !EINVAL; mseal @10 -1 !EINVAL", "10-12{ac}"),
    ("rw 10-12; mseal @10 max-1p+1 !EINVAL; mseal @10 0; mseal @50 0; mseal @10+1 0 !EINVAL; mseal @10 0 1 !EINVAL", "10-12{ac}"),
    ("rw 10-11; seal 10-11", "10-11[rd wr mr mw me ac sl]"),
    ("rw 10-12; mseal @10 1", "10-11{ac sl} 11-12{ac}"),
    ("rw 10-13; seal 11-12", "10-11{ac} 11-12{ac sl} 12-13{ac}"),
    ("rw 10-14; seal 10-12; seal 12-14", "10-14{ac sl}"),
    ("rw 10-14; seal 11-12; seal 10-14; seal 10-14", "10-14{ac sl}"),
    ("rw 10-12; r 12-14; seal 11-13", "10-11{ac} 11-12{ac sl} 12-13{sl} 13-14{}"),
    // Any hole: nothing is changed.
    ("rw 10-12; seal 10-13 !ENOMEM; seal 9-11 !ENOMEM", "10-12{ac}"),
    ("rw 10-12; rw 14-16; seal 10-16 !ENOMEM; seal 20-22 !ENOMEM", "10-12{ac} 14-16{ac}"),
    // What it blocks.
    ("rw 10-12; seal 10-12; u 10-12 !EPERM; u 11-12 !EPERM; p-r 10-12 !EPERM; rw 10-12 !EPERM", "10-12{ac sl}"),
    ("rw 10-12; seal 10-12; mv 10-12 20 !EPERM; size 10-12 1 !EPERM; size 10-12 3 !EPERM; mremap @10 2p 3p 1 !EPERM", "10-12{ac sl}"),
    ("rw 10-12; seal 10-12; pkey_mprotect @10 1p r -1 !EPERM; rw 20-22; mv 20-22 11 !EPERM", "10-12{ac sl} 20-22{ac}"),
    ("rw 10-12; seal 10-12; rw 12-14", "10-12{ac sl} 12-14{ac}"),
    // What it does not.
    ("rw 10-12; seal 10-12; lock 10-12; unlock 10-12; lock 10-11", "10-11{lo ac sl} 11-12{ac sl}"),
    ("rw 10-12; seal 10-12; dont-dump 10-11; local 11-12; t 10-12", "10-11{ac dd sl} 11-12{ac sl}"),
    ("rw 10-12; seal 10-12; fork; u 10-12 !EPERM", "10-12{ac sl}"),
    ("rw 10-12; seal 10-12; dont-fork 10-12; fork", ""),
    ("rw 10-12; seal 10-12; rw+noreplace 10-12 !EEXIST; munmap @10 0 !EINVAL; p-r 12-13 !ENOMEM", "10-12"),
    ("rw+growsdown 600-602; seal 600-602", "600-602{gd ac sl}"),
];
