//! The memory of a user-mode kernel's processes: system calls, page faults, fork and
//! `/proc/self/maps`. The space knows the areas; the pages are the kernel's own.
//!
//! Private memory only: pages of shared memory would belong to its object, and those of files begin
//! as the file's.

use samara_mm::linux::{self, Host, OpenFile};
use samara_mm::{
    Access, AddressSpace, Advice, Config, Errno, Error, FileId, FileMode, Layout, Limit, Limits, Linux, MapFlags,
    MapRequest, Plan, Prot, Refused, StepKind,
};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const ENOSYS: i64 = -38;

/// What calls ask of the kernel beside the address space. Here: the files.
pub(crate) struct Kernel;

impl Host<FileId> for Kernel {
    fn file(&mut self, fd: i32) -> Result<OpenFile<FileId>, Errno> {
        let library = FileId { dev: (8, 1), inode: 77, open: 1, name: "/lib/libc.so.6".into() };
        if fd == 3 { Ok(OpenFile { backing: library, mode: FileMode::READ }) } else { Err(Errno::EBADF) }
    }
}

pub(crate) struct Process {
    pub(crate) space: AddressSpace<FileId>,
    /// What was written, page by page; all else is zero.
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
}

impl Process {
    /// What `execve` leaves: the program, a heap, a stack.
    pub(crate) fn exec() -> Result<Process, Error> {
        let mut space = AddressSpace::new(Config::default());
        let program = FileId { dev: (8, 1), inode: 42, open: 2, name: "/bin/hello".into() };
        space.map(&MapRequest::file(0x40_0000, 2 * PAGE, Prot::READ | Prot::EXEC, MapFlags::PRIVATE, program, 0))?;
        let mut stack = MapRequest::anonymous(0x7fff_ffff_c000, 2 * PAGE, Prot::RW);
        stack.flags |= MapFlags::GROWSDOWN;
        space.map(&stack)?;
        space.set_layout(Layout { start_brk: 0x41_0000, brk: 0x41_0000, start_stack: 0x7fff_ffff_d000, data: 0 });
        space.set_limits(Limits { stack: Limit::bytes(8 << 20), ..Limits::NONE });
        Ok(Process { space, pages: BTreeMap::new() })
    }

    /// A system call: a value, or a negative errno.
    pub(crate) fn syscall(&mut self, kernel: &mut Kernel, nr: u64, args: [u64; 6]) -> i64 {
        let Some(called) = linux::call(&mut self.space, kernel, &mut Linux, nr, args) else { return ENOSYS };
        // Also where it failed: what it did up to there stays, as in Linux.
        self.follow(&called.plan);
        called.result
    }

    /// Pages go where their areas go, and are lost where the plan says so.
    fn follow(&mut self, plan: &Plan) {
        let mut mapped = 0;
        for step in plan {
            match step.kind {
                // MADV_FREE: only when memory is short, which it never is here.
                StepKind::Discarded(Advice::Free) => {}
                StepKind::Unmapped | StepKind::Discarded(_) => drop(self.take(step.start, step.end)),
                StepKind::Mapped => mapped = step.start,
                StepKind::Moved => {
                    let pages = self.take(step.start, step.end);
                    self.pages.extend(pages.into_iter().map(|(at, page)| (at - step.start + mapped, page)));
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, start: u64, end: u64) -> BTreeMap<u64, Box<[u8; PAGE as usize]>> {
        let mut taken = self.pages.split_off(&start);
        self.pages.append(&mut taken.split_off(&end));
        taken
    }

    /// The program writes a byte: a fault first, which may let the stack grow. Refused, it is a
    /// SIGSEGV with this `si_code`.
    pub(crate) fn write(&mut self, addr: u64, byte: u8) -> Result<(), Refused> {
        self.space.fault(addr, Access::Write)?;
        let page = self.pages.entry(addr & !(PAGE - 1)).or_insert_with(|| Box::new([0; PAGE as usize]));
        page[(addr % PAGE) as usize] = byte;
        Ok(())
    }

    pub(crate) fn read(&mut self, addr: u64) -> Result<u8, Refused> {
        self.space.fault(addr, Access::Read)?;
        Ok(self.pages.get(&(addr & !(PAGE - 1))).map_or(0, |page| page[(addr % PAGE) as usize]))
    }

    /// The child has the same pages, but of areas that it does not have, or that are wiped.
    pub(crate) fn fork(&self) -> Result<Process, Errno> {
        let mut child = Process { space: self.space.fork()?, pages: self.pages.clone() };
        child.follow(&self.space.fork_plan()?);
        Ok(child)
    }
}

fn main() -> Result<(), Error> {
    let (mut kernel, mut process) = (Kernel, Process::exec()?);

    // mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0), and of the
    // library.
    let at = process.syscall(&mut kernel, linux::MMAP, [0, 3 * PAGE, 3, 0x22, u64::MAX, 0]) as u64;
    process.syscall(&mut kernel, linux::MMAP, [0, 4 * PAGE, 1, 2, 3, 0]);
    process.syscall(&mut kernel, linux::BRK, [0x41_2000, 0, 0, 0, 0, 0]);
    process.write(at + PAGE, 7).expect("it may be written to");

    // mprotect of the middle: the area is cut. A write there is a SIGSEGV then (SEGV_ACCERR).
    assert_eq!(process.syscall(&mut kernel, linux::MPROTECT, [at + PAGE, PAGE, 1, 0, 0, 0]), 0);
    assert_eq!(process.write(at + PAGE, 8), Err(Refused::NotAllowed));

    // The stack grows on a fault; far below it there is nothing (SEGV_MAPERR).
    process.write(0x7fff_ffff_b008, 1).expect("the stack grows");
    assert_eq!(process.write(0x1000_0000, 1).map_err(Refused::si_code), Err(1));

    // The child has the same, and goes its own way: mremap to twice the size, which must move it,
    // and the page with it.
    let mut child = process.fork()?;
    let to = child.syscall(&mut kernel, linux::MREMAP, [at + PAGE, PAGE, 2 * PAGE, 1, 0, 0]) as u64;
    assert_eq!((child.read(to), child.read(at + PAGE)), (Ok(7), Err(Refused::NotMapped)));
    assert_eq!(process.read(at + PAGE), Ok(7));

    // madvise(MADV_DONTNEED) over a hole: ENOMEM, and the pages before the hole are zero again.
    let hole = child.syscall(&mut kernel, linux::MADVISE, [to, 0x10_0000, 4, 0, 0, 0]);
    assert_eq!((hole, child.read(to)), (-i64::from(Errno::ENOMEM.raw()), Ok(0)));

    // munmap of what is not aligned: EINVAL. A call that is no call on areas is the rest of the
    // kernel's.
    assert_eq!(child.syscall(&mut kernel, linux::MUNMAP, [at + 1, PAGE, 0, 0, 0, 0]), -i64::from(Errno::EINVAL.raw()));
    assert_eq!(child.syscall(&mut kernel, 39, [0; 6]), ENOSYS);

    print!("/proc/self/maps of the parent:\n{}\nand of the child:\n{}", process.space, child.space);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
