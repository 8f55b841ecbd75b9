//! Memory in huge pages: 512 pages each. NORESERVE asks for none of them; there are none.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // What it is, and what it asks for. What is refused for want of pages leaves a hole.
    ("huge; rw+hugetlb+noreserve 0-512", "0-512:rw@0[rd wr mr mw me de nr ht]"),
    ("huge; rw+hugetlb+noreserve+shared 0-512; none+hugetlb+noreserve+validate 512-1024", "0-512:rws@0[rd wr sh mr mw me ms de nr ht] 512-1024:nones@0"),
    ("huge; rw 0-2048; rw+hugetlb 512-1024 !ENOMEM; none+hugetlb 512-1024 !ENOMEM; rw+hugetlb+shared 1024-1536 !ENOMEM", "0-512 1536-2048"),
    ("huge; rw 0-2048; mmap @512 512p rw private|anon|fixed|hugetlb|noreserve -1 1p !EINVAL", "0-512 1024-2048"),
    ("huge; mmap @0 1p rw private|anon|hugetlb|noreserve|noreplace; mmap @0 1p rw private|anon|hugetlb|noreserve|noreplace !EEXIST", "0-512"),
    // Sizes.
    ("huge; rw+hugetlb+noreserve+2mb 0-1; rw+hugetlb+noreserve+4mb 512-513 !EINVAL; rw+hugetlb+noreserve+1gb 512-513 !EINVAL", "0-512"),
    ("huge; rw+hugetlb+noreserve+1gb 0-1; u 0-512 !EINVAL; p-r 512-1024 !EINVAL; dont-need 512-1024 !EINVAL; query @513 0 = @0", "0-262144{de nr ht}"),
    ("huge; mmap @0 1p rw 0x804064032 !EINVAL; mmap @0 1p rw 0x900044032 -1 0; mmap @512 1p rw 0xfc044032 !EINVAL", "0-512"),
    // Lengths are rounded up; places are not.
    ("huge; rw+hugetlb+noreserve 0-1; rw+hugetlb+noreserve 512-1025", "0-512 512-1536"),
    ("huge; rw+hugetlb+noreserve 1-512 !EINVAL; mmap @512+1 1p rw private|anon|fixed|hugetlb|noreserve !EINVAL; mmap @1 1p rw private|anon|noreplace|hugetlb|noreserve !EINVAL", ""),
    ("mmap @0 0 rw private|anon|fixed|hugetlb|noreserve !EINVAL; mmap @0 max rw private|anon|fixed|hugetlb|noreserve !EINVAL; mmap @0 max-1p rw private|anon|fixed|hugetlb|noreserve !EINVAL", ""),
    ("huge; mmap @0 max-512p rw private|anon|fixed|hugetlb|noreserve !ENOMEM; mmap 0 max-600p rw private|anon|hugetlb|noreserve !ENOMEM; mmap @1 top+1p rw private|anon|fixed|hugetlb|noreserve !ENOMEM", ""),
    ("huge; mmap top+1p-512p 1p rw private|anon|fixed|hugetlb|noreserve !ENOMEM; mmap top-1p 1p rw private|anon|fixed|hugetlb|noreserve !EINVAL; mmap max-1p+1 1p rw private|anon|fixed|hugetlb|noreserve !EINVAL", ""),
    // Flags, protection, types: those of a file.
    ("huge; rwx+hugetlb+noreserve 0-1; x+hugetlb+noreserve 512-513; rw+hugetlb+noreserve+stack 1024-1025", "0-512:rwx 512-1024:x 1024-1536{de nr ht nh}"),
    ("huge; rw+hugetlb+noreserve+sync 0-1; rw+hugetlb+noreserve+sync+validate 512-513 !EOPNOTSUPP; rw+hugetlb+noreserve+validate+unknown 512-513 !EOPNOTSUPP", "0-512{de nr ht sf}"),
    ("huge; rw+hugetlb+noreserve+growsdown 0-1 !EINVAL; rw+hugetlb+noreserve+growsdown+shared 0-1 !EINVAL; rw+hugetlb+noreserve+droppable 0-1 !EINVAL; mmap @0 1p rw anon|fixed|hugetlb|noreserve !EINVAL", ""),
    ("huge; rw+hugetlb+noreserve+locked 0-1; future; rw+hugetlb+noreserve 512-513", "0-512{de nr ht} 512-1024{de nr ht}"),
    ("huge; reads-execute; r+hugetlb+noreserve 0-1; mdwe; rwx+hugetlb+noreserve 512-513 !EACCES; p-rw 0-512 !EACCES", "0-512:rx"),
    // Nothing joins.
    ("huge; rw+hugetlb+noreserve 0-512; rw+hugetlb+noreserve 512-1024; p-r 0-1024; p-r 0-512", "0-512 512-1024"),
    ("huge; rw+hugetlb+noreserve 0-1024; p-r 0-512; p-rw 0-512; merge-pages; mergeable 0-1024", "0-512:rw@0{de nr ht} 512-1024:rw@512{de nr ht}"),
    ("huge; rw+noreserve+shared 0-512 huge-file 0; rw+noreserve+shared 512-1024 huge-file 512", "0-512@0 512-1024@512"),
    // Files: MAP_HUGETLB means nothing to those that have huge pages, nor does a size; to others it
    // is refused.
    ("huge; rw+noreserve 0-1 huge-file; rw+noreserve+shared+hugetlb 512-513 huge-file 1024; rw+noreserve+hugetlb+1gb 1024-1025 huge-file", "0-512:rw@0{de nr ht} 512-1024:rws@1024{de nr ht} 1024-1536"),
    ("rw+hugetlb+noreserve 0-1 f !EINVAL; r+hugetlb 0-1 nofile !EBADF; mmap @0 0 r private|fixed|hugetlb f !EINVAL; r+hugetlb+noreserve 0-1 zero !EINVAL", ""),
    ("huge; rw 0-2048; rw+noreserve 0-512 huge-file 1 !EINVAL; rw 512-1024 huge-file !ENOMEM; r+shared 1024-1025 huge-file !ENOMEM; rw+noreserve 1-2 huge-file !EINVAL", "1536-2048"),
    ("huge; r+noreserve+shared 0-1 huge-ro; rw+noreserve+shared 512-513 huge-ro 1 !EACCES; rw+noreserve 512-513 huge-ro; p-rw 0-512 !EACCES", "0-512[rd mr me ms de nr ht] 512-1024[rd wr mr mw me de nr ht]"),
    ("huge; mmap @0 512p r shared|fixed|noreserve huge-file 0x7fffffffffe00000 !EOVERFLOW; mmap @0 512p r shared|fixed|noreserve huge-file 0x7fffffffffc00000; mmap @512 1p r private|anon|hugetlb|fixed|noreserve -1 0x7fffffffffe00000 !EOVERFLOW", "0-512@2251799813684224"),
    ("huge; mmap @0 512p rw private|anon|fixed|hugetlb|noreserve -1 1024p; mmap @512 1p r private|anon|fixed|hugetlb|noreserve -1 5 !EINVAL", "0-512@1024"),
    // Parts of a huge page: no cut. A first cut stays.
    ("huge; rw+hugetlb+noreserve 0-2048; u 513-1024 !EINVAL; u 0-513 !EINVAL; u 512-513 !EINVAL", "0-512@0 512-2048@512"),
    ("huge; rw+hugetlb+noreserve 0-2048; u 512-1025 !EINVAL", "0-512@0 512-2048@512"),
    ("huge; rw+hugetlb+noreserve 0-2048; u 512-1024; u 0-1 !EINVAL; u 0-512", "1024-2048@1024"),
    ("huge; rw+hugetlb+noreserve 0-1024; rw+hugetlb+noreserve 1024-2048; rw 512-1025 !EINVAL; rw 1-2 !EINVAL; rw 512-1536", "0-512 512-1536:rw{ac} 1536-2048@512"),
    ("huge; rw 0-512; rw+hugetlb+noreserve 512-1024; u 10-513 !EINVAL", "0-10 10-512 512-1024"),
    ("huge; rw+hugetlb+noreserve 0-1024; seal 512-1024; u 0-513 !EPERM; u 1-1024 !EINVAL; rw+hugetlb+noreserve 0-1024 !EPERM", "0-512 512-1024{de nr ht sl}"),
    ("huge; rw+hugetlb+noreserve 0-2048; p-r 0-1 !EINVAL; p-r 1-512 !EINVAL; p-r 0-512; p-r 0-1; p-none 1-2 !EINVAL; p-r 1024-1537 !EINVAL", "0-512:r 512-1024:rw 1024-2048:rw"),
    ("huge; rw+hugetlb+noreserve 0-1024; seal 0-1 !EINVAL; seal 0-512; seal 5-10; seal 512-600 !EINVAL; p-r 0-1 !EPERM; u 0-1 !EPERM; p-r 512-1024", "0-512:rw{de nr ht sl} 512-1024:r"),
    ("huge; rw+hugetlb+noreserve 0-1024; local 0-1 !EINVAL; local 512-1024; local 600-601; default 0-1; bind 512-513 !EINVAL", "0-512 512-1024"),
    ("huge; room 3; rw+hugetlb+noreserve 0-1024; p-r 0-512; p-none 5-6 !EINVAL; rw 1024-1025; p-none 5-6 !ENOMEM; random 512-513 !EAGAIN; random 0-512; u 5-6 !ENOMEM; u 0-1 !EINVAL", "0-512:r 512-1024:rw 1024-1025:rw"),
    // Advice.
    ("huge; rw+hugetlb+noreserve 0-2048; random 0-512; dont-fork 512-1024; dont-dump 1024-1536; sequential 3-4 !EINVAL; normal 3-4 !EINVAL; normal 512-600", "0-512{rr de nr ht} 512-1024{dc de nr ht} 1024-1536{de nr ht dd} 1536-2048{de nr ht}"),
    ("huge; rw+hugetlb+noreserve 0-2048; huge-page 0-512; no-huge-page 512-1024; huge-page 1024-1025 !EINVAL; dont-dump 1024-2048; do-dump 1024-2048", "0-512{de nr ht hg} 512-1024{de nr ht nh} 1024-2048{de nr ht}"),
    ("huge; rw 0-512; rw+hugetlb+noreserve 512-1024; dont-need 512-513; dont-need 513-1024 !EINVAL; dont-need 10-513; dont-need-locked 513-514 !EINVAL; dont-need-locked 512-600; dont-need 512-1025 !ENOMEM", "0-512 512-1024"),
    ("huge; rw+hugetlb+noreserve 0-512; free 0-512 !EINVAL; cold 0-512 !EINVAL; page-out 0-512 !EINVAL; collapse 0-512 !EINVAL; wipe-on-fork 0-512 !EINVAL; keep-on-fork 5-6; guard-install 0-512 !EINVAL; guard-remove 0-512 !EINVAL; will-need 1-2", "0-512{de nr ht}"),
    ("huge; rw+hugetlb+noreserve 0-512; rw+hugetlb+noreserve+shared 512-1024; remove 0-512 !EACCES; remove 513-514; populate-read 0-1 !EFAULT; populate-write 512-1024 !EFAULT; unmergeable 1-2", "0-512 512-1024{de nr ht}"),
    ("huge; r+hugetlb+noreserve 0-512; seal 0-512; dont-need 0-512; free 0-512 !EINVAL; dont-fork 0-512", "0-512{dc de nr ht sl}"),
    // Locks: passed over, but their pages are not there.
    ("huge; rw 0-1; rw+hugetlb+noreserve 512-1024; lock 512-513 !ENOMEM; onfault 512-513 !ENOMEM; unlock 513-514; rw 1024-1025; lock 512-1025 !ENOMEM", "0-1 512-1024{de nr ht} 1024-1025{lo ac}"),
    ("huge; rw+hugetlb+noreserve 0-512; mlockall 2; mlockall 1; msync @1 1p 2; msync @0 512p 4; mincore @1 5p word", "0-512{de nr ht}"),
    ("huge; nocaps; limit locked 600; rw+hugetlb+noreserve+locked 0-513 !EAGAIN; rw+hugetlb+noreserve+locked 0-1; rw+hugetlb+noreserve+locked 512-513", "0-512 512-1024"),
    // Limits: whole huge pages count; none is charged.
    ("huge; limit as +1024; rw+hugetlb+noreserve 0-1025 !ENOMEM; rw+hugetlb+noreserve 0-513; rw 1024-1025 !ENOMEM", "0-1024"),
    ("huge; limit data +1024; rw+hugetlb+noreserve 0-1025 !ENOMEM; rw+hugetlb+noreserve 0-513; r+hugetlb+noreserve 1024-1025; p-rw 1024-1536 !ENOMEM; rw+hugetlb+noreserve+shared 1536-1537", "0-1024 1024-1536:r 1536-2048"),
    ("huge; r+hugetlb+noreserve 0-512; p-rw 0-512; p-none 0-512", "0-512:none{de nr ht}"),
    // mremap: whole huge pages, and no more than there were.
    ("huge; rw+hugetlb+noreserve 0-2048; size 0-2048 1537; size 0-2048 1024; size 0-1024 1", "0-512"),
    ("huge; rw+hugetlb+noreserve 0-512; mremap @0 1p 2p 0 = @0; mremap @0 1p 512p 1 = @0; mremap @0 512p 513p 0 !EINVAL; mremap @0 512p 1024p 1 !EINVAL; mremap @1 1p 1p 0 !EINVAL; mremap @0 0 512p 1 !EINVAL", "0-512"),
    ("huge; rw+hugetlb+noreserve 0-512; mremap @0 1p 1p 0 1p !EINVAL; mremap @0 1p 1p 1 5 !EINVAL; mremap @0 1p 1p 0 512p = @0; rw 512-513; mremap @512 1p 1p 0 5 = @512; mremap @600 1p 1p 0 5 !EFAULT", "0-512 512-513"),
    ("huge; rw+hugetlb+noreserve 0-512; rw 512-1024; size 0-1024 600", "0-512 512-1024"),
    ("huge; rw+hugetlb+noreserve 0-512; rw 512-1024; size 0-513 1", "0-512"),
    ("huge; rw+hugetlb+noreserve 0-512; size 0-1024 1; size 0-1024 600; mremap @0 1024p 1024p 0 = @0", "0-512"),
    ("huge; rw 0-512; rw+hugetlb+noreserve 512-1024; size 0-513 1 !EINVAL; size 0-1024 1", "0-1"),
    ("huge; rw+hugetlb+noreserve 0-2048; mv 512-513 1025 !EINVAL; mv 513-514 1536 !EINVAL; mv 512-513 1536; mremap @0 1p 2p maymove|fixed @512", "512-1024@0 1024-1536@1024 1536-2048@512"),
    ("huge; rw+hugetlb+noreserve 0-1024; resize 0-1024 3 1536; keep 1536-2048 0 !EINVAL; resize 1536-1537 513 0 !EINVAL; dup 1536 512 0 !EINVAL", "1536-2048@0"),
    ("huge; rw+hugetlb+noreserve+shared 0-512; dup 0 512 1024 !EINVAL; keep 0-512 1024 !EINVAL; mremap @0 512p 512p 5 0 !EINVAL; mv 0-1 1024", "1024-1536:rws"),
    ("huge; rw+hugetlb+noreserve 0-512; rw 512-1024; seal 520-521; mv 0-1 512 !EPERM; seal 0-512; mremap @0 1p 1p 0 5 !EPERM; mremap @1 1p 9p 1 !EPERM", "0-512 512-520 520-521 521-1024"),
    ("huge; rw+hugetlb+noreserve 0-512; mremap @0 1p 1p maymove|fixed top+1p-512p !EINVAL; mremap @0 1p 1p maymove|fixed top-1p !EINVAL; mremap @0 1024p 1024p maymove|fixed @1024", "1024-1536"),
    ("huge; rw 0-512; mv 0-1 1024; rw+hugetlb+noreserve 512-1024; mv 1024-1025 513 !EINVAL; mv 1024-1025 512 !EINVAL", "1-512 512-1024 1024-1025"),
    // Several at once: each by its own rule.
    ("huge; rw 0-512; rw+hugetlb+noreserve 512-1024; mv 0-513 1024", "1024-1536:rw 1536-2048{de nr ht}"),
    ("huge; rw+hugetlb+noreserve 0-512; rw 512-600; mv 0-520 1024", "520-600 1024-1536{de nr ht} 1536-1544"),
    ("huge; rw 0-512; rw+hugetlb+noreserve 512-1024; mv 1-513 1024 !EINVAL", "0-1 512-1024 1024-1535"),
    ("huge; rw 100-512; rw+hugetlb+noreserve 512-1024; mv 400-600 1025 !EINVAL", "100-400 512-1024 1025-1137"),
    // userfaultfd.
    ("huge; rw+hugetlb+noreserve 0-1024; uffd 0-1 !EINVAL; uffd 1-512 !EINVAL; uffd 0-512; unuffd 0-1 !EINVAL; uffd-wp 512-1024", "0-512{um de nr ht} 512-1024{uw de nr ht}"),
    ("huge; rw+hugetlb+noreserve+shared 0-1024; uffd 512-1024; unuffd 512-1024; mv 512-1024 1024; uffd 1024-1536; mv 1024-1536 512", "0-512{de nr ht} 512-1024{de nr ht}"),
    ("huge; rw 0-512; rw+hugetlb+noreserve 512-1024; uffd 1-513 !EINVAL; uffd 1-512; unuffd 1-600; uffd 1-1024; unuffd 1-600 !EINVAL", "0-512{ac} 512-1024{um de nr ht}"),
    ("huge; rw+hugetlb+noreserve 512-1024; uffd 1-1024 !EINVAL; uffd 0-1024; uffd 512-1500; unuffd 1-1024 !EINVAL; unuffd 0-1024", "512-1024{de nr ht}"),
    // remap_file_pages, which rounds nothing, and asks for pages.
    ("huge; rw+hugetlb+noreserve+shared 0-2048; remap_file_pages @0 1p 0 1 !EINVAL; remap_file_pages @0 512p 0 1 !EINVAL; remap_file_pages @512 512p 0 512 !ENOMEM; remap_file_pages @1025 512p 0 0 !EINVAL", "1024-2048@1024"),
    // Segments: their pages were asked for when they were made.
    ("huge; shmat huge-segment @0 0 = @0; shmat huge-segment @1 0 !EINVAL; shmat huge-segment @1025 0x2000 !EINVAL; shmat huge-segment @512 0 !EINVAL; shmat huge-segment @0 0x4000 = @0", "0-1024:rws@0{de ht}"),
    ("huge; shmat huge-segment @0 0x1000; remap_file_pages @0 512p 0 512 !EINVAL; u 0-1 !EINVAL; u 0-512; shmdt @0", ""),
    ("huge; shmat huge-segment @0 0; remap_file_pages @0 512p 0 512; rw 1100-1101; shmat huge-segment @1024 0 !EINVAL; shmdt @0", "0-512@512 1100-1101"),
    ("huge; shmat huge-segment 0 0 = huge", ""),
    // Other segments move one at a time.
    ("huge; shmat huge-segment @0 0; mremap @1 1536p 1536p maymove|fixed @1536 !EINVAL; mremap @0 1025p 1025p maymove|fixed @1536 = @1536", "1536-2560:rws@0{de ht}"),
    // Forks.
    ("huge; rw+hugetlb+noreserve 0-512; rw+hugetlb+noreserve+shared 512-1024; rw+hugetlb+noreserve 1024-1536; dont-fork 1024-1536; fork; u 0-1 !EINVAL; u 0-512", "512-1024{de nr ht}"),
    // Places.
    ("huge; mmap 0 1p rw private|anon|hugetlb|noreserve = huge; mmap 0 513p rw shared|anon|hugetlb|noreserve = huge; mmap 0 1p r shared|noreserve huge-file 512p = huge; mmap 0 1p r private|anon|hugetlb|noreserve|32bit = huge", ""),
    ("huge; mmap @1 1p rw private|anon|hugetlb|noreserve = @512; mmap @0 1p rw private|anon|hugetlb|noreserve = @0; mmap @512+5 1p rw private|anon|hugetlb|noreserve = away; mmap @1 1p rw private|noreserve huge-file = away", "0-512 512-1024"),
    ("huge; rw+growsdown 1536-1540; mmap @1024 512p rw private|anon|hugetlb|noreserve = away; mmap @512 512p rw private|anon|hugetlb|noreserve = @512", "512-1024 1536-1540"),
    ("huge; mmap 0x1000 1p rw private|anon|hugetlb|noreserve = 0x200000; mmap 0x600000+1p 1p r private|anon|hugetlb|noreserve|32bit = 0x800000; mmap max-1p 1p r private|anon|hugetlb|noreserve = huge; mmap top-1p 1p r private|anon|hugetlb|noreserve = huge", ""),
];
