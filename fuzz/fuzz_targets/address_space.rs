//! An address space under arbitrary raw calls: it never panics, its invariants hold (`check`), and
//! a refused call that reports that it did nothing did nothing.
//!
//! The bytes choose limits, then calls. Most addresses are near one another, so that calls overlap.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use samara_mm::linux::{self, Host, OpenFile};
use samara_mm::{
    Access, AddressSpace, Caps, Config, Errno, FileId, FileMode, Layout, Limit, Limits, Linux, Overcommit, PageSize,
    Prot, Segment, Touches,
};

const PAGE: u64 = 4096;
/// Calls that are made more often than the others of the table.
const MORE: [u64; 3] = [linux::MMAP, linux::MMAP, linux::MREMAP];

struct World(u64);

impl Host<FileId> for World {
    fn file(&mut self, fd: i32) -> std::result::Result<OpenFile<FileId>, Errno> {
        let backing = FileId { dev: (1, 1), inode: 1, open: fd as u64 & 3, name: "a\nb (deleted)".into() };
        if fd < 0 { Err(Errno::EBADF) } else { Ok(OpenFile { backing, mode: FileMode::from_bits_truncate(fd as u16) }) }
    }
    fn shared_memory(&mut self, _bytes: u64) -> std::result::Result<FileId, Errno> {
        self.0 += 1;
        Ok(FileId { dev: (0, 1), inode: self.0, open: self.0, name: "/dev/zero (deleted)".into() })
    }
    fn huge_memory(&mut self, _page: Option<PageSize>) -> std::result::Result<FileId, Errno> {
        self.0 += 1;
        Ok(FileId { dev: (0, 1), inode: self.0, open: self.0, name: "/anon_hugepage (deleted)".into() })
    }
    fn read(&mut self, addr: u64, to: &mut [u8]) -> std::result::Result<(), Errno> {
        to.fill((addr >> 3) as u8 & 1);
        Ok(())
    }
    fn is_self(&mut self, pidfd: i32) -> std::result::Result<bool, Errno> {
        Ok(pidfd & 1 == 0)
    }
    fn segment(&mut self, id: i32, _prot: Prot) -> std::result::Result<Segment<FileId>, Errno> {
        self.0 += 1;
        let backing = FileId { dev: (0, 1), inode: id as u64, open: self.0, name: "/SYSV00000000 (deleted)".into() };
        Ok(Segment { backing, bytes: (id as u64).wrapping_mul(1000) })
    }
    fn segment_bytes(&mut self, segment: &FileId) -> u64 {
        segment.inode.wrapping_mul(1000)
    }
}

/// An argument: a page nearby, a small number, or anything.
fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.int_in_range(0..=5_u8)? {
        0 | 1 => 0x10_0000 + u64::from(u.arbitrary::<u8>()? & 31) * PAGE,
        2 | 3 => u64::from(u.arbitrary::<u8>()? & 15) * PAGE,
        4 => u64::from(u.arbitrary::<u8>()?),
        _ => u.arbitrary::<u64>()? >> u.int_in_range(0..=63_u32)?,
    })
}

fn limit(u: &mut Unstructured<'_>) -> Result<Limit> {
    Ok(if u.ratio(3, 4)? { Limit::NONE } else { Limit { soft: number(u)?, hard: number(u)? } })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let overcommit = match u.int_in_range(0..=3_u8)? {
        0 => Overcommit::Guess { total: number(u)? },
        1 => Overcommit::Never { limit: number(u)?, admin_reserve: number(u)?, user_reserve: number(u)? },
        _ => Overcommit::Always,
    };
    let touches = if u.ratio(1, 4)? { Touches::Unseen } else { Touches::Told };
    let max_map_count = if u.ratio(1, 4)? { usize::from(u.arbitrary::<u8>()?) } else { 65530 };
    let protection_keys = u.ratio(1, 4)?;
    let config = Config { overcommit, touches, max_map_count, protection_keys, ..Config::default() };
    let mut space = AddressSpace::new(config);
    space.set_limits(Limits { address_space: limit(u)?, data: limit(u)?, stack: limit(u)?, locked: limit(u)? });
    space.set_caps(Caps::from_bits_truncate(u.arbitrary()?));
    let heap = number(u)?;
    space.set_layout(Layout { start_brk: heap, brk: heap, ..Layout::default() });
    let mut world = World(100);
    while !u.is_empty() {
        let choice: u8 = u.arbitrary()?;
        match choice {
            0..=7 => {
                let access = [Access::Read, Access::Write, Access::Execute][usize::from(choice) % 3];
                let _ = space.fault(number(u)?, access);
            }
            8 => space = space.fork().unwrap_or(space),
            _ => {
                let i = usize::from(choice) % (MORE.len() + linux::CALLS.len());
                let nr = MORE.get(i).copied().unwrap_or_else(|| linux::CALLS[i - MORE.len()].0);
                let mut args = [number(u)?, number(u)?, number(u)?, number(u)?, number(u)?, 0];
                if nr == linux::MMAP {
                    // A type and flags that mean something, mostly.
                    args[3] = if u.ratio(7, 8)? { args[3] & 0xff | 0x12 | u64::from(choice) << 10 } else { args[3] };
                    args[2] &= 0xff;
                    args[4] = if args[3] & 0x20 == 0 { args[4] & 0x3f } else { u64::MAX };
                    args[5] = number(u)?;
                }
                let before = space.to_string();
                let called = linux::call(&mut space, &mut world, &mut Linux, nr, args);
                let Some(called) = called else {
                    // Of prctl and process_madvise, what concerns something else.
                    assert_eq!(before, space.to_string(), "{nr}({args:x?})");
                    continue;
                };
                if called.result < 0 && called.plan.is_empty() {
                    assert_eq!(before, space.to_string(), "{nr}({args:x?}) says that it did nothing");
                }
            }
        }
        space.check().expect("the invariants hold");
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = run(&mut Unstructured::new(bytes));
});
