//! Maps of secret memory (memfd_secret): shared, locked for good, left out of dumps, never
//! executed. `privileged`: it is locked memory.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("privileged; rw+shared 10-12 secret 0", "10-12[rd wr sh mr mw ms lo dd]"),
    ("privileged; rw+validate 10-12 secret 0; r+shared 12-13 secret 2; none+shared+populate 13-14 secret 3", "10-12 12-13[rd sh mr mw ms lo dd] 13-14"),
    ("privileged; rw+shared 10-11 secret 0; rw+shared 12-13 secret 2; rw+shared 11-12 secret 1", "10-13"),
    ("privileged; rw+shared+locked 10-11 secret 0; rw+shared 11-12 secret 1; rw+shared+noreserve 12-13 secret 2", "10-12 12-13{lo nr dd}"),
    // Not executed: nothing is changed. Not private: its place is empty.
    ("privileged; rw 10-14; rwx+shared 11-12 secret 0 !EPERM", "10-14"),
    ("privileged; rw 10-14; rw 11-12 secret 0 !EINVAL", "10-11 12-14"),
    ("privileged; rw+shared 10-12 secret 0; p-rx 10-11 !EACCES; p-r 11-12", "10-11:rws 11-12:rs"),
    ("privileged; reads-execute; r+shared 10-12 secret 0; p-rw 10-11", "10-11:rws 11-12:rs"),
    // Locks change nothing, and none brings its pages in.
    ("privileged; rw+shared 10-12 secret 0; unlock 10-11; munlockall; mlockall 1", "10-12{lo dd}"),
    ("privileged; rw+shared 10-12 secret 0; lock 10-11 !ENOMEM; onfault 11-12 !ENOMEM", "10-12{lo dd}"),
    ("privileged; rw 9-10; rw+shared 10-12 secret 0; rw 12-13; lock 9-13 !ENOMEM", "9-10{lo ac} 10-12{lo dd} 12-13{lo ac}"),
    ("privileged; mlockall 6; rw+shared 10-12 secret 0; munlockall", "10-12{lo lf dd}"),
    ("privileged; rw+shared 10-12 secret 0; fork; lock 10-11 !ENOMEM", "10-12{dd}"),
    ("privileged; rw+shared 10-12 secret 0; populate-read 10-11 !EINVAL; populate-write 10-11 !EINVAL; dont-need 10-11 !EINVAL; free 10-11 !EINVAL; remove 10-11 !EINVAL; guard-install 10-11 !EINVAL", "10-12"),
    ("privileged; rw+shared 10-12 secret 0; fork; remove 10-11 !EOPNOTSUPP; msync @10 1p 4 !EINVAL; msync @10 3p 4 !EINVAL; msync @10 1p 1; uffd 10-11 !EINVAL; unuffd 10-11 !EINVAL", "10-12{dd}"),
    ("privileged; rw+shared 10-12 secret 0; do-dump 10-11; dont-fork 11-12", "10-11{lo} 11-12{lo dc dd}"),
    // It moves, grows, is duplicated; what stays behind loses its lock.
    ("privileged; rw+shared 10-12 secret 0; mv 10-11 20; resize 11-12 2 30; dup 20 1 25; keep 30-31 40", "20-21{lo dd} 25-26{lo dd} 30-32{dd} 40-41{lo dd}"),
    ("privileged; rw+shared 10-14 secret 0; remap_file_pages @11 1p 0 6; local 13-14; seal 10-11", "10-11{lo dd sl} 11-12@6 12-13 13-14"),
    // The limit: its place is empty where it is not allowed.
    ("privileged; limit locked 2; nocaps; rw 9-14; rw+shared 10-12 secret 0; rw+shared 12-13 secret 2 !EAGAIN; rw+shared 11-12 secret 5 !EAGAIN", "9-10 10-11{lo dd} 13-14"),
    ("limit locked 0; nocaps; rw 10-12; rw+shared 10-11 secret 0 !EAGAIN", "11-12"),
];
