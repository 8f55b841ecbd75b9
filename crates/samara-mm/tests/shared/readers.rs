//! Readers of the whole map beside writers: texts of maps and smaps, and PROCMAP_QUERY.

use crate::rng::Rng;
use crate::world::{ARENA, Call, HEAP, PAGE, space};
use crate::{seed, times};
use samara_mm::*;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type Space = SharedAddressSpace<FileId>;

fn file(inode: u64, name: &str) -> FileId {
    FileId { dev: (8, 1), inode, open: inode, name: name.into() }
}

/// A usage that tells the area that it is of.
fn usage(at: &Placed<'_, FileId>) -> Usage {
    let named = at.extras().name.is_some() || at.extras().policy.is_some();
    Usage { rss: at.start / PAGE, pss: at.area.flags.bits(), swap: named.into(), ..Usage::default() }
}

/// What readers see is what a snapshot shows, in all forms. `space` is read first: a snapshot
/// stores what is inherited.
fn assert_like_a_snapshot(space: &Space, r: &mut Rng, why: &dyn Fn() -> String) {
    let (text, records, maps) = (space.to_string(), space.smaps(usage).to_string(), space.maps());
    let queries = [(); 4].map(|()| Query {
        addr: [0, ARENA + r.below(40) * PAGE, HEAP + r.below(9) * PAGE, u64::MAX][r.below(4) as usize],
        flags: QueryFlags::from_bits_retain(r.below(0x40)),
        name_size: r.pick(&[0, 6, 4096]),
    });
    let answers = queries.map(|query| maps.query(&query));
    let from = ARENA + r.below(40) * PAGE;
    let (at, rest) = (maps.line(from).map(|line| line.to_string()), maps.lines(from).map(|line| line.to_string()));
    let rest: Vec<_> = rest.collect();
    let snapshot = space.snapshot().unwrap();
    assert_eq!(text, snapshot.to_string(), "{}", why());
    assert_eq!(records, snapshot.smaps(usage).to_string(), "{}", why());
    assert_eq!(at, snapshot.line(from).map(|line| line.to_string()), "{}", why());
    for (query, answer) in queries.iter().zip(answers) {
        assert_eq!(answer, snapshot.query(query), "{query:x?} {}", why());
    }
    let shown = |line: &Line<'_, FileId>| line.end() > from;
    let lines = snapshot.lines().filter(shown).map(|line| trimmed(&line, line.start().max(from)));
    assert!(rest.iter().cloned().eq(lines), "{rest:?}\n{snapshot}{}", why());
}

/// The text of the part of an area that begins at `start`.
fn trimmed(line: &Line<'_, FileId>, start: u64) -> String {
    let (text, at) = (line.to_string(), line.placed());
    let text = text.replacen(&format!("{:08x}-", at.start), &format!("{start:08x}-"), 1);
    let offset = |by| at.offset(PageSize::K4) + by;
    match &at.area.object {
        Object::File(_) => {
            text.replacen(&format!("{:08x} 08", offset(0)), &format!("{:08x} 08", offset(start - at.start)), 1)
        }
        _ => text,
    }
}

/// A space with some of each kind of area.
fn furnished(r: &mut Rng) -> AddressSpace<FileId> {
    let mut space = space(r);
    if r.one_in(2) {
        let config = Config { vsyscall: true, protection_keys: true, max_map_count: 65530, ..space.config().clone() };
        space = AddressSpace::new(config);
    }
    let start_stack = ARENA + 40 * PAGE + 8;
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack, data: 0 });
    let special = Area::new(Flags::from_letters("rd ex mr mw me de sd"), Object::Special("[vdso]".into()), 0);
    space.import(0x7000_0000, 0x7000_2000, special).unwrap();
    let odd = Area::new(Flags::from_letters("rd sh mr mw me ms"), Object::File(file(9, "/a\nb\\ (deleted)")), 3);
    space.import(0x7100_0000, 0x7100_2000, odd).unwrap();
    space.import(0x7200_0000, 0x7220_0000, huge()).unwrap();
    let stack = Area::new(Flags::from_letters("rd wr mr mw me gd ac"), Object::Anonymous, 0);
    space.import(ARENA + 40 * PAGE, ARENA + 41 * PAGE, stack).unwrap();
    space
}

fn huge() -> Area<FileId> {
    let flags = Flags::from_letters("rd wr sh mr mw me ms ht de");
    Area::new(flags, Object::File(file(10, "/anon_hugepage (deleted)")), 0)
}

#[test]
fn texts_are_those_of_a_snapshot() {
    let seed = seed();
    let (mut forks, mut named) = (0, 0);
    for round in 0..times(150) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0x4ead);
        let shared = Space::from_space(furnished(&mut r), FencedDomain::new()).unwrap();
        let mut family = vec![shared];
        for step in 0..60 {
            let why = || format!("SAMARA_SEED={} step {step}", seed.wrapping_add(round));
            let space = &family[r.below(family.len() as u64) as usize];
            let (at, len) = (ARENA + r.below(24) * PAGE, (1 + r.below(6)) * PAGE);
            match r.below(24) {
                0 if family.len() < 4 => {
                    if let Ok(child) = space.fork() {
                        family.push(child);
                        forks += 1;
                    }
                }
                1 => drop(space.set_anon_name(at, len, Some("a name".into()))),
                2 => drop(space.set_policy(at, len, Some(Policy { mode: 1, nodes: [1; Policy::WORDS], home: None }))),
                3 => drop(space.register_uffd(at, len, UFFD, Flags::UFFD_MISSING)),
                4 => drop(space.advise(at, len, Advice::WipeOnFork)),
                _ => {
                    let call = Call::random(&mut r, 24);
                    call.on_shared(&mut space.caller(), &mut space.faulter());
                }
            }
            let space = &family[r.below(family.len() as u64) as usize];
            if r.one_in(3) {
                named += u64::from(space.to_string().contains("[anon:"));
                assert_like_a_snapshot(space, &mut r, &why);
            }
        }
        for space in family {
            assert_like_a_snapshot(&space, &mut r, &|| format!("SAMARA_SEED={}", seed.wrapping_add(round)));
            space.check().unwrap();
        }
    }
    println!("{forks} forks, {named} texts with names, seed {seed}");
    assert!(crate::FEW || (forks > 50 && named > 100));
}

/// A line that begins within its area has the name of the area.
#[test]
fn the_rest_of_the_heap_is_the_heap() {
    let space = busy();
    space.brk(HEAP + 2 * PAGE).unwrap();
    space.map(&MapRequest::anonymous(HEAP + 2 * PAGE, 2 * PAGE, Prot::RW)).unwrap();
    let maps = space.maps();
    let rest = maps.lines(HEAP + 3 * PAGE).next().unwrap();
    assert_eq!(rest.to_string(), format!("{:<73}[heap]", "50003000-50004000 rw-p 00000000 00:00 0"));
    assert_eq!(maps.lines(HEAP).next().unwrap().end(), rest.end());
}

/// An area that took the place of one that is shown already is shown from where that one ended.
#[test]
fn an_area_in_place_of_a_shown_one_begins_after_it() {
    let space = busy();
    let at = |page, pages, inode| {
        MapRequest::file(TAGGED + page * PAGE, pages * PAGE, Prot::READ, MapFlags::PRIVATE, file(inode, "/tagged"), 0)
    };
    space.map(&at(4, 4, 7)).unwrap();
    let maps = space.maps();
    let mut lines = maps.lines(TAGGED);
    assert_eq!(read(&lines.next().unwrap().to_string()).end, TAGGED + 8 * PAGE);
    space.unmap(TAGGED, 64 * PAGE).unwrap();
    space.map(&at(2, 10, 8)).unwrap();
    let rest = read(&lines.next().unwrap().to_string());
    assert_eq!((rest.start, rest.end), (TAGGED + 8 * PAGE, TAGGED + 12 * PAGE));
    assert_eq!((rest.inode, rest.offset), (8, 6 * PAGE));
}

const UFFD: Uffd = Uffd { id: 1, fork_events: false, remap_events: false };

// The regions of the tests beside writers. Each writer has its own.

/// Areas that stay, one a MiB.
const STAY: u64 = 0x1_0000_0000;
const STAYING: u64 = 150;
/// A map of one file whose protection changes in parts: it is split and merged, and never away.
const SPLIT: u64 = 0x2_0000_0000;
const SPLIT_PAGES: u64 = 48;
/// One area at a time; its inode tells everything else of it.
const TAGGED: u64 = 0x3_0000_0000;
/// An area that moves between two places.
const MOVED: [u64; 2] = [0x4_0000_0000, 0x4_0010_0000];
/// An area whose name and protection change together.
const NAMED: u64 = 0x6_0000_0000;
/// The heap is at [`HEAP`], with an area that comes and goes above it.
const HEAP_PAGES: u64 = 8;

/// The area with this inode in the region [`TAGGED`].
fn tagged(inode: u64) -> MapRequest<FileId> {
    let mut r = Rng(inode);
    let prot = r.pick(&[Prot::READ, Prot::RW, Prot::READ | Prot::EXEC]);
    let (at, pages, offset) = (TAGGED + r.below(32) * PAGE, 1 + r.below(16), r.below(1 << 20) * PAGE);
    MapRequest::file(at, pages * PAGE, prot, MapFlags::PRIVATE, file(inode, "/tagged"), offset)
}

/// A line of text, read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    start: u64,
    end: u64,
    prot: String,
    offset: u64,
    inode: u64,
    name: String,
}

/// Reads a line, and asserts that it is written as it should be.
fn read(line: &str) -> Seen {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_else(|| panic!("a torn line: {line}"));
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("a torn line: {line}"));
    let (start, end) = word().split_once('-').unwrap_or_else(|| panic!("a torn line: {line}"));
    let (start, end, prot, offset) = (hex(start), hex(end), word().to_string(), hex(word()));
    assert!(["00:00", "08:01"].contains(&word()), "a torn line: {line}");
    let inode = word().parse().unwrap_or_else(|_| panic!("a torn line: {line}"));
    Seen { start, end, prot, offset, inode, name: words.collect::<Vec<_>>().join(" ") }
}

/// What there was in the region [`SPLIT`]: every area of each state.
#[derive(Default)]
struct Was(Mutex<HashSet<(u64, u64, String)>>);

impl Was {
    /// Takes down the areas that are about to be shown.
    fn add(&self, space: &AddressSpace<FileId>) {
        let lines = space.lines().map(|line| read(&line.to_string()));
        self.0.lock().unwrap().extend(lines.map(|line| (line.start, line.end, line.prot)));
    }

    /// Whether there was this area. If `goes_on`, the line may be the rest of one.
    fn has(&self, line: &Seen, goes_on: bool) -> bool {
        let was = self.0.lock().unwrap();
        let starts = (SPLIT..=line.start).rev().step_by(PAGE as usize).take(if goes_on { usize::MAX } else { 1 });
        starts.into_iter().any(|start| was.contains(&(start, line.end, line.prot.clone())))
    }
}

/// Asserts that an area was there at some moment. `goes_on`: the line before it ended where it
/// begins.
fn assert_was(line: &Seen, was: &Was, goes_on: bool) {
    let pages = |from| (line.start - from) / PAGE;
    let len = (line.end - line.start) / PAGE;
    match line.start {
        HEAP..0x6000_0000 if line.prot == "r--p" => {
            assert_eq!((line.name.as_str(), len), ("", 1), "not the heap: {line:?}");
        }
        HEAP..0x6000_0000 => {
            assert_eq!((line.name.as_str(), line.prot.as_str()), ("[heap]", "rw-p"), "{line:?}");
            assert!(line.start == HEAP || goes_on, "{line:?}");
            assert!([1, 2, 5, HEAP_PAGES].contains(&((line.end - HEAP) / PAGE)), "{line:?}");
        }
        STAY..SPLIT => {
            let n = (line.start - STAY) >> 20;
            assert_eq!(*line, staying(n), "it stays");
        }
        SPLIT..TAGGED => {
            assert_eq!((line.offset, line.inode, line.name.as_str()), (pages(SPLIT) * PAGE, 2, "/split"), "{line:?}");
            assert!(was.has(line, goes_on), "{line:?} {goes_on}");
        }
        TAGGED..0x4_0000_0000 => {
            let MapRequest { start, len, prot, offset, .. } = tagged(line.inode);
            let letter = |of, c| if prot.contains(of) { c } else { '-' };
            let prot = format!("{}{}{}p", letter(Prot::READ, 'r'), letter(Prot::WRITE, 'w'), letter(Prot::EXEC, 'x'));
            let (inode, name) = (line.inode, "/tagged".into());
            // What another area showed, before this one was there, is not shown again.
            let shown = if goes_on { line.start.saturating_sub(start) } else { 0 };
            let (from, offset) = (start + shown, offset + shown);
            assert_eq!(*line, Seen { start: from, end: start + len, prot, offset, inode, name }, "{goes_on}");
        }
        0x4_0000_0000..NAMED => {
            assert!(MOVED.contains(&line.start), "{line:?}");
            let end = line.start + 4 * PAGE;
            let is =
                Seen { end, prot: "r--p".into(), offset: 5 * PAGE, inode: 3, name: "/moved".into(), ..line.clone() };
            assert_eq!(*line, is);
        }
        NAMED.. => {
            let round: u64 = line.name.trim_start_matches("[anon:").trim_end_matches(']').parse().unwrap();
            let prot = ["r--p", "rw-p"][round as usize % 2];
            assert_eq!((line.start, len, line.prot.as_str()), (NAMED, 4, prot), "{line:?}");
        }
        _ => panic!("nothing was there: {line:?}"),
    }
}

fn staying(n: u64) -> Seen {
    let start = STAY + (n << 20);
    Seen { start, end: start + PAGE, prot: "r--p".into(), offset: n * PAGE, inode: 1, name: "/stays".into() }
}

/// Asserts what holds for each listing beside the writers.
fn assert_listing(lines: &[Seen], was: &Was) {
    let mut end = 0;
    for line in lines {
        assert!(end <= line.start && line.start < line.end, "overlaps or descends: {line:?} after {end:x}");
        assert_was(line, was, end == line.start);
        end = line.end;
    }
    let stay = lines.iter().filter(|line| (STAY..SPLIT).contains(&line.start));
    assert_eq!(stay.count() as u64, STAYING, "what stays is shown");
    let split = lines.iter().filter(|line| (SPLIT..TAGGED).contains(&line.start));
    let pages: u64 = split.map(|line| (line.end - line.start) / PAGE).sum();
    assert_eq!(pages, SPLIT_PAGES, "what is mapped all the time is shown: {lines:x?}");
    assert_eq!(lines.last().map(|line| line.start), Some(NAMED));
}

fn busy() -> Space {
    let config = Config { overcommit: Overcommit::Always, ..Config::default() };
    let mut space = AddressSpace::new(config);
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, ..Layout::default() });
    for n in 0..STAYING {
        let at = STAY + (n << 20);
        space.map(&MapRequest::file(at, PAGE, Prot::READ, MapFlags::PRIVATE, file(1, "/stays"), n * PAGE)).unwrap();
    }
    space.map(&split()).unwrap();
    let moved = MapRequest::file(MOVED[0], 4 * PAGE, Prot::READ, MapFlags::PRIVATE, file(3, "/moved"), 5 * PAGE);
    space.map(&moved).unwrap();
    space.map(&MapRequest::anonymous(NAMED, 4 * PAGE, Prot::READ)).unwrap();
    space.set_anon_name(NAMED, 4 * PAGE, Some("0".into())).unwrap();
    Space::from_space(space, FencedDomain::new()).unwrap()
}

fn split() -> MapRequest<FileId> {
    MapRequest::file(SPLIT, SPLIT_PAGES * PAGE, Prot::READ, MapFlags::PRIVATE, file(2, "/split"), 0)
}

/// Reads once.
type Reader<'r> = dyn Fn(&Space, &Was) + Sync + 'r;

/// One writer of each region, and `readers` beside them, each until the writers are done.
fn beside_writers(readers: [&Reader<'_>; 2]) {
    let (space, was, seed) = (busy(), Was::default(), seed());
    let mut model = AddressSpace::new(Config::default());
    model.map(&split()).unwrap();
    was.add(&model);
    let (writing, calls) = (AtomicU64::new(4), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (space, was, writing, calls, stop) = (&space, &was, &writing, &calls, &stop);
        let write = |mut call: Box<dyn FnMut() + Send>| {
            scope.spawn(move || {
                for _ in 0..times(1500) {
                    call();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                if writing.fetch_sub(1, Ordering::Relaxed) == 1 {
                    stop.store(true, Ordering::Relaxed);
                }
            });
        };
        let mut r = Rng(seed);
        write(Box::new(move || {
            let (at, pages) = (SPLIT + r.below(SPLIT_PAGES) * PAGE, 1 + r.below(SPLIT_PAGES));
            let pages = pages.min((SPLIT + SPLIT_PAGES * PAGE - at) / PAGE);
            let prot = r.pick(&[Prot::READ, Prot::READ | Prot::EXEC]);
            model.protect(at, pages * PAGE, prot, None).unwrap();
            was.add(&model);
            space.protect(at, pages * PAGE, prot, None).unwrap();
        }));
        let (mut inode, mut to) = (10, 1);
        write(Box::new(move || {
            inode += 1;
            space.map(&tagged(inode)).unwrap();
            space.unmap(TAGGED, 64 * PAGE).unwrap();
            let (from, flags) = (MOVED[1 - to], RemapFlags::MAYMOVE | RemapFlags::FIXED);
            space.mremap((from, 4 * PAGE), 4 * PAGE, flags, MOVED[to], &mut Linux).unwrap();
            to = 1 - to;
        }));
        write(Box::new(move || {
            let other = |page| MapRequest::anonymous(HEAP + page * PAGE, PAGE, Prot::READ);
            for (pages, above) in [(HEAP_PAGES, HEAP_PAGES + 4), (2, 5), (0, 1), (1, 3), (5, 9), (0, 0)] {
                space.brk(HEAP + pages * PAGE).unwrap();
                space.map(&other(above)).unwrap();
                space.unmap(HEAP + above * PAGE, PAGE).unwrap();
            }
        }));
        let mut round = 0_u64;
        write(Box::new(move || {
            round += 1;
            let change = |space: &mut AddressSpace<FileId>| {
                space.protect(NAMED, 4 * PAGE, [Prot::READ, Prot::RW][round as usize % 2], None)?;
                space.set_anon_name(NAMED, 4 * PAGE, Some(round.to_string().into())).map(|plan| ((), plan))
            };
            space.exclusive(change).unwrap();
        }));
        for reader in readers {
            scope.spawn(move || {
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) || rounds < times(200) {
                    reader(space, was);
                    rounds += 1;
                }
                println!("{rounds} rounds of a reader, {} calls, seed {seed}", calls.load(Ordering::Relaxed));
            });
        }
    });
    space.check().unwrap();
}

#[test]
fn maps_beside_writers() {
    let whole = |space: &Space, was: &Was| {
        let text = space.to_string();
        assert_listing(&text.lines().map(read).collect::<Vec<_>>(), was);
    };
    // In pieces, each of another view.
    let pieces = |space: &Space, was: &Was| {
        let (mut lines, mut from) = (Vec::new(), 0);
        loop {
            let maps = space.maps();
            let Some(line) = maps.lines(from).next() else { break };
            lines.push(read(&line.to_string()));
            from = line.end();
        }
        assert_listing(&lines, was);
    };
    beside_writers([&whole, &pieces]);
}

#[test]
fn smaps_beside_writers() {
    let records = |space: &Space, was: &Was| {
        let text = space.smaps(|at| Usage { rss: at.start / PAGE, ..Usage::default() }).to_string();
        // The last line of a record is that of its flags.
        let mut lines = Vec::new();
        let mut record = String::new();
        for line in text.split_inclusive('\n') {
            record.push_str(line);
            if line.starts_with("VmFlags:") {
                lines.push(read_record(&std::mem::take(&mut record)));
            }
        }
        assert_eq!(record, "");
        assert_listing(&lines, was);
    };
    let one_view = |space: &Space, was: &Was| {
        let maps = space.maps();
        let records = maps.lines(0).map(|line| {
            let rss = line.start() / PAGE;
            line.with_usage(Usage { rss, ..Usage::default() }).to_string()
        });
        let lines: Vec<_> = records.map(|record| read_record(&record)).collect();
        assert_listing(&lines, was);
    };
    beside_writers([&records, &one_view]);
}

fn read_record(record: &str) -> Seen {
    let line = read(record.lines().next().unwrap());
    let of = |name: &str| {
        let found = record.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("torn: {record}"));
        found.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((of("Size:"), of("Rss:")), ((line.end - line.start) / 1024, line.start / PAGE), "{record}");
    let flags = record.lines().find_map(|line| line.strip_prefix("VmFlags: ")).unwrap();
    let has = |letters: &str| flags.split(' ').any(|flag| flag == letters);
    let prot: String =
        [("rd", 'r'), ("wr", 'w'), ("ex", 'x')].iter().map(|(flag, c)| if has(flag) { *c } else { '-' }).collect();
    assert_eq!(prot, line.prot[..3], "{record}");
    line
}

#[test]
fn queries_beside_writers() {
    let any = |space: &Space, was: &Was| {
        let maps = space.maps();
        let mut r = Rng(was.0.lock().unwrap().len() as u64 ^ space.len() as u64);
        for _ in 0..32 {
            let region = r.pick(&[SPLIT, TAGGED, MOVED[0], MOVED[1], HEAP, NAMED]);
            let addr = region + r.below(12) * PAGE;
            let next = r.pick(&[QueryFlags::empty(), QueryFlags::COVERING_OR_NEXT]);
            let asked = r.pick(&[QueryFlags::empty(), QueryFlags::WRITABLE, QueryFlags::EXECUTABLE]);
            let query = Query { addr, flags: next | asked, name_size: 4096 };
            let answer = match maps.query(&query) {
                Ok(answer) => answer,
                // A page of the region SPLIT is always mapped.
                Err(Errno::ENOENT) => {
                    assert!(region != SPLIT || !asked.is_empty(), "{query:x?}");
                    continue;
                }
                Err(errno) => panic!("{errno:?} {query:x?}"),
            };
            assert!(answer.end > addr && (answer.start <= addr || !next.is_empty()), "{query:x?} {answer:x?}");
            assert!(answer.flags.contains(asked), "{query:x?} {answer:x?}");
            if region == SPLIT && asked.is_empty() {
                assert!(answer.start <= addr, "{query:x?} {answer:x?}");
            }
            assert_was(&seen(&answer), was, false);
        }
    };
    let staying_ones = |space: &Space, was: &Was| {
        let maps = space.maps();
        for n in 0..STAYING {
            let is = staying(n);
            let query = Query { addr: is.start + 7, flags: QueryFlags::FILE_BACKED, name_size: 4096 };
            let answer = maps.query(&query).unwrap();
            let (start, end, _) = maps.area_at(query.addr).unwrap();
            assert_eq!((answer.start, answer.end), (start, end));
            assert_eq!(seen(&answer), is);
        }
        // From below the whole way up, over what splits and moves.
        let flags = QueryFlags::COVERING_OR_NEXT | QueryFlags::READABLE;
        let (mut lines, mut addr) = (Vec::new(), STAY);
        while let Ok(answer) = maps.query(&Query { addr, flags, name_size: 4096 }) {
            let mut line = seen(&answer);
            let before = line.start.max(addr) - line.start;
            (line.start, line.offset) = (line.start + before, line.offset + before);
            lines.push(line);
            addr = answer.end;
        }
        assert_listing(&lines, was);
    };
    beside_writers([&any, &staying_ones]);
}

fn seen(answer: &Answer<'_>) -> Seen {
    let letter = |flag, c| if answer.flags.contains(flag) { c } else { '-' };
    let (r, w, x) = (QueryFlags::READABLE, QueryFlags::WRITABLE, QueryFlags::EXECUTABLE);
    Seen {
        start: answer.start,
        end: answer.end,
        prot: format!("{}{}{}p", letter(r, 'r'), letter(w, 'w'), letter(x, 'x')),
        offset: answer.offset,
        inode: answer.inode,
        name: answer.name.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}
