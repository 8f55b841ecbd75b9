//! Calls with two errors at once: which one the kernel reports.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // mmap.
    ("rw 10-12; seal 10-12; mdwe; rwx 10-12 !EACCES; rw 10-12 !EPERM", "10-12"),
    ("rw 10-12; seal 10-12; rw+shared 10-12 ro !EACCES; r 10-12 wo !EACCES; r 10-12 dir !ENODEV; r 10-12 nofile !EBADF", "10-12"),
    ("rw 10-12; seal 10-12; limit data +0; rw 10-14 !EPERM; mmap @10 0 rw private|anon|fixed !EINVAL", "10-12"),
    ("nocaps; rw 10-12; limit locked 0; limit as +0; rw+locked 20-22 !EPERM; rw 20-22 !ENOMEM", "10-12"),
    ("nocaps; limit locked +1; limit as +0; rw+locked 20-22 !EAGAIN; rw+locked 20-21 !ENOMEM", ""),
    ("nocaps; limit locked +1; r+locked+shared 10-12 wo !EAGAIN; r+locked+shared 10-12 dir !EAGAIN; r+locked+shared 10-12 nofile !EBADF", ""),
    ("nocaps; limit locked 0; mmap 0 1p none private|anon|fixed|locked !EPERM; mmap top 1p none private|anon|fixed|locked !ENOMEM", ""),
    ("mmap @10+1 1p r private|fixed dir !EINVAL; mmap top 1p r private|fixed dir !ENOMEM; mmap @10 1p r private|growsdown|fixed dir !ENODEV", ""),
    ("mmap @10 1p rx private|fixed wo !EACCES; mmap @10 1p rwx shared|fixed sealed !EPERM; mdwe; mmap @10 1p rwx shared|fixed ro !EACCES", ""),
    ("mmap @10 1p rw validate|sync|fixed sealed !EOPNOTSUPP; mmap @10 1p rw shared|growsdown|fixed sealed !EINVAL", ""),
    ("mdwe; mmap @10 1p rwx shared|anon|fixed !EACCES; mmap @10 1p rwx shared|growsdown|anon|fixed !EINVAL", ""),
    // mprotect.
    ("rw 10-12; seal 10-12; mdwe; p-rx 10-12 !EACCES; p-rwx 10-12 !EACCES; p-r 10-12 !EPERM", "10-12:rw"),
    ("rw 10-12; r+shared 12-14 ro; mdwe; p-rwx 10-14 !EACCES; p-rw 12-14 !EACCES", "10-12:rw 12-14:rs"),
    ("r 10-12; seal 10-12; limit data +0; p-rw 10-12 !EPERM", "10-12:r"),
    ("r 10-12; mdwe; limit data +0; p-rwx 10-12 !EACCES; p-rw 10-12 !ENOMEM", "10-12:r"),
    ("rw 10-12; mprotect @10+1 max 0xff !EINVAL; mprotect @10 1p 0x30000ff !EINVAL; mprotect @20 1p 0xff !EINVAL; pkey_mprotect @20 1p r 5 !EINVAL", "10-12"),
    // mremap.
    ("nocaps; rw+locked 10-12; limit locked 0; limit as +0; size 10-12 4 !EAGAIN; resize 10-12 4 20 !EAGAIN", "10-12"),
    ("rw 10-12; seal 10-12; mremap @10 0 1p 1 !EPERM; mremap @10 4p 5p 1 !EPERM; mremap @10 4p 4p 3 @11 !EINVAL", "10-12"),
    ("rw 10-12; rw 20-22; seal 20-22; limit as +0; resize 10-12 3 20 !ENOMEM; keep 10-12 20 !EPERM; mv 10-12 20 !EPERM", "10-12 20-22"),
    ("rw 20-22; seal 20-22; mv 10-12 20 !EFAULT; rw 10-11; resize 10-12 3 20 !EFAULT; resize 10-12 1 20 !EPERM", "10-11 20-22"),
    ("rw 10-12; seal 11-12; resize 10-12 1 20 !EPERM; rw 30-34; seal 32-33; resize 30-34 1 40 !EPERM", "10-11 11-12 30-31 31-32 32-33 33-34"),
    ("nocaps; rw 10-12; mremap @10 1p 1p 3 0 !EPERM; mremap @10 1p 2p 3 0 !EPERM; keep 10-12 20", "10-12 20-22"),
    ("nocaps; rw 10-12; limit as +0; mremap @10 1p 1p 7 0 !ENOMEM; mremap @10 1p 1p 3 0 !EPERM", "10-12"),
    // madvise, mlock, mseal, mbind, msync.
    ("r 10-12; seal 10-12; wipe-on-fork 10-12 !EPERM; dont-need 10-14 !EPERM; lock 10-12; dont-need 10-12 !EPERM; free 10-12 !EPERM", "10-12"),
    ("r+shared 10-12 f; seal 10-12; wipe-on-fork 10-12 !EINVAL; free 10-12 !EINVAL; remove 10-12", "10-12"),
    ("rw 10-11; r 12-13; seal 12-13; dont-need 10-14 !EPERM; free 8-13 !EPERM; guard-install 10-13 !EPERM", "10-11{gu ac} 12-13{sl}"),
    ("nocaps; limit locked 0; lock 50-52 !EPERM; mlock @50 max-1p+1 !EPERM; limit locked 0; rw 10-12; lock 10-14 !EPERM", "10-12"),
    ("nocaps; limit locked +1; lock 50-52 !ENOMEM; lock 50-51 !ENOMEM; rw 10-11; lock 10-12 !ENOMEM", "10-11{ac}"),
    
    // prctl: 65 is PR_SET_MDWE, 67 PR_SET_MEMORY_MERGE.
    ("prctl 65 0; prctl 65 2 !EINVAL; prctl 65 4 !EINVAL; prctl 65 1; prctl 65 1; prctl 65 3 !EPERM; prctl 65 0 !EPERM; rwx 10-12 !EACCES", ""),
    ("prctl 65 3; rwx 10-12 !EACCES; fork; rwx 10-12", "10-12:rwx"),
    ("mdwe; rwx+growsdown 600-602 !EACCES; rx 10-12; size 10-12 4; mv 10-14 20; keep 20-24 30", "20-24:rx 30-34:rx"),
    ("merge-pages; rw 10-12; mv 10-12 20; size 20-22 4; rw 24-26", "20-26{ac mg}"),
    ("merge-pages; rw 10-12; p-r 10-12; r 12-14; rw+growsdown 600-602; t 599-600; rw+stack 20-22", "10-14{mg} 20-22{ac nh mg} 599-602{gd ac mg}"),
    ("rw 10-12; rw 14-16; unmergeable 10-12; merge-pages; prctl 67 1; rw 12-14", "10-16{ac mg}"),
    ("prctl 66 = 0; mdwe; prctl 66 = 1; prctl 68 = 0; merge-pages; prctl 68 = 1; fork; prctl 66 = 1; prctl 68 = 1", ""),
    ("prctl 66 1 !EINVAL; prctl 68 1 !EINVAL; prctl 65 1 1 !EINVAL; prctl 67 1 1 !EINVAL; prctl 65 0x100000001 !EINVAL", ""),
];
