//! A call on a part of an area: where it splits the area, and what the part merges with.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // By what the part joins.
    ("rw 8-10; r 10-14; p-rw 10-12", "8-12:rw 12-14:r"),
    ("rw 8-10; r 10-14; p-rw 10-14", "8-14:rw"),
    ("r 10-14; rw 14-16; p-rw 12-14", "10-12:r 12-16:rw"),
    ("r 10-14; rw 14-16; p-rw 10-14", "10-16:rw"),
    ("rw 8-10; r 10-14; rw 14-16; p-rw 10-14", "8-16:rw"),
    ("r 10-14; p-rw 11-12", "10-11:r 11-12:rw 12-14:r"),
    ("r 10-14; p-rw 10-12", "10-12:rw 12-14:r"),
    ("r 10-14; p-rw 12-14", "10-12:r 12-14:rw"),
    ("r 10-14; p-rw 10-14", "10-14:rw"),
    ("r 10-14; p-r 11-12", "10-14:r"),
    // The same with identities: the lower neighbour wins.
    ("rw 8-10; t 8-10; r 10-14; rw 14-16; rwx 20-21; t 14-16; p-rw 10-14", "8-14:rw 14-16:rw 20-21:rwx"),
    ("rw 10-14; t 10-14; p-r 10-12; rw 8-10; p-rw 10-12", "8-14:rw"),
    ("rw 10-14; t 10-14; p-r 12-14; rw 14-16; p-rw 12-14", "10-16:rw"),
    ("rw 10-12; t 10-12; fork; r 12-14; p-rw 12-14", "10-12:rw 12-14:rw"),
    ("rw 8-10; rw 10-12; dont-dump 10-12; t 10-12; fork; do-dump 10-12", "8-10 10-12"),
    // Over several areas at once.
    ("r 10-12; rwx 12-14; none 14-16; p-rw 11-15", "10-11:r 11-15:rw 15-16:none"),
    ("r 10-12; rw 12-14; r 14-16; p-rw 10-16", "10-16:rw"),
    // Offsets go on in the upper part.
    ("r 10-14 f 5; p-none 11-12", "10-11:r@5 11-12:none@6 12-14:r@7"),
    ("r 10-14 f 5; u 11-12", "10-11@5 12-14@7"),
    ("r+shared 10-14 f 5; p-none 11-12; p-r 11-12", "10-14@5"),
];
