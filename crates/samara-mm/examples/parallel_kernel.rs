//! The memory of a user-mode kernel whose processes have threads: real pages behind
//! [`SharedAddressSpace`]. (`user_mode_kernel` shows one thread, and more calls.) Here is the
//! kernel; `guests` has the programs that use it, `host` what it asks of the host.
//!
//! The guest's RAM is a memfd. A process has three things: its *space*, which knows the areas; its
//! *page table*, which knows the frame of each page that was written; and its *window*, a range of
//! this program's own addresses, where the host maps frames. A guest's thread uses the window as
//! its processor would. What the window does not allow is a page fault.
//!
//! - **A fault** asks the space for a guard, then finds or makes the frame and maps it in the
//!   window. While the guard lives, the area stays as it is. So the frame cannot arrive after an
//!   `munmap` that took its area away. A fault takes no lock of the space, but for the first write
//!   to an area.
//! - **A call** (`mmap`, `munmap`, `mprotect`, `madvise`) carries out its plan in `apply`. The
//!   range is locked then, and no fault is in the areas that change: pages leave the window before
//!   anybody sees the new areas. Calls of other ranges go on.
//! - **A refusal**: `mmap` with MAP_POPULATE takes its frames in `apply`, before it changes
//!   anything. If there are too few, it returns an error. Then the call has not happened.
//! - **fork** takes the areas and the page table at the same moment: in `fork_with`, while no call
//!   is under way. Faults go on beside it; each gives its page to the table before the copy, or
//!   after. The copy empties the window, so the parent's next store faults too, finds a frame that
//!   two tables hold, and copies it. What was stored before is the child's, all else is not.
//!
//! Locks are taken in this order: range of the space (or guard of a fault), page table, list of
//! free frames. No thread waits for a range or a guard with the page table locked.
//!
//! What is checked: every load returns what its thread stored last, or zero in new memory; every
//! refused access is refused as it should be; a child has the memory of one moment, and keeps it;
//! a child that has a frame of its parent is named as a holder of the page; in the end the frames
//! in use are those of the pages that were written and are still mapped.

#[path = "parallel_kernel/guests.rs"]
mod guests;
#[path = "parallel_kernel/host.rs"]
mod host;

use guests::{COMMON, PLACE, ROUNDS, Steps, THREADS, churn, keep_ledger, one_child};
use samara_mm::{
    Access, Bases, Caller, Config, Errno, Error, FaultError, Faulter, FencedDomain, FileId, Flags, MapRequest, Plan,
    Prot, Refused, SharedAddressSpace, Sleep, StepKind,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::thread;

const PAGE: u64 = 4096;
/// The guest's user space: 16 MiB.
const USER: Range<u64> = 0x1000_0000..0x1100_0000;
/// Frames of the guest's RAM.
const FRAMES: u64 = 1024;

/// The guest's RAM.
struct Ram {
    file: File,
    /// Where the free frames are in the file. They are zero.
    free: Mutex<Vec<u64>>,
}

/// A page of RAM, which goes back when its last owner drops it.
struct Frame {
    ram: Arc<Ram>,
    at: u64,
}

impl Ram {
    fn new() -> Arc<Ram> {
        Arc::new(Ram { file: host::memory(FRAMES * PAGE), free: Mutex::new((0..FRAMES).map(|n| n * PAGE).collect()) })
    }

    /// This number of frames, all zero; or none.
    fn take(self: &Arc<Ram>, count: u64) -> Result<Vec<Arc<Frame>>, Errno> {
        let mut free = self.free.lock().unwrap();
        let left = free.len().checked_sub(count as usize).ok_or(Errno::ENOMEM)?;
        Ok(free.drain(left..).map(|at| Arc::new(Frame { ram: Arc::clone(self), at })).collect())
    }

    fn in_use(&self) -> u64 {
        FRAMES - self.free.lock().unwrap().len() as u64
    }
}

impl Frame {
    fn copy_to(&self, to: &Frame) {
        let mut bytes = [0; PAGE as usize];
        self.ram.file.read_exact_at(&mut bytes, self.at).expect("it is in the file");
        self.ram.file.write_all_at(&bytes, to.at).expect("it is in the file");
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        host::zero(&self.ram.file, self.at, PAGE);
        self.ram.free.lock().unwrap().push(self.at);
    }
}

type Pages = BTreeMap<u64, Arc<Frame>>;

struct Process {
    space: SharedAddressSpace<FileId>,
    window: host::Window,
    /// The page table. Its lock is also held while the window changes. A page without a frame is
    /// zero. A frame in several tables is read-only in every window.
    pages: Mutex<Pages>,
    ram: Arc<Ram>,
}

impl Process {
    fn new(ram: &Arc<Ram>) -> Result<Process, Errno> {
        let bases = Bases { top_down: USER.end, least: USER.start, ..Bases::default() };
        let space = SharedAddressSpace::new(Config { task_size: USER.end, bases, ..Config::default() })?;
        Ok(Process { space, ram: Arc::clone(ram), pages: Mutex::default(), window: host::Window::new(USER) })
    }

    /// Makes calls whose plans this process follows.
    fn caller(&self) -> Caller<'_, FileId, FencedDomain, Sleep, impl FnMut(&Plan) -> Result<(), Errno>> {
        self.space.caller_with(|plan| self.follow(plan, false))
    }

    /// mmap with MAP_FIXED and MAP_POPULATE: the memory has its frames at once, or nothing has
    /// happened.
    fn populate(&self, at: u64, len: u64) -> Result<(), Error> {
        let request = MapRequest::anonymous(at, len, Prot::RW);
        self.space.caller_with(|plan| self.follow(plan, true)).map(&request)?;
        // Memory with frames counts as written: the area gets its identity.
        self.space.touch(at, at + len)
    }

    /// Carries out a plan, or refuses it before anything has changed.
    fn follow(&self, plan: &Plan, populate: bool) -> Result<(), Errno> {
        let mapped = plan.iter().filter(|step| populate && step.kind == StepKind::Mapped);
        let count = mapped.map(|step| (step.end - step.start) / PAGE).sum();
        let mut new = self.ram.take(count)?.into_iter();
        let mut pages = self.pages.lock().unwrap();
        for step in plan {
            let range = step.start..step.end;
            match step.kind {
                StepKind::Unmapped | StepKind::Discarded(_) => {
                    self.window.clear(range.clone());
                    pages.retain(|page, _| !range.contains(page)); // gives their frames up, last
                }
                // Faults bring the pages back, as the new protection allows.
                StepKind::Changed(_) => self.window.clear(range),
                StepKind::Mapped => pages.extend(range.step_by(PAGE as usize).zip(&mut new)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Brings a page into the window. The caller has the fault's guard.
    fn bring_in(&self, page: u64, access: Access) -> Result<(), Errno> {
        thread::yield_now(); // as if it took long: the guard is what others wait for
        let mut pages = self.pages.lock().unwrap();
        let file = &self.ram.file;
        match (pages.get_mut(&page), access) {
            (Some(frame), Access::Write) => {
                if Arc::get_mut(frame).is_some() {
                    self.window.show(page, file, frame.at, true);
                    return Ok(());
                }
                // Copy on write. The old frame is given up when no window of ours shows it.
                let copy = self.ram.take(1)?.remove(0);
                frame.copy_to(&copy);
                self.window.show(page, file, copy.at, true);
                *frame = copy;
            }
            (None, Access::Write) => {
                let frame = self.ram.take(1)?.remove(0);
                self.window.show(page, file, frame.at, true);
                pages.insert(page, frame);
            }
            // Read-only, also where writes are allowed: the first one must fault, because it
            // changes the area (its identity) and this table.
            (Some(frame), _) => self.window.show(page, file, frame.at, false),
            (None, _) => self.window.show_zeros(page),
        }
        Ok(())
    }

    fn fork(&self) -> Result<Process, Error> {
        // O(1) for the areas; no call is under way, so that the page table belongs to them.
        let (space, mut pages) = self.space.fork_with(|| {
            let pages = self.pages.lock().unwrap();
            self.window.clear(USER);
            Ok(pages.clone())
        })?;
        // The rest is the child's alone. It may have fewer areas (MADV_DONTFORK), and empty ones.
        let maps = space.maps();
        let kept = |page| maps.area_at(page).is_some_and(|(_, _, area)| !area.flags.contains(Flags::WIPEONFORK));
        pages.retain(|page, _| kept(*page));
        drop(maps);
        Ok(Process { space, ram: Arc::clone(&self.ram), pages: Mutex::new(pages), window: host::Window::new(USER) })
    }

    /// The space is sound, and no page has outlived its area. At any time: no call is under way
    /// within `exclusive`, and a fault brings in a page of an area that is there.
    fn check(&self) {
        self.space.check().unwrap();
        let is_sound = self.space.exclusive(|space| {
            let pages = self.pages.lock().unwrap();
            Ok((pages.keys().all(|page| space.area_at(*page).is_some()), Plan::default()))
        });
        assert!(is_sound.unwrap(), "a page without an area");
    }

    /// If the child has this process's frame at `page`, the space names it. A kernel that wants the
    /// frame back finds its page table so.
    fn check_holder(&self, child: &Process, page: u64) {
        let (own, other) = (self.pages.lock().unwrap(), child.pages.lock().unwrap());
        let (Some(own), Some(other)) = (own.get(&page), other.get(&page)) else { return };
        if Arc::ptr_eq(own, other) {
            let holders = self.space.holders(page).expect("it is private");
            assert!(holders.iter().any(|holder| (holder.space, holder.start) == (child.space.number(), page)));
        }
    }

    /// How many pages of this range have a frame.
    fn frames_in(&self, range: Range<u64>) -> u64 {
        self.pages.lock().unwrap().range(range).count() as u64
    }
}

/// A thread of a process.
struct Guest<'p> {
    process: &'p Process,
    faulter: Faulter<'p, FileId, FencedDomain, Sleep>,
    processor: host::Processor,
}

impl<'p> Guest<'p> {
    fn new(process: &'p Process) -> Self {
        Guest { process, faulter: process.space.faulter(), processor: host::Processor::new() }
    }

    fn store(&mut self, addr: u64, byte: u8) -> Result<(), Refused> {
        while !self.processor.store(&self.process.window, addr, byte) {
            self.fault(addr, Access::Write)?;
        }
        Ok(())
    }

    fn load(&mut self, addr: u64) -> Result<u8, Refused> {
        loop {
            match self.processor.load(&self.process.window, addr) {
                Some(byte) => return Ok(byte),
                None => self.fault(addr, Access::Read)?,
            }
        }
    }

    /// A page fault. Refused, it is the guest's SIGSEGV.
    fn fault(&mut self, addr: u64, access: Access) -> Result<(), Refused> {
        match self.faulter.fault(addr, access) {
            Ok(guard) => self.process.bring_in(guard.page(), access).expect("the guests use less than there is"),
            Err(FaultError::Refused(refused)) => return Err(refused),
            Err(other) => panic!("{other}"),
        }
        Ok(())
    }
}

fn main() {
    if host::page_size() != PAGE {
        return eprintln!("skipped: the host's pages are not of 4 KiB");
    }
    let ram = Ram::new();
    let process = &Process::new(&ram).expect("there is memory");
    let steps = &Steps::default();
    let (frames, forks) = thread::scope(|scope| {
        let keeper = scope.spawn(|| keep_ledger(process, steps));
        let workers: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || churn(process, i, ROUNDS))).collect();
        let mut forks = 0;
        while forks == 0 || !keeper.is_finished() || workers.iter().any(|worker| !worker.is_finished()) {
            one_child(process, steps);
            forks += 1;
        }
        (workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>(), forks)
    });
    process.caller().unmap(COMMON.start, COMMON.end - COMMON.start).expect("no limit is near");
    process.check();
    // No frame is lost: these are the pages that were written.
    let in_use = ram.in_use();
    assert_eq!(in_use, PLACE + frames);
    process.caller().unmap(USER.start, USER.end - USER.start).expect("no limit is near");
    assert_eq!((ram.in_use(), process.space.len()), (0, 0));

    let did = process.space.statistics();
    println!("{} calls locked a range, {} the whole space; {} had to wait", did.ranged, did.whole, did.waited);
    println!("{forks} forks beside them, {in_use} frames in use at the end, as many as pages were written");
}

#[test]
fn it_runs() {
    main();
}
