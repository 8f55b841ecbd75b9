//! Where mmap and mremap place what has no fixed address. A child without address space
//! randomisation maps, moves and unmaps at random. Before each call it reads `/proc/self/maps`; a
//! model made from that must predict the address that the kernel then chooses.
//!
//! A program of its own: it changes settings of the whole machine for moments
//! (`support/shmem_settings.rs`).
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code)]
#[path = "support/rng.rs"]
mod rng;
#[path = "support/shmem_settings.rs"]
mod shmem;
#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../samara-testkit/src/skip.rs"]
mod skip;

use rng::Rng;
use samara_mm::linux::{self, MMAP, MREMAP, OpenFile};
use samara_mm::{
    AddressSpace, Area, Backing, Bases, Config, Errno, FileId, FileMode, Flags, HugePlaces, Linux, MapFlags,
    MapRequest, Object, PageSize, Placement, Prot, SharedHuge, Want,
};
use skip::skipped;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
/// Calls that are compared.
const CALLS: u32 = if cfg!(feature = "long") { 10_000 } else { 1_000 };

/// Runs `child` in a process of its own, with randomisation off: it is the same test, and finds
/// this variable.
const CHILD: &str = "SAMARA_MM_PLACE_CHILD";

#[test]
fn as_the_kernel_places() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "as_the_kernel_places", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    // SAFETY: two system calls, which are safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            if libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            let limit = libc::rlimit { rlim_cur: 8 << 20, rlim_max: libc::RLIM_INFINITY };
            // Where the hard limit is lower, the search begins at the same place.
            libc::setrlimit(libc::RLIMIT_STACK, &limit);
            Ok(())
        });
    }
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains(&format!("compared {CALLS}")), "the child did not do its work: {text}");
    text.lines().filter_map(|line| line.strip_prefix("skipped: ")).for_each(skipped);
}

/// What is mapped, as text, read without any other call that maps.
fn maps(buffer: &mut Vec<u8>) {
    // SAFETY: plain system calls; the buffer has the room that is passed.
    unsafe {
        let file = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY);
        assert!(file >= 0);
        buffer.clear();
        loop {
            let room = buffer.capacity() - buffer.len();
            assert!(room > 0, "too many areas");
            let n = libc::read(file, buffer.as_mut_ptr().add(buffer.len()).cast(), room);
            assert!(n >= 0);
            if n == 0 {
                break;
            }
            buffer.set_len(buffer.len() + n as usize);
        }
        libc::close(file);
    }
}

/// The lowest address that the kernel chooses: a hint below it is raised to it. (A security module
/// may ask for more than the sysctl says.)
fn least() -> u64 {
    // SAFETY: a new map, which goes again.
    unsafe {
        let at =
            libc::mmap(PAGE as *mut libc::c_void, PAGE as usize, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_eq!(libc::munmap(at, PAGE as usize), 0);
        at as u64
    }
}

/// The object that an area maps: a number, and which alignment its file system seeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Behind {
    number: u64,
    places: HugePlaces,
}

impl Backing for Behind {
    fn dev(&self) -> (u32, u32) {
        (0, 0)
    }
    fn inode(&self) -> u64 {
        self.number
    }
    fn name(&self) -> &str {
        ""
    }
    fn huge_places(&self) -> HugePlaces {
        self.places
    }
}

/// A file, if its file system is known here, and shared memory.
struct Files {
    disk: Option<(i32, Behind)>,
    shared: i32,
    /// What the settings say of shared memory.
    huge: SharedHuge,
}

impl Files {
    fn new() -> Files {
        const LEN: i64 = 64 << 20;
        // SAFETY: plain calls on files of this test's own.
        let (disk, kind, memory) = unsafe {
            let path = std::env::temp_dir();
            let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
            let disk = libc::open(path.as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600);
            let mut stat = std::mem::zeroed::<libc::statfs>();
            let known = disk >= 0 && libc::ftruncate(disk, LEN) == 0 && libc::fstatfs(disk, &mut stat) == 0;
            let memory = libc::memfd_create(c"place".as_ptr(), 0);
            assert!(memory >= 0 && libc::ftruncate(memory, LEN) == 0);
            (disk, known.then_some(stat.f_type), memory)
        };
        // ext4, btrfs and xfs seek.
        let seeks = matches!(kind, Some(0xef53 | 0x9123_683e | 0x5846_5342));
        let behind = Behind { number: 1, places: HugePlaces::FileSystem };
        Files { disk: seeks.then_some((disk, behind)), shared: memory, huge: shmem::now() }
    }
}

impl linux::Host<Behind> for Files {
    fn file(&mut self, fd: i32) -> Result<OpenFile<Behind>, Errno> {
        let shared = (self.shared, Behind { number: 2, places: self.huge.files });
        let files = self.disk.into_iter().chain([shared]);
        let (_, backing) = files.into_iter().find(|f| f.0 == fd).ok_or(Errno::EBADF)?;
        Ok(OpenFile { backing, mode: FileMode::RW })
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<Behind, Errno> {
        Ok(Behind { number: 3, places: self.huge.anonymous })
    }
}

/// The model of what is mapped; `down` are the starts of areas that grow down.
fn model(text: &str, least: u64, down: &BTreeSet<u64>, files: &Files) -> AddressSpace<Behind> {
    let bases = Bases { least, ..Bases::default() };
    let mut space = AddressSpace::new(Config { bases, ..Config::default() });
    for line in text.lines().filter(|line| !line.ends_with("[vsyscall]")) {
        let mut words = line.split_ascii_whitespace();
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = words.next().unwrap().split_once('-').map(|(s, e)| (hex(s), hex(e))).unwrap();
        let shared = words.next().unwrap().ends_with('s');
        let (offset, name) = (hex(words.next().unwrap()), words.nth(2).unwrap_or_default());
        let mut flags = Flags::MAYREAD;
        if name == "[stack]" || down.contains(&start) {
            flags |= Flags::GROWSDOWN;
        }
        if shared {
            flags |= Flags::SHARED | Flags::MAYSHARE;
        }
        // No two of them join: each its own object.
        let places = match name {
            "/memfd:place" | "/dev/zero" => files.huge.files,
            _ if name.contains("/#") => files.disk.map_or(HugePlaces::Plain, |(_, behind)| behind.places),
            _ => HugePlaces::Plain,
        };
        let object = match name {
            "" => Object::Anonymous,
            _ => Object::File(Behind { number: 1000 + start, places }),
        };
        space.import(start, end, Area::new(flags, object, Area::<Behind>::bias_of(start, offset, PAGE))).unwrap();
    }
    space
}

/// All gaps below the first base are made narrower than what is sought: then the search goes
/// upwards from the other one, and finds the room of the stack.
fn where_only_the_stack_has_room(files: &mut Files, least: u64, text: &mut Vec<u8>, down: &BTreeSet<u64>) {
    const LEFT: u64 = 32 << 20;
    let (top, flags) = (Bases::default().top_down, MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::NORESERVE);
    maps(text);
    let gaps: Vec<(u64, u64)> = {
        let text = std::str::from_utf8(text).unwrap();
        let space = model(text, least, down, files);
        let ends = space.areas().map(|a| (a.start.min(top), a.end)).filter(|a| a.0 < top).chain([(top, top)]);
        ends.scan(least, |from, (start, end)| Some((std::mem::replace(from, end), start))).collect()
    };
    for (start, end) in gaps.into_iter().filter(|(start, end)| end.saturating_sub(*start) > LEFT) {
        let (at, fixed) = (start + LEFT, flags | MapFlags::FIXED_NOREPLACE);
        // SAFETY: nothing is mapped over.
        let got = unsafe { libc::mmap(at as *mut libc::c_void, (end - at) as usize, 0, fixed.bits() as i32, -1, 0) };
        assert_eq!(got as u64, at);
    }
    let mut answers = Vec::new();
    for len in [LEFT + PAGE, LEFT + HUGE, LEFT + HUGE + PAGE, LEFT + PAGE, LEFT] {
        maps(text);
        let mut space = model(std::str::from_utf8(text).unwrap(), least, down, files);
        let args = [0, len, 0, flags.bits().into(), u64::MAX, 0];
        let predicted = linux::call(&mut space, files, &mut Linux, MMAP, args).unwrap().result;
        // SAFETY: a new map, at a place that the kernel picks.
        let got = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, 0, flags.bits() as i32, -1, 0) } as u64;
        let got = if got == u64::MAX { -12 } else { got as i64 };
        assert_eq!(
            predicted,
            got,
            "{len:#x}: {predicted:x}, the kernel says {got:x}\n{}",
            std::str::from_utf8(text).unwrap()
        );
        answers.push(got);
    }
    assert!(answers.contains(&-12) && answers[0] as u64 >= top && (answers[4] as u64) < top, "{answers:x?}");
}

/// Places of huge pages in gaps below an area that grows down: of widths near those at which it is
/// decided otherwise, in searches from above and from below.
fn below_what_grows_down(files: &Files, least: u64, text: &mut Vec<u8>, down: &mut BTreeSet<u64>, rng: &mut Rng) {
    /// Room for a huge page, however it is aligned.
    const WIDE: u64 = 2 * HUGE - PAGE;
    const GUARD: u64 = 1 << 20;
    const REGION: u64 = 32 << 20;
    const LOW: (u64, u64) = (0x4000_0000, 0x5000_0000);
    let plain = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::NORESERVE;
    let map = |at: u64, len: u64, more: MapFlags| {
        // SAFETY: at a place that the kernel picks, or over memory of this test that is not used.
        unsafe { libc::mmap(at as *mut libc::c_void, len as usize, 0, (plain | more).bits() as i32, -1, 0) as u64 }
    };
    // SAFETY: memory that this test has mapped, and that is not used.
    let unmap = |at: u64, len: u64| assert_eq!(unsafe { libc::munmap(at as *mut libc::c_void, len as usize) }, 0);
    // What a search meets first: before it no gap is left that is wide enough.
    let high = map(0, REGION + HUGE, MapFlags::empty());
    while map(0, WIDE, MapFlags::empty()) > high {}
    map(LOW.0, LOW.1 + REGION - LOW.0, MapFlags::FIXED);
    down.retain(|start| !(LOW.0..LOW.1 + REGION).contains(start));
    for (region, extra) in [(high.next_multiple_of(HUGE), MapFlags::empty()), (LOW.1, MapFlags::BIT32)] {
        let mut inside = 0;
        for _ in 0..200 {
            let start = PAGE * [0, 1, 511, 512, rng.below(1024)][rng.below(5) as usize];
            let more = [0, GUARD, HUGE, HUGE + GUARD, 2 * HUGE + GUARD][rng.below(5) as usize];
            let width = WIDE - 2 * PAGE + more + PAGE * rng.below(5);
            let stack = region + start + width;
            unmap(region + start, width);
            assert_eq!(map(stack, PAGE, MapFlags::GROWSDOWN | MapFlags::FIXED), stack);
            down.insert(stack);
            maps(text);
            let space = model(std::str::from_utf8(text).unwrap(), least, down, files);
            let want = Want { hint: 0, len: HUGE, flags: plain | extra, huge: None, shared: None, align: PageSize::M2 };
            let predicted = Linux.place(&space, &want);
            let got = map(0, HUGE, MapFlags::HUGETLB | extra);
            if got == u64::MAX {
                println!("skipped: places of huge pages, which the kernel does not have");
                return;
            }
            let gap = format!("{start:#x}..{:#x} of {region:x}", start + width);
            assert_eq!(predicted, Some(got), "{gap}: {predicted:x?}, the kernel says {got:x}");
            inside += u64::from((region..region + REGION).contains(&got));
            unmap(got, HUGE);
            down.remove(&stack);
            map(region + start, width + PAGE, MapFlags::FIXED);
        }
        assert!((20..=180).contains(&inside), "{inside} of 200 in the gap");
    }
}

fn child() {
    let mut rng = Rng(0x5eed_5eed);
    let mut files = Files::new();
    let (least, mut text) = (least(), Vec::with_capacity(1 << 20));
    let (mut mine, mut down): (Vec<(u64, u64)>, BTreeSet<u64>) = (Vec::new(), BTreeSet::new());
    let as_it_is = files.huge;
    let changes = shmem::Changed::to(shmem::VALUES[0]).map(drop);
    if let Err(why) = &changes {
        println!("skipped: other settings of huge pages for shared memory, which cannot be written here: {why}");
    }
    let (mut compared, mut refused, mut hinted, mut moved, mut of_files) = (0, 0, 0, 0, 0);
    while compared < CALLS {
        let count = mine.len() as u64;
        let one_of = |rng: &mut Rng| rng.below(count) as usize;
        if mine.len() > 150 || (!mine.is_empty() && rng.one_in(4)) {
            let (start, len) = mine.swap_remove(one_of(&mut rng));
            // SAFETY: memory that this test has mapped, and that is not used.
            assert_eq!(unsafe { libc::munmap(start as *mut libc::c_void, len as usize) }, 0);
            down.remove(&start);
            continue;
        }
        let len = match rng.below(8) {
            0 => HUGE * (1 + rng.below(4)),
            1 => HUGE * (1 + rng.below(4)) + PAGE * rng.below(300),
            2 => PAGE * rng.below(2_000) + rng.below(PAGE) + 1,
            3 if rng.one_in(8) => [1 << 46, 1 << 47, u64::MAX, 0, 0x7fff_ffff_f000][rng.below(5) as usize],
            _ => PAGE * (1 + rng.below(20)),
        };
        let near = |rng: &mut Rng| {
            let at = if mine.is_empty() { 0x7000_0000_0000 } else { mine[rng.below(mine.len() as u64) as usize].0 };
            at.wrapping_add(rng.below(2 * HUGE)).wrapping_sub(HUGE)
        };
        let hint = match rng.below(6) {
            0 => near(&mut rng),
            1 => rng.below(1 << 48),
            2 => rng.below(1 << 17),
            _ => 0,
        };
        // What grows down is left where it is.
        let old = (!mine.is_empty() && rng.one_in(4)).then(|| one_of(&mut rng)).filter(|i| !down.contains(&mine[*i].0));
        let mut cut = 0;
        let (nr, args) = if let Some((start, was)) = old.map(|i| mine[i]) {
            // Now and then the old place is kept (4), and then the new address is a wish.
            match rng.below(3) {
                0 => (MREMAP, [start, was, was, 5, hint & !(PAGE - 1), 0]),
                1 => (MREMAP, [start, was - was.min(PAGE) * rng.below(2), len, 1, 0, 0]),
                _ => {
                    // What is before `cut` stays.
                    cut = PAGE * rng.below(was.div_ceil(PAGE).clamp(1, 1024));
                    (MREMAP, [start + cut, was - cut, was - cut + len.min(8 * HUGE), 1, 0, 0])
                }
            }
        } else {
            let (extra, kind) = match rng.below(8) {
                0 => (MapFlags::GROWSDOWN, 0),
                1 => (MapFlags::BIT32, rng.below(3)),
                2 => (MapFlags::ABOVE4G, rng.below(3)),
                3 => (MapFlags::FIXED_NOREPLACE, 0),
                _ => (MapFlags::empty(), rng.below(5)),
            };
            let hint = if extra == MapFlags::FIXED_NOREPLACE { near(&mut rng) & !(PAGE - 1) } else { hint };
            let (private, anonymous) = (MapFlags::PRIVATE, MapFlags::ANONYMOUS);
            let offset = PAGE * if rng.one_in(2) { rng.below(1200) } else { 512 * rng.below(4) };
            let (flags, fd, offset) = match (kind, files.disk) {
                (1, Some((fd, _))) => (private, fd, offset),
                (2, _) => (MapFlags::SHARED, files.shared, offset),
                (3, _) => (MapFlags::SHARED | anonymous, -1, 0),
                _ => (private | anonymous, -1, 0),
            };
            of_files += u64::from(fd >= 0);
            let flags = flags | extra | MapFlags::NORESERVE;
            (MMAP, [hint, len, 0, flags.bits().into(), fd as u64, offset])
        };
        // The settings are others for the length of some calls. (What reads them may map something
        // itself.)
        let changed = shmem::VALUES.get(rng.below(70) as usize).filter(|_| changes.is_ok());
        let changed = changed.map(|values| shmem::Changed::to(*values).expect("it was written before"));
        files.huge = if changed.is_some() { shmem::now() } else { as_it_is };
        maps(&mut text);
        // SAFETY: no fixed place that is taken: nothing is mapped over; what moves is this test's
        // own.
        let got = unsafe { libc::syscall(nr as i64, args[0], args[1], args[2], args[3], args[4], args[5]) };
        let got = if got == -1 { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { got };
        drop(changed);
        let text = std::str::from_utf8(&text).unwrap();
        let mut space = model(text, least, &down, &files);
        let predicted = linux::call(&mut space, &mut files, &mut Linux, nr, args).unwrap().result;
        assert_eq!(predicted, got, "call {compared}: {nr}({args:x?}): {predicted:x}, the kernel says {got:x}\n{text}");
        compared += 1;
        if got < 0 {
            refused += 1;
            continue;
        }
        let got = got as u64;
        if let Some(i) = old {
            let (start, _) = mine[i];
            moved += u64::from(got != start + cut);
            let keeps_source = args[3] & 4 != 0;
            if keeps_source {
                mine.push((got, args[2]));
            } else if cut > 0 {
                mine[i] = (start, cut);
                mine.push((got, args[2].next_multiple_of(PAGE)));
            } else {
                mine[i] = (got, args[2].next_multiple_of(PAGE));
            }
            continue;
        }
        hinted += u64::from(args[0] != 0 && got == args[0] & !(PAGE - 1));
        if args[3] & u64::from(MapFlags::GROWSDOWN.bits()) != 0 {
            down.insert(got);
        }
        mine.push((got, args[1]));
    }
    below_what_grows_down(&files, least, &mut text, &mut down, &mut rng);
    where_only_the_stack_has_room(&mut files, least, &mut text, &down);
    let least = u64::from(CALLS) / 100;
    assert!(
        refused > least && hinted > least && moved > least,
        "{refused} refused, {hinted} at the hint, {moved} moved"
    );
    assert!(of_files > least, "{of_files} maps of files");
    println!("compared {compared}");
}

/// Places are whole pages, also where a page is larger than what is called a huge one.
#[test]
fn pages_larger_than_a_huge_page() {
    for page in [1 << 12, 1 << 21, 1 << 22] {
        let config = Config { page_size: PageSize::new(page).unwrap(), ..Config::default() };
        let mut space = AddressSpace::<FileId>::new(config);
        let at = space.mmap(&MapRequest::anonymous(0, 3 * page, Prot::RW), &mut Linux).unwrap().0;
        assert!(at.is_multiple_of(page), "{at:x}");
    }
}
