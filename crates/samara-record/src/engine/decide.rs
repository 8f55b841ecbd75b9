//! Decides the result of a call before it is made: asks the engine, on a copy of the model. Changes
//! neither model nor program.
//!
//! - **DECIDE-1** a call is decided only if the model knows everything that the answer depends on.
//!   Other calls are counted and left to the kernel.
//! - **DECIDE-2** a call that the engine's `max_map_count` or a fault refuses gets its answer from
//!   the engine. A call that Linux's rules refuse (RLIMIT_AS and RLIMIT_DATA included) is made, and
//!   the kernel must refuse it too.

use std::collections::HashMap;
use std::rc::Rc;

use samara_mm::{
    Bases, BestFit, Caps, Config, FirstFit, Limit, Limits, Linux, MapFlags, Overcommit, PageSize, Personality, Touches,
    linux,
};
use samara_trace::calls::{self, Call, Reach};
use samara_trace::file::call_name;

use crate::api::{Cause, Decisions, Engine, Fault, Policy, Refusal, When};
use crate::arch::Decoded;
use crate::engine::Anywhere;
use crate::os::huge_pages;
use crate::os::huge_pages::Settings;
use crate::os::limits;
use crate::os::sys::{self, Tid};
use crate::space::Returned;
use crate::space::apply::{on_a_driver, readable, spans};
use crate::space::host::Program;
use crate::space::memory::Memory;
use crate::space::model::Model;

/// MADV_COLLAPSE. The C library musl does not define it.
const COLLAPSE: i32 = 25;
/// `personality(2)`.
const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;
const ADDR_COMPAT_LAYOUT: u32 = 0x0020_0000;
/// Upper bound of the shift of a base on Linux: 2^32 pages, the largest `vm.mmap_rnd_bits`.
const MOST_RANDOM: u64 = 1 << 44;

/// A replaced argument of a call: its index and the new value.
pub(crate) type Change = (usize, u64);

/// Which refusals of the kernel are accepted: their reasons lie outside the address space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Excuse {
    #[default]
    None,
    /// The kernel may refuse a call that the engine grants, or do less of it.
    Granted,
    /// The kernel may also refuse with another error than the engine.
    Any,
}

/// The engine's decision on a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decision {
    /// The result that the program gets without the call being made.
    pub(crate) answer: Option<i64>,
    /// Arguments that are replaced while the call is made.
    pub(crate) changes: [Option<Change>; 2],
    /// The place that the engine chose, `[start, end)`.
    pub(crate) place: Option<(u64, u64)>,
    /// The result that the kernel must give.
    pub(crate) expect: Option<i64>,
    /// Which of the kernel's refusals are accepted.
    pub(crate) excused: Excuse,
    /// The reason, if the engine refuses the call by its own limits or faults.
    pub(crate) cause: Option<Cause>,
    /// Whether other calls were in the kernel at the same time.
    pub(crate) unsure: bool,
    /// The engine's place that the kernel refused, and the error. The call is now made with the
    /// program's own arguments.
    pub(crate) refused: Option<(u64, i32)>,
}

impl Decision {
    /// The decision for a second try with the program's own arguments, after the kernel refused the
    /// engine's `place`.
    pub(crate) fn as_asked(self, place: u64, errno: i32) -> Decision {
        Decision { changes: [None; 2], place: None, refused: Some((place, errno)), ..self }
    }

    /// The decision with which the kernel chooses the place.
    pub(crate) fn unplaced(self) -> Decision {
        Decision { excused: self.excused, ..Decision::default() }
    }

    /// Whether the kernel's refusal is accepted when the engine says `expect`.
    fn excuses(&self, expect: i64) -> bool {
        self.excused == Excuse::Any || (self.excused == Excuse::Granted && expect >= 0)
    }
}

/// The task that makes a call.
pub(crate) struct Asker {
    pub(crate) pid: Tid,
    pub(crate) tid: Tid,
    /// `None` if they cannot be read.
    pub(crate) limits: Option<Limits>,
    pub(crate) personality: u32,
    /// The call came by the x32 table, where addresses have 32 bits.
    pub(crate) x32: bool,
    /// The program has a seccomp filter, which checks its calls' arguments.
    pub(crate) filtered: bool,
    /// Every call stops before that filter sees it, so the filter may refuse a decided call.
    pub(crate) hidden: bool,
    /// The call is repeated, and was counted already.
    pub(crate) again: bool,
    /// The process whose memory the call acts on. `foreign`: its space is not the caller's.
    pub(crate) of: Tid,
    pub(crate) foreign: bool,
}

/// The state on which a call is tried.
#[derive(Clone, Copy)]
struct Trial<'a> {
    model: &'a Model,
    bases: Bases,
    limits: Limits,
    caps: Caps,
    personality: Personality,
    /// Places claimed by calls that have not returned.
    taken: &'a [(u64, u64)],
}

/// The engine while it is in charge.
pub(crate) struct Charge {
    engine: Engine,
    rng: fastrand::Rng,
    /// Number of calls made, by call number.
    made: HashMap<u32, u64>,
    /// `vm.max_map_count`.
    kernel_most: usize,
    config: Config,
    /// The machine's settings of huge pages.
    settings: Rc<Settings>,
    /// `vm.legacy_va_layout`.
    legacy: bool,
    /// `kernel.randomize_va_space`.
    random: bool,
    /// Whether the kernel has memory nodes.
    nodes: bool,
    /// Whether strict overcommit is set: then only the kernel knows the committed memory.
    strict: bool,
    pub(crate) done: Decisions,
}

impl Charge {
    pub(crate) fn new(engine: &Engine) -> Charge {
        let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<u64>().ok());
        let kernel_most = kernel_map_count();
        let least = number("/proc/sys/vm/mmap_min_addr").unwrap_or(0);
        let settings = Rc::new(Settings::open());
        let overcommit = number("/proc/sys/vm/overcommit_memory");
        let bases = Bases { least, fixed_least: least, huge: settings.huge(), ..Bases::default() };
        let config = Config {
            page_size: PageSize::new(sys::page_size()).unwrap_or(PageSize::K4),
            max_map_count: engine.max_map_count.unwrap_or(kernel_most),
            features: engine.features.unwrap_or_else(|| samara_probe::Profile::running().features),
            touches: Touches::Unseen,
            overcommit: match overcommit {
                Some(0) => Overcommit::Guess { total: limits::memory() },
                // Memory committed to others changes all the time: left to the kernel.
                _ => Overcommit::Always,
            },
            task_size: samara_probe::task_size(),
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
            settings,
            legacy: number("/proc/sys/vm/legacy_va_layout").is_some_and(|on| on != 0),
            random: number("/proc/sys/kernel/randomize_va_space") != Some(0),
            nodes: std::path::Path::new("/proc/self/numa_maps").exists(),
            strict: overcommit == Some(2),
            done: Decisions::default(),
        }
    }

    /// The bases of the search for places in a space that `execve` has just made, equal to the
    /// kernel's.
    ///
    /// Without randomisation they follow from the stack's limit. With it, the kernel's own maps
    /// show them: the first of them (the loader, a position-independent program without a loader,
    /// `[vdso]`) is at the base. Without such a map, the base is drawn at random.
    pub(crate) fn bases(&mut self, tid: Tid, personality: u32, model: &Model) -> Bases {
        let (task, stack_limit) = (self.config.task_size, limits::limits(tid).map_or(8 << 20, |l| l.stack.soft));
        let page = self.config.page_size.bytes();
        let compat = self.legacy || personality & ADDR_COMPAT_LAYOUT != 0;
        let random = self.random && personality & ADDR_NO_RANDOMIZE == 0;
        let highest = Bases::at_exec(task, stack_limit, random.then_some(0));
        let shift = random.then(|| {
            let shift = if compat {
                model
                    .areas()
                    .map(|a| a.start)
                    .find(|start| *start >= highest.bottom_up)
                    .map(|at| at - highest.bottom_up)
            } else {
                model.areas().map(|a| a.end).rfind(|end| *end <= highest.top_down).map(|end| highest.top_down - end)
            };
            // 28 random bits, as Linux takes.
            shift.filter(|shift| *shift < MOST_RANDOM).unwrap_or_else(|| self.rng.u64(..1 << 28) * page)
        });
        let found = Bases::at_exec(task, stack_limit, shift);
        let (mut top_down, mut bottom_up) = (found.top_down, found.bottom_up);
        if let Some(seed) = self.engine.seed {
            let away = fastrand::Rng::with_seed(seed).u64(..1 << 28) * page;
            top_down = top_down.saturating_sub(away);
            bottom_up += away;
        }
        let legacy = compat || self.engine.policy == Policy::BottomUp;
        Bases { top_down, bottom_up, legacy, window: found.window, ..self.config.bases }
    }

    /// Decides the result of a call. `taken` are the places claimed by calls that have not
    /// returned.
    pub(crate) fn decide(
        &mut self,
        model: &Model,
        bases: Bases,
        asker: &Asker,
        d: &Decoded,
        taken: &[(u64, u64)],
    ) -> Decision {
        let count = self.made.entry(d.nr).or_default();
        *count += u64::from(!asker.again);
        let count = *count;
        let refusal = |errno, cause| Refusal { pid: asker.pid as u32, nr: d.nr, count, errno, cause };
        if !asker.again
            && let Some(errno) = self.fault(d.nr, count)
        {
            self.done.decided += 1;
            self.done.refuse(refusal(errno, Cause::Fault));
            return refuse(d.call, errno, Cause::Fault);
        }
        let known = |_: &Limits| {
            let knows = !asker.hidden && !is_32_bit(model) && self.knows(d, asker);
            knows && readable(model, d) && !on_a_driver(model, &spans(&Memory::now(asker.tid), d))
        };
        let Some(limits) = asker.limits.filter(known) else { return self.left(d) };
        let mut host = Program::new(asker.tid);
        host.of = asker.of;
        host.settings = Some(Rc::clone(&self.settings));
        let personality = Personality::from_bits_retain(asker.personality);
        let trial = Trial { model, bases, limits, caps: limits::capabilities(asker.tid), personality, taken };
        let Some(result) = self.ask(&trial, &mut host, d, self.config.max_map_count) else {
            // It acts on another process's memory, or no memory is left for a copy of the model.
            return self.left(d);
        };
        if host.unknown {
            return self.left(d);
        }
        self.done.decided += u64::from(!asker.again);
        let failed = result < 0 || (d.call == Call::Brk && result as u64 != d.args[0]);
        // `brk` returns no error.
        let errno = if d.call == Call::Brk { libc::ENOMEM } else { -result as i32 };
        if failed && self.engine.max_map_count.is_some() {
            let without = self.ask(&trial, &mut host, d, self.kernel_most);
            if without != Some(result) {
                self.done.refuse(refusal(errno, Cause::MapCount));
                return refuse(d.call, errno, Cause::MapCount);
            }
        }
        let cause = if failed && errno == libc::ENOMEM { self.over_limit(&trial, &mut host, d, result) } else { None };
        if let Some(cause) = cause {
            self.done.refuse(refusal(errno, cause));
        }
        let expect = match d.call {
            // The position of the break within its page is unknown until the program queries it.
            Call::Brk if failed => None,
            _ => Some(result),
        };
        let implied = if personality.contains(Personality::READ_IMPLIES_EXEC) { libc::PROT_READ } else { 0 };
        let executable = (libc::PROT_EXEC | implied) as u64;
        let executable = d.call.row().makes_executable && d.args[2] & executable != 0;
        // Reasons outside the model: a driver; a page that cannot be read in or moved; a kernel
        // without huge pages; a security module; memory committed to other processes; a seal added
        // later.
        let pages = d.call.needs_pages(&d.args);
        let advice = d.call.row().advice.map(|i| d.args[i] as i32);
        let excused = match advice {
            // Pages may refuse before the advice reaches a hole behind their area.
            Some(libc::MADV_REMOVE | libc::MADV_POPULATE_READ..=COLLAPSE) => Excuse::Any,
            // The kernel searches for a place before it checks the rest, and may find no place
            // where another policy found one.
            _ if failed && self.engine.policy != Policy::Linux && leaves_place_open(d) => Excuse::Any,
            _ if host.file || pages || executable || self.strict => Excuse::Granted,
            _ => Excuse::None,
        };
        let (place, changes) = self.place(d, &host, result as u64, failed);
        self.done.placed += u64::from(place.is_some() && !asker.again);
        // Changed arguments may be refused: by the program's own filter, or by MAP_SHARED_VALIDATE,
        // which checks flags. So the place of a map is passed as a hint, and no result is expected.
        // mremap and shmat have no hints and are not redirected.
        let validates = d.call == Call::Mmap && d.args[3] & 0xf == libc::MAP_SHARED_VALIDATE as u64;
        if place.is_some() && (asker.filtered || validates) {
            let wish = changes[0].filter(|_| d.call == Call::Mmap);
            return Decision { excused, changes: [wish, None], ..Decision::default() };
        }
        Decision { expect, excused, place, changes, cause, ..Decision::default() }
    }

    /// Which limit of the engine refuses the call, if one does.
    fn over_limit(&mut self, trial: &Trial<'_>, host: &mut Program, d: &Decoded, result: i64) -> Option<Cause> {
        let (space, data) = (self.engine.limit_as, self.engine.limit_data);
        // The program may have set other limits since.
        let space = space.filter(|bytes| trial.limits.address_space.soft == *bytes);
        let data = data.filter(|bytes| trial.limits.data.soft == *bytes);
        let most = self.config.max_map_count;
        let mut without = |limits| self.ask(&Trial { limits, ..*trial }, host, d, most) != Some(result);
        if space.is_some() && without(Limits { address_space: Limit::NONE, ..trial.limits }) {
            return Some(Cause::LimitAs);
        }
        let free = data.is_some() && without(Limits { data: Limit::NONE, ..trial.limits });
        free.then_some(Cause::LimitData)
    }

    /// Whether the model knows everything that the answer to this call depends on.
    fn knows(&self, d: &Decoded, asker: &Asker) -> bool {
        let row = d.call.row();
        let decided = if asker.foreign { row.decided_for_others } else { row.decided };
        !d.compat && !asker.x32 && decided.holds(&d.args) && (self.nodes || !row.needs_nodes)
    }

    /// Leaves the call to the kernel, and counts it.
    fn left(&mut self, d: &Decoded) -> Decision {
        *self.done.left.entry(call_name(d.nr).unwrap_or("others")).or_default() += 1;
        Decision::default()
    }

    /// The engine's answer to the call, on a copy of the model with at most `most` areas.
    fn ask(&mut self, trial: &Trial<'_>, host: &mut Program, d: &Decoded, most: usize) -> Option<i64> {
        // Claimed places are separate areas here, but may merge with others in the kernel.
        let most = most.saturating_add(trial.taken.len());
        let config = Config { max_map_count: most, bases: trial.bases, ..self.config.clone() };
        let mut space = trial.model.snapshot(config).ok()?;
        for (start, end) in trial.taken {
            let request = samara_mm::MapRequest::anonymous(*start, end - start, samara_mm::Prot::empty());
            let _ = space.map(&request); // fails if the place is already taken
        }
        space.set_limits(trial.limits);
        space.set_caps(trial.caps);
        space.set_personality(trial.personality);
        // For maps of files and at fixed places only the kernel knows the usable huge pages: some
        // are reserved for the file, and the call itself may free some.
        let asks =
            MapFlags::from_bits_retain(d.args[3] as u32) & (MapFlags::ANONYMOUS | MapFlags::HUGETLB | MapFlags::FIXED);
        if d.call == Call::Mmap && asks == MapFlags::ANONYMOUS | MapFlags::HUGETLB {
            space.set_huge_pages(
                huge_pages::HUGE_PAGES.map(|size| (size, huge_pages::free_huge_pages(size).unwrap_or(0))),
            );
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

    /// Remarks on the run as a whole.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for fault in &self.engine.faults {
            let made = self.made.get(&fault.nr).copied().unwrap_or(0);
            let name = call_name(fault.nr).unwrap_or("such");
            let (When::At(n) | When::From(n)) = fault.when else {
                if made == 0 {
                    notes.push(format!("no call of {name} came, so none was made to fail"));
                }
                continue;
            };
            if made < n {
                notes.push(format!("call {n} of {name}, which was to fail, never came: the program made {made}"));
            }
        }
        let random = self.engine.fail_rate.is_some() || self.engine.policy == Policy::Random;
        if random && self.engine.seed.is_none() {
            notes.push("random choices were made without a seed: give a seed to repeat them".into());
        }
        notes
    }

    /// Counts the result of a call. Returns a description if the kernel's answer differs from the
    /// engine's.
    pub(crate) fn compare(&mut self, decision: &Decision, call: &Returned) -> Option<String> {
        let expect = decision.expect?;
        let errno = |result: i64| nix::errno::Errno::from_raw(-result as i32);
        let name = || call_name(call.decoded.nr).unwrap_or("a call");
        if let Some((place, refusal)) = decision.refused.filter(|_| !(-4095..0).contains(&call.result)) {
            self.done.places_refused += 1;
            self.done.unsure += u64::from(decision.unsure);
            let (refusal, at) = (errno(-i64::from(refusal)), call.result);
            let how = format!("{}: the kernel refuses the place {place:#x} ({refusal:?}) and chooses {at:#x}", name());
            return (!decision.unsure).then_some(how);
        }
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
            // A signal killed it before it had any effect.
            interrupted if interrupted == -i64::from(libc::EINTR) => None,
            refused if (-4095..0).contains(&refused) && decision.excuses(expect) => {
                self.done.beyond += 1;
                None
            }
            fewer if call.decoded.call == Call::ProcessMadvise && fewer < expect && decision.excuses(expect) => {
                self.done.beyond += 1;
                None
            }
            other => Some(format!("{}: the engine says {}, the kernel {}", name(), said(expect), said(other))),
        }
    }

    /// The place that the engine chose, and the arguments that make the kernel use it.
    fn place(&self, d: &Decoded, host: &Program, at: u64, failed: bool) -> (Option<(u64, u64)>, [Option<Change>; 2]) {
        let page = host.huge.unwrap_or(self.config.page_size).bytes();
        let whole = |len: u64| Some((at, at.saturating_add(len.max(1)).checked_next_multiple_of(page)?));
        let a = &d.args;
        let stays = matches!(d.call.row().reach, Reach::Moves(_)) && at == a[0];
        let Some(place) = d.call.place().filter(|place| !failed && !stays && !place.given.holds(a)) else {
            return (None, [None; 2]);
        };
        let give = place.give.map(|(flags, bits)| (flags, a[flags] | bits));
        (whole(place.len.map_or(host.bytes, |len| a[len])), [Some((place.at, at)), give])
    }

    /// The errno of an injected fault for this call, if any.
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
        (calls::fails_by_rate(nr) && self.rng.f64() < all).then_some(libc::ENOMEM)
    }
}

/// The decision for a call that is refused.
fn refuse(call: Call, errno: i32, cause: Cause) -> Decision {
    let (answer, changes) = match call {
        // `brk` answers with the current break, so it is made as a query.
        Call::Brk => (None, [Some((0, 0)), None]),
        _ => (Some(-i64::from(errno)), [None; 2]),
    };
    Decision { answer, changes, cause: Some(cause), ..Decision::default() }
}

/// Whether a 32-bit program was loaded. Even its 64-bit calls search for places elsewhere than
/// those of other programs.
fn is_32_bit(model: &Model) -> bool {
    (1..1 << 32).contains(&model.layout().start_stack)
}

/// `vm.max_map_count`.
pub(crate) fn kernel_map_count() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    text.trim().parse().unwrap_or(65530)
}

/// Whether the kernel searches for a place, if the program's own arguments are used.
fn leaves_place_open(d: &Decoded) -> bool {
    d.call.place().is_some_and(|place| !place.given.holds(&d.args))
}

#[cfg(test)]
mod tests {
    use samara_mm::{Area, Flags, Object};

    use super::*;

    #[test]
    fn a_mask_whose_last_word_is_somebody_elses_is_not_read() {
        let mut model = crate::space::model::empty();
        let plain = Flags::READ | Flags::WRITE;
        for (start, flags) in [(0x1000, plain), (0x2000, plain | Flags::UFFD_MISSING)] {
            model.import(start, start + 0x1000, Area::new(flags, Object::Anonymous, 0)).unwrap();
        }
        let mbind = |mask, bits| Decoded { call: Call::Mbind, nr: 237, args: [0, 0, 0, mask, bits, 0], compat: false };
        assert!(readable(&model, &mbind(0x1ff0, 64)));
        assert!(!readable(&model, &mbind(0x1ffc, 33)));
        assert!(!readable(&model, &mbind(0x1000, u64::MAX)));
    }

    #[test]
    fn bases_are_in_reach() {
        // As in a 32-bit program, whose maps do not show where other programs' bases are.
        let mut model = crate::space::model::empty();
        let stack = Area::new(Flags::READ | Flags::WRITE | Flags::GROWSDOWN, Object::Anonymous, 0);
        model.import(0xfffd_d000, 0xffff_e000, stack).unwrap();
        model.set_layout(samara_mm::Layout { start_stack: 0xffff_d000, ..model.layout() });
        for seed in (0..50).map(Some).chain([None]) {
            let engine = Engine { seed, ..Engine::default() };
            let bases = Charge::new(&engine).bases(std::process::id() as Tid, 0, &model);
            assert!(bases.top_down < 0x7fff_f7ff_f000 && bases.bottom_up >= 0x2aaa_aaaa_b000, "{bases:?}");
        }
        assert!(is_32_bit(&model) && !is_32_bit(&crate::space::model::empty()));
    }
}
