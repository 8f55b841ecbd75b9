//! Calls that the kernel refuses, each by another rule: the trace names the rule and its figures.

use std::os::fd::AsRawFd;

use libtest_mimic::Failed;
use samara_trace::event::EventKind;
use samara_trace::{Refused, RefusedBy};

use crate::programs::window;
use crate::recorder::Body;
use crate::syscalls::*;
use crate::{Mode, exited, expect, trace};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Private anonymous memory that the kernel does not count as committed.
const LOOSE: i32 = ANON | libc::MAP_NORESERVE;
/// The exit code of a program that cannot be refused here.
const CANNOT: i32 = 7;
const MSEAL: i64 = 462;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("refused_by_the_address_space_limit", || {
        let r = refused("refused-as", libc::SYS_mmap, libc::ENOMEM, RefusedBy::AddressSpace)?;
        above(r, 1 << 30, 3 << 30)
    }),
    ("refused_by_the_data_limit", || {
        let r = refused("refused-data", libc::SYS_mmap, libc::ENOMEM, RefusedBy::Data)?;
        above(r, 64 * MIB, 1 << 30)
    }),
    ("refused_by_the_lock_limit", || {
        let r = refused("refused-mlock", libc::SYS_mlock, libc::ENOMEM, RefusedBy::Locked)?;
        above(r, 64 * 1024, MIB)
    }),
    ("refused_by_the_lock_limit_of_a_map", || {
        let r = refused("refused-map-locked", libc::SYS_mmap, libc::EAGAIN, RefusedBy::Locked)?;
        above(r, 64 * 1024, MIB)
    }),
    ("refused_by_overcommit", overcommit),
    ("refused_by_a_full_window_of_32_bits", || {
        let r = refused("refused-32-bit", libc::SYS_mmap, libc::ENOMEM, RefusedBy::Window32)?;
        widest(r, 64 * MIB)
    }),
    ("refused_by_a_full_address_space", || {
        let r = refused("refused-space", libc::SYS_mmap, libc::ENOMEM, RefusedBy::NoGap)?;
        widest(r, SPACE)
    }),
    ("refused_by_a_hole", || {
        for (name, nr) in [
            ("refused-mprotect-hole", libc::SYS_mprotect),
            ("refused-madvise-hole", libc::SYS_madvise),
            ("refused-mlock-hole", libc::SYS_mlock),
        ] {
            let r = refused(name, nr, libc::ENOMEM, RefusedBy::Hole)?;
            expect(&format!("{name}: one page: {r:?}"), r.and_then(|r| r.at).is_none_or(|(a, b)| b - a == PAGE))?;
        }
        Ok(())
    }),
    ("refused_by_what_is_in_the_way", || {
        let r = refused("refused-in-place", libc::SYS_mremap, libc::ENOMEM, RefusedBy::NoRoom)?;
        expect(&format!("the page above: {r:?}"), r.and_then(|r| r.at).is_none_or(|(a, b)| b - a == PAGE))
    }),
    ("refused_by_the_end_of_an_area", || {
        refused("refused-across", libc::SYS_mremap, libc::EFAULT, RefusedBy::CrossesAreas).map(drop)
    }),
    ("refused_by_too_few_huge_pages", || {
        let r = refused("refused-huge", libc::SYS_mmap, libc::ENOMEM, RefusedBy::HugePages)?;
        expect(&format!("{r:?}"), r.is_none_or(|r| r.would_be == Some(HUGE)))
    }),
    ("refused_by_the_lowest_address", || {
        refused("refused-low", libc::SYS_mmap, libc::EPERM, RefusedBy::MinAddress).map(drop)
    }),
    ("refused_by_how_a_file_is_open", || {
        refused("refused-file", libc::SYS_mmap, libc::EACCES, RefusedBy::FileNotWritable)?;
        refused("refused-file-mprotect", libc::SYS_mprotect, libc::EACCES, RefusedBy::FileNotWritable).map(drop)
    }),
    ("refused_by_a_seal", || refused("refused-sealed", libc::SYS_mprotect, libc::EPERM, RefusedBy::Sealed).map(drop)),
    ("refused_by_what_the_memory_is", || {
        refused("refused-file-sealed", libc::SYS_mmap, libc::EPERM, RefusedBy::FileSealed)?;
        refused("refused-file-sealed-mprotect", libc::SYS_mprotect, libc::EACCES, RefusedBy::FileSealed)?;
        refused("refused-mdwe", libc::SYS_mmap, libc::EACCES, RefusedBy::Mdwe)?;
        let r = refused("refused-mdwe-mprotect", libc::SYS_mprotect, libc::EACCES, RefusedBy::Mdwe)?;
        expect(&format!("the area: {r:?}"), r.is_none_or(|r| r.at.is_some()))?;
        refused("refused-no-access", libc::SYS_mlock, libc::ENOMEM, RefusedBy::NoAccess)?;
        refused("refused-populate", libc::SYS_madvise, libc::EINVAL, RefusedBy::NoAccess)?;
        refused("refused-locked", libc::SYS_madvise, libc::EINVAL, RefusedBy::IsLocked)?;
        let r = refused("refused-occupied", libc::SYS_mmap, libc::EEXIST, RefusedBy::Occupied)?;
        expect(&format!("the area: {r:?}"), r.is_none_or(|r| r.at.is_some()))
    }),
    ("refused_by_a_filter_of_its_own", || {
        let of = |name: &str, errno: i32| -> Result<Option<RefusedBy>, Failed> {
            let r = trace(Mode::NoFilter, name, &[])?;
            exited(&r, 0)?;
            let mut failed = r.calls(libc::SYS_mprotect).filter(|event| event.error() == Some(errno));
            Ok(Refused::of(failed.next().ok_or("it is not recorded")?).map(|refused| refused.by))
        };
        expect("named", of("refused-filter", libc::EPERM)? == Some(RefusedBy::Filter))?;
        expect("memory may be short", of("refused-filter-memory", libc::ENOMEM)?.is_none())?;
        // Calls that another filter refuses do not reach the recorder's.
        let r = trace(Mode::Normal, "refused-filter", &[])?;
        let note = "1 program has a seccomp filter of its own: calls that it refuses are not seen";
        expect(&format!("{:?}", r.outcome.counters.notes), r.outcome.counters.notes.iter().any(|n| n.starts_with(note)))
    }),
    ("refused_brk", || {
        for (name, by) in [("refused-brk", RefusedBy::Data), ("refused-brk-occupied", RefusedBy::Occupied)] {
            let r = trace(Mode::Normal, name, &[])?;
            exited(&r, 0)?;
            let told: Vec<_> = r.calls(libc::SYS_brk).filter_map(|e| Some((e.error()?, Refused::of(e)?.by))).collect();
            expect(&format!("{name}: {told:?}"), told == [(libc::ENOMEM, by)])?;
        }
        Ok(())
    }),
    ("refused_by_its_arguments", || {
        refused("refused-unaligned", libc::SYS_munmap, libc::EINVAL, RefusedBy::Unaligned)?;
        refused("refused-empty", libc::SYS_mmap, libc::EINVAL, RefusedBy::NoLength).map(drop)
    }),
    ("refused_by_the_number_of_processes", || {
        let r = refused("refused-fork", libc::SYS_clone, libc::EAGAIN, RefusedBy::Processes)?;
        expect(&format!("{r:?}"), r.is_none_or(|r| r.limit == Some(1) && r.would_be >= Some(2)))
    }),
    ("refused_by_the_number_of_areas", || {
        let r = refused("refused-count", libc::SYS_mprotect, libc::ENOMEM, RefusedBy::MapCount)?;
        expect(&format!("{r:?}"), r.is_none_or(|r| r.limit <= r.would_be.map(|areas| areas + 1)))
    }),
];

/// More than half of the address space.
const SPACE: u64 = 100 << 40;
/// More than any pool of huge pages has.
const HUGE: u64 = 1 << 44;

/// Runs the program of this name, if it is one of these.
pub(crate) fn run(name: &str) -> bool {
    let all = |len| mmap(0, len, RW, LOOSE, -1, 0);
    let one = |nr, args: [u64; 3]| call(nr, [args[0], args[1], args[2], 0, 0, 0]);
    let three = || anon(3 * PAGE);
    let holed = || {
        let at = three();
        assert_eq!(munmap(at + PAGE, PAGE), 0);
        at
    };
    let result = match name {
        "refused-as" => {
            limit(libc::RLIMIT_AS, 1 << 30);
            all(3 << 30)
        }
        "refused-data" => {
            limit(libc::RLIMIT_DATA, 64 * MIB);
            all(1 << 30)
        }
        "refused-mlock" => {
            limit(libc::RLIMIT_MEMLOCK, 64 * 1024);
            let at = anon(MIB);
            if !become_nobody() {
                exit(CANNOT);
            }
            one(libc::SYS_mlock, [at, MIB, 0])
        }
        "refused-map-locked" => {
            limit(libc::RLIMIT_MEMLOCK, 64 * 1024);
            if !become_nobody() {
                exit(CANNOT);
            }
            mmap(0, MIB, RW, ANON | libc::MAP_LOCKED, -1, 0)
        }
        "refused-overcommit" => mmap(0, 32 << 40, RW, ANON, -1, 0),
        "refused-32-bit" => loop {
            let at = mmap(0, 64 * MIB, 0, LOOSE | libc::MAP_32BIT, -1, 0);
            if at < 0 {
                break at;
            }
        },
        "refused-space" => {
            mmap(0, SPACE, 0, LOOSE, -1, 0);
            mmap(0, SPACE, 0, LOOSE, -1, 0)
        }
        "refused-mprotect-hole" => mprotect(holed(), 3 * PAGE, R),
        "refused-madvise-hole" => one(libc::SYS_madvise, [holed(), 3 * PAGE, libc::MADV_DONTDUMP as u64]),
        "refused-mlock-hole" => one(libc::SYS_mlock, [holed(), 3 * PAGE, 0]),
        "refused-in-place" => {
            let at = window(8) + PAGE;
            assert_eq!(mmap(at, PAGE, RW, FIXED, -1, 0) as u64, at);
            assert_eq!(mmap(at + PAGE, PAGE, R, FIXED, -1, 0) as u64, at + PAGE);
            mremap(at, PAGE, 2 * PAGE, 0, 0)
        }
        "refused-across" => {
            let at = three();
            assert_eq!(mprotect(at, PAGE, R), 0);
            mremap(at, 2 * PAGE, 4 * PAGE, libc::MREMAP_MAYMOVE, 0)
        }
        "refused-huge" => mmap(0, HUGE, RW, LOOSE & !libc::MAP_NORESERVE | libc::MAP_HUGETLB, -1, 0),
        "refused-low" => {
            let least = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr").unwrap_or_default();
            if least.trim() == "0" || !become_nobody() {
                exit(CANNOT);
            }
            mmap(0, PAGE, RW, FIXED, -1, 0)
        }
        "refused-file" => {
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            mmap(0, PAGE, RW, libc::MAP_SHARED, file.as_raw_fd(), 0)
        }
        "refused-file-mprotect" => {
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            let at = mmap(0, PAGE, R, libc::MAP_SHARED, file.as_raw_fd(), 0);
            mprotect(at as u64, PAGE, RW)
        }
        "refused-sealed" => {
            let at = three();
            if one(MSEAL, [at, PAGE, 0]) != 0 {
                exit(CANNOT);
            }
            mprotect(at, 3 * PAGE, R)
        }
        "refused-filter" | "refused-filter-memory" => {
            let at = three();
            refuse(libc::SYS_mprotect as u32, if name == "refused-filter" { libc::EPERM } else { libc::ENOMEM });
            mprotect(at, PAGE, R)
        }
        "refused-file-sealed" | "refused-file-sealed-mprotect" => {
            let memfd = c"x".as_ptr() as u64;
            let fd = one(libc::SYS_memfd_create, [memfd, u64::from(libc::MFD_ALLOW_SEALING), 0]) as i32;
            one(libc::SYS_ftruncate, [fd as u64, PAGE, 0]);
            one(libc::SYS_fcntl, [fd as u64, libc::F_ADD_SEALS as u64, libc::F_SEAL_WRITE as u64]);
            if name == "refused-file-sealed" {
                mmap(0, PAGE, RW, libc::MAP_SHARED, fd, 0)
            } else {
                let at = mmap(0, PAGE, R, libc::MAP_SHARED, fd, 0);
                // Only with a privilege can the file of a mapping be opened.
                let own = std::fs::read_dir("/proc/self/map_files").into_iter().flatten().flatten();
                if at < 0 || !own.map(|entry| entry.path()).any(|file| std::fs::File::open(file).is_ok()) {
                    exit(CANNOT);
                }
                mprotect(at as u64, PAGE, RW)
            }
        }
        "refused-mdwe" | "refused-mdwe-mprotect" => {
            if call(libc::SYS_prctl, [65, 1, 0, 0, 0, 0]) != 0 {
                exit(CANNOT);
            }
            match name {
                "refused-mdwe" => mmap(0, PAGE, RW | libc::PROT_EXEC, ANON, -1, 0),
                _ => mprotect(three(), PAGE, R | libc::PROT_EXEC),
            }
        }
        "refused-no-access" => one(libc::SYS_mlock, [mmap(0, PAGE, 0, ANON, -1, 0) as u64, PAGE, 0]),
        "refused-populate" => {
            let result = one(libc::SYS_madvise, [mmap(0, PAGE, 0, ANON, -1, 0) as u64, PAGE, 22]);
            if result == -i64::from(libc::ENOMEM) || result == -i64::from(libc::EFAULT) {
                exit(CANNOT);
            }
            result
        }
        "refused-locked" => {
            let at = three();
            assert_eq!(one(libc::SYS_mlock, [at, PAGE, 0]), 0);
            one(libc::SYS_madvise, [at, 3 * PAGE, libc::MADV_DONTNEED as u64])
        }
        "refused-occupied" => mmap(three(), PAGE, RW, ANON | libc::MAP_FIXED_NOREPLACE, -1, 0),
        "refused-brk" => {
            let now = one(libc::SYS_brk, [0, 0, 0]);
            limit(libc::RLIMIT_DATA, 64 * MIB);
            one(libc::SYS_brk, [now as u64 + 80 * MIB, 0, 0]) - now - 1
        }
        "refused-brk-occupied" => {
            let now = one(libc::SYS_brk, [0, 0, 0]) as u64;
            mmap((now + 8 * PAGE) & !(PAGE - 1), PAGE, RW, FIXED, -1, 0);
            one(libc::SYS_brk, [now + 16 * PAGE, 0, 0]) - now as i64 - 1
        }
        "refused-unaligned" => munmap(three() + 1, PAGE),
        "refused-empty" => mmap(0, 0, RW, ANON, -1, 0),
        "refused-fork" => {
            limit(libc::RLIMIT_NPROC, 1);
            if !become_nobody() {
                exit(CANNOT);
            }
            // Without the standard library, which may call it otherwise.
            one(libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0])
        }
        "refused-count" => {
            let at = all(1 << 32) as u64;
            (0..).map(|n| mprotect(at + 2 * n * PAGE, PAGE, R)).find(|result| *result < 0).unwrap_or(0)
        }
        _ => return false,
    };
    // A child would be 0 here, and a map an address.
    exit(if result < 0 { 0 } else { CANNOT });
}

/// The rule that the trace of a program names for its first such call with this error. `None`: the
/// call cannot be refused on this machine.
fn refused(name: &str, nr: i64, errno: i32, by: RefusedBy) -> Result<Option<Refused>, Failed> {
    let r = trace(Mode::Normal, name, &[])?;
    if r.outcome.status.code() == Some(CANNOT) {
        println!("skipped: {name}: it is not refused here");
        return Ok(None);
    }
    exited(&r, 0)?;
    let first = r.calls(nr).find(|event| event.result == -i64::from(errno));
    let Some(first) = first else {
        let all: Vec<_> = r.of(EventKind::Call).filter(|event| event.result < 0).collect();
        return Err(format!("{name}: no call failed so: {all:?}").into());
    };
    let refused = Refused::of(first);
    expect(&format!("{name}: {:?}", first.text), refused.is_some_and(|refused| refused.by == by))?;
    Ok(refused)
}

/// The limit is this one, and it would have been exceeded by `by` at least.
fn above(refused: Option<Refused>, limit: u64, by: u64) -> Result<(), Failed> {
    let is = |r: Refused| r.limit == Some(limit) && r.would_be.is_some_and(|would_be| would_be >= by);
    expect(&format!("{refused:?}"), refused.is_none_or(is))
}

/// The request was for `asked` bytes, and the widest gap is smaller.
fn widest(refused: Option<Refused>, asked: u64) -> Result<(), Failed> {
    let is = |r: Refused| r.would_be == Some(asked) && r.limit.is_some_and(|widest| widest < asked);
    expect(&format!("{refused:?}"), refused.is_none_or(is))
}

/// By the mode of this machine: one of them commits everything.
fn overcommit() -> Result<(), Failed> {
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let by = if mode.trim() == "2" { RefusedBy::OvercommitNever } else { RefusedBy::OvercommitGuess };
    let r = refused("refused-overcommit", libc::SYS_mmap, libc::ENOMEM, by)?;
    expect(&format!("{r:?}"), r.is_none_or(|r| r.limit < r.would_be && r.would_be >= Some(32 << 40)))
}
