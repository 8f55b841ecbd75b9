//! fork: what the child has.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("rw 10-12; r 12-14 f; none 14-16; rw+shared 16-18; fork", "10-12:rw 12-14:r 14-16:none 16-18:rws"),
    ("rw 10-12; dont-fork 11-12; fork", "10-11"),
    ("rw 10-12; lock 10-12; onfault 11-12; fork", "10-11{ac} 11-12{ac}"),
    ("rw 10-12; wipe-on-fork 10-12; t 10-12; fork; rw 12-14; wipe-on-fork 12-14", "10-14{ac wf}"),
    ("rw 10-12; uffd 10-12; fork", "10-12{ac}"),
    ("rw 10-12; local 10-12; fork; rw 12-14; local 12-14", "10-14"),
    ("rw 10-12; local 10-12; fork; rw 12-14", "10-12 12-14"),
    ("rw 10-12; guard-install 10-11; fork", "10-12{gu ac}"),
    ("rw 10-12; t 10-12; fork; p-r 10-11; p-rw 10-11", "10-12"),
    ("rw 10-12; t 10-12; fork; u 11-12; rw 11-12", "10-11 11-12"),
    ("rw 10-11; t 10-11; rw 12-13; t 12-13; fork; rw 11-12", "10-11 11-12 12-13"),
    ("rw 10-12; t 10-12; fork; rw 12-14; t 12-14; rw 14-16", "10-12 12-16"),
    ("rw 10-12; t 10-12; fork; fork; t 10-12; rw 12-14", "10-12 12-14"),
    ("rw 10-12 f; t 10-12; fork; rw 12-14 f 2", "10-12 12-14"),
    ("rw+shared 10-12 f; t 10-12; fork; rw+shared 12-14 f 2", "10-14"),
];
