//! The rows, one file for each call or subject.

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

tables! {
    brk combinations dev_zero fork hugetlb limits madvise map_count_limit memfd_secret merge mlock mmap mprotect mremap mseal munmap
    order other personality placement procmap_query shm special_mappings split stack_growth wide_arguments
}
