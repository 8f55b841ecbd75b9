//! Raw system calls (`linux::call`): how arguments are truncated, and which checks come before the
//! address space. The expected answers are those of the running kernel (Linux 6.18).

use samara_mm::linux::{self, *};
use samara_mm::*;

const P: u64 = 4096;
const AT: u64 = 0x1000_0000_0000 + 10 * P;
const EFAULT: i64 = -14;
const EINVAL: i64 = -22;

/// Two words of memory at 8 and 16, of which the first is the node mask `mask`; and an `iovec` at
/// `VECTOR`.
struct World {
    mask: u64,
    ranges: Vec<(u64, u64)>,
}

const VECTOR: u64 = 0x1_0000;
/// A descriptor of the process itself, and of another one.
const SELF: u64 = 8;
const OTHER: u64 = 9;

impl Host<FileId> for World {
    fn file(&mut self, fd: i32) -> Result<OpenFile<FileId>, Errno> {
        let backing = FileId { dev: (0, 1), inode: 5, open: 5, name: "/memfd:a (deleted)".into() };
        if fd == 3 { Ok(OpenFile { backing, mode: FileMode::RW }) } else { Err(Errno::EBADF) }
    }
    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        let word = match addr {
            16 => self.mask,
            VECTOR.. => {
                let range = self.ranges.get((addr - VECTOR) as usize / 16).ok_or(Errno::EFAULT)?;
                if addr.is_multiple_of(16) { range.0 } else { range.1 }
            }
            24.. => 0,
            _ => return Err(Errno::EFAULT),
        };
        to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
        Ok(())
    }
    fn is_self(&mut self, pidfd: i32) -> Result<bool, Errno> {
        match pidfd as u64 {
            SELF => Ok(true),
            OTHER => Ok(false),
            _ => Err(Errno::EBADF),
        }
    }
}

struct Machine(AddressSpace<FileId>, World);

impl Machine {
    fn new() -> Machine {
        let mut machine = Machine(AddressSpace::new(Config::default()), World { mask: 1, ranges: Vec::new() });
        assert_eq!(machine.call(MMAP, &[AT, 4 * P, 3, 0x32, u64::MAX, 0]), AT as i64);
        machine
    }
    fn call(&mut self, nr: u64, args: &[u64]) -> i64 {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let called = linux::call(&mut self.0, &mut self.1, &mut Linux, nr, all).expect("a call of the module");
        self.0.check().unwrap();
        called.result
    }
}

const HIGH: u64 = 1 << 32;

#[test]
fn arguments_are_cut_to_size() {
    let mut m = Machine::new();
    let to = AT + 10 * P;
    assert_eq!(m.call(MPROTECT, &[AT, P, 1 | HIGH]), EINVAL);
    assert_eq!(m.call(MPROTECT, &[AT, 0, 1 | HIGH]), 0, "nothing at all is asked for");
    assert_eq!(m.call(MMAP, &[to, P, 1 | HIGH, 0x32, u64::MAX, 0]), to as i64);
    assert_eq!(m.call(MMAP, &[to, P, 1, 0x32 | HIGH << 8, u64::MAX, 0]), to as i64);
    assert_eq!(m.call(MADVISE, &[AT, P, 4 | HIGH]), 0);
    assert_eq!(m.call(MLOCK2, &[AT, P, HIGH]), 0);
    assert_eq!(m.call(MSEAL, &[AT, P, HIGH]), EINVAL);
    assert_eq!(m.call(MLOCKALL, &[2 | HIGH]), 0);
    assert_eq!(m.call(MREMAP, &[AT, P, P, HIGH]), EINVAL);
    assert_eq!(m.call(MMAP, &[to, P, 1, 0x13 | HIGH << 8, 3, 0]), -95, "MAP_SHARED_VALIDATE minds");
    assert_eq!(m.call(MMAP, &[to, P, 1, 0x12, 3 | HIGH << 8, 0]), to as i64);
    assert_eq!(m.call(MSYNC, &[AT, P, 4 | HIGH]), 0);
    assert_eq!(m.call(PRCTL, &[66 | HIGH]), 0);
}

#[test]
fn what_mmap_looks_at_first() {
    let mut m = Machine::new();
    assert_eq!(m.call(MMAP, &[AT, P, 1, 0x12, 999, 1]), EINVAL, "the offset before the descriptor");
    assert_eq!(m.call(MMAP, &[AT, 0, 1, 0x12, 999, 0]), -9, "the descriptor before the length");
    assert_eq!(m.call(MMAP, &[AT, P, 1, 0x12 | 0x4_0000, 3, 0]), EINVAL, "no huge pages in it");
}

#[test]
fn node_masks() {
    let mut m = Machine::new();
    let (one, two, none) = (1, 2, 0);
    // Mode, mask, bits (0: no mask), flags, answer.
    let rows: [(u64, u64, u64, u64, i64); 25] = [
        (0, none, 0, 0, 0),
        (0, none, 64, 0, 0),
        (0, one, 64, 0, EINVAL),
        (2, one, 64, 0, 0),
        (2, two, 64, 0, EINVAL),
        (2, none, 64, 0, EINVAL),
        (2, none, 0, 0, EINVAL),
        (1, none, 0, 0, 0),
        (4, one, 64, 0, EINVAL),
        (3, one, 64, 0, 0),
        (5, one, 64, 0, 0),
        (6, one, 64, 0, 0),
        (7, one, 64, 0, EINVAL),
        (2 | 0x8000, one, 64, 0, 0),
        (2 | 0xc000, one, 64, 0, EINVAL),
        (2 | 0x2000, one, 64, 0, 0),
        (3 | 0x2000, one, 64, 0, EINVAL),
        (2, one, 64, 8, EINVAL),
        (2, one, 1, 0, EINVAL),
        (2, one, 2, 0, 0),
        (2, one, 40_000, 0, EINVAL),
        (2 | 0x4000, two, 64, 0, 0),
        (2 | 0x8000, two, 64, 0, EINVAL),
        (4 | 0x8000, none, 0, 0, EINVAL),
        (1 | 0x8000, none, 0, 0, EINVAL),
    ];
    for (mode, mask, bits, flags, answer) in rows {
        m.1.mask = mask;
        let pointer = if bits == 0 { 0 } else { 16 };
        let got = m.call(MBIND, &[AT, P, mode, pointer, bits, flags]);
        assert_eq!(got, answer, "mbind({mode:#x}, {mask}, {bits}, {flags})");
    }
    assert_eq!(m.call(MBIND, &[AT, P, 2, 8, 64, 0]), EFAULT);
    m.1.mask = two;
    assert_eq!(m.call(MBIND, &[AT, 0, 2, 16, 64, 0]), 0, "nodes are looked at only where there is something to bind");
    assert_eq!(m.call(MBIND, &[AT + 90 * P, P, 2, 16, 64, 0]), EINVAL);
    m.1.mask = one;
    assert_eq!(m.call(MBIND, &[AT + 90 * P, P, 2, 16, 64, 0]), EFAULT);
    assert_eq!(m.call(MBIND, &[AT + 1, P, 2, 16, 64, 0]), EINVAL);
}

/// Nodes that are not there make no difference, but to a policy that remembers what was asked for.
#[test]
fn nodes_that_are_not_there() {
    for (mode, areas) in [(2, 2), (2 | 0x8000, 3), (2 | 0x4000, 3)] {
        let mut m = Machine::new();
        for (mask, at) in [(1, AT), (3, AT + P)] {
            m.1.mask = mask;
            assert_eq!(m.call(MBIND, &[at, P, mode, 16, 64, 0]), 0);
        }
        assert_eq!(m.0.len(), areas, "{mode:#x}");
    }
}

#[test]
fn options_of_prctl() {
    let mut m = Machine::new();
    let mut prctl = |args: &[u64]| m.call(PRCTL, args);
    assert_eq!([prctl(&[66]), prctl(&[66, 1]), prctl(&[66, 0, 1])], [0, EINVAL, EINVAL]);
    assert_eq!([prctl(&[65, 1, 1]), prctl(&[65, 2]), prctl(&[65, 3])], [EINVAL, EINVAL, 0]);
    assert_eq!([prctl(&[66]), prctl(&[65, 1]), prctl(&[65, 0])], [3, -1, -1]);
    assert_eq!([prctl(&[68]), prctl(&[68, 1]), prctl(&[67, 1, 1])], [0, EINVAL, EINVAL]);
    assert_eq!([prctl(&[67, 5]), prctl(&[68])], [0, 1]);
}

/// As PR_SET_VMA(2const) says: the kernels that the tests meet are built without names.
#[test]
fn names() {
    const SET_VMA: u64 = 0x5356_4d41;
    struct Text(&'static [u8]);
    impl Host<FileId> for Text {
        fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
            let from = addr.checked_sub(VECTOR).and_then(|from| self.0.get(from as usize..)).ok_or(Errno::EFAULT)?;
            to.copy_from_slice(from.get(..to.len()).ok_or(Errno::EFAULT)?);
            Ok(())
        }
    }
    let mut m = Machine::new();
    let mut name = |text: &'static [u8], args: [u64; 4]| {
        let [attribute, start, len, at] = args;
        let args = [SET_VMA, attribute, start, len, at, 0];
        linux::call(&mut m.0, &mut Text(text), &mut Linux, PRCTL, args).expect("a call of the module").result
    };
    let (longest, longer) = ([[b'a'; 79].as_slice(), b"\0"].concat().leak(), [b'a'; 80].to_vec().leak());
    assert_eq!(name(b"a heap\0", [0, AT, P, VECTOR]), 0);
    assert_eq!([name(b"a$\0", [0, AT, P, VECTOR]), name(b"a\n\0", [0, AT, P, VECTOR])], [EINVAL; 2]);
    assert_eq!([name(b"a", [0, AT, P, VECTOR]), name(b"", [0, AT, P, VECTOR])], [EFAULT; 2]);
    assert_eq!([name(longer, [0, AT, P, VECTOR]), name(b"a\0", [1, AT, P, VECTOR])], [EINVAL; 2]);
    assert_eq!([name(b"a\0", [0, AT + 1, P, VECTOR]), name(longest, [0, AT + 2 * P, P, VECTOR])], [EINVAL, 0]);
    assert!(m.0.line(AT).unwrap().to_string().ends_with("[anon:a heap]"));
    assert_eq!(m.0.len(), 4);
    assert_eq!(m.call(PRCTL, &[SET_VMA, 0, AT, 4 * P, 0]), 0);
    assert_eq!(m.0.len(), 1, "without names they are one again");
}

#[test]
fn file_pages() {
    let mut m = Machine::new();
    assert_eq!(m.call(MMAP, &[AT, 4 * P, 3, 0x11, 3, 0]), AT as i64);
    assert_eq!(m.call(REMAP_FILE_PAGES, &[AT, P, 1, 2, 0]), EINVAL);
    assert_eq!(m.call(REMAP_FILE_PAGES, &[AT, P, HIGH, 2, 0]), EINVAL);
    assert_eq!(m.call(REMAP_FILE_PAGES, &[AT, P, 0, 2, 0xffff]), 0);
    assert_eq!(m.0.area_at(AT).map(|a| (a.end - a.start, a.offset(PageSize::K4))), Some((P, 2 * P)));
}

#[test]
fn advice_on_ranges() {
    const DONT_DUMP: u64 = 16;
    const EBADF: i64 = -9;
    const ENOMEM: i64 = -12;
    let top = Config::default().task_size;
    let (one, none) = ((AT, P), (AT, 0));
    // Ranges, advice, result.
    type Ranges<'a> = &'a [(u64, u64)];
    let rows: [(Ranges, u64, i64); 22] = [
        (&[one], DONT_DUMP, P as i64),
        (&[one, (AT + 2 * P, 100)], DONT_DUMP, P as i64 + 100),
        (&[one, (AT + 4 * P, P)], DONT_DUMP, P as i64),
        (&[(AT + 4 * P, P), one], DONT_DUMP, ENOMEM),
        (&[(AT + 1, P)], DONT_DUMP, EINVAL),
        (&[one], 999, EINVAL),
        (&[one], HIGH | DONT_DUMP, P as i64),
        // Nothing is looked at where nothing is asked for, but where it lies.
        (&[], 999, 0),
        (&[none, none], 999, 0),
        (&[(top, 0)], 999, 0),
        (&[(top + 1, 0)], DONT_DUMP, EFAULT),
        (&[none, (top + P, 0)], DONT_DUMP, EFAULT),
        // In user space, all of them, before anything is done.
        (&[one, (top, P)], DONT_DUMP, EFAULT),
        (&[one, (top - P, P)], DONT_DUMP, P as i64),
        (&[one, (AT, 1 << 46)], DONT_DUMP, P as i64),
        (&[one, (AT, 1 << 47)], DONT_DUMP, EFAULT),
        (&[(AT, 0x7fff_f000), (u64::MAX, P)], DONT_DUMP, EFAULT),
        // A single range is truncated to 2 GiB first.
        (&[(AT, 1 << 47)], DONT_DUMP, ENOMEM),
        (&[(top - P, 2 * P)], DONT_DUMP, EFAULT),
        // Lengths before places.
        (&[(u64::MAX, P), (AT, u64::MAX)], DONT_DUMP, EINVAL),
        (&[(AT, 1 << 63), (u64::MAX, P)], DONT_DUMP, EINVAL),
        (&[(AT, i64::MAX as u64)], DONT_DUMP, ENOMEM),
    ];
    for (ranges, advice, result) in rows {
        let mut m = Machine::new();
        m.1.ranges = ranges.to_vec();
        let got = m.call(PROCESS_MADVISE, &[SELF, VECTOR, ranges.len() as u64, advice, 0]);
        assert_eq!(got, result, "{ranges:x?}, {advice}");
    }
    let mut m = Machine::new();
    m.1.ranges = vec![one];
    let mut call = |args: [u64; 5]| m.call(PROCESS_MADVISE, &args);
    assert_eq!(call([7, VECTOR, 1, DONT_DUMP, 1]), EINVAL, "flags before all else");
    assert_eq!(call([SELF, VECTOR, 1, DONT_DUMP, HIGH]), P as i64);
    assert_eq!(call([SELF | HIGH, VECTOR, 1 | HIGH, DONT_DUMP, 0]), P as i64);
    assert_eq!([call([7, VECTOR, 1025, 0, 0]), call([7, VECTOR, u64::MAX, 0, 0])], [EINVAL; 2]);
    assert_eq!([call([7, 8, 1, 0, 0]), call([7, VECTOR, 2, 0, 0])], [EFAULT; 2], "the vector before the descriptor");
    assert_eq!([call([7, VECTOR, 1, 999, 0]), call([7, 8, 0, 999, 0])], [EBADF; 2], "the descriptor before the advice");
    let other = linux::call(&mut m.0, &mut m.1, &mut Linux, PROCESS_MADVISE, [OTHER, VECTOR, 1, DONT_DUMP, 0, 0]);
    assert_eq!(other, None, "not this space's");
}
