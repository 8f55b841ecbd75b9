//! Limits and promised memory.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // All of it (RLIMIT_AS).
    ("limit as +2; rw 10-13 !ENOMEM; none 10-13 !ENOMEM; rw 10-12; none 20-21 !ENOMEM", "10-12"),
    ("rw 10-12; limit as +0; r 10-12; r 11-13 !ENOMEM", "10-11 11-12"),
    ("r 10-20; none 30-34; limit as +0; rw 12-14; rw 18-24 !ENOMEM", "10-12:r 12-14:rw 14-18:r 18-20:r 30-34:none"),
    ("rw 10-12; limit as +1; size 10-12 4 !ENOMEM; size 10-12 3; mv 10-13 50; keep 50-53 80 !ENOMEM", "50-53"),
    ("rw 10-14; r 50-51; limit as +1; resize 10-14 8 50 !ENOMEM", "10-14:rw 50-51:r"),
    ("rw 10-14; r 50-51; limit as +1; keep 10-14 50 !ENOMEM", "10-14:rw"),
    ("rw 10-14; limit as +1; mremap @10 4p 8p 1 !ENOMEM; mremap @10 4p 5p 1 = @10", "10-15"),
    ("r+shared 10-14 f; limit as +1; dup 10 2 50 !ENOMEM; dup 10 1 50", "10-14 50-51"),
    ("rw 10-14; seal 10-12; limit as +0; r 10-16 !EPERM", "10-12 12-14"),
    ("rw 10-14; limit as 1; p-r 10-12; u 12-14; rw 10-11 !ENOMEM", "10-11:r 11-12:r"),
    ("limit as +2; mmap 0 2p r private|anon = away; mmap 0 1p r private|anon !ENOMEM", ""),
    // Private and writable (RLIMIT_DATA).
    ("limit data +2; rw 10-13 !ENOMEM; rw 10-12; rwx 20-21 !ENOMEM; r 30-40; rw+shared 40-50; rw+growsdown 50-52", "10-12 30-40 40-50 50-52"),
    ("limit data +2; rw 10-13 f !ENOMEM; w 10-12 f; w 20-21 !ENOMEM", "10-12:w"),
    ("rw 10-20; limit data +0; rwx 12-14; rwx 19-21 !ENOMEM; r 40-44; rw 40-44", "10-12 12-14 14-19 19-20 40-44"),
    ("r 10-20; limit data +1; p-rw 10-20 !ENOMEM; p-rw 12-16 !ENOMEM; p-rw 10-11; p-rw 11-12 !ENOMEM", "10-11:rw 11-20:r"),
    ("r 10-12; rx 12-14; limit data +2; p-rw 10-14 !ENOMEM", "10-12:rw 12-14:rx"),
    ("r 10-12; limit data +2; p-rw 10-12; p-r 10-12; p-rw 10-12", "10-12:rw"),
    ("rw 10-12; limit data +0; size 10-12 4 !ENOMEM; mv 10-12 20; p-r 20-22; rw 30-32", "20-22:r 30-32:rw"),
    ("r 10-20; limit data +1; limit as 1; p-rw 12-17", "10-12:r 12-17:rw 17-20:r"),
    ("limit data 0; rw 10-11 !ENOMEM; r 10-11", "10-11"),
    ("limit soft-data 0; rw 10-11; p-rwx 10-11", "10-11:rwx"),
    // Promised memory: only a call that asks for more than there is.
    ("guess; mmap @10 0x10000000000 rw private|anon|fixed !ENOMEM", ""),
    ("guess; mmap @10 0x10000000000 rw shared|anon|fixed !ENOMEM", ""),
    ("guess; mmap @10 0x10000000000 r private|anon|fixed; mprotect @10 0x10000000000 rw !ENOMEM; munmap @10 0x10000000000", ""),
    ("guess; mmap @10 0x10000000000 rw private|anon|fixed|noreserve; munmap @10 0x10000000000", ""),
    ("guess; rw 10-12; mmap @10 0x10000000000 rw shared|anon|fixed !ENOMEM", ""),
    ("guess; r 10-12; mmap @11 0x10000000000 rw private|anon|fixed !ENOMEM", "10-11 11-12"),
    ("guess; rw 10-12; mremap @10 2p 0x10000000000 0 !ENOMEM; mremap @10 2p 0x10000000000 1 !ENOMEM", "10-12"),
    ("guess; rw+shared 10-12; mremap @10 2p 0x10000000000 0; munmap @10 0x10000000000", ""),
];
