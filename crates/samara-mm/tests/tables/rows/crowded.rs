//! As many areas as there may be.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // Changes of a part: no cut, or only the first one.
    ("room 3; rw 10-20; rw 30-31; p-r 12-14 !ENOMEM", "10-12 12-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; p-r 12-14 !ENOMEM", "10-20 30-31"),
    ("room 3; rw 10-20; rw 30-31; dont-dump 12-14 !EAGAIN", "10-12 12-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; dont-dump 12-14 !EAGAIN", "10-20 30-31"),
    ("room 3; rw 10-20; rw 30-31; lock 12-14 !ENOMEM", "10-12 12-20 30-31"),
    ("room 3; rw 10-20; rw 30-31; seal 12-14 !ENOMEM", "10-12 12-20 30-31"),
    ("room 3; rw 10-20; rw 30-31; local 12-14 !ENOMEM", "10-12 12-20 30-31"),
    ("room 2; rw 10-20; r 20-22; p-r 18-20", "10-18:rw 18-22:r"),
    ("room 2; rw 10-20; r 20-22; p-r 10-12 !ENOMEM", "10-20:rw 20-22:r"),
    ("room 2; rw 10-20; r 20-22; p-r 10-20", "10-22:r"),
    ("room 2; rw 10-20; rw 30-31; p-r 10-20", "10-20:r 30-31:rw"),
    ("room 2; rw 10-20; rw 30-31; p-rw 12-14", "10-20 30-31"),
    // mmap: one more than the limit, and no more.
    ("room 2; rw 10-11; rw 12-13; rw 14-15; rw 16-17 !ENOMEM", "10-11 12-13 14-15"),
    ("room 2; rw 10-11; rw 12-13; rw 14-15; rw 15-16 !ENOMEM; rw 10-11 !ENOMEM", "10-11 12-13 14-15"),
    ("room 2; rw 10-20; rw 30-31; r 12-14 !ENOMEM", "10-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; r 12-20", "10-12 12-20 30-31"),
    ("room 1; rw 10-20; mmap @14 0 rw private|anon|fixed !EINVAL; r 14-15 !ENOMEM", "10-20"),
    // munmap: no hole in an area.
    ("room 2; rw 10-20; rw 30-31; u 12-14 !ENOMEM", "10-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; u 12-20", "10-12 30-31"),
    ("room 2; rw 10-20; rw 30-31; u 10-12", "12-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; u 10-20", "30-31"),
    ("room 1; rw 10-20; rw 30-31; u 12-14 !ENOMEM; u 10-12; u 18-20; u 30-31", "12-18"),
    ("room 3; rw 10-20; rw 30-31; u 12-14", "10-12 14-20 30-31"),
    ("room 2; rw 10-12; rw 12-20 f; u 11-14", "10-11 14-20"),
    // mremap: room for six where the place is given, for four where the kernel picks it.
    ("room 7; rw 10-12; rw 30-31; mv 10-12 20 !ENOMEM", "10-12 30-31"),
    ("room 8; rw 10-12; rw 30-31; mv 10-12 20", "20-22 30-31"),
    ("room 5; rw 10-12; r 12-13; mremap @10 2p 4p 1 !ENOMEM", "10-12 12-13"),
    ("room 6; rw 10-12; r 12-13; mremap @10 2p 4p 1 = away; munmap last 4p", "12-13"),
    ("room 2; rw 10-12; rw 30-31; size 10-12 4; size 10-14 1", "10-11 30-31"),
    // madvise.
    ("room 3; rw 10-20; rw 30-31; dont-fork 12-14 !EAGAIN", "10-12 12-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; guard-install 12-14; dont-need 12-14", "10-20 30-31"),
    // mlock.
    ("room 2; rw 10-20; rw 30-31; lock 12-14 !ENOMEM; lock 10-20", "10-20 30-31"),
    // mbind; and mseal, at the end: what is sealed stays, in the way of any row behind it.
    ("room 2; rw 10-20; rw 30-31; local 12-20 !ENOMEM; local 30-31", "10-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; seal 10-12 !ENOMEM; seal 18-20 !ENOMEM; seal 10-20", "10-20 30-31"),
];
