//! Rows, a file for each call or thing.

/// Declares the files, and a test for each.
macro_rules! tables {
    ($($name:ident)*) => {$(
        mod $name;
        #[test]
        fn $name() {
            crate::both($name::ROWS);
        }
    )*};
}

tables! { merge split mmap place munmap mprotect mremap brk madvise mlock mseal fork limits special stack shm personality zero secret other views wide order crowded together huge }
