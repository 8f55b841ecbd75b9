//! A sequence on both sides, and where they first differ.

use crate::draw::{Shape, draw};
use crate::model::{Model, Start};
use crate::rng::Rng;
use samara_mm::{
    Advice, Bases, Caps, Features, Flags, Limit, Limits, Overcommit, PageSize, SharedHuge, Touches, TransparentHuge,
};
use samara_probe::Profile;
use samara_probe::child::{Ended, Kernel, Outcome, QueriedArea, Scope};
use samara_probe::features::{NEAR_THE_LIMIT, ask, probe_crowded};
use samara_probe::harness::{has_protection_keys, pipes_refuse_execution, protects_files, task_size};
use samara_probe::op::{Op, PAGE, ROOM, at, fd};
use samara_probe::print::{areas, place, returned};
use samara_probe::proc::{read, vm_flags};
use std::io;

/// Makes the model answer wrongly: tests prove by it that a difference is found.
pub(crate) type Twist = fn(Op, i64) -> i64;

/// Both sides.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) kernel: Kernel,
    pub(crate) process: Process,
    /// What the kernel does that others do not; what shows near the limit of areas is asked for
    /// once, and before that as its release says.
    pub(crate) features: Features,
    crowded: bool,
    /// What was found at first.
    profile: Profile,
    /// Protection key 0 is allocated: the processor has keys.
    keys: bool,
    /// A pipe is as on a file system without execution.
    pipes_noexec: bool,
    /// A userfaultfd protects files' memory too.
    protects_files: bool,
    /// What this process is not given. It is not drawn.
    pub(crate) refused: Vec<Refused>,
    /// What of it would have been drawn.
    pub(crate) missed: Vec<Refused>,
    /// Flags that this kernel does not show.
    unshown: Flags,
    /// What the whole address space of a new child looks like.
    whole: Option<Start>,
    pub(crate) twist: Option<Twist>,
}

/// What this process is not given: a call, or advice of one kind; and with which errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) nr: i64,
    pub(crate) advice: Option<u64>,
    pub(crate) errno: i64,
}

impl Refused {
    fn is(&self, op: &Op) -> bool {
        match self.advice {
            None => op.number() == Some(self.nr),
            some => advice_of(op) == some,
        }
    }
}

/// The advice that an op gives.
fn advice_of(op: &Op) -> Option<u64> {
    match op {
        Op::Call(libc::SYS_madvise, [_, _, advice, ..]) | Op::Advise { advice, .. } => Some(*advice),
        _ => None,
    }
}

/// What else decides what calls answer in this process's children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// What it may do.
    pub(crate) caps: Caps,
    /// The hard limits.
    pub(crate) limits: Limits,
    /// How far its stack may grow, from which the kernel has decided where maps begin.
    stack_limit: u64,
    /// What memory is promised.
    pub(crate) overcommit: Overcommit,
}

/// What the model says of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) ops: Vec<Op>,
    /// What each op returns, and how many of `areas` there are up to there.
    frames: Vec<(i64, usize)>,
    areas: Vec<QueriedArea>,
    /// At the end.
    flags: Vec<(u64, Flags)>,
    /// The model broke one of its own rules: after which op, and which.
    broken: Option<(usize, String)>,
}

impl Expected {
    fn areas(&self, i: usize) -> &[QueriedArea] {
        let from = i.checked_sub(1).map_or(0, |before| self.frames[before].1);
        &self.areas[from..self.frames[i].1]
    }

    /// One op more; false, and nothing is changed, where the model cannot know.
    fn add(&mut self, model: &mut Model, op: Op, scope: Scope, twist: Option<Twist>) -> bool {
        let Some(answer) = model.step(op) else { return false };
        if let (Err(violation), None) = (model.space.check(), &self.broken) {
            self.broken = Some((self.ops.len(), violation.to_string()));
        }
        self.ops.push(op);
        self.areas.extend(model.seen(scope));
        self.frames.push((twist.map_or(answer, |twist| twist(op, answer)), self.areas.len()));
        true
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// At which op; as many as there are ops: at the end.
    pub(crate) at: usize,
    pub(crate) kernel: String,
    pub(crate) model: String,
}

/// What a comparison showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agree,
    Differ(Difference),
    /// An answer is not the model's to know.
    Unknowable,
}

impl Sides {
    pub(crate) fn new() -> io::Result<Sides> {
        let mut kernel = Kernel::new()?;
        let profile = Profile::found(Some(ask(&mut kernel)?));
        let (features, keys, crowded) = (profile.features, has_protection_keys(), false);
        let (protects_files, pipes_noexec) = (protects_files(), pipes_refuse_execution());
        let (process, refused, missed) = (Process::own()?, Vec::new(), Vec::new());
        let (unshown, whole, twist) = (unshown(&mut kernel)?, None, None);
        let mut sides = Sides {
            kernel,
            process,
            features,
            crowded,
            profile,
            keys,
            pipes_noexec,
            protects_files,
            refused,
            missed,
            unshown,
            whole,
            twist,
        };
        sides.refused = sides.refusals()?;
        Ok(sides)
    }

    /// What is known of the kernel by now.
    pub(crate) fn profile(&self) -> Profile {
        let presumed = self.profile.presumed;
        let presumed = if self.crowded { presumed - NEAR_THE_LIMIT } else { presumed };
        let mut profile = self.profile.clone();
        (profile.features, profile.presumed) = (self.features, presumed);
        profile
    }

    /// Which calls of [`plain`], and which [`LATER`] advice, something else than Linux's rules
    /// refuses: a seccomp filter, or a kernel that was built without them, or before them.
    fn refusals(&mut self) -> io::Result<Vec<Refused>> {
        let mut ops = plain().to_vec();
        ops.extend(LATER.map(|advice| Op::call(libc::SYS_madvise, &[at(0), PAGE, advice as u64])));
        let Some(expected) = self.expected(Scope::Window, &ops)? else { return Ok(Vec::new()) };
        let out = self.kernel.run(&ops, Scope::Window)?;
        let answers = out.frames().1.map(|(answer, _)| answer).zip(&expected.frames).zip(&ops);
        let refused = answers.filter_map(|((answer, expected), op)| {
            let (nr, advice, errno) = (op.number()?, advice_of(op).filter(|advice| *advice != 0), -answer);
            // Neither advice nor a question is refused as a call that is not known (before 6.3).
            let unknown = if advice.is_some() || nr == libc::SYS_prctl { libc::EINVAL } else { libc::ENOSYS };
            let lacks = [libc::EPERM, libc::ENOSYS, unknown].map(i64::from).contains(&errno);
            (lacks && answer != expected.0).then_some(Refused { nr, advice, errno })
        });
        Ok(refused.collect())
    }

    /// What of these this process is not given.
    pub(crate) fn refusal_of(&self, ops: &[Op]) -> Option<Refused> {
        self.refused.iter().find(|refused| ops.iter().any(|op| refused.is(op))).copied()
    }

    /// Whether this process is given an op that was drawn; if not, that is noted.
    pub(crate) fn is_given(&mut self, op: Op) -> bool {
        let refused = self.refusal_of(&[op]);
        self.missed.extend(refused.filter(|refused| !self.missed.contains(refused)));
        refused.is_none()
    }

    /// Asks, once, for what shows near the limit of areas, if the ops begin there.
    fn look_near_the_limit(&mut self, first: Option<&Op>) -> io::Result<()> {
        if let (Some(Op::Fill { .. }), false) = (first, self.crowded) {
            self.features = (self.features - NEAR_THE_LIMIT) | probe_crowded(&mut self.kernel)?;
            self.crowded = true;
        }
        Ok(())
    }

    pub(crate) fn start(&mut self, scope: Scope) -> io::Result<Start> {
        // The settings may have changed since the last one.
        let (shared, transparent_huge) = (shared_huge(), transparent_huge());
        if let (Scope::Whole, Some(start)) = (scope, &self.whole) {
            return Ok(Start { shared, transparent_huge, ..start.clone() });
        }
        let (mut areas, mut least, mut stack) = (Vec::new(), 0, 0);
        if scope == Scope::Whole {
            // A hint that is too low is raised to the lowest address that may be had.
            let hint = Op::call(libc::SYS_mmap, &[PAGE, PAGE, 0, 0x4022, u64::MAX, 0]);
            let out = self.kernel.run(&[hint], scope)?;
            let (first, mut frames) = out.frames();
            areas = first.collect();
            least = frames.next().map_or(0, |(at, _)| at as u64);
            stack = stack_end()?;
        }
        let (Process { caps, limits, stack_limit, overcommit }, features) = (self.process, self.features);
        let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let huge = huge.ok().and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
        let personality = self.kernel.personality();
        let bases = Bases { least, huge, ..Bases::at_exec(task_size(), stack_limit, None) };
        let (keys, protects_files, unshown) = (self.keys, self.protects_files, self.unshown);
        let start = Start {
            scope,
            areas,
            bases,
            stack,
            personality,
            caps,
            limits,
            overcommit,
            features,
            shared,
            transparent_huge,
            keys,
            pipes_noexec: self.pipes_noexec,
            protects_files,
            unshown,
        };
        if scope == Scope::Whole {
            self.whole = Some(start.clone());
        }
        Ok(start)
    }

    /// Draws a sequence, and what the model says of it.
    pub(crate) fn drawn(&mut self, scope: Scope, shape: Shape, mut rng: Rng) -> io::Result<Expected> {
        let first = shape.fill.map(|left| Op::Fill { left });
        self.look_near_the_limit(first.as_ref())?;
        let start = self.start(scope)?;
        let mut model = Model::new(&start, Touches::Told, first.as_ref());
        let mut expected = Expected::default();
        while expected.ops.len() < shape.len && expected.broken.is_none() {
            let op = draw(&mut rng, shape, &model, expected.ops.len());
            if self.is_given(op) {
                expected.add(&mut model, op, scope, self.twist);
            }
        }
        expected.flags = model.flags().collect();
        Ok(expected)
    }

    pub(crate) fn expected(&mut self, scope: Scope, ops: &[Op]) -> io::Result<Option<Expected>> {
        self.look_near_the_limit(ops.first())?;
        Ok(expect(&self.start(scope)?, ops, self.twist))
    }

    /// A sequence of ops on both sides.
    pub(crate) fn differ(&mut self, scope: Scope, ops: &[Op]) -> io::Result<Verdict> {
        match self.expected(scope, ops)? {
            Some(expected) => self.compare(scope, &expected),
            None => Ok(Verdict::Unknowable),
        }
    }

    /// What the model says, and what the kernel does.
    pub(crate) fn compare(&mut self, scope: Scope, expected: &Expected) -> io::Result<Verdict> {
        let out = self.kernel.run(&expected.ops, scope)?;
        if let Some(start) = &mut self.whole
            && scope == Scope::Whole
            && !out.frames().0.eq(start.areas.iter().copied())
        {
            // This process has changed meanwhile (its heap, mostly), and so its child began
            // elsewhere: the model starts anew, from there.
            start.areas = out.frames().0.collect();
            let again = expect(start, &expected.ops, self.twist);
            return Ok(again.map_or(Verdict::Unknowable, |expected| verdict(&out, &expected)));
        }
        Ok(verdict(&out, expected))
    }
}

/// What the model says of these ops; `None` where it cannot know.
fn expect(start: &Start, ops: &[Op], twist: Option<Twist>) -> Option<Expected> {
    let mut model = Model::new(start, Touches::Told, ops.first());
    let mut expected = Expected::default();
    if !ops.iter().all(|op| expected.add(&mut model, *op, start.scope, twist)) {
        return None;
    }
    expected.flags = model.flags().collect();
    Some(expected)
}

/// The first difference between what the model says and what the kernel did.
fn verdict(out: &Outcome<'_>, expected: &Expected) -> Verdict {
    for (i, (ret, kernel)) in out.frames().1.enumerate() {
        let (answer, _) = expected.frames[i];
        let broken = expected.broken.as_ref().filter(|b| b.0 == i).map(|b| &b.1);
        if ret == answer && broken.is_none() && kernel.clone().eq(expected.areas(i).iter().copied()) {
            continue;
        }
        let kernel: Vec<QueriedArea> = kernel.collect();
        let model = match broken {
            Some(rule) => format!("{}; {rule}", returned(answer)),
            None => format!("{}; {}", returned(answer), areas(expected.areas(i), &kernel)),
        };
        let kernel = format!("{}; {}", returned(ret), areas(&kernel, expected.areas(i)));
        return Verdict::Differ(Difference { at: i, kernel, model });
    }
    let end = match out.ended {
        Ended::Done => None,
        Ended::Killed(signal) => Some(format!("the process was killed by signal {signal}")),
        Ended::Status(code) => Some(format!("the process ended with code {code}")),
    };
    if let Some(kernel) = end {
        let model = expected.frames.get(out.done).map_or("the end".to_owned(), |f| returned(f.0));
        return Verdict::Differ(Difference { at: out.done, kernel, model });
    }
    let kernel = vm_flags(&out.smaps());
    let of = |start: &u64| kernel.iter().find(|k| k.0 == *start).map(|k| k.1);
    let Some((start, ours)) = expected.flags.iter().find(|(start, flags)| of(start) != Some(*flags)) else {
        return Verdict::Agree;
    };
    let kernel = of(start).map_or("no flags".to_owned(), |flags| flags.letters().to_string());
    let (kernel, model) = (format!("{}: {kernel}", place(*start)), format!("{}: {}", place(*start), ours.letters()));
    Verdict::Differ(Difference { at: expected.ops.len(), kernel, model })
}

/// What the machine's settings say of huge pages for shared memory now.
fn shared_huge() -> SharedHuge {
    const DIR: &str = "/sys/kernel/mm/transparent_hugepage";
    let text = |name: &str| std::fs::read_to_string(format!("{DIR}/{name}")).unwrap_or_default();
    let huge = text("hpage_pmd_size").trim().parse().ok().and_then(PageSize::new);
    let folders = std::fs::read_dir(DIR).into_iter().flatten().flatten();
    let sizes = folders.filter_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some((PageSize::new(kib.checked_mul(1024)?)?, text(&format!("{name}/shmem_enabled"))))
    });
    SharedHuge::new(&text("shmem_enabled"), sizes, huge)
}

/// Which anonymous memory of this process gets huge pages now.
fn transparent_huge() -> TransparentHuge {
    let text = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    // A process may have turned them off for itself and its children.
    if text("/proc/self/status").lines().any(|line| line.replace('\t', "") == "THP_enabled:0") {
        return TransparentHuge::Never;
    }
    const DIR: &str = "/sys/kernel/mm/transparent_hugepage";
    // Each size has a setting of its own where there are several.
    let own = text(&format!("{DIR}/hugepages-2048kB/enabled"));
    let inherits = own.is_empty() || own.contains("[inherit]");
    TransparentHuge::parse(&if inherits { text(&format!("{DIR}/enabled")) } else { own })
}

/// Flags that `VmFlags` does not show here: that memory is locked on fault.
fn unshown(kernel: &mut Kernel) -> io::Result<Flags> {
    let rw = Op::call(libc::SYS_mmap, &[at(0), PAGE, 3, 0x32, fd::NONE]);
    let out = kernel.run(&[rw, Op::call(libc::SYS_mlock2, &[at(0), PAGE, 1])], Scope::Window)?;
    let flags = vm_flags(&out.smaps()).into_iter().find(|(start, _)| *start == at(0));
    let hidden = flags.is_some_and(|(_, f)| f.contains(Flags::LOCKED) && !f.contains(Flags::LOCKONFAULT));
    Ok(if hidden { Flags::LOCKONFAULT } else { Flags::empty() })
}

/// Where the stack of this process ends.
fn stack_end() -> io::Result<u64> {
    let maps = read("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("[stack]")).and_then(|line| line.split_once('-'));
    let end = line.and_then(|(_, rest)| u64::from_str_radix(rest.split(' ').next()?, 16).ok());
    end.ok_or_else(|| io::Error::other("no stack in /proc/self/maps"))
}

impl Process {
    fn own() -> io::Result<Process> {
        let word = |text: &str, name: &str, nth: usize| {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(nth).map(str::to_owned))
        };
        let effective = word(&read("/proc/self/status")?, "CapEff:", 0);
        let effective = effective.and_then(|hex| u64::from_str_radix(&hex, 16).ok()).unwrap_or(0);
        // CAP_IPC_LOCK, CAP_SYS_RAWIO, CAP_SYS_ADMIN, CAP_SYS_NICE.
        let known = [(14, Caps::IPC_LOCK), (17, Caps::SYS_RAWIO), (21, Caps::SYS_ADMIN), (23, Caps::SYS_NICE)];
        let caps = known.into_iter().filter(|(bit, _)| effective >> bit & 1 == 1).map(|(_, cap)| cap).collect();
        let text = read("/proc/self/limits")?;
        let hard = |name| word(&text, name, 1).and_then(|n| n.parse().ok()).map_or(Limit::NONE, Limit::bytes);
        let limits = Limits {
            address_space: hard("Max address space"),
            data: hard("Max data size"),
            stack: hard("Max stack size"),
            locked: hard("Max locked memory"),
        };
        let stack_limit = word(&text, "Max stack size", 0).and_then(|n| n.parse().ok()).unwrap_or(u64::MAX);
        let memory = read("/proc/meminfo")?;
        let bytes = |name| word(&memory, name, 0).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024;
        let overcommit = match read("/proc/sys/vm/overcommit_memory")?.trim() {
            "1" => Overcommit::Always,
            "0" => Overcommit::Guess { total: bytes("MemTotal:") + bytes("SwapTotal:") },
            // What others have charged is not to be foretold.
            _ => Overcommit::Never { limit: 0, admin_reserve: 0, user_reserve: 0 },
        };
        Ok(Process { caps, limits, stack_limit, overcommit })
    }
}

/// Advice that came with a later release than the others (5.14 and 5.18), whatever the memory.
const LATER: [Advice; 3] = [Advice::PopulateRead, Advice::PopulateWrite, Advice::DontNeedLocked];

/// Each call once that may be drawn, in a form that Linux grants or refuses for its arguments
/// alone. Without those that `Abilities` asks about.
fn plain() -> [Op; 19] {
    let (start, two) = (at(0), 2 * PAGE);
    [
        Op::call(libc::SYS_mmap, &[start, two, 3, 0x32, fd::NONE]),
        Op::call(libc::SYS_munmap, &[at(4), PAGE]),
        Op::call(libc::SYS_mprotect, &[start, two, 3]),
        Op::call(libc::SYS_pkey_mprotect, &[start, two, 3, u64::MAX]),
        Op::call(libc::SYS_mremap, &[start, two, two]),
        Op::call(libc::SYS_madvise, &[start, two, 0]),
        Op::Advise { advice: 0, ranges: [(start, two); 3] },
        Op::call(libc::SYS_mlock, &[start]),
        Op::call(libc::SYS_mlock2, &[start]),
        Op::call(libc::SYS_munlock, &[start]),
        Op::call(libc::SYS_mlockall, &[]),
        Op::call(libc::SYS_munlockall, &[]),
        Op::call(libc::SYS_mbind, &[start, two]),
        Op::call(libc::SYS_msync, &[start, two, 4]),
        Op::call(libc::SYS_mincore, &[start, two, ROOM]),
        Op::call(libc::SYS_remap_file_pages, &[start, two, 1]),
        Op::call(libc::SYS_shmdt, &[start]),
        // PR_GET_MDWE; a question.
        Op::call(libc::SYS_prctl, &[66]),
        Op::call(libc::SYS_personality, &[0xffff_ffff]),
    ]
}
