//! vm.max_map_count: calls on a process that has as many areas as it may have.

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
    ("room 12; rw 10-11; r 11-12; rw 12-13; keep 10-13 100", "10-11 11-12 12-13 100-101 101-102 102-103"),
    ("room 11; rw 10-11; r 11-12; rw 12-13; keep 10-13 100", "10-11 11-12 12-13 100-101 101-102 102-103"),
    ("room 10; rw 10-11; r 11-12; rw 12-13; keep 10-13 100", "10-11 11-12 12-13 100-101 101-102 102-103"),
    ("room 9; rw 10-11; r 11-12; rw 12-13; keep 10-13 100", "10-11 11-12 12-13 100-101 101-102 102-103"),
    ("room 8; rw 10-11; r 11-12; rw 12-13; keep 10-13 100 !ENOMEM", "10-11 11-12 12-13"),
    ("room 9; rw 10-11; r 11-12; rw 12-13; mv 10-13 100", "100-101 101-102 102-103"),
    ("room 9; rw 10-13; r 20-21; rw 21-30; mv 11-12 22", "10-11 12-13 20-21 21-30"),
    ("room 8; rw 10-13; r 20-21; dup 20 1 30 !EINVAL", "10-13 20-21"),
    ("room 7; r+shared 10-11 f; rw 20-21; dup 10 1 30 !ENOMEM; mremap @10 0 1p 1 = away; munmap last 1p", "10-11 20-21"),
    ("room 9; rw 10-14; r 14-15; mv 11-15 100", "10-11 100-103 103-104"),
    ("room 7; rw 10-14; mv 11-12 100; mv 100-101 11 !ENOMEM", "10-11 12-14 100-101"),
    ("room 10; rw 10-11; r 11-12; rw 12-13; r 13-14; keep 10-14 100 !ENOMEM", "10-11 11-12 12-13 13-14 100-101 101-102 102-103"),
    ("room 12; rw 10-11; r 11-12; rw 12-13; r 13-14; rw 14-15; r 103-106; keep 10-15 100 !ENOMEM", "10-11 11-12 12-13 13-14 14-15 100-101 101-102 102-103 104-106"),
    ("room 6; rw 10-14; mv 11-12 100 !ENOMEM; keep 11-12 100 !ENOMEM; mremap @11 1p 1p 5 0 !ENOMEM", "10-14"),
    // brk: as mmap.
    ("room 2; rw 10-11; rw 12-13; brk @h2 = @h2; brk @h3 = @h2; brk @h1 = @h1", "10-11 12-13 h0-h1"),
    ("room 2; brk @h2 = @h2; rw 10-11; brk @h3 = @h3; rw 12-13; brk @h4 = @h3", "10-11 12-13 h0-h3"),
    // madvise.
    ("room 3; rw 10-20; rw 30-31; dont-fork 12-14 !EAGAIN", "10-12 12-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; guard-install 12-14; dont-need 12-14", "10-20 30-31"),
    // mlock.
    ("room 2; rw 10-20; rw 30-31; lock 12-14 !ENOMEM; lock 10-20", "10-20 30-31"),
    // mbind; and mseal, at the end: sealed areas stay, in the way of later rows.
    ("room 2; rw 10-20; rw 30-31; local 12-20 !ENOMEM; local 30-31", "10-20 30-31"),
    ("room 4; rw 10-20; rw 30-31; bind 10-20; set_mempolicy_home_node 12-14; set_mempolicy_home_node 15-16 !ENOMEM; set_mempolicy_home_node 19-20 !ENOMEM; set_mempolicy_home_node 10-20", "10-20 30-31"),
    ("room 2; rw 10-20; rw 30-31; seal 10-12 !ENOMEM; seal 18-20 !ENOMEM; seal 10-20", "10-20 30-31"),
];
