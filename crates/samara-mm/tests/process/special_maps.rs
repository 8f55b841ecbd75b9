//! The heap and the kernel's own areas (`[vdso]` and others) under random calls, and the whole of
//! `/proc/PID/maps` to the byte.

use crate::child::{self, BASE, END, PAGE, QueriedArea, Raw, Window};
use crate::import::{import, layout};
use crate::rng::Rng;
use crate::skip::skipped;
use samara_mm::*;
use std::io::Write;

fn runs(usual: u64) -> u64 {
    std::env::var("SAMARA_MM_RUNS").ok().and_then(|v| v.parse().ok()).unwrap_or(usual)
}

fn seen(space: &AddressSpace<FileId>, w: Window) -> Vec<QueriedArea> {
    let bit = |f: Flags, flag, n: u64| if f.contains(flag) { n } else { 0 };
    let one = |a: Placed<'_, FileId>| {
        let f = a.area.flags;
        let perms =
            bit(f, Flags::READ, 1) | bit(f, Flags::WRITE, 2) | bit(f, Flags::EXEC, 4) | bit(f, Flags::MAYSHARE, 8);
        QueriedArea { start: a.start, end: a.end, perms, offset: 0 }
    };
    space.areas_in(w.start, w.end).map(one).collect()
}

#[test]
fn maps_to_the_byte() {
    let _one = crate::PROCESS_LOCK.lock();
    // A name with a newline, and one that is removed while it is mapped.
    let dir = std::env::temp_dir();
    let path = dir.join(format!("samara-mm {}\nand a line", std::process::id()));
    let mut file = std::fs::File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(&path)
        .expect("temporary file");
    file.write_all(&[1; 8192]).expect("temporary file");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file) as u64;
    let at = BASE - 64 * PAGE;
    let kind = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
    assert_eq!(child::call(libc::SYS_mmap, [at, PAGE, 1, kind, fd, PAGE]), at as i64);
    for removed in [false, true] {
        if removed {
            std::fs::remove_file(&path).expect("temporary file");
        }
        let layout = layout();
        let out = child::run(&[], child::USUAL).expect("a child that does nothing");
        assert!(out.maps.contains("\\012and a line"), "the file is mapped");
        assert!(out.maps.contains("(deleted)"), "the guards at least");
        assert_eq!(import(&out.smaps, layout).to_string(), out.maps);
    }
    child::call(libc::SYS_munmap, [at, PAGE, 0, 0, 0, 0]);
}

/// The lines of areas that start below `end`.
fn below(maps: &str, end: u64) -> Vec<String> {
    let start = |l: &str| u64::from_str_radix(l.split('-').next().unwrap_or_default(), 16).expect("an address");
    maps.lines().filter(|l| start(l) < end).map(str::to_owned).collect()
}

/// brk among maps, changes of protection, locks and holes.
#[test]
fn heap() {
    let _one = crate::PROCESS_LOCK.lock();
    let mut compared = 0;
    for seed in 0..runs(150) {
        let layout = layout();
        let start = layout.brk.next_multiple_of(PAGE);
        let window = Window { start, end: start + 64 * PAGE, guards: (false, true) };
        let mut rng = Rng(seed);
        let mut calls: Vec<(i64, [u64; 6])> = Vec::new();
        for _ in 0..40 {
            let (at, len) = (start + rng.below(60) * PAGE, (1 + rng.below(5)) * PAGE);
            let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
            calls.push(match rng.below(12) {
                0..=5 => (libc::SYS_brk, [at + rng.below(2) * 8, 0, 0, 0, 0, 0]),
                6 => (libc::SYS_munmap, [at, len, 0, 0, 0, 0]),
                7 => (libc::SYS_mprotect, [at, len, rng.pick(&[0, 1, 3]), 0, 0, 0]),
                8 if rng.one_in(3) => {
                    (libc::SYS_mmap, [at, len, 3, kind | if rng.one_in(3) { 0x100 } else { 0 }, u64::MAX, 0])
                }
                9 if rng.one_in(2) => (libc::SYS_mlockall, [2, 0, 0, 0, 0, 0]),
                9 => (libc::SYS_munlockall, [0; 6]),
                10 if rng.one_in(8) => (462, [at, len, 0, 0, 0, 0]),
                _ => (libc::SYS_brk, [layout.brk + rng.below(60) * PAGE, 0, 0, 0, 0, 0]),
            });
        }
        let raw: Vec<Raw> = calls.iter().map(|c| Raw::Call(c.0, c.1)).collect();
        let before = child::run(&[], window).expect("a child that does nothing");
        if !before.frames.is_empty() || layout != self::layout() {
            continue;
        }
        let out = child::run(&raw, window).expect("a child that lives");
        let mut space = import(&before.smaps, layout);
        for (i, (nr, a)) in calls.iter().enumerate() {
            let (ret, kernel) = &out.frames[i];
            let done = match *nr {
                libc::SYS_brk => {
                    let _ = space.brk(a[0]);
                    assert_eq!(space.layout().brk as i64, *ret, "seed {seed}, call {i}: brk {:#x}", a[0]);
                    Ok(Plan::default())
                }
                libc::SYS_munmap => space.unmap(a[0], a[1]),
                libc::SYS_mprotect => space.protect(a[0], a[1], Prot::from_bits_retain(a[2] as u32), None),
                libc::SYS_mmap => {
                    let flags = MapFlags::from_bits_retain(a[3] as u32);
                    space.map(&MapRequest { flags, ..MapRequest::anonymous(a[0], a[1], Prot::RW) })
                }
                libc::SYS_mlockall => space.lock_all(false, true, LockKind::Now),
                libc::SYS_munlockall => space.unlock_all(),
                _ => space.seal(a[0], a[1]),
            };
            let errno = done.map_or_else(|e| e.errno.raw(), |_| 0);
            if *nr != libc::SYS_brk {
                assert_eq!(-(*ret).min(0), errno.into(), "seed {seed}, call {i}: {:x?}", calls[i]);
            }
            assert_eq!(seen(&space, window), *kernel, "seed {seed}, call {i}: {:x?}", calls[i]);
            space.check().expect("a whole model");
            compared += 1;
        }
        assert_eq!(below(&space.to_string(), window.end), below(&out.maps, window.end), "seed {seed}");
    }
    assert!(compared > 1000, "the break moved under the test too often: {compared} calls compared");
}

/// `[vdso]` and the other special areas: never split, never merged, but moved as a whole.
#[test]
fn special() {
    let _one = crate::PROCESS_LOCK.lock();
    let nothing = child::run(&[], child::USUAL).expect("a child that does nothing");
    let layout = layout();
    let own = import(&nothing.smaps, layout);
    let vdso = own.areas().find(|a| matches!(&a.area.object, Object::Special(n) if &**n == "[vdso]"));
    let Some(vdso) = vdso.map(|v| (v.start, v.end)) else {
        skipped("this process has no [vdso]");
        return;
    };
    // The special areas that touch one another: [vvar], [vvar_vclock], [vdso].
    let special = |a: &Placed<'_, FileId>| matches!(a.area.object, Object::Special(_));
    let start = own.areas().filter(special).map(|a| a.start).min().unwrap_or(vdso.0);
    let window = Window { start, end: vdso.1, guards: (false, false) };
    let pages = (window.end - window.start) / PAGE;
    for seed in 0..runs(150) {
        let mut rng = Rng(seed ^ 0xabcd);
        let mut calls: Vec<(i64, [u64; 6])> = Vec::new();
        for _ in 0..20 {
            let from = rng.below(pages);
            let (mut at, mut len) = (start + from * PAGE, (1 + rng.below(pages - from)) * PAGE);
            if rng.one_in(2) {
                let whole: Vec<_> = own.areas().filter(special).map(|a| (a.start, a.end - a.start)).collect();
                (at, len) = rng.pick(&whole);
            }
            let to = BASE + rng.below(32) * PAGE;
            calls.push(match rng.below(8) {
                0 if rng.one_in(3) => (libc::SYS_munmap, [at, len, 0, 0, 0, 0]),
                0..=2 => (libc::SYS_mprotect, [at, len, rng.pick(&[0, 1, 3, 5]), 0, 0, 0]),
                3 => (libc::SYS_madvise, [at, len, rng.pick(&[0, 1, 2, 10, 11, 14, 15, 16, 17, 18]), 0, 0, 0]),
                4 => (libc::SYS_mlock2, [at, len, 0, 0, 0, 0]),
                5 => (libc::SYS_mremap, [at, len, len, 3, to, 0]),
                6 => (libc::SYS_mremap, [at, len, len + PAGE, 0, 0, 0]),
                _ if rng.one_in(6) => (462, [at, len, 0, 0, 0, 0]),
                _ => (libc::SYS_mbind, [at, len, 4, 0, 0, 0]),
            });
        }
        let raw: Vec<Raw> = calls.iter().map(|c| Raw::Call(c.0, c.1)).collect();
        let out = child::run(&raw, window).expect("a child that lives");
        let mut space = import(&nothing.smaps, layout);
        for g in [BASE - PAGE, END] {
            space.forget(g, g + PAGE).expect("the guards of the usual window");
        }
        for (i, (nr, a)) in calls.iter().enumerate() {
            let (ret, kernel) = &out.frames[i];
            let done = match *nr {
                libc::SYS_munmap => space.unmap(a[0], a[1]),
                libc::SYS_mprotect => space.protect(a[0], a[1], Prot::from_bits_retain(a[2] as u32), None),
                libc::SYS_madvise => space.advise(a[0], a[1], Advice::from_raw(a[2] as u32).expect("known advice")),
                libc::SYS_mlock2 => space.lock(a[0], a[1], LockKind::Now),
                libc::SYS_mremap => {
                    let mode = if a[3] == 3 { RemapMode::Fixed(a[4]) } else { RemapMode::InPlace };
                    space.remap(&RemapRequest { old: a[0], old_len: a[1], new_len: a[2], mode, dontunmap: false })
                }
                libc::SYS_mbind => space.set_policy(a[0], a[1], Some(Policy { mode: 4, ..Policy::default() })),
                _ => space.seal(a[0], a[1]),
            };
            let errno = done.map_or_else(|e| e.errno.raw(), |_| 0);
            let context = || {
                format!(
                    "seed {seed}, call {i}: {:x?}, areas {:x?}",
                    calls[i],
                    i.checked_sub(1).map(|i| &out.frames[i].1)
                )
            };
            assert_eq!(-(*ret).min(0), errno.into(), "{}", context());
            assert_eq!(seen(&space, window), *kernel, "{}", context());
        }
        let specials = |maps: &str| maps.lines().filter(|l| l.contains("[v")).map(str::to_owned).collect::<Vec<_>>();
        let context = || calls.iter().zip(&out.frames).map(|(c, f)| format!("{c:x?} = {}\n", f.0)).collect::<String>();
        assert_eq!(specials(&space.to_string()), specials(&out.maps), "seed {seed}\n{}", context());
    }
}
