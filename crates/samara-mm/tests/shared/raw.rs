//! Raw system calls on a shared space: the answers are those of `linux::call`, calls that are about
//! a range do not take the space, and their host may use it.

use crate::one_thread::space_like;
use crate::rng::Rng;
use crate::world::{ARENA, HEAP, PAGE, shown, space};
use crate::{seed, times};
use samara_mm::linux::{self, Host, OpenFile};
use samara_mm::*;
use std::time::Duration;

/// Where the program's memory holds a name, a node mask and a vector of ranges.
const NAME: u64 = 0x100;
const MASK: u64 = 0x200;
const VECTOR: u64 = 0x300;

fn word(addr: u64) -> u64 {
    match addr {
        MASK => 1,
        VECTOR | 0x310 => ARENA + (addr & 0x10) * 0x200,
        _ => PAGE,
    }
}

/// A world of a few files, segments and keys.
#[derive(Clone, Debug, Default, PartialEq)]
struct World {
    objects: u64,
    filled: Vec<(u64, u64, u64)>,
}

impl World {
    fn object(&mut self, name: &str) -> FileId {
        self.objects += 1;
        FileId { dev: (0, 1), inode: self.objects, open: self.objects, name: name.into() }
    }
}

impl Host<FileId> for World {
    fn file(&mut self, fd: i32) -> Result<OpenFile<FileId>, Errno> {
        let (name, mode) = match fd {
            3 => ("/file", FileMode::RW),
            4 => ("/file", FileMode::READ),
            5 => ("/dev/zero", FileMode::RW | FileMode::ZERO),
            _ => return Err(Errno::EBADF),
        };
        Ok(OpenFile { backing: FileId { dev: (8, 1), inode: 1, open: fd as u64, name: name.into() }, mode })
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<FileId, Errno> {
        Ok(self.object("/dev/zero (deleted)"))
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        match (addr, to.len()) {
            (NAME.., 1) if addr < NAME + 3 => to[0] = b"ab\0"[(addr - NAME) as usize],
            (MASK..0x400, 8) => to.copy_from_slice(&word(addr).to_le_bytes()),
            _ => return Err(Errno::EFAULT),
        }
        Ok(())
    }

    fn pkey(&mut self, key: u32) -> bool {
        key < 3
    }

    fn is_self(&mut self, pidfd: i32) -> Result<bool, Errno> {
        if pidfd < 9 { Ok(pidfd == 7) } else { Err(Errno::EBADF) }
    }

    fn segment(&mut self, id: i32, _prot: Prot) -> Result<Segment<FileId>, Errno> {
        if id == 1 {
            Ok(Segment { backing: self.object("/SYSV00000000"), bytes: 2 * PAGE })
        } else {
            Err(Errno::EINVAL)
        }
    }

    fn segment_bytes(&mut self, _segment: &FileId) -> u64 {
        2 * PAGE
    }

    fn huge_places(&mut self, backing: &FileId, _moved: bool) -> HugePlaces {
        if backing.open == 4 { HugePlaces::FileSystem } else { HugePlaces::Plain }
    }

    fn incore(&mut self, vec: u64, start: u64, pages: u64) -> Result<(), Errno> {
        self.filled.push((vec, start, pages));
        if vec == 0x9000 { Err(Errno::EFAULT) } else { Ok(()) }
    }
}

/// A call in the first 24 pages of the arena, sometimes with an argument that hurts.
fn random(r: &mut Rng) -> (u64, [u64; 6]) {
    let (at, to) = (ARENA + r.below(24) * PAGE, ARENA + r.below(48) * PAGE);
    let (len, new) = ((1 + r.below(6)) * PAGE, (1 + r.below(6)) * PAGE);
    let (prot, bits) = (r.pick(&[0, 1, 3, 3, 5]), r.next());
    let (nr, mut args) = match r.below(35) {
        0..=9 => {
            let kind = r.pick(&[0x22, 0x22, 0x22, 0x21, 0x2, 0x1, 0x3]);
            let more = r.pick(&[0, 0, 0x10, 0x10, 0x10_0000, 0x100, 0x2000, 0x4000, 0x4_0000]);
            let hint = if more & 0x10_0010 != 0 || r.one_in(3) { at } else { 0 };
            let fd = r.pick(&[3, 4, 5, 6]);
            (linux::MMAP, [hint, len, prot, kind | more, fd, r.below(4) * PAGE])
        }
        10..=12 => (linux::MUNMAP, [at, len, 0, 0, 0, 0]),
        13 => {
            let new = HEAP + r.below(8) * PAGE + r.below(2) * 100;
            (linux::BRK, [r.pick(&[0, 1, new, new]), 0, 0, 0, 0, 0])
        }
        14..=15 => (linux::MPROTECT, [at, len, r.pick(&[prot, prot, 0x100_0001]), 0, 0, 0]),
        16 => (linux::PKEY_MPROTECT, [at, len, prot, r.pick(&[0, 1, 2, 5, u64::MAX]), 0, 0]),
        17..=19 => (linux::MREMAP, [at, len, r.pick(&[new, new, 0]), r.pick(&[0, 1, 1, 3, 5]), to, 0]),
        20 => (linux::MSYNC, [at, len, r.pick(&[1, 2, 4, 5]), 0, 0, 0]),
        21 => (linux::MINCORE, [at, len, r.pick(&[0x8000, 0x9000]), 0, 0, 0]),
        22 => (linux::MADVISE, [at, len, r.pick(&[0, 2, 4, 10, 11, 14, 99]), 0, 0, 0]),
        23 => (linux::SHMAT, [r.pick(&[1, 1, 2]), r.pick(&[0, at]), r.pick(&[0, 0o10000]), 0, 0, 0]),
        24 => (linux::SHMDT, [at, 0, 0, 0, 0, 0]),
        25 => (linux::PERSONALITY, [r.pick(&[0xffff_ffff, 0, 0x40_0000]), 0, 0, 0, 0, 0]),
        26 => (r.pick(&[linux::MLOCK, linux::MLOCK2, linux::MUNLOCK]), [at, len, r.below(3), 0, 0, 0]),
        27 if r.one_in(4) => (r.pick(&[linux::MLOCKALL, linux::MUNLOCKALL]), [r.below(9), 0, 0, 0, 0, 0]),
        28 => {
            let option = r.pick(&[0x5356_4d41, 0x5356_4d41, 65, 66, 67, 68, 15]);
            let attribute = if option == 0x5356_4d41 { 0 } else { r.below(2) };
            let [start, len, name] =
                if attribute == 0 { [at, len, r.pick(&[0, NAME, NAME + 1, 0x999])] } else { [0; 3] };
            (linux::PRCTL, [option, attribute, start, len, name, 0])
        }
        29 => (linux::REMAP_FILE_PAGES, [at, len, r.below(2), r.below(3), 0, 0]),
        30 => (linux::MBIND, [at, len, r.below(6), r.pick(&[0, MASK, 0x999]), r.pick(&[0, 64]), r.below(9)]),
        31 => (
            linux::PROCESS_MADVISE,
            [r.pick(&[7, 7, 8, 9]), r.pick(&[VECTOR, 0x999]), r.below(3), r.pick(&[4, 20]), 0, 0],
        ),
        32 if r.one_in(6) => (linux::MSEAL, [at, PAGE, r.below(2), 0, 0, 0]),
        33 => (r.pick(linux::CALLS).0, [at, len, prot, 0, 0, 0]),
        _ => (r.below(500), [at, len, prot, 0, 0, 0]),
    };
    if r.one_in(12) {
        args[r.below(6) as usize] = r.pick(&[bits, u64::MAX, u64::MAX - 4095, 1 << 47, 0]);
    }
    (nr, args)
}

#[test]
fn raw_calls_answer_as_on_a_space_with_one_owner() {
    let seed = seed();
    let (mut calls, mut refused, mut ranged, mut unknown) = (0, 0, 0, 0);
    for round in 0..times(1200) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0x4a3);
        let mut one = space(&mut r);
        let shared = SharedAddressSpace::<_>::from_space(space_like(&one), FencedDomain::new()).unwrap();
        let (mut own, mut other) = (World::default(), World::default());
        let mut caller = shared.caller();
        for step in 0..60 {
            let (nr, args) = random(&mut r);
            let seed = seed.wrapping_add(round);
            let before = one.to_string();
            let a = linux::call(&mut one, &mut own, &mut Linux, nr, args);
            let b = caller.call(&mut other, &mut Linux, nr, args);
            assert_eq!(b, a, "seed {seed} step {step} {nr} {args:x?}\n{before}");
            assert_eq!(other, own, "seed {seed} step {step} {nr} {args:x?}");
            let snapshot = shared.snapshot().unwrap();
            assert_eq!(shown(&snapshot), shown(&one), "seed {seed} step {step} {nr} {args:x?}\n{before}");
            assert_eq!(snapshot.personality(), one.personality());
            calls += 1;
            refused += u64::from(a.as_ref().is_some_and(|called| called.result < 0));
            unknown += u64::from(a.is_none());
        }
        drop(caller);
        shared.check().unwrap();
        ranged += shared.statistics().ranged;
    }
    println!("{calls} calls, {refused} refused, {unknown} unknown, {ranged} under a range lock, seed {seed}");
    assert!(ranged * 4 > calls && unknown > 0, "range locks were used");
    assert!(refused * 20 > calls && refused * 4 < calls * 3, "calls are refused, and not all");
}

#[test]
fn calls_about_a_range_do_not_take_the_space() {
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    let (at, file) = (ARENA, 3);
    let call = |nr, args: &[u64]| {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let called = space.call(&mut World::default(), &mut Linux, nr, all).expect("a known call");
        assert!(called.result >= 0, "{nr} {args:x?}: {}", called.result);
        called.result as u64
    };
    let found = call(linux::MMAP, &[0, 4 * PAGE, 3, 0x22, u64::MAX, 0]);
    call(linux::MMAP, &[at, 4 * PAGE, 3, 0x12, file, 0]);
    call(linux::MREMAP, &[found, 4 * PAGE, 8 * PAGE, 1]);
    for (nr, args) in [
        (linux::MPROTECT, [at, PAGE, 1, 0]),
        (linux::PKEY_MPROTECT, [at, PAGE, 3, u64::MAX]),
        (linux::MADVISE, [at, PAGE, 4, 0]),
        (linux::MSYNC, [at, PAGE, 4, 0]),
        (linux::MINCORE, [at, PAGE, 0x8000, 0]),
        (linux::MLOCK, [at, PAGE, 0, 0]),
        (linux::MLOCK2, [at, PAGE, 1, 0]),
        (linux::MUNLOCK, [at, PAGE, 0, 0]),
        (linux::BRK, [0, 0, 0, 0]),
        (linux::MSEAL, [at, PAGE, 0, 0]),
        (linux::MUNMAP, [at + PAGE, PAGE, 0, 0]),
    ] {
        call(nr, &args);
    }
    assert_eq!((space.statistics().whole, space.statistics().ranged), (0, 14));
    call(linux::MUNLOCKALL, &[]);
    assert_eq!(space.statistics().whole, 1);
    // What the module does not know takes nothing.
    assert_eq!(space.call(&mut World::default(), &mut Linux, 0, [0; 6]), None);
    assert_eq!(space.call(&mut World::default(), &mut Linux, linux::PRCTL, [15, 0, 0, 0, 0, 0]), None);
    assert_eq!(space.statistics().whole, 1);
}

/// A host that uses the space that the call is made on.
struct Inside<'s>(&'s SharedAddressSpace<FileId>, u64);

impl Inside<'_> {
    fn touch(&mut self) {
        self.1 += 1;
        self.0.caller().timeout(Duration::from_secs(2)).touch(ARENA, ARENA + 1).expect("nothing is locked");
    }
}

impl Host<FileId> for Inside<'_> {
    fn file(&mut self, fd: i32) -> Result<OpenFile<FileId>, Errno> {
        self.touch();
        World::default().file(fd)
    }

    fn shared_memory(&mut self, bytes: u64) -> Result<FileId, Errno> {
        self.touch();
        World::default().shared_memory(bytes)
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        self.touch();
        World::default().read(addr, to)
    }

    fn is_self(&mut self, pidfd: i32) -> Result<bool, Errno> {
        World::default().is_self(pidfd)
    }

    fn incore(&mut self, _vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        self.touch();
        Ok(())
    }
}

#[test]
fn a_host_may_use_the_space_for_memory_and_files() {
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    space.map(&MapRequest::anonymous(ARENA, 8 * PAGE, Prot::RW)).unwrap();
    let mut host = Inside(&space, 0);
    for (nr, args, asked) in [
        (linux::MMAP, [ARENA + 8 * PAGE, PAGE, 1, 0x12, 3, 0], 1),
        (linux::MMAP, [0, PAGE, 3, 0x21, u64::MAX, 0], 2),
        (linux::MINCORE, [ARENA, PAGE, 0x8000, 0, 0, 0], 3),
        (linux::PRCTL, [0x5356_4d41, 0, ARENA, PAGE, NAME, 0], 6),
        (linux::MBIND, [ARENA, PAGE, 2, MASK, 64, 0], 7),
        (linux::PROCESS_MADVISE, [7, VECTOR, 2, 4, 0, 0], 11),
    ] {
        let called = space.call(&mut host, &mut Linux, nr, args).expect("a known call");
        assert!(called.result >= 0 && host.1 == asked, "{nr}: {} {}", called.result, host.1);
    }
    let snapshot = space.snapshot().unwrap();
    let first = snapshot.areas().next().unwrap();
    assert_eq!(first.extras().name.as_deref(), Some("ab"));
}

#[test]
fn what_the_embedder_refuses_has_not_happened() {
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    let layout = space.exclusive(|space| {
        space.set_layout(Layout { start_brk: HEAP, brk: HEAP, ..Layout::default() });
        Ok(((), Plan::default()))
    });
    layout.unwrap();
    let mut refuses = space.caller_with(|_| Err(Errno::ENOMEM));
    let mut call = |nr, args| refuses.call(&mut World::default(), &mut Linux, nr, args).expect("a known call").result;
    assert_eq!(call(linux::BRK, [HEAP + PAGE, 0, 0, 0, 0, 0]), HEAP as i64);
    assert_eq!(call(linux::MMAP, [ARENA, PAGE, 3, 0x32, u64::MAX, 0]), -12);
    assert!(space.is_empty());
}
