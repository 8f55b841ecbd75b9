//! The text of smaps: of all areas of a child, imported from what the kernel printed, and of areas
//! that the same calls made in the model.

use crate::child::{self, BASE, END, PAGE, Raw};
use crate::import::{import, layout, usages};
use samara_mm::*;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// All of the process: heap, stack, `[vdso]`, `[vsyscall]`, files.
#[test]
fn of_a_whole_process() {
    let _one = crate::PROCESS_LOCK.lock();
    let layout = layout();
    let out = child::run(&[], child::USUAL).expect("a child that does nothing");
    let counts = usages(&out.smaps);
    let space = import(&out.smaps, layout);
    let text = space.smaps(|at| counts.get(&at.start).copied().unwrap_or_default()).to_string();
    assert!(counts.values().any(|u| u.rss > 0) && text.lines().count() > 500);
    text.lines().zip(out.smaps.lines()).for_each(|(model, kernel)| assert_eq!(model, kernel));
    assert_eq!(text, out.smaps);
}

/// Areas that calls made, on both sides: whatever has letters, files, and huge pages.
#[test]
fn of_what_calls_made() {
    let _one = crate::PROCESS_LOCK.lock();
    let fd = child::memfd(64 * PAGE);
    let about = std::fs::metadata(format!("/proc/self/fd/{fd}")).expect("a memfd");
    let dev = (libc::major(about.dev()), libc::minor(about.dev()));
    let file = FileId { dev, inode: about.ino(), open: 1, name: Arc::from("/memfd:samara-mm test (deleted)") };
    // Far above the window, and aligned: the areas of huge pages.
    let huge = BASE + (1 << 30);
    let hugetlb = FileId { dev: (0, 0), inode: 0, open: 2, name: Arc::from("/anon_hugepage (deleted)") };
    let at = |page: u64| BASE + page * PAGE;
    let mut calls = Vec::new();
    let config = Config { protection_keys: samara_oracle::harness::has_protection_keys(), ..Config::default() };
    let mut space = AddressSpace::<FileId>::new(config);
    let mut map = |at: u64, pages: u64, prot: u32, flags: MapFlags, backing: Option<&FileId>| {
        let flags = flags | MapFlags::FIXED;
        let fd = if flags.contains(MapFlags::ANONYMOUS) { u64::MAX } else { fd };
        calls.push(Raw::Call(libc::SYS_mmap, [at, pages * PAGE, prot.into(), flags.bits().into(), fd, PAGE]));
        let file = MapRequest::anonymous(at, pages * PAGE, Prot::from_bits_retain(prot));
        space.map(&MapRequest { flags, offset: PAGE, backing: backing.cloned(), ..file }).expect("a map");
    };
    let private = MapFlags::PRIVATE | MapFlags::ANONYMOUS;
    map(at(0), 3, 3, private, None);
    map(at(4), 1, 0, private, None);
    map(at(5), 1, 7, private | MapFlags::NORESERVE, None);
    map(at(6), 2, 3, private | MapFlags::GROWSDOWN, None);
    map(at(8), 2, 3, private | MapFlags::STACK, None);
    map(at(10), 2, 1, MapFlags::SHARED, Some(&file));
    map(at(12), 2, 3, MapFlags::PRIVATE, Some(&file));
    map(at(20), 3, 3, MapFlags::DROPPABLE | MapFlags::ANONYMOUS, None);
    map(at(24), 12, 3, private, None);
    map(huge + (1 << 30), 1 << 24, 0, private | MapFlags::NORESERVE, None);
    // Huge pages: the kernel makes the hidden file, whose driver adds DONTEXPAND.
    let kind = private | MapFlags::HUGETLB | MapFlags::NORESERVE | MapFlags::FIXED;
    calls.push(Raw::Call(libc::SYS_mmap, [huge, 512 * PAGE, 3, kind.bits().into(), u64::MAX, 0]));
    let may = Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
    let flags = Flags::READ | Flags::WRITE | may | Flags::HUGETLB | Flags::NORESERVE | Flags::DONTEXPAND;
    let bias = Area::<FileId>::bias_of(huge, 0, PAGE);
    space.import(huge, huge + 512 * PAGE, Area::new(flags, Object::File(hugetlb), bias)).expect("free address space");
    let advice = [
        Advice::Random,
        Advice::Sequential,
        Advice::DontFork,
        Advice::DontDump,
        Advice::WipeOnFork,
        Advice::HugePage,
        Advice::Mergeable,
        Advice::GuardInstall,
    ];
    for (i, advice) in advice.into_iter().enumerate() {
        let at = at(24 + i as u64);
        calls.push(Raw::Call(libc::SYS_madvise, [at, PAGE, advice as u64, 0, 0, 0]));
        space.advise(at, PAGE, advice).expect("advice");
    }
    for (page, kind) in [(34, LockKind::Now), (35, LockKind::OnFault), (10, LockKind::Now)] {
        calls.push(Raw::Call(libc::SYS_mlock2, [at(page), PAGE, u64::from(kind == LockKind::OnFault), 0, 0, 0]));
        space.lock(at(page), PAGE, kind).expect("a lock");
    }
    calls.push(Raw::Write(at(1)));
    space.touch(at(1), at(2));
    calls.push(Raw::Call(462, [at(2), PAGE, 0, 0, 0, 0]));
    space.seal(at(2), PAGE).expect("a seal");

    let window = child::Window { start: BASE, end: END, guards: (false, false) };
    let out = child::run(&calls, window).expect("a child that lives");
    for (call, frame) in calls.iter().zip(&out.frames) {
        assert!(frame.0 >= 0, "{call:x?}: {}", frame.0);
    }
    // The lines from the window to the last of these areas; its hidden file's numbers are the
    // kernel's to draw.
    let last = space.areas().next_back().expect("areas").end;
    let kernel = lines_of(&out.smaps, BASE, last);
    let hidden = |line: &str| line.ends_with("/anon_hugepage (deleted)");
    let numbers = kernel.iter().find(|l| hidden(l)).expect("huge pages").split(' ').collect::<Vec<_>>();
    let (major, minor) = numbers[3].split_once(':').expect("a device");
    let hex = |s: &str| u32::from_str_radix(s, 16).expect("hex");
    let (dev, inode) = ((hex(major), hex(minor)), numbers[4].parse().expect("a number"));
    space.edit_objects(|o| match o {
        Object::File(f) if f.open == 2 => (f.dev, f.inode) = (dev, inode),
        _ => {}
    });
    let counts = usages(&out.smaps);
    let text = space.smaps(|at| counts.get(&at.start).copied().unwrap_or_default()).to_string();
    for (i, (model, kernel)) in text.lines().zip(&kernel).enumerate() {
        assert_eq!(model, kernel, "line {i}");
    }
    assert_eq!(text.lines().count(), kernel.len());
    for letters in
        ["rr", "sr", "dc", "dd", "wf", "hg", "mg", "gu", "lo", "lf", "gd", "nh", "nr", "ht", "dp", "sl", "ac"]
    {
        assert!(text.contains(&format!(" {letters} ")), "no area has {letters}");
    }
}

/// The entries of the areas from `first` to `last`, without the letters that the kernel's build
/// decides.
fn lines_of(smaps: &str, first: u64, last: u64) -> Vec<String> {
    let mut on = false;
    let mut lines = Vec::new();
    for line in smaps.lines() {
        let head = line.split_once('-').and_then(|(s, _)| u64::from_str_radix(s, 16).ok());
        if let Some(start) = head {
            on = (first..last).contains(&start);
        }
        if on {
            let flags = line.starts_with("VmFlags:");
            lines.push(if flags { line.replace(" sd ", " ") } else { line.to_owned() });
        }
    }
    lines
}
