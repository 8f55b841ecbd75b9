//! Areas with MAP_GROWSDOWN: how faults and writes grow them.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // To the page of the fault, however far it is.
    ("rw+growsdown 600-602; t 599-600", "599-602"),
    ("rw+growsdown 600-602; t 599-600; t 597-598", "597-602"),
    ("rw+growsdown 600-602; t 10-11", "10-602"),
    ("rw+growsdown 600-602; reads 599; writes 400; t 602-603 !EFAULT", "600-602"),
    ("rw 600-602; t 599-600 !EFAULT; reads 599 !MAPERR; writes 602 !MAPERR", "600-602"),
    // No nearer to what is accessible than 256 free pages.
    ("rw+growsdown 600-602; rw 400-401; t 599-600 !EFAULT; writes 599 !MAPERR", "400-401 600-602"),
    ("rw+growsdown 600-602; r 300-302; t 557-558 !EFAULT; t 558-559", "300-302 558-602"),
    ("rw+growsdown 600-602; x 300-302; writes 557 !MAPERR; writes 558", "300-302 600-602"),
    ("rw+growsdown 600-602; r 300-302 f; t 557-558 !EFAULT; t 558-559", "300-302 558-602"),
    ("rw+growsdown 600-602; none 300-302; t 302-303; t 301-302 !EFAULT; writes 301 !ACCERR", "300-302 302-602"),
    ("rw+growsdown 600-602; rw+growsdown 300-302; t 302-303", "300-302 302-602"),
    ("rw+growsdown 600-602; rw 300-301; none 301-303; t 303-304", "300-301 301-303 303-602"),
    ("rw+growsdown 600-602; rw 598-599; t 599-600 !EFAULT", "598-599 600-602"),
    // Its own protection and the like.
    ("none+growsdown 600-602; t 599-600 !EFAULT; writes 599 !ACCERR; reads 599 !ACCERR", "599-602:none"),
    ("r+growsdown 600-602; reads 599; writes 599 !ACCERR", "600-602:r"),
    ("rw+growsdown 600-602; seal 600-602; t 599-600", "599-602{gd ac sl}"),
    ("rw+growsdown 600-602; lock 600-602; t 599-600", "599-602{gd lo ac}"),
    ("rw+growsdown 600-602; p-r 600-601; writes 599 !ACCERR; reads 599", "600-601:r 601-602:rw"),
    ("rw+growsdown 600-602; dont-dump 600-601; t 598-599", "598-601{gd ac dd} 601-602{gd ac}"),
    // It joins nothing when it grows, but is a merge partner like any other.
    ("rw+growsdown 600-602; rw+growsdown 598-599; t 599-600", "598-599 599-602"),
    ("rw+growsdown 600-602; rw+growsdown 602-604", "600-604"),
    ("rw+growsdown 600-602; t 599-600; rw+growsdown 598-599", "598-602"),
    ("rw+growsdown 600-602; rw 598-600; t 597-598 !EFAULT", "598-600 600-602"),
    ("rw+growsdown 600-602; rw 598-600", "598-600:rw{ac} 600-602:rw{gd ac}"),
    ("rw+growsdown 600-602; t 600-602; fork; t 599-600", "599-602"),
    ("rw+growsdown 600-602; mv 600-602 700; t 699-700", "699-702"),
    // Limits: of its size, of all, of what is locked.
    ("limit stack 4; rw+growsdown 600-602; t 597-598 !EFAULT; writes 597 !MAPERR; t 598-599", "598-602"),
    ("limit stack 4; rw+growsdown 600-610; t 600-601; t 599-600 !EFAULT", "600-610"),
    ("rw+growsdown 600-602; limit as +2; t 597-598 !EFAULT; t 598-599; t 597-598 !EFAULT", "598-602"),
    ("rw+growsdown 600-602; limit data 0; t 590-591", "590-602"),
    ("nocaps; limit locked +3; rw+growsdown+locked 600-602; t 598-599 !EFAULT; t 599-600", "599-602{gd lo ac}"),
    ("rw+growsdown+locked 600-602; t 590-591", "590-602{gd lo ac}"),
    ("nocaps; limit locked 0; rw+growsdown 600-602; t 590-591", "590-602{gd ac}"),
    ("guess; limit stack 1000000000; mmap 0x20000000000 2p rw private|anon|growsdown|fixed; writes 0x8000000000 !MAPERR; writes 0x1ffff000000", ""),
    // Nor below where its offset would be less than 0: memory that was written elsewhere keeps its
    // offset.
    ("mmap least 1p rw private|anon|growsdown|fixed; madvise least 1p populate-write; mremap least 1p 1p 3 @600; writes 583 !MAPERR; t 584-585; t 583-584 !EFAULT", "584-601"),
    // Not below where maps begin.
    ("mmap least 1p rw private|anon|growsdown|fixed; writes least-1p !MAPERR; writes least", ""),
    ("mmap least+1p 1p rw private|anon|growsdown|fixed; writes least; writes least-1p !MAPERR", ""),
];
