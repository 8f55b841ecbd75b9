//! msync, mincore, remap_file_pages and prctl. (mbind and userfaultfd are in `merge`.)

pub(crate) const ROWS: &[(&str, &str)] = &[
    // msync: 1 ASYNC, 2 INVALIDATE, 4 SYNC.
    ("rw 10-12; msync @10 2p 0; msync @10 2p 1; msync @10 2p 2; msync @10 2p 4; msync @10 2p 6; msync @10 2p 3", "10-12"),
    ("rw 10-12; msync @10+1 1p 4 !EINVAL; msync @10 1p 5 !EINVAL; msync @10 1p 7 !EINVAL; msync @10 1p 8 !EINVAL", "10-12"),
    ("rw 10-12; msync @10+1 0 4 !EINVAL; msync @10 0 4; msync @50 0 4; msync @10 -1 4; msync @10 1 4", "10-12"),
    ("rw 10-12; msync @10 max-1p+1 4 !ENOMEM; msync @10 3p 4 !ENOMEM; msync @9 2p 4 !ENOMEM; msync @50 1p 0 !ENOMEM", "10-12"),
    ("rw 10-12; rw 14-16; msync @10 6p 4 !ENOMEM; lock 14-16; msync @10 6p 2 !EBUSY; msync @10 6p 4 !ENOMEM", "10-12 14-16"),
    ("rw+shared 10-12 f; lock 10-12; msync @10 2p 2 !EBUSY; msync @10 2p 6 !EBUSY; msync @10 2p 4; onfault 10-12; msync @10 1p 2 !EBUSY", "10-12"),
    ("rw+shared 10-12 f; rw 12-14; msync @10 4p 4; msync top-1p 2p 4 !ENOMEM", "10-12 12-14"),
    // mincore.
    ("rw 10-12; mincore @10 2p word; mincore @10 1 word; mincore @10+1 1p word !EINVAL; mincore @10 0 word; mincore @50 0 word", "10-12"),
    ("rw 10-12; mincore @50 1p word !ENOMEM; mincore @11 2p word !ENOMEM; mincore @9 2p word !ENOMEM", "10-12"),
    ("rw 10-12; mincore @10+1 1p max !EINVAL; mincore @10 1p max !EFAULT; mincore @50 1p max !EFAULT", "10-12"),
    ("rw 10-12; mincore top 1p word !ENOMEM; mincore @10 top word !ENOMEM; mincore @10 max word !ENOMEM", "10-12"),
    ("rw 10-12; mincore @10 3p 0 !EFAULT; mincore @10 2p 0 !EFAULT; mincore @50 1p 0 !ENOMEM; mincore @10 0 0", "10-12"),
    ("none 10-12; mincore @10 2p word; r+shared 14-16 f; mincore @14 2p word", "10-12 14-16"),
    // remap_file_pages: address, size, protection 0, page.
    ("rw+shared 10-14 f 0; remap_file_pages @11 1p 0 7", "10-11@0 11-12@7 12-14@2"),
    ("rw+shared 10-14 f 0; remap_file_pages @11 1p 0 1", "10-14@0"),
    ("rw+shared 10-14 f 0; remap_file_pages @11+5 1p+9 0 7", "10-11@0 11-12@7 12-14@2"),
    ("rw+shared 10-14 f 0; remap_file_pages @11 1p 1 7 !EINVAL; remap_file_pages @11 0 0 7 !EINVAL", "10-14@0"),
    ("rw+shared 10-14 f 0; remap_file_pages @13 2p 0 7 !EINVAL; remap_file_pages @20 1p 0 7 !EINVAL", "10-14@0"),
    ("rw 10-14 f 0; remap_file_pages @11 1p 0 7 !EINVAL; rw 20-24; remap_file_pages @21 1p 0 7 !EINVAL", "10-14@0 20-24"),
    ("r+shared 10-14 ro 0; remap_file_pages @11 1p 0 7 !EINVAL", "10-14@0"),
    ("rw+shared 10-14 f 0; remap_file_pages @11 1p 0 max !EINVAL; remap_file_pages @11 1p 0 0x10000000000000 !EOVERFLOW; remap_file_pages @11 1p 0 0x7ffffffffffff !EOVERFLOW", "10-14@0"),
    ("rw+shared 10-12 f 0; rw+shared 12-14 f 5; remap_file_pages @10 4p 0 8", "10-14@8"),
    ("rw+shared 10-14 f 0; lock 10-14; remap_file_pages @11 1p 0 7", "10-11@0{lo} 11-12@7{lo} 12-14@2{lo}"),
    ("rw+shared 10-14 f 0; seal 10-14; remap_file_pages @11 1p 0 7 !EPERM", "10-14@0"),
    // A task's own policy is no area's.
    ("set_mempolicy 4; rw 10-12; set_mempolicy 0; rw 12-14; set_mempolicy 4; local 12-14; default 12-14", "10-14"),
    // Memory-deny-write-execute.
    ("mdwe; rwx 10-12 !EACCES; wx 10-12 !EACCES; rx 12-14; rw 14-16", "12-14:rx 14-16:rw"),
    ("rw 10-12; rx 12-14; rwx 14-16; mdwe; p-rx 10-12 !EACCES; p-rx 12-14; p-rwx 12-14 !EACCES; p-rw 12-14", "10-14:rw 14-16:rwx"),
    ("rwx 14-16; mdwe; p-rwx 14-16 !EACCES; p-rx 14-16; p-r 14-16; p-rx 14-16 !EACCES", "14-16:r"),
    ("rw 10-11; rx 11-12; mdwe; p-rx 10-12 !EACCES; p-none 10-12; p-x 11-12 !EACCES", "10-12:none"),
    ("mdwe; fork; rwx 10-12 !EACCES", ""),
    ("rx 10-12; mdwe; rwx 10-12 !EACCES; rwx+noreplace 10-11 !EEXIST", "10-12:rx"),
    // Pages that are merged of their own.
    ("merge-pages; rw 10-12; r 12-14 f; rw+shared 14-16; rw+droppable 16-18", "10-12{ac mg} 12-14{mg} 14-16{} 16-18{nr wf dd dp}"),
    ("rw 10-12; merge-pages; rw 12-14", "10-14{ac mg}"),
    ("rw 10-12; merge-pages; unmergeable 10-11; prctl 67 0", "10-11{ac} 11-12{ac}"),
    ("merge-pages; fork; rw 10-12; prctl 67 0; rw 12-14", "10-14{ac}"),
];
