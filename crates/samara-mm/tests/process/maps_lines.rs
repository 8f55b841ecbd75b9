//! Lines of `/proc/PID/maps` for files with odd names, files that were removed, and odd offsets:
//! the model prints each as the kernel does.

use crate::child::{self, BASE, PAGE, Raw};
use samara_mm::*;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

const SHARED: u64 = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;

/// The lines of a child's maps after these calls.
fn lines(calls: &[(i64, [u64; 6])]) -> Vec<String> {
    let raw: Vec<Raw> = calls.iter().map(|c| Raw::Call(c.0, c.1)).collect();
    let out = child::run(&raw, child::USUAL).expect("a child that lives");
    out.frames.iter().zip(calls).for_each(|(f, c)| assert!(f.0 >= 0, "{c:x?}: {}", f.0));
    out.maps.lines().map(str::to_owned).collect()
}

/// What the model prints of this open file at `offset`, mapped shared at the start of the window.
fn line(file: &std::fs::File, name: &str, offset: u64) -> String {
    let about = file.metadata().expect("an open file");
    let dev = (libc::major(about.dev()), libc::minor(about.dev()));
    let file = FileId { dev, inode: about.ino(), open: 1, name: Arc::from(name) };
    let mut space = AddressSpace::new(Config::default());
    space.map(&MapRequest::file(BASE, PAGE, Prot::READ, MapFlags::SHARED, file, offset)).expect("a map");
    assert_eq!(
        space.query(&Query { addr: BASE, name_size: 4096, ..Query::default() }).map(|a| a.name.map(|n| n.to_string())),
        Ok(Some(name.to_owned()))
    );
    space.line(BASE).expect("an area").to_string()
}

#[test]
fn of_files() {
    let _one = crate::PROCESS_LOCK.lock();
    let dir = std::env::temp_dir().join(format!("samara-mm-names-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temporary directory");
    let control: String = (1..=31u8).chain([127]).map(char::from).collect();
    let names = [
        "plain",
        "new\nline",
        "\n",
        "many\n\nlines\n",
        "back\\slash",
        "back\\012slash",
        "tab\tand space ",
        " ",
        "#\"'",
        "a (deleted)",
        "[heap]",
        "größe, 大きさ",
        &control,
        &"long".repeat(60),
    ];
    for name in names {
        let path = dir.join(name);
        let file = std::fs::File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let file = file.expect("a temporary file");
        let path = path.to_str().expect("UTF-8");
        for (deleted, offset) in [(false, 0), (false, 0xff_1234_5000), (true, 0), (true, 0x7fff_ffff_0000)] {
            if deleted {
                let _ = std::fs::remove_file(path);
            }
            let kernel = lines(&[(libc::SYS_mmap, [BASE, PAGE, 1, SHARED, file.as_raw_fd() as u64, offset])]);
            let model = line(&file, &format!("{path}{}", if deleted { " (deleted)" } else { "" }), offset);
            assert!(kernel.contains(&model), "{name:?}: the model prints\n{model}\nthe kernel\n{}", kernel.join("\n"));
        }
    }
    std::fs::remove_dir_all(&dir).expect("temporary directory");
}

/// Memory without a path: low addresses, memfds, shared anonymous memory.
#[test]
fn of_other_memory() {
    let _one = crate::PROCESS_LOCK.lock();
    let fd = child::memfd(PAGE);
    let about = std::fs::File::open(format!("/proc/self/fd/{fd}")).expect("a memfd");
    let far = 0x7fff_ffff_ffff_e000;
    let kernel = lines(&[(libc::SYS_mmap, [BASE, PAGE, 1, SHARED, fd, far])]);
    assert!(kernel.contains(&line(&about, "/memfd:samara-mm test (deleted)", far)), "{}", kernel.join("\n"));
    let mut space = AddressSpace::<FileId>::new(Config::default());
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
    let mut calls = Vec::new();
    // The lowest place where maps may be for anybody, and places with ever more digits.
    for (at, pages) in [(0x1_0000, 1), (0xffff_f000, 2), (0xf_ffff_f000, 1), (BASE, 3), (0x7ff0_0000_0000, 1)] {
        calls.push((libc::SYS_mmap, [at, pages * PAGE, 5, kind, u64::MAX, 0]));
        space.map(&MapRequest::anonymous(at, pages * PAGE, Prot::READ | Prot::EXEC)).expect("a map");
    }
    let kernel = lines(&calls);
    for model in space.to_string().lines() {
        assert!(kernel.iter().any(|k| k == model), "{model}\n{}", kernel.join("\n"));
    }
}

/// Names that a kernel gives only if it was built so, and those of heap and stack: by the manual
/// (proc_pid_maps(5)).
#[test]
fn by_the_manual() {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    space.set_layout(Layout { start_brk: 0x2_0000, brk: 0x2_1800, start_stack: 0x5_0000, ..Layout::default() });
    for at in [0x1_f000, 0x2_0000, 0x2_1000, 0x2_2000, 0x4_f000, 0x6_0000] {
        space.map(&MapRequest::anonymous(at, PAGE, Prot::RW)).expect("a map");
        space.seal(at, PAGE).expect("so that none joins the next");
        space.touch(at, at + PAGE);
    }
    space.set_anon_name(0x6_0000, PAGE, Some(Arc::from("a name"))).expect("anonymous memory");
    let file = FileId { dev: (0, 1), inode: 7, open: 1, name: Arc::from("/dev/zero (deleted)") };
    let flags = MapFlags::SHARED | MapFlags::ANONYMOUS;
    space.map(&MapRequest::file(0x7_0000, PAGE, Prot::RW, flags, file, 0)).expect("a map");
    // Shared anonymous memory that was named.
    let named = space.area_at(0x7_0000).expect("an area").area.clone();
    let extras = Extras { name: Some(Arc::from("a name")), ..Extras::default() };
    space.import_with(0x8_0000, 0x8_1000, named, extras).expect("free address space");
    let shown = |space: &AddressSpace<FileId>| -> Vec<String> {
        space.to_string().lines().map(|l| l.get(73..).unwrap_or_default().to_owned()).collect()
    };
    // One area from 1f000 to 23000 is all heap.
    let others = ["[stack]", "[anon:a name]", "/dev/zero (deleted)", "[anon_shmem:a name]"];
    assert_eq!(shown(&space), [&["[heap]"][..], &others].concat());
    for at in [0x1_f000, 0x2_2000] {
        space.advise(at, PAGE, Advice::DontDump).expect("advice");
    }
    assert_eq!(shown(&space), [&["", "[heap]", ""][..], &others].concat());
    // In 6.1 what ends where the heap begins is named so too. What begins at 22000 does not touch
    // the break, which is within a page; from there on it does.
    let config = Config { features: Features::LINUX_6_1, ..Config::default() };
    let mut space = space.snapshot(config).expect("memory for a copy");
    assert_eq!(shown(&space), [&["[heap]", "[heap]", ""][..], &others].concat());
    space.set_layout(Layout { brk: 0x2_2000, ..space.layout() });
    assert_eq!(shown(&space), [&["[heap]", "[heap]", "[heap]"][..], &others].concat());
}
