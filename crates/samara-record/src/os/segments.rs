//! System V segments: the size of their pages. Knows no model.

#![allow(unsafe_code)]

use std::io;

use samara_mm::PageSize;

use crate::os::huge_pages::HUGE_PAGES;
use crate::os::sys::page_size;

/// The page size of a System V segment of our own IPC namespace, if it is in huge pages. No file
/// shows it before the segment is attached. An attach beyond user space does, by its error: EINVAL
/// if the place is no multiple of the segment's page size, else ENOMEM. `Err`: not tested, because
/// the test would remove the segment.
pub(crate) fn segment_page(id: i32) -> Result<Option<PageSize>, ()> {
    const END: usize = 1 << 56;
    if removes_detached() && !is_attached(id) {
        return Err(());
    }
    let suits = |page: u64| {
        // SAFETY: nothing can be attached beyond user space, so our memory stays as it is. The
        // kernel counts the refused call as an attach and a detach. If it removes segments at the
        // last detach, this one is attached elsewhere.
        let at = unsafe { libc::shmat(id, std::ptr::without_provenance(END - page as usize), libc::SHM_RDONLY) };
        at.addr() != usize::MAX || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
    };
    if suits(page_size()) {
        return Ok(None);
    }
    Ok(HUGE_PAGES.into_iter().find(|page| suits(page.bytes())))
}

/// Whether the kernel removes a System V segment when its last user detaches it
/// (`kernel.shm_rmid_forced`). Each IPC namespace has this setting, and may change it at any time.
fn removes_detached() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/shm_rmid_forced").map_or(true, |text| text.trim() != "0")
}

/// Whether a System V segment is known to be attached.
fn is_attached(id: i32) -> bool {
    // SAFETY: an all-zero structure is valid, and the call writes at most its size.
    unsafe {
        let mut state: libc::shmid_ds = std::mem::zeroed();
        libc::shmctl(id, libc::IPC_STAT, &mut state) == 0 && state.shm_nattch > 0
    }
}
