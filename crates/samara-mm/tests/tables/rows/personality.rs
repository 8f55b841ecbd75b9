//! personality with READ_IMPLIES_EXEC: what may be read may be executed.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("reads-execute; none 10-11; r 12-13; w 14-15; rw 16-17; x 18-19", "10-11:none 12-13:rx 14-15:w 16-17:rwx 18-19:x"),
    ("reads-execute; r+shared 10-11; rw+droppable 12-13; rw+growsdown 14-15", "10-11:rxs 12-13:rwx 14-15:rwx"),
    ("reads-execute; r 10-11 f; w+shared 12-13 f; r+shared 14-15 ro", "10-11:rx 12-13:ws 14-15:rxs"),
    // What is there stays, what comes is executable, until it is switched off.
    ("r 10-11; reads-execute; r 11-12; personality 0; r 12-13; fork; r 13-14", "10-11:r 11-12:rx 12-14:r"),
    ("reads-execute; fork; r 10-11", "10-11:rx"),
    ("r 10-11; reads-execute; size 10-11 2; r 12-13; mv 10-12 20", "12-13:rx 20-22:r"),
    // The old one is the answer; the largest number asks only.
    ("personality 0x400000; personality 0xffffffff = 0x400000; personality max = 0x400000; r 10-11", "10-11:rx"),
    ("personality 0xfffffffe; personality 0x100000000 = 0xfffffffe; personality 0xffffffff = 0; r 10-11", "10-11:r"),
    // Files that cannot be executed.
    ("reads-execute; r 10-11 no-exec; rw+shared 12-13 no-exec; rx 14-15 no-exec !EPERM", "10-11:r[rd mr mw] 12-13:rws"),
    ("none 10-11; none 11-12 no-exec; none 12-13; reads-execute; p-r 10-13", "10-11:rx 11-12:r 12-13:rx"),
    ("none 10-11 no-exec; none 11-12; reads-execute; p-rw 10-12; p-w 10-12; p-rx 10-12 !EACCES", "10-11:w 11-12:w"),
    // mprotect and others.
    ("none 10-12; reads-execute; p-r 10-11; p-w 11-12", "10-11:rx 11-12:w"),
    ("none 10-11; reads-execute; pkey_mprotect @10 1p rw max", "10-11:rwx"),
    ("none+growsdown 10-12; reads-execute; mprotect @11 1p 0x1000001", "10-12:rx"),
    ("reads-execute; shmat segment @10 0; shmat segment @20 rdonly", "10-15:rwxs 20-25:rxs"),
    ("r+shared 10-12 f 0; w+shared 20-22 f 0; reads-execute; remap_file_pages @10 1p 0 7; remap_file_pages @20 1p 0 7", "10-11:rxs 11-12:rs 20-21:ws 21-22:ws"),
    ("brk @h2; reads-execute; brk @h4; brk @h5; personality 0; brk @h6", "h0-h2:rw h2-h5:rwx h5-h6:rw"),
    // Memory-deny-write-execute sees what is implied; but for the heap.
    ("mdwe; reads-execute; r 10-11; w 12-13; rw 14-15 !EACCES", "10-11:rx 12-13:w"),
    ("none 10-11; r 11-12; w 12-13; rx 13-14; mdwe; reads-execute; p-r 10-11 !EACCES; p-r 11-12 !EACCES; p-w 11-12; p-r 13-14; p-rw 13-14 !EACCES", "10-11:none 11-13:w 13-14:rx"),
    ("mdwe; reads-execute; brk @h2", "h0-h2:rwx"),
    ("mdwe; reads-execute; shmat segment @10 0 !EACCES; shmat segment @10 rdonly", "10-15:rxs"),
];
