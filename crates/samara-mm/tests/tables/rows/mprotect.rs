//! mprotect and pkey_mprotect.

pub(crate) const ROWS: &[(&str, &str)] = &[
    // Ranges and bits, in the order in which they are looked at.
    ("rw 10-12; mprotect @10+1 1p r !EINVAL; mprotect @10+1 0 r !EINVAL", "10-12:rw"),
    ("rw 10-12; mprotect @10 0 r; mprotect @10 0 0xff = 0; mprotect @50 0 r = 0", "10-12:rw"),
    ("rw 10-12; mprotect @10 1p 0x3000001 !EINVAL; mprotect @10 0 0x3000001 !EINVAL", "10-12:rw"),
    ("rw 10-12; mprotect @10 max r !ENOMEM; mprotect @10 max-1p+1 r !ENOMEM; mprotect @10 max 0xff !ENOMEM", "10-12:rw"),
    ("rw 10-12; mprotect @10 1p 0x10 !EINVAL; mprotect @10 1p 0x80 !EINVAL; mprotect @50 1p 0x10 !EINVAL", "10-12:rw"),
    ("rw 10-12; mprotect @10 1p 8", "10-11:none 11-12:rw"),
    ("rw 10-12; mprotect @10 1 r", "10-11:r 11-12:rw"),
    ("rw 10-12; mprotect @10 1p+1 r", "10-12:r"),
    // Nothing else changes.
    ("rw+noreserve 10-12; random 10-12; dont-dump 10-12; lock 10-12; p-rx 10-12", "10-12:rx{lo rr nr dd}"),
    // Holes: at the start nothing, later what lies before it.
    ("p-r 10-12 !ENOMEM; rw 14-16; p-r 12-16 !ENOMEM", "14-16:rw"),
    ("rw 10-12; rw 14-16; p-r 11-16 !ENOMEM", "10-11:rw 11-12:r 14-16:rw"),
    ("rw 10-12; p-r 10-14 !ENOMEM", "10-12:r"),
    ("mprotect top 1p r !ENOMEM", ""),
    // Sealed.
    ("rw 10-14; seal 12-13; p-r 11-14 !EPERM", "10-11:rw 11-12:r 12-13:rw 13-14:rw"),
    ("rw 10-14; seal 10-14; p-rw 10-14 !EPERM", "10-14"),
    ("rw 10-14; seal 10-14; mprotect @10 0 r; pkey_mprotect @10 1p r -1 !EPERM", "10-14:rw"),
    // What may never be.
    ("r+shared 10-12 ro; p-rw 10-12 !EACCES; p-rx 10-12", "10-12:rxs"),
    ("r 10-12 ro; p-rw 10-12", "10-12:rw"),
    ("rw 10-11; r+shared 11-12 ro; p-rwx 10-12 !EACCES", "10-11:rwx 11-12:rs"),
    ("r+shared 10-12 ro; seal 10-12; p-rw 10-12 !EACCES; p-none 10-12 !EPERM", "10-12:rs"),
    // Growing down.
    ("rw+growsdown 600-604; mprotect @602 1p 0x1000001", "600-603:r 603-604:rw"),
    ("rw 10-14; mprotect @12 1p 0x1000001 !EINVAL", "10-14:rw"),
    ("rw 10-14; mprotect @12 1p 0x2000001 !EINVAL; mprotect @20 1p 0x2000001 !ENOMEM", "10-14:rw"),
    ("rw+growsdown 600-604; mprotect @602 1p 0x2000001 !EINVAL", "600-604"),
    ("rw+growsdown 600-604; mprotect @598 3p 0x1000001", "600-601:r 601-604:rw"),
    ("rw+growsdown 600-604; mprotect @598 1p 0x1000001 !ENOMEM; mprotect @598 2p 0x1000001 !ENOMEM", "600-604"),
    // The charge: taken with the first write permission, given back by what was never written.
    ("r 10-11; p-rw 10-11", "10-11:rw{ac}"),
    ("rw 10-11; p-r 10-11", "10-11:r{}"),
    ("rw 10-11; t 10-11; p-r 10-11", "10-11:r{ac}"),
    ("rw 10-11; t 10-11; dont-need 10-11; p-r 10-11", "10-11:r{ac}"),
    ("rw 10-11; guard-install 10-11; p-r 10-11", "10-11:r{gu ac}"),
    ("r+noreserve 10-11; p-rw 10-11", "10-11:rw{nr}"),
    ("none 10-12; p-rw 10-11", "10-11:rw{ac} 11-12:none{}"),
    ("r+shared 10-11 f; p-rw 10-11", "10-11:rws{}"),
    ("rw 10-11 f; p-r 10-11", "10-11:r{ac}"),
    ("r 10-11 f; p-rw 10-11", "10-11:rw{ac}"),
    ("rw 10-11 f; t 10-11; p-none 10-11", "10-11:none{ac}"),
    ("rw 10-12; p-r 10-11; p-rwx 11-12; p-x 11-12", "10-11:r{} 11-12:x{}"),
    // Keys: without the hardware none are allocated, not even 0.
    ("rw 10-12; pkey_mprotect @10 1p r -1", "10-11:r 11-12:rw"),
    ("rw 10-12; pkey_mprotect @10 1p r 5 !EINVAL; pkey_mprotect @10 1p r 99 !EINVAL; pkey_mprotect @10 0 r 99 = 0", "10-12:rw"),
    ("no-keys; rw 10-12; pkey_mprotect @10 1p r 0 !EINVAL", "10-12:rw"),
    ("keys; rw 10-12; pkey_mprotect @10 1p r 0", "10-11:r 11-12:rw"),
    // Memory that may only be executed has a key: mprotect gives it and takes it back, key 0 or -1
    // can be asked for, and areas with different keys stay two.
    ("keys; x 10-12; reads 10 !PKUERR; writes 10 !PKUERR; p-rw 10-11; reads 10; writes 10; p-x 10-11; reads 10 !PKUERR", "10-12:x"),
    ("keys; rw 10-12; p-x 10-12; p-none 10-12; reads 10 !ACCERR; p-rw 10-12; reads 10", "10-12:rw"),
    ("keys; x 10-12; pkey_mprotect @10 1p x 0; reads 10; reads 11 !PKUERR", "10-11:x 11-12:x"),
    ("keys; x 10-12; pkey_mprotect @10 1p x 0; p-x 10-11; reads 10 !PKUERR", "10-12:x"),
    ("keys; x 10-12; pkey_mprotect @10 1p x 0; pkey_mprotect @10 1p x max; reads 10 !PKUERR", "10-12:x"),
    ("keys; x 10-12; pkey_mprotect @10 1p x 1 !EINVAL", "10-12:x"),
    ("keys; rx 10-12; reads 10; writes 10 !ACCERR; p-x 11-12; reads 11 !PKUERR; p-rx 11-12; reads 11", "10-12:rx"),
    ("keys; reads-execute; r 10-11; x 11-12; reads 10; reads 11 !PKUERR", "10-11:rx 11-12:x"),
    ("keys; x 10-12; mv 10-12 20; reads 20 !PKUERR; x 22-24", "20-24:x"),
];
