//! A check: many random sequences, and what they showed.

use crate::compare::{Difference, Expected, Refused, Sides, Twist, Verdict};
use crate::draw::Shape;
use crate::mix::Mix;
use crate::rng::Rng;
use crate::shrink::shrink;
use crate::threads::{self, History};
use crate::unseen;
use samara_mm::{Advice, Caps, Limit, Limits, Overcommit};
use samara_probe::Profile;
use samara_probe::child::{Ended, Scope};
use samara_probe::op::{HUGE_PAGES, Op, PAGE, SYS_MSEAL, at, fd, segment};
use samara_probe::print::{Code, name, returned};
use std::fmt::{self, Display};
use std::io;
use std::time::{Duration, Instant};

/// The divergences of a mix that are made shorter and printed. All are counted.
pub(crate) const ENOUGH: u64 = 5;

/// What to check.
///
/// ```
/// use samara_oracle::{Check, Mix};
/// let check = Check { ops: 500, seed: 7, mixes: vec![Mix::Basic] };
/// let report = check.run(|_| ())?;
/// assert!(report.divergences.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Check {
    /// How many operations in all; each mix has its part. A mix to which none falls is left out.
    pub ops: u64,
    /// Same seed, same mixes, same number: same sequences.
    pub seed: u64,
    /// The mixes, in this order.
    pub mixes: Vec<Mix>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The mix that is being run.
    pub mix: Mix,
    /// Operations so far, of all mixes; those of mixes that were left out among them.
    pub ops: u64,
    /// Divergences so far.
    pub divergences: u64,
}

/// What a check showed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Operations that were made.
    pub ops: u64,
    /// Of these, after how many result and areas were compared: all, but those that come after a
    /// divergence.
    pub compared: u64,
    /// The kernel: its release, and what was found out by asking it; the model does the same.
    pub profile: Profile,
    /// The seed.
    pub seed: u64,
    /// Each mix that was run.
    pub mixes: Vec<MixReport>,
    /// Where model and kernel differ: the first five of each mix. [`MixReport::divergences`] counts
    /// all of them.
    pub divergences: Vec<Divergence>,
    /// What was left out, and why: a mix, or calls of it.
    pub skipped: Vec<(Mix, String)>,
    /// It was told to stop, and may have made fewer operations.
    pub stopped: bool,
}

/// One mix of a check.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MixReport {
    /// Which.
    pub mix: Mix,
    /// Operations that were made.
    pub ops: u64,
    /// Of these, how many were compared.
    pub compared: u64,
    /// In how many sequences, each in a process of its own.
    pub sequences: u64,
    /// How many of them diverged.
    pub divergences: u64,
    /// How many operations were under way at the same time as one of another thread.
    pub overlapped: u64,
    /// How long it took.
    pub time: Duration,
}

/// A sequence after which model and kernel differ, as short as it could be made. Displays as a
/// test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The mix.
    pub mix: Mix,
    /// The seed, and the number of the sequence within the mix.
    pub drawn: Option<(u64, u64)>,
    /// The calls.
    pub ops: Vec<Op>,
    /// At which op they differ; the number of ops: in the flags at the end.
    pub at: usize,
    /// What the kernel did.
    pub kernel: String,
    /// What the model did.
    pub model: String,
    /// It did not happen again when the same sequence was tried once more: `ops` are all of it.
    /// What threads did is not tried again.
    pub once: bool,
    /// What threads did at the same time, if there were threads.
    pub history: Option<History>,
}

impl Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, drawn) = match self.drawn {
            Some((seed, n)) => (format!("_{seed}_{n}"), format!(", seed {seed}, sequence {n}")),
            None => Default::default(),
        };
        // The same sequence may differ again at another time, for another reason: then beside the
        // first test of it.
        let ops = self.ops.iter().map(|op| Code(op).to_string()).collect::<String>();
        let hash = ops.bytes().fold(0x811c_9dc5, |hash: u32, c| (hash ^ u32::from(c)).wrapping_mul(0x0100_0193));
        let name = format!("{}{number}_{:04x}", self.mix, hash >> 16);
        let place =
            if self.at < self.ops.len() { format!("op {}", self.at) } else { "the flags at the end".to_owned() };
        if let Some(history) = &self.history {
            writeln!(f, "/// {}{drawn}: {}", self.mix, self.model)?;
            for line in history.to_string().lines() {
                writeln!(f, "/// {line}")?;
            }
            writeln!(f, "#[test]\nfn {name}() {{")?;
            history.code(f)?;
            return writeln!(f, "}}");
        }
        let once = if self.once { " (Once: not when it was tried again.)" } else { "" };
        writeln!(f, "/// {}{drawn}: {place}.{once}", self.mix)?;
        writeln!(f, "/// kernel: {}", self.kernel)?;
        writeln!(f, "/// model:  {}", self.model)?;
        writeln!(f, "#[test]\nfn {name}() {{\n    agree(\n        Mix::{:?},\n        &[", self.mix)?;
        for (i, op) in self.ops.iter().enumerate() {
            writeln!(f, "            // {i}: {op}\n            {},", Code(op))?;
        }
        writeln!(f, "        ],\n    );\n}}")
    }
}

impl Check {
    /// Runs it. `progress` is called after every sequence.
    ///
    /// # Errors
    /// No process could be made in which to make calls, or what it saw cannot be read. A process
    /// that dies of a call is a divergence, no error.
    pub fn run(&self, progress: impl FnMut(Progress)) -> io::Result<Report> {
        self.run_until(&|| false, progress)
    }

    /// Runs it until `stop` says so, which is asked before every sequence, and before every try to
    /// make one that differs shorter. The report is of what was done.
    ///
    /// # Errors
    /// As [`run`](Check::run).
    pub fn run_until(&self, stop: &dyn Fn() -> bool, progress: impl FnMut(Progress)) -> io::Result<Report> {
        self.run_with(None, stop, progress)
    }

    pub(crate) fn run_with(
        &self,
        twist: Option<Twist>,
        stop: &dyn Fn() -> bool,
        mut progress: impl FnMut(Progress),
    ) -> io::Result<Report> {
        let mut sides = Sides::new()?;
        sides.twist = twist;
        let (mut mixes, mut divergences, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        let abilities = Abilities::of(&mut sides)?;
        let (count, mut before) = (self.mixes.len() as u64, 0);
        for (i, mix) in self.mixes.iter().enumerate() {
            let quota = self.ops / count + u64::from((i as u64) < self.ops % count);
            match abilities.shapes(*mix) {
                Err(why) => skipped.push((*mix, why)),
                Ok(_) if quota == 0 => skipped.push((*mix, "no call falls to it: there are more mixes".to_owned())),
                Ok(_) if stop() => skipped.push((*mix, "the check was stopped before it".to_owned())),
                Ok((shapes, left_out)) => {
                    skipped.extend(left_out.into_iter().map(|why| (*mix, why)));
                    let found: u64 = mixes.iter().map(|m: &MixReport| m.divergences).sum();
                    let tell =
                        |ops, more| progress(Progress { mix: *mix, ops: before + ops, divergences: found + more });
                    let (given, found) = ((&shapes[..], quota), &mut divergences);
                    mixes.push(match mix {
                        Mix::Threads => threads::run(&mut sides, given, self.seed, found, stop, tell)?,
                        _ => self.mix(&mut sides, *mix, given, found, stop, tell)?,
                    });
                    skipped.extend(sides.missed.drain(..).map(|refused| (*mix, refusal(refused))));
                }
            }
            before += quota;
        }
        let sum = |of: fn(&MixReport) -> u64| mixes.iter().map(of).sum();
        let (ops, compared) = (sum(|m| m.ops), sum(|m| m.compared));
        let profile = sides.profile();
        Ok(Report { ops, compared, profile, seed: self.seed, mixes, divergences, skipped, stopped: stop() })
    }

    fn mix(
        &self,
        sides: &mut Sides,
        mix: Mix,
        (shapes, quota): (&[Shape], u64),
        divergences: &mut Vec<Divergence>,
        stop: &dyn Fn() -> bool,
        mut tell: impl FnMut(u64, u64),
    ) -> io::Result<MixReport> {
        let began = Instant::now();
        let mut report =
            MixReport { mix, ops: 0, compared: 0, sequences: 0, divergences: 0, overlapped: 0, time: Duration::ZERO };
        while report.ops < quota && !stop() {
            let sequence = report.sequences;
            let shape = shapes[sequence as usize % shapes.len()];
            let len = shape.len.min((quota - report.ops) as usize);
            let rng = Rng::new(self.seed, mix.name(), sequence);
            let (expected, found) = one(sides, mix, Shape { len, ..shape }, &rng)?;
            report.sequences += 1;
            report.ops += expected.ops.len() as u64;
            report.compared += found.as_ref().map_or(expected.ops.len(), |d| expected.ops.len().min(d.at + 1)) as u64;
            if let Some(first) = found {
                report.divergences += 1;
                if report.divergences <= ENOUGH {
                    divergences.push(shortened(sides, mix, &expected.ops, first, Some((self.seed, sequence)), stop)?);
                }
            }
            tell(report.ops, report.divergences);
        }
        Ok(MixReport { time: began.elapsed(), ..report })
    }
}

/// A sequence, and the first difference in it. Where this process's own memory changes meanwhile,
/// it is drawn again.
fn one(sides: &mut Sides, mix: Mix, shape: Shape, rng: &Rng) -> io::Result<(Expected, Option<Difference>)> {
    for _ in 0..16 {
        let expected = sides.drawn(mix.scope(), shape, rng.clone())?;
        let verdict = match mix {
            Mix::Unseen => unseen::differ(sides, &expected.ops)?,
            _ => sides.compare(mix.scope(), &expected)?,
        };
        match verdict {
            Verdict::Agree => return Ok((expected, None)),
            Verdict::Differ(difference) => return Ok((expected, Some(difference))),
            Verdict::Unknowable => {}
        }
    }
    Err(io::Error::other("the memory of this process changes too often for its children's to be foretold"))
}

/// Whether the two sides differ about a sequence as it is given.
fn differ(sides: &mut Sides, mix: Mix, ops: &[Op]) -> io::Result<Verdict> {
    if mix == Mix::Unseen { unseen::differ(sides, ops) } else { sides.differ(mix.scope(), ops) }
}

fn shortened(
    sides: &mut Sides,
    mix: Mix,
    ops: &[Op],
    first: Difference,
    drawn: Option<(u64, u64)>,
    stop: &dyn Fn() -> bool,
) -> io::Result<Divergence> {
    let again = shrink(ops, stop, |ops| differ(sides, mix, ops))?;
    let once = again.is_none();
    let (ops, Difference { at, kernel, model }) = again.unwrap_or_else(|| (ops.to_vec(), first));
    Ok(Divergence { mix, drawn, ops, at, kernel, model, once, history: None })
}

/// Compares one sequence, as given.
///
/// # Errors
/// As [`Check::run`].
pub fn compare(mix: Mix, ops: &[Op]) -> io::Result<Option<Divergence>> {
    Ok(match differ(&mut Sides::new()?, mix, ops)? {
        Verdict::Differ(Difference { at, kernel, model }) => {
            Some(Divergence { mix, drawn: None, ops: ops.to_vec(), at, kernel, model, once: false, history: None })
        }
        _ => None,
    })
}

/// For tests: model and kernel agree about a sequence, or this kernel lacks what it needs, which is
/// printed.
///
/// # Panics
/// Where they do not, with the divergence; and where no process could be made.
pub fn agree(mix: Mix, ops: &[Op]) {
    let mut sides = Sides::new().expect("memory and files");
    let abilities = Abilities::of(&mut sides).expect("a process in which to make calls");
    let refused = sides.refusal_of(ops);
    match (abilities.shapes(mix), refused) {
        (Err(why), _) => println!("skipped: {why}"),
        (Ok(_), Some(refused)) => println!("skipped: {}", refusal(refused)),
        (Ok(_), None) if !abilities.fill && ops.iter().any(|op| matches!(op, Op::Fill { .. })) => {
            println!("skipped: {TOO_MANY}")
        }
        (Ok(_), None) => {
            if let Some(divergence) = compare(mix, ops).expect("a process in which to make calls") {
                panic!("model and kernel differ\n{divergence}");
            }
        }
    }
}

/// What this kernel, and this process, can do.
pub(crate) struct Abilities {
    /// What the model follows and this kernel lacks: nothing can be compared.
    lacks: Option<String>,
    seal: bool,
    lock_all: bool,
    heap: bool,
    segments: bool,
    merge_pages: bool,
    huge: bool,
    uffd: bool,
    /// As many areas as there may be can be made.
    pub(crate) fill: bool,
}

impl Abilities {
    pub(crate) fn of(sides: &mut Sides) -> io::Result<Abilities> {
        let rw = |page: u64, prot| Op::call(libc::SYS_mmap, &[at(page), PAGE, prot, 0x32, fd::NONE, 0]);
        let ops = [
            rw(0, 3),
            rw(1, 1),
            Op::call(SYS_MSEAL, &[at(0), PAGE]),
            Op::call(libc::SYS_mlockall, &[1]),
            Op::Heap { at: at(20) },
            Op::call(libc::SYS_shmat, &[segment::ONE, at(30)]),
            // PR_SET_MEMORY_MERGE.
            Op::call(libc::SYS_prctl, &[67, 1]),
            // Memory in huge pages that asks for none.
            Op::call(libc::SYS_mmap, &[at(HUGE_PAGES), PAGE, 3, 0x4_4032, fd::NONE, 0]),
            Op::call(libc::SYS_mmap, &[at(HUGE_PAGES), PAGE, 1, 0x4011, fd::HUGE, 0]),
        ];
        let out = sides.kernel.run(&ops, Scope::Window)?;
        let results: Vec<i64> = out.frames().1.map(|(ret, _)| ret).collect();
        let occupied = out.frames().0.next().is_some();
        let lacks = occupied.then(|| "something is in the window of the calls, at 64 GiB".to_owned());
        let short = sides.kernel.has_short_files();
        let lacks = lacks.or(short.then(|| "files are limited to less than 1 MiB (ulimit -f)".to_owned()));
        let strict = matches!(sides.process.overcommit, Overcommit::Never { .. });
        let lacks = lacks
            .or(strict.then(|| "vm.overcommit_memory is 2: what others have charged cannot be foretold".to_owned()));
        let Limits { address_space, data, .. } = sides.process.limits;
        let limited = address_space != Limit::NONE || data != Limit::NONE;
        let lacks = lacks.or(limited.then(|| {
            "memory is limited (ulimit -v, -d): how much of it samara itself has is not the model's to know".to_owned()
        }));
        let nothing = sides.refusal_of(&[Op::call(libc::SYS_mmap, &[])]);
        let lacks = lacks.or(nothing.map(refusal));
        let well = |i: usize| results.get(i).is_some_and(|ret| *ret >= 0);
        let (seal, lock_all) = (well(2), well(3) && sides.process.caps.contains(Caps::IPC_LOCK));
        let register = [Op::Uffd { on: true, at: at(0), len: PAGE }];
        let uffd = sides.kernel.run(&register, Scope::Window).is_ok_and(|out| out.ended == Ended::Done);
        let (heap, segments, merge_pages) = (well(4), well(5), well(6));
        let huge = well(7) && well(8) && no_huge_pages();
        let fill = sides.kernel.max_map_count() <= 300_000;
        Ok(Abilities { lacks, seal, lock_all, heap, segments, merge_pages, huge, uffd, fill })
    }

    /// The shapes of a mix as this kernel can have them, and what was left out; or why it cannot be
    /// run at all.
    pub(crate) fn shapes(&self, mix: Mix) -> Result<(Vec<Shape>, Vec<String>), String> {
        if let Some(lacks) = &self.lacks {
            return Err(lacks.clone());
        }
        match mix {
            Mix::Uffd if !self.uffd => {
                Err(NO_UFFD)?;
            }
            Mix::Huge if !self.huge => Err(NO_HUGE)?,
            Mix::Heap if !self.heap => Err("a heap cannot be placed (PR_SET_MM_MAP)")?,
            Mix::Free => predictable()?,
            _ => {}
        }
        let (mut shapes, mut left_out) = (mix.shapes(), Vec::new());
        type Part = fn(&mut Shape) -> &mut bool;
        let parts: [(bool, Part, &str); 7] = [
            (self.seal, |s| &mut s.seal, "mseal: this kernel lacks it, or refuses it"),
            (self.lock_all, |s| &mut s.lock_all, "mlockall: this process may not lock all that it has"),
            (self.heap, |s| &mut s.heap, "brk: a heap cannot be placed (PR_SET_MM_MAP)"),
            (self.segments, |s| &mut s.segments, "shmat: there are no System V segments"),
            (self.huge, |s| &mut s.huge, NO_HUGE),
            (self.uffd, |s| &mut s.uffd, NO_UFFD),
            (self.merge_pages, |s| &mut s.merge_pages, "PR_SET_MEMORY_MERGE: this kernel lacks it, or refuses it"),
        ];
        for (_, part, why) in parts.iter().filter(|(able, ..)| !able) {
            let asked = shapes.iter_mut().fold(false, |asked, shape| asked | std::mem::take(part(shape)));
            left_out.extend(asked.then(|| (*why).to_owned()));
        }
        if !self.fill && shapes.iter().any(|shape| shape.fill.is_some()) {
            shapes.retain(|shape| shape.fill.is_none());
            left_out.push(TOO_MANY.to_owned());
        }
        Ok((shapes, left_out))
    }
}

/// Why a call is left out.
pub(crate) fn refusal(Refused { nr, advice, errno }: Refused) -> String {
    let (mut name, errno) = (name(nr).unwrap_or("a call").to_owned(), returned(-errno));
    if let Some(advice) = advice.and_then(|raw| Advice::from_raw(raw as u32)) {
        name = format!("{name} {advice:?}");
    }
    format!("{name}: this process may not make it, or this kernel lacks it: {errno}")
}

const TOO_MANY: &str = "calls near vm.max_map_count, which is above 300,000: too many areas to make";

const NO_UFFD: &str = "no userfaultfd that protects memory from writing (Linux 5.7; privileges, or the kernel's build)";
const NO_HUGE: &str = "huge pages: the default ones are not of 2 MiB, or some are free, which calls would take, or MAP_HUGETLB with MAP_NORESERVE is refused";

/// Whether huge pages are of 2 MiB unless another size is asked for, and calls find none of
/// them.
fn no_huge_pages() -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let none = |name: &str| read(&format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}")).trim() == "0";
    let size = |line: &str| line.strip_prefix("Hugepagesize:").is_some_and(|rest| rest.trim() == "2048 kB");
    read("/proc/meminfo").lines().any(size) && none("free_hugepages") && none("nr_overcommit_hugepages")
}

/// Whether places can be foretold in this process's children; if not, why.
fn predictable() -> Result<(), String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // ADDR_NO_RANDOMIZE; ADDR_COMPAT_LAYOUT.
    let personality = u32::from_str_radix(read("/proc/self/personality").trim(), 16).unwrap_or(0);
    if personality & 0x4_0000 == 0 {
        return Err(
            "addresses are random in this process: ADDR_NO_RANDOMIZE is not set, or refused (setarch -R)".to_owned()
        );
    }
    if personality & 0x20_0000 != 0 || read("/proc/sys/vm/legacy_va_layout").trim() == "1" {
        return Err("address spaces have their old layout here (vm.legacy_va_layout)".to_owned());
    }
    Ok(())
}
