//! shmat and shmdt. The segment has five pages, the last of them not whole.

pub(crate) const ROWS: &[(&str, &str)] = &[
    ("shmat segment @10 0 = @10", "10-15:rws@0[rd wr sh mr mw me ms]"),
    ("shmat segment @10 rdonly; shmat segment @20 exec; shmat segment @30 rdonly|exec", "10-15:rs[rd mr me ms] 20-25:rwxs[rd wr ex sh mr mw me ms] 30-35:rxs[rd ex mr me ms]"),
    ("shmat segment 0 0; shmdt last; shmat segment @10 0x10fff", "10-15:rws"),
    // Where.
    ("shmat segment @10+1 0 !EINVAL; shmat segment @10+1 rnd = @10; shmat segment @20+4095 rnd|rdonly = @20; shmat segment @30+1 remap !EINVAL", "10-15 20-25"),
    ("shmat segment 0 remap !EINVAL; shmat segment 0xfff rnd|remap !EINVAL; shmat segment 0xfff remap !EINVAL; shmat segment 1 0 !EINVAL", ""),
    ("privileged; shmat segment 0xfff rnd = 0; munmap 0 5p; nocaps; shmat segment 0xfff rnd !EPERM", ""),
    ("shmat -1 @10 0 !EINVAL; shmat max @10+1 0 !EINVAL; shmat 0x7ffffff0 @10 0 !EINVAL", ""),
    ("shmat segment top 0 !ENOMEM; shmat segment top-4p 0 !ENOMEM; shmat segment max-4p+1 0 !EINVAL; shmat segment max-5p+1 0 !ENOMEM; shmat segment max-4p+1 remap !ENOMEM", ""),
    // What is there.
    ("rw 10-12; shmat segment @10 0 !EINVAL; shmat segment @11 0 !EINVAL; shmat segment @8 0 !EINVAL; shmat segment @5 0; shmat segment @12 0", "5-10:rws 10-12:rw 12-17:rws"),
    ("rw 10-20; shmat segment @12 remap", "10-12:rw 12-17:rws 17-20:rw"),
    ("rw 12-13; seal 12-13; shmat segment @10 remap !EPERM; shmat segment @12 0 !EINVAL", "12-13"),
    ("rw+growsdown 600-602; shmat segment @595 0", "595-600 600-602"),
    ("shmat segment @10 0; shmat segment @15 0; shmat segment @12 remap", "10-12@0 12-17@0 17-20@2"),
    // What makes shmat fail.
    ("mdwe; shmat segment @10 exec !EACCES; shmat segment @10 exec|rdonly", "10-15:rxs"),
    ("limit as +5; shmat segment @10 0; shmat segment @20 0 !ENOMEM", "10-15"),
    ("nocaps; limit locked +1; future; shmat segment @10 0 !EAGAIN", ""),
    ("future; shmat segment @10 0", "10-15{lo}"),
    ("room 0; shmat segment @10 0; shmat segment @20 0 !ENOMEM", "10-15"),
    // Once cut, areas stay apart: none goes up in another. But one may grow at another's cost.
    ("shmat segment @10 0; p-r 12-13; p-rw 12-13", "10-12@0 12-13@2 13-15@3"),
    ("shmat segment @10 0; lock 12-13; unlock 12-13; local 10-15; default 10-15", "10-12 12-13 13-15"),
    ("shmat segment @10 0; p-r 10-12; p-r 12-13; p-r 13-15", "10-13:rs 13-15:rs"),
    ("shmat segment @10 0; p-r 13-15; p-r 12-13; p-r 10-12", "10-12:rs 12-15:rs"),
    ("shmat segment @10 0; dont-fork 10-12; p-r 11-13; p-rw 11-13; do-fork 10-15", "10-11 11-12 12-13 13-15"),
    ("shmat segment @10 0; mv 12-13 112; mv 112-113 12", "10-13@0 13-15@3"),
    ("shmat segment @10 0; mv 14-15 112; mv 112-113 14; mv 10-11 112; mv 112-113 10", "10-15"),
    ("shmat segment @10 0; u 12-13; size 10-12 3", "10-13 13-15"),
    ("shmat segment @10 0; size 10-15 8; dup 10 2 30; resize 10-11 3 20", "11-18@1 20-23@0 30-32@0"),
    ("shmat segment @10 0; remap_file_pages @10 1p 0 2", "10-11@2 11-15@1"),
    // Not moved together with others.
    ("shmat segment @10 0; rw 15-16; mv 14-16 20 !EFAULT; mv 10-16 20 !EFAULT; seal 15-16; mv 14-16 20 !EFAULT", "10-15 15-16"),
    ("rw 9-10; shmat segment @10 0; mv 9-11 20 !EFAULT; mv 10-15 30", "20-21 30-35"),
    // Leaving.
    ("shmat segment @10 0; shmdt @11 !EINVAL; shmdt @9 !EINVAL; shmdt @10+1 !EINVAL; shmdt @10; shmdt @10 !EINVAL", ""),
    ("rw 10-12; rw+shared 12-14 f; shmdt @10 !EINVAL; shmdt @12 !EINVAL; shmdt @50 !EINVAL", "10-12 12-14"),
    ("shmat segment @10 0; u 10-11; shmdt @11 !EINVAL; shmdt @10", ""),
    ("shmat segment @10 0; p-r 11-12; u 12-13; lock 14-15; fork; shmdt @10", ""),
    ("shmat segment @10 0; rw 12-13; shmdt @10", "12-13:rw"),
    ("shmat segment @10 0; mv 12-13 112; shmdt @10; shmdt @112 !EINVAL", "112-113@2"),
    ("shmat segment @10 0; mv 12-13 112; shmdt @110", "10-12 13-15"),
    ("shmat segment @10 0; mv 12-15 112; mv 112-115 12", "10-15"),
    // The other attachment's pages stay.
    ("shmat segment @10 0; u 12-15; shmat segment @20 0; mv 22-25 12; shmdt @10", "12-15@2 20-22@0"),
    ("shmat segment @10 0; u 12-15; shmat segment @20 0; mv 22-25 12; shmdt @10; shmdt @10", "20-22@0"),
    ("shmat segment @10 0; u 11-15; shmat segment @11 0; shmdt @10", "11-16"),
    ("shmat segment @10 0; dup 10 5 20; shmdt @20", "10-15"),
    ("shmat segment @10 0; remap_file_pages @10 1p 0 2; shmdt @10", "10-11@2"),
    // What grew longer than the segment goes if it is the first; not if it is a later one.
    ("shmat segment @10 0; size 10-15 8; shmdt @10", ""),
    ("shmat segment @10 0; size 10-15 8; p-r 13-14; shmdt @10", "14-18@4"),
    ("shmat segment @10 0; size 10-15 8; p-r 14-15; shmdt @10", "15-18@5"),
    ("shmat segment @10 0; size 10-15 8; u 10-16; shmdt @10", ""),
    // A sealed area stays, without an error.
    ("shmat segment @10 0; seal 12-13; shmdt @10; shmdt @10", "12-13{sl}"),
    ("shmat segment @10 0; seal 10-15; shmdt @10", "10-15{sl}"),
];
