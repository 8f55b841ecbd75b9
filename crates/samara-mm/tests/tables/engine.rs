//! The engine's side.

use crate::machine::{EFAULT, Machine, Outcome, PAGE, SUMS, Seen, play};
use crate::script::{CLOSE, FILES, Limit, OTHER, Origin, Row};
use samara_mm::linux::{self, Host, OpenFile};
use samara_mm::*;
use std::sync::Arc;

type Space = AddressSpace<FileId>;

const HEAP: u64 = 0x5555_0000_0000;
const SPECIAL: u64 = 0x7fff_e000_0000;
const WORD: u64 = 0x7fff_d000_0000;
const SEGMENT: i32 = 5;
/// Memory and swap together.
const MEMORY: u64 = 1 << 36;

/// The files by descriptor, which is their place in `FILES`; and how many hidden ones there have been.
struct World(u64);

impl Host<FileId> for World {
    fn file(&mut self, fd: i32) -> Result<OpenFile<FileId>, Errno> {
        let name = usize::try_from(fd).ok().and_then(|i| FILES.get(i)).ok_or(Errno::EBADF)?;
        let (open, mode) = match *name {
            "f" | "dup" => (1, FileMode::RW),
            "again" => (2, FileMode::RW),
            "ro" => (3, FileMode::READ),
            "wo" => (4, FileMode::WRITE),
            "g" => (5, FileMode::RW),
            "dir" | "pipe" => (6, FileMode::READ | FileMode::UNMAPPABLE),
            "sealed" => (7, FileMode::RW | FileMode::WRITE_SEALED),
            "future-sealed" => (8, FileMode::RW | FileMode::WRITE_SEALED),
            "no-exec" => (9, FileMode::RW | FileMode::NOEXEC),
            "append-only" => (10, FileMode::RW | FileMode::APPEND_ONLY),
            "zero" => (11, FileMode::RW | FileMode::ZERO),
            "zero-ro" => (12, FileMode::READ | FileMode::ZERO),
            "secret" => (13, FileMode::RW),
            _ => return Err(Errno::EBADF),
        };
        if *name == "secret" {
            return Ok(OpenFile { backing: FileId { name: Arc::from("/secretmem (deleted)"), ..file(open) }, mode });
        }
        if mode.contains(FileMode::ZERO) {
            return Ok(OpenFile { backing: FileId { name: Arc::from("/dev/zero"), ..file(open) }, mode });
        }
        Ok(OpenFile { backing: file(open), mode })
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<FileId, Errno> {
        self.0 += 1;
        Ok(file(1000 + self.0))
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        if addr != WORD {
            return Err(Errno::EFAULT);
        }
        to.fill(0);
        to[0] = 1;
        Ok(())
    }

    fn segment(&mut self, id: i32, _prot: Prot) -> Result<Segment<FileId>, Errno> {
        self.0 += 1;
        let backing = FileId { name: Arc::from("/SYSV00000000 (deleted)"), ..file(1000 + self.0) };
        if id == SEGMENT { Ok(Segment { backing, bytes: 4 * PAGE + 100 }) } else { Err(Errno::EINVAL) }
    }

    fn segment_bytes(&mut self, _segment: &FileId) -> u64 {
        4 * PAGE + 100
    }

    fn incore(&mut self, vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        if vec == WORD { Ok(()) } else { Err(Errno::EFAULT) }
    }
}

pub(crate) fn file(open: u64) -> FileId {
    FileId { dev: (0, 1), inode: open, open, name: Arc::from("/file") }
}

pub(crate) struct Engine {
    pub(crate) space: Space,
    world: World,
    /// What the last call did.
    pub(crate) plan: Plan,
}

impl Engine {
    fn new() -> Engine {
        Engine { space: space(65530), world: World(0), plan: Plan::default() }
    }
}

/// As the kernels that rows were first asked of: 7.1 moves with less room.
fn space(max_map_count: usize) -> Space {
    let (overcommit, features) = (Overcommit::Guess { total: MEMORY }, Features::LINUX_7_0);
    Space::new(Config { max_map_count, overcommit, features, ..Config::default() })
}

/// What comes of the row.
pub(crate) fn run(row: &Row) -> Outcome {
    let mut out = Outcome::new();
    play(&mut Engine::new(), &row.steps, &mut out);
    assert!(!out.lacks, "not of the engine: {}", row.text);
    out
}

/// The engine when it has answered these calls as their text says.
pub(crate) fn after(script: &str) -> Engine {
    let row = Row::parse(script, "");
    let (mut engine, mut out) = (Engine::new(), Outcome::new());
    play(&mut engine, &row.steps, &mut out);
    assert_eq!(row.answers_differ(&out), None, "{script}");
    engine
}

impl Machine for Engine {
    fn call(&mut self, nr: u64, args: [u64; 6]) -> i64 {
        // set_mempolicy is no call of the engine's: it concerns a task.
        if nr == 238 {
            return 0;
        }
        let called = linux::call(&mut self.space, &mut self.world, &mut Linux, nr, args);
        let called = called.unwrap_or_else(|| panic!("not a call of the engine: {nr}"));
        self.plan = called.plan;
        called.result
    }

    fn write(&mut self, addr: u64) -> i64 {
        self.space.fault(addr, Access::Write).map_or(-EFAULT, |_| 0)
    }

    fn fault(&mut self, addr: u64, access: Access) -> i64 {
        let mut child = self.space.fork().expect("memory");
        child.fault(addr, access).map_or_else(|refused| -i64::from(refused.si_code()), |_| 0)
    }

    fn query(&mut self, [addr, flags, size, name_size, name]: [u64; 5]) -> i64 {
        let words = [size, flags, addr, 0, 0, 0, 0, 0, 0, 0, name_size, name, 0, 0];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let query = Query::from_bytes(&bytes, PageSize::K4);
        match query.and_then(|q| self.space.query(&q)) {
            Ok(answer) => {
                answer.to_bytes(&mut bytes[..size.min(104) as usize]);
                bytes[24..32].iter().rev().fold(0, |n, b| n << 8 | i64::from(*b))
            }
            Err(e) => -i64::from(e.raw()),
        }
    }

    fn fork(&mut self) -> i64 {
        match self.space.fork() {
            Ok(child) => {
                self.space = child;
                0
            }
            Err(e) => -i64::from(e.raw()),
        }
    }

    fn limit(&mut self, limit: Limit, bytes: u64, relative: bool) -> i64 {
        let (mut limits, used) = (*self.space.limits(), self.space.counters());
        let (which, now) = match limit {
            Limit::As => (&mut limits.address_space, used.total),
            Limit::Data => (&mut limits.data, used.data),
            Limit::Locked => (&mut limits.locked, used.locked),
            Limit::Stack => (&mut limits.stack, 0),
            Limit::SoftData => (&mut limits.data, used.data),
        };
        which.soft = bytes + if relative { now } else { 0 };
        if limit != Limit::SoftData {
            which.hard = which.soft;
        }
        self.space.set_limits(limits);
        0
    }

    fn drop_caps(&mut self) -> i64 {
        self.space.set_caps(Caps::empty());
        0
    }

    fn room(&mut self, areas: u64) -> i64 {
        // The heap is there already, if the row has one.
        let (there, layout) = (self.space.len(), self.space.layout());
        self.space = space(there + areas as usize);
        if layout != Layout::default() {
            self.origin(Origin::Heap);
        }
        0
    }

    fn uffd(&mut self, addr: u64, len: u64, mode: u64) -> Option<i64> {
        let id = if mode & OTHER == 0 { 1 } else { 2 };
        let uffd = Uffd { id, fork_events: false, remap_events: false };
        let done = match mode & !OTHER {
            CLOSE => self.space.close_uffd(id),
            0 => self.space.unregister_uffd(addr, len),
            1 => self.space.register_uffd(addr, len, uffd, Flags::UFFD_MISSING),
            4 => self.space.register_uffd(addr, len, uffd, Flags::UFFD_MINOR),
            _ => self.space.register_uffd(addr, len, uffd, Flags::UFFD_WP),
        };
        Some(done.map_or_else(|e| -i64::from(e.errno.raw()), |_| 0))
    }

    fn origin(&mut self, origin: Origin) -> u64 {
        match origin {
            Origin::Zero | Origin::Last => 0,
            Origin::Heap => {
                // A heap that ends with a page that nothing joins.
                let (start_brk, brk) = (HEAP - PAGE, HEAP - PAGE);
                self.space.set_layout(Layout { start_brk, brk, ..Layout::default() });
                self.space.brk(HEAP).expect("room");
                self.space.protect(HEAP - PAGE, PAGE, Prot::NONE, None).expect("the heap");
                self.space.advise(HEAP - PAGE, PAGE, Advice::DontDump).expect("the heap");
                HEAP
            }
            Origin::Special => {
                let vvar = "rd mr pf io de dd";
                let pages =
                    [("[vvar]", 0, 4, vvar), ("[vvar_vclock]", 4, 6, vvar), ("[vdso]", 6, 8, "rd ex mr mw me de")];
                for (name, from, to, letters) in pages {
                    let area = Area::new(Flags::from_letters(letters), Object::Special(name.into()), 0);
                    self.space.import(SPECIAL + from * PAGE, SPECIAL + to * PAGE, area).expect("free");
                }
                SPECIAL
            }
            Origin::Least => self.space.config().bases.least,
            Origin::Word => WORD,
            Origin::Segment => SEGMENT as u64,
            Origin::File(i) => i as u64,
        }
    }

    fn privileged(&mut self) -> bool {
        true
    }

    fn guesses(&self) -> bool {
        true
    }

    fn sums(&mut self) -> [u64; SUMS.len()] {
        let counters = self.space.counters();
        [counters.total, counters.data, counters.stack, counters.locked]
    }

    fn areas(&mut self, start: u64, end: u64, to: &mut [Seen]) -> usize {
        let mut n = 0;
        for (a, to) in self.space.areas_in(start, end).zip(to) {
            let file = matches!(a.area.object, Object::File(_));
            let offset = if file { a.offset(PageSize::K4) } else { 0 };
            *to = Seen { start: a.start, end: a.end, flags: a.area.flags, offset };
            n += 1;
        }
        n
    }

    fn check(&self) {
        self.space.check().unwrap_or_else(|v| panic!("{v}"));
    }
}
