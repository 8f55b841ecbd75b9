//! brk. The first page of the heap that rows name is `h0`; what ends there joins nothing.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("brk 0 = @h0; brk 1 = @h0; brk @h0 = @h0", ""),
    ("brk @h3 = @h3", "h0-h3:rw[rd wr mr mw me ac]"),
    ("brk @h2+1 = @h2+1; brk @h2+2 = @h2+2; brk 0 = @h2+2", "h0-h3"),
    ("brk @h2+1; brk @h3 = @h3; brk @h2+5 = @h2+5", "h0-h3"),
    ("brk @h3; brk @h5 = @h5", "h0-h5"),
    ("brk @h5; brk @h2 = @h2; brk @h0 = @h0", ""),
    ("brk @h5; brk @h2+1 = @h2+1", "h0-h3"),
    ("brk @h0; brk max = @h0; brk top+1p = @h0; brk top = @h0", ""),
    // One free page stays before the next area, 257 before one that grows down.
    ("rw h40-h41; brk @h39 = @h39", "h0-h39 h40-h41"),
    ("rw h40-h41; brk @h39+1 = @h0; brk @h40 = @h0", "h40-h41"),
    ("rw+growsdown h300-h301; brk @h43 = @h43; brk @h43+1 = @h43", "h0-h43"),
    // What lies in the heap is removed with it, but there must be something.
    ("brk @h6; p-r h4-h5; brk @h2 = @h2", "h0-h2"),
    ("brk @h6; u h4-h5; brk @h2 = @h2", "h0-h2"),
    ("brk @h6; u h4-h6; brk @h4 = @h6; brk @h2 = @h2", "h0-h2"),
    ("brk @h6; rw h3-h4 f; brk @h2 = @h2", "h0-h2"),
    // It joins what ends at the break, and never what follows.
    ("brk @h4; p-r h3-h4; brk @h6 = @h6", "h0-h3:rw h3-h4:r h4-h6:rw"),
    ("brk @h4; p-rwx h0-h4; brk @h6 = @h6", "h0-h4:rwx h4-h6:rw"),
    ("brk @h4; t h0-h4; brk @h6 = @h6", "h0-h6"),
    ("brk @h4; t h0-h4; fork; brk @h6 = @h6", "h0-h4 h4-h6"),
    ("brk @h4; fork; brk @h6 = @h6", "h0-h6"),
    ("brk @h4; u h2-h4; brk @h6 = @h6", "h0-h2 h4-h6"),
    ("brk @h4; dont-dump h0-h4; brk @h6 = @h6", "h0-h4 h4-h6"),
    // Sealed.
    ("brk @h6; seal h4-h5; brk @h2 = @h6", "h0-h2 h2-h4 h4-h5{ac sl} h5-h6"),
    ("brk @h6; seal h4-h6; brk @h8 = @h8", "h0-h4 h4-h6{ac sl} h6-h8"),
    // Limits.
    ("limit as +2; brk @h2 = @h2; brk @h3 = @h2", "h0-h2"),
    ("limit data +2; brk @h3 = @h0", ""),
    ("limit as +2; limit locked 0; brk @h2 = @h2", "h0-h2"),
    ("future; brk @h2 = @h2", "h0-h2{lo ac}"),
    ("nocaps; limit locked +2; future; brk @h3 = @h0; brk @h2 = @h2", "h0-h2{lo ac}"),
    ("limit soft-data 0; brk @h1 = @h0; rw 10-12", "10-12"),
    ("brk @h4; mlockall 2; brk @h6 = @h6; brk @h5 = @h5", "h0-h4{ac} h4-h5{lo ac}"),
    ("merge-pages; brk @h4 = @h4", "h0-h4{ac mg}"),
    ("mdwe; brk @h4 = @h4; p-rx h0-h2 !EACCES", "h0-h4:rw"),
    ("brk @h4; mv h2-h4 10; brk @h6 = @h6; brk @h1 = @h1", "10-12 h0-h1"),
    ("brk @h4; rw+growsdown h300-h301; brk @h44 = @h4; brk @h43 = @h43", "h0-h43"),
    ("r h3-h4; brk @h2 = @h2; brk @h2+1 = @h2; u h3-h4; brk @h4 = @h4", "h0-h4"),
    ("brk @h4; local h0-h4; brk @h6 = @h6", "h0-h4 h4-h6"),
    ("brk @h4; uffd h0-h4; brk @h6 = @h6", "h0-h4{um ac} h4-h6{ac}"),
    ("brk @h2+5; brk @h2+9 = @h2+9; limit as +0; brk @h3 = @h3; brk @h3+1 = @h3", "h0-h3"),
];
