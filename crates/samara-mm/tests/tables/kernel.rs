//! Rows on the running kernel: a [`Machine`] that is a child process. The child makes raw system
//! calls only and allocates nothing: what it does outside the window cannot show inside.

use crate::machine::{BASE, MISSING, Machine, Outcome, PAGE, PAGES, SUMS, Seen, play};
use crate::script::{CLOSE, FILES, Limit, OTHER, Origin, Row};
use samara_mm::{Access, Flags};
use samara_oracle::harness::{self, Arena, exit, wait};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// What is the same for all rows, found before a fork.
struct Fixed {
    files: [u64; FILES.len()],
    least: u64,
    special: u64,
    segment: u64,
    huge_segment: u64,
    max_map_count: u64,
    guesses: bool,
    huge_pages: bool,
}

/// In memory that may be written to.
static WORD: AtomicU64 = AtomicU64::new(1);

fn raw(nr: i64, a: [u64; 6]) -> i64 {
    // SAFETY: the calls are made in a sacrificial child, on addresses that no Rust object lives in;
    // or they are plain calls on files.
    unsafe { harness::call(nr, a) }
}

impl Fixed {
    fn get() -> &'static Fixed {
        static FIXED: OnceLock<Fixed> = OnceLock::new();
        FIXED.get_or_init(Fixed::find)
    }

    fn find() -> Fixed {
        let open = |path: &str, flags: i32| {
            let path = format!("{path}\0");
            let fd = raw(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags as u64, 0, 0, 0]);
            assert!(fd >= 0, "opening {path}: {fd}");
            fd as u64
        };
        let memfd = |seals: i32| {
            let fd = raw(libc::SYS_memfd_create, [c"tables".as_ptr() as u64, 2, 0, 0, 0, 0]);
            assert!(fd >= 0 && raw(libc::SYS_ftruncate, [fd as u64, 1 << 20, 0, 0, 0, 0]) == 0);
            let add = libc::F_ADD_SEALS as u64;
            assert!(seals == 0 || raw(libc::SYS_fcntl, [fd as u64, add, seals as u64, 0, 0, 0]) == 0);
            fd as u64
        };
        let (f, g) = (memfd(0), memfd(0));
        let again = |flags| open(&format!("/proc/self/fd/{f}"), flags);
        let mounted = mounted();
        // MFD_HUGETLB, MFD_HUGE_2MB.
        let huge = match raw(libc::SYS_memfd_create, [c"huge".as_ptr() as u64, 4 | 21 << 26, 0, 0, 0, 0]) {
            fd if fd >= 0 => fd as u64,
            _ => MISSING,
        };
        let mut pipe = [0i32; 2];
        assert_eq!(raw(libc::SYS_pipe2, [pipe.as_mut_ptr() as u64, 0, 0, 0, 0, 0]), 0);
        let files = FILES.map(|name| match name {
            "f" => f,
            "dup" => raw(libc::SYS_dup, [f, 0, 0, 0, 0, 0]) as u64,
            "again" => again(libc::O_RDWR),
            "ro" => again(libc::O_RDONLY),
            "wo" => again(libc::O_WRONLY),
            "g" => g,
            "path" => again(libc::O_PATH),
            "dir" => open("/", libc::O_RDONLY),
            "pipe" => pipe[0] as u64,
            "sealed" => memfd(libc::F_SEAL_WRITE),
            "future-sealed" => memfd(libc::F_SEAL_FUTURE_WRITE),
            "no-exec" => mounted[0],
            "append-only" => mounted[1],
            "huge-file" => huge,
            "huge-ro" if huge != MISSING => open(&format!("/proc/self/fd/{huge}"), libc::O_RDONLY),
            "huge-ro" => MISSING,
            "zero" => open("/dev/zero", libc::O_RDWR),
            "zero-ro" => open("/dev/zero", libc::O_RDONLY),
            "secret" => secret(),
            _ => u64::MAX,
        });
        // A wish below the lowest address is raised to it.
        let least = raw(libc::SYS_mmap, [PAGE, PAGE, 0, 0x22, u64::MAX, 0]) as u64;
        raw(libc::SYS_munmap, [least, PAGE, 0, 0, 0, 0]);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
        let text = |path: &str| std::fs::read_to_string(path).expect("procfs");
        let number = |text: &str| text.trim().parse::<u64>().expect("a number");
        let info = text("/proc/meminfo");
        let kib = |name: &str| {
            let line = info.lines().find_map(|l| l.strip_prefix(name)).expect("a line");
            number(line.trim_end_matches("kB"))
        };
        let little = kib("MemTotal:") + kib("SwapTotal:") < 1 << 29;
        Fixed {
            files,
            least,
            special: special(&maps),
            segment: segment(4 * PAGE + 100, 0),
            // SHM_HUGETLB, SHM_NORESERVE.
            huge_segment: segment(512 * PAGE + 100, 0o1_4000),
            max_map_count: number(&text("/proc/sys/vm/max_map_count")),
            huge_pages: huge_pages(kib("Hugepagesize:")),
            guesses: little && number(&text("/proc/sys/vm/overcommit_memory")) == 0,
        }
    }
}

/// A memfd of secret memory, if the kernel has such.
fn secret() -> u64 {
    const MEMFD_SECRET: i64 = 447;
    let fd = raw(MEMFD_SECRET, [0; 6]);
    raw(libc::SYS_ftruncate, [fd as u64, 8 * PAGE, 0, 0, 0, 0]);
    if fd < 0 { MISSING } else { fd as u64 }
}

/// Two files of a file system of this test's own, which nothing is executed from: `no-exec`, and
/// `append-only`. For those who may mount.
fn mounted() -> [u64; 2] {
    let fs = raw(libc::SYS_fsopen, [c"tmpfs".as_ptr() as u64, 0, 0, 0, 0, 0]) as u64;
    const CREATE: u64 = 6;
    const NOEXEC: u64 = 8;
    raw(libc::SYS_fsconfig, [fs, CREATE, 0, 0, 0, 0]);
    let mount = raw(libc::SYS_fsmount, [fs, 0, NOEXEC, 0, 0, 0]);
    let file = |name: &std::ffi::CStr, flags: i32| {
        let flags = (flags | libc::O_RDWR | libc::O_CREAT) as u64;
        raw(libc::SYS_openat, [mount as u64, name.as_ptr() as u64, flags, 0o600, 0, 0])
    };
    if mount < 0 {
        return [MISSING; 2];
    }
    let (no_exec, append) = (file(c"a", 0), file(c"b", libc::O_APPEND));
    // FS_IOC_SETFLAGS, FS_APPEND_FL.
    let flag: u64 = 0x20;
    let good = raw(libc::SYS_ioctl, [append as u64, 0x4008_6602, &raw const flag as u64, 0, 0, 0]) == 0;
    [no_exec as u64, if good { append as u64 } else { MISSING }]
}

/// A System V segment that goes with this process, which has it attached.
fn segment(bytes: u64, flags: u64) -> u64 {
    let id = raw(libc::SYS_shmget, [0, bytes, flags | 0o1700, 0, 0, 0]);
    let at = raw(libc::SYS_shmat, [id as u64, 0, 0, 0, 0, 0]);
    // IPC_RMID.
    raw(libc::SYS_shmctl, [id as u64, 0, 0, 0, 0, 0]);
    if at < 0 { MISSING } else { id as u64 }
}

/// Whether there are huge pages as rows know them, where the default ones have so many kB: two
/// sizes, and none free.
fn huge_pages(default_kib: u64) -> bool {
    let none = |kib: u64| {
        let read = |name: &str| std::fs::read_to_string(format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/{name}"));
        ["free_hugepages", "nr_overcommit_hugepages"].iter().all(|name| read(name).is_ok_and(|n| n.trim() == "0"))
    };
    default_kib == 2048 && none(2048) && none(1 << 20)
}

/// Where the kernel's own pages begin, if they are those that rows know: 4, 2 and 2 pages, side by
/// side; else 0.
fn special(maps: &str) -> u64 {
    let bounds = |name: &str| {
        let line = maps.lines().find(|l| l.ends_with(name))?;
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let (Some(a), Some(b), Some(c)) = (bounds("[vvar]"), bounds("[vvar_vclock]"), bounds("[vdso]")) else { return 0 };
    let fits = (a.1, a.1 + 2 * PAGE, b.1 + 2 * PAGE) == (a.0 + 4 * PAGE, b.1, c.1) && (b.0, c.0) == (a.1, b.1);
    if fits { a.0 } else { 0 }
}

const TEXT: usize = 1 << 20;
/// Seconds after which a child is killed.
const LIMIT_S: u64 = 600;

/// Plays the rows one after the other in one child, which empties the window between them. What
/// came of each; an error where the child died.
pub(crate) fn run(rows: &[&Row]) -> Result<Vec<Outcome>, String> {
    let fixed = Fixed::get();
    let mut arena = Arena::new((TEXT + rows.len() * size_of::<Outcome>()).div_ceil(8)).expect("memory");
    let child = |words: &mut [u64]| {
        let (text, outcomes) = words.split_at_mut(TEXT / 8);
        let outcomes = outcomes.as_mut_ptr().cast::<Outcome>();
        let mut kernel = Kernel {
            fixed,
            text: harness::bytes_mut(text),
            maps: open(c"/proc/self/maps"),
            uffds: [None; 2],
            filled: 0,
        };
        for (i, row) in rows.iter().enumerate() {
            let mut out = Outcome::new();
            play(&mut kernel, &row.steps, &mut out);
            // SAFETY: within the arena, which has room for an outcome of each row behind the text.
            unsafe { outcomes.add(i).write(out) };
            raw(libc::SYS_munmap, [BASE, PAGES * PAGE, 0, 0, 0, 0]);
        }
    };
    // SAFETY: the child only makes system calls and writes to its words before it exits, and waits
    // for what it forks.
    let status = unsafe { arena.run(LIMIT_S, child) }.map_err(|e| format!("no child: {e}"))?;
    let outcomes = arena.words()[TEXT / 8..].as_ptr().cast::<Outcome>();
    // SAFETY: the child is gone, and has written them all if it ended well.
    let outcomes = (status == 0).then(|| (0..rows.len()).map(|i| unsafe { outcomes.add(i).read() }).collect());
    outcomes.ok_or_else(|| format!("the child ended with wait status {status:#x}"))
}

/// Ends the process with what SIGSEGV tells.
extern "C" fn refused(_signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // SAFETY: the kernel gives a whole siginfo.
    exit(unsafe { (*info).si_code } as u64)
}

fn open(path: &std::ffi::CStr) -> u64 {
    let fd = harness::open(path);
    if fd < 0 {
        exit(3);
    }
    fd as u64
}

struct Kernel<'a> {
    fixed: &'a Fixed,
    text: &'a mut [u8],
    /// A descriptor of `/proc/self/maps`.
    maps: u64,
    uffds: [Option<u64>; 2],
    /// Areas that fill the process up.
    filled: u64,
}

impl Kernel<'_> {
    /// PROCMAP_QUERY: the area, its protection of all its flags; or an error number. There is room
    /// for a word more than a kernel knows.
    fn ask(&self, [addr, flags, size, name_size, name]: [u64; 5]) -> Result<Seen, i64> {
        // Start, end, permissions, page size and offset come back.
        let mut q = [size, flags, addr, 0, 0, 0, 0, 0, 0, 0, name_size, name, 0, 0];
        match raw(libc::SYS_ioctl, [self.maps, 0xc068_6611, q.as_mut_ptr() as u64, 0, 0, 0]) {
            0 => {
                let flags = Flags::from_bits_retain(q[5] & 7 | (q[5] & 8) << 4);
                Ok(Seen { start: q[3], end: q[4], flags, offset: q[7] })
            }
            e => Err(e),
        }
    }

    /// The area at `addr`, or the first one after it.
    fn area(&self, addr: u64) -> Option<Seen> {
        self.ask([addr, 0x10, 104, 0, 0]).ok()
    }

    fn read(&mut self, path: &std::ffi::CStr) -> &str {
        let fd = open(path);
        let len = harness::read(fd, self.text);
        raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
        std::str::from_utf8(&self.text[..len]).unwrap_or_default()
    }

    /// A sum of `/proc/self/status`, in bytes.
    fn sum(&mut self, name: &str) -> u64 {
        let line = self.read(c"/proc/self/status").lines().find(|l| l.starts_with(name));
        let number = line.and_then(|l| l.split_ascii_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
        number.unwrap_or_else(|| exit(5)) << 10
    }

    /// A userfaultfd that asks for no events.
    fn userfaultfd(&mut self, which: usize) -> Option<u64> {
        if self.uffds[which].is_none() {
            // Write protection of files' memory, and minor faults of shared memory (bit 10).
            let fd = harness::userfaultfd(harness::UFFD_WP_FILES | 1 << 10);
            self.uffds[which] = (fd >= 0).then_some(fd as u64);
        }
        self.uffds[which]
    }
}

impl Machine for Kernel<'_> {
    fn call(&mut self, nr: u64, args: [u64; 6]) -> i64 {
        raw(nr as i64, args)
    }

    fn write(&mut self, addr: u64) -> i64 {
        let zero = open(c"/dev/zero");
        let done = raw(libc::SYS_read, [zero, addr, 1, 0, 0, 0]);
        raw(libc::SYS_close, [zero, 0, 0, 0, 0, 0]);
        done.min(0)
    }

    fn fault(&mut self, addr: u64, access: Access) -> i64 {
        // SAFETY: this is the process of a run, and it waits for the child.
        match unsafe { harness::fork(LIMIT_S) } {
            0 => {
                // SAFETY: a handler that only ends this process, and an access that does no harm
                // where it is allowed: nothing else lives in this child.
                unsafe {
                    let mut action = std::mem::zeroed::<libc::sigaction>();
                    action.sa_sigaction = refused as *const () as usize;
                    action.sa_flags = libc::SA_SIGINFO;
                    libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
                    match access {
                        Access::Read => drop((addr as *const u8).read_volatile()),
                        _ => (addr as *mut u8).write_volatile(0),
                    }
                }
                exit(0)
            }
            pid if pid > 0 => -i64::from(libc::WEXITSTATUS(wait(pid))),
            e => e,
        }
    }

    fn query(&mut self, args: [u64; 5]) -> i64 {
        self.ask(args).map_or_else(|e| e, |q| q.start as i64)
    }

    fn fork(&mut self) -> i64 {
        // SAFETY: this is the process of a run, and it waits for the child.
        match unsafe { harness::fork(LIMIT_S) } {
            0 => {
                self.maps = open(c"/proc/self/maps");
                0
            }
            pid if pid > 0 => exit(u64::from(wait(pid) != 0)),
            e => e,
        }
    }

    fn limit(&mut self, limit: Limit, bytes: u64, relative: bool) -> i64 {
        let (nr, used) = match limit {
            Limit::As => (libc::RLIMIT_AS, "VmSize:"),
            Limit::Data => (libc::RLIMIT_DATA, "VmData:"),
            Limit::Locked => (libc::RLIMIT_MEMLOCK, "VmLck:"),
            Limit::Stack => (libc::RLIMIT_STACK, "VmStk:"),
            Limit::SoftData => (libc::RLIMIT_DATA, "VmData:"),
        };
        let bytes = bytes + if relative { self.sum(used) } else { 0 };
        let both = [bytes, if limit == Limit::SoftData { u64::MAX } else { bytes }];
        raw(libc::SYS_prlimit64, [0, nr.into(), both.as_ptr() as u64, 0, 0, 0])
    }

    fn drop_caps(&mut self) -> i64 {
        let (head, none) = ([0x2008_0522u32, 0], [0u32; 6]);
        raw(libc::SYS_capset, [head.as_ptr() as u64, none.as_ptr() as u64, 0, 0, 0, 0])
    }

    fn room(&mut self, areas: u64) -> i64 {
        const FILL: u64 = BASE + (1 << 32);
        let (mut others, mut at) = (0, 0);
        while let Some(q) = self.area(at) {
            let filling = q.start >= FILL && q.start < FILL + self.filled * PAGE;
            (others, at) = if filling { (others, FILL + self.filled * PAGE) } else { (others + 1, q.end) };
        }
        let wanted = self.fixed.max_map_count - others - areas;
        while self.filled < wanted {
            let at = FILL + self.filled * PAGE;
            if raw(libc::SYS_mmap, [at, PAGE, self.filled & 1, 0x10_0022, u64::MAX, 0]) < 0 {
                exit(6);
            }
            self.filled += 1;
        }
        if self.filled > wanted {
            raw(libc::SYS_munmap, [FILL + wanted * PAGE, (self.filled - wanted) * PAGE, 0, 0, 0, 0]);
            self.filled = wanted;
        }
        0
    }

    fn uffd(&mut self, addr: u64, len: u64, mode: u64) -> Option<i64> {
        let fd = self.userfaultfd(usize::from(mode & OTHER != 0))?;
        if mode == CLOSE {
            return Some(raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]));
        }
        let mode = mode & !OTHER;
        Some(harness::register(fd, addr, len, mode))
    }

    fn origin(&mut self, origin: Origin) -> u64 {
        match origin {
            Origin::Zero | Origin::Last => 0,
            Origin::Heap => {
                // The heap ends with a page that nothing joins.
                let end = (raw(libc::SYS_brk, [0; 6]) as u64).next_multiple_of(PAGE) + PAGE;
                raw(libc::SYS_brk, [end, 0, 0, 0, 0, 0]);
                raw(libc::SYS_mprotect, [end - PAGE, PAGE, 0, 0, 0, 0]);
                raw(libc::SYS_madvise, [end - PAGE, PAGE, libc::MADV_DONTDUMP as u64, 0, 0, 0]);
                end
            }
            Origin::Special => self.fixed.special,
            Origin::Least => self.fixed.least,
            Origin::Word => &raw const WORD as u64,
            Origin::Segment => self.fixed.segment,
            Origin::HugeSegment => self.fixed.huge_segment,
            Origin::File(i) => self.fixed.files[i],
        }
    }

    fn privileged(&mut self) -> bool {
        let (head, mut caps) = ([0x2008_0522u32, 0], [0u32; 6]);
        raw(libc::SYS_capget, [head.as_ptr() as u64, caps.as_mut_ptr() as u64, 0, 0, 0, 0]);
        // IPC_LOCK, SYS_RAWIO.
        caps[0] & 0x2_4000 == 0x2_4000
    }

    fn keys(&mut self, wanted: bool) -> bool {
        harness::has_protection_keys() == wanted
    }

    fn guesses(&self) -> bool {
        self.fixed.guesses
    }

    fn sums(&mut self) -> [u64; SUMS.len()] {
        SUMS.map(|name| self.sum(name))
    }

    fn huge_pages(&self) -> bool {
        self.fixed.huge_pages
    }

    fn areas(&mut self, start: u64, end: u64, to: &mut [Seen]) -> usize {
        let (mut at, mut n) = (start, 0);
        while let Some(q) = self.area(at).filter(|q| q.start < end && n < to.len()) {
            to[n] = q;
            (n, at) = (n + 1, q.end);
        }
        // All the flags, unless it would take too long.
        let mut current = None;
        let text = if self.filled == 0 && n > 0 { self.read(c"/proc/self/smaps") } else { "" };
        for line in text.lines() {
            if let Some(letters) = line.strip_prefix("VmFlags:") {
                let area = to[..n].iter_mut().find(|a| Some(a.start) == current);
                area.into_iter().for_each(|a| a.flags = Flags::from_letters(letters) - Flags::SOFTDIRTY);
            } else if let Some((start, _)) = line.split_once('-') {
                current = u64::from_str_radix(start, 16).ok().or(current);
            }
        }
        n
    }
}
