//! Traced programs whose areas have state that no maps line shows, and which then make calls after
//! which the recorder must ask the kernel. The recorder must keep its knowledge of all memory that
//! is left. New memory next to an area shows whether it does: it merges, or not.

use crate::programs::window;
use crate::syscalls::*;

const PAGE: u64 = 4096;
const MOVE: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
/// Pages of a huge page.
const HUGE: u64 = 512;
/// The cut area lies across this page of its window, from which on huge pages fit.
const AT: u64 = HUGE;

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    match name {
        "kept" => kept(),
        "registered" => registered(),
        "many-moved" => many_moved(),
        "grown-and-changed" => grown_and_changed(),
        "grown-far-away" => grown_far_away(),
        _ => return false,
    }
    true
}

/// Memory that has grown on a fault is changed when there are many areas below it, each mapped
/// below the previous one.
fn grown_far_away() {
    let w = window(1_200);
    let at = w + 1_100 * PAGE;
    assert_eq!(mmap(at, PAGE, RW, FIXED | libc::MAP_GROWSDOWN, -1, 0) as u64, at);
    touch(at - 2 * PAGE, 1);
    for i in 1..=400 {
        let low = w + (1_000 - i * 2) * PAGE;
        assert_eq!(mmap(low, PAGE, R, FIXED, -1, 0) as u64, low);
    }
    assert_eq!(mprotect(at - 2 * PAGE, PAGE, R), 0);
    exit(0);
}

/// Areas that grow down on a fault, and calls that change the growth before anything shows it.
fn grown_and_changed() {
    let grows = FIXED | libc::MAP_GROWSDOWN;
    let grown_from = |lowest: u64| {
        let w = window(100);
        assert_eq!(mmap(w + 40 * PAGE, PAGE, RW, grows, -1, 0) as u64, w + 40 * PAGE);
        // Memory that grows down may be nearer to it than other memory.
        assert_eq!(mmap(w + 33 * PAGE, 3 * PAGE, RW, grows, -1, 0) as u64, w + 33 * PAGE);
        touch(w + lowest * PAGE, 1);
        move |page: u64| w + page * PAGE
    };
    // Cut at its lower end, with and without what lies below it; by memory that joins it; and cut
    // in two.
    for (lowest, from, pages, prot, flags) in
        [(38, 33, 6, 0, FIXED), (38, 36, 3, 0, FIXED), (38, 33, 6, RW, grows), (37, 38, 1, 0, FIXED)]
    {
        let p = grown_from(lowest);
        assert_eq!(mmap(p(from), pages * PAGE, prot, flags, -1, 0) as u64, p(from));
    }
    let p = grown_from(38);
    assert_eq!(munmap(p(33), 6 * PAGE), 0);
    let p = grown_from(38);
    assert_eq!(mprotect(p(38), PAGE, R), 0);
    for pages in [1, 2] {
        let p = grown_from(38);
        assert_eq!(mremap(p(38), pages * PAGE, pages * PAGE, MOVE, p(60)) as u64, p(60));
    }
    // Other memory is moved over what has grown.
    for to in [36, 37] {
        let p = grown_from(37);
        assert_eq!(mmap(p(60), 2 * PAGE, R, FIXED, -1, 0) as u64, p(60));
        assert_eq!(mremap(p(60), 2 * PAGE, 2 * PAGE, MOVE, p(to)) as u64, p(to));
    }
}

/// Properties of an area that its maps line does not show.
const PROPERTIES: [&str; 9] =
    ["nothing", "written", "inherited", "moved", "policy", "name", "not-forked", "wiped", "registered"];

/// Calls whose effect the recorder takes from the kernel.
const CUTS: [&str; 9] = [
    "segment",
    "segment-first",
    "segment-last",
    "segment-refused",
    "segment-again",
    "huge-refused",
    "lock-refused",
    "probed",
    "merged-pages",
];

fn map(at: u64, pages: u64) {
    assert_eq!(mmap(at, pages * PAGE, RW, FIXED, -1, 0) as u64, at);
}

fn advise(at: u64, pages: u64, advice: i32) {
    assert_eq!(call(libc::SYS_madvise, [at, pages * PAGE, advice as u64, 0, 0, 0]), 0);
}

/// A userfaultfd; `None`: there is none for us.
fn userfaultfd() -> Option<u64> {
    let fd = call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64 | 1, 0, 0, 0, 0, 0]);
    let api = [0xaau64, 0, 0, 0];
    let well = fd >= 0 && call(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, api.as_ptr() as u64, 0, 0, 0]) == 0;
    well.then_some(fd as u64)
}

/// Registers for protection from writing.
fn register(fd: u64, at: u64, pages: u64) -> i64 {
    let range = [at, pages * PAGE, 2, 0];
    call(libc::SYS_ioctl, [fd, 0xc020_aa00, range.as_ptr() as u64, 0, 0, 0])
}

fn unregister(fd: u64, at: u64, pages: u64) -> i64 {
    let range = [at, pages * PAGE];
    call(libc::SYS_ioctl, [fd, 0x8010_aa01, range.as_ptr() as u64, 0, 0, 0])
}

/// Each property with each cut, each in a child's window: 16 pages around `AT`.
fn kept() {
    let count = (PROPERTIES.len() * CUTS.len()) as u64;
    let all = window((count + 1) * 2 * HUGE).next_multiple_of(HUGE * PAGE);
    let windows: Vec<u64> = (0..count).map(|i| all + i * 2 * HUGE * PAGE).collect();
    let each = || PROPERTIES.iter().flat_map(|p| CUTS.map(|c| (*p, c)));
    for ((property, _), w) in each().zip(&windows) {
        map(w + (AT - 8) * PAGE, 16);
        if property == "inherited" {
            touch(w + (AT - 8) * PAGE, PAGE);
        }
    }
    let child = fork();
    if child == 0 {
        each().zip(&windows).for_each(|((property, cut), w)| keep(property, cut, *w));
        exit(0);
    }
    assert_eq!(wait(child, 0), 0);
}

fn keep(property: &str, cut: &str, w: u64) {
    let p = |n: i64| w + ((AT as i64 + n) as u64) * PAGE;
    let mask = [1u64];
    match property {
        "written" => touch(p(-8), PAGE),
        // The upper half has the place in its object that the lower half had.
        "moved" => {
            touch(p(-8), 16 * PAGE);
            assert_eq!(mremap(p(-8), 16 * PAGE, 16 * PAGE, MOVE, p(40)) as u64, p(40));
            assert_eq!(mremap(p(40), 8 * PAGE, 8 * PAGE, MOVE, p(0)) as u64, p(0));
            map(p(-8), 8);
        }
        // MPOL_BIND; kernels without memory nodes have none.
        "policy" => drop(call(libc::SYS_mbind, [p(-8), 16 * PAGE, 2, mask.as_ptr() as u64, 64, 0])),
        "name" => drop(call(libc::SYS_prctl, [0x5356_4d41, 0, p(-8), 16 * PAGE, c"known".as_ptr() as u64, 0])),
        "not-forked" => advise(p(-8), 16, libc::MADV_DONTFORK),
        "wiped" => advise(p(-8), 16, libc::MADV_WIPEONFORK),
        "registered" => {
            let Some(fd) = userfaultfd() else { return };
            register(fd, p(-8), 16);
        }
        _ => {}
    }
    let segment = |at: u64, flags: i32| {
        let id = call(libc::SYS_shmget, [0, PAGE, 0o1600, 0, 0, 0]);
        // Nothing is attached for one that there is not, or for flags that there are not.
        call(libc::SYS_shmat, [id as u64, at, libc::SHM_REMAP as u64 | flags as u64, 0, 0, 0]);
        call(libc::SYS_shmctl, [id as u64, 0, 0, 0, 0, 0]); // IPC_RMID
    };
    match cut {
        "segment" => segment(p(0), 0),
        "segment-first" => segment(p(-8), 0),
        "segment-last" => segment(p(7), 0),
        "segment-refused" => segment(p(0), libc::SHM_EXEC | 0x0100_0000),
        // Where it was attached, with a policy: it has none then. What a page of it gets next
        // shows.
        "segment-again" => {
            let id = call(libc::SYS_shmget, [0, 4 * PAGE, 0o1600, 0, 0, 0]);
            for _ in 0..2 {
                call(libc::SYS_shmat, [id as u64, p(0), libc::SHM_REMAP as u64, 0, 0, 0]);
                call(libc::SYS_mbind, [p(0), 4 * PAGE, 2, mask.as_ptr() as u64, 64, 0]);
                call(libc::SYS_mbind, [p(1), PAGE, 0, 0, 0, 0]);
                call(libc::SYS_mbind, [p(1), PAGE, 2, mask.as_ptr() as u64, 64, 0]);
            }
            call(libc::SYS_shmat, [id as u64, p(0), libc::SHM_REMAP as u64, 0, 0, 0]);
            call(libc::SYS_mbind, [p(1), PAGE, 2, mask.as_ptr() as u64, 64, 0]);
            call(libc::SYS_shmctl, [id as u64, 0, 0, 0, 0, 0]); // IPC_RMID
        }
        // Refused if there are no huge pages, or too few; the memory there is gone.
        "huge-refused" => drop(mmap(p(0), PAGE, RW, FIXED | libc::MAP_HUGETLB, -1, 0)),
        // Pages that cannot be brought in: everything is locked nevertheless.
        "lock-refused" => {
            assert_eq!(mprotect(p(0), PAGE, libc::PROT_NONE), 0);
            call(libc::SYS_mlock, [p(-8), 16 * PAGE, 0, 0, 0, 0]);
            assert_eq!(call(libc::SYS_munlock, [p(-8), 16 * PAGE, 0, 0, 0, 0]), 0);
            assert_eq!(mprotect(p(0), PAGE, RW), 0);
        }
        "probed" => {
            let mut context = 0u64;
            call(libc::SYS_io_setup, [8, &raw mut context as u64, 0, 0, 0, 0]);
        }
        // All memory gets a flag, and loses it again.
        _ => {
            call(libc::SYS_prctl, [67, 1, 0, 0, 0, 0]);
            call(libc::SYS_prctl, [67, 0, 0, 0, 0, 0]);
        }
    }
    // Behind it, before it, and in the middle of what is left.
    map(p(8), 4);
    map(p(-12), 4);
    map(p(2), 1);
    map(p(-5), 1);
    // Nothing is left there where a whole huge page was refused.
    mprotect(p(4), PAGE, R);
    mprotect(p(4), PAGE, RW);
}

/// Registrations that come and go on touching areas, each written separately. Exit code 7: there is
/// no userfaultfd for us.
fn registered() {
    let w = window(480);
    for way in 0..8 {
        let p = |n: u64| w + (way * 40 + n) * PAGE;
        let Some(fd) = userfaultfd() else { exit(7) };
        map(p(8), 4);
        if register(fd, p(8), 4) < 0 {
            exit(7);
        }
        map(p(12), 4);
        touch(p(8), PAGE);
        touch(p(12), PAGE);
        match way {
            0 => assert_eq!(register(fd, p(12), 4), 0),
            1 => assert_eq!(unregister(fd, p(8), 4), 0),
            // The new one has the old one's descriptor, and registers what touches.
            2 | 3 => {
                assert_eq!(call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]), 0);
                let again = userfaultfd().unwrap_or(fd);
                assert_eq!(again, fd);
                assert_eq!(register(again, p(if way == 2 { 12 } else { 20 }), 4), if way == 2 { 0 } else { EINVAL });
            }
            // It registers the same, or a part of it.
            6 | 7 => {
                assert_eq!(call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]), 0);
                let again = userfaultfd().unwrap_or(fd);
                let (at, pages) = if way == 6 { (p(8), 4) } else { (p(9), 2) };
                assert_eq!(register(again, at, pages), 0);
                assert_eq!(register(again, p(9), 1), 0);
            }
            4 => assert_eq!(unregister(fd, p(8), 8), 0),
            _ => assert_eq!(call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]), 0),
        }
        map(p(4), 4);
        map(p(20), 1);
        map(p(16), 1);
    }
    // A second one next to the first: the two never merge.
    let p = |n: u64| w + (380 + n) * PAGE;
    let (Some(one), Some(two)) = (userfaultfd(), userfaultfd()) else { exit(7) };
    map(p(0), 4);
    assert_eq!(register(one, p(0), 2), 0);
    assert_eq!(register(two, p(2), 2), 0);
    assert_eq!(unregister(two, p(2), 1), 0);
}

const EINVAL: i64 = -(libc::EINVAL as i64);

/// One mremap of several areas: the first copy may merge with what follows it, and the second comes
/// over the beginning of that. Which pages were written decides.
fn many_moved() {
    let w = window(64 * 40);
    for way in 0..64 {
        let p = |n: u64| w + (way * 40 + n) * PAGE;
        let write = |bit: u64, n: u64| {
            if way & bit != 0 {
                touch(p(n), PAGE);
            }
        };
        map(p(22), 10);
        assert_eq!(mmap(p(32), PAGE, libc::PROT_NONE, FIXED, -1, 0) as u64, p(32));
        map(p(13), 8);
        write(1, 23);
        write(2, 14);
        write(4, 26);
        write(8, 18);
        assert_eq!(mremap(p(25), 8 * PAGE, 8 * PAGE, MOVE, p(6)) as u64, p(6));
        write(16, 14);
        assert_eq!(mremap(p(23), 2 * PAGE, 2 * PAGE, MOVE, p(15)) as u64, p(15));
        write(32, 14);
        map(p(15), 7);
        assert_eq!(munmap(p(0), 40 * PAGE), 0);
    }
}
