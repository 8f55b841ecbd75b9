//! `instructions`: the instructions of each operation of samara's tree, and of calls of address
//! spaces, counted by valgrind's callgrind, against the record in
//! `bench/instructions.txt`. Counts do not depend on how busy the machine is.
//!
//! Each line of the record has a case and its count. The head has the search method for nodes that
//! was in force: counts of another method are not comparable. A third column has the misses of a
//! simulated instruction cache, for information only. Each case runs in a new process
//! ([`CountArgs`]); callgrind counts only within the functions called `counted_*`.

use crate::data::{BASE, Data, Item, SLOT};
use crate::mm::Number;
use samara::search::{Level, force};
use samara::{End, FencedDomain, GapQuery, RangeMap};
use samara_mm::{
    Access, AddressSpace, Caller, Config, Errno, Faulter, Layout, Linux, MapRequest, Plan, Prot, SharedAddressSpace,
    Sleep,
};
use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

/// Arguments of `instructions`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Write the record anew instead of comparing with it.
    #[arg(long)]
    pub update: bool,
    /// Tolerated percentage above the record.
    #[arg(long, default_value_t = 5.0)]
    pub tolerance: f64,
}

/// Arguments of one counted operation.
#[derive(Clone, Debug, clap::Args)]
pub struct CountArgs {
    /// The case.
    case: String,
}

/// Ranges in the map.
const N: usize = 20_000;
/// Repetitions of the cases that do one operation at a time.
const OPS: usize = 20_000;

/// Text in the head of the record, before the name of the search.
const SEARCH: &str = "; search of a node: ";

type Tree = RangeMap<u64, u64>;
/// The counted code; returns the number of operations or entries.
type Count = fn(&Data, &mut Tree) -> usize;

const CASES: [(&str, Count); 22] = [
    ("lookup", |data, tree| {
        let (keys, want) = data.probes(1, OPS);
        assert_eq!(counted_lookup(tree, &keys), want);
        OPS
    }),
    ("at_or_before", |data, tree| {
        let (keys, _) = data.probes(1, OPS);
        let want = keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(data.before(*key)));
        assert_eq!(counted_before(tree, &keys), want);
        OPS
    }),
    ("replace", |data, tree| {
        let picks = data.picks(1, OPS);
        let want = picks.iter().map(|item| item.2).sum::<u64>();
        assert_eq!(counted_replace(tree, &picks), want);
        OPS
    }),
    ("append", |data, _| {
        assert_eq!(counted_fill(&data.items).len(), N);
        N
    }),
    ("random_fill", |data, _| {
        assert_eq!(counted_fill(&data.shuffled).len(), N);
        N
    }),
    ("bulk_build", |data, _| {
        assert_eq!(counted_bulk(data).len(), N);
        N
    }),
    ("iterate", |_, tree| {
        assert_eq!(counted_sum(tree).0, N);
        N
    }),
    ("clone", |_, tree| {
        assert_eq!(counted_clone(tree).len(), N);
        N
    }),
    ("gap_low", |data, tree| {
        counted_gap(tree, BASE, data.end() + 2 * SLOT, End::Lowest);
        OPS
    }),
    ("gap_high", |data, tree| {
        counted_gap(tree, BASE - 2 * SLOT, data.items[N - 1].1, End::Highest);
        OPS
    }),
    ("munmap_mmap", |_, _| {
        let mut space = AddressSpace::new(Config::default());
        let mut random = fastrand::Rng::with_seed(1);
        let mut len = || 1024 * random.u64(1..=32);
        let mut maps: Vec<Map> = (0..MAPS).map(|_| len()).map(|len| (map(&mut space, len), len)).collect();
        let lens: Vec<u64> = (0..OPS).map(|_| len()).collect();
        let pairs: Vec<(usize, u64)> = lens.into_iter().map(|len| (random.usize(0..MAPS), len)).collect();
        counted_pairs(&mut space, &mut maps, &pairs);
        OPS
    }),
    ("owner_pair", |data, _| {
        counted_owner(&mut lone(INSIDE), &data.picks(1, CALLS));
        2 * CALLS
    }),
    ("shared_pair", |data, _| {
        counted_shared(&mut shared(INSIDE).caller(), &data.picks(1, CALLS));
        2 * CALLS
    }),
    ("applied_pair", |data, _| {
        counted_shared(&mut shared(INSIDE).caller_with(applies), &data.picks(1, CALLS));
        2 * CALLS
    }),
    ("brief_pair", |data, _| {
        counted_shared(&mut shared(INSIDE).caller_with(applies).brief(), &data.picks(1, CALLS));
        2 * CALLS
    }),
    ("owner_brk", |_, _| {
        counted_owner_brk(&mut lone(INSIDE));
        2 * CALLS
    }),
    ("shared_brk", |_, _| {
        counted_shared_brk(&mut shared(INSIDE).caller());
        2 * CALLS
    }),
    ("applied_brk", |_, _| {
        counted_shared_brk(&mut shared(INSIDE).caller_with(applies));
        2 * CALLS
    }),
    ("brief_brk", |_, _| {
        counted_shared_brk(&mut shared(INSIDE).caller_with(applies).brief());
        2 * CALLS
    }),
    ("brk_at_end", |_, _| {
        counted_shared_brk(&mut shared(AT_END).caller());
        2 * CALLS
    }),
    ("owner_fault", |data, _| {
        counted_owner_fault(&mut lone(INSIDE), &data.picks(1, CALLS));
        CALLS
    }),
    ("shared_fault", |data, _| {
        counted_shared_fault(&mut shared(INSIDE).faulter(), &data.picks(1, CALLS));
        CALLS
    }),
];

/// Repetitions of the cases of [`lone`] spaces.
const CALLS: usize = 4_000;
/// Areas below the heap, so that the heap is inside its leaf of the tree, and so that it ends it.
const INSIDE: u64 = 1001;
const AT_END: u64 = 1000;
/// Where these areas and the heap begin.
const AREAS_AT: u64 = 0x1000_0000_0000;
const HEAP: u64 = 0x5555_0000_0000;
const PAGE: u64 = 4096;

/// The request that maps area `i`. Areas do not touch.
fn area(i: u64) -> MapRequest<Number> {
    MapRequest::anonymous(AREAS_AT + i * 4 * PAGE, PAGE, Prot::RW)
}

/// A space with this many lone areas of one page below a heap of one page, and twenty above it.
fn lone(areas: u64) -> AddressSpace<Number> {
    let mut space = AddressSpace::new(Config::default());
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
    space.brk(HEAP + PAGE).expect("a heap");
    let above = (0..20).map(|i| (HEAP + (1 << 26) - AREAS_AT) / (4 * PAGE) + i);
    (0..areas).chain(above).for_each(|i| drop(space.map(&area(i)).expect("room for an area")));
    space
}

fn shared(areas: u64) -> SharedAddressSpace<Number> {
    SharedAddressSpace::from_space(lone(areas), FencedDomain::new()).expect("memory for a space")
}

/// A minimal embedder's handling of a plan.
fn applies(plan: &Plan) -> Result<(), Errno> {
    black_box(plan.len());
    Ok(())
}

/// Maps of the address space.
const MAPS: usize = 1024;
/// An address and a length.
type Map = (u64, u64);

#[inline]
fn map(space: &mut AddressSpace<Number>, len: u64) -> u64 {
    space.mmap(&MapRequest::anonymous(0, len, Prot::RW), &mut Linux).expect("room for a map").0
}

#[inline]
fn store(tree: &mut Tree, (first, last, value): Item) {
    tree.insert(first..=last, value).expect("memory for a store");
}

// No closures in these: a closure's name contains the function's name, so callgrind would match it
// too.
#[inline(never)]
fn counted_lookup(tree: &Tree, keys: &[u64]) -> u64 {
    let mut sum = 0;
    for key in keys {
        sum += tree.get(black_box(*key)).map_or(0, |(_, value)| *value);
    }
    sum
}

#[inline(never)]
fn counted_before(tree: &Tree, keys: &[u64]) -> u64 {
    let mut sum: u64 = 0;
    for key in keys {
        sum = sum.wrapping_add(tree.at_or_before(black_box(*key)).map_or(0, |(span, _)| span.last));
    }
    sum
}

#[inline(never)]
fn counted_replace(tree: &mut Tree, picks: &[Item]) -> u64 {
    let mut sum = 0;
    for item in picks {
        sum += tree.remove(item.0).map_or(0, |(_, value)| value);
        store(tree, *item);
    }
    sum
}

#[inline(never)]
fn counted_fill(items: &[Item]) -> Tree {
    let mut tree = Tree::new();
    for item in items {
        store(&mut tree, *item);
    }
    tree
}

#[inline(never)]
fn counted_bulk(data: &Data) -> Tree {
    Tree::from_sorted(data.items.iter().map(|&(first, last, value)| (first..=last, value))).expect("ascending items")
}

#[inline(never)]
fn counted_sum(tree: &Tree) -> (usize, u64) {
    tree.iter()
        .fold((0, 0), |(count, sum), (span, value)| (count + 1, sum.wrapping_add(span.last).wrapping_add(*value)))
}

#[inline(never)]
fn counted_clone(tree: &Tree) -> Tree {
    tree.clone()
}

#[inline(never)]
fn counted_gap(tree: &Tree, low: u64, high: u64, end: End) {
    for _ in 0..OPS {
        let query = GapQuery::new(black_box(SLOT)).within(low..=high).from(end);
        assert!(black_box(tree).find_gap(&query).is_some());
    }
}

/// The pairs of [`munmap_mmap`](crate::workloads::munmap_mmap).
#[inline(never)]
fn counted_pairs(space: &mut AddressSpace<Number>, maps: &mut [Map], pairs: &[(usize, u64)]) {
    for &(i, len) in pairs {
        space.unmap(maps[i].0, maps[i].1).expect("a map that goes");
        maps[i] = (map(space, len), len);
    }
}

/// A random area is unmapped and mapped again.
#[inline(never)]
fn counted_owner(space: &mut AddressSpace<Number>, picks: &[Item]) {
    for item in picks {
        let area = area(item.0 / SLOT % AT_END);
        space.unmap(area.start, PAGE).expect("an area that goes");
        space.map(&area).expect("an area that comes");
    }
}

/// As [`counted_owner`].
#[inline(never)]
fn counted_shared<F: FnMut(&Plan) -> Result<(), Errno>>(
    caller: &mut Caller<'_, Number, FencedDomain, Sleep, F>,
    picks: &[Item],
) {
    for item in picks {
        let area = area(item.0 / SLOT % AT_END);
        caller.unmap(area.start, PAGE).expect("an area that goes");
        caller.map(&area).expect("an area that comes");
    }
}

/// The break moves up a page and back.
#[inline(never)]
fn counted_owner_brk(space: &mut AddressSpace<Number>) {
    for _ in 0..CALLS {
        space.brk(HEAP + 2 * PAGE).expect("room for the heap");
        space.brk(HEAP + PAGE).expect("a heap that shrinks");
    }
}

/// As [`counted_owner_brk`].
#[inline(never)]
fn counted_shared_brk<F: FnMut(&Plan) -> Result<(), Errno>>(caller: &mut Caller<'_, Number, FencedDomain, Sleep, F>) {
    for _ in 0..CALLS {
        caller.brk(HEAP + 2 * PAGE).expect("room for the heap");
        caller.brk(HEAP + PAGE).expect("a heap that shrinks");
    }
}

/// A read fault in a random area.
#[inline(never)]
fn counted_owner_fault(space: &mut AddressSpace<Number>, picks: &[Item]) {
    for item in picks {
        space.fault(area(item.0 / SLOT % AT_END).start, Access::Read).expect("an area that is read");
    }
}

/// As [`counted_owner_fault`], with the guard.
#[inline(never)]
fn counted_shared_fault(faulter: &mut Faulter<'_, Number, FencedDomain, Sleep>, picks: &[Item]) {
    for item in picks {
        drop(faulter.fault(area(item.0 / SLOT % AT_END).start, Access::Read).expect("an area that is read"));
    }
}

/// Runs one case once, for callgrind to count.
///
/// # Errors
/// There is no such case.
pub fn count(args: &CountArgs) -> Result<(), String> {
    let (_, case) =
        CASES.iter().find(|(name, _)| *name == args.case).ok_or_else(|| format!("no case {}", args.case))?;
    let data = Data::new(N);
    let mut tree = Tree::new();
    data.shuffled.iter().for_each(|item| store(&mut tree, *item));
    let ops = case(&data, &mut tree);
    // The best available search, which is in force: valgrind may support less than the processor.
    println!("{ops} {:?}", force(Level::Avx512));
    Ok(())
}

/// Counts every case and compares with the record, or writes it.
///
/// # Errors
/// Valgrind cannot be run, the record is of another search method, or a count is above the record
/// by more than the tolerance.
pub fn run(args: &Args) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt");
    let record = if args.update { String::new() } else { read(&path)? };
    let of = record.lines().next().and_then(|head| head.split_once(SEARCH)).map(|(_, of)| of);
    let mut text = String::new();
    let mut worse = Vec::new();
    for (name, _) in CASES {
        let ((counted, misses), search) = callgrind(name)?;
        if text.is_empty() {
            text = format!(
                "# Instructions of an operation (or of an entry) at {N} ranges, and misses of an instruction cache of 32 KiB: samara-bench instructions --update{SEARCH}{search}\n"
            );
        }
        if !args.update && of != Some(&search) {
            return Err(format!(
                "{} was recorded with the search {}, and valgrind here has {search}: nothing to compare with",
                path.display(),
                of.unwrap_or("(unknown)")
            ));
        }
        let _ = writeln!(text, "{name} {counted:.1} {misses:.2}");
        if args.update {
            println!("{name:<12} {counted:>10.1}  instruction cache {misses:>7.2}");
            continue;
        }
        let recorded: f64 = record
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split(' ').next()?.parse().ok())
            .ok_or_else(|| format!("{} has no line for {name}: write it anew with --update", path.display()))?;
        let percent = (counted / recorded - 1.0) * 100.0;
        println!(
            "{name:<12} {counted:>10.1}  recorded {recorded:>10.1}  {percent:+.1} %  instruction cache {misses:>7.2}"
        );
        if percent > args.tolerance {
            worse.push(name);
        }
    }
    if args.update {
        return std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()));
    }
    if worse.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "more instructions than recorded, by over {} %: {}. If that is the price of something, write the record anew: \
             cargo run --release -p samara-bench -- instructions --update",
            args.tolerance,
            worse.join(", ")
        ))
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Instructions of one operation of `case`, its misses of the instruction cache, and the search of
/// a node that did it.
fn callgrind(case: &str) -> Result<((f64, f64), String), String> {
    let this = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .args(["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"])
        .arg("--toggle-collect=*counted_*")
        .arg(this)
        .args(["count", case])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error}"))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("{case} under valgrind ended with {}: {stderr}", output.status));
    }
    let (ops, search) = stdout.trim().split_once(' ').ok_or_else(|| format!("{case} printed {stdout:?}"))?;
    let ops: f64 = ops.parse().map_err(|_| format!("{case} printed {stdout:?}"))?;
    // Instructions, reads and writes of data, misses of the instruction cache, and others.
    let collected = stderr.lines().find_map(|line| Some(line.split_once("Collected :")?.1.split_whitespace()));
    let counts: Vec<f64> = collected.into_iter().flatten().filter_map(|word| word.parse().ok()).collect();
    match (counts.first(), counts.get(3)) {
        (Some(count), Some(misses)) if *count > 0.0 => Ok(((count / ops, misses / ops), search.to_owned())),
        _ => Err(format!("callgrind counted nothing of {case}: {stderr}")),
    }
}
