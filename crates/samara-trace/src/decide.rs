//! What a call gets, before it is made: asked of the engine, on a copy of the model. Changes neither model nor program.
//!
//! - I1: nothing is decided that the model does not know all about; such calls are counted, and left to the kernel.
//! - I2: a call that is refused for a limit or a fault of the engine's own is answered; one that Linux's rules refuse is made, and the kernel
//!   must refuse it too.

use std::collections::HashMap;

use samara_mm::{
    Area, Bases, BestFit, Caps, Config, Features, FirstFit, Flags, Limits, Linux, MapFlags, Object, Overcommit,
    PageSize, RemapFlags, Touches, linux,
};

use crate::apply::has_driver;
use crate::arch::Decoded;
use crate::calls::Call;
use crate::engine::{Decisions, Engine, Fault, Policy, When};
use crate::file::call_name;
use crate::host::Program;
use crate::model::{Inode, Model};
use crate::place::Anywhere;
use crate::space::Returned;
use crate::sys::{self, Tid};

/// `personality(2)`.
const READ_IMPLIES_EXEC: u32 = 0x0040_0000;
const ADDR_COMPAT_LAYOUT: u32 = 0x0020_0000;

/// An argument that is to be another one while the call is made: which, and what.
pub(crate) type Change = (usize, u64);

/// What a call gets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decision {
    /// It is not made, and gets this.
    pub(crate) answer: Option<i64>,
    /// What it is made with instead.
    pub(crate) changes: [Option<Change>; 2],
    /// The place that was chosen for it, `[start, end)`.
    pub(crate) place: Option<(u64, u64)>,
    /// What the kernel must say.
    pub(crate) expect: Option<i64>,
    /// It may refuse for reasons that are not the address space's.
    pub(crate) excused: bool,
    /// Other calls were in the kernel at the same time.
    pub(crate) unsure: bool,
}

/// Who asks.
pub(crate) struct Asker {
    pub(crate) tid: Tid,
    /// `None`: they cannot be read.
    pub(crate) limits: Option<Limits>,
    pub(crate) personality: u32,
    /// By the table of x32, where addresses are 32 bits.
    pub(crate) x32: bool,
    /// A filter of the program's own looks at its calls' arguments.
    pub(crate) filtered: bool,
    /// And answers them after they were decided: every call stops before it is filtered.
    pub(crate) hidden: bool,
    /// The call was counted already: it is made anew.
    pub(crate) again: bool,
}

/// What a call is tried on.
struct Trial<'a> {
    model: &'a Model,
    bases: Bases,
    limits: Limits,
    caps: Caps,
    /// Places of calls that have not returned.
    taken: &'a [(u64, u64)],
}

/// The engine in charge.
pub(crate) struct Charge {
    engine: Engine,
    rng: fastrand::Rng,
    /// How many calls of each number there were.
    made: HashMap<u32, u64>,
    /// `vm.max_map_count`.
    kernel_most: usize,
    config: Config,
    /// `vm.legacy_va_layout`.
    legacy: bool,
    /// What is promised is the kernel's to say (strict overcommit).
    strict: bool,
    pub(crate) done: Decisions,
}

impl Charge {
    pub(crate) fn new(engine: &Engine) -> Charge {
        let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<u64>().ok());
        let kernel_most = kernel_map_count();
        let least = number("/proc/sys/vm/mmap_min_addr").unwrap_or(0);
        let huge = number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").unwrap_or(0);
        let overcommit = number("/proc/sys/vm/overcommit_memory");
        let bases = Bases { least, fixed_least: least, huge, ..Bases::default() };
        let config = Config {
            page_size: PageSize::new(sys::page_size()).unwrap_or(PageSize::K4),
            max_map_count: engine.max_map_count.unwrap_or(kernel_most),
            features: engine.features.unwrap_or_else(features),
            touches: Touches::Unseen,
            overcommit: match overcommit {
                Some(0) => Overcommit::Guess { total: sys::memory() },
                // What all others have been promised changes all the time: the kernel's to say.
                _ => Overcommit::Always,
            },
            bases,
            ..Config::default()
        };
        let rng = engine.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Charge {
            engine: engine.clone(),
            rng,
            made: HashMap::new(),
            kernel_most,
            config,
            legacy: number("/proc/sys/vm/legacy_va_layout").is_some_and(|on| on != 0),
            strict: overcommit == Some(2),
            done: Decisions::default(),
        }
    }

    /// Where places are sought in a space that a task has just been given by `execve`.
    pub(crate) fn bases(&self, tid: Tid, personality: u32, model: &Model) -> Bases {
        let (task, stack_limit) = (self.config.task_size, sys::limits(tid).map_or(8 << 20, |l| l.stack.soft));
        let page = self.config.page_size.bytes();
        let start_stack = model.layout().start_stack;
        let stack = model.area_at(start_stack).map_or(task, |a| a.start);
        // The kernel put the loader right below where it would have gone on.
        let special = |area: &Area<Inode>| matches!(area.object, Object::Special(_));
        let loader = model.areas().rev().find(|a| a.end <= stack && !special(a.area));
        let gap = stack_limit.clamp(128 << 20, task / 6 * 5);
        // Random numbers may have put the stack far below the end.
        let guard = self.config.stack_guard_pages * page;
        let default = (task.saturating_sub(gap)).min(stack.saturating_sub(gap + guard)) / page * page;
        let mut top_down = loader.map(|a| a.end).filter(|end| *end > task / 4 * 3).unwrap_or(default).min(default);
        let mut bottom_up = task / 3 / page * page;
        if let Some(seed) = self.engine.seed {
            // As many bits as Linux takes.
            let away = fastrand::Rng::with_seed(seed).u64(..1 << 28) * page;
            // A program of 32 bits has no such room, and is not decided.
            top_down = top_down.saturating_sub(away);
            bottom_up += away;
        }
        let unlimited = self.legacy || stack_limit == u64::MAX || personality & ADDR_COMPAT_LAYOUT != 0;
        let legacy = self.engine.policy == Policy::BottomUp || unlimited;
        Bases { top_down, bottom_up, legacy, ..self.config.bases }
    }

    /// What this call gets. `taken`: places that were chosen for calls that have not returned.
    pub(crate) fn decide(
        &mut self,
        model: &Model,
        bases: Bases,
        asker: &Asker,
        d: &Decoded,
        taken: &[(u64, u64)],
    ) -> Decision {
        if !asker.again {
            let count = self.made.entry(d.nr).or_default();
            *count += 1;
            let count = *count;
            if let Some(errno) = self.fault(d.nr, count) {
                (self.done.decided, self.done.failed) = (self.done.decided + 1, self.done.failed + 1);
                return refuse(d.call, -i64::from(errno));
            }
        }
        let limits = asker.limits.filter(|_| !asker.hidden && knows(d, asker) && !on_a_driver(model, d));
        let Some(limits) = limits else { return self.left(d) };
        let mut host = Program::new(asker.tid);
        let trial = Trial { model, bases, limits, caps: sys::capabilities(asker.tid), taken };
        let Some(result) = self.ask(&trial, &mut host, d, self.config.max_map_count) else {
            return Decision::default(); // no memory for a copy: as without us
        };
        if host.unknown {
            return self.left(d);
        }
        self.done.decided += u64::from(!asker.again);
        let failed = result < 0 || (d.call == Call::Brk && result as u64 != d.args[0]);
        if failed && self.engine.max_map_count.is_some() {
            let without = self.ask(&trial, &mut host, d, self.kernel_most);
            if without != Some(result) {
                self.done.limited += 1;
                return refuse(d.call, result);
            }
        }
        let expect = match d.call {
            // Where within its page the break stands is not known before the program asks.
            Call::Brk if failed => None,
            _ => Some(result),
        };
        let executable = matches!(d.call, Call::Mmap | Call::Mprotect) && d.args[2] & libc::PROT_EXEC as u64 != 0;
        // A driver; a page that cannot be read in, a kernel without huge pages; a security module; what is promised to others.
        let pages = matches!(d.call, Call::Mlock | Call::Mlock2 | Call::Mlockall | Call::Madvise);
        let excused = host.file || pages || executable || self.strict;
        let (place, changes) = self.place(d, &host, result as u64, failed);
        self.done.placed += u64::from(place.is_some() && !asker.again);
        // The program's own filter looks at what a call is made with, and may know no other flags than the program's: a wish, and it is seen what becomes of it.
        let validates = d.call == Call::Mmap && d.args[3] & 0xf == libc::MAP_SHARED_VALIDATE as u64;
        if place.is_some() && (asker.filtered || validates) {
            let wish = changes[0].filter(|_| d.call != Call::Mremap);
            return Decision { excused, changes: [wish, None], ..Decision::default() };
        }
        Decision { expect, excused, place, changes, ..Decision::default() }
    }

    /// The kernel decides this one.
    fn left(&mut self, d: &Decoded) -> Decision {
        *self.done.left.entry(call_name(d.nr).unwrap_or("others")).or_default() += 1;
        Decision::default()
    }

    /// What the engine says to the call, on a copy of the model with at most `most` areas.
    fn ask(&mut self, trial: &Trial<'_>, host: &mut Program, d: &Decoded, most: usize) -> Option<i64> {
        let config = Config { max_map_count: most, bases: trial.bases, ..self.config.clone() };
        let mut space = trial.model.snapshot(config).ok()?;
        for (start, end) in trial.taken {
            let request = samara_mm::MapRequest::anonymous(*start, end - start, samara_mm::Prot::empty());
            let _ = space.map(&request); // there already: it is taken
        }
        space.set_limits(trial.limits);
        space.set_caps(trial.caps);
        // What a file has promised already, and what a call gives back that it asks for, is the kernel's to know.
        let asks =
            MapFlags::from_bits_retain(d.args[3] as u32) & (MapFlags::ANONYMOUS | MapFlags::HUGETLB | MapFlags::FIXED);
        if d.call == Call::Mmap && asks == MapFlags::ANONYMOUS | MapFlags::HUGETLB {
            space.set_huge_pages(sys::HUGE_PAGES.map(|size| (size, sys::free_huge_pages(size).unwrap_or(0))));
        }
        let (nr, args) = (u64::from(d.nr), d.args);
        let called = match self.engine.policy {
            Policy::Linux | Policy::BottomUp => linux::call(&mut space, host, &mut Linux, nr, args),
            Policy::FirstFit => linux::call(&mut space, host, &mut FirstFit, nr, args),
            Policy::BestFit => linux::call(&mut space, host, &mut BestFit, nr, args),
            Policy::Random => linux::call(&mut space, host, &mut Anywhere(&mut self.rng), nr, args),
        };
        called.map(|c| c.result)
    }

    /// What a reader should know of the run as a whole.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for fault in &self.engine.faults {
            let (When::At(n) | When::From(n)) = fault.when else { continue };
            let made = self.made.get(&fault.nr).copied().unwrap_or(0);
            if made < n {
                let name = call_name(fault.nr).unwrap_or("such");
                notes.push(format!("call {n} of {name}, which was to fail, never came: there were {made}"));
            }
        }
        let random = self.engine.fail_rate.is_some() || self.engine.policy == Policy::Random;
        if random && self.engine.seed.is_none() {
            notes.push("chosen at random, and otherwise the next time: with a seed it would be the same again".into());
        }
        notes
    }

    /// Counts how a call ended; where the kernel answered otherwise than the engine had said: how.
    pub(crate) fn compare(&mut self, decision: &Decision, call: &Returned) -> Option<String> {
        let expect = decision.expect?;
        let errno = |result: i64| nix::errno::Errno::from_raw(-result as i32);
        let said = |result: i64| {
            if (-4095..0).contains(&result) { format!("{:?}", errno(result)) } else { format!("{result:#x}") }
        };
        match call.result {
            same if same == expect => {
                if (-4095..0).contains(&same) {
                    *self.done.refused.entry(said(same)).or_default() += 1;
                }
                None
            }
            _ if decision.unsure => {
                self.done.unsure += 1;
                None
            }
            // It was killed before it could do anything.
            interrupted if interrupted == -i64::from(libc::EINTR) => None,
            refused if (-4095..0).contains(&refused) && expect >= 0 && decision.excused => {
                self.done.beyond += 1;
                None
            }
            other => {
                let name = call_name(call.decoded.nr).unwrap_or("a call");
                Some(format!("{name}: the engine says {}, the kernel {}", said(expect), said(other)))
            }
        }
    }

    /// The place that the engine chose, and what makes the kernel use it.
    fn place(&self, d: &Decoded, host: &Program, at: u64, failed: bool) -> (Option<(u64, u64)>, [Option<Change>; 2]) {
        let page = host.huge.unwrap_or(self.config.page_size).bytes();
        let whole = |len: u64| Some((at, at.saturating_add(len.max(1)).checked_next_multiple_of(page)?));
        match d.call {
            Call::Mmap if !failed => {
                let flags = MapFlags::from_bits_retain(d.args[3] as u32);
                if flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE) {
                    return (None, [None; 2]);
                }
                let fixed = d.args[3] | u64::from(MapFlags::FIXED_NOREPLACE.bits());
                (whole(d.args[1]), [Some((0, at)), Some((3, fixed))])
            }
            Call::Shmat if !failed && d.args[1] == 0 => (whole(host.bytes), [Some((1, at)), None]),
            Call::Mremap if !failed && at != d.args[0] && d.args[3] & RemapFlags::FIXED.bits() == 0 => {
                (whole(d.args[2]), [Some((3, d.args[3] | RemapFlags::FIXED.bits())), Some((4, at))])
            }
            _ => (None, [None; 2]),
        }
    }

    /// The error that this call is to fail with, if it is to fail.
    fn fault(&mut self, nr: u32, count: u64) -> Option<i32> {
        let rate = self.engine.fail_rate;
        let random = |f: &Fault| f.when == When::Rate;
        let hit = self.engine.faults.iter().find(|f| {
            f.nr == nr
                && match f.when {
                    When::At(n) => n == count,
                    When::From(n) => n <= count,
                    When::Rate => rate.is_none_or(|rate| self.rng.f64() < rate),
                }
        });
        if let Some(fault) = hit {
            return Some(fault.errno);
        }
        let all = rate.filter(|_| !self.engine.faults.iter().any(random))?;
        let ours = [libc::SYS_mmap, libc::SYS_mremap, libc::SYS_brk].contains(&i64::from(nr));
        (ours && self.rng.f64() < all).then_some(libc::ENOMEM)
    }
}

/// A call that is not made.
fn refuse(call: Call, errno: i64) -> Decision {
    match call {
        // It answers with where the break is: a question instead.
        Call::Brk => Decision { changes: [Some((0, 0)), None], ..Decision::default() },
        _ => Decision { answer: Some(errno), ..Decision::default() },
    }
}

/// Whether the model knows all that this call's answer depends on.
fn knows(d: &Decoded, asker: &Asker) -> bool {
    if d.compat || asker.x32 || asker.personality & READ_IMPLIES_EXEC != 0 {
        return false;
    }
    match d.call {
        Call::Mmap => {
            let known = [libc::MAP_SHARED, libc::MAP_PRIVATE, libc::MAP_SHARED_VALIDATE];
            known.contains(&(d.args[3] as i32 & 0xf))
        }
        // Which keys are allocated nobody tells.
        Call::PkeyMprotect => d.args[3] as i32 == -1,
        // Filling and collapsing depend on what is free, poisoning on hardware.
        Call::Madvise => {
            matches!(d.args[2] as i32, libc::MADV_NORMAL..=libc::MADV_PAGEOUT)
                || d.args[2] as i32 == libc::MADV_DONTNEED_LOCKED
        }
        Call::Munmap
        | Call::Mprotect
        | Call::Mremap
        | Call::Brk
        | Call::Mlock
        | Call::Mlock2
        | Call::Munlock
        | Call::Mlockall
        | Call::Munlockall
        | Call::Mseal
        | Call::Shmat
        | Call::Shmdt => true,
        _ => false,
    }
}

/// Whether something lies where the call is about to act that has rules of its own: huge pages of a size that is not known, a driver's memory.
fn on_a_driver(model: &Model, d: &Decoded) -> bool {
    if matches!(d.call, Call::Brk | Call::Shmat | Call::Mlockall | Call::Munlockall) {
        return false;
    }
    let (start, end) = (d.args[0], d.args[0].saturating_add(d.args[1].max(1)));
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
    // Not all of a call that goes over very many.
    model.areas_in(start, end).take(100).any(|a| odd(a.area))
}

/// `vm.max_map_count`.
pub(crate) fn kernel_map_count() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(65530)
}

/// What the running kernel does, by its release.
fn features() -> Features {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = text.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) {
        (7.., _) => Features::LINUX_7_0,
        (6, 18..) => Features::LINUX_6_18,
        (6, 17) => Features::LINUX_6_16.union(Features::MOVE_MANY),
        (6, 13..=16) => Features::LINUX_6_16,
        _ => Features::LINUX_6_12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_stack_leaves_room_for_no_seed() {
        // As a program of 32 bits has it.
        let mut model = crate::model::empty();
        let stack = Area::new(Flags::READ | Flags::WRITE | Flags::GROWSDOWN, Object::Anonymous, 0);
        model.import(0xfffd_d000, 0xffff_e000, stack).unwrap();
        model.set_layout(samara_mm::Layout { start_stack: 0xffff_d000, ..model.layout() });
        for seed in 0..50 {
            let engine = Engine { seed: Some(seed), ..Engine::default() };
            let bases = Charge::new(&engine).bases(std::process::id() as Tid, 0, &model);
            assert!(bases.top_down < 0xfffd_d000 && bases.bottom_up >= 0x2aaa_aaaa_a000, "{bases:?}");
        }
    }
}
