//! mmap without a fixed address, with a hint and without. (tests/placement.rs predicts the exact
//! addresses.)

pub(crate) const ROWS: &[(&str, &str)] = &[
    // A wish that is free is granted, from its page on.
    ("mmap @10 1p rw private|anon = @10", "10-11"),
    ("mmap @10+0x123 1p rw private|anon = @10", "10-11"),
    ("rw 10-11; mmap @10 1p r private|anon = away", "10-11"),
    ("rw 11-12; mmap @10 2p r private|anon = away; mmap @10 1p r private|anon = @10", "10-11:r 11-12:rw"),
    ("mmap @10 1p r shared f = @10; mmap @12 1p rw shared|anon = @12", "10-11 12-13"),
    ("mmap top 1p r private|anon = away; mmap max 1p r private|anon = away", ""),
    ("mmap top-1p 2p r private|anon = away", ""),
    ("mmap 0x123 1p r private|anon = away", ""),
    // One that is too low is raised.
    ("mmap least-1p 1p r private|anon = least; munmap least 1p", ""),
    ("mmap least 1p r private|anon = least; munmap least 1p", ""),
    ("mmap 0x7fffffffe000 1p r private|anon = 0x7fffffffe000; munmap last 1p; mmap 0x7ffffffff000 1p r private|anon = away; mmap 0x800000000000 1p r private|anon = away", ""),
    // Below what grows down, 256 pages are kept free, but not from fixed maps.
    ("rw+growsdown 600-602; mmap @343 1p r private|anon = @343", "343-344 600-602"),
    ("rw+growsdown 600-602; mmap @344 1p r private|anon = away", "600-602"),
    ("rw+growsdown 600-602; mmap @342 2p r private|anon = @342", "342-344 600-602"),
    ("rw+growsdown 600-602; mmap @343 2p r private|anon = away", "600-602"),
    ("rw+growsdown 600-602; mmap @602 1p r private|anon = @602", "600-602 602-603"),
    ("rw+growsdown 600-602; r 599-600; mmap @598 1p none private|anon|noreplace = @598", "598-599 599-600 600-602"),
    ("rw+growsdown 600-602; rw 590-592; size 590-592 10", "590-600 600-602"),
    ("rw+growsdown 600-602; rw 500-501; mv 500-501 599", "599-600 600-602"),
    // Whole huge pages lie at such.
    ("mmap 0 0x200000 none private|anon = huge", ""),
    ("mmap 0 0x400000 none private|anon = huge", ""),
    ("mmap 0 0x200000 rw private|anon|noreserve = huge", ""),
    // The lower 2 GiB.
    ("mmap 0 1p none private|anon|32bit = low", ""),
    ("mmap 0 0x200000 none private|anon|32bit = huge", ""),
    ("mmap 0 0x80000000 none private|anon|32bit !ENOMEM", ""),
    ("mmap @10 1p none private|anon|32bit = low", ""),
    ("mmap @10 1p none private|anon|32bit|fixed = @10", "10-11"),
    ("mmap 0x50000000 1p none private|anon|32bit = 0x50000000; mmap 0x20000123 1p none private|anon|32bit = 0x20000000; mmap 0x7ffff000 2p none private|anon|32bit = low", ""),
    // A gap that has no room for one huge page more is taken as it is.
    ("mmap 0x40000000 0x20001000 none private|anon|fixed|noreserve; mmap 0x60201000 0x1fdff000 none private|anon|fixed|noreserve; mmap 0 0x200000 none private|anon|32bit|noreserve = 0x60001000; mmap 0 1p none private|anon|32bit !ENOMEM", ""),
    // No gap is wide enough.
    ("mmap 0 0x7ffffffff000 none private|anon|noreserve !ENOMEM", ""),
    ("mmap 0 1p none private|anon|above4g = away", ""),
    ("mmap @10 1p none private|anon|above4g = @10; mmap least 1p none private|anon|above4g = least", "10-11"),
];
