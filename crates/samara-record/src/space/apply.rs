//! Applies a call to the model, given the result that the kernel returned.
//!
//! It does not compare the model with the kernel: `check` does. If the model does not know a
//! call's effect, the kernel's view is taken over ([`Applied::AskKernel`]).
//!
//! - **APPLY-1** the model changes only in agreement with the call's result. If the kernel refused,
//!   the model keeps only the partial effect of the same refusal (for example, a protected part
//!   before a hole).
//!
//! Neighbours: `replay_call` makes the call on the model; `memory` has the memory that the call
//! read; `reach` has the range of a call.

use samara_mm::linux::{Host, OpenFile};
use samara_mm::{
    Advice, Area, Backing, Errno, Error, FileMode, Flags, MapFlags, Object, Personality, Placed, Plan, Prot, Uffd,
};
use samara_trace::calls::{Call, ModelFollows, Place, Reach, Reads};
use samara_trace::event::Step;

use crate::arch::Decoded;
use crate::journal::Journal;
use crate::os::limits;
use crate::os::proc::{self, KernelArea, Maps};
use crate::os::ptrace;
use crate::os::sys::{self, Tid};
use crate::space::host::Program;
use crate::space::memory::Memory;
use crate::space::model::{self, Inode, Model};
use crate::space::reach::Range;
use crate::space::replay_call::{self, Mapped, Replayed, replay};
use crate::space::{Attempt, Returned, Space};

/// The smallest huge page.
const HUGE: u64 = 2 << 20;

/// `UFFD_FEATURE_EVENT_FORK` and `UFFD_FEATURE_EVENT_REMAP`.
const EVENT_FORK: u64 = 1 << 1;
const EVENT_REMAP: u64 = 1 << 2;

/// The outcome of applying a call.
pub(crate) enum Applied {
    /// The model did the same, in these steps (perhaps none).
    Done(Vec<Step>),
    /// The model does not know this call's effect, or whether it took place. The kernel's view must
    /// be taken over, after these steps of the model.
    AskKernel(Vec<Step>),
    /// The model disagrees: it refuses a call that the kernel made, or grants one that the kernel
    /// refused. The reason, and the model's steps.
    Disagrees(String, Vec<Step>),
}

impl Space {
    /// Applies a call to the model, and compares both views if the model agrees.
    pub(crate) fn attempt(&mut self, call: &Returned, journal: &mut Journal<'_>) -> Attempt {
        let mut attempt = self.apply(call);
        if attempt.misfit.is_none() {
            self.check(call, &mut attempt, journal);
        }
        attempt
    }

    /// A copy of the model, to go back to.
    pub(super) fn copy(&self) -> Option<Model> {
        self.model.snapshot(self.model.config().clone()).ok()
    }

    /// Applies a call to the model.
    pub(crate) fn apply(&mut self, call: &Returned) -> Attempt {
        let mut attempt = Attempt { reach: self.ranges(call), ..Attempt::default() };
        if self.doubt.has_policies() {
            self.move_doubt(call);
        }
        if self.forgets == Some(call.decoded.nr) {
            return attempt;
        }
        self.has_policies |= call.decoded.call.sets_policies();
        self.has_userfaultfd |= call.decoded.call == Call::UffdRegister;
        let saved = if call.failed() { self.copy() } else { None };
        let d = &call.decoded;
        // A call that a limit refused may have taken effect in part.
        let limited = call.result == -i64::from(libc::ENOMEM);
        let limits = if limited { limits::limits(call.who.tid) } else { None };
        self.model.set_limits(limits.unwrap_or_default());
        if limited {
            self.model.set_caps(limits::capabilities(call.who.tid));
        }
        match apply_to_model(&mut self.model, &mut self.maps, &call.memory, d, call.result, call.personality) {
            Applied::Done(steps) => (attempt.steps, attempt.unchanged) = (steps, saved),
            Applied::AskKernel(_) if self.kernel_is_ahead => {
                attempt.misfit = Some(format!(
                    "only the kernel knows what {} did",
                    samara_trace::file::call_name(call.decoded.nr).unwrap_or("it")
                ));
            }
            Applied::AskKernel(done) => {
                let reach = attempt.reach.clone();
                attempt.steps = done;
                attempt.steps.extend(self.adopt_reached(call, &reach).into_iter().flatten());
                if matches!(d.call, Call::PrSetMm | Call::PrSetVma | Call::PrSetMemoryMerge) {
                    let at = proc::layout(call.who.tid);
                    let brk = new_break(call.who.tid, d).unwrap_or(self.model.layout().brk);
                    self.model.set_layout(samara_mm::Layout {
                        start_brk: at.start_brk,
                        brk,
                        start_stack: at.start_stack,
                        data: at.data,
                    });
                    if d.call == Call::PrSetMemoryMerge {
                        self.model.merge_pages(d.args[1] != 0);
                    }
                }
            }
            Applied::Disagrees(how, steps) => match saved {
                Some(saved) => self.model = saved,
                None => (attempt.steps, attempt.misfit, attempt.answer) = (steps, Some(how), true),
            },
        }
        attempt
    }
}

/// Makes one call that returned `result` on the model.
pub(crate) fn apply_to_model(
    model: &mut Model,
    maps: &mut Maps,
    memory: &Memory,
    d: &Decoded,
    result: i64,
    personality: u32,
) -> Applied {
    let errno = if (-4095..0).contains(&result) { Some(-result as i32) } else { None };
    model.set_personality(Personality::from_bits_retain(personality));
    if d.call == Call::Brk {
        return brk(model, d.args[0], result as u64, d.compat);
    }
    let mut guessed = Plan::default();
    match (errno, do_call(model, maps, memory, d, result, &mut guessed)) {
        (_, None) => Applied::AskKernel(model::steps(guessed.steps())),
        (None, Some(Ok(plan))) => Applied::Done(model::steps(plan.steps())),
        (Some(kernel), Some(Err(own))) if own.errno.raw() == kernel => Applied::Done(model::steps(own.done.steps())),
        (Some(kernel), Some(own)) => {
            let own = own.map_or_else(|e| e.errno.name().to_owned(), |_| "success".into());
            Applied::Disagrees(format!("the model expects {own}, the kernel says errno {kernel}"), Vec::new())
        }
        (None, Some(Err(own))) => {
            let done = model::steps(own.done.steps());
            Applied::Disagrees(format!("the kernel allows the call, the model refuses it: {own}"), done)
        }
    }
}

fn brk(model: &mut Model, asked: u64, result: u64, compat: bool) -> Applied {
    let mut layout = model.layout();
    if compat && result == layout.brk & 0xffff_ffff {
        return Applied::Done(Vec::new()); // a 64-bit program that used the i386 call
    }
    if layout.brk == 0 {
        layout.brk = result; // not known before
        model.set_layout(layout);
    }
    if result == model.layout().brk {
        return Applied::Done(Vec::new()); // a query, a refusal, or no change
    }
    if result != asked {
        // The offset of the break within its page was unknown: areas show whole pages.
        let page = sys::page_size();
        if result.div_ceil(page) == layout.brk.div_ceil(page) {
            model.set_layout(samara_mm::Layout { brk: result, ..layout });
            return Applied::Done(Vec::new());
        }
        let how = format!("the break is at {result:x}, and the model thought at {:x}", layout.brk);
        return Applied::Disagrees(how, Vec::new());
    }
    match model.brk(result) {
        Ok(plan) => Applied::Done(model::steps(plan.steps())),
        Err(error) => {
            let done = model::steps(error.done.steps());
            Applied::Disagrees(format!("the model refuses the break {result:x}: {error}"), done)
        }
    }
}

/// The break that a `prctl(PR_SET_MM, ..)` sets, if it sets one.
pub(crate) fn new_break(tid: Tid, d: &Decoded) -> Option<u64> {
    const BRK: u64 = 7;
    const MAP: u64 = 14;
    match (d.call, d.args[1]) {
        (Call::PrSetMm, BRK) => Some(d.args[2]),
        (Call::PrSetMm, MAP) => {
            // The sixth word of `struct prctl_mm_map`.
            let mut word = [0u8; 8];
            ptrace::read_memory(tid, d.args[2].checked_add(40)?, &mut word).then(|| u64::from_ne_bytes(word))
        }
        _ => None,
    }
}

/// The model's result of a call. `None`: the kernel's view must be taken over.
type Did = Option<Result<Plan, Error>>;

/// Makes the call on the model as the kernel answered it. `guessed` gets the model's steps if the
/// kernel's view must be taken over anyway.
///
/// The row of a call says how the model follows it; calls are replayed through `samara_mm::linux`
/// (`replay_call`). The exceptions come first: arguments and results that have no effect, or an
/// effect that only the kernel shows.
fn do_call(m: &mut Model, maps: &mut Maps, memory: &Memory, d: &Decoded, result: i64, guessed: &mut Plan) -> Did {
    let a = &d.args;
    let failed = (-4095..0).contains(&result);
    let nothing: Did = Some(Ok(Plan::default()));
    match d.call {
        // A map in huge pages that is refused because too few are free has emptied its place, which
        // is longer than the requested length.
        Call::Mmap if failed && a[3] as i32 & libc::MAP_FIXED != 0 && may_be_huge(a) => None,
        // EIO: it may have set the policy without moving the pages.
        Call::Mbind if result == -i64::from(libc::EIO) => None,
        Call::Mmap | Call::Mlockall | Call::Mbind if failed => Some(refused(result)),
        Call::Madvise if !changes_areas(a[2] as i32) => {
            if failed {
                Some(refused(result))
            } else {
                nothing
            }
        }
        Call::ProcessMadvise if !failed && !changes_areas(a[3] as i32) && memory.lacks(d.call.reads(a)) => nothing,
        Call::Mbind | Call::ProcessMadvise if !readable(m, d) || !failed && memory.lacks(d.call.reads(a)) => None,
        Call::RemapFilePages if !failed && on_a_driver(m, &spans(memory, d)) => None,
        // The model has no ioctl.
        Call::UffdRegister | Call::UffdUnregister if failed => nothing,
        Call::UffdRegister => {
            let (start, len, mode) = uffd_range(memory, a[2])?;
            let modes = [(1, Flags::UFFD_MISSING), (2, Flags::UFFD_WP), (4, Flags::UFFD_MINOR)];
            let modes = modes.iter().filter(|(bit, _)| mode & bit != 0).fold(Flags::empty(), |f, (_, v)| f | *v);
            let uffd = uffd_of(memory, d);
            // The kernel registers nothing over memory of another userfaultfd.
            model::own(m, (start, start.saturating_add(len)), Some(uffd), false);
            Some(m.register_uffd(start, len, uffd, modes))
        }
        Call::UffdUnregister => {
            let (start, len, _) = uffd_range(memory, a[2])?;
            Some(m.unregister_uffd(start, len))
        }
        Call::PrSetVma | Call::PrSetMdwe if failed => nothing,
        // An attribute other than a name.
        Call::PrSetVma if a[1] != 0 => None,
        // It changes no area. Its prohibitions matter only when the engine decides later calls.
        Call::PrSetMdwe => {
            let _ = replay(m, memory, None, d, result).done;
            nothing
        }
        Call::Mmap if is_private_anonymous(a) => Some(replay(m, memory, None, d, result).done),
        Call::Mmap => {
            let mapped = mapped(m, maps, memory, a, result as u64)?;
            Some(replay(m, memory, Some(&mapped), d, result).done)
        }
        Call::Mremap => {
            // The shown offset of a moved private map of /dev/zero depends on whether it was
            // written to.
            let zero = !failed && m.areas_in(a[0], a[0].saturating_add(a[1].max(1))).any(|a| is_zero(&a));
            unless(zero, replay(m, memory, None, d, result).done, guessed)
        }
        Call::Mlock | Call::Mlock2 => {
            let done = replay(m, memory, None, d, result).done;
            // ENOMEM has two meanings: over the limit, nothing is locked; or pages could not be
            // read in, and all is locked.
            let refused = result == -i64::from(libc::ENOMEM);
            unless(refused && done.is_ok(), done, guessed)
        }
        Call::PrSetVma => {
            let done = replay(m, memory, None, d, result).done;
            // A name that the recorder cannot read.
            let unread = done.as_ref().is_err_and(|error| error.errno == Errno::EFAULT);
            unless(unread, done, guessed)
        }
        // SHM_REMAP unmaps the place, as long as the segment, before the call may be refused.
        Call::Shmat if a[2] & libc::SHM_REMAP as u64 != 0 => None,
        call => match call.row().follow {
            ModelFollows::Makes => Some(replay(m, memory, None, d, result).done),
            // A call that is refused half way has done its first half.
            ModelFollows::MakesUnlessPages => {
                let Replayed { done, result: own } = replay(m, memory, None, d, result);
                // Advice that stopped earlier than the model did: pages stopped it. Or the process
                // of the pidfd has ended since.
                let open = done.as_ref().map_or_else(|error| error.errno == Errno::ESRCH, |_| true);
                unless(open && own != result, done, guessed)
            }
            ModelFollows::Nothing => nothing,
            // shmat, io_setup, PR_SET_MM, ...: rare, and the kernel shows their whole effect.
            ModelFollows::Kernel if failed => nothing,
            ModelFollows::Kernel => None,
        },
    }
}

/// The model's result of a call, unless only the kernel shows it.
fn unless(ask: bool, done: Result<Plan, Error>, guessed: &mut Plan) -> Did {
    if ask {
        *guessed = done.unwrap_or_else(|refused| refused.done);
        return None;
    }
    Some(done)
}

/// The kernel's refusal, for calls that are not made on the model.
fn refused(result: i64) -> Result<Plan, Error> {
    replay_call::errno(result).map_or_else(|| Ok(Plan::default()), |errno| Err(errno.into()))
}

/// Whether this advice changes flags of areas, or gives memory an anonymous identity.
pub(crate) fn changes_areas(advice: i32) -> bool {
    Advice::from_raw(advice as u32)
        .is_some_and(|advice| advice.only_sets() || matches!(advice, Advice::PopulateWrite | Advice::GuardInstall))
}

/// Whether a file of this name may have a driver that adds flags to its areas. Then `smaps` must be
/// read.
pub(crate) fn has_driver(name: &str, private: bool) -> bool {
    !name.starts_with('/')
        || name.starts_with("/sys/")
        || name.starts_with("/proc/")
        || (name.starts_with("/dev/")
            && name != "/dev/zero (deleted)"
            && !(private && name == "/dev/zero")
            && !name.starts_with("/dev/shm/"))
}

/// Whether a `mmap` maps private memory of no file, in pages of the usual size.
pub(crate) fn is_private_anonymous(a: &[u64; 6]) -> bool {
    let flags = MapFlags::from_bits_retain(a[3] as u32);
    flags.contains(MapFlags::ANONYMOUS) && is_private(a) && !flags.contains(MapFlags::HUGETLB)
}

/// Whether a `mmap` maps privately.
fn is_private(a: &[u64; 6]) -> bool {
    let kind = a[3] as i32 & 0xf;
    kind == libc::MAP_PRIVATE || kind == libc::MAP_DROPPABLE
}

/// The object that a `mmap` mapped at `start`, from the kernel's view. `None`: the model does not
/// know the rules of such an object.
pub(crate) fn mapped(m: &Model, maps: &mut Maps, memory: &Memory, a: &[u64; 6], start: u64) -> Option<Mapped> {
    let flags = MapFlags::from_bits_retain(a[3] as u32);
    let prot = Prot::from_bits_retain(a[2] as u32);
    let private = is_private(a);
    let kept = memory.mapped(start);
    let opened = kept.as_ref().map(|(_, mode)| *mode);
    let k: KernelArea = match kept {
        Some((area, _)) => area,
        None => maps.at(start).ok()??,
    };
    let name = k.name.clone().unwrap_or_default();
    // `maps` shows huge pages only through the bounds of an area.
    let huge = k.page == 0 && start.is_multiple_of(HUGE) && k.end.is_multiple_of(HUGE);
    if (k.inode == 0 && k.dev == (0, 0)) || has_driver(&name, private) || huge {
        return None;
    }
    let offset = k.offset.wrapping_add(start.wrapping_sub(k.start));
    let mut extra = FileMode::empty();
    let shared_zero = name == "/dev/zero (deleted)" && !flags.contains(MapFlags::ANONYMOUS);
    extra.set(FileMode::ZERO, shared_zero || (private && name == "/dev/zero"));
    // If READ implies EXEC, an area that is not executable shows that its file cannot be executed.
    let implied = m.personality().contains(Personality::READ_IMPLIES_EXEC) && prot.contains(Prot::READ);
    extra.set(FileMode::NOEXEC, implied && k.perms & proc::EXEC == 0);
    let backing =
        Inode { dev: k.dev, inode: k.inode, name: name.into(), places: samara_mm::HugePlaces::Plain, huge: k.huge() };
    // The open mode and seals matter only for a shared map that is not writable yet.
    let asks = !private && !prot.contains(Prot::WRITE);
    let opened = || opened.unwrap_or_else(|| open_mode(memory.tid, a[4] as i32));
    let mode = if asks { opened() } else { FileMode::RW };
    Some(Mapped { file: OpenFile { backing, mode: mode | extra }, offset })
}

/// Whether an area is a private map of `/dev/zero`.
pub(crate) fn is_zero(at: &Placed<'_, Inode>) -> bool {
    matches!(&at.area.object, Object::File(file) if file.is_zero()) && !at.area.flags.contains(Flags::SHARED)
}

/// The open mode of a task's file descriptor. Reading and writing if it is unknown: the descriptor
/// may be closed by now.
pub(crate) fn open_mode(tid: Tid, fd: i32) -> FileMode {
    match Program::new(tid).file(fd) {
        Ok(file) => FileMode::READ | (file.mode & (FileMode::WRITE | FileMode::WRITE_SEALED)),
        Err(_) => match proc::descriptor(tid, fd) {
            Ok(d) if d.flags & libc::O_ACCMODE == libc::O_RDONLY => FileMode::READ,
            _ => FileMode::RW,
        },
    }
}

/// Whether a `mmap` at a fixed place may map huge pages: anonymous ones, or a file of hugetlbfs.
fn may_be_huge(a: &[u64; 6]) -> bool {
    match a[3] as i32 & (libc::MAP_ANONYMOUS | libc::MAP_HUGETLB) {
        libc::MAP_ANONYMOUS => false,
        0 => a[0].is_multiple_of(HUGE),
        _ => true,
    }
}

/// Whether the recorder can read the memory behind a call's arguments as the kernel does, without
/// help from the program.
///
/// It cannot in memory that a userfaultfd serves, or that only the program can read: secret memory,
/// memory that may only be written or executed, and memory below a stack.
pub(crate) fn readable(model: &Model, d: &Decoded) -> bool {
    let Reads::Request(request) = d.call.row().reads else { return true };
    let (at, len) = request(&d.args);
    let plain = |a: &Area<Inode>| match &a.object {
        Object::File(file) => !file.is_secret() && !has_driver(&file.name, !a.flags.contains(Flags::MAYSHARE)),
        _ => true,
    };
    let open = |flags: Flags| flags.contains(Flags::READ) || !flags.intersects(Flags::WRITE | Flags::EXEC);
    let odd = |a: &Area<Inode>| a.flags.intersects(Flags::UFFD) || !open(a.flags) || !plain(a);
    // Reading below a stack makes it grow.
    let grows = |a: Placed<'_, Inode>| a.start > at && a.area.flags.contains(Flags::GROWSDOWN);
    !model.areas_in(at, at.saturating_add(len.max(1))).any(|a| odd(a.area))
        && !model.area_at_or_after(at).is_some_and(grows)
}

/// The ranges of existing memory that a call acts on, as start and end. Empty if only the kernel
/// knows them.
pub(crate) fn spans(memory: &Memory, d: &Decoded) -> Vec<Range> {
    let a = &d.args;
    let span = |start: u64, len: u64| (start, start.saturating_add(len.max(1)));
    match &d.call.row().reach {
        Reach::Range(at, len) | Reach::Maps(Place { at, len: Some(len), .. }) => vec![span(a[*at], a[*len])],
        Reach::Moves(_) => vec![span(a[0], a[1])],
        Reach::Area(at) => vec![span(a[*at], 1)],
        Reach::Ranges { at, count } => {
            let word = |at: u64| {
                let mut word = [0; 8];
                memory.read(at, &mut word).then(|| u64::from_ne_bytes(word))
            };
            let at = |i: u64| a[*at].checked_add(i * 16);
            (0..a[*count].min(1024)).map_while(|i| Some(span(word(at(i)?)?, word(at(i)?.checked_add(8)?)?))).collect()
        }
        Reach::Untold | Reach::Everything | Reach::Maps(_) | Reach::Break | Reach::RangeAt(_) => Vec::new(),
    }
}

/// Whether these ranges contain memory with special rules: huge pages of an unknown size, or a
/// driver's memory.
pub(crate) fn on_a_driver(model: &Model, spans: &[Range]) -> bool {
    let odd = |a: &Area<Inode>| {
        let driver = match &a.object {
            Object::File(file) => {
                has_driver(&file.name, !a.flags.contains(Flags::MAYSHARE)) || &*file.name == "/dev/zero"
            }
            _ => false,
        };
        let size = matches!(&a.object, Object::File(file) if file.huge.is_some());
        (a.flags.contains(Flags::HUGETLB) && !size) || driver
    };
    // Only the first 100 areas of each range are examined.
    spans.iter().flat_map(|(start, end)| model.areas_in(*start, *end).take(100)).any(|a| odd(a.area))
}

/// The userfaultfd with which a call registers memory.
pub(crate) fn uffd_of(memory: &Memory, d: &Decoded) -> Uffd {
    let (id, features) = memory.userfaultfd(d.args[0] as i32).unwrap_or((d.args[0], 0));
    Uffd { id, fork_events: features & EVENT_FORK != 0, remap_events: features & EVENT_REMAP != 0 }
}

/// Start, length and mode of a userfaultfd registration. `None`: they cannot be read.
pub(crate) fn uffd_range(memory: &Memory, at: u64) -> Option<(u64, u64, u64)> {
    let mut bytes = [0u8; 24];
    if !memory.read(at, &mut bytes[..16]) {
        return None;
    }
    memory.read(at, &mut bytes); // only a registration has a mode
    let word = |i: usize| bytes.as_chunks().0.get(i).map_or(0, |w| u64::from_ne_bytes(*w));
    Some((word(0), word(1), word(2)))
}
