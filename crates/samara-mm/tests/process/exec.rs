//! Where the first map of a new program lies: a program of a few instructions starts under a limit
//! on its stack, and maps a page at an address that the kernel chooses. The model predicts the
//! address from the bases that exec decides on.

use samara_mm::{AddressSpace, Area, Bases, Config, FileId, Flags, Linux, MapRequest, Object, Prot};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const TASK: u64 = 0x7fff_ffff_f000;
const PAGE: u64 = 4096;

/// mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), whose answer it writes, then a read and
/// the end. It uses no stack, as there may be none.
#[rustfmt::skip]
const CODE: &[u8] = &[
    0xb8, 9, 0, 0, 0, 0x31, 0xff, 0xbe, 0, 0x10, 0, 0, 0xba, 3, 0, 0, 0, // eax = 9; edi = 0; esi = 4096; edx = 3
    0x41, 0xba, 0x22, 0, 0, 0, 0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, 0x45, 0x31, 0xc9, 0x0f, 5, // r10d = 0x22; r8 = -1; r9d = 0; syscall
    0x48, 0x89, 0, 0x48, 0x89, 0xc6, 0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0xba, 8, 0, 0, 0, 0x0f, 5, // [rax] = rax; rsi = rax; write(1, rsi, 8)
    0x31, 0xc0, 0x31, 0xff, 0x0f, 5, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 5, // read(0, rsi, 8); exit(0)
];

/// An executable file of one segment at 4 MiB: the headers, and the code behind them.
fn program() -> std::path::PathBuf {
    const AT: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let len = HEADERS + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |bytes: &[u8]| elf.extend_from_slice(bytes);
    // ET_EXEC, x86-64, version 1; the first instruction; where the program header is.
    put(&[2, 0, 62, 0, 1, 0, 0, 0]);
    [AT + HEADERS, 64, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    // No flags; sizes of both headers; one segment, no sections.
    put(&[0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // PT_LOAD, readable and executable: from the file's start on.
    put(&[1, 0, 0, 0, 5, 0, 0, 0]);
    [0, AT, AT, len, len, PAGE].iter().for_each(|word| put(&word.to_le_bytes()));
    put(CODE);
    let path = std::env::temp_dir().join(format!("samara-mm exec {}", std::process::id()));
    let mut file = std::fs::File::options().create_new(true).write(true).mode(0o700).open(&path).expect("a file");
    file.write_all(&elf).expect("a file");
    path
}

/// Starts the program: where its map is, and all that it has, as text.
fn run(program: &std::path::Path, stack: u64, personality: i32) -> (u64, String) {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: two system calls, which are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: stack, rlim_max: libc::RLIM_INFINITY };
            let good = libc::personality(personality as libc::c_ulong) >= 0
                && libc::setrlimit(libc::RLIMIT_STACK, &limit) == 0;
            if good { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    let mut child = command.spawn().expect("a process");
    let mut answer = [0; 8];
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_exact(&mut answer)
        .unwrap_or_else(|e| panic!("no address: {e}; {stack:#x}, {personality:#x}: {:?}", child.wait()));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("procfs");
    drop(child.stdin.take());
    assert!(child.wait().expect("a process").success());
    (u64::from_le_bytes(answer), maps)
}

/// The program's areas but the one at `own`, and the stack apart.
fn areas(maps: &str, own: u64) -> (Vec<(u64, u64)>, (u64, u64)) {
    let (mut others, mut stack) = (Vec::new(), (0, 0));
    for line in maps.lines().filter(|line| !line.ends_with("[vsyscall]")) {
        let hex = |text| u64::from_str_radix(text, 16).expect("an address");
        let (start, end) = line.split(' ').next().and_then(|w| w.split_once('-')).expect("a range");
        match (hex(start), hex(end)) {
            range if line.ends_with("[stack]") => stack = range,
            // It may have joined nothing: all others are of files, or the kernel's own.
            range if range.0 == own => assert_eq!(range.1, own + PAGE),
            range => others.push(range),
        }
    }
    (others, stack)
}

/// Where the model places a page.
fn predicted(others: &[(u64, u64)], stack: (u64, u64), bases: Bases) -> u64 {
    let mut space = AddressSpace::<FileId>::new(Config { bases, ..Config::default() });
    let ranges = others.iter().map(|range| (*range, Flags::empty())).chain([(stack, Flags::GROWSDOWN)]);
    for ((start, end), flags) in ranges {
        space.import(start, end, Area::new(flags, Object::Special("other".into()), 0)).expect("maps is in order");
    }
    space.mmap(&MapRequest::anonymous(0, PAGE, Prot::RW), &mut Linux).expect("room").0
}

#[test]
fn as_exec_decides() {
    let _one = crate::PROCESS_LOCK.lock();
    let program = program();
    let fixed = libc::ADDR_NO_RANDOMIZE;
    let odd = (200 << 20) + 123;
    let limits = [
        0,
        1,
        8 << 20,
        64 << 20,
        127 << 20,
        128 << 20,
        odd,
        1 << 30,
        1 << 40,
        1 << 46,
        107 << 40,
        u64::MAX - 1,
        u64::MAX,
    ];
    for stack_limit in limits {
        let bases = Bases::at_exec(TASK, stack_limit, None);
        let (got, maps) = run(&program, stack_limit, fixed);
        let (others, stack) = areas(&maps, got);
        assert_eq!(predicted(&others, stack, bases), got, "a stack of {stack_limit:#x}: {bases:x?}\n{maps}");
        // The kernel's own pages came first, and end where the search begins: the whole of it was
        // needed to predict the address.
        let top = others.iter().map(|range| range.1).max();
        assert_eq!(top, Some(bases.top_down), "a stack of {stack_limit:#x}\n{maps}");
        // Upwards.
        let (got, maps) = run(&program, stack_limit, fixed | libc::ADDR_COMPAT_LAYOUT);
        let (others, stack) = areas(&maps, got);
        assert_eq!(predicted(&others, stack, Bases { legacy: true, ..bases }), got, "upwards\n{maps}");
        let first = others.iter().map(|range| range.0).filter(|start| *start > 1 << 32).min();
        assert_eq!(first, Some(bases.bottom_up), "upwards\n{maps}");
    }
    // At random: what the shift is, the map tells; that it is one that may be is what the model
    // says.
    for stack_limit in [8 << 20, 1 << 30, 1 << 40, u64::MAX].into_iter().cycle().take(20) {
        let highest = Bases::at_exec(TASK, stack_limit, Some(0));
        let (got, maps) = run(&program, stack_limit, 0);
        let (others, stack) = areas(&maps, got);
        let below = others.iter().map(|range| range.1).filter(|end| *end <= highest.top_down).max();
        let shift = highest.top_down - below.expect("the kernel's pages");
        assert!(shift < 1 << 40 && shift.is_multiple_of(PAGE), "{shift:#x}\n{maps}");
        let bases = Bases::at_exec(TASK, stack_limit, Some(shift));
        assert_eq!(predicted(&others, stack, bases), got, "{bases:x?}\n{maps}");
    }
    std::fs::remove_file(&program).expect("a file");
}
