//! Calls that programs make seldom (msync, mincore, remap_file_pages, process_madvise, PR_SET_MDWE,
//! PR_SET_MEMORY_MERGE): chosen cases, of which every answer and every area is compared. The mix
//! `calls` of `samara check` makes random ones.

use crate::child::{self, BASE, END, PAGE, QueriedArea, Raw};
use crate::skip::skipped;
use samara_mm::*;
use std::sync::Arc;

/// A process's own pidfd, by number.
const SELF: u64 = -10000i64 as u64;
const PR_SET_MDWE: u64 = 65;
const PR_SET_MEMORY_MERGE: u64 = 67;
/// Bytes of a vector that mincore has not filled.
const UNTOLD: u8 = 7;
const VEC: usize = 128;
/// Bytes of a file.
const FILE: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Op {
    /// From and to as pages; which file, or none; its first page.
    Map(u64, u64, u32, MapFlags, Option<usize>, u64),
    Protect(u64, u64, u32),
    Lock(u64, u64, LockKind),
    Seal(u64, u64),
    Fork,
    /// Address and length; flags.
    Msync(u64, u64, u32),
    /// Address and length; the vector, if it is not the test's.
    Mincore(u64, u64, Option<u64>),
    /// Address and length, prot, page offset.
    FilePages(u64, u64, u64, u64),
    Advise(Vec<(u64, u64)>, Advice),
    Mdwe(u64),
    MergePages(u64),
}

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

/// A descriptor, which open file it is, and how it is open.
struct Files([(u64, u64, FileMode); 3]);

fn files() -> Files {
    let (a, b) = (child::memfd(FILE), child::memfd(FILE));
    let read_only = child::reopen(a, libc::O_RDONLY);
    Files([(a, 1, FileMode::RW), (b, 2, FileMode::RW), (read_only, 3, FileMode::READ)])
}

/// What the calls point to: in memory that parent and child share.
struct Arguments {
    at: *mut u8,
    len: usize,
}

impl Arguments {
    fn new(ops: usize) -> Arguments {
        let len = (ops + 1) * VEC * 4;
        let kind = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
        let at = child::call(libc::SYS_mmap, [0, len as u64, 3, kind, u64::MAX, 0]);
        assert!(at > 0, "{at}");
        let new = Arguments { at: at as *mut u8, len };
        new.bytes().fill(UNTOLD);
        new
    }

    #[allow(clippy::mut_from_ref)] // Nothing is held across a call.
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: the map of `new`, which nothing else refers to while this is used.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    fn of(&self, op: usize) -> u64 {
        self.at as u64 + (op * VEC * 4) as u64
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        child::call(libc::SYS_munmap, [self.at as u64, self.len as u64, 0, 0, 0, 0]);
    }
}

impl Op {
    fn raw(&self, i: usize, files: &Files, arguments: &Arguments) -> Raw {
        let len = |from: u64, to: u64| (to - from) * PAGE;
        let call = |nr, args| Raw::Call(nr, args);
        match *self {
            Op::Map(from, to, prot, more, file, page) => {
                let fd = file.map_or(u64::MAX, |f| files.0[f].0);
                let flags = (more | MapFlags::FIXED).bits().into();
                call(libc::SYS_mmap, [at(from), len(from, to), prot.into(), flags, fd, page * PAGE])
            }
            Op::Protect(from, to, prot) => call(libc::SYS_mprotect, [at(from), len(from, to), prot.into(), 0, 0, 0]),
            Op::Lock(from, to, kind) => {
                let flags = u64::from(kind == LockKind::OnFault);
                call(libc::SYS_mlock2, [at(from), len(from, to), flags, 0, 0, 0])
            }
            Op::Seal(from, to) => call(462, [at(from), len(from, to), 0, 0, 0, 0]),
            Op::Fork => Raw::Fork,
            Op::Msync(at, len, flags) => call(libc::SYS_msync, [at, len, flags.into(), 0, 0, 0]),
            Op::Mincore(at, len, vec) => call(libc::SYS_mincore, [at, len, vec.unwrap_or(arguments.of(i)), 0, 0, 0]),
            Op::FilePages(at, len, prot, page) => call(libc::SYS_remap_file_pages, [at, len, prot, page, 0, 0]),
            Op::Advise(ref ranges, advice) => {
                let words = ranges.iter().flat_map(|r| [r.0, r.1]).flat_map(u64::to_le_bytes);
                let from = i * VEC * 4;
                arguments.bytes()[from..].iter_mut().zip(words).for_each(|(to, byte)| *to = byte);
                let (to, count) = (arguments.of(i), ranges.len() as u64);
                call(libc::SYS_process_madvise, [SELF, to, count, advice as u64, 0, 0])
            }
            Op::Mdwe(bits) => call(libc::SYS_prctl, [PR_SET_MDWE, bits, 0, 0, 0, 0]),
            Op::MergePages(on) => call(libc::SYS_prctl, [PR_SET_MEMORY_MERGE, on, 0, 0, 0, 0]),
        }
    }

    /// The answer, as the call gives it; and the bytes of the vector that it fills.
    fn apply(&self, space: &mut AddressSpace<FileId>, files: &Files, i: usize) -> (i64, u64) {
        let len = |from: u64, to: u64| (to - from) * PAGE;
        let refused = |e: Errno| -i64::from(e.raw());
        let done = match *self {
            Op::Map(from, to, prot, more, file, page) => {
                let hidden = more.contains(MapFlags::ANONYMOUS | MapFlags::SHARED).then_some(1000 + i as u64);
                let backing = file.map(|f| files.0[f].1).or(hidden).map(id);
                let mode = file.map_or(FileMode::RW, |f| files.0[f].2);
                let prot = Prot::from_bits_retain(prot);
                let (flags, offset) = (more | MapFlags::FIXED, page * PAGE);
                let request = MapRequest::anonymous(at(from), len(from, to), prot);
                space.map(&MapRequest { flags, backing, offset, mode, ..request })
            }
            Op::Protect(from, to, prot) => space.protect(at(from), len(from, to), Prot::from_bits_retain(prot), None),
            Op::Lock(from, to, kind) => space.lock(at(from), len(from, to), kind),
            Op::Seal(from, to) => space.seal(at(from), len(from, to)),
            Op::Fork => {
                *space = space.fork().expect("memory");
                return (0, 0);
            }
            Op::Msync(at, len, flags) => {
                return (space.msync(at, len, SyncFlags::from_bits_retain(flags)).map_or_else(refused, |()| 0), 0);
            }
            Op::Mincore(at, len, vec) => {
                return match space.mincore(at, len, vec.unwrap_or(0x7f00_0000_0000)) {
                    Ok(i) if vec.is_some() && i.pages > 0 => (refused(Errno::EFAULT), 0),
                    Ok(i) => (if i.hole { refused(Errno::ENOMEM) } else { 0 }, i.pages),
                    Err(e) => (refused(e), 0),
                };
            }
            Op::FilePages(..) if matches!(self, Op::FilePages(_, _, 1.., _)) => Err(Errno::EINVAL.into()),
            Op::FilePages(at, len, _, page) => space.remap_file_pages(at, len, page),
            Op::Advise(ref ranges, advice) => {
                let done = space.process_advise(ranges, advice, true);
                return (done.map_or_else(|e| refused(e.errno), |(bytes, _)| bytes as i64), 0);
            }
            Op::Mdwe(bits) => {
                let set = Mdwe::from_bits(bits).and_then(|mdwe| space.set_mdwe(mdwe));
                return (set.map_or_else(refused, |()| 0), 0);
            }
            Op::MergePages(on) => {
                space.merge_pages(on != 0);
                return (0, 0);
            }
        };
        (done.map_or_else(|e| refused(e.errno), |_| 0), 0)
    }
}

fn id(open: u64) -> FileId {
    FileId { dev: (0, 1), inode: open, open, name: Arc::from("/memfd:samara-mm test (deleted)") }
}

fn seen(space: &AddressSpace<FileId>) -> Vec<QueriedArea> {
    let one = |a: Placed<'_, FileId>| {
        let shared = if a.area.flags.contains(Flags::MAYSHARE) { 8 } else { 0 };
        let file = matches!(a.area.object, Object::File(_));
        let offset = if file { a.offset(PageSize::K4) } else { 0 };
        QueriedArea { start: a.start, end: a.end, perms: (a.area.flags & Flags::ACCESS).bits() | shared, offset }
    };
    space.areas_in(BASE, END).map(one).collect()
}

fn show(areas: &[QueriedArea]) -> String {
    let page = |a: u64| a.wrapping_sub(BASE) / PAGE;
    let one = |a: &QueriedArea| format!("{}-{}:{:x}+{:x}", page(a.start), page(a.end), a.perms, a.offset / PAGE);
    areas.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Start and letters of each area in the window, but for letters that the kernel's build decides.
fn flags(smaps: &str) -> Vec<(u64, String)> {
    let (mut at, mut out) = (0, Vec::new());
    for line in smaps.lines() {
        if let Some(letters) = line.strip_prefix("VmFlags:") {
            out.push((at, letters.replace(" sd", "").trim().to_owned()));
        } else if let Some((start, _)) = line.split_once('-')
            && let Ok(start) = u64::from_str_radix(start, 16)
        {
            at = start;
        }
    }
    out.retain(|a| (BASE..END).contains(&a.0));
    out
}

/// Where model and kernel differ, if they do; else the kernel's answers.
fn compare(ops: &[Op], files: &Files) -> Result<Vec<i64>, String> {
    let arguments = Arguments::new(ops.len());
    let raw: Vec<Raw> = ops.iter().enumerate().map(|(i, o)| o.raw(i, files, &arguments)).collect();
    let out = child::run(&raw, child::USUAL)?;
    let mut space = AddressSpace::new(Config::default());
    for (i, op) in ops.iter().enumerate() {
        let (ret, kernel) = &out.frames[i];
        let (ours, filled) = op.apply(&mut space, files, i);
        let ret = if matches!(op, Op::Map(..)) { (*ret).min(0) } else { *ret };
        space.check().map_err(|v| v.to_string())?;
        let vector = &arguments.bytes()[i * VEC * 4..];
        let kernel_filled = vector.iter().position(|b| *b == UNTOLD).unwrap_or(0) as u64;
        let differs = matches!(op, Op::Mincore(..)) && kernel_filled != filled;
        if ours != ret || differs || seen(&space) != *kernel {
            let ops: Vec<String> = ops[..=i].iter().map(|o| format!("  {o:x?}\n")).collect();
            let (kernel, model) = (show(kernel), show(&seen(&space)));
            return Err(format!(
                "{}kernel {ret} {kernel_filled} {kernel}\nmodel  {ours} {filled} {model}",
                ops.concat()
            ));
        }
    }
    let ours: Vec<(u64, String)> =
        space.areas_in(BASE, END).map(|a| (a.start, a.area.flags.letters().to_string())).collect();
    let kernel = flags(&out.smaps);
    if ours != kernel {
        let ops: Vec<String> = ops.iter().map(|o| format!("  {o:x?}\n")).collect();
        return Err(format!("{}kernel {kernel:x?}\nmodel  {ours:x?}", ops.concat()));
    }
    Ok(out.frames.iter().map(|f| f.0).collect())
}

/// Whether this kernel has all of these calls.
fn lacking(files: &Files) -> bool {
    let ops = [
        Op::Map(0, 1, 3, ANONYMOUS, None, 0),
        Op::Advise(vec![(at(0), PAGE)], Advice::DontFork),
        Op::Seal(0, 1),
        Op::MergePages(1),
        Op::Mdwe(1),
    ];
    let arguments = Arguments::new(ops.len());
    let raw: Vec<Raw> = ops.iter().enumerate().map(|(i, o)| o.raw(i, files, &arguments)).collect();
    let lacking = child::run(&raw, child::USUAL).map_or(true, |out| out.frames.iter().any(|f| f.0 < 0));
    if lacking {
        skipped("this kernel lacks one of process_madvise on oneself, mseal, PR_SET_MEMORY_MERGE, PR_SET_MDWE");
    }
    lacking
}

const ANONYMOUS: MapFlags = MapFlags::PRIVATE.union(MapFlags::ANONYMOUS);
const SHARED: MapFlags = MapFlags::SHARED;

/// Calls and the last answer.
#[test]
fn chosen() {
    use Op::*;
    const ENOMEM: i64 = -12;
    const EACCES: i64 = -13;
    const EFAULT: i64 = -14;
    const EBUSY: i64 = -16;
    const EINVAL: i64 = -22;
    const EOVERFLOW: i64 = -75;
    let files = files();
    if lacking(&files) {
        return;
    }
    let rw = |from, to| Map(from, to, 3, ANONYMOUS, None, 0);
    let file = |from, to, prot, page| Map(from, to, prot, SHARED, Some(0), page);
    let pages = |from: u64, count: u64, page| FilePages(at(from), count * PAGE, 0, page);
    let cases: Vec<(Vec<Op>, i64)> = vec![
        // msync
        (vec![rw(10, 12), Msync(at(10), 2 * PAGE, 0)], 0),
        (vec![rw(10, 12), Msync(at(10) + 1, 0, 4)], EINVAL),
        (vec![rw(10, 12), Msync(at(10), PAGE, 8)], EINVAL),
        (vec![rw(10, 12), Msync(at(10), 0, 5)], EINVAL),
        (vec![rw(10, 12), Msync(at(11), 2 * PAGE, 4)], ENOMEM),
        (vec![Msync(at(10), 0, 4)], 0),
        (vec![Msync(at(10), u64::MAX, 4)], 0),
        (vec![Msync(at(10), u64::MAX - PAGE, 4)], ENOMEM),
        (vec![Msync(0u64.wrapping_sub(PAGE), PAGE, 4)], ENOMEM),
        (vec![rw(10, 12), Lock(11, 12, LockKind::Now), Msync(at(10), 2 * PAGE, 2)], EBUSY),
        (vec![rw(10, 12), Lock(11, 12, LockKind::OnFault), Msync(at(9), 3 * PAGE, 3)], EBUSY),
        (vec![rw(10, 12), Lock(11, 12, LockKind::Now), Msync(at(9), 2 * PAGE, 2)], ENOMEM),
        (vec![rw(10, 12), Lock(11, 12, LockKind::Now), Msync(at(10), 2 * PAGE, 4)], 0),
        // mincore
        (vec![rw(10, 12), Mincore(at(10), 2 * PAGE, None)], 0),
        (vec![rw(10, 12), Mincore(at(10), PAGE + 1, None)], 0),
        (vec![rw(10, 12), Mincore(at(10) + 1, PAGE, None)], EINVAL),
        (vec![rw(10, 12), Map(12, 14, 0, ANONYMOUS, None, 0), Mincore(at(10), 6 * PAGE, None)], ENOMEM),
        (vec![rw(10, 12), Mincore(at(9), 2 * PAGE, None)], ENOMEM),
        (vec![Mincore(at(9), 0, None)], 0),
        (vec![Mincore(at(9), u64::MAX, None)], ENOMEM),
        (vec![Mincore(0x7fff_ffff_f000, 0, None)], 0),
        (vec![Mincore(0x8000_0000_0000, 0, None)], ENOMEM),
        (vec![rw(10, 12), Mincore(at(10), PAGE, Some(8))], EFAULT),
        (vec![rw(10, 12), Mincore(at(12), PAGE, Some(8))], ENOMEM),
        (vec![rw(10, 12), Mincore(at(12), PAGE, Some(0x8000_0000_0000))], EFAULT),
        (vec![Mincore(at(10), 0, Some(0x8000_0000_0000))], EFAULT),
        // remap_file_pages
        (vec![file(10, 20, 3, 0), pages(12, 2, 50)], 0),
        (vec![file(10, 20, 3, 0), pages(12, 2, 50), pages(12, 2, 2)], 0),
        (vec![file(10, 20, 3, 0), FilePages(at(12) + 7, 2 * PAGE + 9, 0, 50)], 0),
        (vec![file(10, 20, 3, 0), FilePages(at(12), PAGE - 1, 0, 50)], EINVAL),
        (vec![file(10, 20, 3, 0), FilePages(at(12), PAGE, 1, 50)], EINVAL),
        (vec![file(10, 20, 3, 0), pages(12, 2, u64::MAX)], EINVAL),
        (vec![file(10, 20, 3, 0), pages(12, 2, 1 << 51)], EOVERFLOW),
        (vec![file(10, 20, 3, 0), pages(12, 2, 1 << 52)], EOVERFLOW),
        (vec![file(10, 20, 3, 0), pages(12, 2, (1 << 51) - 2)], EOVERFLOW),
        (vec![file(10, 20, 3, 0), pages(12, 2, (1 << 51) - 3)], 0),
        (vec![file(10, 20, 3, 0), pages(18, 4, 50)], EINVAL),
        (vec![file(10, 20, 3, 0), file(20, 24, 3, 50), file(24, 26, 3, 7), pages(18, 7, 70)], 0),
        (vec![file(10, 20, 3, 0), file(20, 24, 1, 10), pages(18, 4, 70)], EINVAL),
        (vec![file(10, 20, 3, 0), Map(20, 24, 3, SHARED, Some(1), 10), pages(18, 4, 70)], EINVAL),
        (vec![Map(10, 20, 1, SHARED, Some(2), 0), pages(12, 2, 50)], EINVAL),
        (vec![Map(10, 20, 1, MapFlags::PRIVATE, Some(0), 0), pages(12, 2, 50)], EINVAL),
        (vec![rw(10, 20), pages(12, 2, 50)], EINVAL),
        (vec![Map(10, 20, 3, SHARED | MapFlags::ANONYMOUS, None, 0), pages(12, 2, 50)], 0),
        (vec![pages(12, 2, 50)], EINVAL),
        (vec![file(10, 20, 3, 0), Lock(10, 20, LockKind::OnFault), pages(12, 2, 50)], 0),
        (vec![file(10, 20, 3, 0), Advise(vec![(at(10), 10 * PAGE)], Advice::Random), pages(12, 2, 50)], 0),
        (vec![file(10, 20, 3, 0), Seal(12, 14), pages(12, 2, 50)], -1),
        (vec![file(10, 20, 3, 0), Seal(12, 13), pages(12, 2, 50)], EINVAL),
        (vec![file(10, 20, 0, 0), pages(12, 2, 50)], 0),
        (vec![file(10, 20, 3, 0), Mdwe(1), pages(12, 2, 50)], 0),
        (vec![file(10, 20, 7, 0), Mdwe(1), pages(12, 2, 50)], EACCES),
        // process_madvise
        (vec![rw(10, 14), Advise(vec![(at(10), PAGE), (at(12), 5)], Advice::DontDump)], PAGE as i64 + 5),
        (vec![rw(10, 14), Advise(vec![(at(10), PAGE), (at(13), 2 * PAGE), (at(11), PAGE)], Advice::DontDump)], 4096),
        (vec![rw(10, 14), Advise(vec![(at(14), PAGE), (at(10), PAGE)], Advice::DontDump)], ENOMEM),
        (vec![rw(10, 14), Advise(vec![(at(10), PAGE), (at(10) + 1, PAGE)], Advice::DontDump)], 4096),
        (vec![rw(10, 14), Advise(vec![(at(10) + 1, PAGE)], Advice::DontDump)], EINVAL),
        (vec![rw(10, 14), Advise(vec![(at(10), PAGE), (at(11), u64::MAX)], Advice::DontDump)], EINVAL),
        (vec![Advise(vec![(at(10), 0), (at(10), 0)], Advice::DontDump)], 0),
        (vec![file(10, 14, 3, 0), Advise(vec![(at(10), PAGE)], Advice::WipeOnFork)], EINVAL),
        (vec![rw(10, 14), Advise(vec![(1, 0), (2, 0)], Advice::DontDump)], 0),
        (vec![rw(10, 14), Advise(vec![(1, 0), (at(10), PAGE)], Advice::DontDump)], EINVAL),
        (vec![rw(10, 14), Advise(vec![(at(10), PAGE), (1, 0), (at(12), PAGE)], Advice::DontDump)], 8192),
        (
            vec![Map(10, 11, 0, ANONYMOUS, None, 0), Advise(vec![(at(10), 1 << 40), (1, PAGE)], Advice::DontDump)],
            ENOMEM,
        ),
        // No more than 2 GiB but a page, and nothing behind that is looked at.
        (
            vec![
                Map(1 << 21, 3 << 20, 0, ANONYMOUS, None, 0),
                Advise(vec![(at(1 << 21), 0x7fff_ffff), (1, PAGE)], Advice::DontDump),
            ],
            0x7fff_f000,
        ),
        // Memory-deny-write-execute
        (vec![Mdwe(4)], EINVAL),
        (vec![Mdwe(2)], EINVAL),
        (vec![Mdwe(0), Mdwe(1), Mdwe(1)], 0),
        (vec![Mdwe(1), Mdwe(0)], -1),
        (vec![Mdwe(3), Mdwe(1)], -1),
        (vec![Mdwe(3), Fork, Map(10, 11, 7, ANONYMOUS, None, 0)], at(10) as i64),
        (vec![Mdwe(1), Fork, Map(10, 11, 7, ANONYMOUS, None, 0)], EACCES),
        (vec![rw(10, 12), Seal(10, 12), Mdwe(1), Map(10, 11, 7, ANONYMOUS, None, 0)], EACCES),
        (vec![rw(10, 12), Mdwe(1), Map(10, 11, 7, ANONYMOUS | MapFlags::FIXED_NOREPLACE, None, 0)], -17),
        (vec![rw(10, 12), Mdwe(1), Map(11, 13, 7, ANONYMOUS, None, 0)], EACCES),
        (vec![rw(10, 12), Mdwe(1), Seal(10, 12), Protect(10, 12, 5)], EACCES),
        // PR_SET_MEMORY_MERGE
        (vec![MergePages(2), rw(10, 12), rw(12, 14)], at(12) as i64),
        (vec![rw(10, 12), MergePages(1), rw(12, 14), MergePages(0), rw(14, 16)], at(14) as i64),
        (vec![rw(10, 14), Advise(vec![(at(11), PAGE)], Advice::Mergeable), MergePages(1)], 0),
        (vec![rw(10, 14), Advise(vec![(at(11), PAGE)], Advice::Mergeable), MergePages(0)], 0),
        (vec![rw(10, 14), MergePages(1), Advise(vec![(at(11), PAGE)], Advice::Unmergeable), MergePages(1)], 0),
        (
            vec![file(10, 12, 3, 0), Map(12, 14, 3, MapFlags::PRIVATE, Some(0), 0), MergePages(1), Fork, rw(14, 16)],
            at(14) as i64,
        ),
        (vec![MergePages(1), Map(10, 12, 3, MapFlags::DROPPABLE | MapFlags::ANONYMOUS, None, 0)], at(10) as i64),
    ];
    for (ops, last) in cases {
        let answers = compare(&ops, &files).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(answers.last(), Some(&last), "{ops:x?}: {answers:?}");
    }
    // What was protected before stays so, every protection from every other.
    for (old, new) in (0..8).flat_map(|old| (0..8).map(move |new| (old, new))) {
        let ops = [Map(10, 12, old, ANONYMOUS, None, 0), Mdwe(1), Protect(11, 12, new)];
        compare(&ops, &files).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Which advice another process takes.
#[test]
fn advice_for_others() {
    if lacking(&files()) {
        return;
    }
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let memory = child::call(libc::SYS_mmap, [0, 2 * PAGE, 3, kind, u64::MAX, 0]) as u64;
    // SAFETY: fork; the child only waits to be killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            child::call(libc::SYS_pause, [0; 6]);
        }
    }
    let pidfd = child::call(libc::SYS_pidfd_open, [child as u64, 0, 0, 0, 0, 0]);
    assert!(pidfd >= 0, "{pidfd}");
    let range = [memory, 2 * PAGE];
    let mut space = AddressSpace::<FileId>::new(Config::default());
    space.map(&MapRequest::anonymous(memory, 2 * PAGE, Prot::RW)).expect("a map");
    let answers: Vec<(u32, i64, i64)> = (0..200)
        .map(|raw| {
            let args = [pidfd as u64, range.as_ptr() as u64, 1, raw.into(), 0, 0];
            let kernel = child::call(libc::SYS_process_madvise, args);
            let model = match Advice::from_raw(raw) {
                Some(advice) => space.process_advise(&[(memory, 2 * PAGE)], advice, false),
                None => Err(Errno::EINVAL.into()),
            };
            (raw, kernel, model.map_or_else(|e| -i64::from(e.errno.raw()), |(bytes, _)| bytes as i64))
        })
        .collect();
    // SAFETY: plain calls, on a child of ours.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    child::call(libc::SYS_close, [pidfd as u64, 0, 0, 0, 0, 0]);
    child::call(libc::SYS_munmap, [memory, 2 * PAGE, 0, 0, 0, 0]);
    for (raw, kernel, model) in answers {
        // Whether there is a huge page to collapse into, the pages decide.
        let collapse = raw == Advice::Collapse as u32;
        assert!(kernel == model || (collapse && kernel == -22), "advice {raw}: kernel {kernel}, model {model}");
    }
}
