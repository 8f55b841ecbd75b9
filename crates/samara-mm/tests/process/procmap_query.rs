//! PROCMAP_QUERY on this process, for areas above its stack, which no allocator touches: the model
//! fills in the same bytes as the kernel.

use crate::child::{self, PAGE};
use crate::import::{import, layout};
use crate::rng::Rng;
use crate::skip::skipped;
use samara_mm::*;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

const END: u64 = 0x7fff_ffff_f000;
const PAGES: u64 = 40;
const START: u64 = END - PAGES * PAGE;
const PROCMAP_QUERY: u64 = 3 << 30 | (Query::BYTES as u64) << 16 | (b'f' as u64) << 8 | 17;
const NAME: usize = 8192;

/// Areas of all kinds at the end of user space, and a model of them.
struct Window {
    maps: std::fs::File,
    space: AddressSpace<FileId>,
    dir: PathBuf,
    name: Vec<u8>,
}

impl Drop for Window {
    fn drop(&mut self) {
        child::call(libc::SYS_munmap, [START, END - START, 0, 0, 0, 0]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Window {
    fn new() -> Option<Window> {
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        if child::call(libc::SYS_mmap, [START, END - START, 0, kind, u64::MAX, 0]) != START as i64 {
            skipped("something lies at the end of user space");
            return None;
        }
        child::call(libc::SYS_munmap, [START, END - START, 0, 0, 0, 0]);
        let dir = std::env::temp_dir().join(format!("samara-mm-query-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temporary directory");
        let mut options = std::fs::File::options();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let file = options.open(dir.join("a line\nand\ta\\second one")).expect("temporary file");
        file.set_len(1 << 20).expect("temporary file");
        let read_only = std::fs::File::open(dir.join("a line\nand\ta\\second one")).expect("temporary file");
        let gone = options.open(dir.join("gone")).expect("temporary file");
        std::fs::remove_file(dir.join("gone")).expect("temporary file");
        let (file, read_only, gone) = (file.as_raw_fd(), read_only.as_raw_fd(), gone.as_raw_fd());
        let mut page = 0;
        let mut map = |prot: i32, kind: i32, fd: i32, apart: bool| {
            page += 1 + u64::from(apart);
            let kind = (kind | libc::MAP_FIXED_NOREPLACE) as u64;
            let at = START + page * PAGE;
            assert_eq!(child::call(libc::SYS_mmap, [at, PAGE, prot as u64, kind, fd as u64, page * PAGE]), at as i64);
        };
        let (own, anonymous, shared) = (libc::MAP_PRIVATE, libc::MAP_ANONYMOUS, libc::MAP_SHARED);
        for prot in [0, 1, 3, 5, 7, 2, 4] {
            map(prot, own | anonymous, -1, prot != 3);
            map(prot, shared | if prot == 5 { anonymous } else { 0 }, file, prot == 0);
            map(prot, own, read_only, prot == 7);
        }
        map(1, shared, read_only, true);
        map(1, shared, gone, false);
        let maps = std::fs::File::open("/proc/self/maps").expect("procfs");
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
        let mut space = import(&smaps, layout());
        // The rest of the process moves: a query of the window never gets there.
        space.forget(0, START).expect("memory");
        Some(Window { maps, space, dir, name: vec![0xaa; NAME] })
    }

    /// Asks both. The structure is in `bytes`, which are more than its size.
    fn ask(&mut self, bytes: &[u8; NAME]) -> i32 {
        let mut kernel = *bytes;
        self.name.fill(0xaa);
        let ret = child::call(
            libc::SYS_ioctl,
            [self.maps.as_raw_fd() as u64, PROCMAP_QUERY, kernel.as_mut_ptr() as u64, 0, 0, 0],
        );
        let (mut model, mut name) = (*bytes, vec![0xaa; NAME]);
        let size = u64::from_le_bytes(*bytes.first_chunk().expect("a size"));
        let query = Query::from_bytes(bytes, PageSize::K4);
        let answer = query.and_then(|q| self.space.query(&q));
        let errno = answer.as_ref().map_or_else(
            |e| e.raw(),
            |a| {
                a.to_bytes(&mut model[..size as usize]);
                if let Some(n) = &a.name {
                    let text = format!("{n}\0");
                    assert_eq!(n.len() + 1, text.len());
                    name[..text.len()].copy_from_slice(text.as_bytes());
                }
                0
            },
        );
        let context = || format!("{query:x?}, size {size}: {answer:x?}; the kernel says {ret}");
        assert_eq!(i64::from(-errno), ret, "{}", context());
        assert!(kernel == model, "{}: {:x?}", context(), &kernel[..Query::BYTES]);
        assert!(self.name == name, "{}: {:x?}", context(), String::from_utf8_lossy(&self.name[..200]));
        errno
    }

    fn structure(&self, size: u64, flags: u64, addr: u64, name_size: u32) -> [u8; NAME] {
        let mut bytes = [0; NAME];
        let name = if name_size == 0 { 0 } else { self.name.as_ptr() as u64 };
        for (at, n) in [(0, size), (8, flags), (16, addr), (80, name_size.into()), (88, name)] {
            bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
        }
        bytes
    }
}

/// What this kernel lacks.
fn lacking() -> bool {
    let maps = std::fs::File::open("/proc/self/maps").expect("procfs");
    let mut bytes = [0u8; Query::BYTES];
    bytes[0] = Query::BYTES as u8;
    bytes[8] = QueryFlags::COVERING_OR_NEXT.bits() as u8;
    let asked = [maps.as_raw_fd() as u64, PROCMAP_QUERY, bytes.as_mut_ptr() as u64, 0, 0, 0];
    let lacking = child::call(libc::SYS_ioctl, asked) != 0;
    if lacking {
        skipped("this kernel has no PROCMAP_QUERY");
    }
    lacking
}

/// Every combination of flags at every page, with and without the name.
#[test]
fn all_flags_at_all_pages() {
    let _one = crate::PROCESS_LOCK.lock();
    let Some(mut w) = (if lacking() { None } else { Window::new() }) else { return };
    let (mut found, mut refused) = (0, 0);
    for page in 0..=PAGES {
        for (flags, name) in (0..64).flat_map(|f| [0, 4096].map(|n| (f, n))) {
            let bytes = w.structure(Query::BYTES as u64, flags, START + page * PAGE + page, name);
            *if w.ask(&bytes) == 0 { &mut found } else { &mut refused } += 1;
        }
    }
    assert!(found > 1000 && refused > 1000, "{found} found, {refused} refused");
}

/// Structures of all sizes, flags that are not known, names that do not fit, addresses anywhere.
#[test]
fn any_structure() {
    let _one = crate::PROCESS_LOCK.lock();
    let Some(mut w) = (if lacking() { None } else { Window::new() }) else { return };
    let mut answers = std::collections::BTreeMap::<i32, u64>::new();
    for seed in 0..60_000 {
        let mut r = Rng(seed);
        let addr = match r.below(8) {
            0 => r.pick(&[END, END - 1, 1 << 47, 1 << 63, u64::MAX, 0xffff_ffff_ff60_0000]),
            _ => START + r.below(PAGES * PAGE),
        };
        let size = match r.below(4) {
            0 => r.below(128),
            1 => r.pick(&[0, 23, 24, 80, 84, 88, 96, 103, 105, 4095, 4096, 4097, 1 << 32, u64::MAX]),
            _ => Query::BYTES as u64,
        };
        // Not within a pointer: half of one is a pointer to nowhere.
        let size = if (89..104).contains(&size) { size & !7 } else { size };
        let flags = if r.one_in(12) { r.next() >> r.below(64) } else { r.below(64) & r.next() };
        let name_size = match r.below(4) {
            0 => 0,
            1 => r.pick(&[1, 7, 8, 4095, 4096, 4097, 8192]),
            _ => r.below(110) as u32,
        };
        let mut bytes = w.structure(size, flags, addr, name_size);
        let mut build_id = [0u8; 32];
        if r.one_in(4) {
            // A build ID is asked for; of these files none has one.
            bytes[84] = r.pick(&[0, 20, 32]);
            let at = if r.one_in(3) { 0 } else { build_id.as_mut_ptr() as u64 };
            bytes[96..104].copy_from_slice(&at.to_le_bytes());
        }
        if r.one_in(8) {
            // A name without a size, or a size without a name; something behind what is known.
            let (from, to) = r.pick(&[(80, 84), (88, 96)]);
            bytes[from..to].fill(0);
            bytes[r.pick(&[104, 111, 4095, 4096])] = r.below(2) as u8;
        }
        *answers.entry(w.ask(&bytes)).or_default() += 1;
        std::hint::black_box(&mut build_id);
    }
    for errno in [0, 2, 7, 22, 36] {
        assert!(answers.get(&errno).is_some_and(|n| *n > 500), "errno {errno}: {answers:?}");
    }
}

/// The kernel's own pages, and the stack: neither has a file.
#[test]
fn special_places() {
    let _one = crate::PROCESS_LOCK.lock();
    let Some(mut w) = (if lacking() { None } else { Window::new() }) else { return };
    w.space = import(&std::fs::read_to_string("/proc/self/smaps").expect("procfs"), layout());
    let stack = w.space.layout().start_stack;
    let special =
        |a: &Placed<'_, FileId>| matches!(a.area.object, Object::Special(_)) || (a.start..a.end).contains(&stack);
    let places: Vec<u64> = w.space.areas().filter(special).map(|a| a.end - 1).collect();
    let mut found = 0;
    // Another thread may change the area after it.
    for (place, flags) in places.iter().flat_map(|p| (0..64).filter(|f| f & 0x10 == 0).map(move |f| (*p, f))) {
        let bytes = w.structure(Query::BYTES as u64, flags, place, 4096);
        found += u32::from(w.ask(&bytes) == 0);
    }
    assert!(found >= 2 * places.len() as u32, "{found} found at {places:x?}");
}

/// A path of 4095 bytes is returned, one of 4096 is not.
#[test]
fn the_longest_name() {
    let _one = crate::PROCESS_LOCK.lock();
    let Some(mut w) = (if lacking() { None } else { Window::new() }) else { return };
    // Too long for a path in one piece: one directory after the other, each through the one before
    // it.
    let dir = w.dir.clone();
    let deep = |name_len: usize| {
        let mut len = dir.as_os_str().len();
        let mut at = std::fs::File::open(&dir).expect("a directory");
        while name_len - len > 401 {
            let below = PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd())).join("d".repeat(200));
            std::fs::create_dir_all(&below).expect("a directory");
            at = std::fs::File::open(&below).expect("a directory");
            len += 201;
        }
        let rest = name_len - len - 1;
        let middle = "m".repeat(rest / 2);
        let below = PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd())).join(middle);
        std::fs::create_dir_all(&below).expect("a directory");
        let mut options = std::fs::File::options();
        let name = "f".repeat(rest - rest / 2 - 1);
        options.create(true).truncate(false).read(true).write(true).open(below.join(name)).expect("a file")
    };
    for (len, errno) in [(4094, 0), (4095, 0), (4096, 36), (4097, 36)] {
        let file = deep(len);
        let kind = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
        child::call(libc::SYS_mmap, [START, PAGE, 1, kind, file.as_raw_fd() as u64, 0]);
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
        w.space = import(&smaps, layout());
        w.space.forget(0, START).expect("memory");
        let line = w.space.line(START).expect("the map").to_string();
        assert_eq!(line.len(), 73 + len, "{line}");
        assert!(smaps.lines().any(|l| l == line), "{line}");
        for name_size in [len as u32, len as u32 + 1, 8192] {
            let bytes = w.structure(Query::BYTES as u64, 0, START, name_size);
            assert_eq!(w.ask(&bytes), if name_size == len as u32 { 36 } else { errno }, "{len}, {name_size}");
        }
        assert_eq!(file.metadata().expect("a file").ino(), {
            let q = Query { addr: START, ..Query::default() };
            w.space.query(&q).expect("the map").inode
        });
    }
}
