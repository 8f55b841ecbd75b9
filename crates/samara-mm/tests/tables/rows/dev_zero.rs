//! Maps of /dev/zero: private ones are anonymous memory that has a place in a file, shared ones
//! objects of their own.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("rw 10-12 zero 0; rw 12-14 zero 2; rw 14-16; rw 8-10", "8-10@0 10-14@0 14-16@0[rd wr mr mw me ac]"),
    ("rw 10-12 zero 0; rw 12-14 zero 0; r 20-22 zero 5; r 22-24 zero-ro 7", "10-12@0 12-14@0 20-22@5 22-24@7"),
    // At the offset that plain memory has there, they are apart from it all the same.
    ("mmap @10 2p rw private|fixed zero @10; rw 12-14", "10-12@16777226 12-14"),
    // Moved unwritten they are where they are; written, where they were.
    ("rw 10-14 zero 0; mv 10-12 30; mv 30-32 10", "10-12@16777226 12-14@2"),
    ("rw 10-14 zero 0; t 10-11; mv 10-12 30; mv 30-32 10", "10-14@0"),
    ("rw 10-12 zero 0; t 10-11; mv 10-12 30; rw 32-34 zero 2", "30-34@0"),
    ("rw 10-12 zero 0; keep 10-12 30; rw 12-14 zero 2", "10-14@0 30-32@16777246"),
    ("rw 10-12 zero 0; size 10-12 4; dup 10 2 30 !EINVAL; p-r 11-12; p-rw 11-12", "10-14@0"),
    // Not moved together with others.
    ("r 10-11 zero; rw 11-12; mv 10-12 30 !EFAULT; rw 9-10; mv 9-11 30 !EFAULT", "10-11:r@0 11-12:rw 30-31:rw"),
    ("r+shared 10-11 zero-ro; rw 11-12; mv 10-12 30 !EFAULT; rw+shared 10-11 zero; mv 10-12 30", "30-31 31-32"),
    // There is no end, but that of the numbers.
    ("mmap @10 2p rw private|fixed zero 0x8000000000000000; mmap @12 2p rw private|fixed zero max-3p+1", "10-12@2251799813685248 12-14@4503599627370493"),
    ("mmap @10 2p rw private|fixed zero max-2p+1 !EOVERFLOW; mmap @10 1p rw private|fixed zero max-1p+1 !EOVERFLOW", ""),
    ("mmap @10 2p rw private|fixed zero max-3p+1; size 10-12 8", "10-18@4503599627370493"),
    // Charges as those of plain memory: given back where nothing was written.
    ("rw 10-12 zero; p-r 10-12; r 12-14 zero 2", "10-14{}"),
    ("rw 10-12 zero; t 10-11; p-r 10-12; r 12-14 zero 2", "10-12{ac} 12-14{}"),
    ("rw+noreserve 10-12 zero; rw+stack 12-14 zero 2; rw+locked 14-16 zero; rw+growsdown 16-18 zero !EINVAL; rw+droppable 16-18 zero !EINVAL", "10-12{nr} 12-14{ac nh} 14-16{lo ac}"),
    // Pages that are merged of their own: marked when its neighbours were looked at, and it joined
    // none.
    ("merge-pages; rw 10-12 zero 0; rw 12-14 zero 2", "10-12{ac mg} 12-14{ac mg}"),
    ("rw 10-12 zero 0; merge-pages; unmergeable 10-12; rw 14-16 zero 4; rw 12-14 zero 2", "10-14{ac} 14-16{ac mg}"),
    ("merge-pages; r+shared 10-12 zero-ro 0; rw+shared 12-14 zero", "10-12{} 12-14{}"),
    // Advice.
    ("rw 10-12 zero; wipe-on-fork 10-12 !EINVAL; remove 10-12 !EACCES; free 10-12; mergeable 10-11; huge-page 11-12", "10-11{ac mg} 11-12{ac hg}"),
    ("rw 10-12 zero; guard-install 11-12; p-r 10-12", "10-12{gu ac}"),
    ("r 10-12 zero; seal 10-12; dont-need 10-12 !EPERM", "10-12{sl}"),
    // Shared.
    ("rw+shared 10-12 zero 5; rw+shared 12-14 zero 7; rw+validate 14-16 zero 9", "10-12:rws@5 12-14:rws@7 14-16:rws@9[rd wr sh mr mw me ms]"),
    ("r+shared 10-12 zero-ro; rw+shared 12-14 zero-ro !EACCES; r+shared 12-14 zero-ro 2", "10-14:rs[rd mr me ms]"),
    ("r+shared 10-14 zero-ro; guard-install 11-12; mv 10-12 30; fork; mv 30-31 40; mv 12-13 50", "13-14@3 31-32@1 40-41@0 50-51@2"),
    ("r+shared 10-14 zero-ro; mv 10-12 30", "12-14@2 30-32@16777246"),
    ("mmap @10 2p rw shared|fixed zero 0x8000000000000000; mmap @12 2p rw shared|fixed zero max-2p+1 !EOVERFLOW", "10-12@2251799813685248"),
    ("rw+shared 10-12 zero; dup 10 2 30; remap_file_pages @10 1p 0 5", "10-11@5 11-12@1 30-32@0"),
    ("guess; rw 10-12; mmap @10 0x10000000000 rw shared|fixed zero 0 !ENOMEM", ""),
    ("guess; mmap @10 0x10000000000 rw shared|fixed|noreserve zero 0; munmap @10 0x10000000000; mmap @10 0x10000000000 rw private|fixed zero 0 !ENOMEM", ""),
];
