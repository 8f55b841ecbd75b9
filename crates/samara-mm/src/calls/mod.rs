//! The system calls that change or query an address space, and the page fault: one file for a
//! call or a family of calls. Settings that calls change are in `space`.

pub(crate) mod brk;
pub(crate) mod fault;
pub(crate) mod fork;
pub(crate) mod image;
pub(crate) mod madvise;
pub(crate) mod mbind;
pub(crate) mod mincore;
pub(crate) mod mlock;
pub(crate) mod mmap;
pub(crate) mod mmap_placed;
pub(crate) mod mprotect;
pub(crate) mod mremap;
pub(crate) mod mseal;
pub(crate) mod msync;
pub(crate) mod munmap;
pub(crate) mod process_madvise;
pub(crate) mod remap_file_pages;
pub(crate) mod shm;
pub(crate) mod userfaultfd;
