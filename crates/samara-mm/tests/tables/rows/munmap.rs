//! munmap.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // Bad ranges.
    ("rw 10-12; munmap @10+1 1p !EINVAL; munmap @10 0 !EINVAL; munmap @10 max !EINVAL", "10-12"),
    ("munmap top 1p !EINVAL; munmap top+1p 1p !EINVAL; munmap max-1p+1 1p !EINVAL", ""),
    ("munmap @10 top !EINVAL; munmap top 0 !EINVAL; munmap top-1p 2p !EINVAL; munmap @10 max-1p+1 !EINVAL", ""),
    // Nothing there is nothing wrong.
    ("u 10-12; munmap top-1p 0x1000 = 0", ""),
    ("rw 10-12; u 20-22; u 8-10; u 12-14", "10-12"),
    // Parts and wholes.
    ("rw 10-14; u 10-14", ""),
    ("rw 10-14; u 10-12", "12-14"),
    ("rw 10-14; u 12-14", "10-12"),
    ("rw 10-14; u 11-12", "10-11 12-14"),
    ("rw 10-14; munmap @11 1", "10-11 12-14"),
    ("rw 10-12; r 12-14; u 11-13", "10-11:rw 13-14:r"),
    ("rw 10-12; r 14-16; none 18-20; u 11-19", "10-11 19-20"),
    ("rw 10-12; r 14-16; u 8-20", ""),
    ("rw 10-14; u 11-12; rw 11-12", "10-14"),
    ("rw 10-14; t 10-14; u 11-12; rw 11-12", "10-14"),
    // Sealed: nothing is removed, but the cut at the start may stay.
    ("rw 10-14; seal 12-13; u 10-14 !EPERM", "10-12 12-13{ac sl} 13-14"),
    ("rw 10-14; r 14-16; seal 14-16; u 12-15 !EPERM", "10-12 12-14 14-16"),
    ("rw 10-14; seal 10-12; u 11-13 !EPERM", "10-12 12-14"),
    ("rw 10-14; seal 12-14; u 11-13 !EPERM", "10-11 11-12 12-14"),
    ("rw 10-14; seal 10-12; u 12-14", "10-12"),
];
