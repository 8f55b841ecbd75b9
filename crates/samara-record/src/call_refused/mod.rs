//! Finds the rule that refused a call: repeats the call on a copy of the model from before the
//! call, under one rule after another. Changes neither model nor program.
//!
//! - **BLAME-1** a rule that limits a space is named only if the model refuses the call with the
//!   kernel's error under that rule alone, and grants it without any limit. If the model refuses
//!   without limits too, a rule is named only if the areas show it. A seccomp filter is named only
//!   if the model knows the call and grants it, the task has a filter, and the error does not mean
//!   a lack of memory.
//!
//! `by_areas` has the rules that areas and files show; `no_task` those that refuse a new task.

mod by_areas;
mod no_task;

use std::collections::HashMap;
use std::rc::Rc;

use samara_mm::{
    Bases, Caps, Config, Limit, Limits, Linux, MapFlags, Overcommit, PageSize, Personality, Touches, linux,
};
use samara_trace::calls::Call;
use samara_trace::recorder::failed_with;
use samara_trace::{Refused, RefusedBy};

use crate::arch::Decoded;
use crate::engine::kernel_map_count;
use crate::os::huge_pages;
use crate::os::huge_pages::Settings;
use crate::os::limits;
use crate::space::host::Program;
use crate::space::model::Model;
use crate::space::{Returned, Space, SpaceId};

/// This many failures of a call with one error, in one space, are all examined. After them, one in
/// [`LATER`] is.
const EXAMINED: u64 = 1000;
const LATER: u64 = 64;
/// Number of failures with full figures.
const IN_FULL: u64 = 16;
/// The highest start of the MAP_32BIT window: Linux draws the start for each call.
const LOW: u64 = (1 << 30) + (32 << 20);
/// An upper bound of all figures in bytes.
const MOST: u64 = 1 << 60;

/// The failures of a call with one error, in one space.
#[derive(Default)]
struct Kind {
    count: u64,
    last: Option<RefusedBy>,
}

/// Names the rules that refuse calls.
#[derive(Default)]
pub(crate) struct WhyRefused {
    settings: Option<Rc<Settings>>,
    kinds: HashMap<(SpaceId, u32, i32), Kind>,
}

impl WhyRefused {
    /// The rule that refused a call that has returned and has not been applied to the model yet.
    /// `filtered`: the task has a seccomp filter.
    pub(crate) fn of(&mut self, space: &Space, call: &Returned, filtered: bool) -> Option<Refused> {
        let known = [
            libc::EPERM,
            libc::EAGAIN,
            libc::ENOMEM,
            libc::EACCES,
            libc::EFAULT,
            libc::EINVAL,
            libc::EEXIST,
            libc::ENOSYS,
        ];
        let d = &call.decoded;
        let errno = errno(call)?;
        if d.compat || space.hidden() || !known.contains(&errno) {
            return None;
        }
        let kind = self.kinds.entry((space.id, d.nr, errno)).or_default();
        kind.count += 1;
        if kind.count > EXAMINED && !kind.count.is_multiple_of(LATER) {
            return kind.last.map(Refused::new);
        }
        let in_full = kind.count <= IN_FULL;
        let settings = Rc::clone(self.settings.get_or_insert_with(|| Rc::new(Settings::open())));
        let found = if d.call.makes_task() {
            no_task::refused(&space.model, d, call.who.tid, call.result)
        } else {
            Trial::new(space, call, settings).and_then(|mut trial| {
                let filters = filtered && !trial.nameless && ![libc::ENOMEM, libc::EAGAIN].contains(&errno);
                trial.refused(in_full).or_else(|| filters.then(|| trial.by_filter()).flatten())
            })
        };
        kind.last = found.map(|refused| refused.by);
        found
    }

    /// Forgets a space that has ended.
    pub(crate) fn forget(&mut self, space: SpaceId) {
        self.kinds.retain(|(of, ..), _| *of != space);
    }
}

/// The error of a call that failed. `brk` returns no errors, but the break as it was.
fn errno(call: &Returned) -> Option<i32> {
    let d = &call.decoded;
    match d.call {
        Call::Brk => failed_with(d.nr, d.args[0], call.result),
        _ if call.failed() => Some(-call.result as i32),
        _ => None,
    }
}

/// The rules that limit a space.
#[derive(Clone, Copy)]
struct Rules {
    most: usize,
    limits: Limits,
    overcommit: Overcommit,
    /// Memory committed to other processes.
    elsewhere: u64,
    /// Bytes in free huge pages of each size, in the order of [`huge_pages::HUGE_PAGES`].
    huge: [u64; huge_pages::HUGE_PAGES.len()],
    least: u64,
}

impl Rules {
    /// No rule.
    const NONE: Rules = Rules {
        most: usize::MAX / 2,
        limits: Limits::NONE,
        overcommit: Overcommit::Always,
        elsewhere: 0,
        huge: [MOST; huge_pages::HUGE_PAGES.len()],
        least: 0,
    };

    /// Only this one of the rules `of`.
    fn only(by: RefusedBy, of: &Rules) -> Rules {
        let mut one = Rules::NONE;
        match by {
            RefusedBy::MapCount => one.most = of.most,
            RefusedBy::AddressSpace => one.limits.address_space = of.limits.address_space,
            RefusedBy::Data => one.limits.data = of.limits.data,
            RefusedBy::Locked => one.limits.locked = of.limits.locked,
            RefusedBy::OvercommitGuess => one.overcommit = of.overcommit,
            RefusedBy::HugePages => one.huge = of.huge,
            RefusedBy::MinAddress => one.least = of.least,
            _ => {}
        }
        one
    }

    /// The figure of a rule.
    fn figure(&self, by: RefusedBy) -> u64 {
        match (by, self.overcommit) {
            (RefusedBy::MapCount, _) => self.most as u64,
            (RefusedBy::AddressSpace, _) => self.limits.address_space.soft,
            (RefusedBy::Data, _) if self.limits.data.soft == 0 => self.limits.data.hard,
            (RefusedBy::Data, _) => self.limits.data.soft,
            (RefusedBy::Locked, _) => self.limits.locked.soft,
            (RefusedBy::OvercommitGuess, Overcommit::Guess { total }) => total,
            (RefusedBy::OvercommitGuess, Overcommit::Never { limit, .. }) => limit,
            (RefusedBy::MinAddress, _) => self.least,
            _ => MOST,
        }
    }

    /// The same rules with another figure for one of them.
    fn with(mut self, by: RefusedBy, figure: u64) -> Rules {
        match by {
            RefusedBy::AddressSpace => self.limits.address_space = Limit::bytes(figure),
            RefusedBy::Data => self.limits.data = Limit::bytes(figure),
            RefusedBy::Locked => self.limits.locked = Limit::bytes(figure),
            RefusedBy::HugePages => self.huge = [figure; huge_pages::HUGE_PAGES.len()],
            _ => match &mut self.overcommit {
                Overcommit::Guess { total: limit } | Overcommit::Never { limit, .. } => *limit = figure,
                Overcommit::Always => {}
            },
        }
        self
    }
}

/// A refused call, and the copy on which it is repeated.
struct Trial<'a> {
    space: &'a Space,
    model: &'a Model,
    call: &'a Returned,
    /// The call as it is made on the model.
    d: Decoded,
    host: Program,
    rules: Rules,
    caps: Caps,
    config: Config,
    /// The file's rules are unknown; its stand-in does not count as committed memory.
    nameless: bool,
}

impl<'a> Trial<'a> {
    fn new(space: &'a Space, call: &'a Returned, settings: Rc<Settings>) -> Option<Self> {
        let tid = call.who.tid;
        let (model, task_size, limits) = (&space.model, samara_probe::task_size(), limits::limits(tid)?);
        let personality = Personality::from_bits_retain(call.personality);
        let legacy = number("/proc/sys/vm/legacy_va_layout") > 0 || personality.bits() & ADDR_COMPAT_LAYOUT != 0;
        let least = number("/proc/sys/vm/mmap_min_addr");
        let bases = Bases::at_exec(task_size, limits.stack.soft, None);
        let bases = Bases { least, legacy, low: LOW, huge: settings.huge(), ..bases };
        let (overcommit, elsewhere) = overcommit(model.counters().committed);
        let free = |size: PageSize| huge_pages::free_huge_pages(size).map_or(MOST, |n| n.saturating_mul(size.bytes()));
        let mut host = Program::seen(call.memory.clone());
        host.settings = Some(settings);
        let mut trial = Trial {
            space,
            model,
            call,
            d: call.decoded,
            host,
            rules: Rules {
                most: kernel_map_count(),
                limits,
                overcommit,
                elsewhere,
                huge: huge_pages::HUGE_PAGES.map(free),
                least,
            },
            caps: limits::capabilities(tid),
            config: Config { task_size, bases, touches: Touches::Unseen, ..model.config().clone() },
            nameless: false,
        };
        trial.ask_for_the_file();
        Some(trial)
    }

    /// Replaces a file whose rules are unknown to the model by anonymous memory. The reason for the
    /// refusal may be another one than the file.
    fn ask_for_the_file(&mut self) {
        let fd = self.d.args[4] as i32;
        let anonymous = MapFlags::ANONYMOUS.bits();
        if self.d.call != Call::Mmap || self.d.args[3] as u32 & anonymous != 0 || fd < 0 {
            return;
        }
        let asked = linux::Host::file(&mut self.host, fd);
        if asked.is_err() && self.host.unknown {
            (self.nameless, self.host.unknown) = (true, false);
            self.d.args[3] |= u64::from(anonymous);
            (self.d.args[4], self.d.args[5]) = (u64::MAX, 0);
        }
    }

    /// The model's answer under these rules. `None`: it has no answer.
    fn ask(&mut self, rules: &Rules) -> Option<i64> {
        let bases = Bases { fixed_least: rules.least, ..self.config.bases };
        let config = Config { max_map_count: rules.most, overcommit: rules.overcommit, bases, ..self.config.clone() };
        let mut space = self.model.snapshot(config).ok()?;
        space.set_limits(rules.limits);
        space.set_caps(self.caps);
        space.set_personality(Personality::from_bits_retain(self.call.personality));
        space.set_committed_elsewhere(rules.elsewhere);
        let mut free = rules.huge.into_iter();
        space.set_huge_pages(huge_pages::HUGE_PAGES.map(|size| (size, free.next().unwrap_or(MOST) / size.bytes())));
        let called = linux::call(&mut space, &mut self.host, &mut Linux, self.d.nr.into(), self.d.args)?;
        (!self.host.unknown).then_some(called.result)
    }

    /// Whether the model refuses under these rules with the kernel's error.
    fn refuses(&mut self, rules: &Rules) -> bool {
        self.ask(rules) == Some(self.call.result)
    }

    /// The rule that refuses the call, with its figures. `in_full`: with all of them.
    fn refused(&mut self, in_full: bool) -> Option<Refused> {
        match self.ask(&Rules::NONE)? {
            same if same == self.call.result => return by_areas::refused(self, errno(self.call)?),
            // The reason lies outside the model.
            error if (-4095..0).contains(&error) => return None,
            _ => {}
        }
        // The order in which the kernel checks them.
        let all = [
            RefusedBy::MapCount,
            RefusedBy::MinAddress,
            RefusedBy::Locked,
            RefusedBy::AddressSpace,
            RefusedBy::Data,
            RefusedBy::OvercommitGuess,
            RefusedBy::HugePages,
        ];
        for by in all {
            if self.nameless && by == RefusedBy::OvercommitGuess {
                continue;
            }
            let rules = Rules { elsewhere: self.rules.elsewhere, ..Rules::only(by, &self.rules) };
            if self.refuses(&rules) {
                return Some(self.told(by, rules, in_full));
            }
        }
        None
    }

    /// A seccomp filter, if the model would grant the call.
    fn by_filter(&mut self) -> Option<Refused> {
        let allowed = self.ask(&Rules::NONE).is_some_and(|result| !(-4095..0).contains(&result));
        allowed.then(|| Refused::new(RefusedBy::Filter))
    }

    /// A rule with its figures.
    fn told(&mut self, by: RefusedBy, rules: Rules, in_full: bool) -> Refused {
        let limit = rules.figure(by);
        match by {
            RefusedBy::MapCount => Refused::figures(by, limit, self.model.len() as u64),
            RefusedBy::MinAddress => {
                let (at, len) = (self.d.args[0], self.d.args[1]);
                let mut refused = Refused::figures(by, limit, None);
                refused.at = Some((at, at.saturating_add(len)));
                refused
            }
            RefusedBy::HugePages => {
                let would_be = if in_full { self.least(by, rules, 0) } else { None };
                let size = self.host.huge.map_or(2 << 20, PageSize::bytes);
                let free = huge_pages::HUGE_PAGES.iter().zip(rules.huge).find(|(page, _)| page.bytes() == size);
                Refused::figures(by, free.map_or(0, |(_, free)| free), would_be)
            }
            _ => {
                let would_be = if in_full { self.least(by, rules, limit) } else { None };
                let never = matches!(rules.overcommit, Overcommit::Never { .. });
                let by = if never { RefusedBy::OvercommitNever } else { by };
                Refused::figures(by, limit, would_be)
            }
        }
    }

    /// The lowest figure above `low` at which the rule would not refuse the call.
    fn least(&mut self, by: RefusedBy, rules: Rules, low: u64) -> Option<u64> {
        let (mut low, mut high) = (low / 4096, MOST / 4096);
        if self.refuses(&rules.with(by, high * 4096)) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.refuses(&rules.with(by, middle * 4096)) {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(high * 4096)
    }
}

/// `personality(2)`.
const ADDR_COMPAT_LAYOUT: u32 = 0x0020_0000;

/// The number in a file of one line; 0 if the file cannot be read.
fn number(path: &str) -> u64 {
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The machine's overcommit settings, and the memory that is committed to others than a space with
/// `own` bytes.
fn overcommit(own: u64) -> (Overcommit, u64) {
    match number("/proc/sys/vm/overcommit_memory") {
        0 => (Overcommit::Guess { total: limits::memory() }, 0),
        2 => {
            let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
            let kib = |name: &str| {
                let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
                rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
            };
            let bytes = |kib: Option<u64>| kib.unwrap_or(0).saturating_mul(1024);
            let limit = bytes(kib("CommitLimit:"));
            let admin_reserve = number("/proc/sys/vm/admin_reserve_kbytes").saturating_mul(1024);
            let user_reserve = number("/proc/sys/vm/user_reserve_kbytes").saturating_mul(1024);
            let elsewhere = bytes(kib("Committed_AS:")).saturating_sub(own);
            (Overcommit::Never { limit, admin_reserve, user_reserve }, elsewhere)
        }
        _ => (Overcommit::Always, 0),
    }
}
