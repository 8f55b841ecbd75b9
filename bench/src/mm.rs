//! `mm`: an address space of samara-mm against the running kernel: nanoseconds of the same calls
//! with the same arguments, one after the other in one process.
//!
//! Both start from the same areas. The model is called by raw call numbers, with limits and
//! accounting on; the kernel by system calls. Rounds are interleaved. Every answer is asserted:
//! zero, or the requested address.

use crate::kernel::{self, Window};
use crate::progress::progress;
use crate::stats::{Row, Sample, table};
use samara_mm::linux::{self, BRK, MADVISE, MLOCK2, MMAP, MPROTECT, MREMAP, MUNLOCK, MUNMAP};
use samara_mm::{AddressSpace, Backing, Caps, Config, FileId, Layout, Limit, Limits, Linux, Overcommit};
use std::time::Instant;

/// Arguments of `mm`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Number of areas, besides the program's own.
    #[arg(long, value_delimiter = ',', default_value = "1000,30000", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub n: Vec<u64>,
    /// Counted rounds.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these cases.
    #[arg(long, value_delimiter = ',')]
    pub case: Vec<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

const PAGE: u64 = 4096;
/// Pages of a slot: an area of at most eight pages, and a hole after it.
const SLOT: u64 = 9;
/// Start of the model's heap.
const HEAP: u64 = 0x5555_0000_0000;

struct NoFiles;
impl<B> linux::Host<B> for NoFiles {}

/// Files by number: a backing of one word, for users that keep their files elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number(u64);

impl Backing for Number {
    fn dev(&self) -> (u32, u32) {
        (0, 0)
    }
    fn inode(&self) -> u64 {
        self.0
    }
    fn name(&self) -> &str {
        ""
    }
}

/// The measured address space.
enum Subject<'a> {
    Model(Box<AddressSpace<Number>>),
    /// The model with a backing of five words.
    FileIds(Box<AddressSpace<FileId>>),
    Kernel(&'a Window),
}

impl Subject<'_> {
    fn name(&self) -> &'static str {
        match self {
            Subject::Model(_) => "samara",
            Subject::FileIds(_) => "samara_file_id",
            Subject::Kernel(_) => "linux",
        }
    }

    fn call(&mut self, nr: u64, args: [u64; 6]) -> i64 {
        match self {
            Subject::Model(space) => answer(space, nr, args),
            Subject::FileIds(space) => answer(space, nr, args),
            Subject::Kernel(window) => window.call(nr, args),
        }
    }

    /// Makes `times` pairs of calls.
    fn brk(&mut self, times: u64) -> bool {
        match self {
            Subject::Model(_) | Subject::FileIds(_) => (0..times).all(|_| {
                let up = HEAP + PAGE;
                self.call(BRK, [up, 0, 0, 0, 0, 0]) == up as i64 && self.call(BRK, [HEAP, 0, 0, 0, 0, 0]) == HEAP as i64
            }),
            Subject::Kernel(_) => kernel::heap_up_and_down(times),
        }
    }

    fn fork(&mut self) -> bool {
        match self {
            Subject::Model(space) => space.fork().is_ok_and(|child| child.len() == space.len()),
            Subject::FileIds(space) => space.fork().is_ok_and(|child| child.len() == space.len()),
            Subject::Kernel(_) => kernel::fork_and_wait(0),
        }
    }
}

fn answer<B: Backing>(space: &mut AddressSpace<B>, nr: u64, args: [u64; 6]) -> i64 {
    linux::call(space, &mut NoFiles, &mut Linux, nr, args).map_or(-38, |called| called.result)
}

/// Random numbers, the same for all.
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

/// Runs a case `times` times, and returns the number of calls.
type Case = fn(&mut Subject<'_>, &Place, &mut Rng, u64) -> u64;

/// The places of the areas.
struct Place {
    start: u64,
    slots: u64,
}

impl Place {
    fn slot(&self, i: u64) -> u64 {
        self.start + i * SLOT * PAGE
    }
}

const FIXED: u64 = 0x32;
const RW: u64 = 3;
const READ: u64 = 1;

fn is(answer: i64, expected: u64) {
    assert_eq!(answer, expected as i64, "an answer that both must give");
}

/// A random area is unmapped, and one of another length is mapped in its slot.
fn munmap_mmap(s: &mut Subject<'_>, p: &Place, r: &mut Rng, times: u64) -> u64 {
    for _ in 0..times {
        let at = p.slot(r.below(p.slots));
        is(s.call(MUNMAP, [at, 8 * PAGE, 0, 0, 0, 0]), 0);
        is(s.call(MMAP, [at, (1 + r.below(8)) * PAGE, RW, FIXED, u64::MAX, 0]), at);
    }
    2 * times
}

/// The heap grows by a page, and shrinks again.
fn brk(s: &mut Subject<'_>, _: &Place, _: &mut Rng, times: u64) -> u64 {
    assert!(s.brk(times));
    2 * times
}

/// The middle of an area becomes read-only, and writable again: two splits, and two merges.
fn mprotect(s: &mut Subject<'_>, p: &Place, r: &mut Rng, times: u64) -> u64 {
    for _ in 0..times {
        let at = p.slot(r.below(p.slots));
        is(s.call(MMAP, [at, 3 * PAGE, RW, FIXED, u64::MAX, 0]), at);
        is(s.call(MPROTECT, [at + PAGE, PAGE, READ, 0, 0, 0]), 0);
        is(s.call(MPROTECT, [at + PAGE, PAGE, RW, 0, 0, 0]), 0);
    }
    3 * times
}

/// An area is moved to the hole after it and back.
fn mremap(s: &mut Subject<'_>, p: &Place, r: &mut Rng, times: u64) -> u64 {
    for _ in 0..times {
        let at = p.slot(r.below(p.slots));
        let to = at + 4 * PAGE;
        is(s.call(MMAP, [at, 8 * PAGE, RW, FIXED, u64::MAX, 0]), at);
        is(s.call(MUNMAP, [to, 4 * PAGE, 0, 0, 0, 0]), 0);
        is(s.call(MREMAP, [at, 4 * PAGE, 4 * PAGE, 3, to, 0]), to);
        is(s.call(MREMAP, [to, 4 * PAGE, 4 * PAGE, 3, at, 0]), at);
    }
    4 * times
}

/// The middle of an area gets MADV_DONTFORK, then MADV_DOFORK.
fn madvise(s: &mut Subject<'_>, p: &Place, r: &mut Rng, times: u64) -> u64 {
    for _ in 0..times {
        let at = p.slot(r.below(p.slots));
        is(s.call(MMAP, [at, 3 * PAGE, RW, FIXED, u64::MAX, 0]), at);
        is(s.call(MADVISE, [at + PAGE, PAGE, 10, 0, 0, 0]), 0);
        is(s.call(MADVISE, [at + PAGE, PAGE, 11, 0, 0, 0]), 0);
    }
    3 * times
}

/// An area is locked on fault, and unlocked.
fn mlock(s: &mut Subject<'_>, p: &Place, r: &mut Rng, times: u64) -> u64 {
    for _ in 0..times {
        let at = p.slot(r.below(p.slots));
        is(s.call(MMAP, [at, PAGE, RW, FIXED, u64::MAX, 0]), at);
        is(s.call(MLOCK2, [at, PAGE, 1, 0, 0, 0]), 0);
        is(s.call(MUNLOCK, [at, PAGE, 0, 0, 0, 0]), 0);
    }
    3 * times
}

/// The space is copied. The kernel also makes a process, and waits for its end.
fn fork(s: &mut Subject<'_>, _: &Place, _: &mut Rng, times: u64) -> u64 {
    let times = times.div_ceil(1000);
    (0..times).for_each(|_| assert!(s.fork()));
    times
}

/// The cases by name.
const CASES: [(&str, Case); 7] = [
    ("munmap_mmap", munmap_mmap),
    ("brk", brk),
    ("mprotect", mprotect),
    ("mremap", mremap),
    ("madvise", madvise),
    ("mlock", mlock),
    ("fork", fork),
];

/// Runs the suite and prints its rows.
///
/// # Errors
/// A case of no such name; no room for the window, or more areas than this kernel allows.
pub fn run(args: &Args) -> Result<(), String> {
    if let Some(bad) = args.case.iter().find(|c| CASES.iter().all(|(name, _)| name != c)) {
        let known = CASES.map(|(name, _)| name).join(", ");
        return Err(format!("there is no case {bad:?}: the cases are {known}"));
    }
    let wanted = |name: &str| args.case.is_empty() || args.case.iter().any(|c| c == name);
    let cases: Vec<_> = CASES.into_iter().filter(|(name, _)| wanted(name)).collect();
    let bar = progress((args.n.len() * cases.len()) as u64 * u64::from(args.rounds));
    let mut rows = Vec::new();
    for &n in &args.n {
        for &(name, case) in &cases {
            bar.set_message(format!("{name}, {n}"));
            let times = measure(n, case, args.rounds, || bar.inc(1))?;
            rows.extend(times.into_iter().map(|(subject, times)| Row {
                suite: "mm",
                case: name.to_owned(),
                n: n as usize,
                subject: subject.to_owned(),
                sample: Sample::new(times),
                unit: "ns",
                threads: None,
            }));
        }
    }
    bar.finish_and_clear();
    if args.json {
        rows.iter().for_each(|row| println!("{}", row.json()));
    } else {
        print!("{}", table(&rows, "linux"));
    }
    Ok(())
}

/// Nanoseconds of a call, for each subject in each round.
fn measure(n: u64, case: Case, rounds: u32, mut done: impl FnMut()) -> Result<Vec<(&'static str, Vec<f64>)>, String> {
    let window = Window::new(n * SLOT * PAGE).map_err(|why| format!("no window for {n} areas: {why}"))?;
    let place = Place { start: window.start(), slots: n };
    let mut subjects =
        [Subject::Model(Box::new(model())), Subject::FileIds(Box::new(model())), Subject::Kernel(&window)];
    let mut rng = Rng(1);
    for i in 0..n {
        let args = [place.slot(i), (1 + rng.below(8)) * PAGE, RW, FIXED, u64::MAX, 0];
        for s in &mut subjects {
            if s.call(MMAP, args) != args[0] as i64 {
                return Err(format!("{} refuses area {i} of {n}: see vm.max_map_count", s.name()));
            }
        }
    }
    let mut times: Vec<(&'static str, Vec<f64>)> = subjects.iter().map(|s| (s.name(), Vec::new())).collect();
    for round in 0..=rounds {
        for turn in 0..subjects.len() {
            let which = (turn + round as usize) % subjects.len();
            // The same calls for all.
            let mut rng = Rng(round.into());
            let start = Instant::now();
            let calls = case(&mut subjects[which], &place, &mut rng, 20_000);
            let nanos = start.elapsed().as_nanos() as f64 / calls as f64;
            if round > 0 {
                times[which].1.push(nanos);
            }
        }
        if round > 0 {
            done();
        }
    }
    Ok(times)
}

/// An address space with the limits of a process.
fn model<B: Backing>() -> AddressSpace<B> {
    let overcommit = Overcommit::Guess { total: 1 << 40 };
    let mut space = AddressSpace::new(Config { overcommit, ..Config::default() });
    let limit = Limit::bytes(1 << 46);
    space.set_limits(Limits { address_space: limit, data: limit, stack: Limit::bytes(8 << 20), locked: limit });
    space.set_caps(Caps::empty());
    space.set_layout(Layout { start_brk: HEAP - PAGE, brk: HEAP - PAGE, start_stack: 0, data: 0 });
    assert!(space.brk(HEAP).is_ok(), "a heap");
    space
}
