//! mlock, mlock2, munlock, mlockall, munlockall.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // Flags.
    ("rw 10-11; lock 10-11", "10-11[rd wr mr mw me lo ac]"),
    ("rw 10-11; onfault 10-11", "10-11[rd wr mr mw me lo lf ac]"),
    ("rw 10-11; onfault 10-11; lock 10-11", "10-11{lo ac}"),
    ("rw 10-11; lock 10-11; onfault 10-11", "10-11{lo lf ac}"),
    ("rw 10-11; onfault 10-11; unlock 10-11", "10-11{ac}"),
    ("rw 10-12; mlock2 @10 1p 2 !EINVAL; mlock2 @10 1p 3 !EINVAL; mlock2 @10 1p 0", "10-11{lo ac} 11-12{ac}"),
    // Ranges: the start is rounded down.
    ("rw 10-13; mlock @10+1 1p", "10-12{lo ac} 12-13{ac}"),
    ("rw 10-13; mlock @10+1 4095", "10-11{lo ac} 11-13{ac}"),
    ("rw 10-13; mlock @10 -1; mlock @10 0; munlock @10 -1; mlock @50 0", "10-13{ac}"),
    ("privileged; rw 10-13; mlock @10 max-1p+1 !EINVAL; munlock @10 max-1p+1 !EINVAL; mlock2 @10 max-1p+1 1 !EINVAL", "10-13{ac}"),
    ("nocaps; limit locked +9; rw 10-13; mlock @10 max-1p+1 !ENOMEM; munlock @10 max-1p+1 !EINVAL", "10-13{ac}"),
    // Parts.
    ("rw 10-13; lock 11-12", "10-11 11-12{lo ac} 12-13"),
    ("rw 10-13; lock 11-12; unlock 11-12", "10-13"),
    ("rw 10-13; lock 10-13; unlock 11-12", "10-11{lo ac} 11-12{ac} 12-13{lo ac}"),
    ("rw 10-13; onfault 11-12; lock 12-13", "10-11 11-12{lo lf ac} 12-13{lo ac}"),
    ("rw 10-14; lock 10-12; lock 12-14", "10-14{lo ac}"),
    ("rw 10-12; lock 10-12; rw 12-14", "10-12{lo ac} 12-14{ac}"),
    // Holes: what lies before them is done.
    ("rw 10-13; lock 11-14 !ENOMEM", "10-11{ac} 11-13{lo ac}"),
    ("rw 10-12; rw 14-16; lock 10-16 !ENOMEM", "10-12{lo ac} 14-16{ac}"),
    ("rw 10-12; lock 10-12; rw 14-16; lock 14-16; unlock 10-16 !ENOMEM", "10-12{ac} 14-16{lo ac}"),
    ("lock 10-12 !ENOMEM; unlock 10-12 !ENOMEM; rw 11-12; lock 10-12 !ENOMEM", "11-12{ac}"),
    // Without access: locked, but refused.
    ("none 10-12; lock 10-12 !ENOMEM", "10-12{lo}"),
    ("none 10-12; onfault 10-12", "10-12{lo lf}"),
    ("rw 10-11; none 11-12; rw 12-13; lock 10-13 !ENOMEM", "10-11{lo ac} 11-12{lo} 12-13{lo ac}"),
    // Files, shared memory, and what is never locked.
    ("r 10-12 f; lock 10-12; rw+shared 14-16; lock 14-16", "10-12{lo} 14-16{lo}"),
    ("rw+droppable 10-12; lock 10-12", "10-12{nr wf dd dp}"),
    ("rw 10-11; rw+droppable 11-12; lock 10-12", "10-11{lo ac} 11-12{nr wf dd dp}"),
    ("future; rw+droppable 10-12", "10-12{nr wf dd dp}"),
    // All.
    ("mlockall 0 !EINVAL; mlockall 4 !EINVAL; mlockall 8 !EINVAL; mlockall 9 !EINVAL; mlockall 10 !EINVAL", ""),
    ("privileged; rw 10-12; none 12-14; mlockall 1; rw 20-22", "10-12{lo ac} 12-14{lo} 20-22{ac}"),
    ("privileged; rw 10-12; mlockall 5", "10-12{lo lf ac}"),
    ("privileged; rw 10-12; mlockall 3; rw 20-22; mlockall 1; rw 30-32", "10-12{lo ac} 20-22{lo ac} 30-32{ac}"),
    ("rw 10-12; future; rw 12-14; rw 20-22", "10-12{ac} 12-14{lo ac} 20-22{lo ac}"),
    ("mlockall 6; rw 10-12", "10-12{lo lf ac}"),
    ("mlockall 6; rw+locked 10-12", "10-12{lo lf ac}"),
    ("future; rw 10-12; munlockall; rw 20-22", "10-12{ac} 20-22{ac}"),
    ("future; rw 10-12; fork; rw 20-22", "10-12{ac} 20-22{ac}"),
    ("rw 10-12; onfault 10-12; fork", "10-12{ac}"),
    // The limit, in order.
    ("nocaps; rw 10-20; limit locked +4; lock 10-15 !ENOMEM; lock 10-14; lock 10-14; lock 10-15 !ENOMEM", "10-14{lo ac} 14-20{ac}"),
    ("nocaps; rw 10-20; limit locked +4; lock 10-14; lock 12-15 !ENOMEM; unlock 10-12; lock 14-16", "10-12{ac} 12-16{lo ac} 16-20{ac}"),
    ("nocaps; rw 10-12; limit locked +4; onfault 10-12; lock 10-16 !ENOMEM; lock 10-14 !ENOMEM", "10-12{lo ac}"),
    ("nocaps; limit locked 0; rw 10-12; lock 10-11 !EPERM; mlock @10 0 !EPERM; mlock2 @10 1p 2 !EINVAL", "10-12{ac}"),
    ("nocaps; limit locked 0; rw 10-12; unlock 10-11; munlockall", "10-12{ac}"),
    ("nocaps; limit locked 0; mlockall 1 !EPERM; mlockall 0 !EINVAL; mlockall 2 !EPERM", ""),
    ("nocaps; rw 10-12; limit locked +1; mlockall 1 !ENOMEM; mlockall 3 !ENOMEM; rw 20-21", "10-12{ac} 20-21{ac}"),
    ("nocaps; limit locked 0; rw+locked 10-11 !EPERM; rw+locked+noreplace 10-11 !EPERM", ""),
    ("nocaps; rw 10-11; limit locked 0; rw+locked+noreplace 10-11 !EEXIST", "10-11"),
    ("nocaps; limit locked +2; rw+locked 10-13 !EAGAIN; rw+locked 10-12; rw+locked 10-11 !EAGAIN; rw+locked 20-21 !EAGAIN", "10-12{lo ac}"),
    ("nocaps; limit locked +2; future; rw 10-13 !EAGAIN; rw 10-12; rw 20-21 !EAGAIN", "10-12{lo ac}"),
    ("nocaps; limit locked +2; rw+locked 10-12; size 10-12 3 !EAGAIN; size 10-12 1; size 10-11 2", "10-12{lo ac}"),
    ("nocaps; limit locked +2; rw+locked 10-12; mv 10-12 20; mremap @20 2p 3p 1 !EAGAIN", "20-22{lo ac}"),
    ("privileged; limit locked 0; rw+locked 10-12; lock 10-12", "10-12{lo ac}"),
];
