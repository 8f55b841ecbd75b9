//! The model's side: what `samara-mm` answers to an op, and the areas that it then has.

use crate::guards::Guards;
use samara_mm::{linux::OpenFile, *};
use samara_probe::child::{QueriedArea, Scope};
use samara_probe::harness::task_size;
use samara_probe::op::{BASE, END, Limited, Op, PAGE, ROOM, fd, segment};
use std::sync::Arc;

/// Above the numbers of open files: hidden files of shared anonymous memory.
const HIDDEN: u64 = 1 << 16;
/// Above those: hidden files in huge pages.
const HUGE: u64 = 1 << 24;
/// Above those: areas that were there before the first op.
const FOREIGN: u64 = 1 << 32;

/// Where a run begins.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) scope: Scope,
    /// Areas that are there, if the whole address space is looked at.
    pub(crate) areas: Vec<QueriedArea>,
    /// Where the kernel seeks places.
    pub(crate) bases: Bases,
    /// The end of the process's stack.
    pub(crate) stack: u64,
    pub(crate) personality: Personality,
    pub(crate) caps: Caps,
    /// The hard limits, to which the soft ones are raised.
    pub(crate) limits: Limits,
    pub(crate) overcommit: Overcommit,
    pub(crate) features: Features,
    /// What the settings say of huge pages for shared memory.
    pub(crate) shared: SharedHuge,
    /// Which anonymous memory gets huge pages.
    pub(crate) transparent_huge: TransparentHuge,
    /// Protection key 0 is allocated.
    pub(crate) keys: bool,
    /// A pipe is as on a file system without execution.
    pub(crate) pipes_noexec: bool,
    /// A userfaultfd protects files' memory too.
    pub(crate) protects_files: bool,
    /// Flags that the kernel does not show.
    pub(crate) unshown: Flags,
}

/// The model of a run.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) space: AddressSpace<FileId>,
    files: Files,
    scope: Scope,
    /// The hard limits.
    limits: Limits,
    /// A userfaultfd protects files' memory too.
    protects_files: bool,
    /// Flags that the kernel does not show.
    unshown: Flags,
    results: Vec<i64>,
    /// The pages in which every access is refused, although their area allows it.
    pub(crate) guards: Guards,
}

impl Model {
    /// The model of a process that will do these ops (the first may set a limit).
    pub(crate) fn new(start: &Start, touches: Touches, first: Option<&Op>) -> Model {
        let max_map_count = match first {
            // The guards are in the model.
            Some(Op::Fill { left }) => *left as usize + 2,
            _ => Config::default().max_map_count,
        };
        let mut space = AddressSpace::new(Config {
            touches,
            max_map_count,
            bases: start.bases,
            overcommit: start.overcommit,
            features: start.features,
            protection_keys: start.keys,
            transparent_huge: start.transparent_huge,
            task_size: task_size(),
            ..Config::default()
        });
        space.set_personality(start.personality);
        space.set_caps(start.caps);
        space.set_limits(start.limits);
        let guards = [BASE - PAGE, END].map(|at| QueriedArea { start: at, end: at + PAGE, perms: 8, offset: 0 });
        let there = if start.scope == Scope::Window { &guards[..] } else { &start.areas };
        for (i, a) in there.iter().enumerate() {
            let may = Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
            let shared = if a.perms & 8 != 0 { Flags::SHARED | Flags::MAYSHARE } else { Flags::empty() };
            let grows =
                if start.scope == Scope::Whole && a.end == start.stack { Flags::GROWSDOWN } else { Flags::empty() };
            // No two of them join, nor what comes later: each its own object.
            let object = Object::File(id(FOREIGN + i as u64));
            let flags = Flags::from_bits_retain(a.perms & 7) | may | shared | grows;
            let bias = Area::<FileId>::bias_of(a.start, a.offset, PAGE);
            // What the kernel shows does not overlap.
            let _ = space.import(a.start, a.end, Area::new(flags, object, bias));
        }
        Model {
            space,
            files: Files {
                shared: start.shared,
                keys: start.keys,
                pipes_noexec: start.pipes_noexec,
                ..Files::default()
            },
            scope: start.scope,
            limits: start.limits,
            protects_files: start.protects_files,
            unshown: start.unshown,
            results: Vec::new(),
            guards: Guards::default(),
        }
    }

    /// What the model answers: a value, or a negative errno. `None`, and no change, where the
    /// answer is not the model's to know (it depends on what single pages hold: how far pages are
    /// brought in where one is a guard; ends of shared objects), or where the op would hit what the
    /// process needs.
    pub(crate) fn step(&mut self, op: Op) -> Option<i64> {
        let op = op.resolved(|of| self.results.get(of).copied().unwrap_or(0));
        let hits = self.scope == Scope::Whole && hits_the_process(op, &self.space);
        if hits || depends_on_pages(op, &self.space, &self.guards) {
            return None;
        }
        let answer = match op {
            // A place that the kernel may choose: known only where all areas are.
            Op::Call(libc::SYS_mremap, [_, _, _, 1 | 5, ..]) | Op::Call(libc::SYS_shmat, [_, 0, ..])
                if self.scope == Scope::Window =>
            {
                return None;
            }
            // The heap that the process had at first is its own.
            Op::Call(libc::SYS_brk, _) if self.space.layout().start_brk == 0 => return None,
            Op::Call(nr, args) => {
                let answer = self.call(nr as u64, args);
                if let (libc::SYS_madvise, 0 | NO_AREA) = (nr, answer) {
                    self.unguard(args[2], (args[0], args[1]));
                }
                answer
            }
            Op::Advise { advice, ranges } => {
                self.files.ranges = ranges;
                let answer = self.call(linux::PROCESS_MADVISE, [0, ROOM, ranges.len() as u64, advice, 0, 0]);
                // What it answers is how far it came.
                let mut left = u64::try_from(answer).unwrap_or(0);
                for (at, len) in ranges {
                    self.unguard(advice, (at, len.min(left)));
                    if left < len {
                        // It ends here. A range with holes was done as far as there are areas.
                        let again = (advice == Advice::GuardRemove as u64)
                            .then(|| raw(self.space.advise(at, len, Advice::GuardRemove)));
                        if again == Some(NO_AREA) {
                            self.unguard(advice, (at, len));
                        }
                        break;
                    }
                    left -= len;
                }
                answer
            }
            Op::Heap { at } => {
                self.space.set_layout(Layout { start_brk: at, brk: at, ..self.space.layout() });
                0
            }
            Op::Write(at) | Op::Read(at) if self.guards.any(at & !(PAGE - 1), (at & !(PAGE - 1)) + 1) => -EFAULT,
            Op::Write(at) => self.space.fault(at, Access::Write).map_or(-EFAULT, |_| 0),
            Op::Read(at) => self.space.fault(at, Access::Read).map_or(-EFAULT, |_| 0),
            Op::Fork => {
                self.space = self.space.fork().ok()?;
                self.unguard_child();
                0
            }
            Op::Uffd { on: true, at, len } => {
                let uffd = Uffd { id: 1, fork_events: false, remap_events: false };
                // The first area that cannot be registered answers.
                let of_file = |a: &Placed<'_, FileId>| match &a.area.object {
                    Object::File(file) => !file.is_zero() || a.area.flags.contains(Flags::SHARED),
                    object => *object != Object::Anonymous,
                };
                let refuses = |a: &Placed<'_, FileId>| of_file(a) || !a.area.flags.contains(Flags::MAYWRITE);
                let first = self.space.areas_in(at, at.saturating_add(len)).find(refuses);
                match !self.protects_files && first.is_some_and(|a| of_file(&a)) {
                    true => -i64::from(libc::EINVAL),
                    false => raw(self.space.register_uffd(at, len, uffd, Flags::UFFD_WP)),
                }
            }
            Op::Uffd { on: false, at, len } => raw(self.space.unregister_uffd(at, len)),
            Op::Limit(limits) => {
                self.limit(limits);
                0
            }
            Op::Fill { .. } if self.results.is_empty() => 0,
            Op::Fill { .. } => return None,
        };
        self.results.push(answer);
        Some(answer)
    }

    fn call(&mut self, nr: u64, args: [u64; 6]) -> i64 {
        let Some(done) = linux::call(&mut self.space, &mut self.files, &mut Linux, nr, args) else { return -ENOSYS };
        self.guards.follow(&done.plan);
        done.result
    }

    /// Advice that was given takes the guard pages of the range away, if it is that advice.
    fn unguard(&mut self, advice: u64, (at, len): (u64, u64)) {
        if advice == Advice::GuardRemove as u64 {
            self.guards.take(at, at.saturating_add(len));
        }
    }

    /// What a new child has not, or has anew, has no guard pages.
    fn unguard_child(&mut self) {
        for (start, end) in self.guards.sorted() {
            let (mut at, kept) = (start, |flags: Flags| !flags.contains(Flags::WIPEONFORK));
            for area in self.space.areas_in(start, end).filter(|a| kept(a.area.flags)) {
                self.guards.take(at, area.start);
                at = area.end;
            }
            self.guards.take(at, end);
        }
    }

    fn limit(&mut self, set: Limited) {
        let (counters, most) = (self.space.counters(), self.limits);
        let above = |used: u64, left: Option<u64>, most: Limit| Limit {
            soft: left.map_or(u64::MAX, |left| used + left).min(most.hard),
            ..most
        };
        self.space.set_limits(Limits {
            address_space: above(counters.total, set.address_space, most.address_space),
            // There, something is mapped; here, 0 would be no limit at all.
            data: above(counters.data, set.data.map(|left| left.max(1)), most.data),
            stack: above(0, set.stack, most.stack),
            locked: above(0, set.locked, most.locked),
        });
        if !set.privileged {
            self.space.set_caps(Caps::empty());
        }
    }

    /// A copy, to try calls on; without what the calls so far returned. `None`: out of memory.
    pub(crate) fn snapshot(&self) -> Option<Model> {
        let Model { space, files, scope, limits, protects_files, unshown, guards, .. } = self;
        let space = space.snapshot(space.config().clone()).ok()?;
        let (files, guards) = (files.clone(), guards.clone());
        let (scope, limits, protects_files, unshown) = (*scope, *limits, *protects_files, *unshown);
        Some(Model { space, files, scope, limits, protects_files, unshown, results: Vec::new(), guards })
    }

    /// What the calls so far returned.
    pub(crate) fn results(&self) -> &[i64] {
        &self.results
    }

    /// The areas in scope.
    pub(crate) fn seen(&self, scope: Scope) -> impl Iterator<Item = QueriedArea> {
        let (start, end) = scope.bounds();
        self.space.areas_in(start, end).map(seen)
    }

    /// The flags of the areas in scope, but of those that were there before.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (u64, Flags)> {
        let (start, end) = self.scope.bounds();
        let own = |a: &Placed<'_, FileId>| !matches!(&a.area.object, Object::File(f) if f.open >= FOREIGN);
        self.space.areas_in(start, end).filter(own).map(|a| (a.start, a.area.flags - self.unshown))
    }
}

const EFAULT: i64 = 14;
const ENOSYS: i64 = 38;
/// Some of a range is not mapped: ENOMEM.
const NO_AREA: i64 = -12;

fn raw(done: Result<Plan, samara_mm::Error>) -> i64 {
    done.map_or_else(|e| -i64::from(e.errno.raw()), |_| 0)
}

/// The open files, and the objects of shared memory.
#[derive(Clone, Debug, Default)]
struct Files {
    keys: bool,
    pipes_noexec: bool,
    hidden: u64,
    shared: SharedHuge,
    /// What process_madvise reads.
    ranges: [(u64, u64); 3],
}

impl linux::Host<FileId> for Files {
    fn file(&mut self, number: i32) -> Result<OpenFile<FileId>, Errno> {
        let (open, mode) = match number as u64 {
            fd::FILE | fd::DUP => (1, FileMode::RW),
            fd::AGAIN => (2, FileMode::RW),
            fd::READ_ONLY => (3, FileMode::READ),
            fd::OTHER => (4, FileMode::RW),
            fd::SEALED => (5, FileMode::RW | FileMode::WRITE_SEALED),
            fd::WRITE_ONLY => (6, FileMode::WRITE),
            fd::PIPE if self.pipes_noexec => (7, FileMode::READ | FileMode::UNMAPPABLE | FileMode::NOEXEC),
            fd::PIPE => (7, FileMode::READ | FileMode::UNMAPPABLE),
            fd::ZERO => (8, FileMode::RW | FileMode::ZERO),
            fd::ZERO_READ_ONLY => (9, FileMode::READ | FileMode::ZERO),
            fd::HUGE => return Ok(OpenFile { backing: huge(10), mode: FileMode::RW }),
            fd::HUGE_READ_ONLY => return Ok(OpenFile { backing: huge(11), mode: FileMode::READ }),
            _ => return Err(Errno::EBADF),
        };
        let name = if mode.contains(FileMode::ZERO) { "/dev/zero" } else { "" };
        Ok(OpenFile { backing: FileId { name: Arc::from(name), ..id(open) }, mode })
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<FileId, Errno> {
        self.hidden += 1;
        Ok(id(HIDDEN + self.hidden))
    }

    fn huge_memory(&mut self, page: Option<PageSize>) -> Result<FileId, Errno> {
        self.hidden += 1;
        if page.is_none_or(|page| page == PageSize::M2) { Ok(huge(HUGE + self.hidden)) } else { Err(Errno::EINVAL) }
    }

    fn pkey(&mut self, key: u32) -> bool {
        key == 0 && self.keys
    }

    fn is_self(&mut self, _pidfd: i32) -> Result<bool, Errno> {
        Ok(true)
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        let words = self.ranges.map(|(start, len)| [start, len]);
        let word = addr.checked_sub(ROOM).and_then(|at| words.as_flattened().get(at as usize / 8));
        to.copy_from_slice(&word.ok_or(Errno::EFAULT)?.to_le_bytes());
        Ok(())
    }

    fn incore(&mut self, vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        if vec == ROOM { Ok(()) } else { Err(Errno::EFAULT) }
    }

    fn segment(&mut self, number: i32, _prot: Prot) -> Result<Segment<FileId>, Errno> {
        let bytes = segment::bytes(number as u64).ok_or(Errno::EINVAL)?;
        self.hidden += 1;
        let attached = id(HIDDEN + self.hidden);
        Ok(Segment { backing: FileId { inode: number as u64, name: Arc::from("/SYSV"), ..attached }, bytes })
    }

    fn huge_places(&mut self, file: &FileId, moved: bool) -> HugePlaces {
        match file.open {
            HUGE.. => HugePlaces::Plain,
            // A new object of shared anonymous memory; a segment has a name.
            HIDDEN.. if !moved && file.name.is_empty() => self.shared.anonymous,
            // A shared map that is never written to stays one of `/dev/zero`.
            _ if file.is_zero() => self.shared.anonymous,
            _ => self.shared.files,
        }
    }

    fn segment_bytes(&mut self, attached: &FileId) -> u64 {
        segment::bytes(attached.inode).unwrap_or(0)
    }
}

fn id(open: u64) -> FileId {
    FileId { dev: (0, 1), inode: open, open, name: Arc::from("") }
}

fn huge(open: u64) -> FileId {
    FileId { name: Arc::from("/anon_hugepage (deleted)"), ..id(open) }
}

fn seen(a: Placed<'_, FileId>) -> QueriedArea {
    let perms = (a.area.flags & Flags::ACCESS).bits() | (a.area.flags & Flags::MAYSHARE).bits() >> 4;
    let file = matches!(a.area.object, Object::File(_));
    QueriedArea { start: a.start, end: a.end, perms, offset: if file { a.offset(PageSize::K4) } else { 0 } }
}

fn depends_on_pages(op: Op, space: &AddressSpace<FileId>, guards: &Guards) -> bool {
    let (at, len) = match op {
        Op::Advise { advice, ranges } => {
            let one = |(at, len)| depends_on_pages(Op::call(libc::SYS_madvise, &[at, len, advice]), space, guards);
            return ranges.into_iter().any(one);
        }
        Op::Write(at) | Op::Read(at) => (at, 1),
        Op::Call(libc::SYS_mlock | libc::SYS_mlock2, [at, len, ..]) => (at, len),
        // MADV_POPULATE_READ, MADV_POPULATE_WRITE.
        Op::Call(libc::SYS_madvise, [at, len, 22 | 23, ..]) => (at, len),
        _ => return false,
    };
    let hidden = |a: Placed<'_, FileId>| matches!(&a.area.object, Object::File(f) if (HIDDEN..HUGE).contains(&f.open));
    // An access to huge pages that there are not is no fault of the area's.
    let wanting =
        |a: &Placed<'_, FileId>| matches!(op, Op::Write(_) | Op::Read(_)) && a.area.flags.contains(Flags::HUGETLB);
    let (start, end) = (at & !(PAGE - 1), at.saturating_add(len));
    // Bringing in ends at a guard page; what lies behind it stays as it is.
    let guarded = !matches!(op, Op::Write(_) | Op::Read(_)) && guards.any(start, end);
    guarded || space.areas_in(start, end).any(|a| wanting(&a) || hidden(a))
}

/// Whether a call would take away or change what was there before the first op.
fn hits_the_process(op: Op, space: &AddressSpace<FileId>) -> bool {
    let foreign = |at: u64, len: u64| {
        let is = |a: Placed<'_, FileId>| matches!(&a.area.object, Object::File(f) if f.open >= FOREIGN);
        space.areas_in(at & !(PAGE - 1), at.saturating_add(len)).any(is)
    };
    match op {
        // MAP_FIXED over anything; MREMAP_FIXED to there.
        Op::Call(libc::SYS_mmap, [at, len, _, flags, ..]) => flags & 0x10_0010 == 0x10 && foreign(at, len),
        Op::Call(libc::SYS_mremap, [at, old, new, flags, to, _]) => {
            foreign(at, old) || (flags & 2 != 0 && foreign(to, new))
        }
        Op::Call(libc::SYS_shmat, [_, at, ..]) => foreign(at, 5 * PAGE),
        Op::Call(_, [at, len, ..]) => foreign(at, len),
        Op::Write(at) | Op::Read(at) => foreign(at, 1),
        _ => false,
    }
}
