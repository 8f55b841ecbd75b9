//! PROCMAP_QUERY on `/proc/PID/maps`. (The text of maps and smaps is compared to the byte in
//! tests/process.)

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("rw 10-12; query @10 0 = @10; query @11+5 0 = @10; query @9 0 !ENOENT; query @12 0 !ENOENT", "10-12"),
    // Flags: 1 readable, 2 writable, 4 executable, 8 shared, 0x10 or the next one, 0x20 with a
    // file.
    ("rw 10-12; query @9 0x10 = @10; query @10 0x10 = @10; query 0 0x11 = @10", "10-12"),
    ("rw 10-12; query @10 1 = @10; query @10 3 = @10; query @10 4 !ENOENT; query @10 8 !ENOENT; query @10 0x20 !ENOENT", "10-12"),
    ("none 10-12; rw 12-14; rx 14-16; query @10 0x11 = @12; query @10 0x14 = @14; query @10 1 !ENOENT", "10-12 12-14 14-16"),
    ("rw 10-12; r 12-14 f 3; rw+shared 14-16; query @10 0x30 = @12; query @10 0x38 = @14; query @12 0x20 = @12", "10-12 12-14 14-16"),
    ("r+shared 10-12 ro; query @10 8 = @10; query @10 9 = @10; query @10 10 !ENOENT", "10-12"),
    ("rw 10-12; query @10 0x40 !EINVAL; query @10 0x80000000 !EINVAL; query @9 0x100 !EINVAL", "10-12"),
    // The size of its structure.
    ("rw 10-12; query @10 0 24 = 0; query @10 0 23 !EINVAL; query @10 0 0 !EINVAL; query @10 0 64 = @10", "10-12"),
    ("rw 10-12; query @10 0 112 = @10; query @10 0 4097 !E2BIG; query @10 0 max !E2BIG", "10-12"),
    // A size for the name without an address, and an address without a size.
    ("rw 10-12; query @10 0 104 9 0 !EINVAL; query @10 0 104 0 word !EINVAL; query @10 0 104 9 word = @10", "10-12"),
    ("r 10-12 f; query @10 0 104 4 word !ENAMETOOLONG; query @10 0 104 1 word !ENAMETOOLONG", "10-12"),
    // Nothing behind user space is seen.
    ("query 0xffffffffff600000 0 !ENOENT; query 0xffffffffff600000 0x10 !ENOENT; query max 0x10 !ENOENT; query top 0 !ENOENT", ""),
    ("query @v0 0 = @v0; query @v6 4 = @v6; query @v0 4 !ENOENT; query @v0 0x20 !ENOENT", "v0-v4 v4-v6 v6-v8"),
];
